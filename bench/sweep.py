"""The sweep suite: some hundred functions in several sizes and layouts, small networks and loops of science, and random programs, beside
PyTorch eager and NumPy. Results are compared: one that differs is a failure, and listed first. All run on the cores that there are."""

import collections
import json
import os
import queue
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import harness

LIMIT = 60  # seconds that a library may take for one program's first run, or for the rest of them
SHORT = 100e-6
STRATA = ("large single functions", "other single functions", "chains that fuse", "gradients", "networks", "below 100 us")


def add_options(parser):
    parser.add_argument("--only", metavar="REGEX", default="", help="programs whose name has this")
    parser.add_argument("--all", action="store_true", help="all sizes x layouts x in memory or lazy x with and without gradients")
    parser.add_argument("--seed", type=int, default=1, help="of the random programs")
    parser.add_argument("--count", type=int, default=40, help="how many random programs")
    parser.add_argument("--jit", action="store_true", help="quern's side through TinyJit: without building the graph each time")
    parser.add_argument("--strata", action="store_true", help="only the summary of each stratum, not each program")


class Worker:
    """A process that runs programs; what it says comes through a queue."""

    def __init__(self, libraries, given, folder, memory=False):
        environment = os.environ | {"PYTHONPATH": harness.package(), "QUERN_CACHE_DIR": folder, "PYTHONUNBUFFERED": "1"}
        if memory:
            environment |= {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
        command = [sys.executable, harness.ROOT / "bench/sweep_work.py", ",".join(libraries), given.seed, given.count, int(given.jit),
                   int(given.all), int(memory)]
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=environment)
        self.said, self.errors = queue.Queue(), collections.deque(maxlen=3)
        threading.Thread(target=self.listen, daemon=True).start()
        threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True).start()
        if self.said.get() is None:
            self.process.wait()
            sys.exit(f"bench: the process that runs programs cannot begin: {''.join(self.errors)}")

    def listen(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                self.said.put(json.loads(line))
        self.said.put(None)

    def run(self, name):
        """What it found, or the library that it was in and why it ended there."""
        try:
            self.process.stdin.write(name + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        library = "quern"
        while True:
            try:
                said = self.said.get(timeout=LIMIT)
            except queue.Empty:
                self.stop()
                return None, library, f"over the limit of {LIMIT} s"
            if said is None:
                status = self.process.wait()
                how = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
                return None, library, f"the process ended with {how}: {' '.join(' '.join(self.errors).split())[-300:]}"
            if "found" in said:
                return said["found"], None, None
            library = said["library"]

    def stop(self):
        self.process.kill()
        self.process.wait()


def names(given):
    """Of the programs that are to run. Listed by a process with the package, since their inputs need NumPy."""
    import sweep_functions
    import sweep_networks
    import sweep_random

    every = [*sweep_functions.programs(given.all), *sweep_networks.PROGRAMS, *sweep_random.programs(given.seed, given.count)]
    return [p.name for p in every if re.search(given.only, p.name)]


def measure(libraries, given):
    """What was found of each program, in order."""
    found, worker, start = [], None, time.time()
    wanted = names(given)
    if not wanted:
        sys.exit(f"bench: no program of the sweep has '{given.only}' in its name")
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(wanted):
            left = list(libraries)
            one = {"name": name}
            while left:  # without the library that could not do it, but never without quern
                worker = worker or Worker(left, given, folder)
                result, library, why = worker.run(name)
                if result is not None:
                    one = result | {k: v for k, v in one.items() if k not in result}
                    break
                worker = None
                one[library] = {"error": why}
                one |= {"kind": "unknown", "grad": "gradient" in name, "lazy": "lazy" in name}
                left = [] if library == "quern" else [other for other in left if other != library]
            if left != list(libraries) and worker is not None:  # the next program has all of them
                worker.stop()
                worker = None
            found.append(one)
            if number % 50 == 49:
                print(f"{number + 1} of {len(wanted)} programs, {time.time() - start:.0f} s", flush=True)
    if worker is not None:
        worker.stop()
    print(f"{len(wanted)} programs, {time.time() - start:.0f} s", flush=True)
    return found


def measure_memory(found, peers, given):
    """Adds to what was found how much memory the peers took, where it matters."""
    libraries = [p for p in peers if any("time" in one.get(p, {}) for one in found)]
    large = [one for one in found if libraries and one.get("quern", {}).get("peak", 0) > 1]
    worker = None
    for one in large:
        worker = worker or Worker(libraries, given, "", memory=True)
        result, _, _ = worker.run(one["name"])
        if result is None:
            worker = None
        for peer, peak in (result or {}).items():
            if peer in one:
                one[peer]["peak"] = peak
    if worker is not None:
        worker.stop()


def stratum(one):
    """PyTorch's time says what is short, ours where there is none; what has large inputs is never among that."""
    times = [one[side]["time"] for side in ("torch", "numpy", "quern") if "time" in one.get(side, {})]
    if not times or (times[0] < SHORT and ", large" not in one["name"]):
        return STRATA[5]
    if one["kind"] == "network":
        return STRATA[4]
    if one["grad"]:
        return STRATA[3]
    if one["lazy"] or one["kind"] == "random":
        return STRATA[2]
    return STRATA[0] if ", large" in one["name"] else STRATA[1]


def failures(found):
    """Lines: wrong results first, then what quern could not run, then peers."""
    wrong, errors, others = [], [], []
    for one in found:
        for peer, text in one.get("wrong", {}).items():
            if one.get("peers differ"):  # the tolerance is too narrow for it: a sum that cancels, say
                others.append(f"unsure {one['name']}: beside {peer}: {text}; the peers differ as much")
            else:
                wrong.append(f"WRONG  {one['name']}: beside {peer}: {text}{'; the peers agree' if 'peers differ' in one else ''}")
        if "error" in one.get("quern", {}):
            errors.append(f"FAILED {one['name']}: {one['quern']['error']}")
        others += [f"peer   {one['name']}: {side}: {one[side]['error']}" for side in ("torch", "numpy") if "error" in one.get(side, {})]
    return wrong + errors, others


def seconds(value):
    return f"{value * 1e6:.1f} us" if value < 1e-3 else f"{value * 1e3:.2f} ms" if value < 1 else f"{value:.2f} s"


def mebibytes(value):
    return "" if value is None else f"{value:.1f}"


def compared(found, peer):
    """Pairs of how many times as fast as the peer quern is, and the program; the least first."""
    pairs = [(one[peer]["time"] / one["quern"]["time"], one) for one in found if "time" in one.get(peer, {}) and "time" in one.get("quern", {})]
    return sorted(pairs, key=lambda pair: pair[0])


def print_strata(found, peers):
    print("\nHow many times as fast as the peer quern is, in the median and at how many programs it is below a half, a tenth, a twentieth:\n")
    cells = [("stratum", "peer", "programs", "median", "< 0.5", "< 0.1", "< 0.05", "first run, median")]
    for name in STRATA:
        inside = [one for one in found if "time" in one.get("quern", {}) and stratum(one) == name]
        first = seconds(statistics.median([one["quern"]["first"] for one in inside])) if inside else ""
        for peer in peers or [""]:
            ratios = [r for r, _ in compared(inside, peer)] if peer else []
            counts = [str(sum(r < limit for r in ratios)) if ratios else "" for limit in (0.5, 0.1, 0.05)]
            median = f"{statistics.median(ratios):.2f}" if ratios else ""
            cells.append((name, peer, str(len(ratios) if peer else len(inside)), median, *counts, first))
    print_columns(cells, "<<>>>>>>")


def print_columns(cells, align):
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    for row in cells:
        print("  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, align, widths)).rstrip())


def print_programs(found, peers, jit):
    how = "replayed by TinyJit" if jit else "graph built, scheduled from the cache and run each time"
    for name in STRATA:
        inside = [one for one in found if stratum(one) == name]
        print(f"\n== {name} (quern: {how})\n")
        cells = [("ratio", "quern", *peers, "first run", "peak MiB", *[f"of {p}" for p in peers], "program")]
        ordered = [one for _, one in compared(inside, peers[0])] if peers else []
        ordered += [one for one in inside if one not in ordered and "time" in one.get("quern", {})]
        for one in ordered:
            theirs = [one.get(p, {}) for p in peers]
            ratio = f"{theirs[0]['time'] / one['quern']['time']:.2f}" if theirs and "time" in theirs[0] else ""
            cells.append((ratio, seconds(one["quern"]["time"]), *[seconds(t["time"]) if "time" in t else "" for t in theirs],
                          seconds(one["quern"]["first"]), mebibytes(one["quern"].get("peak")), *[mebibytes(t.get("peak")) for t in theirs],
                          one["name"]))
        print_columns(cells, ">" * (len(cells[0]) - 1) + "<")


def print_extremes(found, peers):
    print("\nLongest first runs, which compile:")
    for one in sorted((o for o in found if "first" in o.get("quern", {})), key=lambda o: -o["quern"]["first"])[:15]:
        print(f"  {seconds(one['quern']['first'])}  {one['name']}")
    for peer in peers:
        pairs = [(one["quern"]["peak"] / max(one[peer]["peak"], 1), one) for one in found
                 if one.get("quern", {}).get("peak") is not None and one.get(peer, {}).get("peak") is not None]
        above = sorted((p for p in pairs if p[0] > 2 and p[1]["quern"]["peak"] > 8), key=lambda p: -p[0])[:15]
        print(f"\nMore than twice the memory of {peer} (quern's own count of its buffers, the growth of the peer's resident set):"
              + ("" if above else " none"))
        for times, one in above:
            print(f"  {times:.1f}x  {one['quern']['peak']:.0f} and {one[peer]['peak']:.0f} MiB  {one['name']}")


def rows(found, peers):
    """In the form that all suites have, with more fields."""
    for one in found:
        ours = one.get("quern", {})
        if "time" not in ours:
            continue
        extra = {"stratum": stratum(one), "first_ms": ours["first"] * 1e3, "peak_mib": ours.get("peak"), "wrong": one.get("wrong")}
        row = {"name": one["name"], "value": ours["time"] * 1e6, "unit": "us"}
        with_time = [p for p in peers if "time" in one.get(p, {})]
        for peer in with_time or [None]:
            theirs = one[peer]["time"] * 1e6 if peer else None
            yield row | {"peer": peer, "peer_value": theirs, "ratio": theirs / row["value"] if peer else None} | extra | {
                "peer_peak_mib": one[peer].get("peak") if peer else None}


def main():
    given = harness.options(peers=["torch", "numpy"], add=add_options)
    cores = str(min(2, len(os.sched_getaffinity(0))))
    os.environ |= dict.fromkeys(("CPU_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), cores)
    print(f"each side on {cores} threads; quern {'through TinyJit' if given.jit else 'eager: the graph is built each time'}")
    found = measure(["quern", *given.peers], given)
    measure_memory(found, given.peers, given)
    bad, others = failures(found)
    if not given.strata:
        print_programs(found, given.peers, given.jit)
        print_extremes(found, given.peers)
    print_strata(found, given.peers)
    if others:
        print(f"\n{len(others)} results that a peer could not give, or where the peers differ:", *others, sep="\n")
    print(f"\n{len(bad)} failures of quern{':' if bad else '.'}")
    print("\n".join(bad))
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(list(rows(found, given.peers)), file, indent=1)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()

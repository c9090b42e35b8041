"""Runs suites for `./dev bench`: one or several, alone, beside peers, or in turns with the build of another commit."""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import harness

COUNTABLE = ("ir", "schedule", "start", "python")  # suites of which one thread does some of the work, always in the same way
TURNS = 3
SLOWER = 0.95


def run_suite(name, options, environment=None, quiet=False):
    """The rows that a suite reports, or None if it failed."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "rows.json"
        command = [sys.executable, harness.ROOT / f"bench/{name}.py", "--json", file, *options]
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} if quiet else {}
        done = subprocess.run(command, env=os.environ | (environment or {}), text=True, **output)
        if done.returncode != 0 and quiet:
            print("\n".join(done.stdout.splitlines()[-5:]))
        if not file.exists():
            return None, done.returncode or 1
        return json.loads(file.read_text(encoding="utf-8")), done.returncode


def run_alone(names, options):
    """All rows, each with its suite, and the suites that failed."""
    rows, failed = [], []
    for name in names:
        print(f"\n== bench {name}", flush=True)
        found, status = run_suite(name, options(name))
        rows += [{"suite": name} | row for row in found or []]
        if status:
            failed.append(name)
    return rows, failed


class Side:
    """One of two builds: the best value of each measurement, and all of them."""

    def __init__(self, build):
        self.build, self.best, self.all = build, {}, {}

    def take_turn(self, name, counted, options):
        environment = {"QUERN_BENCH_BUILD": str(self.build), "QUERN_BENCH_COUNTED": counted}
        rows, status = run_suite(name, options, environment, quiet=True)
        for row in rows or []:
            self.all.setdefault(row["name"], []).append(row["value"])
        harness.keep_best(self.best, rows or [])
        return status == 0


def compare(name, commit, folder, options):
    """The rows of a suite with the other commit as the peer, and whether ours ran. Both take turns, so that what else the machine does
    meets both."""
    sides = {"new": Side(harness.ROOT / "build/release"), commit: Side(folder / "build/release")}
    counts = name in COUNTABLE and shutil.which("valgrind") is not None
    ok = dict.fromkeys(sides, True)
    for turn in range(TURNS):
        for label, side in sides.items():
            if ok[label]:
                print(f"{name}: {label}, turn {turn + 1} of {TURNS} ...", flush=True)
                ok[label] = side.take_turn(name, ("done" if turn else "now") if counts else "", options)
    new, old = sides.values()
    if not ok[commit]:
        print(f"{name}: {commit} could not run all of it; what it did not measure is shown as new")
    rows = []
    for found in new.best.values():
        before = old.best.get(found["name"])
        if before is not None and before["unit"] != found["unit"]:
            before = None
        rows.append({
            "suite": name, **{key: found[key] for key in ("name", "value", "unit")},
            "peer": commit if before else None, "peer_value": before and before["value"],
            "ratio": before and harness.ratio(found["unit"], found["value"], before["value"]),
            "values": new.all[found["name"]], "peer_values": old.all.get(found["name"], []) if before else [],
        })
    return rows, ok["new"]


def print_comparison(rows, commit):
    shown = [row | {"name": f"{row['suite']}: {row['name']}", "peer": "" if row["peer"] else "(new)"} for row in rows]
    print("\n" + harness.table(shown, ("name", "now", "unit", "", commit, "times as fast")))
    print("Rows in instructions are counted by callgrind: one run, no noise. All others are the best of several turns.")
    slower = sorted((row for row in rows if row["ratio"] is not None and row["ratio"] < SLOWER), key=lambda row: row["ratio"])
    print(f"\n{len(slower)} of {sum(row['ratio'] is not None for row in rows)} below {SLOWER} times {commit}" + (":" if slower else "."))
    for row in slower:
        ranges = [(min(values), max(values)) for values in (row["values"], row["peer_values"])]
        overlap = len(row["values"]) > 1 and ranges[0][0] <= ranges[1][1] and ranges[1][0] <= ranges[0][1]
        spread = " and ".join(f"{harness.number(low)} to {harness.number(high)}" for low, high in ranges)
        print(f"  {harness.times(row['ratio'])}  {row['suite']}: {row['name']}  ({spread} {row['unit']}"
              f"{': the turns overlap' if overlap else ''})")


def main():
    parser = argparse.ArgumentParser(description="Suites of benchmarks; run it through ./dev bench.")
    parser.add_argument("suites", nargs="+")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--peers", metavar="A,B", nargs="?", const="")
    parser.add_argument("--against", metavar="COMMIT,FOLDER", help="the other commit, and where it was built")
    given, others = parser.parse_known_args()
    if others and "sweep" not in given.suites:
        parser.error(f"only the suite sweep takes {' '.join(others)}")
    peers = [] if given.peers is None else [f"--peers={given.peers}" if given.peers else "--peers"]

    def options(name):
        return [*peers, *(others if name == "sweep" else [])]

    if given.against:
        commit, folder = given.against.split(",", 1)
        rows, failed = [], []
        for name in given.suites:
            found, ok = compare(name, commit, pathlib.Path(folder).resolve(), options(name))
            rows += found
            if not ok:
                failed.append(name)
        print_comparison(rows, commit)
    else:
        rows, failed = run_alone(given.suites, options)
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        print(f"\nwritten: {given.json}")
    if failed:
        sys.exit(f"bench: failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()

"""What every suite of benchmarks shares: options, running the two sides, the table and the JSON. See README.md."""

import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIELDS = ("name", "value", "unit", "peer", "peer_value", "ratio")
MODULES = {"openblas": "numpy", "memory": "json"}  # what a peer imports, where that is not its name

# What run.py says when it compares two commits: which build is measured, that the suite is repeated by run.py and not by
# itself, and whether instructions are counted in this turn.
BUILD = pathlib.Path(os.environ.get("QUERN_BENCH_BUILD", ROOT / "build/release"))
AGAINST = "QUERN_BENCH_BUILD" in os.environ
COUNTED = os.environ.get("QUERN_BENCH_COUNTED", "")  # "" in seconds, "now" in instructions, "done" in an earlier turn


def options(peers=(), add=lambda parser: None):
    """The options that `./dev bench` passes on. `peers`: the names of the peers that the suite knows; `add` adds options that only
    this suite has. A peer that was asked for and is not installed ends the suite with an error."""
    parser = argparse.ArgumentParser(description="A suite of benchmarks; run it through ./dev bench.")
    parser.add_argument("--json", metavar="FILE", help="write the results to FILE")
    parser.add_argument("--peers", metavar="A,B", nargs="?", const=",".join(peers), default="",
                        help=f"run the peers too (default: all of {', '.join(peers) or 'none'})")
    add(parser)
    given = parser.parse_args()
    given.peers = [peer for peer in given.peers.split(",") if peer]
    for peer in given.peers:
        if peer not in peers:
            parser.error(f"this suite has no peer '{peer}'; it has: {', '.join(peers) or 'none'}")
    for peer in given.peers:
        if importlib.util.find_spec(MODULES.get(peer, peer)) is None:
            sys.exit(f"bench: the peer '{peer}' is not installed in the environment of {sys.executable}")
    return given


def program(suite):
    """The path of the program that ./dev built from bench/<suite>.cpp."""
    path = BUILD / f"bench_{suite}"
    if not path.exists():
        sys.exit(f"bench: {path} is missing: is there a bench/{suite}.cpp?")
    return str(path)


def package():
    """The folder of the Python package that ./dev built, for PYTHONPATH."""
    path = BUILD / "python"
    if not list((path / "quern").glob("_core.*.so")):
        sys.exit(f"bench: there is no Python package in {path}")
    return str(path)


def run(command, may_be_silent=False):
    """Runs one side and returns its measurements: each line of its output that begins with '{', as a dict with name,
    value and unit. Everything else that it prints is shown as it comes."""
    found = []
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    command = [str(part) for part in command]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        for line in process.stdout:
            if line.startswith("{"):
                found.append(measurement(line))
            else:
                print(line, end="", flush=True)
    if process.returncode != 0:
        sys.exit(f"bench: {command[0]} failed with status {process.returncode}")
    if not found and not may_be_silent:
        sys.exit(f"bench: {command[0]} measured nothing")
    return found


def keep_best(kept, rows):
    """Adds measurements to those that are kept by name, where they are better or new."""
    for row in rows:
        known = kept.setdefault(row["name"], row)
        if (ratio(row["unit"], row["value"], known["value"]) or 0) > 1:
            kept[row["name"]] = row


def best(command, runs):
    """Runs one side several times, each in a process of its own, and keeps the best value of each measurement: for work
    that a process does only once at full length, because what it computes is remembered."""
    kept = {}
    for _ in range(1 if AGAINST else runs):
        keep_best(kept, run(command))
    return list(kept.values())


def instructions(command):
    """How many instructions a process executes, as callgrind counts them, and what it measured. Only what one thread does, and does
    in the same way each time, may be counted."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "callgrind.out"
        rows = run(["valgrind", "--tool=callgrind", "--quiet", f"--callgrind-out-file={file}", *command], may_be_silent=True)
        totals = [line for line in file.read_text(encoding="utf-8").splitlines() if line.startswith("totals:")]
    return int(totals[0].split()[1]), rows


def counted(name, command):
    """The instructions of a whole process as a measurement, instead of its times; with what it counted itself. Nothing if that was
    done in an earlier turn: instructions are the same in each."""
    if COUNTED != "now":
        return []
    count, rows = instructions(command)
    kept = [row for row in rows if row["unit"] not in ("ns", "us", "ms", "s", "MiB") and not row["unit"].endswith("/s")]
    return [{"name": f"{name}: whole process", "value": count, "unit": "instructions"}, *kept]


def in_turn(sides, rounds=3, once=()):
    """Lets all sides measure one after the other, several times, and keeps the best of each: other work on the machine
    lasts longer than a measurement, and must not meet one side alone. `sides`: functions that return measurements, by
    name; those in `once` take so long that they have one turn."""
    kept = {name: {} for name in sides}
    rounds = 1 if AGAINST else rounds
    for turn in range(rounds):
        for name, measure in sides.items():
            if turn == 0 or name not in once:
                print(f"{name} ({turn + 1} of {1 if name in once else rounds}) ...", flush=True)
                keep_best(kept[name], measure())
    return {name: list(rows.values()) for name, rows in kept.items()}


def measurement(line):
    found = json.loads(line)
    if set(found) != {"name", "value", "unit"} or not isinstance(found["value"], (int, float)):
        sys.exit(f"bench: a measurement has name, value and unit, and its value is a number; got: {line.strip()}")
    return found


def ratio(unit, ours, theirs):
    """How many times better we are. A unit that ends in "/s" is a rate, and more of it is better."""
    above, below = (ours, theirs) if unit.endswith("/s") else (theirs, ours)
    return above / below if below else None


def merge(ours, theirs):
    """Rows with FIELDS: one for each measurement of ours and each peer that has it, or one without a peer. `theirs`:
    the measurements of each peer by its name."""
    by_name = {peer: {row["name"]: row for row in rows} for peer, rows in theirs.items()}
    ours_by_name = {row["name"]: row for row in ours}
    for peer, rows in by_name.items():
        for name, row in rows.items():
            if name not in ours_by_name:
                sys.exit(f"bench: {peer} measured '{name}', quern did not")
            if row["unit"] != ours_by_name[name]["unit"]:
                sys.exit(f"bench: '{name}' is in {ours_by_name[name]['unit']}, of {peer} in {row['unit']}")
    merged = []
    for row in ours:
        compared = [(peer, rows[row["name"]]["value"]) for peer, rows in by_name.items() if row["name"] in rows]
        for peer, value in compared or [(None, None)]:
            better = None if peer is None else ratio(row["unit"], row["value"], value)
            merged.append(dict(zip(FIELDS, (row["name"], row["value"], row["unit"], peer, value, better))))
    return merged


def number(value):
    return "" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def times(ratio):
    return "" if ratio is None else f"{ratio:.1f}x" if ratio >= 10 else f"{ratio:.2f}x"


def table(rows, titles=("name", "quern", "unit", "peer", "peer's", "ratio")):
    """The rows as text in aligned columns: names to the left, numbers to the right."""
    cells = [titles]
    for row in rows:
        cells.append((row["name"], number(row["value"]), row["unit"], row["peer"] or "", number(row["peer_value"]),
                      times(row["ratio"])))
    widths = [max(len(row[i]) for row in cells) for i in range(len(FIELDS))]
    align = "<><<>>"
    return "\n".join("  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, align, widths)).rstrip()
                     for row in cells)


def report(ours, theirs, given):
    """Prints the table, and writes the JSON if it was asked for."""
    rows = merge(ours, theirs)
    print("\n" + table(rows))
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")

"""What every suite of benchmarks shares: options, running the two sides, the table and the JSON. See README.md."""

import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIELDS = ("name", "value", "unit", "peer", "peer_value", "ratio")


def options(peers=()):
    """The options that `./dev bench` passes on. `peers`: the names of the peers that the suite knows."""
    parser = argparse.ArgumentParser(description="A suite of benchmarks; run it through ./dev bench.")
    parser.add_argument("--json", metavar="FILE", help="write the results to FILE")
    parser.add_argument("--peers", metavar="A,B", nargs="?", const=",".join(peers), default="",
                        help=f"run the peers too (default: all of {', '.join(peers) or 'none'})")
    given = parser.parse_args()
    given.peers = [peer for peer in given.peers.split(",") if peer]
    for peer in given.peers:
        if peer not in peers:
            parser.error(f"this suite has no peer '{peer}'; it has: {', '.join(peers) or 'none'}")
    # PyTorch is large: nothing here installs it, and it is left out where it is not, unless it alone is asked for
    if "torch" in given.peers and given.peers != ["torch"] and importlib.util.find_spec("torch") is None:
        given.peers.remove("torch")
        print("PyTorch is not installed, and left out")
    return given


def program(suite):
    """The path of the program that ./dev built from bench/<suite>.cpp."""
    path = ROOT / "build" / "release" / f"bench_{suite}"
    if not path.exists():
        sys.exit(f"bench: {path.relative_to(ROOT)} is missing: is there a bench/{suite}.cpp?")
    return str(path)


def package():
    """The folder of the Python package that ./dev built, for PYTHONPATH."""
    path = ROOT / "build" / "release" / "python"
    if not list((path / "quern").glob("_core.*.so")):
        sys.exit(f"bench: there is no Python package in {path.relative_to(ROOT)}")
    return str(path)


def run(command):
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
    if not found:
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
    for _ in range(runs):
        keep_best(kept, run(command))
    return list(kept.values())


def in_turn(sides, rounds=3, once=()):
    """Lets all sides measure one after the other, several times, and keeps the best of each: other work on the machine
    lasts longer than a measurement, and must not meet one side alone. `sides`: functions that return measurements, by
    name; those in `once` take so long that they have one turn."""
    kept = {name: {} for name in sides}
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


def table(rows):
    """The rows as text in aligned columns: names to the left, numbers to the right."""
    cells = [("name", "quern", "unit", "peer", "peer's", "ratio")]
    for row in rows:
        better = "" if row["ratio"] is None else f"{row['ratio']:.1f}x" if row["ratio"] >= 1 else f"{row['ratio']:.2f}x"
        cells.append((row["name"], number(row["value"]), row["unit"], row["peer"] or "", number(row["peer_value"]), better))
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
        print(f"\nwritten: {given.json}")

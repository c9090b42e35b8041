"""The python suite: the examples of examples/python with quern and, with only the import changed, with tinygrad; and what a
call costs beside tinygrad and PyTorch."""

import os
import sys
import tempfile

import harness

# How many steps each takes, and of how many first ones results are compared: later ones differ by what rounding has become.
# That is soon so of mnist, where tinygrad adds up the 36,864 numbers of a mean one after the other (its third loss is off by
# 2.6e-3 of what float64 gives, that of quern by 6e-4).
STEPS = {"mnist": (12, 2), "gan": (30, 10), "transformer": (20, 10), "resnet": (8, 8), "decoding": (40, 10), "rnn": (20, 10)}
TOLERANCE = 2e-3

given = harness.options(peers=["tinygrad", "torch"])
os.environ |= {"PYTHONPATH": harness.package(), "DEV": "CPU", "CC": "clang-19", "CACHELEVEL": "0"}


def measure(program, library, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        os.environ["QUERN_CACHE_DIR"] = folder
        return harness.run([sys.executable, harness.ROOT / f"bench/{program}.py", library, *arguments])


def split(rows):
    """Measurements, and results by name."""
    times = [row for row in rows if row["unit"] != "result"]
    return times, {row["name"]: row["value"] for row in rows if row["unit"] == "result"}


def compare(example, compared, ours, theirs):
    """Ends the run if results differ by more than the tolerance."""
    worst = 0
    for name, value in ours.items():
        if int(name.split("step ")[1].split(",")[0]) >= compared:
            continue
        worst = max(worst, abs(value - theirs[name]) / max(1, abs(theirs[name])))
        if not worst <= TOLERANCE:
            sys.exit(f"bench: {name}: {value} of quern, {theirs[name]} of tinygrad")
    print(f"{example}: the results of the first {compared} steps agree within {worst:.1e}")


ours, theirs = [], {peer: [] for peer in given.peers}
for example, (steps, compared) in STEPS.items():
    print(f"{example} ...", flush=True)
    times, results = split(measure("python_script", "quern", example, steps))
    ours += times
    if "tinygrad" in theirs:
        times, expected = split(measure("python_script", "tinygrad", example, steps))
        theirs["tinygrad"] += times
        compare(example, compared, results, expected)

sides = {name: lambda name=name: measure("python_overhead", name) for name in ("quern", *given.peers)}
for name, rows in harness.in_turn(sides).items():
    (ours if name == "quern" else theirs[name]).extend(rows)
harness.report(ours, theirs, given)

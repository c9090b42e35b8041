"""The python suite: the examples of examples/python with quern and, with only the import changed, with tinygrad; and what a
call costs beside tinygrad and PyTorch."""

import os
import sys
import tempfile

import harness
import python_overhead

# how many steps each takes; of the first COMPARED results are compared, later ones differ by what rounding has become
STEPS = {"mnist": 12, "gan": 30, "transformer": 20, "resnet": 8, "decoding": 40, "rnn": 20}
COMPARED, TOLERANCE = 10, 1e-4

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


def compare(example, ours, theirs):
    """Whether results are the same within the tolerance; says where they first are not."""
    worst = 0
    for name, value in ours.items():
        if int(name.split("step ")[1].split(",")[0]) >= COMPARED:
            continue
        worst = max(worst, abs(value - theirs[name]) / max(1, abs(theirs[name])))
        if not worst <= TOLERANCE:
            print(f"{name}: {value} of quern, {theirs[name]} of tinygrad: NOT THE SAME")
            return False
    print(f"{example}: the results of the first steps agree within {worst:.1e}")
    return True


ours, same, theirs = [], True, {peer: [] for peer in given.peers}
for example, steps in STEPS.items():
    print(f"{example} ...", flush=True)
    times, results = split(measure("python_script", "quern", example, steps))
    ours += times
    if "tinygrad" in theirs:
        times, expected = split(measure("python_script", "tinygrad", example, steps))
        theirs["tinygrad"] += times
        same = compare(example, results, expected) and same

def instructions_of_calls():
    """What a call costs in instructions: how many more a process executes that does it more often."""
    os.environ |= {"CPU_THREADS": "1", "PYTHONHASHSEED": "0"}
    command = [sys.executable, harness.ROOT / "bench/python_overhead.py", "quern"]

    def count(name, calls):
        return harness.instructions([*command, name, calls])[0]

    with tempfile.TemporaryDirectory() as folder:
        os.environ["QUERN_CACHE_DIR"] = folder
        count("realize", 0)  # fills the cache: kernels are read from there afterwards
        none = count("realize", 0)
        for name, calls in {"realize": 1000, "replay": 5000, "build": 5}.items():
            yield {"name": python_overhead.TITLES[name], "value": (count(name, calls) - none) / calls, "unit": "instructions"}


if harness.COUNTED:
    ours += instructions_of_calls() if harness.COUNTED == "now" else []
else:
    sides = {name: lambda name=name: measure("python_overhead", name) for name in ("quern", *given.peers)}
    for name, rows in harness.in_turn(sides).items():
        (ours if name == "quern" else theirs[name]).extend(rows)
harness.report(ours, theirs, given)
sys.exit(0 if same else "bench: results differ from those of tinygrad")

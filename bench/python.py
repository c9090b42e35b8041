"""The python suite: the examples of examples/python with quern and, with only the import changed, with tinygrad; and what a
call costs beside tinygrad and PyTorch."""

import os
import sys
import tempfile

import harness

# how many steps each takes
STEPS = {"mnist": 12, "gan": 30, "transformer": 20, "resnet": 8, "decoding": 40, "rnn": 20}
# Results of the first steps have to be those of tinygrad: in float64, where rounding does not matter, and in float32. There
# what rounding does grows from step to step (a ReLU that opens on one side only), and it is tinygrad's float64 that
# results are compared with: its float32 may be farther from it than ours.
COMPARED = 10
TOLERANCE = {"float64": 1e-4, "float32": 2e-3}

given = harness.options(peers=["tinygrad", "torch"])
os.environ |= {"PYTHONPATH": harness.package(), "DEV": "CPU", "CC": "clang-19", "CACHELEVEL": "0"}


def measure(program, library, *arguments, dtype="float32"):
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"QUERN_CACHE_DIR": folder, "DEFAULT_FLOAT": dtype, "OPTIM_DTYPE": dtype}
        return harness.run([sys.executable, harness.ROOT / f"bench/{program}.py", library, *arguments])


def split(rows):
    """Measurements, and results by name."""
    times = [row for row in rows if row["unit"] != "result"]
    return times, {row["name"]: row["value"] for row in rows if row["unit"] == "result"}


def distance(results, expected):
    """By how much the results of the first steps differ at most."""
    return max(abs(results[name] - value) / max(1, abs(value)) for name, value in expected.items())


def compare(example, ours, theirs):
    """Whether float32 and float64 of quern are as near to float64 of tinygrad as they have to be; `ours` and `theirs` are
    the results in float32."""
    steps = min(COMPARED, STEPS[example])
    _, expected = split(measure("python_script", "tinygrad", example, steps, dtype="float64"))
    _, wide = split(measure("python_script", "quern", example, steps, dtype="float64"))
    far = {"float64": distance(wide, expected), "float32": distance(ours, expected)}
    same = all(far[dtype] <= limit for dtype, limit in TOLERANCE.items())
    print(f"{example}: {steps} steps of quern differ from tinygrad's in float64 by {far['float64']:.1e}, in float32 by"
          f" {far['float32']:.1e} (tinygrad's own float32 by {distance(theirs, expected):.1e}): {'the same' if same else 'NOT THE SAME'}")
    return same


ours, same, theirs = [], True, {peer: [] for peer in given.peers}
for example, steps in STEPS.items():
    print(f"{example} ...", flush=True)
    times, results = split(measure("python_script", "quern", example, steps))
    ours += times
    if "tinygrad" in theirs:
        times, expected = split(measure("python_script", "tinygrad", example, steps))
        theirs["tinygrad"] += times
        same = compare(example, results, expected) and same

sides = {name: lambda name=name: measure("python_overhead", name) for name in ("quern", *given.peers)}
for name, rows in harness.in_turn(sides).items():
    (ours if name == "quern" else theirs[name]).extend(rows)
harness.report(ours, theirs, given)
sys.exit(0 if same else "bench: results differ from those of tinygrad")

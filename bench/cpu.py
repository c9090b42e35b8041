"""The cpu suite: kernels on one core and on all, beside libraries, compilers, and the memory itself."""

import functools
import os
import sys

import harness
import start


def on(cores, command):
    """The measurements of a process that may use so many cores, and that says so in their names."""
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, allowed[:cores])
    os.environ["CPU_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(cores)
    try:
        rows = harness.run(command)
    finally:
        os.sched_setaffinity(0, allowed)
    where = "1 core" if cores == 1 else f"{cores} cores"
    return [row | {"name": f"{row['name']}, {where}"} for row in rows]


def both(command):
    return [row for cores in sorted({1, len(os.sched_getaffinity(0))}) for row in on(cores, command)]


given = harness.options(peers=["memory", "openblas", "onnxruntime", "jax", "torch", "tinygrad"])
commands = {"quern": [harness.program("cpu")]}
for peer in given.peers:
    commands[peer] = ([harness.program("cpu"), "memory"] if peer == "memory"
                      else [sys.executable, harness.ROOT / f"bench/cpu_{peer}.py"])
theirs = harness.in_turn({name: functools.partial(both, command) for name, command in commands.items()},
                         once={"tinygrad"})
ours = theirs.pop("quern")
first, theirs_first = start.measure([peer for peer in given.peers if peer in start.PEERS])
for peer, rows in theirs_first.items():
    theirs[peer] += rows
harness.report(ours + first, theirs, given)

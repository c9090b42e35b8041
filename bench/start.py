"""The start suite: from nothing to the first result, each in a process of its own. Ours counts from the start of the
process; peers count from behind their imports. Weights are zeros that stand in memory."""

import os
import sys
import tempfile
import time

import harness

PEERS = {"tinygrad": ["softmax", "resnet18", "lower"], "jax": ["softmax", "resnet18"]}


def started(name):
    os.environ["START_NS"] = str(time.clock_gettime_ns(time.CLOCK_MONOTONIC))
    return harness.run([harness.program("start"), name])


def least(measure, runs=1 if harness.AGAINST else 3):
    """Of several runs that give the same measurements, the least of each."""
    return [min(rows, key=lambda row: row["value"]) for rows in zip(*(measure() for _ in range(runs)))]


def cold(name):
    with tempfile.TemporaryDirectory() as folder:
        os.environ["QUERN_CACHE_DIR"] = folder
        return started(name)


def warm(name):
    with tempfile.TemporaryDirectory() as folder:
        os.environ["QUERN_CACHE_DIR"] = folder
        started(name)
        return [row | {"name": row["name"] + ", kept on disk"} for row in least(lambda: started(name))]


def measure(peers):
    """Our measurements, and those of each peer by its name."""
    names = ("softmax", "resnet18") if harness.COUNTED else ("softmax", "resnet18", "lower")
    ours = [row for name in names for row in least(lambda: cold(name))]
    if harness.COUNTED:
        ours += harness.counted("ResNet-50, batch 64: tensors to programs", [harness.program("start"), "lower"])
    ours += [row for name in ("softmax", "resnet18") for row in warm(name)]
    theirs = {}
    for peer in peers:
        print(f"{peer} ...", flush=True)
        theirs[peer] = [row for name in PEERS[peer]
                        for row in harness.run([sys.executable, harness.ROOT / f"bench/start_{peer}.py", name])]
    return ours, theirs


if __name__ == "__main__":
    given = harness.options(peers=list(PEERS))
    ours, theirs = measure(given.peers)
    harness.report(ours, theirs, given)

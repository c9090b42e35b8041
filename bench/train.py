"""The train suite: a training step of a network for MNIST, with a fresh cache."""

import functools
import os
import sys
import tempfile

import harness

given = harness.options(peers=["tinygrad", "jax", "torch"])


def ours_with_an_empty_cache():
    with tempfile.TemporaryDirectory() as folder:
        os.environ["QUERN_CACHE_DIR"] = folder
        return harness.run([harness.program("train")])


sides = {"quern": ours_with_an_empty_cache}
for peer in given.peers:
    sides[peer] = functools.partial(harness.run, [sys.executable, harness.ROOT / f"bench/train_{peer}.py"])
theirs = harness.in_turn(sides)
ours = theirs.pop("quern")
harness.report(ours, theirs, given)

"""What the peers of the train suite share: data, and how a step is measured."""

import json
import time

import numpy as np

NAME = "training step, MNIST, batch 128"
random = np.random.default_rng(0)
IMAGES = random.standard_normal((128, 1, 28, 28), dtype=np.float32)
DIGITS = random.integers(0, 10, 128).astype(np.int32)


def measured(name, value, unit):
    print(json.dumps({"name": name, "value": value, "unit": unit}), flush=True)


def measure(make, runs):
    """`make` builds everything and returns a function that does one step and waits for its loss."""
    start = time.perf_counter()
    step = make()
    step()
    measured(f"{NAME}: first", time.perf_counter() - start, "s")
    step(), step()
    least = 1e30
    for _ in range(runs):
        start = time.perf_counter()
        step()
        least = min(least, time.perf_counter() - start)
    measured(NAME, 1e3 * least, "ms")

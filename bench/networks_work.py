"""One side of the suite `networks`: runs networks, forward and as a training step, and prints a measurement for each.

    python networks_work.py LIBRARY REGEX RESULTS [eager]

RESULTS is a file for what was computed, by which the sides are compared."""

import json
import re
import sys
import time

import numpy as np

from networks_libraries import LIBRARIES
from networks_models import MODELS, Weights

ENOUGH, MOST = 0.6, 40  # seconds and runs of a measurement
RATE = 0.01


class Running:
    """A network of one size in one library."""

    def __init__(self, library, sizes, forward, train, eager):
        self.L, self.forward, self.train = library, forward, train
        rng = np.random.default_rng(7)
        self.inputs = [library.array(self.values(rng, i)) for i in sizes]
        self.N = Weights(library, rng)
        self.run = self.step if train else self.result
        if library.name == "quern":
            from quern import TinyJit

            self.N.begin(train)
            self.forward(self.N, library, *self.inputs)  # its weights are made outside of what is captured
            self.run = self.realized if eager else TinyJit(self.realized)
        elif not train:
            self.run = self.without_gradient

    @staticmethod
    def values(rng, of):
        if isinstance(of[1], tuple):
            return rng.integers(0, of[0], of[1]).astype("int32")
        return rng.standard_normal(of).astype("float32")

    def result(self, *inputs):
        self.N.begin(self.train)
        return [self.forward(self.N, self.L, *inputs)]

    def step(self, *inputs):
        """One step of gradient descent; returns the loss. Weights return to where they were, so that all steps are alike."""
        result = self.result(*inputs)[0]
        loss = (result * result).mean()
        gradients = self.L.gradients(loss, self.N.all)
        if self.L.name == "quern":
            return [loss, *(w.detach() - RATE * g for w, g in zip(self.N.all, gradients))]
        with self.L.t.no_grad():
            return [loss, *(w - RATE * g for w, g in zip(self.N.all, gradients))]

    def realized(self, *inputs):
        results = self.step(*inputs) if self.train else self.result(*inputs)
        self.L.Tensor.realize(*results)
        return results

    def without_gradient(self, *inputs):
        with self.L.t.no_grad():
            return self.result(*inputs)

    def timed(self):
        start = time.perf_counter()
        results = self.run(*self.inputs)
        return time.perf_counter() - start, results


def measure(name, running, results):
    first, found = running.timed()
    results[name] = [running.L.numpy(found[0])]
    if running.train:
        results[name] += [running.L.numpy(found[k]) for k in (1, len(found) // 2, -1)]
    least, total, runs = float("inf"), 0.0, 0
    running.timed()
    running.timed()
    while runs < MOST and (runs < 3 or total < ENOUGH):
        took, found = running.timed()
        del found
        least, total, runs = min(least, took), total + took, runs + 1
    for kind, value in (("", least), (", first result", first)):
        print(json.dumps({"name": name + kind, "value": value * 1e3, "unit": "ms"}), flush=True)


def main():
    library, pattern, file = LIBRARIES[sys.argv[1]](), re.compile(sys.argv[2]), sys.argv[3]
    results = {}
    for name, sizes, forward in MODELS:
        for size in sizes:
            for train in (False, True):
                title = f"{name} {size[0]}, {'training step' if train else 'forward'}"
                if pattern.search(title):
                    measure(title, Running(library, size[1:], forward, train, "eager" in sys.argv), results)
    np.savez(file, **{f"{name}#{i}": v for name, values in results.items() for i, v in enumerate(values)})


if __name__ == "__main__":
    main()

"""One side of the python suite: what a call costs where there is next to nothing to compute.

    python bench/python_overhead.py LIBRARY

and for counting instructions, with no clock: so many calls of one of them, after a few of each.

    python bench/python_overhead.py LIBRARY realize|replay|build CALLS"""

import importlib
import sys
import time

from python_script import measured

OPS = 1000


def best(function, calls, runs=15):
    """Microseconds for one call."""
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        for _ in range(calls):
            function()
        times.append((time.perf_counter() - begin) / calls)
    return min(times) * 1e6


def chain(a, b):
    """OPS operations, each on the result of the one before."""
    x = a
    for _ in range(OPS // 2):
        x = (x + b) * b
    return x


def of_torch():
    import torch

    torch.set_num_threads(1)
    a, b = torch.tensor([1.0, 2, 3, 4]), torch.tensor([5.0, 6, 7, 8])
    return lambda: a + b, lambda: a + b, lambda: chain(a, b)  # there is no graph: it computes


def of_tensors(library):
    module = importlib.import_module(library)
    a, b = (module.Tensor(values).realize() for values in ([1.0, 2, 3, 4], [5.0, 6, 7, 8]))
    add = module.TinyJit(lambda x, y: (x + y).realize())
    return lambda: (a + b).realize(), lambda: add(a, b), lambda: chain(a, b)


TITLES = {"realize": "(a + b).realize(), 4 elements", "replay": "jit replay of a + b, 4 elements",
          "build": f"a graph of {OPS:,} operations"}


def main(library, counted=None, calls=0):
    functions = dict(zip(TITLES, of_torch() if library == "torch" else of_tensors(library)))
    for name, function in functions.items():
        for _ in range(1 if name == "build" else 10):
            function()
    if counted:
        for _ in range(int(calls)):
            functions[counted]()
        return
    for name, calls in {"realize": 100, "replay": 1000, "build": 2}.items():
        measured(TITLES[name], best(functions[name], calls), "us")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""One process of the sweep: reads names of programs, a line each, runs them with the libraries that are asked for, and prints what it
found as a line of JSON each; see sweep.py.

    python sweep_work.py LIBRARIES SEED COUNT JIT ALL MEMORY

With MEMORY it only runs each once, for the memory that it takes: then malloc is told, by the environment, to give memory back at once,
which would cost time."""

import json
import os
import sys
import time
import traceback

import numpy as np

import sweep_functions
import sweep_networks
import sweep_random
from sweep_libraries import LIBRARIES

FIRST, ONE_RUN = 30.0, 5.0  # seconds after which the first run, which compiles, and after which any other is not repeated
ENOUGH, MOST = 0.03, 60  # seconds and runs that a turn takes
TURNS = 2
TOLERANCE = 1e-4  # of the greatest value


def say(**what):
    print(json.dumps(what), flush=True)


# ---- inputs

def based(array, layout):
    """An array that holds the values, and how a view of it shows them."""
    if layout == "transposed" and array.ndim > 1:
        order = tuple(reversed(range(array.ndim)))
        return np.ascontiguousarray(array.transpose(order)), lambda L, x: L.flipped(x, order)
    if layout == "stepped" and array.ndim > 0:
        base = np.zeros((*array.shape[:-1], 2 * array.shape[-1] + 1), array.dtype)
        base[..., 1::2] = array
        return base, lambda L, x: x[..., 1::2]
    if layout == "broadcast" and array.ndim > 1 and array.dtype.kind == "f":
        shape = array.shape
        return array[:1].copy(), lambda L, x: np.broadcast_to(x, shape) if isinstance(x, np.ndarray) else x.expand(*shape)
    return array, lambda L, x: x


def lazily(L, x):
    """The same values, times what is 1 and takes long to compute."""
    if L.name == "numpy":
        return x * (np.sin(x) ** 2 + np.cos(x) ** 2)
    return x * (x.sin().square() + x.cos().square())


class Prepared:
    """A program with its inputs in one library: run() computes it, and waits."""

    def __init__(self, program, library):
        self.library, self.L = library, LIBRARIES_MADE[library]
        rng = np.random.default_rng(program.seed())
        arrays = [i.make(rng) for i in program.inputs]
        # weights and indices stay as they are: a view of a weight is another program
        layouts = [program.layout if program.kind != "network" and not i.is_index else "contiguous" for i in program.inputs]
        made = [based(a, layout) for a, layout in zip(arrays, layouts)]
        self.inputs = [view(self.L, self.L.array(base)) for base, view in made]
        if library == "torch" and program.grad is not None:
            self.inputs = [self.L.with_gradient(x) if n in program.grad else x for n, x in enumerate(self.inputs)]
        self.program, self.weights = program, None
        function = program.functions[library]
        self.function = function if program.kind == "function" else lambda *xs: function(self.L, *xs)
        self.compute = self.results
        if library == "quern" and self.L.jit:
            jitted = self.L.TinyJit(lambda *xs: self.realized(self.results(*xs)))
            self.compute = lambda *xs: jitted(*xs)

    def realized(self, results):
        self.L.wait(results)
        return results

    def results(self, *inputs):
        L, program = self.L, self.program
        used = [lazily(L, x) if program.lazy and L.is_float(x) else x for x in inputs]
        found = self.function(*used)
        found = list(found) if isinstance(found, (list, tuple)) else [found]
        if program.grad is not None:
            found += L.gradients(found[0], [inputs[n] for n in program.grad], self.weights_for(found[0]))
        return found

    def weights_for(self, result):
        """What the gradient begins with, unless the result is a loss."""
        if self.weights is None and len(result.shape) > 0:
            values = np.random.default_rng(1).uniform(0.5, 1.5, tuple(result.shape)).astype(np.float32)
            self.weights = self.L.array(values)
            if str(result.dtype).split(".")[-1] != "float32":
                self.weights = self.weights.cast(result.dtype).realize() if self.library == "quern" else self.weights.to(result.dtype)
        return self.weights

    def run(self):
        results = self.compute(*self.inputs)
        if not (self.library == "quern" and self.L.jit):
            self.L.wait(results)
        return results


# ---- results

def difference(ours, theirs, exact, loose):
    """What is wrong with our results, or None."""
    if len(ours) != len(theirs):
        return f"{len(ours)} results instead of {len(theirs)}"
    for number, (a, b) in enumerate(zip(ours, theirs)):
        where = f"result {number}: " if len(ours) > 1 else ""
        if a.shape != b.shape:
            return f"{where}shape {a.shape} instead of {b.shape}"
        if b.dtype.kind != "f" or a.dtype.kind != "f":
            wrong = np.count_nonzero(a.astype(np.float64) != b.astype(np.float64))
            if wrong > (0 if exact else max(1, b.size // 1000)):  # of lazy inputs rounding decides some
                at = tuple(int(i) for i in np.argwhere(a.astype(np.float64) != b.astype(np.float64))[0])
                return f"{where}{wrong} of {b.size} differ, the first at {at}: {a[at]} instead of {b[at]}"
            continue
        a, b = a.astype(np.float64), b.astype(np.float64)
        if not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return f"{where}{np.count_nonzero(np.isfinite(a) != np.isfinite(b))} of {b.size} are finite on one side only"
        finite = np.isfinite(b)
        if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
            return f"{where}infinities differ"
        if not finite.any():
            continue
        error, scale = np.abs(np.where(finite, a - b, 0)), np.abs(b[finite]).max()
        if error.max() > TOLERANCE * loose * max(scale, 1e-3):
            at = tuple(int(i) for i in np.unravel_index(error.argmax(), error.shape))
            return f"{where}{a[at]:.7g} instead of {b[at]:.7g} at {at}, of values up to {scale:.3g}"
    return None


# ---- memory and time

def status(field):
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith(field))


def peak_of(run):
    """How many MiB more than before were resident at most, while this ran; None where that is not told."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="utf-8") as file:
            file.write("5")
    except OSError:
        return None
    before = status("VmRSS")
    run()
    return max(0, status("VmHWM") - before)


def measure_memory(program, libraries):
    """Of each library, what one run takes beyond its inputs, its results included."""
    found = {}
    for name in libraries:
        if name in program.functions:
            say(begins=program.name, library=name)
            try:
                one = Prepared(program, name)
                one.run()
                found[name] = peak_of(one.run)
            except Exception:  # noqa: BLE001 (the other process says what it is)
                found[name] = None
    return found


def timed(run):
    start = time.perf_counter()
    results = run()
    return time.perf_counter() - start, results


def turn(run, known):
    """The least of several runs; `known`: what one takes."""
    if known > ONE_RUN:
        return known
    least, total, runs = known, 0.0, 0
    while runs < MOST and (runs < 3 or total < ENOUGH) and total < 1:
        took, results = timed(run)
        del results
        least, total, runs = min(least, took), total + took, runs + 1
    return least


def measure(program, libraries):
    found, values, prepared = {"name": program.name, "kind": program.kind, "grad": program.grad is not None, "lazy": program.lazy}, {}, {}
    present = [name for name in libraries if name in program.functions]
    for name in present:
        say(begins=program.name, library=name)
        try:
            one = Prepared(program, name)
            first, results = timed(one.run)
            if name == "quern" and one.L.jit:
                for _ in range(2):
                    results = one.run()
            values[name] = [one.L.values(r) for r in results]
            del results
            prepared[name] = one
            found[name] = {"first": first}
        except Exception as error:  # noqa: BLE001 (whatever it is, it is what was found)
            place = traceback.extract_tb(error.__traceback__)[-1]
            text = str(error).splitlines()[0] if str(error) else ""
            found[name] = {"error": f"{type(error).__name__}: {text} ({os.path.basename(place.filename)}:{place.lineno})"}
    for other in ("torch", "numpy"):
        if other in values and "quern" in values:
            wrong = difference(values["quern"], values[other], not program.lazy, program.loose)
            if wrong:
                found.setdefault("wrong", {})[other] = wrong
    if "torch" in values and "numpy" in values and "wrong" in found:
        found["peers differ"] = difference(values["torch"], values["numpy"], not program.lazy, program.loose)
    values.clear()
    for number in range(TURNS):
        for name, one in prepared.items():
            say(begins=program.name, library=name)
            known = found[name].get("time", found[name]["first"])
            if number == 0 and known <= FIRST:
                if name == "quern":  # its own count: it holds on to memory, so that the resident set says nothing
                    one.L.counters.reset()
                    used = one.L.counters.mem_used
                known, results = timed(one.run)
                del results
                if name == "quern":
                    found[name]["peak"] = (one.L.counters.mem_peak - used) / 2**20
            found[name]["time"] = turn(one.run, known)
    return found


def main():
    libraries, seed, count = sys.argv[1].split(","), int(sys.argv[2]), int(sys.argv[3])
    jit, everything, memory = (argument == "1" for argument in sys.argv[4:7])
    LIBRARIES_MADE.update({name: LIBRARIES[name](jit) for name in libraries})
    known = {p.name: p for p in [*sweep_functions.programs(everything), *sweep_networks.PROGRAMS, *sweep_random.programs(seed, count)]}
    if "torch" in libraries:
        import torch

        torch.manual_seed(0)
    say(ready=True)
    for line in sys.stdin:
        program = known[line.rstrip("\n")]
        with np.errstate(all="ignore"):
            say(found=(measure_memory if memory else measure)(program, libraries))


LIBRARIES_MADE = {}

if __name__ == "__main__":
    main()

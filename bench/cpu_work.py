"""The work of cpu.cpp for a peer: the same sizes, names and units. A peer gives functions from arrays to arrays that are
computed when they return; what it leaves out is not measured."""

import json
import time

import numpy as np

ONCE = 4 * 4096 * 1024
random = np.random.default_rng(0)


def data(*shape):
    return random.standard_normal(shape, dtype=np.float32)


def best(run):
    run(), run()
    least, total, runs = 1e30, 0.0, 0
    while runs < 300 and (runs < 5 or total < 0.5):
        start = time.perf_counter()
        run()
        took = time.perf_counter() - start
        least, total, runs = min(least, took), total + took, runs + 1
    return least


def measured(name, value, unit):
    print(json.dumps({"name": name, "value": value, "unit": unit}), flush=True)


def measure(array, functions, sizes=((256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048),
                                     (1, 4096, 4096), (32, 4096, 4096), (4096, 64, 4096))):
    """`array`: an array of the peer from one of NumPy. `functions`: by name, from arrays of the peer; each is a function
    that is given the arrays and returns what to call."""
    def flops(name, function, operations, *given, **options):
        if function in functions:
            run = functions[function](*map(array, given), **options)
            measured(name, 1e-9 * operations / best(run), "GFLOP/s")

    for n, k, m in sizes:
        flops(f"matmul {n}x{k}x{m}", "matmul", 2 * n * k * m, data(n, k), data(k, m))
    flops("matmul 1024 of a transposed", "matmul transposed", 2 * 1024**3, data(1024, 1024), data(1024, 1024))
    for channels, side, out, kernel, stride, padding in (
            (64, 56, 64, 3, 1, 1), (256, 14, 256, 3, 1, 1), (3, 224, 64, 7, 2, 3), (8, 32, 8, 3, 1, 1)):
        flops(f"conv {channels}x{side}x{side} to {out}, {kernel}x{kernel} by {stride}", "conv",
              2 * out * channels * kernel**2 * (side // stride)**2, data(1, channels, side, side),
              data(out, channels, kernel, kernel), stride=stride, padding=padding)
    rates = {"add": 3, "sum of all": 1, "sum of rows": 1, "sum of columns": 1, "max of rows": 1, "softmax": 2, "rmsnorm": 2,
             "layernorm": 2, "gelu (tanh)": 2, "gelu (erf)": 2, "transpose": 2}
    x, y = array(data(4096, 1024)), array(data(4096, 1024))
    for name, times in rates.items():
        if name in functions:
            run = functions[name](x, y) if name == "add" else functions[name](x)
            measured(f"{name} 4096x1024", 1e-9 * times * ONCE / best(run), "GB/s")
    if "attention" in functions:
        run = functions["attention"](*(array(data(1, 8, 1024, 64)) for _ in range(3)))
        measured("causal attention 8x1024x64", 1e3 * best(run), "ms")
    if "add" in functions:
        time_of_add = 1e6 * best(functions["add"](array(data(4)), array(data(4))))
        measured("add of 4 elements", time_of_add, "us")
        measured("add of 4 elements, replayed", time_of_add, "us")  # peers always run what they compiled

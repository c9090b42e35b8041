"""The work of cpu.cpp by NumPy: the same names and units."""

import json
import time

import numpy as np

rng = np.random.default_rng(0)


def data(*shape):
    return rng.standard_normal(shape, dtype=np.float32)


def best(run):
    run(), run()
    least, total, runs = 1e30, 0.0, 0
    while runs < 200 and (runs < 5 or total < 0.5):
        start = time.perf_counter()
        run()
        took = time.perf_counter() - start
        least, total, runs = min(least, took), total + took, runs + 1
    return least


def measured(name, value, unit):
    print(json.dumps({"name": name, "value": value, "unit": unit}), flush=True)


def matmul(n, k, m):
    a, b = data(n, k), data(k, m)
    measured(f"matmul {n}x{k}x{m}", 2e-9 * n * k * m / best(lambda: a @ b), "GFLOP/s")


def rate(name, size, run):
    measured(name, size * 1e-9 / best(run), "GB/s")


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.float32(0.7978845608) * (x + np.float32(0.044715) * x * x * x)))


for n in (256, 512, 1024):
    matmul(n, n, n)
matmul(1, 4096, 4096)
x, y, w, v = data(4096, 1024), data(4096, 1024), data(512, 512), data(512, 512)
once = 4 * 4096 * 1024
measured("matmul transposed 512", 2e-9 * 512**3 / best(lambda: v @ w.T), "GFLOP/s")
rate("add 4096x1024", 3 * once, lambda: x + y)
rate("sum of all 4096x1024", once, lambda: x.sum())
rate("sum of rows 4096x1024", once, lambda: x.sum(1))
rate("sum of columns 4096x1024", once, lambda: x.sum(0))
rate("max of rows 4096x1024", once, lambda: x.max(1))
rate("softmax 4096x1024", 2 * once, lambda: softmax(x))
rate("gelu 4096x1024", 2 * once, lambda: gelu(x))
rate("transpose 4096x1024", 2 * once, lambda: np.ascontiguousarray(x.T))

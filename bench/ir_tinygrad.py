"""The ir suite's work by tinygrad: python ir_tinygrad.py graph.txt expressions.txt"""

import gc
import json
import sys
import time

from tinygrad.dtype import dtypes
from tinygrad.uop.ops import UOp

INDEX = getattr(dtypes, "weakint", None) or dtypes.index
RUNS = 3
WALKS = 20


def build(nodes):
    made, leaves = [], []
    for word, *numbers in nodes:
        if word == "+":
            made.append(made[numbers[0]] + made[numbers[1]])
        elif word == "*":
            made.append(made[numbers[0]] * made[numbers[1]])
        elif word == "/":
            made.append(made[numbers[0]] // made[numbers[1]])
        elif word == "%":
            made.append(made[numbers[0]] % made[numbers[1]])
        elif word == "c":
            made.append(UOp.const(numbers[0], INDEX))
        elif word == "v":
            made.append(UOp.variable(f"v{len(made)}", numbers[0], numbers[1], INDEX))
        else:
            made.append(UOp.range(numbers[0], numbers[1]))
            leaves.append((made[-1], numbers[0]))
    return made[-1], leaves, made


def read(line):
    return [(node.split()[0], *map(int, node.split()[1:])) for node in line]


def best(work, runs=RUNS):
    times = []
    for _ in range(runs):
        gc.collect()
        start = time.perf_counter()
        result = work()
        times.append((time.perf_counter() - start) * 1e3)
        del result
    return min(times)


def measured(name, value, unit="ms"):
    print(json.dumps({"name": name, "value": value, "unit": unit}))


graph = read(open(sys.argv[1], encoding="utf-8"))
expressions = [read(line.strip().split(";")) for line in open(sys.argv[2], encoding="utf-8")]

print("tinygrad: building")
measured("build 100,000 nodes", best(lambda: build(graph)[2]))
root = build(graph)[0]
measured("walk 100,000 nodes in topological order", best(lambda: len(root.toposort()), WALKS))
del root

print("tinygrad: simplifying")
total, checksum = 0.0, 0
for nodes in expressions:
    expression, leaves, _ = build(nodes)
    start = time.perf_counter()
    simple = expression.simplify()
    total += time.perf_counter() - start
    value = simple.substitute({leaf: leaf.const_like(size // 2) for leaf, size in leaves}).simplify()
    checksum += int(value.arg)
measured("simplify 2,000 index expressions", total * 1e3)
measured("checksum", checksum, "sum")

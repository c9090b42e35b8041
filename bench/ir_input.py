"""Writes the input of the ir suite: a graph of 100,000 nodes, and 2,000 index expressions as chains of views make them.

A program is a list of nodes, each a word with numbers; a number after an op is the position of an earlier node:
    v MIN MAX    a variable            r SIZE    a loop, 0 <= value < SIZE       c VALUE    a constant
    + A B        * A B                 / A B     floor division                  % A B      its remainder
The last node is the result. In `graph.txt` a node is a line; in `expressions.txt` a program is a line, nodes apart by ';'.
"""

import math
import pathlib
import random

GRAPH_NODES = 100_000
EXPRESSIONS = 2_000


def graph(rng):
    nodes = [f"v 0 {10 + i}" for i in range(16)] + [f"c {i}" for i in range(1, 17)]
    unused = list(range(len(nodes)))  # each node is used at least once, so that the last one reaches them all
    while len(nodes) < GRAPH_NODES:
        finishing = GRAPH_NODES - len(nodes) < len(unused)
        a = unused.pop(rng.randrange(len(unused)))
        b = unused.pop() if finishing else rng.randrange(max(0, len(nodes) - 1000), len(nodes))
        nodes.append(f"{rng.choice('+*')} {a} {b}")
        unused.append(len(nodes) - 1)
    return nodes


class Program:
    def __init__(self):
        self.nodes, self.seen = [], {}

    def add(self, node):
        if node not in self.seen:
            self.seen[node] = len(self.nodes)
            self.nodes.append(node)
        return self.seen[node]

    def constant(self, value):
        return self.add(f"c {value}")

    def op(self, op, a, b):
        return self.add(f"{op} {a} {b}")

    def flat(self, index, shape):
        """The place of an element in memory."""
        total = self.constant(0)
        for i, (at, stride) in enumerate(zip(index, strides(shape))):
            total = self.op("+", total, self.op("*", at, self.constant(stride)))
        return total


def strides(shape):
    return [math.prod(shape[i + 1:]) for i in range(len(shape))]


def split(rng, size):
    """A random shape with as many elements."""
    shape, rest = [], size
    while rest > 1 and len(shape) < 3:
        divisors = [d for d in range(2, rest + 1) if rest % d == 0]
        shape.append(rng.choice(divisors))
        rest //= shape[-1]
    return shape + [rest] if rest > 1 or not shape else shape


def view_chain(rng):
    """The address that is read through a random chain of reshapes, permutes, flips and shrinks."""
    shape = [rng.choice([2, 3, 4, 5, 6, 8, 12, 16]) for _ in range(rng.randint(1, 3))]
    program = Program()
    index = [program.add(f"r {size} {i}") for i, size in enumerate(shape)]
    for _ in range(rng.randint(2, 5)):
        kind = rng.choice(["reshape", "reshape", "permute", "flip", "shrink"])
        if kind == "reshape":
            flat, shape = program.flat(index, shape), split(rng, math.prod(shape))
            index = [program.op("%", program.op("/", flat, program.constant(stride)), program.constant(size))
                     for stride, size in zip(strides(shape), shape)]
        elif kind == "permute":
            order = rng.sample(range(len(shape)), len(shape))
            index, shape = [index[i] for i in order], [shape[i] for i in order]
        elif kind == "flip":
            i = rng.randrange(len(shape))
            index[i] = program.op("+", program.op("*", index[i], program.constant(-1)), program.constant(shape[i] - 1))
        else:
            i = rng.randrange(len(shape))
            before, after = rng.randint(0, 3), rng.randint(0, 3)
            index[i] = program.op("+", index[i], program.constant(before))
            shape[i] += before + after
    program.nodes.append(program.nodes[program.flat(index, shape)])  # the result stands last
    return program.nodes


def write(folder):
    rng = random.Random(1)
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "graph.txt").write_text("\n".join(graph(rng)) + "\n", encoding="utf-8")
    lines = [";".join(view_chain(rng)) for _ in range(EXPRESSIONS)]
    (folder / "expressions.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "graph.txt", folder / "expressions.txt"

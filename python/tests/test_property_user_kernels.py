"""Kernels that users write, with ranges of every kind and with opts, made at random: what a device computes is what loops compute, or
the kernel is refused. The loops are those of INTERP. QUERN_NIGHTLY=1: many more."""

import os

import numpy as np
import pytest

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import given, settings, strategies as st  # noqa: E402

import quern  # noqa: E402
from quern import Context, Device, Tensor, dtypes  # noqa: E402
from quern.uop import KernelInfo, Ops, UOp  # noqa: E402

NIGHTLY = bool(os.environ.get("QUERN_NIGHTLY"))
data = st.data()
KINDS = ["LOOP", "LOOP", "GLOBAL", "LOCAL", "WARP", "THREAD", "UPCAST", "UNROLL", "GROUP_REDUCE", "REDUCE"]


def examples(count):
    return settings(max_examples=count * 20 if NIGHTLY else count, derandomize=not NIGHTLY, deadline=None, database=None,
                    suppress_health_check=list(hypothesis.HealthCheck))


def memory_of(space, size, number):
    return UOp.parse(f"DEFINE_{space}(; {number}):int32*[{size}]@{space}")


class Shape:
    """What a random kernel is made of; the same choices with plain kinds are the loops that it stands for."""

    def __init__(self, draw):
        self.sizes = [draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([2, 3, 4])), draw(st.sampled_from([2, 4, 8]))]
        self.kinds = [draw(st.sampled_from(KINDS)) for _ in range(3)]
        self.template = draw(st.sampled_from(sorted(TEMPLATES)))
        self.choices = [draw(st.integers(0, 5)) for _ in range(6)]

    def ranges(self, plain):
        """Two of outputs, one of a sum."""
        kinds = ["LOOP", "LOOP", "REDUCE"] if plain else self.kinds
        return [UOp.range(n, i, kind) for i, (n, kind) in enumerate(zip(self.sizes, kinds))]

    def kernel(self, plain, opts):
        def body(out, x):
            return UOp.sink(*TEMPLATES[self.template](self, out, x, *self.ranges(plain)), arg=KernelInfo("k", tuple(opts)))

        return body

    def place(self, choice, i, j, k):
        """A place in 16 or 32 elements."""
        nj, nk = self.sizes[1], self.sizes[2]
        return [UOp.const(dtypes.index, 0), i, j, i * nj + j, j * self.sizes[0] + i, j * nk + k][choice % 6]


OPS = [lambda a, b: a + b, lambda a, b: a.maximum(b), lambda a, b: a + b * 2]


def accumulated(shape, out, x, i, j, k):
    """A register that starts inside of the ranges or outside, is accumulated into, and read behind."""
    where, inside, behind, op, order, _ = shape.choices
    nj, nk = shape.sizes[1:]
    register = memory_of("REG", 32, 0)
    at = shape.place(where % 5, i, j, k)
    open_at_start = [(), (i,), (j,), (i, j), (i, j), (i, j)][inside]
    start = (register.after(*open_at_start) if open_at_start else register)[at].store(1)
    started_ranges = [r for r in (i, j) if r in at.ranges and r not in open_at_start]
    started = start.end(*started_ranges) if started_ranges else start
    value = x[(i * nj + j) * nk + k].load()
    inner = register.after(started, k, *((i, j) if inside > 3 else ()))
    stored = inner[at].store(OPS[op % len(OPS)](inner[at].load(), value))
    ended = stored.end(k) if behind < 4 else stored.end(j, k)
    if behind < 4:
        return [out[i * nj + j].store(register.after(ended)[at].load()).end(*((i, j) if order < 3 else (j, i)))]
    return [out[i].store(register.after(ended)[shape.place(where % 2, i, j, k)].load()).end(i)]


def into_memory(shape, out, x, i, j, k):
    """An argument that is accumulated into."""
    where, op, order = shape.choices[:3]
    nj, nk = shape.sizes[1:]
    at = shape.place(where % 5, i, j, k)
    value = x[(i * nj + j) * nk + k].load()
    stored = out[at].store(OPS[op % len(OPS)](out.after(k)[at].load() if order % 2 else out[at].load(), value))
    if order < 2:
        return [stored.end(i, j, k)]
    return [stored.end(k).end(j).end(i)] if order < 4 else [stored.end(k).end(i, j)]


def tile(shape, out, x, i, j, k):
    """LOCAL memory that one range fills and another reads, with a BARRIER or without."""
    barrier, at, order = shape.choices[:3]
    nj, nk = shape.sizes[1:]
    local = memory_of("LOCAL", 64, 0)

    def place(j):
        return [j, i * nj + j, j * 2, (j + 1) % nj, j // 2, UOp.const(dtypes.index, 3)][at]

    filled = (local.after(i) if order < 4 else local)[place(j)].store(x[(i * nj + j) * nk].load() + 1)
    filled = filled.end(j)
    done = UOp(Ops.BARRIER, None, (filled,)) if barrier < 4 else filled
    read = local.after(done)[place(k % nj)].load() + x[k].load()
    if order % 2:
        return [out[i * nk + k].store(read).end(i, k)]
    return [out[i].store(read.reduce(k)).end(i)] if shape.kinds[2] in ("REDUCE", "UNROLL", "GROUP_REDUCE") else [
        out[i * nk + k].store(read * 2).end(k).end(i)]


def moved(shape, out, x, i, j, k):
    """What one step writes another may read, or write too."""
    to, source, factor = shape.choices[:3]
    n = shape.sizes[0] * shape.sizes[1] * shape.sizes[2]
    flat = (i * shape.sizes[1] + j) * shape.sizes[2] + k
    targets = [flat, (flat + 1) % n, (flat * 3) % n, flat // 2, j * shape.sizes[2] + k, n - 1 - flat]
    sources = [x[flat], x[n - 1 - flat], out[flat], out[(flat + 1) % n], out[targets[to]], x[flat // 2]]
    return [out[targets[to]].store(sources[source].load() * (factor + 1)).end(i, j, k)]


def reduced(shape, out, x, i, j, k):
    """A REDUCE, which every kind that may stand there is understood for."""
    op, order = shape.choices[:2]
    nj, nk = shape.sizes[1:]
    if shape.kinds[2] not in ("REDUCE", "UNROLL", "GROUP_REDUCE"):
        shape.kinds[2] = "REDUCE"
    value = x[(i * nj + j) * nk + k].load()
    total = (value * 2).reduce(k, arg=Ops.MAX if op % 3 == 0 else Ops.ADD)
    return [out[i * nj + j].store(total + i.cast(dtypes.int32)).end(*((i, j) if order % 2 else (j, i)))]


TEMPLATES = {"accumulated": accumulated, "into memory": into_memory, "tile": tile, "moved": moved, "reduced": reduced}
OPTS = [f"{kind}({axis}, {amount})" for kind in ("UPCAST", "UNROLL", "LOCAL", "GROUP", "GROUPTOP", "THREAD", "PADTO", "BLOCK")
        for axis in range(3) for amount in (0, 2, 4)] + ["SWAP(0, 1)", "SWAP(1, 2)", "NOLOCALS", "PACK(0, 1)"]


def run(shape, device, plain, opts, x, before):
    out, given_x = Tensor(before, device=device).realize(), Tensor(x, device=device).realize()
    return Tensor.custom_kernel(out, given_x, fxn=shape.kernel(plain, opts))[0].numpy()


def devices():
    try:
        cl = [Device["CL"].name]
    except quern.Error:
        cl = []
    return ["CPU", "LINEAR", "INTERP", *(cl if NIGHTLY else [])]


def check(shape, opts):
    x, before = np.arange(1, 65, dtype=np.int32) * 7 % 11, np.arange(100, 164, dtype=np.int32)
    try:
        expected = run(shape, "INTERP", True, (), x, before)
    except quern.InternalError:
        raise
    except quern.Error:
        return 0  # no kernel at all
    computed = 0
    for device in devices():
        try:
            found = run(shape, device, False, opts, x, before)
        except quern.InternalError:
            raise
        except quern.Error as error:
            assert str(error)
            continue
        np.testing.assert_array_equal(found, expected, err_msg=f"{device} {opts} {shape.template} {shape.kinds} {shape.sizes} {shape.choices}")
        computed += 1
    return computed


@examples(150)
@given(data)
def test_property_ranges_of_any_kind(draw):
    check(Shape(draw.draw), ())


@examples(150)
@given(data)
def test_property_given_opts(draw):
    shape = Shape(draw.draw)
    if draw.draw(st.booleans()):
        shape.kinds = ["LOOP", "LOOP", "REDUCE"]
    check(shape, draw.draw(st.lists(st.sampled_from(OPTS), min_size=1, max_size=3)))


REDUCES = [
    (lambda x: x.sum(1), lambda a: a.sum(1)), (lambda x: x.max(1), lambda a: a.max(1)), (lambda x: x.min(1), lambda a: a.min(1)),
    (lambda x: (x * x).sum(1), lambda a: (a * a).sum(1)), (lambda x: x.abs().max(1), lambda a: np.abs(a).max(1)),
    (lambda x: (x - x.max(1, keepdim=True)).sum(1), lambda a: (a - a.max(1, keepdims=True)).sum(1)),
    (lambda x: (x < 0).sum(1).cast(x.dtype), lambda a: (a < 0).sum(1)), (lambda x: (x + 3).min(1), lambda a: (a + 3).min(1)),
    (lambda x: (x % 3).sum(1), lambda a: (a % 3).sum(1)), (lambda x: x.flip(1).max(1) * 2, lambda a: a.max(1) * 2),
]


@examples(25)
@given(data)
def test_property_reduces_that_share_local_memory(draw):
    """Whatever opts are chosen, or drawn at random, the whole kernel fits into the LOCAL memory of a workgroup."""
    device = draw.draw(st.sampled_from(["LINEAR", "LINEAR:16", "LINEAR:8"]))
    rows, length = draw.draw(st.integers(1, 4)), draw.draw(st.sampled_from([64, 96, 256, 1000, 1024, 2048, 4096]))
    dtype = draw.draw(st.sampled_from([np.int32, np.float32, np.int64, np.float64]))
    chosen = draw.draw(st.lists(st.integers(0, len(REDUCES) - 1), min_size=1, max_size=8))
    values = (np.arange(rows * length).reshape(rows, length) * 7919 % 13 - 6).astype(dtype)
    opts = draw.draw(st.sampled_from(["", "", *(f"random:{n}" for n in range(20))]))
    with Context(OPTS=opts, PCONTIG=draw.draw(st.sampled_from([1, 1, 2]))):
        x = Tensor(values, device=device).realize()
        found = Tensor.stack(*(REDUCES[i][0](x) for i in chosen)).numpy()
    np.testing.assert_array_equal(found, np.stack([REDUCES[i][1](values).astype(dtype) for i in chosen]))

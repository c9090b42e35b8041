"""The functions that the sweep measures: a line each, with its name, its inputs, and how quern, PyTorch and NumPy call it. The sizes of
the inputs are generated; see `programs` below."""

import dataclasses
import zlib
from collections.abc import Callable

import numpy as np

# ---- inputs: what a letter makes, of a generator and a shape

VALUES = {
    "x": lambda rng, s: rng.standard_normal(s),
    "p": lambda rng, s: rng.uniform(0.2, 3, s),  # positive
    "u": lambda rng, s: rng.uniform(-0.9, 0.9, s),
    "a": lambda rng, s: rng.uniform(1.1, 4, s),  # above 1
    "z": lambda rng, s: rng.uniform(0.02, 0.98, s),  # probabilities
    "w": lambda rng, s: rng.standard_normal(s) / np.sqrt(max(1, np.prod(s[1:]))),  # weights
    "i": lambda rng, s: rng.integers(-1000, 1000, s),
    "j": lambda rng, s: rng.integers(1, 100, s),
    "b": lambda rng, s: rng.integers(0, 2, s) == 1,
}


@dataclasses.dataclass(frozen=True)
class Input:
    """Values of a shape. `letter`: one of VALUES, or a number: integers from 0 up to it, which index something."""

    letter: str | int
    shape: tuple

    @property
    def is_index(self):
        return isinstance(self.letter, int)

    def make(self, rng):
        if self.is_index:
            return rng.integers(0, self.letter, self.shape).astype(np.int32)
        values = np.asarray(VALUES[self.letter](rng, self.shape))
        return values.astype({"f": np.float32, "i": np.int32, "b": bool}[values.dtype.kind])


# ---- sizes: of each kind of function, by name. "large" is far beyond a cache, "small" is what overhead decides.

ARRAYS = {"small": (16, 24), "large": (2048, 1024), "odd": (1013, 1021), "skinny": (250_000, 5), "batched": (8, 33, 64, 65)}


def arrays(letters):
    """As many arrays of the same shape as there are letters."""
    return {label: [Input(c, shape) for c in letters] for label, shape in ARRAYS.items()}


def rows(letter="x"):
    """An array, and a row that is broadcast."""
    return {label: [Input(letter, s), Input(letter, s[-1:])] for label, s in ARRAYS.items()}


def columns():
    return {label: [Input("x", s), Input("x", (*s[:-1], 1))] for label, s in ARRAYS.items()}


PRODUCTS = {label: [Input("x", a), Input("w", b)] for label, (a, b) in {
    "small": ((8, 12), (12, 8)), "large": ((768, 1024), (1024, 896)), "odd": ((509, 331), (331, 257)),
    "skinny": ((4096, 7), (7, 900)), "batched": ((24, 128, 64), (24, 64, 96))}.items()}
TWO_D = {label: given for label, given in PRODUCTS.items() if label != "batched"}
BATCHES = {label: [Input("x", (b, n, k)), Input("x", (b, k, m))] for label, (b, n, k, m) in {
    "small": (2, 4, 5, 6), "large": (16, 256, 256, 128), "odd": (5, 101, 77, 33), "skinny": (64, 1, 512, 64)}.items()}
LAYERS = {label: [Input("x", (n, k)), Input("w", (m, k)), Input("x", (m,))] for label, (n, k, m) in {
    "small": (4, 16, 8), "large": (512, 1024, 1024), "odd": (77, 333, 129), "skinny": (1, 4096, 1000)}.items()}
VECTORS = {label: [Input("x", (n, k)), Input("w", (k,))] for label, (n, k) in {
    "small": (8, 12), "large": (2048, 2048), "odd": (1013, 1021), "skinny": (200_000, 5)}.items()}


def images(out=1.0, groups=1, kernel=3, swapped=False):
    """Images and weights. Groups "all": each channel by itself; `swapped`: weights have the channels of the input first."""
    found = {}
    for label, (b, c, h, w) in {"small": (1, 4, 9, 8), "large": (4, 64, 56, 56), "odd": (3, 12, 33, 47), "skinny": (1, 256, 7, 7),
                                "batched": (32, 16, 28, 28)}.items():
        g = c if groups == "all" else groups
        inner, outer = c // g, int(c * out)
        shape = (c, outer // g, kernel, kernel) if swapped else (outer, inner, kernel, kernel)
        found[label] = [Input("x", (b, c, h, w)), Input("w", shape)]
    return found


IMAGE = {label: given[:1] for label, given in images().items()}
LINES = {label: [Input("x", (b, c, n)), Input("w", (c, c, 5))] for label, (b, c, n) in {
    "small": (1, 4, 20), "large": (8, 64, 4000), "odd": (3, 7, 1013)}.items()}
SOLIDS = {"small": [Input("x", (1, 2, 5, 5, 5)), Input("w", (2, 2, 3, 3, 3))],
          "large": [Input("x", (2, 16, 24, 24, 24)), Input("w", (16, 16, 3, 3, 3))]}
HEADS = {label: [Input("x", (b, h, n, d))] * 3 for label, (b, h, n, d) in {
    "small": (1, 2, 8, 8), "large": (2, 8, 512, 64), "odd": (1, 3, 101, 20)}.items()}
TABLES = {label: [Input("x", (n, d)), Input(n, places)] for label, (n, d, places) in {
    "small": (10, 4, (6,)), "large": (50_000, 128, (4096,)), "odd": (1013, 33, (777,)), "skinny": (200_000, 2, (10_000,)),
    "batched": (3000, 64, (32, 50))}.items()}
ALONG = {label: [Input("x", (n, m)), Input(m, (n, k))] for label, (n, m, k) in {
    "small": (6, 8, 4), "large": (1024, 2048, 512), "odd": (333, 101, 57), "skinny": (100_000, 4, 2)}.items()}
PUTS = {label: [*given, Input("x", given[1].shape)] for label, given in ALONG.items()}
INTO = {label: [Input("x", (n, d)), Input(n, (k, d)), Input("x", (k, d))] for label, (n, d, k) in {
    "small": (6, 8, 4), "large": (5000, 64, 20_000), "odd": (101, 33, 997)}.items()}
FLAT = {label: [Input("x", (n,)), Input(n, (k,))] for label, (n, k) in {
    "small": (50, 9), "large": (1_000_000, 200_000), "odd": (10_007, 997)}.items()}
ORDERED = {label: [Input("x", s)] for label, s in {
    "small": (6, 10), "large": (512, 1024), "odd": (101, 333), "skinny": (20_000, 5), "batched": (4, 8, 16, 40)}.items()}
CLASSES = {label: [Input("x", (n, k)), Input(k, (n,))] for label, (n, k) in {
    "small": (8, 10), "large": (4096, 1000), "odd": (333, 101), "skinny": (50_000, 3)}.items()}
SEQUENCES = {label: [Input("x", s)] for label, s in {
    "small": (4, 12), "large": (256, 4096), "odd": (77, 1013), "skinny": (50_000, 6), "batched": (4, 8, 16, 100)}.items()}


# ---- the table

@dataclasses.dataclass(frozen=True)
class Function:
    """A line: `torch` is called as quern is where it is None; without `numpy` NumPy is no peer of it."""

    name: str
    inputs: dict
    quern: Callable
    torch: Callable | None = None
    numpy: Callable | None = None
    grad: bool = True  # of float inputs
    views: bool = True  # also of transposed, stepped and broadcast inputs
    loose: float = 1  # how much wider the tolerance is


X, P, XY = arrays("x"), arrays("p"), arrays("xx")
INTS = arrays("ii")


def F():
    import torch.nn.functional as functional

    return functional


def T():
    import torch

    return torch


def f(name, inputs, quern, torch=None, numpy=None, **options):
    return Function(name, inputs, quern, torch, numpy, **options)


def steps(name, inputs, quern, torch=None, numpy=None, **options):
    """A function that has no gradient."""
    return Function(name, inputs, quern, torch, numpy, grad=False, **options)


def np_softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def linear_np(x, w, b):
    return x @ w.T + b


TABLE = [
    # of each element
    f("neg", X, lambda x: -x, None, np.negative),
    f("abs", X, lambda x: x.abs(), None, np.abs),
    f("square", X, lambda x: x.square(), None, np.square),
    f("sqrt", P, lambda x: x.sqrt(), None, np.sqrt),
    f("rsqrt", P, lambda x: x.rsqrt()),
    f("reciprocal", P, lambda x: x.reciprocal(), None, np.reciprocal),
    f("exp", X, lambda x: x.exp(), None, np.exp),
    f("exp2", X, lambda x: x.exp2(), None, np.exp2),
    f("expm1", X, lambda x: x.expm1(), None, np.expm1),
    f("log", P, lambda x: x.log(), None, np.log),
    f("log2", P, lambda x: x.log2(), None, np.log2),
    f("log1p", P, lambda x: x.log1p(), None, np.log1p),
    f("sin", X, lambda x: x.sin(), None, np.sin),
    f("cos", X, lambda x: x.cos(), None, np.cos),
    f("tan", arrays("u"), lambda x: x.tan(), None, np.tan),
    f("asin", arrays("u"), lambda x: x.asin(), None, np.arcsin),
    f("atan", X, lambda x: x.atan(), None, np.arctan),
    f("sinh", X, lambda x: x.sinh(), None, np.sinh),
    f("tanh", X, lambda x: x.tanh(), None, np.tanh),
    f("acosh", arrays("a"), lambda x: x.acosh(), None, np.arccosh),
    f("erf", X, lambda x: x.erf()),
    f("sigmoid", X, lambda x: x.sigmoid(), None, lambda x: 1 / (1 + np.exp(-x))),
    f("relu", X, lambda x: x.relu(), None, lambda x: np.maximum(x, 0)),
    f("gelu (tanh)", X, lambda x: x.gelu(), lambda x: F().gelu(x, approximate="tanh")),
    f("gelu (erf)", X, lambda x: x.gelu("none"), lambda x: F().gelu(x)),
    f("silu", X, lambda x: x.silu(), lambda x: F().silu(x)),
    f("mish", X, lambda x: x.mish(), lambda x: F().mish(x)),
    f("softplus", X, lambda x: x.softplus(), lambda x: F().softplus(x)),
    f("elu", X, lambda x: x.elu(), lambda x: F().elu(x)),
    f("hardswish", X, lambda x: x.hardswish(), lambda x: F().hardswish(x)),
    f("clamp", X, lambda x: x.clamp(-0.5, 0.5), None, lambda x: x.clip(-0.5, 0.5)),
    steps("sign", X, lambda x: x.sign(), None, np.sign),
    steps("floor", X, lambda x: x.floor(), None, np.floor),
    steps("round", X, lambda x: x.round(), None, np.rint),
    steps("isnan", X, lambda x: x.isnan(), None, np.isnan),
    f("cast to float64", X, lambda x: x.double(), None, lambda x: x.astype(np.float64)),
    steps("cast to int32", X, lambda x: x.int(), None, lambda x: x.astype(np.int32)),
    f("cast to float16", X, lambda x: x.half(), None, lambda x: x.astype(np.float16), loose=10),
    # of two
    f("add", XY, lambda x, y: x + y, None, np.add),
    f("mul", XY, lambda x, y: x * y, None, np.multiply),
    f("div", arrays("xp"), lambda x, y: x / y, None, np.divide),
    f("pow", arrays("px"), lambda x, y: x**y, None, np.power),
    f("maximum", XY, lambda x, y: x.maximum(y), None, np.maximum),
    f("add a row", rows(), lambda x, y: x + y, None, np.add),
    f("mul by a column", columns(), lambda x, y: x * y, None, np.multiply),
    f("lerp", XY, lambda x, y: x.lerp(y, 0.3), None, lambda x, y: x + 0.3 * (y - x)),
    f("logaddexp", XY, lambda x, y: x.logaddexp(y), None, np.logaddexp),
    steps("mod", arrays("xp"), lambda x, y: x % y, None, np.mod),
    steps("less", XY, lambda x, y: x < y, None, np.less),
    f("where", arrays("bxx"), lambda m, x, y: m.where(x, y), lambda m, x, y: T().where(m, x, y), np.where),
    f("masked_fill", arrays("xb"), lambda x, m: x.masked_fill(m, -1.0), None, lambda x, m: np.where(m, np.float32(-1), x)),
    f("polynomial", X, lambda x: ((x * 0.1 + 0.2) * x - 0.3) * x + 1, None, lambda x: ((x * 0.1 + 0.2) * x - 0.3) * x + 1),
    # of integers
    steps("int add mul", INTS, lambda x, y: x * 3 + y, None, lambda x, y: x * 3 + y),
    steps("int floor division", arrays("ij"), lambda x, y: x // y, None, np.floor_divide),
    steps("int remainder", arrays("ij"), lambda x, y: x % y, None, np.remainder),
    steps("int and xor shift", INTS, lambda x, y: ((x & 255) ^ y) << 2, None, lambda x, y: ((x & 255) ^ y) << 2),
    steps("int8 quantise", X, lambda x: (x * 20).round().clamp(-127, 127).cast("int8"),
          lambda x: (x * 20).round().clamp(-127, 127).to(T().int8), lambda x: np.rint(x * 20).clip(-127, 127).astype(np.int8)),
    steps("int8 dequantised product", TWO_D, lambda x, y: ((x * 20).cast("int8").int() @ (y * 20).cast("int8").int()).float() * 0.0025,
          lambda x, y: ((x * 20).to(T().int8).int() @ (y * 20).to(T().int8).int()).float() * 0.0025),
    # reduces
    f("sum", X, lambda x: x.sum(), None, np.sum),
    f("sum of rows", X, lambda x: x.sum(-1), None, lambda x: x.sum(-1)),
    f("sum of columns", X, lambda x: x.sum(0), None, lambda x: x.sum(0)),
    f("mean of all but the last", X, lambda x: x.mean(tuple(range(len(x.shape) - 1))), None, lambda x: x.mean(tuple(range(x.ndim - 1)))),
    f("max", X, lambda x: x.max(), lambda x: x.amax(), np.max),
    f("max of rows", X, lambda x: x.max(-1), lambda x: x.amax(-1), lambda x: x.max(-1)),
    f("max of columns", X, lambda x: x.max(0), lambda x: x.amax(0), lambda x: x.max(0)),
    f("min of rows", X, lambda x: x.min(-1), lambda x: x.amin(-1), lambda x: x.min(-1)),
    f("prod of rows", {k: [Input("a", s[0].shape)] for k, s in ORDERED.items() if k in ("small", "skinny")},
      lambda x: x.prod(-1), None, lambda x: x.prod(-1), loose=10),
    f("var", X, lambda x: x.var(), None, lambda x: x.var(ddof=1)),
    f("var of rows", X, lambda x: x.var(-1), None, lambda x: x.var(-1, ddof=1)),
    f("std of columns", X, lambda x: x.std(0), None, lambda x: x.std(0, ddof=1)),
    steps("argmax of rows", X, lambda x: x.argmax(-1), None, lambda x: x.argmax(-1)),
    steps("argmax of columns", X, lambda x: x.argmax(0), None, lambda x: x.argmax(0)),
    steps("any of rows", arrays("b"), lambda x: x.any(-1), None, lambda x: x.any(-1)),
    f("logsumexp of rows", X, lambda x: x.logsumexp(-1), None, lambda x: np.log(np.exp(x).sum(-1))),
    f("norm of rows", X, lambda x: x.square().sum(-1).sqrt(), lambda x: T().linalg.vector_norm(x, dim=-1), lambda x: np.linalg.norm(x, axis=-1)),
    f("softmax", X, lambda x: x.softmax(-1), None, np_softmax),
    f("softmax of columns", X, lambda x: x.softmax(0), None, lambda x: np_softmax(x, 0)),
    f("log_softmax", X, lambda x: x.log_softmax(-1), None, lambda x: np.log(np_softmax(x)), loose=10),
    f("normalize", X, lambda x: x.normalize(dim=-1), lambda x: F().normalize(x, dim=-1)),
    f("layernorm", X, lambda x: x.layernorm(), lambda x: F().layer_norm(x, x.shape[-1:]), loose=10),
    f("rmsnorm", X, lambda x: x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt(), lambda x: F().rms_norm(x, x.shape[-1:], eps=1e-5)),
    f("batch statistics", IMAGE, lambda x: (x - x.mean((0, 2, 3), keepdim=True)) * (x.var((0, 2, 3), keepdim=True, correction=0) + 1e-5).rsqrt(),
      lambda x: F().batch_norm(x, None, None, training=True), loose=10),
    # products
    f("matmul", PRODUCTS, lambda x, y: x @ y, None, np.matmul),
    f("matmul of a transposed", {k: [i[0], Input("w", (i[1].shape[1], i[1].shape[0]))] for k, i in TWO_D.items()},
      lambda x, y: x @ y.T, None, lambda x, y: x @ y.T),
    f("matrix times vector", VECTORS, lambda x, y: x @ y, None, np.matmul),
    f("bmm", BATCHES, lambda x, y: x @ y, None, np.matmul),
    f("linear", LAYERS, lambda x, w, b: x.linear(w.T, b), lambda x, w, b: F().linear(x, w, b), linear_np),
    f("linear and gelu", LAYERS, lambda x, w, b: x.linear(w.T, b).gelu(), lambda x, w, b: F().gelu(F().linear(x, w, b), approximate="tanh")),
    f("outer", {k: [Input("x", (s[0].shape[0],)), Input("x", (s[0].shape[1],))] for k, s in VECTORS.items()},
      lambda x, y: x.unsqueeze(1) * y, None, np.outer),
    f("einsum bij,bkj->bik", {k: [i[0], Input("x", (i[0].shape[0], 9, i[0].shape[2]))] for k, i in BATCHES.items()},
      lambda x, y: type(x).einsum("bij,bkj->bik", x, y), lambda x, y: T().einsum("bij,bkj->bik", x, y),
      lambda x, y: np.einsum("bij,bkj->bik", x, y)),
    f("trace of a product", TWO_D, lambda x, y: (x * x).sum(1) @ (x @ y.square()), None, lambda x, y: (x * x).sum(1) @ (x @ np.square(y)), loose=10),
    # convolutions and pools
    f("conv2d", images(), lambda x, w: x.conv2d(w, padding=1), lambda x, w: F().conv2d(x, w, padding=1)),
    f("conv2d 1x1", images(kernel=1, out=2), lambda x, w: x.conv2d(w), lambda x, w: F().conv2d(x, w)),
    f("conv2d strided", images(out=2), lambda x, w: x.conv2d(w, stride=2, padding=1), lambda x, w: F().conv2d(x, w, stride=2, padding=1)),
    f("conv2d dilated", images(), lambda x, w: x.conv2d(w, dilation=2, padding=2), lambda x, w: F().conv2d(x, w, dilation=2, padding=2)),
    f("conv2d grouped", images(groups=4), lambda x, w: x.conv2d(w, groups=4), lambda x, w: F().conv2d(x, w, groups=4)),
    f("conv2d depthwise", images(groups="all"), lambda x, w: x.conv2d(w, groups=w.shape[0], padding=1),
      lambda x, w: F().conv2d(x, w, groups=w.shape[0], padding=1)),
    f("conv_transpose2d", images(swapped=True), lambda x, w: x.conv_transpose2d(w, stride=2, padding=1),
      lambda x, w: F().conv_transpose2d(x, w, stride=2, padding=1)),
    f("conv1d", LINES, lambda x, w: x.conv2d(w, padding=2), lambda x, w: F().conv1d(x, w, padding=2)),
    f("conv3d", SOLIDS, lambda x, w: x.conv2d(w, padding=1), lambda x, w: F().conv3d(x, w, padding=1)),
    f("max_pool2d", IMAGE, lambda x: x.max_pool2d(), lambda x: F().max_pool2d(x, 2)),
    f("max_pool2d 3 by 2", IMAGE, lambda x: x.max_pool2d((3, 3), stride=2, padding=1), lambda x: F().max_pool2d(x, 3, 2, 1)),
    f("avg_pool2d", IMAGE, lambda x: x.avg_pool2d(), lambda x: F().avg_pool2d(x, 2)),
    f("global average pool", IMAGE, lambda x: x.mean((2, 3)), None, lambda x: x.mean((2, 3))),
    f("interpolate linear", IMAGE, lambda x: x.interpolate((40, 50)), lambda x: F().interpolate(x, (40, 50), mode="bilinear")),
    f("interpolate nearest", IMAGE, lambda x: x.interpolate((40, 50), mode="nearest"), lambda x: F().interpolate(x, (40, 50))),
    # attention
    f("attention", HEADS, lambda q, k, v: q.scaled_dot_product_attention(k, v), lambda q, k, v: F().scaled_dot_product_attention(q, k, v)),
    f("causal attention", HEADS, lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True),
      lambda q, k, v: F().scaled_dot_product_attention(q, k, v, is_causal=True)),
    # by index
    f("embedding", TABLES, lambda x, i: x[i], lambda x, i: F().embedding(i, x), lambda x, i: x[i]),
    f("index_select of columns", ALONG, lambda x, i: x.index_select(1, i[0]), lambda x, i: x.index_select(1, i[0]), lambda x, i: x[:, i[0]]),
    f("gather", ALONG, lambda x, i: x.gather(1, i), None, lambda x, i: np.take_along_axis(x, i, 1)),
    f("take", FLAT, lambda x, i: x[i], lambda x, i: T().take(x, i), np.take),
    f("index by two tensors", ALONG, lambda x, i: x[i[:, 0] % x.shape[0], i[:, 1]], None, lambda x, i: x[i[:, 0] % x.shape[0], i[:, 1]]),
    steps("one_hot", CLASSES, lambda x, i: i.one_hot(x.shape[1]), lambda x, i: F().one_hot(i, x.shape[1])),
    steps("scatter", {k: [p[0], Input(1, p[1].shape), p[2]] for k, p in PUTS.items()}, lambda x, i, s: x.scatter(1, i + 1, s[:, :1].expand(*s.shape)),
          lambda x, i, s: x.scatter(1, i + 1, s[:, :1].expand(*s.shape))),
    f("scatter add", INTO, lambda x, i, s: x.scatter_reduce(0, i, s, "sum"), None, None, loose=10),
    f("scatter max", INTO, lambda x, i, s: x.scatter_reduce(0, i, s, "amax")),
    f("scatter mean", INTO, lambda x, i, s: x.scatter_reduce(0, i, s, "mean", include_self=False), loose=10),
    steps("histogram", FLAT, lambda x, i: (x.zeros_like()).scatter_reduce(0, i, i.float(), "sum"),
          lambda x, i: T().zeros_like(x).scatter_reduce(0, i, i.float(), "sum"), loose=10),
    steps("masked_select", arrays("xb"), lambda x, m: x.masked_select(m), None, lambda x, m: x[m]),
    steps("nonzero", arrays("b"), lambda m: m.nonzero(), None, np.argwhere),
    # along an axis
    f("cumsum of rows", SEQUENCES, lambda x: x.cumsum(-1), None, lambda x: x.cumsum(-1), loose=10),
    f("cumsum of columns", SEQUENCES, lambda x: x.cumsum(0), None, lambda x: x.cumsum(0), loose=30),
    f("cumprod", {k: [Input("u", i[0].shape)] for k, i in SEQUENCES.items()}, lambda x: (x * 0.02 + 1).cumprod(-1), None,
      lambda x: (x * 0.02 + 1).cumprod(-1), loose=100),
    f("cummax", SEQUENCES, lambda x: x.cummax(-1)[0], None, lambda x: np.maximum.accumulate(x, -1)),
    f("logcumsumexp", SEQUENCES, lambda x: x.logcumsumexp(-1)),
    f("sort", ORDERED, lambda x: x.sort(-1)[0], None, lambda x: np.sort(x, -1)),
    f("sort of columns", ORDERED, lambda x: x.sort(0)[0], lambda x: x.sort(dim=0, stable=True)[0], lambda x: np.sort(x, 0)),
    steps("argsort", ORDERED, lambda x: x.argsort(-1), lambda x: x.argsort(dim=-1, stable=True), lambda x: np.argsort(x, -1, kind="stable"), views=False),
    f("topk", ORDERED, lambda x: x.topk(3, -1)[0]),
    f("median by sort", ORDERED, lambda x: x.sort(-1)[0][..., x.shape[-1] // 2]),
    # moving
    f("transpose", X, lambda x: x.transpose(0, -1).contiguous(), None, lambda x: np.ascontiguousarray(x.swapaxes(0, -1))),
    f("flip", X, lambda x: x.flip(-1).contiguous(), None, lambda x: np.flip(x, -1).copy()),
    f("roll", X, lambda x: x.roll(5, 0), None, lambda x: np.roll(x, 5, 0)),
    f("pad", X, lambda x: x.pad((3, 2)), lambda x: F().pad(x, (3, 2))),
    f("pad reflect", IMAGE, lambda x: x.pad((1, 2, 2, 1), mode="reflect"), lambda x: F().pad(x, (1, 2, 2, 1), mode="reflect")),
    f("cat", XY, lambda x, y: x.cat(y, dim=-1), lambda x, y: T().cat([x, y], -1), lambda x, y: np.concatenate([x, y], -1)),
    f("cat of four along 0", XY, lambda x, y: x.cat(y, x, y), lambda x, y: T().cat([x, y, x, y]), lambda x, y: np.concatenate([x, y, x, y])),
    f("stack", XY, lambda x, y: x.stack(y, dim=-1), lambda x, y: T().stack([x, y], -1), lambda x, y: np.stack([x, y], -1)),
    f("repeat_interleave", SEQUENCES, lambda x: x.repeat_interleave(3, 0), None, lambda x: np.repeat(x, 3, 0)),
    f("tril", ORDERED, lambda x: x.tril(), None, np.tril),
    f("diagonal", TWO_D, lambda x, y: (x @ y)[:7, :7].diagonal(), None, lambda x, y: (x @ y)[:7, :7].diagonal()),
    f("unfold", SEQUENCES, lambda x: x.unfold(-1, 4, 1).contiguous()),
    f("windowed mean", SEQUENCES, lambda x: x.unfold(-1, 4, 2).mean(-1)),
    # losses
    f("mse", XY, lambda x, y: (x - y).square().mean(), lambda x, y: F().mse_loss(x, y), lambda x, y: np.square(x - y).mean()),
    f("l1", XY, lambda x, y: (x - y).abs().mean(), lambda x, y: F().l1_loss(x, y), lambda x, y: np.abs(x - y).mean()),
    f("cross entropy", CLASSES, lambda x, i: x.sparse_categorical_crossentropy(i), lambda x, i: F().cross_entropy(x, i)),
    f("binary cross entropy", arrays("zz"), lambda x, y: x.binary_crossentropy(y), lambda x, y: F().binary_cross_entropy(x, y)),
    f("binary cross entropy of logits", arrays("xz"), lambda x, y: x.binary_crossentropy_logits(y),
      lambda x, y: F().binary_cross_entropy_with_logits(x, y)),
    f("kl divergence", XY, lambda x, y: (y.softmax(-1) * (y.log_softmax(-1) - x.log_softmax(-1))).sum(-1).mean(),
      lambda x, y: F().kl_div(F().log_softmax(x, -1), F().log_softmax(y, -1), log_target=True, reduction="sum") / (x.numel() / x.shape[-1])),
    # making
    f("add a triangle of -inf", ORDERED, lambda x: (x + type(x).full(x.shape, float("-inf")).triu(1)).softmax(-1),
      lambda x: (x + T().full(x.shape, float("-inf")).triu(1)).softmax(-1)),
    f("positions", X, lambda x: x * type(x).arange(x.shape[-1]).float().sin(), lambda x: x * T().arange(x.shape[-1]).float().sin()),
    steps("rows by their mean", X, lambda x: x > x.mean(-1, keepdim=True), None, lambda x: x > x.mean(-1, keepdims=True)),
    f("standardise twice", X, lambda x: twice(x), None, None, loose=10),
    f("pairwise distances", {k: [i[0], Input("x", (50, i[0].shape[-1]))] for k, i in TWO_D.items()},
      lambda x, y: (x.unsqueeze(1) - y.unsqueeze(0)).square().sum(-1), None, lambda x, y: np.square(x[:, None] - y[None]).sum(-1)),
]


def twice(x):
    for _ in range(2):
        x = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5)
    return x


# ---- programs: of a function, a size, a layout, inputs in memory or lazy, forward or with gradients

@dataclasses.dataclass(frozen=True)
class Program:
    """What is run: `functions` by library, of lists of tensors."""

    name: str
    inputs: tuple
    functions: dict
    kind: str  # "function", "network" or "random"
    layout: str = "contiguous"
    lazy: bool = False
    grad: tuple | None = None  # numbers of the inputs that have a gradient
    loose: float = 1

    def seed(self):
        return zlib.crc32(self.name.encode())


LAYOUTS = ("transposed", "stepped", "broadcast")


def program(function, size, layout="contiguous", lazy=False, grad=False):
    inputs = function.inputs[size]
    words = [function.name, size, *([layout] if layout != "contiguous" else []), *(["lazy"] if lazy else []), *(["gradient"] if grad else [])]
    functions = {"quern": function.quern, "torch": function.torch or function.quern}
    if function.numpy and not grad:
        functions["numpy"] = function.numpy
    floats = tuple(n for n, i in enumerate(inputs) if isinstance(i.letter, str) and i.letter not in "ijb")
    return Program(", ".join(words), tuple(inputs), functions, "function", layout, lazy, floats if grad else None, function.loose)


def programs(everything=False):
    """All of them; or, of each function, those that differ most: two or three sizes, one with a layout, one lazy, and two gradients."""
    for number, function in enumerate(TABLE):
        sizes = list(function.inputs)
        others = [s for s in sizes if s not in ("small", "large")]
        third = others[number % len(others)] if others else sizes[-1]
        largest = "large" if "large" in sizes else sizes[-1]
        if everything:
            for size in sizes:
                for layout in ("contiguous", *(LAYOUTS if function.views else ())):
                    for lazy in (False, True):
                        for grad in (False, True) if function.grad else (False,):
                            yield program(function, size, layout, lazy, grad)
            continue
        for size in dict.fromkeys(("small", largest, third)):
            yield program(function, size)
        if function.views:
            yield program(function, largest if number % 2 else third, LAYOUTS[number % 3])
        yield program(function, largest, lazy=True, grad=False)
        if function.grad:
            yield program(function, largest, grad=True)
            if number % 3 == 0:
                yield program(function, third, LAYOUTS[number // 3 % 3] if function.views else "contiguous", lazy=True, grad=True)

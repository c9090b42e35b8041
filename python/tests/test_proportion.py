"""Work in proportion: what the schedule of each function of Tensor does grows with the input as the function's task does, and what is
expensive and lazy is computed once for each element. There is no clock, and nothing runs: quern.estimate counts kernels' operations on
values, their bytes, and memory.

TABLE has a line for each: the member's name, a function of n that returns tensors, a function of these, and how its work grows. What is
known to do more than it must stands in TOO_MUCH; a line there that no longer fails fails the test (strict), and is taken out."""

import math

import numpy as np
import pytest

import quern
from quern import Tensor

N = 4096  # and four times that: beyond what is done in one block
LINEAR, SORTING, SQUARE = "n", "n log^2 n", "n^2"
FACTORS = {LINEAR: 4, SORTING: 4 * (14 / 12) ** 2, SQUARE: 16}
SLACK = 1.25  # for what does not grow evenly: tiles, parts of reduces
# The most for each element of the inputs and results, where work is linear: a function of a hundred operations and a convolution of 4
# channels stay below; what reads a row or a block of a few hundred for each element does not. Bytes and memory as if elements had 4.
MOST = {"operations": 256, "bytes": 20 * 4, "memory": 10 * 4}
LEAST = {"operations": 1, "bytes": 12, "memory": 8}  # so little for an element may grow by steps, as a sum does that is cut in parts
LAZY = 4  # times as many operations as inputs and function by themselves: a softmax computes what it reads thrice, in one kernel


def given(*shape, dtype="float32"):
    values = np.random.default_rng(0).uniform(0.1, 0.9, shape)
    return Tensor((values * 100 if "int" in dtype else values).astype(dtype)).realize()


def places(count, *shape):
    return Tensor(np.random.default_rng(1).integers(0, count, shape).astype(np.int32)).realize()


def bits(*shape):
    return Tensor(np.random.default_rng(2).integers(0, 2, shape) == 1).realize()


# what n elements are: a vector, many short rows, or few long ones
def vector(n):
    return [given(n)]


def tall(n):
    return [given(n // 16, 16)]


def wide(n):
    return [given(16, n // 16)]


def two(n):
    return [given(n), given(n)]


def integers(n):
    return [given(n, dtype="int32"), given(n, dtype="int32")]


def images(n):
    return [given(n // 256, 4, 8, 8)]


def rows_and_places(n):
    """A table that grows, and as many places in it."""
    return [given(n, 4), places(n, n)]


def along(n):
    return [given(n, 4), places(n, n, 4)]


def put(n):
    return [given(n, 4), places(n, n, 4), given(n, 4)]


def put_rows(n):
    return [given(n, 4), places(n, n), given(n, 4)]


def convolved(n):
    return [given(n // 256, 4, 8, 8), given(8, 4, 3, 3)]


def swapped(n):
    return [given(n // 256, 4, 8, 8), given(4, 8, 3, 3)]


def classified(n):
    return [given(n, 10), places(10, n)]


def heads(n):
    return [given(n // 64, 2, 16, 4)] * 3


class Line:
    def __init__(self, name, make, function=None, growth=LINEAR, memory=None, grad=True, lazy=True, label=""):
        self.name, self.make, self.growth, self.grad, self.lazy = name, make, growth, grad, lazy
        self.memory = memory or (LINEAR if growth == SORTING else growth)
        self.function = function or getattr(Tensor, name)
        self.label = f"{name} {label}".strip()


def line(name, make, function=None, growth=LINEAR, **options):
    return Line(name, make, function, growth, **options)


ELEMENTWISE = """
neg reciprocal abs square sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh atanh erf
sigmoid logsigmoid relu relu6 leaky_relu elu celu selu gelu quick_gelu silu swish mish softplus softsign hardsigmoid hardswish hardtanh
detach contiguous contiguous_backward clone half double float bfloat16 flatten""".split()
STEPS = "sign trunc floor ceil round isnan isinf isfinite logical_not zeros_like ones_like bool int long short".split()
PAIRS = "add sub mul div pow maximum minimum logaddexp".split()
COMPARES = "eq ne lt le gt ge mod fmod floordiv copysign isclose".split()
BITS = "bitwise_and bitwise_or bitwise_xor".split()

TABLE = [
    *[line(name, vector) for name in ELEMENTWISE],
    *[line(name, vector, grad=False) for name in STEPS],
    *[line(name, two) for name in PAIRS],
    *[line(name, two, grad=False) for name in COMPARES],
    *[line(name, integers, grad=False) for name in BITS],
    line("acosh", vector, lambda x: (x + 1).acosh()),
    line("bitwise_not", integers, lambda x, y: ~x, grad=False),
    line("lshift", integers, lambda x, y: x << 2, grad=False),
    line("rshift", integers, lambda x, y: x >> 2, grad=False),
    line("lerp", two, lambda x, y: x.lerp(y, 0.3)),
    line("clamp", vector, lambda x: x.clamp(0.2, 0.7)),
    line("clip", vector, lambda x: x.clip(0.2, 0.7)),
    line("where", two, lambda x, y: (x > y).where(x, y)),
    line("masked_fill", two, lambda x, y: x.masked_fill(y > 0.5, 2.0)),
    line("cast", vector, lambda x: x.cast("float16")),
    line("bitcast", vector, lambda x: x.bitcast("int32"), grad=False),
    line("full_like", vector, lambda x: x.full_like(3), grad=False),
    line("const_like", vector, lambda x: x.const_like(3), grad=False),
    line("allclose", two, lambda x, y: x.isclose(y).all(), grad=False),
    line("dropout", vector, lambda x: x.dropout(0.5, training=True)),
    line("threefry", integers, lambda x, y: x.cast("uint64").threefry(y.cast("uint64")), grad=False),
    # names of PyTorch
    *[line(name, vector) for name in "deg2rad rad2deg hardshrink softshrink tanhshrink nan_to_num logit".split()],
    *[line(name, vector, grad=False) for name in "frac signbit count_nonzero nansum nanmean".split()],
    *[line(name, two) for name in "atan2 hypot xlogy mse_loss l1_loss smooth_l1_loss huber_loss kl_div".split()],
    *[line(name, two, grad=False) for name in "logical_and logical_or logical_xor remainder".split()],
    line("cosine_similarity", lambda n: [given(n // 16, 16)] * 2),
    line("addcmul", lambda n: [given(n), given(n), given(n)]),
    line("addcdiv", lambda n: [given(n), given(n), given(n)]),
    line("clamp_min", vector, lambda x: x.clamp_min(0.3)),
    line("clamp_max", vector, lambda x: x.clamp_max(0.3)),
    line("threshold", vector, lambda x: x.threshold(0.3, 0.0)),
    line("prelu", lambda n: [given(n), given(1)]),
    line("glu", tall),
    line("amax", tall, lambda x: x.amax(1)),
    line("amin", tall, lambda x: x.amin(1)),
    line("aminmax", tall, lambda x: x.aminmax(dim=1)[0], grad=False),
    line("norm", tall, lambda x: x.norm(dim=1)),
    line("norm", vector, lambda x: x.norm(), label="of all"),
    line("median", vector, lambda x: x.median(), SORTING, grad=False),
    line("kthvalue", vector, lambda x: x.kthvalue(4)[0], SORTING, grad=False),
    line("quantile", vector, lambda x: x.quantile(0.3), SORTING, grad=False),
    line("searchsorted", two, lambda x, y: x.searchsorted(y), SORTING, grad=False),
    line("diff", vector),
    line("trace", lambda n: [given(math.isqrt(n), math.isqrt(n))]),
    line("outer", lambda n: [given(math.isqrt(n)), given(math.isqrt(n))]),
    line("kron", lambda n: [given(n // 16, 4), given(2, 2)]),
    line("cross", lambda n: [given(n // 3, 3), given(n // 3, 3)]),
    line("mm", lambda n: [given(n // 16, 16), given(16, 8)]),
    line("mv", lambda n: [given(n // 16, 16), given(16)]),
    line("bmm", lambda n: [given(n // 16, 8, 4), given(n // 16, 4, 8)]),
    line("addmm", lambda n: [given(8), given(n // 16, 16), given(16, 8)]),
    line("baddbmm", lambda n: [given(1), given(n // 16, 8, 4), given(n // 16, 4, 8)]),
    line("tensordot", lambda n: [given(n // 16, 16), given(16, 8)], lambda x, y: x.tensordot(y, 1)),
    line("cdist", lambda n: [given(n // 16, 4), given(16, 4)]),
    line("adaptive_avg_pool2d", images, lambda x: x.adaptive_avg_pool2d(3)),
    line("adaptive_max_pool2d", images, lambda x: x.adaptive_max_pool2d(3)),
    line("pixel_shuffle", images, lambda x: x.pixel_shuffle(2)),
    line("pixel_unshuffle", images, lambda x: x.pixel_unshuffle(2)),
    line("tile", tall, lambda x: x.tile(2, 2)),
    line("take_along_dim", along, lambda x, i: x.take_along_dim(i, 0)),
    line("index_add", put_rows, lambda x, i, s: x.index_add(0, i, s)),
    line("index_copy", put_rows, lambda x, i, s: x.index_copy(0, i, s)),
    line("index_fill", rows_and_places, lambda x, i: x.index_fill(0, i, 2.0)),
    line("keccak", lambda n: [given(n // 64, 64, dtype="uint8")], lambda x: x.keccak(), grad=False),
    # making
    line("arange", vector, lambda x: Tensor.arange(x.shape[0]).contiguous(), grad=False, lazy=False),
    line("linspace", vector, lambda x: Tensor.linspace(0, 1, x.shape[0]).contiguous(), grad=False, lazy=False),
    line("full", vector, lambda x: Tensor.full(x.shape, 2.0).contiguous(), grad=False, lazy=False),
    line("eye", vector, lambda x: Tensor.eye(x.shape[0] // 16, 16).contiguous(), grad=False, lazy=False),
    line("rand", vector, lambda x: Tensor.rand(*x.shape), grad=False, lazy=False),
    line("randn", vector, lambda x: Tensor.randn(*x.shape), grad=False, lazy=False),
    line("randint", vector, lambda x: Tensor.randint(*x.shape), grad=False, lazy=False),
    line("randperm", vector, lambda x: Tensor.randperm(x.shape[0]), SORTING, grad=False, lazy=False),
    line("multinomial", tall, lambda x: x.multinomial(4, replacement=True), grad=False),
    # reduces, along short and long axes
    *[line(name, make, lambda x, name=name, axis=axis: getattr(x, name)(axis), grad=name not in ("any", "all", "argmax", "argmin"),
           label=f"of {label}")
      for name in "sum mean max min var std any all argmax argmin logsumexp softmax softmin log_softmax".split()
      for label, make, axis in (("short rows", tall, 1), ("long rows", wide, 1), ("columns", tall, 0))],
    line("prod", tall, lambda x: x.prod(1)),
    line("prod", wide, lambda x: x.prod(1), label="of long rows"),
    line("var_mean", tall, lambda x: Tensor.cat(*x.var_mean(1))),
    line("std_mean", tall, lambda x: Tensor.cat(*x.std_mean(1))),
    line("normalize", tall),
    line("layernorm", tall),
    line("batchnorm", images, lambda x: x.batchnorm(None, None, x.mean((0, 2, 3)), (x.var((0, 2, 3)) + 1).rsqrt())),
    # along an axis
    *[line(name, make, lambda x, name=name, axis=axis: getattr(x, name)(axis), label=f"of {label}")
      for name in "cumsum cumprod logcumsumexp".split()
      for label, make, axis in (("short rows", tall, 1), ("a vector", vector, 0), ("columns", tall, 0))],
    *[line(name, vector, lambda x, name=name: getattr(x, name)(0)[0]) for name in ("cummax", "cummin")],
    line("sort", vector, lambda x: x.sort(0)[0], SORTING),
    line("sort", tall, lambda x: x.sort(1)[0], label="of short rows"),
    line("argsort", vector, lambda x: x.argsort(0), SORTING, grad=False),
    line("topk", vector, lambda x: x.topk(4, 0)[0], SORTING),
    line("topk", tall, lambda x: x.topk(4, 1)[0], label="of short rows"),
    # by index
    line("gather", along, lambda x, i: x.gather(0, i)),
    line("index_select", rows_and_places, lambda x, i: x.index_select(0, i)),
    line("__getitem__", rows_and_places, lambda x, i: x[i], label="of rows"),
    line("__getitem__", lambda n: [given(n), places(n, n), bits(n)], lambda x, i, m: x[i], label="of elements"),
    line("__getitem__", tall, lambda x: x[1::2, ::-1].contiguous(), label="of slices"),
    line("scatter", put, lambda x, i, s: x.scatter(0, i, s), grad=False),
    line("scatter", put, lambda x, i, s: x.scatter(0, i, s, reduce="add"), label="add"),
    *[line("scatter_reduce", put, lambda x, i, s, how=how: x.scatter_reduce(0, i, s, how), label=how) for how in ("sum", "mean", "amax", "prod")],
    line("one_hot", classified, lambda x, i: i.one_hot(10), grad=False),
    line("masked_select", lambda n: [given(n), bits(n)], lambda x, m: x.masked_select(m, size=x.shape[0])),
    line("nonzero", lambda n: [bits(n)], lambda m: m.nonzero(size=m.shape[0]), grad=False),
    # moving
    line("reshape", tall, lambda x: x.reshape(16, -1).contiguous()),
    line("permute", tall, lambda x: x.permute(1, 0).contiguous()),
    line("transpose", tall, lambda x: x.transpose().contiguous()),
    line("expand", vector, lambda x: x.unsqueeze(1).expand(x.shape[0], 4).contiguous()),
    line("shrink", vector, lambda x: x.shrink(((1, x.shape[0] - 1),)).contiguous()),
    line("pad", vector, lambda x: x.pad((3, 2))),
    *[line("pad", tall, lambda x, mode=mode: x.pad((3, 2), mode=mode), label=mode) for mode in ("reflect", "replicate", "circular")],
    line("flip", tall, lambda x: x.flip(0).contiguous()),
    line("roll", tall, lambda x: x.roll(5, 0)),
    line("repeat", tall, lambda x: x.repeat(2, 2)),
    line("repeat_interleave", vector, lambda x: x.repeat_interleave(3)),
    line("cat", two, lambda x, y: x.cat(y)),
    line("cat", vector, lambda x: Tensor.cat(*x.chunk(8)), label="of parts"),
    line("stack", two, lambda x, y: x.stack(y, dim=1)),
    line("split", vector, lambda x: Tensor.stack(*x.split(x.shape[0] // 4))),
    line("chunk", vector, lambda x: Tensor.stack(*x.chunk(4))),
    line("unfold", vector, lambda x: x.unfold(0, 4, 1).contiguous()),
    line("rearrange", tall, lambda x: x.rearrange("a (b c) -> (a c) b", c=2).contiguous()),
    line("diagonal", lambda n: [given(math.isqrt(n), math.isqrt(n))], lambda x: x.diagonal().contiguous()),
    line("diag", lambda n: [given(math.isqrt(n))], lambda x: x.diag()),
    line("tril", lambda n: [given(math.isqrt(n), math.isqrt(n))]),
    line("triu", lambda n: [given(math.isqrt(n), math.isqrt(n))]),
    line("meshgrid", lambda n: [given(math.isqrt(n)), given(math.isqrt(n))], lambda x, y: x.meshgrid(y)[0] * x.meshgrid(y)[1]),
    line("interpolate", images, lambda x: x.interpolate((16, 16))),
    line("interpolate", images, lambda x: x.interpolate((16, 16), mode="nearest"), label="nearest"),
    # products, convolutions, pools, losses: n is a batch
    line("matmul", lambda n: [given(n // 16, 16), given(16, 8)]),
    line("matmul", lambda n: [given(n // 16, 8, 4), given(n // 16, 4, 8)], label="of batches"),
    line("dot", two),
    line("linear", lambda n: [given(n // 16, 16), given(16, 8), given(8)]),
    line("einsum", lambda n: [given(n // 16, 4, 4), given(n // 16, 4, 4)], lambda x, y: Tensor.einsum("bij,bkj->bik", x, y)),
    line("conv2d", convolved, lambda x, w: x.conv2d(w, padding=1)),
    line("conv2d", lambda n: [given(n // 256, 4, 8, 8), given(4, 1, 3, 3)], lambda x, w: x.conv2d(w, groups=4, padding=1), label="by channel"),
    line("conv2d", lambda n: [given(1, 4, n // 4), given(4, 4, 5)], lambda x, w: x.conv2d(w, padding=2), label="of a line"),
    line("conv_transpose2d", swapped, lambda x, w: x.conv_transpose2d(w, stride=2)),
    line("max_pool2d", images),
    line("max_pool2d", images, lambda x: x.max_pool2d((3, 3), stride=1, padding=1), label="that overlaps"),
    line("avg_pool2d", images),
    line("avg_pool2d", images, lambda x: x.avg_pool2d((3, 3), stride=1, padding=1), label="that overlaps"),
    line("max_unpool2d", images, lambda x: Tensor.max_unpool2d(*x.max_pool2d(return_indices=True)), grad=False),
    line("scaled_dot_product_attention", heads),
    line("scaled_dot_product_attention", heads, lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True), label="causal"),
    line("scaled_dot_product_attention", lambda n: [given(1, 1, n // 4, 4)] * 3, None, SQUARE, memory=LINEAR, label="of long sequences"),
    line("cross_entropy", classified),
    line("sparse_categorical_crossentropy", classified),
    line("nll_loss", classified, lambda x, y: x.log_softmax().nll_loss(y)),
    line("binary_crossentropy", two),
    line("binary_crossentropy_logits", two),
    line("newton_schulz", lambda n: [given(n // 16, 4, 4)], lambda x: x.newton_schulz(2, (3.4445, -4.775, 2.0315)), grad=False),
    line("qr", lambda n: [given(n // 16, 4, 4)], lambda x: x.qr()[0], grad=False),
]

# Aliases, views that do no work, what runs by itself or writes, what makes numbers like another line does, and what is no function of values.
NOT_HERE = """
T hash view unsqueeze squeeze unflatten shrink_to pad_to f16 f32 f64 i32 i64 bf16 sequential svd
zeros ones empty empty_like normal uniform rand_like randn_like scaled_uniform glorot_uniform kaiming_uniform kaiming_normal random_bits
assign backward custom_kernel data device dtype element_size from_blob from_dlpack from_file from_url grad gradient is_floating_point
is_param is_param_ is_realized item manual_seed nbytes ndim numel numpy realize replace requires_grad requires_grad_ schedule shape shard
shard_ shard_like size to to_ tobytes tolist train training uop
absolute arctan2 binary_cross_entropy binary_cross_entropy_with_logits broadcast_to concat concatenate const cpu dim divide equal
expand_as floor_divide ger hstack vstack invalids mT moveaxis movedim multiply narrow nelement new_empty new_full new_ones new_tensor
new_zeros ravel reshape_as select subtract swapaxes swapdims t true_divide type_as unbind view_as bincount unique
add_ addcdiv_ addcmul_ clamp_ clip_ copy_ div_ fill_ lerp_ masked_fill_ mul_ normal_ sub_ uniform_ zero_""".split()



def each(labels, reason):
    return dict.fromkeys((label.strip() for label in labels.split(",")), reason)


# Growth: label, or label and "gradient" -> what it does. Strict: who mends one takes it out.
TOO_MUCH = {
    **each("topk, topk gradient", "a loop whose length is found when it runs counts as the longest"),
    **each("cdist gradient", "the differences are materialised"),
    **each("conv_transpose2d gradient", "the windows are materialised"),
    **each("scaled_dot_product_attention of long sequences, scaled_dot_product_attention of long sequences gradient",
           "the scores are materialised"),
}
RECOMPUTED = {}  # lazy inputs


def results_of(entry, inputs, grad):
    """The result, or the gradients of its sum by the float inputs."""
    result = entry.function(*inputs)
    if not grad:
        return [result]
    return result.sum().gradient(*{id(x): x for x in inputs if x.is_floating_point()}.values())


def estimate_of(entry, n, grad):
    """What its schedule does, and how many elements go in and out."""
    inputs = entry.make(n)
    results = results_of(entry, inputs, grad)
    return quern.estimate(*results), sum(x.numel() for x in {id(x): x for x in [*inputs, *results]}.values())


def cases(known, wanted=lambda entry: True):
    found = []
    for entry in TABLE:
        for grad in (False, True) if entry.grad else (False,):
            label = f"{entry.label} gradient" if grad else entry.label
            if wanted(entry):
                marks = [pytest.mark.xfail(strict=True, raises=AssertionError, reason=known[label])] if label in known else []
                found.append(pytest.param(entry, grad, id=label.replace(" ", "-"), marks=marks))
    return found


@pytest.mark.parametrize("entry, grad", cases(TOO_MUCH))
def test_growth(entry, grad):
    (small, _), (large, elements) = estimate_of(entry, N, grad), estimate_of(entry, 4 * N, grad)
    for what in ("operations", "bytes", "memory"):
        before, after = getattr(small, what), getattr(large, what)
        growth = entry.memory if what == "memory" else entry.growth
        assert after <= FACTORS[growth] * SLACK * max(before, LEAST[what] * N), f"{what}: {before} of {N} elements, {after} of {4 * N}"
        if growth != SQUARE:
            most = MOST[what] * (math.log2(elements) if growth == SORTING and what == "bytes" else 1)
            assert after <= most * elements, f"{what}: {after / elements:.0f} for each element, {most:.0f} at most"


def expensive(x):
    """A lazy value of the same range, of many operations."""
    for _ in range(3):
        x = (x.sin() * 3).sin().abs() * 0.8 + 0.1
    return x


@pytest.mark.parametrize("entry, grad", cases(RECOMPUTED, lambda entry: entry.lazy))
def test_lazy_inputs_are_computed_once(entry, grad):
    memory = entry.make(N)
    floats = [x.is_floating_point() for x in memory]
    if not any(floats):
        pytest.skip("it has no inputs of floats")
    lazy = {id(x): expensive(x) for x, is_float in zip(memory, floats) if is_float}
    lazies = [lazy.get(id(x), x) for x in memory]
    alone = quern.estimate(*[expensive(x) + 0 for x in {id(x): x for x, f in zip(memory, floats) if f}.values()]).operations
    function = quern.estimate(*results_of(entry, memory, grad)).operations
    together = quern.estimate(*results_of(entry, lazies, grad)).operations
    assert together <= LAZY * (alone + function), f"{together} operations; {alone} of the inputs and {function} of the function"


def test_every_function_is_here():
    names = {entry.name for entry in TABLE} | set(NOT_HERE)
    assert sorted({name for name in dir(Tensor) if not name.startswith("_")} - names) == [], "members of Tensor without a line in TABLE"
    assert sorted(names - set(dir(Tensor))) == []


@pytest.mark.parametrize("known", [TOO_MUCH, RECOMPUTED])
def test_what_is_known_names_lines(known):
    labels = {entry.label for entry in TABLE} | {f"{entry.label} gradient" for entry in TABLE if entry.grad}
    assert sorted(set(known) - labels) == []


def test_estimate_counts_what_runs():
    quern.GlobalCounters.reset()
    x = given(64, 64)
    y, z = (x @ x).softmax(), x.sum(0)
    expected = quern.estimate(y, z)
    quern.GlobalCounters.reset()
    Tensor.realize(y, z)
    counters = quern.GlobalCounters
    assert (expected.kernels, expected.operations, expected.bytes) == (counters.kernel_count, counters.global_ops, counters.global_mem)
    assert expected.memory >= 4 * (64 * 64 + 64)
    assert quern.estimate(y) == (0, 0, 0, 0) == quern.estimate()
    with pytest.raises(TypeError, match="estimate: expected tensors, got float"):
        quern.estimate(1.0)

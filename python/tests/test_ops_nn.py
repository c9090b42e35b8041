"""Convolutions, pools, norms, attention and losses."""

import numpy as np
import pytest

import numpy_nn as oracle
from quern import Tensor

from reference import FLOATS, between, checks_of, distinct, given, normal, op, positive



def small(*shape):
    """Sums of products of these stay below 10, whose rounding is below the tolerance where they cancel."""
    return between(-1, 1, *shape)


IMAGE, LINE, SOLID = small(2, 4, 5, 7), small(2, 4, 7), small(1, 2, 3, 4, 3)
WEIGHT, BIAS = small(6, 4, 3, 2), small(6)
REAL = {"dtypes": FLOATS}


def conv(*inputs, dtypes="float32 float64", smoke=False, **options):
    return op("conv2d", lambda *xs: xs[0].conv2d(*xs[1:], **options), lambda *xs: oracle.conv(*xs, **options), *inputs,
              dtypes=dtypes, smoke=smoke)


def transposed(*inputs, dtypes="float32 float64", smoke=False, **options):
    return op("conv_transpose2d", lambda *xs: xs[0].conv_transpose2d(*xs[1:], **options),
              lambda *xs: oracle.conv_transpose(*xs, **options), *inputs,
              dtypes=dtypes, smoke=smoke)




def max_pool(x, kernel=2, dtypes="float32 float64", smoke=False, xfail={}, **options):
    return op("max_pool2d", lambda x: x.max_pool2d(kernel, **options), lambda x: oracle.max_pool(x, kernel, **options), x, dtypes=dtypes,
              views=False, smoke=smoke, xfail=xfail)


def max_places(x, kernel=2, **options):
    return op("max_pool2d", lambda x: x.max_pool2d(kernel, return_indices=True, **options),
              lambda x: (oracle.max_pool(x, kernel, **options), oracle.max_places(x, kernel, **options)), x, views=False)


def avg_pool(x, kernel=2, dtypes="float32 float64", xfail={}, **options):
    return op("avg_pool2d", lambda x: x.avg_pool2d(kernel, **options), lambda x: oracle.avg_pool(x, kernel, **options), x,
              dtypes=dtypes, xfail=xfail)


def unpooled(x):
    return Tensor.max_unpool2d(*x.max_pool2d(return_indices=True), output_size=tuple(x.shape))


def attention(*inputs, options=None, **others):
    options = options or {}
    return op("scaled_dot_product_attention", lambda *xs: xs[0].scaled_dot_product_attention(*xs[1:], **options),
              lambda *xs: oracle.attention(*xs, causal=options.get("is_causal", False)), *inputs, **others)


CONVOLUTIONS = [
    conv(IMAGE, WEIGHT, dtypes=FLOATS),
    conv(IMAGE, WEIGHT, BIAS, smoke=True),
    conv(IMAGE, WEIGHT, padding=1, stride=2),
    conv(IMAGE, WEIGHT, padding=(2, 0), stride=(1, 3), dilation=(2, 1)),
    conv(IMAGE, WEIGHT, padding=(1, 2, 0, 3)),
    conv(IMAGE, small(6, 2, 3, 2), BIAS, groups=2),
    conv(IMAGE, small(4, 1, 3, 3), groups=4, padding=1),
    conv(IMAGE, small(6, 4, 1, 1)),
    conv(LINE, small(3, 4, 3), small(3), stride=2, dilation=2),
    conv(LINE, small(1, 4, 7)),
    conv(SOLID, small(3, 2, 2, 3, 2), padding=1),
    conv(normal(1, 2, 3, 3), normal(2, 2, 2, 2), dtypes="int32 int64"),
    transposed(small(2, 4, 3, 4), small(4, 3, 3, 2), dtypes=FLOATS),
    transposed(small(2, 4, 3, 4), small(4, 3, 3, 2), small(3), stride=2, smoke=True),
    transposed(small(2, 4, 3, 4), small(4, 3, 3, 2), stride=(3, 2), padding=(1, 0), output_padding=(2, 1)),
    transposed(small(2, 4, 3, 4), small(4, 3, 3, 2), dilation=2, stride=2, padding=1),
    transposed(small(2, 4, 3, 4), small(4, 2, 2, 2), small(4), groups=2, stride=2),
    transposed(LINE, small(4, 3, 3), stride=3),
    transposed(small(1, 2, 2, 3, 2), small(2, 1, 2, 2, 2), stride=2),
]
POOLS = [
    max_pool(distinct(1, 2, 4, 6), dtypes=f"int8 uint8 int32 {FLOATS}", smoke=True),
    max_pool(distinct(1, 2, 5, 7), 3, stride=2, padding=1),
    max_pool(distinct(1, 2, 5, 7), (2, 3), stride=1, dilation=2),
    max_pool(distinct(1, 2, 5, 7), 2, ceil_mode=True),
    max_pool(distinct(1, 1, 5, 5), 3, stride=2, padding=(1, 0, 0, 1)),
    max_pool(distinct(1, 2, 7), (3,), stride=2),
    max_pool(distinct(1, 1, 4, 4, 4), (2, 2, 2)),
    max_places(distinct(1, 2, 4, 6)),
    max_places(distinct(1, 2, 5, 7), 3, stride=2, padding=1),
    max_places(distinct(2, 1, 5, 5), 2, ceil_mode=True),
    avg_pool(normal(1, 2, 4, 6), dtypes=FLOATS),
    avg_pool(normal(1, 2, 5, 7), 3, stride=2, padding=1),
    avg_pool(normal(1, 2, 5, 7), 3, stride=2, padding=1, count_include_pad=False),
    avg_pool(normal(1, 2, 5, 7), 2, ceil_mode=True),
    avg_pool(normal(1, 2, 5, 7), 3, padding=1, ceil_mode=True, count_include_pad=False),
    avg_pool(normal(1, 2, 5, 7), 3, padding=1, ceil_mode=True),
    avg_pool(normal(1, 2, 5, 7), (2, 3), stride=1, dilation=2),
    avg_pool(normal(1, 2, 7), (3,), stride=2),
    op("max_unpool2d", unpooled, lambda x: oracle.unpool(oracle.max_pool(x), oracle.max_places(x), x.shape[-2:]),
       distinct(1, 2, 4, 6), views=False),
    op("max_unpool2d", unpooled, lambda x: oracle.unpool(oracle.max_pool(x), oracle.max_places(x), x.shape[-2:]),
       distinct(1, 2, 5, 7), views=False),
    op("max_unpool2d", lambda x, i: x.max_unpool2d(i), lambda x, i: oracle.unpool(x, i, (4, 4)), normal(1, 1, 2, 2),
       given(np.array([[[[0, 3], [9, 15]]]], np.int32))),
]
def adaptive(x, size, function):
    """One axis after the other from the last: output i reads from floor(i n / size) to ceil((i + 1) n / size)."""
    for axis, outputs in zip(range(-len(size), 0), size):
        n = x.shape[axis]
        x = np.stack([function(np.take(x, range(i * n // outputs, -(-(i + 1) * n // outputs)), axis), axis) for i in range(outputs)], axis)
    return x


ADAPTIVE = [
    op("adaptive_avg_pool2d", lambda x: x.adaptive_avg_pool2d(1), lambda x: adaptive(x, (1, 1), np.mean), IMAGE, dtypes=FLOATS),
    op("adaptive_avg_pool2d", lambda x: x.adaptive_avg_pool2d((3, 2)), lambda x: adaptive(x, (3, 2), np.mean), IMAGE),
    op("adaptive_avg_pool2d", lambda x: x.adaptive_avg_pool2d((None, 14)), lambda x: adaptive(x, (5, 14), np.mean), IMAGE),
    op("adaptive_avg_pool2d", lambda x: x.adaptive_avg_pool2d((4, 6)), lambda x: adaptive(x, (4, 6), np.mean), normal(1, 1, 6, 9)),
    op("adaptive_avg_pool2d", lambda x: x.adaptive_avg_pool2d((3,)), lambda x: adaptive(x, (3,), np.mean), LINE),
    op("adaptive_max_pool2d", lambda x: x.adaptive_max_pool2d((3, 2)), lambda x: adaptive(x, (3, 2), np.max), distinct(1, 2, 5, 7),
       dtypes=f"int8 {FLOATS}", views=False),
    op("adaptive_max_pool2d", lambda x: x.adaptive_max_pool2d(1), lambda x: adaptive(x, (1, 1), np.max), distinct(1, 2, 3, 4), views=False),
]
NORMS = [
    op("batchnorm", None, oracle.batchnorm, IMAGE, normal(4), normal(4), normal(4), positive(4)),
    op("batchnorm", lambda x, w, m, s: x.batchnorm(w, None, m, s), lambda x, w, m, s: oracle.batchnorm(x, w, None, m, s), IMAGE,
       normal(4), normal(4), positive(4), **REAL, loose=3),  # three operations, each of which rounds
    op("batchnorm", lambda x, m, s: x.batchnorm(None, None, m, s), lambda x, m, s: oracle.batchnorm(x, None, None, m, s), IMAGE,
       normal(4), positive(4)),
    op("batchnorm", lambda x, w, b, m, s: x.batchnorm(w, b, m, s, axis=2), lambda *xs: oracle.batchnorm(*xs, axis=2), LINE,
       normal(7), normal(7), normal(7), positive(7)),
    op("layernorm", None, oracle.layernorm, LINE, **REAL, smoke=True),
    op("layernorm", lambda x: x.layernorm((1, 2), eps=0.1), lambda x: oracle.layernorm(x, (1, 2), 0.1), LINE, views=False),
    op("layernorm", lambda x: x.layernorm(0), lambda x: oracle.layernorm(x, 0), normal(3), views=False),
]
QUERY, KEY, VALUE = normal(2, 3, 4), normal(2, 5, 4), normal(2, 5, 6)
ATTENTION = [
    attention(QUERY, KEY, VALUE, **REAL, smoke=True),
    attention(normal(3, 4), normal(5, 4), normal(5, 2)),
    attention(normal(1, 2, 4, 3), normal(1, 2, 4, 3), normal(1, 2, 4, 3), options={"is_causal": True}),
    attention(normal(2, 3, 4), normal(2, 5, 4), normal(2, 5, 4), options={"is_causal": True}),
    attention(QUERY, KEY, VALUE, normal(3, 5)),
    attention(QUERY, KEY, VALUE, given(np.tri(3, 5) > 0)),
    attention(normal(1, 4, 3, 2), normal(1, 2, 5, 2), normal(1, 2, 5, 3), options={"enable_gqa": True}),
]
LOGITS, CLASSES, PROBABILITIES = normal(5, 3), given(np.array([0, 2, 1, 1, 0], np.int32)), between(0.05, 0.95, 3, 4)
GRID, GRID_CLASSES = normal(2, 3, 4), given(np.array([[0, 2, 1, 1], [2, 2, 0, 1]]))
BITS = between(0, 1, 3, 4)
LOSSES = [
    op("cross_entropy", None, oracle.cross_entropy, LOGITS, CLASSES, **REAL, smoke=True),
    op("cross_entropy", lambda x, y: x.cross_entropy(y, reduction="sum"), lambda x, y: oracle.cross_entropy(x, y, reduction="sum"),
       GRID, GRID_CLASSES),
    op("cross_entropy", lambda x, y: x.cross_entropy(y, "none", 0.2), lambda x, y: oracle.cross_entropy(x, y, 1, "none", 0.2), GRID,
       GRID_CLASSES),
    op("cross_entropy", None, oracle.cross_entropy, LOGITS, between(0, 1, 5, 3)),
    op("cross_entropy", lambda x, y: x.cross_entropy(y), lambda x, y: oracle.cross_entropy(x[None], y[None]), normal(4),
       given(np.array(2))),
    op("sparse_categorical_crossentropy", None, lambda x, y: oracle.cross_entropy(x, y, -1), LOGITS, CLASSES, **REAL),
    op("sparse_categorical_crossentropy", lambda x, y: x.sparse_categorical_crossentropy(y, ignore_index=1, label_smoothing=0.1),
       lambda x, y: oracle.cross_entropy(x, y, -1, "mean", 0.1, 1), LOGITS, CLASSES),
    op("sparse_categorical_crossentropy", lambda x, y: x.sparse_categorical_crossentropy(y, reduction="none"),
       lambda x, y: oracle.cross_entropy(x, y, -1, "none"), normal(2, 4, 3), GRID_CLASSES),
    op("nll_loss", None, oracle.nll, LOGITS, CLASSES, **REAL),
    op("nll_loss", None, oracle.nll, LOGITS, CLASSES, positive(3)),
    op("nll_loss", lambda x, y: x.nll_loss(y, ignore_index=1), lambda x, y: oracle.nll(x, y, ignored=1), LOGITS, CLASSES),
    op("nll_loss", lambda x, y: x.nll_loss(y, reduction="none"), lambda x, y: oracle.nll(x, y, reduction="none"), GRID, GRID_CLASSES),
    op("binary_crossentropy", None, oracle.binary, PROBABILITIES, BITS, **REAL),
    op("binary_crossentropy", lambda x, y: x.binary_crossentropy(y, "none"), lambda x, y: oracle.binary(x, y, "none"), PROBABILITIES, BITS),
    op("binary_crossentropy_logits", None, lambda x, y: oracle.binary(1 / (1 + np.exp(-x)), y), normal(3, 4), BITS, **REAL),
    op("binary_crossentropy_logits", lambda x, y, w: x.binary_crossentropy_logits(y, "sum", w),
       lambda x, y, w: oracle.binary(1 / (1 + np.exp(-x)), y, "sum", w), normal(3, 4), BITS, positive(4)),
    op("binary_crossentropy_logits", lambda x, y: x.binary_crossentropy_logits(y, "none"), lambda x, y: np.array([100.0, 0.0]),
       given([-100.0, 100.0]), given([1.0, 1.0]), dtypes="float64", grad=False),
]
TARGET = normal(3, 4)


def of_numbers(name, function, **options):
    """A loss, reduced in all ways."""
    return [op(name, lambda x, y, r=reduction: getattr(x, name)(y, reduction=r, **options),
               lambda x, y, f=total: f(function(x - y)), normal(3, 4), TARGET, **(REAL if reduction == "mean" else {}))
            for reduction, total in (("mean", np.mean), ("sum", np.sum), ("none", lambda x: x))]


LOSSES += [
    *of_numbers("mse_loss", np.square), *of_numbers("l1_loss", np.abs),
    *of_numbers("smooth_l1_loss", lambda d: np.where(np.abs(d) < 1, d * d / 2, np.abs(d) - 0.5)),
    *of_numbers("smooth_l1_loss", lambda d: np.where(np.abs(d) < 0.3, d * d / 0.6, np.abs(d) - 0.15), beta=0.3),
    *of_numbers("smooth_l1_loss", np.abs, beta=0),
    *of_numbers("huber_loss", lambda d: np.where(np.abs(d) < 1, d * d / 2, np.abs(d) - 0.5)),
    *of_numbers("huber_loss", lambda d: np.where(np.abs(d) < 2, d * d / 2, 2 * (np.abs(d) - 1)), delta=2.0),
    op("mse_loss", None, lambda x, y: np.square(x - y).mean(), normal(3), normal(3), dtypes="int32", out="float32"),
    op("kl_div", None, lambda x, y: (y * (np.log(y) - x)).mean(), normal(3, 4), PROBABILITIES, dtypes="float32 float64"),
    op("kl_div", lambda x, y: x.kl_div(y, "batchmean"), lambda x, y: (y * (np.log(y) - x)).sum() / 3, normal(3, 4), PROBABILITIES),
    op("kl_div", lambda x, y: x.kl_div(y, "sum", log_target=True), lambda x, y: (np.exp(y) * (y - x)).sum(), normal(3, 4), normal(3, 4)),
    op("kl_div", lambda x, y: x.kl_div(y, "none"), lambda x, y: np.array([0.0, np.log(0.5) / 2 + 0.5]), given([3.0, -1.0]), given([0.0, 0.5]),
       dtypes="float64", grad=False),
    op("binary_cross_entropy", None, oracle.binary, PROBABILITIES, BITS),
    op("binary_cross_entropy_with_logits", None, lambda x, y: oracle.binary(1 / (1 + np.exp(-x)), y), normal(3, 4), BITS),
]
TABLE = CONVOLUTIONS + POOLS + ADAPTIVE + NORMS + ATTENTION + LOSSES

test_values, test_gradient, test_views = checks_of(TABLE)


@pytest.mark.parametrize("call", [
    lambda x: x.conv2d(Tensor.zeros(2, 3, 3, 3)), lambda x: x.conv2d(Tensor.zeros(2, 4, 9, 9)),
    lambda x: x.conv2d(Tensor.zeros(2, 4, 3, 3), groups=3), lambda x: x.conv_transpose2d(Tensor.zeros(3, 2, 3, 3)),
    lambda x: x.max_pool2d(9), lambda x: x.avg_pool2d(2, stride=0),
    lambda x: x.batchnorm(None, None, Tensor.zeros(3), Tensor.ones(4)), lambda x: x.scaled_dot_product_attention(x[..., :3], x),
    lambda x: x.cross_entropy(Tensor.zeros(3, dtype="int32")), lambda x: x.cross_entropy(x, reduction="both"),
    lambda x: x.binary_crossentropy(x[0]), lambda x: x.mse_loss(x[0]), lambda x: x.l1_loss(x, "all"), lambda x: x.huber_loss(x, delta=0),
    lambda x: x.kl_div(x, "batch"), lambda x: x.adaptive_avg_pool2d(0), lambda x: x.adaptive_max_pool2d((1, 2, 3, 4, 5)),
    lambda x: x.adaptive_avg_pool2d((None,) * 5)])
def test_what_does_not_fit(call):
    with pytest.raises((ValueError, RuntimeError)):
        call(Tensor.zeros(1, 4, 5, 5))

"""Reduces, softmax, what runs along an axis, and sorting."""

import numpy as np
import pytest

from quern import Tensor

from reference import ALL, FLOATS, INTS, SIGNED, UNSIGNED, between, checks_of, distinct, given, nonzero, normal, op, summed

X, CUBE, EMPTY, SCALAR = normal(3, 7), normal(2, 3, 4), normal(3, 0), normal()
DISTINCT, REAL = distinct(3, 7), {"dtypes": FLOATS}
BOOLS = {"dtypes": ALL, "out": "bool"}
NAN = given([[1.0, np.nan, 3.0], [-np.inf, 2.0, np.inf]])


def sum_of(function):
    """A function of NumPy that sums, in the type that ours has."""
    return lambda x, *args, **options: function(x, *args, **options, dtype=summed(x.dtype.name))


def logsumexp(x, axis=None, keepdims=False):
    return np.log(np.exp(x).sum(axis, keepdims=keepdims))


def softmax(x, axis=-1):
    return np.exp(x) / np.exp(x).sum(axis, keepdims=True)


def accumulated(better, axis):
    """The best so far along an axis, and where the last of those is."""
    def compute(x):
        x = np.moveaxis(x, axis, 0)
        values, places = x.copy(), np.zeros(x.shape, np.int32)
        for i in range(1, len(x)):
            new = better(x[i], values[i - 1])
            values[i] = np.where(new, x[i], values[i - 1])
            places[i] = np.where(new, i, places[i - 1])
        return np.moveaxis(values, 0, axis), np.moveaxis(places, 0, axis)

    return compute


def normalized(x, p, axis):
    return x / np.maximum((np.abs(x) ** p).sum(axis, keepdims=True) ** (1 / p), 1e-12)


def sorted_and_order(x, axis=-1, descending=False):
    order = np.argsort(-x.astype(np.float64) if descending else x, axis, kind="stable")
    return np.take_along_axis(x, order, axis), order.astype(np.int32)


def middle(x, place, axis, keepdims):
    """Which stands at a place in order, and where it is."""
    return [r if keepdims else r.squeeze(axis) for r in (np.take(part, [place], axis) for part in sorted_and_order(x, axis))]


def best(x, k, axis=-1, largest=True):
    return [np.take(r, range(k), axis) for r in sorted_and_order(x, axis, largest)]


TABLE = [
    op("sum", None, sum_of(np.sum), X, dtypes=ALL, out=summed, smoke=True),
    op("sum", lambda x: x.sum(-1), lambda x: x.sum(-1), CUBE),
    op("sum", lambda x: x.sum((0, 2), keepdim=True), lambda x: x.sum((0, 2), keepdims=True), CUBE),
    op("sum", lambda x: x.sum(()), lambda x: x.sum(()), X),
    op("sum", lambda x: x.sum(1), lambda x: x.sum(1), EMPTY, dtypes="int32 float32 float64"),
    op("sum", None, np.sum, SCALAR),
    op("sum", lambda x: x.sum(dtype="int64"), lambda x: x.sum(dtype="int64"), X, dtypes="bool int8 uint8", out="int64"),
    op("prod", None, sum_of(np.prod), between(1, 4, 2, 3), dtypes=f"bool {INTS} {FLOATS}", out=summed),
    op("prod", lambda x: x.prod(1, keepdim=True), lambda x: x.prod(1, keepdims=True), X),
    op("prod", lambda x: x.prod((0, 1)), lambda x: x.prod((0, 1)), CUBE),
    op("prod", lambda x: x.prod(1), lambda x: x.prod(1), EMPTY),
    op("prod", lambda x: x.prod(0), lambda x: x.prod(0), given([[0.0, 2.0, 0.0], [3.0, 0.0, 0.0]]), dtypes="float64"),
    op("max", None, np.max, X, dtypes=ALL, views=False),
    op("max", lambda x: x.max((0, -1)), lambda x: x.max((0, -1)), distinct(2, 3, 4), views=False),
    op("max", lambda x: x.max(1, keepdim=True), lambda x: x.max(1, keepdims=True), DISTINCT),
    op("max", lambda x: x.max(1), lambda x: x.max(1), NAN, dtypes="float64", grad=False),
    op("min", None, np.min, X, dtypes=ALL, views=False),
    op("min", lambda x: x.min(1, keepdim=True), lambda x: x.min(1, keepdims=True), DISTINCT),
    op("min", lambda x: x.min(1), lambda x: x.min(1), NAN, dtypes="float64", grad=False),
    op("mean", None, np.mean, X, dtypes=f"bool int8 uint8 int32 int64 {FLOATS}", out="float"),
    op("mean", lambda x: x.mean((0, 2), keepdim=True), lambda x: x.mean((0, 2), keepdims=True), CUBE),
    op("mean", lambda x: x.mean(1), lambda x: x.mean(1), normal(3, 1)),
    op("mean", None, np.mean, given(np.array([2**30] * 4, np.int32)), dtypes="int32", out="float32"),
    op("mean", None, np.mean, given(np.array([2**63 + 2**62], np.uint64)), dtypes="uint64", out="float32"),
    op("var", None, lambda x: x.var(ddof=1), X, **REAL),
    op("var", lambda x: x.var(1, keepdim=True), lambda x: x.var(1, ddof=1, keepdims=True), X),
    op("var", lambda x: x.var((0, 2), correction=0), lambda x: x.var((0, 2)), CUBE),
    op("std", None, lambda x: x.std(ddof=1), X, **REAL),
    op("std", lambda x: x.std(1, keepdim=True, correction=2), lambda x: x.std(1, ddof=2, keepdims=True), X),
    op("var_mean", lambda x: x.var_mean(1), lambda x: (x.var(1, ddof=1), x.mean(1)), X, **REAL),
    op("std_mean", lambda x: x.std_mean(0, True, 0), lambda x: (x.std(0, keepdims=True), x.mean(0, keepdims=True)), X, views=False),
    op("std_mean", lambda x: x.std_mean(1), lambda x: (x.std(1, ddof=1), x.mean(1)), X),
    op("any", None, np.any, between(0, 2, 3, 7), **BOOLS),
    op("any", lambda x: x.any(1, keepdim=True), lambda x: x.any(1, keepdims=True), between(0, 2, 7, 2), dtypes="bool int32", out="bool"),
    op("any", lambda x: x.any(1), lambda x: x.any(1), EMPTY, dtypes="bool float32", out="bool"),
    op("all", None, np.all, between(0, 2, 3, 7), **BOOLS),
    op("all", lambda x: x.all((0, 2)), lambda x: x.all((0, 2)), between(0, 9, 2, 5, 1), dtypes="bool int32", out="bool"),
    op("all", lambda x: x.all(1), lambda x: x.all(1), EMPTY, dtypes="bool float32", out="bool"),
    op("argmax", None, np.argmax, X, dtypes=ALL, out="int32", smoke=True),
    op("argmax", lambda x: x.argmax(1), lambda x: x.argmax(1), between(0, 3, 3, 7), dtypes="int32 uint8", out="int32"),
    op("argmax", lambda x: x.argmax(0, keepdim=True), lambda x: x.argmax(0, keepdims=True), DISTINCT, out="int32"),
    op("argmax", lambda x: x.argmax(-1), lambda x: x.argmax(-1), NAN, dtypes="float64", out="int32"),
    op("argmin", None, np.argmin, X, dtypes=ALL, out="int32"),
    op("argmin", lambda x: x.argmin(-1, keepdim=True), lambda x: x.argmin(-1, keepdims=True), DISTINCT, out="int32"),
    op("logsumexp", None, logsumexp, X, **REAL),
    op("logsumexp", lambda x: x.logsumexp((0, 2), keepdim=True), lambda x: logsumexp(x, (0, 2), True), CUBE),
    op("logsumexp", lambda x: x.logsumexp(1) - 1000, lambda x: logsumexp(x - 1000, 1), between(1000, 1003, 3, 7), dtypes="float64"),
    op("softmax", None, softmax, X, **REAL, smoke=True),
    op("softmax", lambda x: x.softmax(0), lambda x: softmax(x, 0), CUBE),
    op("softmax", lambda x: x.softmax(dtype="float32"), softmax, X, dtypes="float16 int32", out="float32"),
    op("softmin", None, lambda x: softmax(-x), X, **REAL),
    op("softmin", lambda x: x.softmin(1), lambda x: softmax(-x, 1), CUBE),
    op("log_softmax", None, lambda x: x - logsumexp(x, -1, True), X, **REAL),
    op("log_softmax", lambda x: x.log_softmax(0), lambda x: x - logsumexp(x, 0, True), CUBE),
    op("normalize", None, lambda x: normalized(x, 2, 1), X, **REAL),
    op("normalize", lambda x: x.normalize(p=1, dim=0), lambda x: normalized(x, 1, 0), X),
    op("normalize", lambda x: x.normalize(3.0, -1), lambda x: normalized(x, 3, -1), CUBE),
    # along an axis
    op("cumsum", None, sum_of(lambda x, dtype: np.cumsum(x, 0, dtype)), X, dtypes=ALL, out=summed, smoke=True),
    op("cumsum", lambda x: x.cumsum(-1), lambda x: x.cumsum(-1), CUBE),
    op("cumsum", lambda x: x.cumsum(1), lambda x: x.cumsum(1), normal(2, 70)),
    op("cumsum", lambda x: x.cumsum(1), lambda x: x.cumsum(1), EMPTY),
    op("cumprod", None, sum_of(lambda x, dtype: np.cumprod(x, 0, dtype)), between(1, 4, 3, 7), dtypes=f"{INTS} {FLOATS}", out=summed),
    op("cumprod", lambda x: x.cumprod(1), lambda x: x.cumprod(1), nonzero(3, 7)),
    op("cummax", None, accumulated(np.greater_equal, 0), X, dtypes=f"{INTS} {FLOATS}"),
    op("cummax", lambda x: x.cummax(1), accumulated(np.greater, 1), DISTINCT, views=False),
    op("cummin", None, accumulated(np.less_equal, 0), X, dtypes=f"{INTS} {FLOATS}"),
    op("cummin", lambda x: x.cummin(-1), accumulated(np.less, -1), distinct(2, 1, 5), views=False),
    op("logcumsumexp", None, lambda x: np.logaddexp.accumulate(x, 0), X, **REAL),
    op("logcumsumexp", lambda x: x.logcumsumexp(1), lambda x: np.logaddexp.accumulate(x, 1), X),
    # sorting
    op("sort", None, sorted_and_order, DISTINCT, dtypes=f"{SIGNED} {FLOATS}", smoke=True),
    op("sort", lambda x: x.sort(0, descending=True), lambda x: sorted_and_order(x, 0, True), DISTINCT, views=False),
    op("sort", lambda x: x.sort(descending=True), lambda x: sorted_and_order(x, -1, True), X, dtypes=f"bool {UNSIGNED}"),
    op("sort", None, sorted_and_order, between(0, 3, 2, 9), dtypes="bool int32 uint8"),
    op("sort", None, sorted_and_order, normal(3, 1), dtypes="int32 float32"),
    op("sort", None, sorted_and_order, given([3.0, np.nan, -np.inf, np.inf, 0.0]), dtypes="float64", grad=False),
    op("argsort", None, lambda x: sorted_and_order(x)[1], X, dtypes=ALL, out="int32"),
    op("argsort", lambda x: x.argsort(1, True), lambda x: sorted_and_order(x, 1, True)[1], distinct(2, 5, 3),
       dtypes="int32 float32", out="int32"),
    op("topk", lambda x: x.topk(3), lambda x: best(x, 3), DISTINCT, dtypes=f"{SIGNED} {FLOATS}"),
    op("topk", lambda x: x.topk(2, 0, largest=False), lambda x: best(x, 2, 0, False), DISTINCT, views=False),
    op("topk", lambda x: x.topk(1), lambda x: best(x, 1), distinct(7)),
    # norms, and what sorting finds
    op("amax", lambda x: x.amax((0, 2)), lambda x: x.max((0, 2)), distinct(2, 3, 4), views=False),
    op("amax", lambda x: x.amax(dim=1, keepdim=True), lambda x: x.max(1, keepdims=True), DISTINCT, dtypes="int8 float32", views=False),
    op("amin", lambda x: x.amin(-1), lambda x: x.min(-1), DISTINCT, views=False),
    op("aminmax", None, lambda x: (x.min(), x.max()), DISTINCT, dtypes=f"int8 {FLOATS}", views=False),
    op("aminmax", lambda x: x.aminmax(dim=1, keepdim=True), lambda x: (x.min(1, keepdims=True), x.max(1, keepdims=True)), DISTINCT, views=False),
    op("norm", None, np.linalg.norm, X, **REAL),
    op("norm", lambda x: x.norm(dim=1), lambda x: np.linalg.norm(x, axis=1), X, dtypes="int32 float32 float64", out="float"),
    op("norm", lambda x: x.norm(1, (0, 2), keepdim=True), lambda x: np.abs(x).sum((0, 2), keepdims=True), CUBE),
    op("norm", lambda x: x.norm(3.5, -1), lambda x: (np.abs(x) ** 3.5).sum(-1) ** (1 / 3.5), X),
    op("norm", lambda x: x.norm(-1, -1), lambda x: 1 / (1 / np.abs(x)).sum(-1), nonzero(3, 7)),
    op("norm", lambda x: x.norm(float("inf"), 0), lambda x: np.abs(x).max(0), DISTINCT, views=False),
    op("norm", lambda x: x.norm(-float("inf"), 0), lambda x: np.abs(x).min(0), DISTINCT, views=False),
    op("norm", lambda x: x.norm(0, 0), lambda x: (x != 0).sum(0).astype(x.dtype), between(-1, 2, 3, 7), dtypes="float64", grad=False),
    op("norm", lambda x: x.norm(dtype="float64"), np.linalg.norm, X, dtypes="float32", out="float64"),
    op("nansum", None, np.nansum, given([[1.0, np.nan, 3.0], [-2.0, 2.0, np.nan]]), dtypes="float64", grad=False),
    op("nansum", lambda x: x.nansum(0), lambda x: np.nansum(x, 0), X, dtypes="int32 float32 float64"),
    op("nanmean", None, np.nanmean, X, dtypes=f"int32 {FLOATS}", out="float"),
    op("nanmean", lambda x: x.nanmean(0, keepdim=True), lambda x: np.nanmean(x, 0, keepdims=True),
       given([[1.0, np.nan, 3.0], [-2.0, 2.0, np.nan]]), dtypes="float64", grad=False),
    op("count_nonzero", None, np.count_nonzero, between(-1, 2, 3, 7), dtypes=ALL, out="int32"),
    op("count_nonzero", lambda x: x.count_nonzero(dim=1), lambda x: np.count_nonzero(x, 1), between(-1, 2, 3, 7), dtypes="int8", out="int32"),
    op("median", None, lambda x: np.sort(x, None)[(x.size - 1) // 2], DISTINCT, dtypes=f"{SIGNED} {FLOATS}", views=False),
    op("median", lambda x: x.median(1), lambda x: middle(x, 3, 1, False), DISTINCT, dtypes=f"{SIGNED} {FLOATS}", views=False),
    op("median", lambda x: x.median(0, keepdim=True), lambda x: middle(x, 1, 0, True), distinct(4, 3), views=False),
    op("median", lambda x: x.median(-1), lambda x: (np.array([np.nan, 2.0]), np.array([1, 1], np.int32)), NAN, dtypes="float64", grad=False,
       views=False),
    op("kthvalue", lambda x: x.kthvalue(2), lambda x: middle(x, 1, 1, False), DISTINCT, dtypes="int32 float32 float64", views=False),
    op("kthvalue", lambda x: x.kthvalue(3, 0, True), lambda x: middle(x, 2, 0, True), DISTINCT, views=False),
    op("quantile", lambda x: x.quantile(0.3), lambda x: np.quantile(x, 0.3), DISTINCT, views=False),
    op("quantile", lambda x: x.quantile(0.5, 1, keepdim=True), lambda x: np.quantile(x, 0.5, 1, keepdims=True), DISTINCT, views=False),
    op("quantile", lambda x: x.quantile(1, 0), lambda x: x.max(0), DISTINCT, views=False),
    op("quantile", lambda x: x.quantile(Tensor([0.0, 0.25, 0.9], dtype=x.dtype), -1), lambda x: np.quantile(x, [0, 0.25, 0.9], -1),
       DISTINCT, views=False),
    op("quantile", lambda x: x.quantile(0.5), lambda x: np.nan, NAN, dtypes="float64", grad=False, views=False),
]

test_values, test_gradient, test_views = checks_of(TABLE)


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_nothing_to_choose_from(name, device):
    with pytest.raises(ValueError):
        getattr(Tensor.zeros(3, 0, device=device), name)(1)


def test_gradient_of_equals_is_shared(device):
    x = Tensor([1.0, 3.0, 3.0], device=device)
    assert x.max().gradient(x)[0].tolist() == [0, 0.5, 0.5]


def test_products_of_equal_values_are_powers(device):
    x = Tensor([2, 3, -1, 0], device=device).reshape(4, 1).expand(4, 7)
    assert x.prod(1).tolist() == [2**7, 3**7, -1, 0] and x.prod().item() == 0
    assert x[:3].float().prod().item() == -float(6**7)
    many = Tensor.ones(2, 2**31, 2**30, device=device)
    assert many.prod(dtype="bool").item() is True and (many * 0.5).prod().item() == 0 and (-many).prod().item() == 1

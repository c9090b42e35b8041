"""What takes and puts elements by index or mask."""

import numpy as np
import pytest

from quern import Tensor

from reference import ALL, FLOATS, INTS, between, checks_of, compare, distinct, given, mask, normal, op

X, CUBE = normal(3, 7), normal(2, 3, 4)
COLUMNS = given(np.array([[0, 6, 2], [1, 1, 5], [3, 0, 0]], np.int32))
ROWS = given(np.array([[2, 0, 1, 1, 0], [0, 2, 2, 1, 1]], np.int64))
ONCE = given(np.array([[0, 6, 2], [1, 4, 5], [3, 0, 2]], np.int32))  # no place twice
PICK = given(np.array([2, 0, 0, 1], np.int32))
MASK = given(np.array([[True, False, True, False, False, True, False], [False] * 7, [True] * 7]))
NOTHING = given(np.zeros((3, 7), bool))
TYPES = {"dtypes": ALL}


def gather(dim):
    def compute(x, index):
        return np.array([x[(*at[:dim], index[at], *at[dim + 1:])] for at in np.ndindex(index.shape)]).reshape(index.shape).astype(x.dtype)

    return compute


def scatter(dim, combine=lambda old, new: new):
    """Each element of src is put, or combined with what is there, in order."""
    def compute(x, index, src):
        result = x.copy()
        for at in np.ndindex(index.shape):
            to = (*at[:dim], index[at], *at[dim + 1:])
            result[to] = combine(result[to], np.broadcast_to(src, index.shape)[at] if np.ndim(src) == 0 else src[at])
        return result

    return compute


REDUCES = {"sum": np.sum, "prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min}


def scatter_reduce(dim, reduce, include_self=True):
    """All that goes to a place is collected first."""
    def compute(x, index, src):
        lists = {at: [x[at]] if include_self else [] for at in np.ndindex(x.shape)}
        for at in np.ndindex(index.shape):
            lists[(*at[:dim], index[at], *at[dim + 1:])].append(src[at])
        result = x.copy()
        for at, values in lists.items():
            result[at] = REDUCES[reduce](np.array(values, x.dtype)) if values else x[at]
        return result

    return compute


def rows(dim, combine=lambda old, new: new):
    """Each slice of src is put, or combined with what is there, in order."""
    def compute(x, index, src):
        result = x.copy()
        to, come = np.moveaxis(result, dim, 0), np.moveaxis(src, dim, 0)
        for k, i in enumerate(index):
            to[i] = combine(to[i], come[k])
        return result

    return compute


def first_rows(found, size, fill):
    """So many rows, the last of them fill."""
    rows = np.full((size, *found.shape[1:]), fill, found.dtype)
    rows[:min(size, len(found))] = found[:size]
    return rows


def one_hot(classes):
    return lambda x: (x[..., None] == np.arange(classes)).astype(np.int32)


def all_of_unique(x):
    values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    return [values, inverse.reshape(x.shape).astype(np.int32), counts.astype(np.int32)]


TABLE = [
    op("gather", lambda x, i: x.gather(1, i), gather(1), X, COLUMNS, **TYPES, smoke=True),
    op("gather", lambda x, i: x.gather(0, i), gather(0), X, ROWS),
    op("gather", lambda x, i: x.gather(-1, i), gather(0), normal(5), given(np.array([4, 0, 0]))),
    op("index_select", lambda x, i: x.index_select(0, i), lambda x, i: x[i], X, PICK, dtypes="bool int8 float32 float64"),
    op("index_select", lambda x, i: x.index_select(-1, i), lambda x, i: x[..., i], CUBE, PICK),
    op("scatter", lambda x, i, s: x.scatter(1, i, s), scatter(1), X, ONCE, normal(3, 3), **TYPES, smoke=True),
    op("scatter", lambda x, i, s: x.scatter(0, i, s), scatter(0), X, given(np.array([[2, 0, 1, 1, 0]])), normal(1, 5)),
    op("scatter", lambda x, i: x.scatter(1, i, 3), lambda x, i: scatter(1)(x, i, np.array(3)), X, COLUMNS, dtypes="int32 float32 float64"),
    op("scatter", lambda x, i, s: x.scatter(1, i, s, reduce="add"), scatter(1, np.add), X, COLUMNS, normal(3, 3),
       dtypes=f"{INTS} {FLOATS}"),
    op("scatter", lambda x, i, s: x.scatter(1, i, s, reduce="multiply"), scatter(1, np.multiply), X, COLUMNS, normal(3, 3)),
    *[op("scatter_reduce", lambda x, i, s, r=r: x.scatter_reduce(1, i, s, r), scatter_reduce(1, r), X, COLUMNS,
         normal(3, 3)) for r in REDUCES],
    *[op("scatter_reduce", lambda x, i, s, r=r: x.scatter_reduce(0, i, s, r, include_self=False), scatter_reduce(0, r, False), X,
         ROWS, normal(2, 5))
      for r in REDUCES],
    op("scatter_reduce", lambda x, i, s: x.scatter_reduce(1, i, s, "amax"), scatter_reduce(1, "amax"), X, COLUMNS, normal(3, 3),
       dtypes=INTS),
    op("scatter_reduce", lambda x, i, s: x.scatter_reduce(1, i, s, "sum"), scatter_reduce(1, "sum"), X, COLUMNS, normal(3, 3), dtypes=INTS),
    op("index_add", lambda x, i, s: x.index_add(1, i, s), rows(1, np.add), X, PICK, normal(3, 4), dtypes=f"{INTS} {FLOATS}", smoke=True),
    op("index_add", lambda x, i, s: x.index_add(0, i, s, alpha=3), rows(0, lambda old, new: old + 3 * new), X, PICK, normal(4, 7)),
    op("index_add", lambda x, i, s: x.index_add(-2, i, s), rows(1, np.add), CUBE, PICK, normal(2, 4, 4)),
    op("index_copy", lambda x, i, s: x.index_copy(0, i, s), rows(0), X, given(np.array([2, 0])), normal(2, 7), **TYPES),
    op("index_copy", lambda x, i, s: x.index_copy(1, i, s), rows(1), X, PICK, normal(3, 4)),
    op("index_fill", lambda x, i: x.index_fill(1, i, 2), lambda x, i: rows(1)(x, i, np.full((3, 4), 2, x.dtype)), X, PICK,
       dtypes=f"{INTS} {FLOATS}"),
    op("bincount", lambda x: x.bincount(), lambda x: np.bincount(x).astype(np.int32), between(0, 9, 40), dtypes="uint8 int32 int64",
       out="int32"),
    op("bincount", lambda x: x.bincount(minlength=20), lambda x: np.bincount(x, minlength=20).astype(np.int32), between(0, 9, 40),
       dtypes="int32", out="int32"),
    op("bincount", lambda i, w: i.bincount(w, 3), lambda i, w: np.bincount(i, w, 3).astype(w.dtype), given(np.array([4, 0, 1, 4, 0])),
       normal(5), dtypes="float32 float64"),
    op("masked_fill", lambda x, m: x.masked_fill(m, 2), lambda x, m: np.where(m, x.dtype.type(2), x), X, mask(3, 7),
       dtypes=f"{INTS} {FLOATS}"),
    op("masked_fill", None, lambda x, m, v: np.where(m, v, x), X, mask(7), normal()),
    op("masked_select", None, lambda x, m: x[m], X, MASK, **TYPES),
    op("masked_select", None, lambda x, m: x[m], X, NOTHING),
    op("masked_select", lambda x, m: x.masked_select(m, size=12, fill_value=-1), lambda x, m: first_rows(x[m], 12, -1), X, MASK,
       dtypes="int8 float32 float64"),
    op("masked_select", lambda x, m: x.masked_select(m, size=4), lambda x, m: first_rows(x[m], 4, 0), X, MASK),
    op("unique", None, np.unique, between(0, 5, 3, 17), dtypes=f"bool {INTS} {FLOATS}", grad=False),
    op("unique", lambda x: x.unique(return_inverse=True, return_counts=True), all_of_unique, between(-3, 3, 5, 9),
       dtypes="int8 int64 float32", grad=False),
    op("unique", None, np.unique, given([0.5, np.nan, -np.inf, np.nan, 0.5]), dtypes="float64", grad=False),
    op("searchsorted", None, lambda x, v: np.searchsorted(x, v).astype(np.int32), given([-1.0, 0.0, 0.0, 2.0, 5.0]), between(-2, 6, 3, 7),
       dtypes="int32 float32 float64", out="int32"),
    op("searchsorted", lambda x, v: x.searchsorted(v, right=True), lambda x, v: np.searchsorted(x, v, "right").astype(np.int32),
       given([-1.0, 0.0, 0.0, 2.0, np.nan]), given([np.nan, 0.0, -np.inf, 7.0]), dtypes="float64", out="int32"),
    op("nonzero", None, lambda x: np.argwhere(x).astype(np.int32), between(0, 2, 3, 7), dtypes="bool int8 uint64", out="int32"),
    op("nonzero", None, lambda x: np.argwhere(x).astype(np.int32), given([0.0, -0.0, np.nan, 2.0]), dtypes="float64", out="int32"),
    op("nonzero", lambda x: x.nonzero(size=10, fill_value=-1), lambda x: first_rows(np.argwhere(x), 10, -1), between(0, 2, 2, 3),
       dtypes="int32", out="int32"),
    op("one_hot", lambda x: x.one_hot(4), one_hot(4), between(0, 4, 3, 2), dtypes="int8 int32 int64 uint8", out="int32"),
    op("one_hot", None, one_hot(4), given(np.array([1, 3, 0], np.int32)), dtypes="int32"),
    # x[...] with tensors
    op("__getitem__", lambda x, i: x[i], lambda x, i: x[i], X, PICK, **TYPES),
    op("__getitem__", lambda x, i: x[:, i], lambda x, i: x[:, i], X, given(np.array([[-1, 2], [0, -7]]))),
    op("__getitem__", lambda x, i, j: x[i, :, j], lambda x, i, j: x[i, :, j], CUBE, given(np.array([0, 1, 1])),
       given(np.array([[3], [2]]))),
    op("__getitem__", lambda x, m: x[m], lambda x, m: x[m], X, MASK),
    op("__getitem__", lambda x, m: x[:, m], lambda x, m: x[:, m], X, given(np.array([True, False] * 3 + [True]))),
    op("take_along_dim", lambda x, i: x.take_along_dim(i, 1), lambda x, i: np.take_along_axis(x, i, 1), normal(3, 7),
       given(np.array([[0, 6, 2], [1, 1, 3], [-1, 0, 4]]))),
    op("take_along_dim", lambda x, i: x.take_along_dim(i, 0), lambda x, i: np.take_along_axis(x, np.broadcast_to(i, (2, 7)), 0),
       normal(3, 7), given(np.array([[2], [0]]))),
    op("take_along_dim", None, lambda x, i: np.take_along_axis(x, i, None), normal(3, 7), given(np.array([20, 0, 5]))),
]

test_values, test_gradient, test_views = checks_of(TABLE)

WRITES = [
    (np.s_[1], 5), (np.s_[:, 2:6:2], -1), (np.s_[::-1, 0], np.array([1, 2, 3])), (np.s_[..., -1], np.array(9)), (np.s_[0:0], 4),
    (np.array([2, 0]), 7), ((np.array([0, 1]), np.array([3, 3])), np.array([1, 2])), (np.eye(3, 7) > 0, 0),
]


@pytest.mark.parametrize("at, value", WRITES)
@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_setitem(at, value, dtype, device):
    def tensors(index):
        if isinstance(index, tuple):
            return tuple(tensors(i) for i in index)
        return Tensor(index, device=device) if isinstance(index, np.ndarray) else index

    expected = distinct(3, 7).make(dtype, 0)
    x = Tensor(expected, device=device)
    expected[at] = value
    x[tensors(at)] = Tensor(value, device=device).cast(dtype) if isinstance(value, np.ndarray) else value
    compare(x, expected, dtype)


def test_gradient_of_setitem(device):
    base, value = Tensor.ones(4, device=device), Tensor([2.0, 3.0], device=device)
    x = base * 1
    x[1:3] = value * 5
    of_base, of_value = (x * Tensor([1.0, 10.0, 100.0, 1000.0], device=device)).sum().gradient(base, value)
    assert of_base.tolist() == [1, 0, 0, 1000]
    assert of_value.tolist() == [50, 500]

"""x[...] and x[...] = v, against NumPy."""

import numpy as np
import pytest

from quern import Tensor, Variable

X = np.arange(2 * 5 * 6, dtype=np.float32).reshape(2, 5, 6)


@pytest.mark.parametrize("at", [
    0, -1, (1, 2), (1, 2, 3), slice(None), slice(1, 2), (slice(None), slice(1, 4, 2)), (slice(None), slice(None, None, -1)),
    (slice(None), slice(4, 0, -2)), (..., 0), (0, ...), (..., slice(2, 5)), None, (slice(None), None, 1), (None, ..., None),
    (slice(0, 0),), (slice(-3, None),), (slice(None), -2), np.int64(1), (..., np.s_[::3]), ()])
def test_basic(at):
    np.testing.assert_array_equal(Tensor(X)[at].numpy(), X[at])


@pytest.mark.parametrize("at", [
    [0, 1, 0], ([0, 1], [2, 3]), (slice(None), [4, 0]), (slice(None), np.array([[0, 1], [2, 3]])), (0, slice(None), [1, 2]),
    (np.array([0, 1]), slice(None), np.array([1, 2]))])
def test_advanced(at):
    def tensors(index):
        if isinstance(index, tuple):
            return tuple(tensors(i) for i in index)
        return Tensor(index) if isinstance(index, np.ndarray) else index

    expected = X[0][:, [1, 2]] if isinstance(at, tuple) and isinstance(at[0], int) else X[at]  # PyTorch's order of axes
    np.testing.assert_array_equal(Tensor(X)[at].numpy(), expected)
    np.testing.assert_array_equal(Tensor(X)[tensors(at)].numpy(), expected)


def test_an_empty_list():
    assert Tensor(X)[[]].shape == (0, 5, 6)


def test_mask():
    np.testing.assert_array_equal(Tensor(X)[Tensor(X) > 30].numpy(), X[X > 30])
    np.testing.assert_array_equal(Tensor(X).masked_select(Tensor(X) > 30).numpy(), X[X > 30])
    np.testing.assert_array_equal((Tensor(X[0]) > 20).nonzero().numpy(), np.argwhere(X[0] > 20))


@pytest.mark.parametrize("at, value", [
    (0, 5), ((slice(None), 1), -1.5), ((..., slice(0, 6, 2)), 0), ((1, 2, 3), 9), (slice(None), 7),
    ((slice(None), slice(1, 3)), np.ones((2, 6), np.float32)), ((0, slice(None, None, -1)), X[1])])
def test_setitem(at, value):
    expected = X.copy()
    expected[at] = value
    for given in (value, Tensor(value) if isinstance(value, np.ndarray) else value):
        x = Tensor(X).realize()
        x[at] = given
        np.testing.assert_array_equal(x.numpy(), expected)


def test_setitem_of_lists_and_tensors():
    x = Tensor.zeros(4).contiguous().realize()
    x[1:3] = [5, 6]
    assert x.tolist() == [0, 5, 6, 0]
    x[Tensor([0, 3])] = Tensor([1.0, 2.0])
    assert x.tolist() == [1, 5, 6, 2]
    x[x > 4] = 0
    assert x.tolist() == [1, 0, 0, 2]


def test_views_see_writes():
    x = Tensor.zeros(2, 3).contiguous().realize()
    row = x[1]
    x[1, 2] = 4
    assert row.tolist() == [0, 0, 4]


def test_symbolic_index():
    i = Variable("i", 0, 4).bind(3)
    np.testing.assert_array_equal(Tensor(X)[:, i].numpy(), X[:, 3])


def test_iteration():
    assert [row.tolist() for row in Tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]
    a, b = Tensor([1, 2])
    assert (a.item(), b.item()) == (1, 2)
    assert 2 in Tensor([1, 2]) and 3 not in Tensor([1, 2])


def test_gather_and_scatter():
    i = np.array([[0, 1], [2, 0]])
    np.testing.assert_array_equal(Tensor(X[0]).gather(1, Tensor(i)).numpy(), np.take_along_axis(X[0][:2], i, 1))
    z = Tensor.zeros(3, 3).scatter(1, Tensor([[0], [2]]), Tensor([[1.0], [2.0]]))
    assert z.tolist() == [[1, 0, 0], [0, 0, 2], [0, 0, 0]]
    s = Tensor.zeros(2).scatter_reduce(0, Tensor([0, 0, 1]), Tensor([1.0, 2.0, 3.0]), "sum")
    assert s.tolist() == [3, 3]
    assert Tensor([1.0, 2.0]).masked_fill(Tensor([True, False]), -1).tolist() == [-1, 2]


@pytest.mark.parametrize("rows", range(5, 9))
def test_one_column_set_several_times(rows):
    """A choice between vectors of bools, which LLVM 19 does not end to simplify unless it is written as arithmetic."""
    for row in range(rows):
        x = Tensor.zeros(rows, 1)
        x[row, [0, 0, 0]] = 3
        assert x.tolist() == [[3.0 * (i == row)] for i in range(rows)]


@pytest.mark.parametrize("index", [[7], [-6], [5, 100], [[5], [-7]]])
def test_places_that_are_not_there_are_not_written(index):
    x = Tensor([10, 20, 30, 40, 50])
    x[Tensor(index)] = 1
    assert x.tolist() == [10, 20, 30, 40, 50]
    x[Tensor([7, 2])] = Tensor([1, 2])
    assert x.tolist() == [10, 20, 2, 40, 50]


LISTS = [
    [slice(0, 2), 1], [slice(None)], [None, 1], [..., 1], ["a"], [[0, slice(1)]],
    [np.array([0, 1]), np.array([2, 1])], [np.array(1), np.array(2)], [(0, 1), (2, 1)], [[0, 1], [2, 1]], [np.array([0, 1]), [0, 1]],
    [np.array([0, 1])], [True, False, True], [], ([0, 1], [np.array([0, 1])]), ([0, 1], [slice(1)]),
]


@pytest.mark.parametrize("index", LISTS, ids=str)
def test_a_list_is_one_index(index):
    """As NumPy has it: an array of what is in it. What no array of numbers has is refused."""
    array = np.arange(12).reshape(3, 4)

    def of_tensors(i):
        if isinstance(i, np.ndarray):
            return Tensor(i)
        return type(i)(map(of_tensors, i)) if isinstance(i, (list, tuple)) else i

    x = Tensor(array)
    try:
        expected = array[index]
    except IndexError:
        for given in (index, of_tensors(index)):
            with pytest.raises(IndexError, match="a list as an index has integers or bools, not .*; several indices are a tuple"):
                x[given]
            with pytest.raises(IndexError, match="a list as an index"):
                x.clone()[given] = 1
        return
    for given in (index, of_tensors(index)):
        assert x[given].tolist() == expected.tolist()

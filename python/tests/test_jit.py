"""TinyJit."""

import pickle

import numpy as np
import pytest

import quern
from quern import Tensor, TinyJit, Variable


def numbers(*values):
    return Tensor(list(values)).realize()


def test_replays():
    calls = []

    @TinyJit
    def add(x, y):
        calls.append(1)
        return (x + y * 2).realize()

    for i in range(6):
        assert add(numbers(1.0 * i, 2.0), numbers(3.0, 4.0 + i)).tolist() == [i + 6.0, 10.0 + 2 * i]
    assert len(calls) == 2 and add.captured and add.kernels == 1
    add.reset()
    assert not add.captured


def test_numbers_inside_are_constants():
    @TinyJit
    def turned(x):
        return ((x - Tensor([0.5, 0.25, 0.125])) * Tensor(np.array([1, 2, 4], np.float32)))[[2, 1, 0]].realize()

    @TinyJit
    def summed(x):
        total = Tensor([0.0])
        for i in range(3):
            total += x[i]
        return total.realize()

    for i in range(5):
        x = np.arange(3, dtype=np.float32) + i
        np.testing.assert_array_equal(turned(Tensor(x).realize()).numpy(), ((x - [0.5, 0.25, 0.125]) * [1, 2, 4])[::-1])
        assert summed(Tensor(x).realize()).tolist() == [x.sum()]


def test_structures():
    @quern.jit
    def f(pair, *, named):
        return {"sum": pair[0] + pair[1], "list": [named["a"] * 2, None]}

    for i in range(5):
        r = f((numbers(float(i)), numbers(1.0)), named={"a": numbers(3.0 + i)})
        assert r["sum"].tolist() == [i + 1.0] and r["list"][0].tolist() == [6.0 + 2 * i] and r["list"][1] is None


def test_results_are_kept_apart():
    @TinyJit
    def f(x):
        return x + 1

    results = [f(numbers(float(i))) for i in range(6)]
    assert [r.item() for r in results] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_state():
    total = Tensor.zeros(2).contiguous().realize()

    @TinyJit
    def add(x):
        total.assign(total + x)
        return total.sum()

    for i in range(5):
        add(numbers(1.0, 2.0))
    assert total.tolist() == [5.0, 10.0]


def test_variables():
    @TinyJit
    def f(x, n):
        return x.shrink(((0, n),)).sum()

    x = Tensor(np.arange(10, dtype=np.float32)).realize()
    for n in (2, 3, 5, 7):
        assert f(x, Variable("n", 1, 10).bind(n)).item() == sum(range(n))


def test_other_arguments_must_stay():
    @TinyJit
    def f(x, scale):
        return x * scale

    for _ in range(3):
        assert f(numbers(2.0), 3).item() == 6
    with pytest.raises(quern.Error):
        f(numbers(2.0), 4)
    with pytest.raises(quern.Error):
        f(numbers(2.0, 3.0), 3)


def test_must_return_tensors():
    @TinyJit
    def f(x):
        return 5

    with pytest.raises(quern.Error):
        f(numbers(1.0))


def test_methods():
    class Model:
        def __init__(self, w):
            self.w = Tensor([w]).realize()

        @TinyJit
        def __call__(self, x):
            return x * self.w

    a, b = Model(2.0), Model(3.0)
    for i in range(5):
        assert a(numbers(float(i))).item() == 2.0 * i
        assert b(numbers(float(i))).item() == 3.0 * i


def test_random_numbers_are_new():
    @TinyJit
    def f():
        return Tensor.rand(4)

    assert len({tuple(f().tolist()) for _ in range(5)}) == 5


@TinyJit
def twice(x):
    return (x * 2).realize()


def thrice(x):
    return (x * 3).realize()


def test_a_jit_is_pickled_as_its_function():
    for _ in range(3):
        twice(Tensor([1.0]).realize())
    assert pickle.loads(pickle.dumps(twice)) is twice
    made = TinyJit(thrice)
    for _ in range(3):
        made(Tensor([1.0]).realize())
    copy = pickle.loads(pickle.dumps(made))
    assert made.captured and not copy.captured
    for i in range(4):
        assert copy(Tensor([float(i)]).realize()).tolist() == [3.0 * i]
    assert copy.captured
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(TinyJit(lambda x: x))


def test_calls_that_are_no_longer_like_the_captured_one():
    add = TinyJit(lambda x, y: (x + y).realize())
    a, b = Tensor([1, 2]).realize(), Tensor([3, 4]).realize()
    assert [add(a, b).tolist() for _ in range(4)] == [[4, 6]] * 4
    for wrong in (lambda: add(a, y=b), lambda: add([a], b), lambda: add(a), lambda: add(a, 3), lambda: add(a, b, b)):
        with pytest.raises(quern.Error, match="captured"):
            wrong()
    with pytest.raises(quern.Error):
        add(a, Tensor([1.0, 2, 3]).realize())
    add.reset()
    assert [add(a, 3).tolist() for _ in range(4)] == [[4, 5]] * 4


def test_sizes_between_tensors_in_a_replay():
    n = quern.Variable("n", 1, 4)
    jit = TinyJit(lambda x, size, y: ((x[:size].sum() + y).realize(), {"y": y + 1}))
    x = Tensor([1, 2, 4, 8]).realize()
    for i in (1, 2, 3, 4, 2):
        total, rest = jit(x, n.bind(i), Tensor([10 * i]).realize())
        assert total.item() == 2**i - 1 + 10 * i and rest["y"].item() == 10 * i + 1

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


# ---- results that are equal, keywords, gradients


@pytest.mark.parametrize("function", [
    lambda x: (x * 2, x * 2), lambda x: (x.mean(), x.sum() / 2), lambda x: (x, x), lambda x: (x * 2, [x * 2, (x * 2).reshape(2, 1)]),
    lambda x: (x + 0, x * 1),
], ids=["products", "means", "inputs", "three", "the input"])
def test_results_that_are_equal(function):
    jitted = TinyJit(function)
    for i in range(5):
        x = numbers(1.0 * i, 2.0)
        first, second = jitted(x)
        expected = [t.numpy() for t in (function(x)[0],)]
        others = second if isinstance(second, list) else [second]
        np.testing.assert_array_equal(first.numpy(), expected[0])
        for other in others:
            np.testing.assert_array_equal(other.numpy().flatten(), expected[0].flatten())


def test_results_that_are_equal_are_not_written_together():
    jitted = TinyJit(lambda x: (x * 2, x * 2))
    for i in range(5):
        first, second = jitted(numbers(1.0 * i))
        first.assign(first + 1)
        assert first.tolist() == [2 * i + 1] and second.tolist() == [2 * i]


def test_a_result_that_equals_what_is_outside():
    held = numbers(1.0, 2.0)
    jitted = TinyJit(lambda x: (held * x).reshape(2))
    for i in range(5):
        x = numbers(1.0 * i, 3.0)
        outside = (held * x).reshape(2)
        result = jitted(x)
        outside.assign(outside + 1)
        assert result.tolist() == [i, 6] and outside.tolist() == [i + 1, 7]


def test_two_held_tensors_that_become_equal():
    a, b = numbers(0.0, 0.0), numbers(0.0, 0.0)

    @TinyJit
    def step(x):
        a.assign(x * 2)
        b.assign(x * 2)

    for i in range(5):
        step(numbers(1.0 * i, 3.0))
        assert a.tolist() == b.tolist() == [2 * i, 6]


def test_keywords_in_any_order():
    jitted = TinyJit(lambda a, b, *, c, d: a - 2 * b + 10 * c[0] - 100 * d["u"] + d["v"])
    n = numbers
    for i in range(3):
        assert jitted(n(5.0), b=n(1.0 * i), c=[n(3.0)], d={"u": n(1.0), "v": n(2.0)}).tolist() == [5 - 2 * i + 30 - 100 + 2]
    assert jitted(n(5.0), d={"v": n(2.0), "u": n(1.0)}, c=[n(3.0)], b=n(1.0)).tolist() == [-65]
    assert jitted(n(5.0), c=[n(2.0)], b=n(3.0), d={"v": n(1.0), "u": n(0.0)}).tolist() == [20]
    with pytest.raises(quern.Error, match="is called with"):
        jitted(n(5.0), c=[n(2.0)], b=n(3.0), d={"v": n(1.0), "w": n(0.0)})


def test_a_gradient_that_is_returned_is_that_of_the_call():
    w = Tensor([2.0, 3.0], requires_grad=True).realize()

    @TinyJit
    def step(x):
        w.grad = None
        loss = (x * w).square().sum().backward()
        return loss, w.grad

    for i in range(6):
        loss, grad = step(numbers(1.0 * i, 2.0))
        assert loss.item() == 4 * i * i + 36 and grad.tolist() == [4 * i * i, 24] and w.grad.tolist() == [4 * i * i, 24]


def test_a_gradient_that_is_not_returned_is_not_an_old_one():
    w = Tensor([2.0, 3.0], requires_grad=True).realize()

    @TinyJit
    def step(x):
        w.grad = None
        return (x * w).square().sum().backward()

    for i in range(5):
        step(numbers(1.0 * i, 2.0))
        if i < 2:
            assert w.grad.tolist() == [4 * i * i, 24]
        else:
            with pytest.raises(quern.Error, match="which did not return it"):
                w.grad.tolist()


def test_gradients_through_what_a_jit_returned():
    """A result is a value: gradients go to it and not through it, in each call alike."""
    w = Tensor([2.0, 3.0], requires_grad=True).realize()
    jitted = TinyJit(lambda x: x * w * 2)
    for i in range(5):
        y = jitted(numbers(1.0 * i, 2.0))
        w.grad = None
        (y * w).sum().backward()
        assert w.grad.tolist() == y.tolist() == [4 * i, 12]
        y.requires_grad = True
        y.square().sum().backward()
        assert y.grad.tolist() == [8 * i, 24]


def test_a_graph_that_is_older_than_a_replay():
    """What was computed of memory that a replay writes is a value afterwards, as it is without a jit."""
    w, v = Tensor([2.0, 3.0], requires_grad=True).realize(), Tensor([5.0, 7.0], requires_grad=True).realize()

    def step(x):
        w.assign(w.detach() - x)
        return w.sum()

    for function in (TinyJit(step), step):
        w.assign(Tensor([2.0, 3.0])).realize()
        for i in range(5):
            y, z = (w * w * v).sum(), (v * v).sum()
            function(numbers(1.0, 1.0)).realize()
            a, b = 2.0 - i, 3.0 - i
            assert y.item() == 5 * a * a + 7 * b * b
            assert z.gradient(v)[0].tolist() == [10, 14]
            assert (w * v).sum().gradient(v)[0].tolist() == [a - 1, b - 1]

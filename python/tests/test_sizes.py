"""Sizes that are known later (UOps) among numbers: what is decided by their bounds, arithmetic, and as values of tensors."""

import operator

import numpy as np
import pytest

import quern
from quern import Tensor, TinyJit, UOp, Variable, dtypes

S = Variable("s", 1, 10)
FIVE = S.bind(5)


@pytest.mark.parametrize("condition, expected", [
    (lambda s: s > 20, False), (lambda s: s > 0, True), (lambda s: s <= 10, True), (lambda s: s * 0, False), (lambda s: s, True),
    (lambda s: s * 0 + 3, True), (lambda s: s - s, False), (lambda s: s != s, False), (lambda s: s != 11, True),
    (lambda s: s * 0.0 < 1, None), (lambda s: s != 3, None), (lambda s: s > 5, None), (lambda s: s - 1, None),
])
@pytest.mark.parametrize("s", [S, FIVE], ids=["free", "bound"])
def test_truth(s, condition, expected):
    if expected is None:
        with pytest.raises(ValueError, match="depends on the value of s.*unbind"):
            bool(condition(s))
    else:
        assert bool(condition(s)) is expected


def test_python_chooses():
    assert min(S, 20) is S and max(S, 0) is S and min(FIVE, 20) == FIVE and max(20, S) == 20
    with pytest.raises(quern.ValueError, match="s, from 1 to 10"):
        int(min(S, 10))
    with pytest.raises(ValueError):
        min(S, 5)
    x = Tensor.ones(20, 2).shrink(((0, FIVE), None))
    assert ("long" if x.shape[0] > 20 else "short") == "short"


def test_numbers():
    assert int(S * 0 + 3) == 3 and operator.index(S - S + 2) == 2 and float(S * 0 + 3) == 3.0 and float(UOp.const("float32", 2.5)) == 2.5
    assert list(range(S * 0 + 3)) == [0, 1, 2] and [1, 2, 3][S - S] == 1 and int(S > 0) == 1
    for function in (int, float, operator.index, range, hex):
        for size in (S, FIVE, FIVE + 1):
            with pytest.raises(ValueError, match="depends on the value of s"):
                function(size)
    with pytest.raises(ValueError, match="when the program runs"):
        int(UOp.range(8, 0))
    with pytest.raises(ValueError, match="it has 1 axes"):
        bool(Tensor.ones(3).uop)
    with pytest.raises(ValueError, match="is no number"):
        bool(UOp.sink())
    with pytest.raises(TypeError):
        operator.index(S / 2)


def test_equality():
    assert (S == 3) is False and (S == S) is True and S in {S} and S in [3, S] and (S == None) is False  # noqa: E711
    assert (S != 3).op == quern.uop.Ops.CMPNE and (S != None) is True  # noqa: E711
    assert (Tensor.ones(20).shrink(((0, FIVE),)).shape != (20,)) is True
    assert (UOp.sink() != UOp.sink()) is False and (UOp.sink(S) != UOp.sink()) is True


@pytest.mark.parametrize("compute, expected", [
    (lambda s: s / 2, 2.5), (lambda s: 2 / s, 0.4), (lambda s: s * 0.5, 2.5), (lambda s: 0.5 * s, 2.5), (lambda s: s + 0.25, 5.25),
    (lambda s: s - 0.25, 4.75), (lambda s: 0.25 - s, -4.75), (lambda s: 1.5 / s, 0.3), (lambda s: s // 2.0, 2.0), (lambda s: -s // 2.0, -3.0),
    (lambda s: s // 2, 2), (lambda s: -s // 2, -3), (lambda s: s % 3, 2), (lambda s: s**2, 25), (lambda s: s**0.5, 5**0.5), (lambda s: s / s, 1.0),
    (lambda s: s * (s / 2), 12.5), (lambda s: (s / 2) * s, 12.5), (lambda s: s.sqrt(), 5**0.5), (lambda s: (s / 2).trunc(), 2.0), (lambda s: s, 5),
    (lambda s: s + UOp.const("int32", 2), 7), (lambda s: (s < 5.5).where(s, 0), 5),
])
def test_arithmetic(compute, expected):
    value = compute(FIVE)
    assert value.dtype == (dtypes.default_float if isinstance(expected, float) else value.dtype)
    assert Tensor(value).item() == pytest.approx(expected)
    assert (Tensor([1.0, 2.0]) * value).tolist() == pytest.approx([expected, 2 * expected])


def test_quotients_are_no_sizes():
    with pytest.raises(TypeError):
        Tensor.ones(S.bind(4) / 2)
    assert Tensor.ones(S.bind(4) // 2).sum().item() == 2


def test_values():
    assert Tensor(FIVE).item() == 5 and Tensor(FIVE).dtype == dtypes.int32 and Tensor(FIVE, dtype="float32").item() == 5.0
    assert Tensor([FIVE, 2]).tolist() == [5, 2] and S.expr == "s"
    with pytest.raises(ValueError, match="not a variable"):
        FIVE.expr


@pytest.mark.parametrize("arguments, expected", [
    (lambda s: (s, s + 4), [5, 6, 7, 8]), (lambda s: (s, s), []), (lambda s: (s + 4, s, -2), [9, 7]), (lambda s: (s, s + 5, 2), [5, 7, 9]),
])
def test_arange_of_a_known_length(arguments, expected):
    assert Tensor.arange(*arguments(FIVE)).tolist() == expected
    assert Tensor.arange(*arguments(FIVE), dtype="float32").tolist() == expected


def test_arange():
    assert Tensor.arange(FIVE).sum().item() == 10 and Tensor.arange(0, FIVE, 2).sum().item() == 6 and Tensor.arange(FIVE, 8).sum().item() == 18
    assert Tensor.arange(FIVE, 2).sum().item() == 0 and Tensor.arange(FIVE).dtype == dtypes.int32 and Tensor.arange(FIVE).shape == (FIVE,)
    with pytest.raises(quern.ValueError, match="the step is 0"):
        Tensor.arange(FIVE, 10, 0)
    with pytest.raises(TypeError, match="an int as the step"):
        Tensor.arange(FIVE, 10, 0.5)
    with pytest.raises(TypeError, match="got UOp"):
        Tensor.arange(0, 10, FIVE)


def test_positions_in_a_jit():
    table = Tensor.rand(16, 4).realize()

    @TinyJit
    def rows(start):
        return table[Tensor.arange(start, start + 3)].contiguous()

    for start in range(1, 8):
        assert rows(S.bind(start)).tolist() == table.tolist()[start:start + 3]


@pytest.mark.parametrize("values", [(5, 7, 5, 3), (2, 9, 4, 1)])
@pytest.mark.parametrize("function, expected", [
    (lambda x, n: Tensor.eye(n), lambda x, n: np.eye(n)), (lambda x, n: Tensor.eye(n, 4), lambda x, n: np.eye(n, 4)),
    (lambda x, n: Tensor.eye(3, n), lambda x, n: np.eye(3, n)),
    (lambda x, n: x[: n + 2].unfold(0, 3, 1), lambda x, n: np.lib.stride_tricks.sliding_window_view(x[: n + 2], 3)),
    (lambda x, n: x[: n + 2].unfold(0, 3, 2), lambda x, n: np.lib.stride_tricks.sliding_window_view(x[: n + 2], 3)[::2]),
])
def test_functions_of_sizes(function, expected, values):
    x = Tensor.arange(12).float().realize()
    jitted = TinyJit(lambda x, n: function(x, n).realize())
    for value in values:
        wanted = expected(np.arange(12.0), value)
        for call in (function, jitted):
            found = call(x, S.bind(value))
            assert found.numpy().shape == wanted.shape and (found.numpy() == wanted).all()


@pytest.mark.parametrize("draw", [
    lambda n: Tensor.rand(n, 300), lambda n: Tensor.randn(300, n), lambda n: Tensor.randint(n, 300, low=2, high=9),
    lambda n: Tensor.uniform(n, 300, low=2, high=3), lambda n: Tensor.randint(n, 300, low=0, high=2**40, dtype="int64")])
def test_random_numbers_of_a_size(draw):
    """As many are drawn whatever the size is: it says how many are used."""
    Tensor.manual_seed(4)
    every, after = draw(10).numpy(), Tensor.rand(3).tolist()
    jitted = TinyJit(lambda n: draw(n).realize())
    for value in (10, 4, 7, 1):
        for call in (draw, jitted):
            Tensor.manual_seed(4)
            part = call(S.bind(value)).numpy()
            assert part.shape == tuple(value if size == 10 else size for size in every.shape)
            assert (part == every[: part.shape[0], : part.shape[1]]).all() and Tensor.rand(3).tolist() == after


def test_parts_of_an_axis():
    x = Tensor.arange(10).float().realize()
    for value in (5, 6):
        assert [p.tolist() for p in x[: S.bind(value)].split(3)] == [[0, 1, 2], [3, 4, 5][: value - 3]]
    assert [p.tolist() for p in x[:FIVE].split([2, 3])] == [[0, 1], [2, 3, 4]] and [len(p.tolist()) for p in x[:FIVE].chunk(2)] == [3, 2]
    split = TinyJit(lambda n: [(p + 1).realize() for p in x[:n].split(3)])
    for value in (5, 6, 5, 4):
        assert [p.tolist() for p in split(S.bind(value))] == [[1, 2, 3], [4, 5, 6][: value - 3]]
    with pytest.raises(quern.ShapeError, match="split: axis 0 is .* long, which makes other parts"):
        split(S.bind(7))
    chunk = TinyJit(lambda n: [(p + 1).realize() for p in x[:n].chunk(2)])
    for value in (5, 6, 5):
        assert [p.tolist() for p in chunk(S.bind(value))] == [[1, 2, 3], [4, 5, 6][: value - 3]]
    with pytest.raises(quern.ShapeError, match="chunk: axis 0 is .* long, which makes other parts"):
        chunk(S.bind(4))
    with pytest.raises(quern.ShapeError, match="has no value"):
        x[:S].split(2)
    with pytest.raises(quern.ShapeError, match="do not add up to 5"):
        x[:FIVE].split([2, 4])
    with pytest.raises(quern.ShapeError, match="unfold: windows of 6 elements"):
        x[:FIVE].unfold(0, 6, 1)

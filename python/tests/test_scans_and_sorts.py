"""What goes along an axis step by step, against NumPy: lengths on both sides of blocks, all axes, views, ties, NaN, gradients."""

import os

import numpy as np
import pytest

import quern
from quern import Tensor, TinyJit, function

SHAPES = [(1,), (2,), (33,), (1040,), (1041,), (2500,), (3, 7), (5, 1100), (1100, 5), (1100, 9), (1045, 40), (2, 3, 4), (3, 70, 9), (70, 1050), (0,), (0, 3), (3, 0)]
CASES = 300 if os.environ.get("QUERN_NIGHTLY") == "1" else 12


def steps(shape, axis):
    return np.arange(shape[axis]).reshape([-1 if a == axis else 1 for a in range(len(shape))])


def last_records(x, best, axis):
    """Where the extreme so far is: the last of equals."""
    return np.maximum.accumulate(np.where((x == best) | np.isnan(x), steps(x.shape, axis), 0), axis)


def stable_order(x, axis, descending):
    """NaN is the greatest; equal elements keep their order."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    return np.flip(x.shape[axis] - 1 - np.argsort(np.flip(x, axis), axis, kind="stable"), axis)


def special(rng, shape, dtype):
    if dtype == bool:
        return rng.random(shape) < 0.5
    if np.dtype(dtype).kind != "f":
        limits = np.iinfo(dtype)
        x = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        return np.where(rng.random(shape) < 0.5, x % 7, x).astype(dtype)
    x = np.round(rng.standard_normal(shape) * 3, 1).astype(dtype)
    for value, part in ((np.nan, 0.02), (-0.0, 0.05), (0.0, 0.05), (np.inf, 0.01), (-np.inf, 0.01)):
        x[rng.random(shape) < part] = value
    return x


VIEWS = {
    "itself": (lambda t: t, lambda a: a),
    "flipped": (lambda t: t.flip(-1), lambda a: a[..., ::-1]),
    "turned": (lambda t: t.transpose(0, -1), lambda a: a.swapaxes(0, -1)),
    "a part": (lambda t: t[1:], lambda a: a[1:]),
    "computed": (lambda t: t + t, lambda a: a + a),
}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_accumulations(shape):
    rng = np.random.default_rng(1)
    for axis in range(len(shape)):
        x = rng.integers(-3, 4, shape).astype(np.float32)
        np.testing.assert_array_equal(Tensor(x).cumsum(axis).numpy(), np.cumsum(x, axis))
        signs = rng.choice(np.array([1, -1, 2, 0.5], np.float32), shape)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(Tensor(signs).cumprod(axis).numpy(), np.cumprod(signs, axis))
        y = special(rng, shape, np.float32)
        for name, accumulate in (("cummax", np.maximum.accumulate), ("cummin", np.minimum.accumulate)):
            values, places = getattr(Tensor(y), name)(axis)
            best = accumulate(y, axis) if y.size else y
            np.testing.assert_array_equal(values.numpy(), best)
            np.testing.assert_array_equal(places.numpy(), last_records(y, best, axis) if y.size else np.zeros(shape))
        z = (rng.standard_normal(shape) * 4).astype(np.float32)
        expected = np.logaddexp.accumulate(z.astype(np.float64), axis) if z.size else z
        np.testing.assert_allclose(Tensor(z).logcumsumexp(axis).numpy(), expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("view", VIEWS)
def test_fuzz_views(view):
    rng = np.random.default_rng(2)
    seen, as_array = VIEWS[view]
    for case in range(CASES):
        shape = tuple(int(n) for n in rng.integers(2, 50, rng.integers(1, 4)))
        x = rng.integers(-3, 4, shape).astype(np.float64)
        array = as_array(x)
        for axis in range(array.ndim):
            print(f"seed 2, case {case}: {shape}, axis {axis}")
            np.testing.assert_array_equal(seen(Tensor(x)).cumsum(axis).numpy(), np.cumsum(array, axis))
            order = stable_order(array, axis, False)
            np.testing.assert_array_equal(seen(Tensor(x)).argsort(axis).numpy(), order)
            np.testing.assert_array_equal(seen(Tensor(x)).sort(axis)[0].numpy(), np.take_along_axis(array, order, axis))


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int8, np.uint16, np.int32, np.uint64, np.int64, np.float16, np.float32, np.float64],
                         ids=lambda d: np.dtype(d).name)
def test_sorts(dtype):
    rng = np.random.default_rng(3)
    for shape in [(1,), (20,), (33,), (5, 70), (1100,), (1100, 2), (2, 3, 40), (9000,)]:
        x = special(rng, shape, dtype)
        for axis in range(len(shape)):
            for descending in (False, True):
                order = stable_order(x, axis, descending)
                expected = np.ascontiguousarray(np.take_along_axis(x, order, axis))
                values, places = Tensor(x).sort(axis, descending)
                np.testing.assert_array_equal(places.numpy(), order)
                assert values.numpy().tobytes() == expected.tobytes()
                for k in {k for k in (0, 1, 3, 17) if k <= shape[axis]}:
                    values, places = Tensor(x).topk(k, axis, largest=descending)
                    np.testing.assert_array_equal(places.numpy(), order.take(range(k), axis))
                    assert values.numpy().tobytes() == np.ascontiguousarray(expected.take(range(k), axis)).tobytes()


def test_topk_of_what_is_all_alike():
    for n, k in ((9000, 5), (5000, 1), (4097, 64)):
        for value in (0.0, np.nan, -np.inf):
            assert Tensor.full((n,), value).contiguous().topk(k)[1].tolist() == list(range(k))


@pytest.mark.parametrize("n", [0, 1, 40, 4096, 4097, 20000])
def test_compaction(n):
    rng = np.random.default_rng(4)
    for share in (0.0, 0.3, 1.0):
        mask, x = rng.random(n) < share, rng.standard_normal(n).astype(np.float32)
        np.testing.assert_array_equal(Tensor(mask).nonzero().numpy(), np.argwhere(mask))
        t = Tensor(x, requires_grad=True)
        picked = t.masked_select(Tensor(mask))
        np.testing.assert_array_equal(picked.numpy(), x[mask])
        if mask.any():
            (gradient,) = (t.masked_select(Tensor(mask)) ** 2).sum().gradient(t)
            np.testing.assert_allclose(gradient.numpy(), np.where(mask, 2 * x, 0))


def differences(f, x, weights):
    """The gradient of sum(f(x) * weights), from small steps."""
    result = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[at] = 1e-6
        result[at] = ((f(x + step) - f(x - step)) * weights).sum() / 2e-6
    return result


def log_sums(x, axis):
    return np.logaddexp.accumulate(x, axis)


GRADIENTS = {
    "cumsum": (lambda t, axis: t.cumsum(axis), np.cumsum),
    "cumprod": (lambda t, axis: t.cumprod(axis), np.cumprod),
    "cummax": (lambda t, axis: t.cummax(axis)[0], np.maximum.accumulate),
    "cummin": (lambda t, axis: t.cummin(axis)[0], np.minimum.accumulate),
    "logcumsumexp": (lambda t, axis: t.logcumsumexp(axis), log_sums),
    "sort": (lambda t, axis: t.sort(axis, True)[0], lambda x, axis: -np.sort(-x, axis)),
    "topk": (lambda t, axis: t.topk(2, axis)[0], lambda x, axis: (-np.sort(-x, axis)).take(range(2), axis)),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    """Also of the gradient itself."""
    rng = np.random.default_rng(5)
    f, numpy = GRADIENTS[name]
    for shape, axis in (((6,), 0), ((3, 5), 1), ((5, 9), 0), ((2, 40), 1)):
        x = rng.permutation(np.prod(shape)).reshape(shape) / 7.0 - 1
        if name == "cumprod":
            x.flat[2] = 0
        if name == "cumprod" and shape == (2, 40):
            x /= 4
        weights, more = rng.standard_normal(numpy(x, axis).shape), rng.standard_normal(shape)

        def first(values):
            t = Tensor(values, requires_grad=True)
            return t, (f(t, axis) * Tensor(weights)).sum().gradient(t)[0]

        np.testing.assert_allclose(first(x)[1].numpy(), differences(lambda v: numpy(v, axis), x, weights), rtol=1e-4, atol=1e-5)
        if x.size < 20:
            t, gradient = first(x)
            (second,) = (gradient * Tensor(more)).sum().gradient(t)
            np.testing.assert_allclose(second.numpy(), differences(lambda v: first(v)[1].numpy(), x, more), rtol=1e-4, atol=1e-5)


def test_products_that_overflow_in_a_block_are_still_zero():
    x = np.concatenate([np.full(1500, 0.5, np.float32), np.full(1500, 4, np.float32)])
    np.testing.assert_array_equal(Tensor(x).cumprod(0).numpy(), np.cumprod(x))


@pytest.mark.parametrize("device", ["INTERP", "LINEAR"])
def test_bits_are_those_of_other_devices(device):
    rng = np.random.default_rng(6)
    for shape in ((2100,), (3, 1050), (1050, 12)):
        x = rng.standard_normal(shape).astype(np.float32)
        for axis in range(len(shape)):
            for f in (lambda t: t.cumsum(axis), lambda t: t.cumprod(axis), lambda t: t.cummax(axis)[0], lambda t: t.sort(axis)[0]):
                assert f(Tensor(x, device=device)).numpy().tobytes() == f(Tensor(x, device="CPU")).numpy().tobytes()


def test_in_functions_and_jits():
    @function
    def f(x):
        return x.cumsum(0) * x.sort(0)[0]

    def numpy(x):
        return np.cumsum(x) * np.sort(x)

    x, y = np.array([3.0, 1.0, 2.0]), np.arange(40.0)[::-1].copy()
    np.testing.assert_array_equal((f(Tensor(x)) + f(Tensor(x + 1))).numpy(), numpy(x) + numpy(x + 1))
    np.testing.assert_array_equal(f(f(Tensor(y))).numpy(), numpy(numpy(y)))
    jitted = TinyJit(lambda t: f(t).realize())
    for i in range(4):
        np.testing.assert_array_equal(jitted(Tensor(x + i).realize()).numpy(), numpy(x + i))


# ---- long rows, of which the parts are sorted by several threads


@pytest.mark.parametrize("shape", [(4097,), (8192,), (70001,), (3, 20000), (15, 5000), (16, 5000), (300000,)], ids=str)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "int64", "float16", "float32", "float64"])
def test_long_rows(shape, dtype):
    a = special(np.random.default_rng(len(shape)), shape, np.dtype(dtype))
    for descending in (False, True):
        values, places = Tensor(a).sort(descending=descending)
        expected = stable_order(a, -1, descending)
        np.testing.assert_array_equal(places.numpy(), expected)
        np.testing.assert_array_equal(values.numpy(), np.take_along_axis(a, expected, -1))


def test_one_long_row_is_sorted_in_parts():
    """Each of the three kernels for a digit has several parts, but the one that adds up 256 numbers for each of them."""
    steps = [step.name for step in Tensor.empty(100000).argsort().schedule()]
    assert [sum(name.startswith(kind) for name in steps) for kind in ("count_digits", "begin_digits", "move_by_digit")] == [4, 4, 4]
    assert not any(step.name.startswith("count_digits") for step in Tensor.empty(64, 2000).argsort().schedule())


@pytest.mark.parametrize("n", [100000, 128256, 65536])
@pytest.mark.parametrize("k", [1, 5, 50])
def test_topk_copies_nothing_of_what_it_looks_through(n, k):
    a = np.random.default_rng(n).normal(size=n).astype(np.float32)
    x = Tensor(a).realize()
    values, places = x.topk(k)
    assert quern.estimate(values, places).memory < n
    expected = np.argsort(-a, kind="stable")[:k]
    assert places.tolist() == expected.tolist() and (values.numpy() == a[expected]).all()


def test_topk_of_equal_and_of_last_elements():
    """Of what stands for elements behind the end none is taken, though they are as great as the greatest."""
    a = np.full(5003, np.nan, np.float32)
    for largest in (True, False):
        assert Tensor(a).topk(7, largest=largest)[1].tolist() == [0, 1, 2, 3, 4, 5, 6]
    a = np.full(5003, -np.inf, np.float32)
    a[[5002, 4000]] = 1
    assert Tensor(a).topk(3)[1].tolist() == [4000, 5002, 0]
    lazy = Tensor(np.arange(20000, dtype=np.float32)).reshape(2, 10000).permute(1, 0) * 2
    assert lazy.topk(2, 0)[0].tolist() == [[19998, 39998], [19996, 39996]]


def test_gradient_of_topk_of_what_is_computed():
    a = np.random.default_rng(1).normal(size=9000).astype(np.float32)
    x = Tensor(a, requires_grad=True)
    (x * 3).topk(4)[0].sum().backward()
    expected = np.zeros(9000)
    expected[np.argsort(-a)[:4]] = 3
    assert (x.grad.numpy() == expected).all()

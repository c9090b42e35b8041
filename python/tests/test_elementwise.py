"""Functions of each element, against NumPy."""

import math

import numpy as np
import pytest

from quern import DTypeError, ShapeError, Tensor, dtypes

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(3, 5)).astype(np.float32)
Y = (RANDOM.uniform(0.5, 2, size=(3, 5)) * RANDOM.choice([-1, 1], size=(3, 5))).astype(np.float32)
P = RANDOM.uniform(0.1, 0.9, size=(3, 5)).astype(np.float32)


def close(tensor, expected, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(tensor.numpy(), expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", "abs sign square exp exp2 sin cos tan sinh cosh tanh floor ceil trunc expm1".split())
def test_as_numpy(name):
    close(getattr(Tensor(X), name)(), getattr(np, name)(X))


@pytest.mark.parametrize("name, numpy_name", [(n, n) for n in "sqrt log log2 log10 log1p".split()] + [
    ("asin", "arcsin"), ("acos", "arccos"), ("atan", "arctan"), ("atanh", "arctanh"), ("asinh", "arcsinh")])
def test_of_positive(name, numpy_name):
    close(getattr(Tensor(P), name)(), getattr(np, numpy_name)(P))


@pytest.mark.parametrize("name, function", [
    ("relu", lambda x: np.maximum(x, 0)),
    ("relu6", lambda x: np.clip(x, 0, 6)),
    ("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
    ("silu", lambda x: x / (1 + np.exp(-x))),
    ("softplus", lambda x: np.log1p(np.exp(x))),
    ("softsign", lambda x: x / (1 + np.abs(x))),
    ("leaky_relu", lambda x: np.where(x > 0, x, 0.01 * x)),
    ("elu", lambda x: np.where(x > 0, x, np.expm1(x))),
    ("quick_gelu", lambda x: x / (1 + np.exp(-1.702 * x))),
    ("hardtanh", lambda x: np.clip(x, -1, 1)),
    ("reciprocal", lambda x: 1 / x),
    ("neg", lambda x: -x),
    ("erf", lambda x: np.vectorize(math.erf)(x)),
])
def test_as_formula(name, function):
    close(getattr(Tensor(X), name)(), function(X), rtol=1e-4)


@pytest.mark.parametrize("operator", [
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b, lambda a, b: a < b, lambda a, b: a <= b,
    lambda a, b: a > b, lambda a, b: a >= b, lambda a, b: a == b, lambda a, b: a != b, lambda a, b: a % b, lambda a, b: a // b])
@pytest.mark.parametrize("right", [Y, Y[0], Y[:, :1], 2.5, -3])
def test_operators(operator, right):
    tensor = Tensor(right) if isinstance(right, np.ndarray) else right
    close(operator(Tensor(X), tensor), operator(X, right))
    close(operator(tensor, Tensor(X)), operator(right, X))
    close(operator(Tensor(X), right), operator(X, right))  # an array beside a tensor


def test_array_on_the_left():
    result = Y + Tensor(X)
    assert isinstance(result, Tensor)
    close(result, X + Y)
    close(Y - Tensor(X), Y - X)


@pytest.mark.parametrize("operator", [
    lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a ^ b, lambda a, b: a << b, lambda a, b: a >> b, lambda a, b: a // b,
    lambda a, b: a % b])
def test_integers(operator):
    a, b = np.array([5, 12, 7, -9], np.int32), np.array([1, 2, 3, 4], np.int32)
    close(operator(Tensor(a), Tensor(b)), operator(a, b))
    close(operator(Tensor(a), 3), operator(a, 3))
    close(operator(77, Tensor(b)), operator(np.int32(77), b))


def test_pow_and_matmul():
    close(Tensor(P) ** 2.5, P**2.5)
    close(2 ** Tensor(X), 2**X)
    close(Tensor(X) @ Tensor(Y.T), X @ Y.T)
    close(X @ Tensor(Y.T), X @ Y.T)
    close(~Tensor([True, False]), [False, True])


def test_in_place():
    x = Tensor(X).realize()
    same = x
    x += 1
    x *= Tensor(Y)
    assert same is x
    close(x, (X + 1) * Y)


def test_weak_numbers():
    assert (Tensor([1, 2]) + 1).dtype == dtypes.int32
    assert (Tensor([1, 2]) + 1.5).dtype == dtypes.float32
    assert (Tensor([1, 2], dtype="int8") + 1).dtype == dtypes.int8
    assert (1.5 * Tensor([1.0], dtype=dtypes.half)).dtype == dtypes.float16
    assert (Tensor([True]) + 1).dtype == dtypes.int32
    assert (Tensor([1, 2]) / 2).dtype == dtypes.float32
    assert (1 - Tensor([1, 2], dtype="int16")).dtype == dtypes.int16


def test_where_clamp_lerp():
    close((Tensor(X) > 0).where(Tensor(X), 0), np.where(X > 0, X, 0))
    close((Tensor(X) > 0).where(1, 0), np.where(X > 0, 1, 0))
    close(Tensor(X).clamp(-0.5, 0.5), X.clip(-0.5, 0.5))
    close(Tensor(X).clip(max_=0), np.minimum(X, 0))
    close(Tensor(X).clamp(min_=0), np.maximum(X, 0))
    close(Tensor(X).lerp(Tensor(Y), 0.25), X + 0.25 * (Y - X))
    close(Tensor(X).maximum(Tensor(Y)), np.maximum(X, Y))


def test_division():
    a, b = np.array([7, -7, 7, -7]), np.array([2, 2, -2, -2])
    close(Tensor(a).div(Tensor(b), rounding_mode="floor"), a // b)
    close(Tensor(a).div(Tensor(b), rounding_mode="trunc"), np.trunc(a / b))
    close(Tensor(a).sub(Tensor(b), reverse=True), b - a)
    close(Tensor(a).fmod(Tensor(b)), np.fmod(a, b))
    close(Tensor(a).div(2, reverse=True), 2 / a)


def test_special_values():
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -1.5], np.float32)
    close(Tensor(x).isnan(), np.isnan(x))
    close(Tensor(x).isinf(), np.isinf(x))
    close(Tensor(x).isinf(detect_negative=False), np.isposinf(x))
    close(Tensor(x).isfinite(), np.isfinite(x))
    assert Tensor(x).allclose(Tensor(x), equal_nan=True).item() is True
    assert Tensor(x).allclose(Tensor(x)).shape == () and not Tensor(x).allclose(Tensor(x))


def test_casts():
    x = Tensor([1.7, -2.3, 300.0])
    assert x.int().tolist() == [1, -2, 300]
    assert x.cast("int8").tolist() == [1, -2, 127]
    assert x.cast(dtypes.bool).tolist() == [True, True, True]
    assert [getattr(x, n)().dtype.name for n in "half float double int long short bool bfloat16".split()] == [
        "float16", "float32", "float64", "int32", "int64", "int16", "bool", "bfloat16"]
    assert Tensor([1.0]).bitcast("uint32").item() == 0x3F800000


@pytest.mark.parametrize("dtype, low, high", [("uint8", -1, 256), ("int8", -129, 300), ("int32", -2**40, 2**31),
                                              ("int64", -2**63, 2**63), ("uint64", -1, 2**64 - 1)])
def test_comparisons_with_numbers_beyond_the_dtype(dtype, low, high):
    x = Tensor([1, 5], dtype=dtype)
    yes, no = [True, True], [False, False]
    for result in (x > low, x >= low, x < high, x <= high, x != low, x != high, low < x, high >= x, low != x):
        assert result.tolist() == yes and result.dtype == dtypes.bool
    for result in (x < low, x <= low, x > high, x >= high, x == low, x == high, low >= x, high < x, high == x):
        assert result.tolist() == no
    if dtype == "uint8":
        with pytest.raises(DTypeError):
            x + high


def test_isclose_to_a_number():
    x = Tensor([1.0, 1.0 + 1e-7, 2.0])
    assert x.isclose(1).tolist() == [True, True, False] and x.isclose(2.0).tolist() == [False, False, True]
    assert Tensor([3, 4]).isclose(3).tolist() == [True, False]
    assert x[:2].allclose(1) and not x.allclose(1)


def test_axes_of_a_number():
    x = Tensor(3.0)
    for axis in (0, -1):
        assert [f(axis).item() for f in (x.sum, x.prod, x.max, x.min, x.mean, x.logsumexp)] == [3] * 6
        assert x.argmax(axis).item() == 0 and x.any(axis).item() and x.std(axis, correction=0).item() == 0
    with pytest.raises(ShapeError):
        x.sum(1)


def test_negative_padding_of_pairs():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_equal(Tensor(x).pad(((0, 0), (-1, -1))).numpy(), x[:, 1:3])
    np.testing.assert_equal(Tensor(x).pad(((1, -1), (-2, 0)), value=9).numpy(), np.pad(x[:2, 2:], ((1, 0), (0, 0)), constant_values=9))
    with pytest.raises(ShapeError):
        Tensor(x).pad(((0, 0), (-3, -2)))

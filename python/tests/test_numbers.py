"""Numbers at the edges of their types: where products are cut, and integers that int32 does not have."""

import numpy as np
import pytest

import quern
from quern import Tensor, dtypes


NARROW = [("int8", "int32", 100), ("uint8", "uint32", 200), ("int16", "int32", 30000)]


@pytest.mark.parametrize("narrow, wide, value", NARROW)
def test_products_of_narrow_integers(narrow, wide, value):
    """They are computed in the type of the sum. That is the dtype of einsum and of convolutions; `@` gives that of its operands, to
    which the sum is cut, unless another one is asked for: as NumPy, PyTorch and tinygrad have it."""
    a, b = Tensor([[value, value]], dtype=narrow), Tensor([[value], [value]], dtype=narrow)
    sum_ = 2 * value * value
    cut = np.array(sum_).astype(narrow).item()
    wide_results = [
        Tensor.einsum("ij,jk->ik", a, b), a.matmul(b, dtype=wide), a.dot(b, dtype=wide),
        a.reshape(1, 1, 1, 2).conv2d(b.reshape(1, 1, 1, 2)),
        a.reshape(1, 1, 1, 2).conv_transpose2d(b.reshape(1, 1, 1, 2))[..., 1:2],
    ]
    for result in wide_results:
        assert (result.dtype.name, result.item()) == (wide, sum_)
    for result in (a @ b, a.matmul(b), a.dot(b), a.linear(b), Tensor.einsum("ij,jk->ik", a, b, dtype=narrow)):
        assert (result.dtype.name, result.item()) == (narrow, cut)


INT32 = 2**31


@pytest.mark.parametrize("arguments", [
    (INT32, INT32 + 3), (-2**40, -2**40 + 3), (0, 2**40, 2**38), (2**53, 2**53 + 3), (2**53 + 1, 2**53 + 9, 3),
    (5, -2**35, -2**34), (INT32 - 2, INT32 + 2), (2**62, -2**62, -2**61), (2**63 - 3, 2**63 - 1),
])
def test_counting_beyond_int32(arguments):
    expected = list(range(*arguments))
    for asked in (None, "int64"):
        counted = Tensor.arange(*arguments, dtype=asked)
        assert (counted.dtype.name, counted.tolist()) == ("int64", expected)


def test_counting():
    assert Tensor.arange(2**63, 2**63 + 3, dtype="uint64").tolist() == [2**63, 2**63 + 1, 2**63 + 2]
    assert Tensor.arange(2**64 - 1, 2**63 + 1, -2**61, dtype="uint64").tolist() == list(range(2**64 - 1, 2**63 + 1, -2**61))
    assert Tensor.arange(INT32).dtype.name == "int32" and Tensor.arange(INT32 + 1).dtype.name == "int64"
    assert Tensor.arange(3).dtype.name == "int32" and Tensor.arange(0, 2**40, 2**38, dtype="float32").tolist() == [0, 2**38, 2**39, 3 * 2**38]
    with pytest.raises(quern.DTypeError, match=f"arange: {INT32} does not fit in int32"):
        Tensor.arange(INT32, INT32 + 3, dtype="int32")
    with pytest.raises(quern.ShapeError, match="arange: .* elements are too many"):
        Tensor.arange(-2**63, 2**63 - 1)
    assert Tensor(quern.Variable("n", 1, 2**40).bind(2**35)).item() == 2**35
    far = quern.Variable("n", 1, 2**40).bind(2**35)
    assert Tensor.arange(far, far + 2).tolist() == [2**35, 2**35 + 1]


def test_places_of_long_axes():
    """Only their dtypes: nothing is computed."""
    short, long = Tensor.ones(INT32), Tensor.ones(INT32 + 1)
    for axis in (None, 0):
        for name in ("argmax", "argmin"):
            assert getattr(short, name)(axis).dtype.name == "int32" and getattr(long, name)(axis).dtype.name == "int64"
    assert Tensor.ones(2**16, 2**16).argmax().dtype.name == "int64" and Tensor.ones(2**16, 2**16).argmax(0).dtype.name == "int32"
    image = Tensor.ones(1, 1, 2**17, 2**17)
    assert image.max_pool2d(2, return_indices=True)[1].dtype.name == "int64"
    assert Tensor.ones(1, 1, 4, 4).max_pool2d(2, return_indices=True)[1].dtype.name == "int32"
    assert Tensor.ones(INT32 + 1).nonzero(size=2).dtype.name == "int64" and Tensor.ones(3).nonzero().dtype.name == "int32"


def test_places_beyond_the_default_integer():
    before = dtypes.default_int
    dtypes.default_int = "int8"
    try:
        x = Tensor(np.roll(np.arange(300, dtype=np.float32), 1))
        assert x.argmax().item() == 0 and x.argmin().item() == 1 and x[1:].argmax().item() == 298
        assert x.argsort().tolist()[-1] == 0 and x.argsort().tolist()[0] == 1 and x.sort()[1].max().item() == 299
        assert Tensor.arange(200).tolist() == list(range(200)) and (x > 297).nonzero().tolist() == [[0], [299]]
    finally:
        dtypes.default_int = before


SIGNED = [-2**63, -2**62, -3, -1, 0, 1, 3, 2**62, 2**63 - 1]
UNSIGNED = [0, 1, 3, 2**62, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 3, 2**64 - 1]


@pytest.mark.parametrize("signed", ["int8", "int16", "int32", "int64"])
def test_integers_with_a_sign_beside_uint64(signed):
    limits = np.iinfo(signed)
    values = [v for v in SIGNED if limits.min <= v <= limits.max]
    x, y = Tensor(np.array(values, dtype=signed)).reshape(-1, 1), Tensor(np.array(UNSIGNED, dtype=np.uint64))
    compare = {"<": lambda a, b: a < b, "<=": lambda a, b: a <= b, "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
               ">": lambda a, b: a > b, ">=": lambda a, b: a >= b}
    for name, f in compare.items():
        assert f(x, y).tolist() == [[f(a, b) for b in UNSIGNED] for a in values], name
        assert f(y, x).tolist() == [[f(b, a) for b in UNSIGNED] for a in values], name


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_bits_beside_numbers(dtype):
    """A number has as many of its lowest bits as the dtype has."""
    x = np.array([1, 2, 3, 100, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype=dtype)
    for number in (-1, ~3, 0xFF, 0xFFFF, 0x80000000, 0xFFFFFFFF, 2**40 + 5, 2**63, 2**64 - 1, -2**63):
        other = np.array(number % 2**64, dtype=np.uint64).astype(dtype)
        for f in (lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a ^ b):
            for result in (f(Tensor(x), number), f(number, Tensor(x))):
                assert result.dtype.name == dtype
                np.testing.assert_array_equal(result.numpy(), f(x, other))


def test_indices_beyond_int32():
    x = Tensor([1, 2, 3])
    for far in (2**31, 2**32, 2**32 + 1, -2**32, 2**40):
        with pytest.raises(IndexError, match=f"index {far} is out of bounds for axis 0 of size 3"):
            x[far]
        for index in (Tensor([far], dtype="int64"), np.array([far]), [far]):
            assert x[index].tolist() == [0]  # as other indices in tensors that are out of range
        assert x.gather(0, Tensor([far], dtype="int64")).tolist() == [0]
    for far in (2**63, 2**64 - 1, 2**64 - 3):
        for index in (Tensor([far], dtype="uint64"), np.array([far], dtype=np.uint64)):
            assert x[index].tolist() == [0]
    for far in (2**63, 2**70, -2**70):
        for index in (far, [far]):
            with pytest.raises(IndexError, match=f"index {far} is out of bounds"):
                x[index]
        assert x[:far].tolist() == [1, 2, 3][:far] and x[far:].tolist() == [1, 2, 3][far:] and x[::far].tolist() == [1, 2, 3][::far]

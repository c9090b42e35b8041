"""Tensors on several devices; and random bits, which are the same on each."""

import numpy as np
import pytest

import quern
from quern import Tensor

TWO = ("CPU:0", "CPU:1")
X = np.arange(1, 25, dtype=np.float32).reshape(4, 6)


def sharded(axis):
    return Tensor(X).shard(TWO, axis=axis).realize()


def devices(tensor):
    return tensor.device if isinstance(tensor.device, tuple) else (tensor.device,)


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("compute", [
    lambda x: x + 1, lambda x: x * 3, lambda x: x.sum(), lambda x: x.sum(0), lambda x: x.max(1), lambda x: x.permute(1, 0),
    lambda x: x @ x.T, lambda x: x.reshape(2, 2, 6), lambda x: x.softmax(1), lambda x: x[1:3], lambda x: x.flip(0), lambda x: x.pad(((1, 1), (0, 2))),
    lambda x: x.cat(x, dim=1), lambda x: (x > 5).where(x, 0), lambda x: x.cumsum(1),
])
def test_computing(axis, compute):
    np.testing.assert_allclose(compute(sharded(axis)).numpy(), compute(Tensor(X)).numpy(), rtol=1e-6)


@pytest.mark.parametrize("compute", [
    lambda x: 1 + x, lambda x: 3 * x, lambda x: 1 - x, lambda x: 6 / x, lambda x: 2.0**x, lambda x: 7 % x, lambda x: 7 // x,
], ids=["add", "mul", "sub", "div", "pow", "mod", "floordiv"])
def test_a_number_before_a_shard(compute):
    np.testing.assert_allclose(compute(sharded(0)).numpy(), compute(X), rtol=1e-5)


@pytest.mark.parametrize("axis", [0, 1, None])
def test_a_list_as_an_index(axis):
    np.testing.assert_array_equal(sharded(axis)[[0, 2]].numpy(), X[[0, 2]])


@pytest.mark.parametrize("axis", [0, 1, None])
def test_a_tensor_as_an_index(axis):
    np.testing.assert_array_equal(sharded(axis)[Tensor([0, 2]).shard(TWO)].numpy(), X[[0, 2]])


def test_nothing_of_a_shard():
    assert Tensor([[1.0], [2.0]]).shard(TWO, axis=0).shrink(((0, 1), (0, 0))).numpy().shape == (1, 0)


def test_text():
    assert repr(sharded(0)).startswith("<Tensor CPU+CPU:1 float32 (4, 6)")


@pytest.mark.parametrize("like, axis", [
    (lambda: sharded(0), 0), (lambda: sharded(1), 1), (lambda: sharded(None), None), (lambda: sharded(1) + 1, 1),
    (lambda: sharded(1).permute(1, 0), 0), (lambda: sharded(0).sum(1), 0), (lambda: sharded(0).sum(0), None),
])
def test_shard_like(like, axis):
    given = like()
    made = Tensor(X).shard_like(given)
    assert devices(made) == devices(given) == ("CPU", "CPU:1")
    assert made.uop == Tensor(made.uop).uop and (made.uop.arg if axis is not None else None) == axis
    np.testing.assert_array_equal(made.numpy(), X)


def test_shard_like_what_is_on_one_device():
    made = Tensor(X).shard_like(Tensor([1.0], device="INTERP"))
    assert made.device == "INTERP" and made.tolist() == X.tolist()
    np.testing.assert_array_equal((sharded(0) + Tensor(X).shard_like(sharded(0))).numpy(), X + X)


def rotated(x, by):
    return ((x << by) | (x >> (32 - by))) & 0xFFFFFFFF


def threefry(counter, key):
    """Two words of 32 bits from two, in 20 rounds: Salmon and others, 2011."""
    words = [key & 0xFFFFFFFF, key >> 32]
    words.append(words[0] ^ words[1] ^ 0x1BD11BDA)
    x, y = (counter + words[0]) & 0xFFFFFFFF, ((counter >> 32) + words[1]) & 0xFFFFFFFF
    for i in range(5):
        for by in ((13, 15, 26, 6), (17, 29, 16, 24))[i % 2]:
            x = (x + y) & 0xFFFFFFFF
            y = rotated(y, by) ^ x
        x = (x + words[(i + 1) % 3]) & 0xFFFFFFFF
        y = (y + words[(i + 2) % 3] + i + 1) & 0xFFFFFFFF
    return x | y << 32


@pytest.mark.parametrize("num", [0, 1, 4, 5, 100])
@pytest.mark.parametrize("key, counter", [((5, 7), (0, 0)), ((5, 7), (3, 0)), ((2**32 - 1, 1), (0, 2**31))])
def test_random_bits(num, key, counter):
    bits = Tensor.random_bits(Tensor(key, dtype="uint32"), Tensor(counter, dtype="uint32"), num)
    assert bits.dtype.name == "uint32" and bits.shape == (num,)
    mixed = threefry(counter[0] | counter[1] << 32, key[0] | key[1] << 32)
    half = (num + 1) // 2
    pairs = [threefry(i | (i + half) << 32, mixed) for i in range(half)]
    assert bits.tolist() == ([p & 0xFFFFFFFF for p in pairs] + [p >> 32 for p in pairs])[:num]


PAIR = ("CPU", "CPU:1")


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("name", ["empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like"])
def test_what_is_made_like_a_sharded_tensor(name, axis):
    x = Tensor.arange(8).reshape(4, 2).float().shard(PAIR, axis)
    for given in (x, x + 1):
        made = getattr(given, name)(*([3] if name == "full_like" else []))
        assert made.device == PAIR and made.shape == (4, 2) and made.dtype == x.dtype
        assert (made + x).realize().uop.op == (x + 1).realize().uop.op
        if name in ("zeros_like", "ones_like", "full_like"):
            value = {"zeros_like": 0, "ones_like": 1, "full_like": 3}[name]
            assert made.tolist() == [[value] * 2] * 4
        one = getattr(given, name)(*([3] if name == "full_like" else []), device="CPU:1")
        assert one.realize().device == "CPU:1"


def test_random_numbers_like_a_sharded_tensor():
    x = Tensor.ones(4, 2).contiguous()
    Tensor.manual_seed(3)
    expected = x.rand_like().tolist()
    Tensor.manual_seed(3)
    assert x.shard(PAIR, 0).rand_like().tolist() == expected


@pytest.mark.parametrize("make, expected", [
    (lambda d: Tensor([1.0, 2.0], device=d), [1, 2]), (lambda d: Tensor(5, device=d), 5), (lambda d: Tensor.zeros(2, device=d), [0, 0]),
    (lambda d: Tensor.full((2,), 3, device=d), [3, 3]), (lambda d: Tensor.arange(3, device=d), [0, 1, 2]),
    (lambda d: Tensor.eye(2, device=d), [[1, 0], [0, 1]]), (lambda d: Tensor.linspace(0, 1, 2, device=d), [0, 1]),
    (lambda d: Tensor.ones(2).full_like(4, device=d), [4, 4]), (lambda d: Tensor.rand(2, device=d) * 0, [0, 0]),
    (lambda d: Tensor.randperm(1, device=d), [0]), (lambda d: Tensor.empty(2, device=d) * 0, None), (lambda d: Tensor.ones(2).to(d), [1, 1]),
])
def test_a_tuple_of_devices_where_a_device_is_named(make, expected):
    for devices in (PAIR, list(PAIR)):
        made = make(devices)
        assert made.realize().device == PAIR and (expected is None or made.tolist() == expected)
    assert make(("CPU:1",)).realize().device == "CPU:1"


def test_wrong_tuples_of_devices():
    for wrong, kind in (((), ValueError), (("CPU", 5), TypeError), (("CPU", None), TypeError), (("CPU", "NOWHERE"), quern.DeviceError)):
        for make in (lambda d: Tensor([1.0], device=d), lambda d: Tensor.zeros(2, device=d)):
            with pytest.raises(kind):
                make(wrong)

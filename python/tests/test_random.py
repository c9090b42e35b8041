"""Random numbers, against Threefry-2x32 in NumPy, and against what tinygrad 0.14 gives for a seed."""

import numpy as np
import pytest

from quern import Tensor, TinyJit, dtypes, nn

FIRST_KEY = 0x14B81119  # what tinygrad has beside the seed, on its first device


def threefry(counter, key):
    """Of words of 64 bits: the low half is the first word of the algorithm, the high half the second."""
    low, counter = (1 << 32) - 1, np.atleast_1d(np.uint64(counter))
    x0, x1 = (counter & np.uint64(low)).astype(np.uint32), (counter >> np.uint64(32)).astype(np.uint32)
    keys = [np.uint32(key & low), np.uint32(key >> 32)]
    keys.append(keys[0] ^ keys[1] ^ np.uint32(0x1BD11BDA))
    with np.errstate(over="ignore"):
        x0, x1 = x0 + keys[0], x1 + keys[1]
        for group in range(5):
            for turn in ([13, 15, 26, 6], [17, 29, 16, 24])[group % 2]:
                x0 = x0 + x1
                x1 = ((x1 << np.uint32(turn)) | (x1 >> np.uint32(32 - turn))) ^ x0
            x0 = x0 + keys[(group + 1) % 3]
            x1 = x1 + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x0.astype(np.uint64) | (x1.astype(np.uint64) << np.uint64(32))


def words(seed, drawn, n):
    """n words of 32 bits after so many."""
    key = int(threefry(drawn, ((seed << 32) & (2**64 - 1) | FIRST_KEY) ^ (seed >> 32))[0])
    half = (n + 1) // 2
    count = np.arange(half, dtype=np.uint64)
    both = threefry(count | ((count + np.uint64(half)) << np.uint64(32)), key)
    return np.concatenate([both.astype(np.uint32), (both >> np.uint64(32)).astype(np.uint32)])[:n]


def floats(raw, dtype, kept):
    bits = raw.view({2: np.uint16, 4: np.uint32, 8: np.uint64}[np.dtype(dtype).itemsize])
    return ((bits >> (bits.dtype.itemsize * 8 - kept)).astype(np.float64) * 2.0**-kept).astype(dtype)


@pytest.mark.parametrize("seed", [0, 42, 2**31 + 5, 2**63 + 7])
@pytest.mark.parametrize("n", [1, 2, 7, 64, 1001])
@pytest.mark.parametrize("dtype, kept", [("float16", 10), ("float32", 23), ("float64", 52)])
def test_numbers_are_threefry(seed, n, dtype, kept):
    Tensor.manual_seed(seed)
    drawn = 0
    for _ in range(2):
        size = (n * np.dtype(dtype).itemsize + 3) // 4
        expected = floats(words(seed, drawn, size), dtype, kept)[:n]
        np.testing.assert_array_equal(Tensor.rand(n, dtype=dtype).numpy(), expected)
        drawn += size


def test_bits_are_those_of_the_key_and_the_counter():
    key, counter = Tensor([FIRST_KEY, 5], dtype=dtypes.uint32), Tensor([9, 0], dtype=dtypes.uint32)
    np.testing.assert_array_equal(Tensor.random_bits(key, counter, 13).numpy(), words(5, 9, 13))


def test_more_than_32_bits_count():
    """Drawn in parts of 2^32 - 1 words, each with a key of its own."""
    most = 2**32 - 1
    Tensor.manual_seed(3)
    x = Tensor.rand(most + 9)
    np.testing.assert_array_equal(x[most:].numpy(), floats(words(3, most, 9), np.float32, 23))
    key = int(threefry(0, (3 << 32) | FIRST_KEY)[0])
    for at in (0, 1, 2**31 - 1, 2**31, most - 1):
        first = at % 2**31
        both = int(threefry(first | (first + 2**31) << 32, key)[0])
        assert x[at].item() == ((both >> (32 if at >= 2**31 else 0) & 0xFFFFFFFF) >> 9) * 2.0**-23


# What tinygrad 0.14 gives; where it computes more than bits, to its rounding.
KNOWN = [
    (lambda: Tensor.rand(5), [0.38104248, 0.0097754, 0.11280072, 0.117699504, 0.5053618]),
    (lambda: Tensor.randn(4), [0.62258416, 0.17057616, 0.8297093, 0.30674064]),
    (lambda: Tensor.randint(6, low=5, high=10), [6, 5, 5, 5, 7, 6]),
    (lambda: Tensor.uniform(6, low=2, high=10), [5.04834, 2.0782032, 2.9024057, 2.941596, 6.0428944, 4.976882]),
    (lambda: Tensor.uniform(6, low=-3, high=3, dtype="int32"), [-1, -3, -3, -3, 0, -1]),
    (lambda: Tensor.randperm(6), [1, 2, 3, 5, 0, 4]),
    (lambda: Tensor([1, 2, 3, 4]).multinomial(8, replacement=True), [1, 3, 1, 1, 3, 0, 3, 2]),
    (lambda: Tensor([1, 2, 3, 4]).multinomial(3), [2, 1, 3]),
    (lambda: Tensor.glorot_uniform(2, 3).flatten(), [-0.2606229, -1.0740284, -0.8483112, -0.8375785, 0.011747106, -0.2801924]),
    (lambda: Tensor.kaiming_normal(2, 3).flatten(), [1.5983279, -0.15181157, 1.339328, -0.624309, -0.70989794, -0.3575088]),
    (lambda: Tensor.ones(8).dropout(0.5), [0.0, 2.0, 0.0, 0.0, 2.0, 0.0, 2.0, 0.0]),
    (lambda: nn.Linear(3, 2).weight.flatten(), [-0.1373603, -0.56606257, -0.4470992, -0.44144258, 0.006191268, -0.14767437]),
    (lambda: nn.ConvTranspose2d(2, 1, 2).weight.flatten(), [-0.0628101, -0.29573238, 0.021253053, 0.0053043496, -0.038154278, -0.029234402, -0.07718909, -0.3146199]),
]


@pytest.mark.parametrize("make, expected", KNOWN)
def test_numbers_are_those_of_tinygrad(make, expected):
    Tensor.manual_seed(42)
    with Tensor.train():
        np.testing.assert_allclose(make().numpy(), expected, rtol=2e-6, atol=1e-7)


def test_replays_go_on_where_the_last_ended():
    step = TinyJit(lambda: Tensor.rand(4).realize())
    Tensor.manual_seed(9)
    for i in range(5):
        np.testing.assert_array_equal(step().numpy(), floats(words(9, 4 * i, 4), np.float32, 23))
    np.testing.assert_array_equal(Tensor.rand(3).numpy(), floats(words(9, 20, 3), np.float32, 23))


def test_ranges_beyond_floats():
    """Above 2^16 values they are remainders of 64 bits: as likely, and all of them possible."""
    Tensor.manual_seed(1)
    x = Tensor.randint(4000, low=-2**40, high=2**40, dtype="int64").numpy()
    assert len(set(x.tolist())) == 4000 and abs(x.astype(float).mean()) < 2**40 * 0.05
    assert sorted(Tensor.randperm(70000).tolist()) == list(range(70000))

"""Making tensors, random numbers, what is known of a tensor, and its values in Python."""

import gzip
import math

import numpy as np
import pytest

from quern import Device, Error, Tensor, dtypes

from reference import ALL, FLOATS, INTS, SIGNED, bfloat16, checks_of, compare, normal, op

X = normal(3, 7)

TABLE = [
    op("zeros", lambda d: Tensor.zeros(2, 3, dtype=d), lambda d: np.zeros((2, 3), d), dtypes=ALL),
    op("zeros", lambda d: Tensor.zeros((3, 0), dtype=d), lambda d: np.zeros((3, 0), d)),
    op("ones", lambda d: Tensor.ones(2, 3, dtype=d), lambda d: np.ones((2, 3), d), dtypes=ALL),
    op("ones", lambda d: Tensor.ones(dtype=d), lambda d: np.ones((), d)),
    op("full", lambda d: Tensor.full((2, 3), 7, dtype=d), lambda d: np.full((2, 3), 7, d), dtypes=f"{INTS} {FLOATS}"),
    op("full", lambda d: Tensor.full((2,), 2.5), lambda d: np.full(2, 2.5), dtypes="float32"),
    op("full", lambda d: Tensor.full((2,), True), lambda d: np.full(2, True), dtypes="bool"),
    op("full", lambda d: Tensor.full((2,), 9), lambda d: np.full(2, 9), dtypes="int32"),
    op("arange", lambda d: Tensor.arange(5, dtype=d), lambda d: np.arange(5, dtype=d), dtypes=f"{INTS} {FLOATS}", smoke=True),
    op("arange", lambda d: Tensor.arange(2, 11, 3), lambda d: np.arange(2, 11, 3), dtypes="int32"),
    op("arange", lambda d: Tensor.arange(9, -2, -4), lambda d: np.arange(9, -2, -4), dtypes="int32"),
    op("arange", lambda d: Tensor.arange(0.5, 2, 0.25, dtype=d), lambda d: np.arange(0.5, 2, 0.25), dtypes=FLOATS),
    op("arange", lambda d: Tensor.arange(5, 5), lambda d: np.arange(5, 5), dtypes="int32"),
    op("linspace", lambda d: Tensor.linspace(-1, 2, 7, dtype=d), lambda d: np.linspace(-1, 2, 7), dtypes=FLOATS),
    op("linspace", lambda d: Tensor.linspace(3, 5, 1, dtype=d), lambda d: np.linspace(3, 5, 1)),
    op("linspace", lambda d: Tensor.linspace(0, 10, 6, dtype=d), lambda d: np.linspace(0, 10, 6).astype(d), dtypes="int32 uint8"),
    op("eye", lambda d: Tensor.eye(3, dtype=d), lambda d: np.eye(3, dtype=d), dtypes=ALL),
    op("eye", lambda d: Tensor.eye(2, 5, dtype=d), lambda d: np.eye(2, 5, dtype=d)),
    op("eye", lambda d: Tensor.eye(3, 0, dtype=d), lambda d: np.eye(3, 0, dtype=d)),
    op("zeros_like", None, np.zeros_like, X, dtypes=ALL, grad=False),
    op("zeros_like", lambda x: x.zeros_like(dtype="int8"), lambda x: np.zeros_like(x, "int8"), X, out="int8"),
    op("ones_like", None, np.ones_like, X, dtypes=ALL, grad=False),
    op("full_like", lambda x: x.full_like(5), lambda x: np.full_like(x, 5), X, dtypes=f"{INTS} {FLOATS}", grad=False),
    op("full_like", lambda x: x.full_like(2.5, dtype="float32"), lambda x: np.full_like(x, 2.5, "float32"), X, dtypes="int8",
       out="float32"),
    op("const_like", lambda x: x.const_like(5), lambda x: np.full_like(x, 5), X, dtypes=f"{SIGNED} {FLOATS}", grad=False),
]

test_values, _, test_views = checks_of(TABLE)  # none of them has a gradient


@pytest.mark.parametrize("arguments, dtype", [((2**33, 2**33 + 2), "int32"), ((0, 400, 100), "uint8")])
def test_arange_refuses_what_the_dtype_cannot_hold(arguments, dtype):
    with pytest.raises((TypeError, ValueError)):
        Tensor.arange(*arguments, dtype=dtype)


def test_empty(device):
    x = Tensor.empty(2, 3, dtype="int8", device=device)
    assert (x.shape, x.dtype, x.device) == ((2, 3), dtypes.int8, device)
    like = x.empty_like(dtype="float32")
    assert (like.shape, like.dtype, like.device) == ((2, 3), dtypes.float32, device)
    assert x.assign(Tensor.ones(2, 3, dtype="int8", device=device)).tolist() == [[1] * 3] * 2


def uniform(low, high):
    return lambda x: np.clip((x - low) / (high - low), 0, 1)


def gaussian(mean, std):
    return np.vectorize(lambda x: 0.5 * (1 + math.erf((x - mean) / (std * math.sqrt(2)))))


def he(fan_in, a):
    """The standard deviation that He et al. give weights."""
    return math.sqrt(2 / (1 + a * a) / fan_in)


# name, what makes the numbers, their distribution
RANDOM = [
    ("rand", lambda **o: Tensor.rand(40, 50, **o), uniform(0, 1)),
    ("rand_like", lambda **o: Tensor.zeros(40, 50, **o).rand_like(), uniform(0, 1)),
    ("randn", lambda **o: Tensor.randn(40, 50, **o), gaussian(0, 1)),
    ("randn_like", lambda **o: Tensor.zeros(2000, **o).randn_like(), gaussian(0, 1)),
    ("uniform", lambda **o: Tensor.uniform(2000, low=-3, high=5, **o), uniform(-3, 5)),
    ("normal", lambda **o: Tensor.normal(2000, mean=4, std=0.5, **o), gaussian(4, 0.5)),
    ("scaled_uniform", lambda **o: Tensor.scaled_uniform(40, 50, **o), uniform(-(2000**-0.5), 2000**-0.5)),
    ("glorot_uniform", lambda **o: Tensor.glorot_uniform(40, 10, 5, **o), uniform(-((6 / 90) ** 0.5), (6 / 90) ** 0.5)),
    ("kaiming_uniform", lambda **o: Tensor.kaiming_uniform(40, 10, 5, **o), uniform(-(3**0.5) * he(50, 0.01), 3**0.5 * he(50, 0.01))),
    ("kaiming_uniform", lambda **o: Tensor.kaiming_uniform(40, 50, a=2.0, **o), uniform(-(3**0.5) * he(50, 2), 3**0.5 * he(50, 2))),
    ("kaiming_normal", lambda **o: Tensor.kaiming_normal(40, 10, 5, **o), gaussian(0, he(50, 0.01))),
]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name, make, distribution", RANDOM, ids=[r[0] for r in RANDOM])
def test_random(name, make, distribution, dtype, device):
    """Kolmogorov and Smirnov: the greatest distance of what was found from the distribution, of 2000 numbers, is below 2 / sqrt(2000)."""
    x = make(dtype=dtype, device=device)
    assert x.dtype.name == dtype and x.device == device
    values = np.sort(x.numpy().astype(np.float64).ravel())
    assert len(values) == 2000 and len(np.unique(values)) > (100 if dtype == "bfloat16" else 500)
    expected, steps = distribution(values), np.arange(2001) / 2000
    resolution = 1 / 128 if dtype == "bfloat16" else 0  # so far apart are its numbers below 1
    assert max((steps[1:] - expected).max(), (expected - steps[:-1]).max()) < 2 / math.sqrt(2000) + resolution


def test_seed(device):
    def draw(seed):
        Tensor.manual_seed(seed)
        return [Tensor.rand(5, device=device).tolist(), Tensor.rand(5, device=device).tolist()]

    first = draw(3)
    assert first == draw(3) and first != draw(4) and first[0] != first[1]
    Tensor.manual_seed(3)
    assert Tensor.rand(5, device="INTERP").tolist() == first[0]  # the same on every device


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint64"])
def test_randint(dtype, device):
    x = Tensor.randint(20, 50, low=2, high=7, dtype=dtype, device=device)
    assert (x.shape, x.dtype.name, x.device) == ((20, 50), dtype, device)
    counts = np.bincount(x.numpy().ravel().astype(int), minlength=7)
    assert counts[:2].sum() == 0 and len(counts) == 7 and counts[2:].min() > 140  # 200 each, and 5 standard deviations


def test_randperm(device):
    x = Tensor.randperm(30, device=device)
    assert sorted(x.tolist()) == list(range(30)) and x.tolist() != list(range(30))
    assert x.dtype == dtypes.int32 and Tensor.randperm(1).tolist() == [0]


def test_multinomial(device):
    weights = Tensor([1.0, 0.0, 3.0], device=device)
    counts = np.bincount(weights.multinomial(1000, replacement=True).numpy(), minlength=3)
    assert counts[1] == 0 and abs(counts[0] - 250) < 70
    both = weights.expand(50, 3).multinomial(2)
    assert both.shape == (50, 2) and all(sorted(row) == [0, 2] for row in both.tolist())


def test_dropout(device):
    x = Tensor.ones(40, 50, device=device)
    assert x.dropout(0.3).tolist() == x.tolist()
    with Tensor.train():
        values = x.dropout(0.25).numpy()
        assert x.dropout(0.0).tolist() == x.tolist() and not x.dropout(1.0).any().item()
    np.testing.assert_allclose(np.unique(values), [0, 1 / 0.75], rtol=1e-6)
    assert abs((values == 0).mean() - 0.25) < 0.05
    x = Tensor.ones(100, device=device)
    y = x.dropout(0.5, training=True)
    (gradient,) = y.sum().gradient(x)
    assert gradient.tolist() == y.tolist() and 20 < (y == 0).sum().item() < 80


@pytest.mark.parametrize("dtype", ALL.split())
def test_facts(dtype, device):
    x = Tensor.ones(2, 3, dtype=dtype, device=device)
    size = 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize
    assert (x.shape, x.ndim, x.numel(), x.size(), x.size(-1), len(x)) == ((2, 3), 2, 6, (2, 3), 3, 2)
    assert (x.dtype, x.device) == (getattr(dtypes, dtype), device)
    assert (x.element_size(), x.nbytes(), x.is_floating_point()) == (size, 6 * size, "float" in dtype)
    y = (x + x).contiguous()
    assert not y.is_realized()
    assert y.realize() is y and y.is_realized() and y.uop is not None


@pytest.mark.parametrize("dtype", ALL.split())
def test_values_in_python(dtype, device):
    array = normal(2, 3).make(dtype, 0)
    x = Tensor(array, dtype=dtype, device=device)
    assert x.tolist() == array.tolist()
    assert x[1, 2].item() == array[1, 2] and type(x[1, 2].item()) is type(array[1, 2].item())
    np.testing.assert_array_equal(x.numpy(), array)
    np.testing.assert_array_equal(x.T.numpy(), array.T)
    expected = (array.view(np.uint32) >> 16).astype(np.uint16) if dtype == "bfloat16" else array
    assert x.tobytes() == expected.tobytes()
    if dtype != "bfloat16":  # which a memoryview has no format for
        assert isinstance(x.data(), memoryview)
        np.testing.assert_array_equal(np.asarray(x.data()), array)


def test_bfloat16_rounds_to_even(device):
    values = np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-20, -3.3, 1e38, 0.0], np.float32)
    compare(Tensor(values, device=device).cast("bfloat16").float(), bfloat16(values).astype(np.float64), "float64")


def test_moves(device):
    x = Tensor([1.0, 2.0], device=device)
    there = x.to("INTERP")
    assert (there.device, there.tolist(), x.to(device).device) == ("INTERP", [1, 2], device)
    assert x.clone(device="INTERP").device == "INTERP"
    y = Tensor([1.0, 2.0], device="INTERP")
    assert y.to_(device) is y and y.device == device and (y + x).tolist() == [2, 4]
    assert (x.to("INTERP") * 3).to(device).sum().gradient(x)[0].tolist() == [3, 3]


def test_shards(device):
    devices = (f"{device}:0", f"{device}:1")
    try:
        Device[devices[1]]
    except Error as error:
        pytest.skip(f"there is one {device}: {error}")
    array = np.arange(12, dtype=np.float32).reshape(4, 3)
    cut, whole = Tensor(array, device=device).shard(devices, axis=0), Tensor(array, device=device)
    assert whole.shard_(devices) is whole and len(whole.device) == len(cut.device) == 2
    compare([cut * 2, cut.sum(0), cut + whole, cut @ whole.T], [array * 2, array.sum(0), array + array, array @ array.T], "float32")


def test_writes(device):
    x = Tensor([1.0, 2.0], device=device)
    view = x[1:]
    assert x.assign(x * 3) is x and x.tolist() == [3, 6] and view.tolist() == [6]
    assert x.replace(Tensor([7.0, 8.0], device=device)) is x and x.tolist() == [7, 8]
    x += 1
    x[0] = 5
    assert x.tolist() == [5, 9]


def test_parameters(device):
    x, y, z = (Tensor([2.0], device=device, requires_grad=r) for r in (True, False, None))
    assert [t.requires_grad for t in (x, y, z)] == [True, False, None]
    (x * y * z).sum().backward()
    assert x.grad.tolist() == [4] and y.grad is None and z.grad is None
    (x * x).backward(gradient=Tensor([10.0], device=device))
    assert x.grad.tolist() == [44]  # they are added up
    assert z.requires_grad_() is z and z.requires_grad is True
    assert [t.is_param for t in (x, y)] == [True, False]
    assert x.is_param_(False) is x and not x.is_param


def test_more_elements_than_31_bits_count(device):
    n = 2**31 + 3
    assert Tensor.arange(-5, n - 5, dtype="int64", device=device)[-2:].tolist() == [n - 7, n - 6]
    assert Tensor.linspace(0, 1, n, dtype="float64", device=device)[-1:].item() == 1
    assert Tensor([n - 1], dtype="int64", device=device).one_hot(n)[0, -2:].tolist() == [0, 1]
    assert Tensor.rand(n, 8, device=device).shape == (n, 8)
    with pytest.raises(TypeError, match="arange: 2147483650 does not fit in int32"):
        Tensor.arange(n, dtype="int32")
    with pytest.raises(Error, match="rand: .* too large"):
        Tensor.rand(2**52)


def test_backward_after_item(device):
    x = Tensor([2.0, 3.0], device=device, requires_grad=True)
    loss = (x * x).sum()
    assert loss.item() == 13
    loss.backward()
    assert x.grad.tolist() == [4, 6]


def test_from_url(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "numbers.gz"
    file.write_bytes(gzip.compress(bytes([1, 2, 3])))
    assert Tensor.from_url(file.as_uri(), gunzip=True).tolist() == [1, 2, 3]
    assert Tensor.from_url(file.as_uri()).numel() == file.stat().st_size


def test_file_on_a_device(tmp_path, device):
    file = tmp_path / "numbers"
    file.write_bytes(bytes([1, 2, 3]))
    assert Tensor(file, device=device).device == device

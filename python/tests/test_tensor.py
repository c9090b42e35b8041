"""Making, shapes, reduces, layers, against NumPy."""

import copy
import pickle

import numpy as np
import pytest

from quern import Context, Device, Error, Tensor, Variable, dtypes, nn

RANDOM = np.random.default_rng(1)
X = RANDOM.normal(size=(2, 3, 4)).astype(np.float32)


def close(tensor, expected, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(tensor.numpy(), expected, rtol=rtol, atol=atol)


def test_making():
    close(Tensor.zeros(2, 3), np.zeros((2, 3)))
    close(Tensor.ones((2, 3), dtype=dtypes.int32), np.ones((2, 3)))
    close(Tensor.full((2, 2), 7), np.full((2, 2), 7))
    assert Tensor.full((2,), 7).dtype == dtypes.int32
    close(Tensor.eye(3, 4), np.eye(3, 4))
    close(Tensor.arange(5), np.arange(5))
    assert Tensor.arange(5).dtype == dtypes.int32
    close(Tensor.arange(1, 8, 2), np.arange(1, 8, 2))
    close(Tensor.arange(1.5, 3, 0.5), np.arange(1.5, 3, 0.5))
    close(Tensor.arange(10, 0, -3), np.arange(10, 0, -3))
    close(Tensor.linspace(0, 1, 5), np.linspace(0, 1, 5))
    assert Tensor.empty(4, 5).shape == (4, 5)
    close(Tensor(X).zeros_like(), np.zeros_like(X))
    close(Tensor(X).full_like(3.5), np.full_like(X, 3.5))
    close(Tensor(X[0]).tril(), np.tril(X[0]))
    close(Tensor(X[0]).triu(1), np.triu(X[0], 1))
    close(Tensor([1, 0, 2]).one_hot(3), np.eye(3)[[1, 0, 2]])
    close(Tensor([1, 2]).diag(), np.diag([1, 2]))
    a, b = Tensor([1, 2, 3]).meshgrid(Tensor([4, 5]))
    close(a, np.meshgrid([1, 2, 3], [4, 5], indexing="ij")[0])
    close(b, np.meshgrid([1, 2, 3], [4, 5], indexing="ij")[1])


def test_from_python():
    assert Tensor(3).dtype == dtypes.int32 and Tensor(3).shape == ()
    assert Tensor(3.5).item() == 3.5
    assert Tensor(True).dtype == dtypes.bool
    assert Tensor([True, False]).dtype == dtypes.bool
    assert Tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert Tensor([1, 2.5]).dtype == dtypes.float32
    assert Tensor([1, 2], dtype="float16").tolist() == [1.0, 2.0]
    assert Tensor([1.9], dtype="int32").tolist() == [1]
    assert Tensor([]).shape == (0,)
    assert Tensor([[], []]).shape == (2, 0)
    assert Tensor(None).shape == (0,)
    assert Tensor(b"\x01\x02").tolist() == [1, 2]
    assert Tensor([np.float32(1.5), 2]).tolist() == [1.5, 2.0]
    assert Tensor([Tensor([1, 2]), Tensor([3, 4])]).shape == (2, 2)
    assert Tensor([X, X]).shape == (2, 2, 3, 4)
    assert Tensor([2**64 - 1], dtype="uint64").tolist() == [2**64 - 1]
    assert Tensor([-(2**63)], dtype="int64").item() == -(2**63)
    assert Tensor(np.float64(2.5)).item() == 2.5


def test_a_dtype_that_is_asked_for_wraps_as_a_cast_does():
    assert Tensor([0, 255, -129], dtype="int8").tolist() == [0, -1, 127] and Tensor(300, dtype="uint8").item() == 44
    assert Tensor([-1, 2**32], dtype="uint32").tolist() == [2**32 - 1, 0] and Tensor([2**64 - 1], dtype="int64").item() == -1
    assert Tensor([-1], dtype="uint64").item() == 2**64 - 1 and Tensor.full((2,), 300, dtype="uint8").tolist() == [44, 44]
    assert Tensor([1.9, -1.9, float("nan")], dtype="int32").tolist() == [1, -1, 0]
    assert Tensor.full((2,), 1.9, dtype="int8").tolist() == [1, 1] and Tensor(2, dtype="bool").item() is True
    assert Tensor([1e19], dtype="uint64").item() == 10**19 and Tensor(-1e30, dtype="int64").item() == -2**63
    assert Tensor([2, 0, 0.5], dtype="bool").tolist() == [True, False, True] and Tensor([True], dtype="int8").item() == 1
    assert dtypes.int8.min == -128 and dtypes.uint8.max == 255 and dtypes.float32.max == float("inf")


def test_padding_with_what_the_dtype_does_not_hold():
    x = Tensor([1, 2])
    assert x.pad((1, 1), value=-float("inf")).tolist() == [-float("inf"), 1, 2, -float("inf")]
    assert x.pad((1, 0), value=0.5).dtype == dtypes.float32 and x.pad((1, 0), value=0.0).dtype == dtypes.int32
    assert x.pad(((0, 1),), value=7).tolist() == [1, 2, 7] and x.pad(((0, 1),), value=7).dtype == dtypes.int32
    assert Tensor([True]).pad((1, 1), value=True).tolist() == [True, True, True]


def test_integers_between_integers():
    """Cut off, but for pictures of bytes, which are rounded."""
    x = [[1, 2, 3, 4], [21, 22, 23, 24], [41, 42, 43, 44]]
    assert Tensor(x).interpolate((2, 3)).tolist() == [[6, 7, 8], [36, 37, 38]]
    assert Tensor(x, dtype="uint8").interpolate((2, 3)).tolist() == [[6, 8, 9], [36, 38, 39]]


def test_default_dtypes():
    with Context(DEFAULT_FLOAT="double", DEFAULT_INT="LONG"):
        assert Tensor([1.5]).dtype == Tensor.rand(2).dtype == nn.Linear(2, 3).weight.dtype == dtypes.default_float == dtypes.float64
        assert Tensor([1]).dtype == Tensor.arange(2).dtype == dtypes.default_int == dtypes.int64
        dtypes.default_float = dtypes.float16
        assert Tensor([1.5]).dtype == dtypes.float16
    assert Tensor([1.5]).dtype == dtypes.float32 and Tensor([1]).dtype == dtypes.int32
    with Context(DEFAULT_FLOAT="int32"), pytest.raises(TypeError, match="DEFAULT_FLOAT is the name of a float type"):
        Tensor([1.5])


def test_random():
    x = Tensor.rand(1000).numpy()
    assert 0 <= x.min() and x.max() < 1 and abs(x.mean() - 0.5) < 0.05
    assert abs(Tensor.randn(1000).numpy().std() - 1) < 0.1
    i = Tensor.randint(100, low=3, high=7)
    assert set(i.tolist()) == {3, 4, 5, 6}
    assert sorted(Tensor.randperm(10).tolist()) == list(range(10))
    u = Tensor.uniform(100, low=-2, high=-1).numpy()
    assert u.min() >= -2 and u.max() < -1
    Tensor.manual_seed(7)
    a = Tensor.rand(3).tolist()
    Tensor.manual_seed(7)
    assert Tensor.rand(3).tolist() == a
    for make in (Tensor.glorot_uniform, Tensor.kaiming_uniform, Tensor.kaiming_normal, Tensor.scaled_uniform):
        assert make(4, 5).shape == (4, 5)


def test_facts():
    x = Tensor(X)
    assert (x.shape, x.ndim, x.numel(), len(x), x.size(1), x.size()) == ((2, 3, 4), 3, 24, 2, 3, (2, 3, 4))
    assert x.device == Device.DEFAULT
    assert x.nbytes() == 96 and x.element_size() == 4 and x.is_floating_point()
    assert repr(x).startswith(f"<Tensor {Device.DEFAULT} float32 (2, 3, 4)")
    assert repr(x + 1) == f"<Tensor {Device.DEFAULT} float32 (2, 3, 4)>"
    assert "1.5" in repr(Tensor([1.5]).realize())
    assert len({x, x + 1}) == 2


@pytest.mark.parametrize("compute, expected", [
    (lambda x: x.reshape(6, 4), X.reshape(6, 4)),
    (lambda x: x.reshape((4, -1)), X.reshape(4, -1)),
    (lambda x: x.view(None, 12), X.reshape(2, 12)),
    (lambda x: x.permute(2, 0, 1), X.transpose(2, 0, 1)),
    (lambda x: x.permute((1, 0, 2)), X.transpose(1, 0, 2)),
    (lambda x: x.transpose(1, 2), X.transpose(0, 2, 1)),
    (lambda x: x[0].T, X[0].T),
    (lambda x: x.flatten(1), X.reshape(2, 12)),
    (lambda x: x.unflatten(2, (2, 2)), X.reshape(2, 3, 2, 2)),
    (lambda x: x.unsqueeze(0).squeeze(0), X),
    (lambda x: x[:, :1].expand(2, 3, 4), np.broadcast_to(X[:, :1], (2, 3, 4))),
    (lambda x: x[:, :1].expand(-1, 3, -1), np.broadcast_to(X[:, :1], (2, 3, 4))),
    (lambda x: x.flip(0), X[::-1]),
    (lambda x: x.flip((0, 2)), X[::-1, :, ::-1]),
    (lambda x: x.shrink(((0, 1), None, (1, 3))), X[:1, :, 1:3]),
    (lambda x: x.pad((1, 2)), np.pad(X, ((0, 0), (0, 0), (1, 2)))),
    (lambda x: x.pad(((1, 0), None, (0, 2)), value=5), np.pad(X, ((1, 0), (0, 0), (0, 2)), constant_values=5)),
    (lambda x: x.pad((1, 1), mode="reflect"), np.pad(X, ((0, 0), (0, 0), (1, 1)), mode="reflect")),
    (lambda x: x.roll(1, 2), np.roll(X, 1, 2)),
    (lambda x: x.roll((1, -1), (0, 2)), np.roll(X, (1, -1), (0, 2))),
    (lambda x: x.repeat(2, 1, 1), np.tile(X, (2, 1, 1))),
    (lambda x: x.repeat_interleave(2, 1), np.repeat(X, 2, 1)),
    (lambda x: x.cat(x, dim=1), np.concatenate([X, X], 1)),
    (lambda x: Tensor.stack(x, x, dim=-1), np.stack([X, X], -1)),
    (lambda x: x.split(2, dim=2)[1], X[:, :, 2:]),
    (lambda x: x.split([1, 2], dim=1)[1], X[:, 1:]),
    (lambda x: x.chunk(2, dim=2)[0], X[:, :, :2]),
    (lambda x: x[0].diagonal(), np.diagonal(X[0])),
    (lambda x: x.rearrange("a b (c d) -> c (a b) d", d=2), X.reshape(6, 2, 2).transpose(1, 0, 2)),
    (lambda x: x.pad_to(2, 4, None), np.pad(X, ((0, 0), (0, 1), (0, 0)))),
    (lambda x: x.shrink_to(1, None, 2), X[:1, :, :2]),
    (lambda x: x.pad_to((2, 4, None), value=3), np.pad(X, ((0, 0), (0, 1), (0, 0)), constant_values=3)),
])
def test_shapes(compute, expected):
    close(compute(Tensor(X)), expected)


@pytest.mark.parametrize("name", "sum prod max min mean".split())
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_reduce(name, axis, keepdim):
    close(getattr(Tensor(X), name)(axis, keepdim=keepdim), getattr(np, name)(X, axis=axis, keepdims=keepdim), rtol=1e-4)


def test_statistics():
    close(Tensor(X).var(1), X.var(1, ddof=1), rtol=1e-4)
    close(Tensor(X).std(correction=0), X.std(), rtol=1e-4)
    std, mean = Tensor(X).std_mean(2)
    close(std, X.std(2, ddof=1), rtol=1e-4)
    close(mean, X.mean(2))
    assert Tensor(X).argmax().item() == X.argmax()
    close(Tensor(X).argmin(1), X.argmin(1))
    e = np.exp(X - X.max(-1, keepdims=True))
    close(Tensor(X).softmax(), e / e.sum(-1, keepdims=True))
    close(Tensor(X).log_softmax(0), X - np.log(np.exp(X).sum(0)))
    close(Tensor(X).logsumexp(1), np.log(np.exp(X).sum(1)))
    close(Tensor(X).cumsum(1), X.cumsum(1))
    close(Tensor(X).cummax(1)[0], np.maximum.accumulate(X, 1))
    assert Tensor([0, 1]).any().item() is True and Tensor([0, 1]).all().item() is False
    assert Tensor([200] * 3, dtype="uint8").sum().item() == 600
    assert Tensor([1, 2], dtype="int8").sum(dtype="int64").dtype == dtypes.int64


def test_long_sums():
    """Half of the numbers are the same, so that rounding errors do not cancel."""
    x = np.maximum(np.random.default_rng(0).normal(0.1, 1, (64, 8, 20, 20)), 0).astype(np.float32)
    for function in "sum", "mean", "var":
        want = getattr(x.astype(np.float64), function)((0, 2, 3), **({"ddof": 1} if function == "var" else {}))
        close(getattr(Tensor(x), function)((0, 2, 3)), want, rtol=2e-6)
        close(getattr(Tensor(x.transpose(0, 2, 3, 1)), function)((0, 1, 2)), want, rtol=2e-6)


def test_sorting():
    values, order = Tensor(X).sort(descending=True)
    close(values, -np.sort(-X))
    close(order, np.argsort(-X, kind="stable"))
    close(Tensor(X).topk(2)[0], -np.sort(-X)[..., :2])
    close(Tensor(X).argsort(0), np.argsort(X, 0, kind="stable"))


def test_linear_algebra():
    a, b = RANDOM.normal(size=(2, 3, 4)).astype(np.float32), RANDOM.normal(size=(2, 4, 5)).astype(np.float32)
    close(Tensor(a).matmul(Tensor(b)), a @ b)
    close(Tensor.einsum("bij,bjk->bik", Tensor(a), Tensor(b)), a @ b)
    close(Tensor.einsum("bij,bjk->ki", [Tensor(a), Tensor(b)]), np.einsum("bij,bjk->ki", a, b), rtol=1e-4)
    close(Tensor(a).linear(Tensor(b[0]), Tensor(b[0, 0])), a @ b[0] + b[0, 0])
    q, r = Tensor(a[0]).qr()
    close(q @ r, a[0], rtol=1e-3, atol=1e-4)
    u, s, v = Tensor(a[0]).svd(full_matrices=False)
    close((u * s) @ v, a[0], rtol=1e-3, atol=1e-4)
    close(Tensor(a).sequential([lambda x: x + 1, Tensor.relu]), np.maximum(a + 1, 0))


def test_convolution():
    x, w = RANDOM.normal(size=(1, 2, 6, 6)).astype(np.float32), RANDOM.normal(size=(3, 2, 3, 3)).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), axis=(2, 3))
    expected = np.einsum("bcijkl,ockl->boij", windows, w)
    close(Tensor(x).conv2d(Tensor(w), padding=1), expected, rtol=1e-4, atol=1e-5)
    close(Tensor(x).conv2d(Tensor(w), stride=2, padding=(1, 1)), expected[:, :, ::2, ::2], rtol=1e-4, atol=1e-5)
    blocks = x.reshape(1, 2, 3, 2, 3, 2)
    close(Tensor(x).max_pool2d(), blocks.max((3, 5)))
    close(Tensor(x).avg_pool2d(2), blocks.mean((3, 5)))
    values, indices = Tensor(x).max_pool2d(return_indices=True)
    assert values.shape == indices.shape == (1, 2, 3, 3)
    assert Tensor(x).conv_transpose2d(Tensor(w).transpose(0, 1)).shape == (1, 3, 8, 8)


def test_losses():
    logits, classes = RANDOM.normal(size=(4, 3)).astype(np.float32), np.array([0, 2, 1, 1])
    logs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    expected = -logs[np.arange(4), classes]
    close(Tensor(logits).sparse_categorical_crossentropy(Tensor(classes)), expected.mean())
    close(Tensor(logits).cross_entropy(Tensor(classes), reduction="none"), expected)
    close(Tensor(logs).nll_loss(Tensor(classes), reduction="sum"), expected.sum())
    p, y = np.array([0.2, 0.7], np.float32), np.array([0.0, 1.0], np.float32)
    close(Tensor(p).binary_crossentropy(Tensor(y)), -(y * np.log(p) + (1 - y) * np.log(1 - p)).mean())


def test_symbolic_sizes():
    n = Variable("n", 1, 10).bind(3)
    x = Tensor(X.reshape(6, 4)).shrink(((0, n), None))
    assert not isinstance(x.shape[0], int)
    assert x.sum().item() == pytest.approx(X.reshape(6, 4)[:3].sum(), rel=1e-5)


def test_devices():
    assert Device.canonicalize("cpu:0") == "CPU"
    assert "CPU" in list(Device.get_available_devices())
    x = Tensor([1.0, 2.0], device="INTERP")
    assert x.device == "INTERP" and (x + 1).tolist() == [2.0, 3.0]
    assert x.to("CPU").tolist() == [1.0, 2.0]
    s = Tensor(X.reshape(4, 6)).shard(("CPU:0", "CPU:1"), axis=0)
    assert isinstance(s.device, tuple)
    close(s + 1, X.reshape(4, 6) + 1)


def test_opts_of_a_kernel():
    x = Tensor.arange(64).realize()
    assert (x + 1).contiguous("UPCAST(0, 4)").tolist() == list(range(1, 65))
    with pytest.raises(Error, match="does not apply"):
        (x + 1).contiguous(opts="UPCAST(0, 7)").realize()


def test_replace_by_another_dtype():
    layer = nn.Linear(2, 3)
    for weight in nn.state.get_state_dict(layer).values():
        weight.replace(weight.cast(dtypes.float16))
    assert layer.weight.dtype == layer(Tensor.ones(1, 2, dtype="float16")).dtype == dtypes.float16


@pytest.mark.parametrize("name", [d.name for d in dtypes.all])
def test_there_is_one_object_for_each_dtype(name):
    dtype = getattr(dtypes, name)
    assert Tensor.empty(2, dtype=name).dtype is dtype
    assert pickle.loads(pickle.dumps(dtype)) is dtype and copy.deepcopy(dtype) is dtype
    assert dtype.vec(4).scalar() is dtype and dtype.vec(4) == dtype.vec(4) != dtype

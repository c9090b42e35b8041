"""Layers, optimisers, state."""

import errno

import numpy as np
import pytest

import quern
from quern import Tensor, TinyJit, nn
from quern.nn.state import get_parameters, get_state_dict, load_state_dict, safe_load, safe_load_metadata, safe_save


@pytest.mark.parametrize("layer, given, expected", [
    (lambda: nn.Linear(3, 5), (2, 3), (2, 5)),
    (lambda: nn.Linear(3, 5, bias=False), (2, 3), (2, 5)),
    (lambda: nn.Conv1d(3, 4, 3), (2, 3, 8), (2, 4, 6)),
    (lambda: nn.Conv2d(3, 4, 3, padding="same"), (2, 3, 8, 8), (2, 4, 8, 8)),
    (lambda: nn.Conv2d(4, 4, (1, 3), stride=2, groups=2), (2, 4, 8, 8), (2, 4, 4, 3)),
    (lambda: nn.ConvTranspose1d(3, 4, 3), (2, 3, 8), (2, 4, 10)),
    (lambda: nn.ConvTranspose2d(3, 4, 2, stride=2), (2, 3, 4, 4), (2, 4, 8, 8)),
    (lambda: nn.BatchNorm(3), (2, 3, 4, 4), (2, 3, 4, 4)),
    (lambda: nn.GroupNorm(2, 4), (2, 4, 3, 3), (2, 4, 3, 3)),
    (lambda: nn.InstanceNorm(4), (2, 4, 3, 3), (2, 4, 3, 3)),
    (lambda: nn.LayerNorm(4), (2, 3, 4), (2, 3, 4)),
    (lambda: nn.LayerNorm((3, 4)), (2, 3, 4), (2, 3, 4)),
    (lambda: nn.LayerNorm2d(3), (2, 3, 4, 4), (2, 3, 4, 4)),
    (lambda: nn.RMSNorm(4), (2, 3, 4), (2, 3, 4)),
])
def test_layers(layer, given, expected):
    y = layer()(Tensor.randn(*given))
    assert y.shape == expected
    assert np.isfinite(y.numpy()).all()


def test_values():
    x = np.random.default_rng(0).normal(size=(4, 3, 5)).astype(np.float32)
    layer = nn.Linear(5, 2)
    np.testing.assert_allclose(layer(Tensor(x)).numpy(), x @ layer.weight.numpy().T + layer.bias.numpy(), rtol=1e-4, atol=1e-5)
    normed = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(nn.LayerNorm(5)(Tensor(x)).numpy(), normed, rtol=1e-4, atol=1e-5)
    rms = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(nn.RMSNorm(5)(Tensor(x)).numpy(), rms, rtol=1e-4, atol=1e-5)
    table = nn.Embedding(7, 3)
    np.testing.assert_array_equal(table(Tensor([[1, 6]])).numpy(), table.weight.numpy()[[[1, 6]]])
    h, c = nn.LSTMCell(3, 4)(Tensor.randn(2, 3))
    assert h.shape == c.shape == (2, 4)


def test_batch_norm_statistics():
    x = np.random.default_rng(0).normal(3, 2, size=(8, 2, 5)).astype(np.float32)
    norm = nn.BatchNorm(2)
    with Tensor.train():
        y = norm(Tensor(x)).numpy()
    np.testing.assert_allclose(y.mean((0, 2)), 0, atol=1e-4)
    np.testing.assert_allclose(norm.running_mean.numpy(), 0.1 * x.mean((0, 2)), rtol=1e-4)
    np.testing.assert_allclose(norm.running_var.numpy(), 0.9 + 0.1 * x.var((0, 2), ddof=1), rtol=1e-4)
    assert norm.num_batches_tracked.item() == 1
    mean, var = norm.running_mean.numpy()[:, None], norm.running_var.numpy()[:, None]
    np.testing.assert_allclose(norm(Tensor(x)).numpy(), (x - mean) / np.sqrt(var + 1e-5), rtol=1e-3, atol=1e-4)


class Net:
    def __init__(self):
        self.layers = [nn.Linear(2, 16), Tensor.relu, nn.Linear(16, 1)]
        self.extra = {"scale": Tensor([1.0])}
        self.itself = self

    def __call__(self, x):
        return x.sequential(self.layers) * self.extra["scale"]


def test_state():
    net = Net()
    state = get_state_dict(net)
    assert list(state) == ["layers.0.weight", "layers.0.bias", "layers.2.weight", "layers.2.bias", "extra.scale"]
    assert len(get_parameters(net)) == 5
    other = Net()
    load_state_dict(other, state)
    np.testing.assert_array_equal(other.layers[0].weight.numpy(), net.layers[0].weight.numpy())
    with pytest.raises(quern.Error):
        load_state_dict(other, {})
    with pytest.raises(quern.ShapeError):
        load_state_dict(other, {"extra.scale": Tensor([1.0, 2.0])}, strict=False)


def test_what_a_file_says_of_its_tensors(tmp_path):
    path = tmp_path / "a.safetensors"
    safe_save({"b": Tensor([1, 2], dtype="int8"), "a": Tensor([[3.0, 4.0]])}, path, {"z": "1", "by": "test"})
    file, start, header = safe_load_metadata(path)
    assert file.shape == (path.stat().st_size,) and file.dtype == quern.dtypes.uint8
    assert list(header) == ["__metadata__", "b", "a"] and header["__metadata__"] == {"z": "1", "by": "test"}
    assert header["a"] == {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}
    assert header["b"] == {"dtype": "I8", "shape": [2], "data_offsets": [8, 10]}
    assert np.frombuffer(file[start : start + 8].data(), np.float32).tolist() == [3, 4]
    assert safe_load_metadata(file)[0] is file and safe_load_metadata(str(path))[1:] == (start, header)
    assert {name: t.tolist() for name, t in safe_load(path).items()} == {"b": [1, 2], "a": [[3, 4]]}
    assert list(safe_load(path)) == ["b", "a"]


def test_files(tmp_path):
    net = Net()
    safe_save(get_state_dict(net), tmp_path / "net.safetensors", {"by": "test"})
    loaded = safe_load(str(tmp_path / "net.safetensors"))
    other = Net()
    load_state_dict(other, loaded)
    np.testing.assert_array_equal(other.layers[2].bias.numpy(), net.layers[2].bias.numpy())
    assert list(loaded) == list(get_state_dict(net))
    with pytest.raises(FileNotFoundError) as caught:
        safe_load(tmp_path / "nothing")
    assert isinstance(caught.value, quern.Error) and caught.value.errno == errno.ENOENT
    assert str(caught.value) == f"{tmp_path / 'nothing'}: No such file or directory"


OPTIMISERS = [
    lambda p: nn.optim.SGD(p, lr=0.1), lambda p: nn.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    lambda p: nn.optim.Adam(p, lr=0.05), lambda p: nn.optim.AdamW(p, lr=0.05), lambda p: nn.optim.LAMB(p, lr=0.05),
    lambda p: nn.optim.LARS(p, lr=0.1, tcoef=0.05), lambda p: nn.optim.OptimizerGroup(nn.optim.SGD(p[:1], lr=0.1), nn.optim.Adam(p[1:], lr=0.1)),
]


@pytest.mark.parametrize("make", OPTIMISERS)
def test_training(make):
    x = Tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]).realize()
    y = Tensor([[0.0], [1.0], [1.0], [2.0]]).realize()
    net = Net()
    optimiser = make(get_parameters(net))

    @TinyJit
    def step():
        with Tensor.train():
            optimiser.zero_grad()
            loss = (net(x) - y).square().mean()
            loss.backward()
            optimiser.step()
            return loss

    losses = [step().item() for _ in range(40)]
    assert step.captured and losses[-1] < losses[0] * 0.6


def test_learning_rate():
    p = Tensor([1.0], requires_grad=True)
    optimiser = nn.optim.SGD([p], lr=0.5)
    assert optimiser.lr.item() == 0.5
    p.sum().backward()
    optimiser.step()
    assert p.tolist() == [0.5]
    optimiser.lr = 0.25
    optimiser.step()
    assert p.tolist() == [0.25]
    assert len(optimiser.params) == 1

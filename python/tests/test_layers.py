"""Every layer of nn with its options, against formulas in NumPy; and its state, out and in again."""

import itertools

import numpy as np
import pytest

import quern
import test_more_layers
from quern import Tensor, nn
from quern.nn.state import get_parameters, get_state_dict, load_state_dict, safe_load, safe_save

RANDOM = np.random.default_rng(7)


def normal(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def close(tensor, expected, rtol=1e-4, atol=1e-5):
    assert tensor.shape == expected.shape
    np.testing.assert_allclose(tensor.numpy(), expected, rtol=rtol, atol=atol)


def each(value, axes):
    return (value,) * axes if isinstance(value, int) else value


def convolve(x, w, b, stride, before, after, dilation, groups):
    """A sum over every place of the kernel."""
    axes = w.ndim - 2
    stride, dilation = each(stride, axes), each(dilation, axes)
    x = np.pad(x, ((0, 0), (0, 0), *zip(before, after)))
    out = [(x.shape[2 + i] - dilation[i] * (w.shape[2 + i] - 1) - 1) // stride[i] + 1 for i in range(axes)]
    inside, outside = w.shape[1], w.shape[0] // groups
    y = np.zeros((x.shape[0], w.shape[0], *out), np.float32)
    for place in itertools.product(*map(range, w.shape[2:])):
        seen = tuple(slice(p * d, p * d + s * (o - 1) + 1, s) for p, d, s, o in zip(place, dilation, stride, out))
        part = x[(slice(None), slice(None), *seen)]
        for g in range(groups):
            to, of = slice(g * outside, (g + 1) * outside), slice(g * inside, (g + 1) * inside)
            y[:, to] += np.einsum("bi...,oi->bo...", part[:, of], w[(to, slice(None), *place)])
    return y if b is None else y + b.reshape(-1, *(1,) * axes)


def spread(x, w, b, stride, padding, output_padding, dilation, groups):
    """Each element adds the kernel to where it stands; then the border is cut off."""
    axes = w.ndim - 2
    stride, padding, output_padding, dilation = (each(v, axes) for v in (stride, padding, output_padding, dilation))
    full = [(x.shape[2 + i] - 1) * stride[i] + dilation[i] * (w.shape[2 + i] - 1) + 1 + output_padding[i] for i in range(axes)]
    inside, outside = w.shape[0] // groups, w.shape[1]
    y = np.zeros((x.shape[0], outside * groups, *full), np.float32)
    for place in itertools.product(*map(range, w.shape[2:])):
        at = tuple(slice(p * d, p * d + s * (n - 1) + 1, s) for p, d, s, n in zip(place, dilation, stride, x.shape[2:]))
        for g in range(groups):
            of, to = slice(g * inside, (g + 1) * inside), slice(g * outside, (g + 1) * outside)
            y[(slice(None), to, *at)] += np.einsum("bi...,io->bo...", x[:, of], w[(of, slice(None), *place)])
    y = y[(..., *(slice(p, y.shape[2 + i] - p) for i, p in enumerate(padding)))]
    return y if b is None else y + b.reshape(-1, *(1,) * axes)


def values(t):
    return None if t is None else t.numpy()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 4, 3), (0, 3)])
def test_linear(bias, shape):
    layer, x = nn.Linear(3, 5, bias=bias), normal(*shape)
    expected = x @ layer.weight.numpy().T
    close(layer(Tensor(x)), expected + layer.bias.numpy() if bias else expected)
    assert (layer.bias is None) != bias


@pytest.mark.parametrize("options", [
    {}, {"bias": False}, {"stride": 2}, {"stride": (2, 1)}, {"padding": 1}, {"padding": (1, 2)}, {"dilation": 2}, {"dilation": (1, 3)},
    {"groups": 2}, {"groups": 4, "bias": False}, {"stride": 2, "padding": 2, "dilation": 2, "groups": 2},
])
@pytest.mark.parametrize("kernel", [3, (2, 3), 1])
def test_conv2d(options, kernel):
    layer, x = nn.Conv2d(4, 8, kernel, **options), normal(2, 4, 9, 8)
    o = {"stride": 1, "dilation": 1, "groups": 1, **options}
    padding = each(o.pop("padding", 0), 2)
    o.pop("bias", None)
    close(layer(Tensor(x)), convolve(x, layer.weight.numpy(), values(layer.bias), before=padding, after=padding, **o), atol=1e-4)


@pytest.mark.parametrize("kernel, dilation", [(3, 1), (4, 1), ((2, 3), 1), ((1, 4), (2, 3))])
def test_conv2d_of_the_same_size(kernel, dilation):
    layer, x = nn.Conv2d(3, 4, kernel, padding="same", dilation=dilation), normal(2, 3, 9, 8)
    whole = [d * (k - 1) for k, d in zip(each(kernel, 2), each(dilation, 2))]
    before, after = [w // 2 for w in whole], [w - w // 2 for w in whole]
    close(layer(Tensor(x)), convolve(x, layer.weight.numpy(), layer.bias.numpy(), 1, before, after, dilation, 1), atol=1e-4)
    assert layer(Tensor(x)).shape == (2, 4, 9, 8)
    assert nn.Conv2d(3, 4, kernel, padding="valid").padding == 0


@pytest.mark.parametrize("options", [{}, {"stride": 2, "padding": 1}, {"dilation": 3}, {"groups": 2, "bias": False}])
def test_conv1d(options):
    layer, x = nn.Conv1d(4, 6, 3, **options), normal(2, 4, 11)
    o = {"stride": 1, "dilation": 1, "groups": 1, **options}
    padding = each(o.pop("padding", 0), 1)
    o.pop("bias", None)
    close(layer(Tensor(x)), convolve(x, layer.weight.numpy(), values(layer.bias), before=padding, after=padding, **o), atol=1e-4)


def test_conv_of_three_axes():
    layer, x = nn.Conv2d(2, 3, (2, 3, 2), stride=(1, 2, 1)), normal(1, 2, 4, 5, 4)
    close(layer(Tensor(x)), convolve(x, layer.weight.numpy(), layer.bias.numpy(), (1, 2, 1), (0,) * 3, (0,) * 3, 1, 1), atol=1e-4)


@pytest.mark.parametrize("options", [
    {}, {"bias": False}, {"stride": 2}, {"stride": (3, 2), "output_padding": (2, 1)}, {"padding": 1}, {"dilation": 2}, {"groups": 2},
    {"stride": 2, "padding": 1, "output_padding": 1, "dilation": 2, "groups": 2},
])
def test_conv_transpose2d(options):
    layer, x = nn.ConvTranspose2d(4, 6, (3, 2), **options), normal(2, 4, 5, 4)
    o = {"stride": 1, "padding": 0, "output_padding": 0, "dilation": 1, "groups": 1, **options}
    o.pop("bias", None)
    close(layer(Tensor(x)), spread(x, layer.weight.numpy(), values(layer.bias), **o), atol=1e-4)


def test_conv_transpose1d():
    layer, x = nn.ConvTranspose1d(3, 4, 3, stride=2, padding=1, output_padding=1), normal(2, 3, 6)
    close(layer(Tensor(x)), spread(x, layer.weight.numpy(), layer.bias.numpy(), 2, 1, 1, 1, 1), atol=1e-4)


@pytest.mark.parametrize("layer", [nn.BatchNorm, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d])
@pytest.mark.parametrize("affine, track", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(layer, affine, track, training):
    norm, x = layer(3, eps=1e-3, affine=affine, track_running_stats=track, momentum=0.25), normal(4, 3, 5, 2) * 2 + 1
    scale, shift = normal(3), normal(3)
    if affine:
        norm.weight.assign(Tensor(scale))
        norm.bias.assign(Tensor(shift))
    mean, variance, steps = np.zeros(3, np.float32), np.ones(3, np.float32), 3
    for _ in range(steps):
        with Tensor.train(training):
            y = norm(Tensor(x)).realize()
        of_batch = x.mean((0, 2, 3)), x.var((0, 2, 3))
        if track and training:
            mean, variance = mean * 0.75 + of_batch[0] * 0.25, variance * 0.75 + x.var((0, 2, 3), ddof=1) * 0.25
    by = of_batch if training or not track else (mean, variance)
    expected = (x - by[0].reshape(-1, 1, 1)) / np.sqrt(by[1].reshape(-1, 1, 1) + 1e-3)
    close(y, expected * scale.reshape(-1, 1, 1) + shift.reshape(-1, 1, 1) if affine else expected, atol=1e-4)
    if track:
        close(norm.running_mean, mean)
        close(norm.running_var, variance)
    assert norm.num_batches_tracked.item() == (steps if track and training else 0)


def normed(x, axes, eps):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group_norm(affine, groups):
    norm, x = nn.GroupNorm(groups, 6, eps=1e-3, affine=affine), normal(2, 6, 3, 4)
    expected = normed(x.reshape(2, groups, -1), -1, 1e-3).reshape(x.shape)
    if affine:
        norm.weight, norm.bias = Tensor(scale := normal(6)), Tensor(shift := normal(6))
        expected = expected * scale.reshape(-1, 1, 1) + shift.reshape(-1, 1, 1)
    close(norm(Tensor(x)), expected, atol=1e-4)


@pytest.mark.parametrize("affine", [True, False])
def test_instance_norm(affine):
    norm, x = nn.InstanceNorm(3, affine=affine), normal(2, 3, 4, 5)
    close(norm(Tensor(x)), normed(x, (2, 3), 1e-5), atol=1e-4)
    assert len(get_parameters(norm)) == 2 * affine


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape", [5, (5,), (4, 5)])
def test_layer_norm(affine, shape):
    norm, x = nn.LayerNorm(shape, eps=1e-3, elementwise_affine=affine), normal(3, 4, 5)
    axes = (-1, -2) if shape == (4, 5) else -1
    expected = normed(x, axes, 1e-3)
    if affine:
        norm.weight, norm.bias = Tensor(scale := normal(*norm.normalized_shape)), Tensor(shift := normal(*norm.normalized_shape))
        expected = expected * scale + shift
    close(norm(Tensor(x)), expected, atol=1e-4)


def test_layer_norm_2d():
    norm, x = nn.LayerNorm2d(3), normal(2, 3, 4, 5)
    norm.weight = Tensor(scale := normal(3))
    close(norm(Tensor(x)), normed(x, 1, 1e-5) * scale.reshape(-1, 1, 1), atol=1e-4)


@pytest.mark.parametrize("affine", [True, False])
def test_rms_norm(affine):
    norm, x = nn.RMSNorm(5, eps=1e-2, elementwise_affine=affine), normal(2, 3, 5)
    expected = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-2)
    if affine:
        norm.weight = Tensor(scale := normal(5))
        expected = expected * scale
    close(norm(Tensor(x)), expected)
    assert norm(Tensor(x).half()).dtype.name == ("float32" if affine else "float16")
    large = nn.RMSNorm(2, elementwise_affine=False)(Tensor([300.0, 400.0]).half())  # whose squares float16 has not
    np.testing.assert_allclose(large.numpy(), np.array([0.6, 0.8]) * 2**0.5, rtol=1e-3)


@pytest.mark.parametrize("at", [[1], [[0, 4], [2, 2]], []])
def test_embedding(at):
    table = nn.Embedding(5, 3)
    index = np.array(at, dtype=np.int32)
    np.testing.assert_array_equal(table(Tensor(index)).numpy(), table.weight.numpy()[index])


def test_gradient_of_an_embedding():
    table = nn.Embedding(4, 2)
    table.weight.requires_grad = True
    (table(Tensor([1, 3, 1])) * Tensor([[1.0], [2.0], [3.0]])).sum().backward()
    np.testing.assert_allclose(table.weight.grad.numpy(), [[0, 0], [4, 4], [0, 0], [2, 2]])


@pytest.mark.parametrize("bias", [True, False])
def test_lstm_cell(bias):
    cell, x = nn.LSTMCell(3, 4, bias=bias), normal(5, 2, 3)
    if bias:
        cell.bias_ih, cell.bias_hh = Tensor(normal(16)), Tensor(normal(16))
    both = values(cell.bias_ih) + values(cell.bias_hh) if bias else 0

    def sigmoid(v):
        return 1 / (1 + np.exp(-v))

    h = c = np.zeros((2, 4), np.float32)
    state = None
    for step in x:
        i, f, g, o = np.split(step @ cell.weight_ih.numpy().T + h @ cell.weight_hh.numpy().T + both, 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        state = cell(Tensor(step), state)
    close(state[0], h)
    close(state[1], c)


MAKE = {
    "Linear": lambda: nn.Linear(3, 4), "Conv1d": lambda: nn.Conv1d(2, 3, 3), "Conv2d": lambda: nn.Conv2d(2, 3, 3, bias=False),
    "ConvTranspose1d": lambda: nn.ConvTranspose1d(2, 3, 3), "ConvTranspose2d": lambda: nn.ConvTranspose2d(2, 3, 3),
    "BatchNorm": lambda: nn.BatchNorm(3), "GroupNorm": lambda: nn.GroupNorm(2, 4), "InstanceNorm": lambda: nn.InstanceNorm(3),
    "LayerNorm": lambda: nn.LayerNorm((2, 3)), "LayerNorm2d": lambda: nn.LayerNorm2d(3), "RMSNorm": lambda: nn.RMSNorm(4),
    "Embedding": lambda: nn.Embedding(5, 3), "LSTMCell": lambda: nn.LSTMCell(3, 4),
}


@pytest.mark.parametrize("name", MAKE)
def test_state_out_and_in(name, tmp_path):
    layer, other = MAKE[name](), MAKE[name]()
    state = get_state_dict(layer)
    for key, tensor in state.items():
        tensor.assign(Tensor(normal(*tensor.shape)).cast(tensor.dtype)).realize()
        assert np.any(get_state_dict(other)[key].numpy() != tensor.numpy()) or tensor.dtype.name == "int64"
    path = tmp_path / "state.safetensors"
    safe_save(state, path)
    load_state_dict(other, safe_load(path), verbose=False)
    again = get_state_dict(other)
    assert list(again) == list(state) and state
    for key, tensor in state.items():
        np.testing.assert_array_equal(again[key].numpy(), tensor.numpy())


def test_the_names_of_states():
    names = {name: list(get_state_dict(make())) for name, make in MAKE.items()}
    two = ["weight", "bias"]
    assert names == {
        "Linear": two, "Conv1d": two, "Conv2d": ["weight"], "ConvTranspose1d": two, "ConvTranspose2d": two,
        "BatchNorm": [*two, "num_batches_tracked", "running_mean", "running_var"], "GroupNorm": two, "InstanceNorm": two,
        "LayerNorm": two, "LayerNorm2d": two, "RMSNorm": ["weight"], "Embedding": ["weight"],
        "LSTMCell": ["weight_ih", "weight_hh", "bias_ih", "bias_hh"],
    }
    elsewhere = set(test_more_layers.NAMES) | {"BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "datasets", "lr_scheduler", "optim", "state"}
    assert set(MAKE) | elsewhere == set(nn.__all__)


@pytest.mark.parametrize("make, inputs", [
    (lambda: nn.Linear(50, 60), 50), (lambda: nn.Conv2d(8, 12, (3, 2)), 48), (lambda: nn.Conv2d(8, 12, 3, groups=2), 72),
    (lambda: nn.ConvTranspose2d(8, 12, 3), 72),
])
def test_weights_begin_within_their_bound(make, inputs):
    layer, bound = make(), inputs**-0.5
    for tensor in (layer.weight, layer.bias):
        assert np.abs(tensor.numpy()).max() <= bound
    assert np.abs(layer.weight.numpy()).max() > 0.9 * bound and abs(layer.weight.numpy().mean()) < 0.1 * bound


def test_states_of_lists_tuples_and_dictionaries():
    model = {"a": [nn.Linear(1, 1, bias=False), (Tensor([1.0]), None)], "b": {"c": Tensor([2.0])}}
    assert list(get_state_dict(model)) == ["a.0.weight", "a.1.0", "b.c"]
    assert list(get_state_dict(model, prefix="model.")) == ["model.a.0.weight", "model.a.1.0", "model.b.c"]
    assert list(get_state_dict(model, prefix="x")) == ["xa.0.weight", "xa.1.0", "xb.c"]
    assert list(get_state_dict(Tensor([1.0]), "x.")) == ["x"] and list(get_state_dict(Tensor([1.0]))) == [""]
    shared = nn.Linear(1, 1, bias=False)
    assert len(get_state_dict([shared, shared])) == 2 and len(get_parameters([shared, shared])) == 1


def test_options_of_load_state_dict(capsys):
    layer = nn.Linear(2, 1)
    kept = layer.bias.tolist()
    given = {"weight": Tensor([[3.0, 4.0]], dtype="float16")}
    loaded = load_state_dict(layer, given, strict=False, consume=True)
    assert capsys.readouterr().out == (
        "load_state_dict: missing ['bias']\nload_state_dict: of another dtype weight float32 -> float16\n"
    )
    assert len(loaded) == 1 and given == {} and layer.weight.dtype.name == "float16"
    assert layer.weight.tolist() == [[3.0, 4.0]] and layer.bias.tolist() == kept
    load_state_dict(layer, {"more": Tensor([1.0])}, strict=False, verbose=False)
    assert capsys.readouterr().out == ""


def test_a_state_may_have_more_than_the_model(capsys):
    layer = nn.Linear(2, 1)
    given = {"weight": Tensor([[3.0, 4.0]]), "bias": Tensor([5.0]), "more": Tensor([6.0]), "epoch": 7}
    assert len(load_state_dict(layer, given, consume=True)) == 2
    assert capsys.readouterr().out == "load_state_dict: not used ['more', 'epoch']\n"
    assert layer.weight.tolist() == [[3.0, 4.0]] and layer.bias.tolist() == [5.0] and list(given) == ["more", "epoch"]


def test_a_state_of_other_dtypes_says_so(capsys):
    layers = [nn.Linear(1, 1) for _ in range(5)]
    load_state_dict(layers, {name: t.half() for name, t in get_state_dict(layers).items()})
    said = capsys.readouterr().out
    assert said.startswith("load_state_dict: of another dtype 0.weight float32 -> float16, 0.bias float32 -> float16, ")
    assert said.endswith(" and 2 more\n") and said.count("\n") == 1
    load_state_dict(layers, {name: t.float() for name, t in get_state_dict(layers).items()}, verbose=False)
    load_state_dict(layers, get_state_dict(layers))
    assert capsys.readouterr().out == ""


LOSSES = {
    "cross_entropy": lambda x, t, **kw: x.cross_entropy(t, **kw),
    "cross_entropy, smoothed": lambda x, t, **kw: x.cross_entropy(t, label_smoothing=0.1, **kw),
    "sparse_categorical_crossentropy": lambda x, t, **kw: x.sparse_categorical_crossentropy(t, **kw),
    "nll_loss": lambda x, t, **kw: x.log_softmax().nll_loss(t, **kw),
    "nll_loss, weighted": lambda x, t, **kw: x.log_softmax().nll_loss(t, weight=Tensor([1.0, 2.0, 3.0]), **kw),
}


@pytest.mark.parametrize("name", LOSSES)
def test_classes_that_do_not_exist(name):
    loss, x = LOSSES[name], Tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [0.0, 0.0, 1.0]])
    for dtype in ("int32", "int64"):
        each = loss(x, Tensor([2, 3, -1], dtype=dtype), reduction="none").numpy()
        good = loss(x, Tensor([2, 0, 0], dtype=dtype), reduction="none").numpy()
        assert np.isnan(each).tolist() == [False, True, True] and each[0] == good[0]
    assert np.isnan(loss(x, Tensor([2, 3, 1])).item()) and np.isnan(loss(x, Tensor([2, 3, 1]), reduction="sum").item())
    assert loss(x.half(), Tensor([2, 0, 1])).dtype.name == "float16" and np.isfinite(loss(x.half(), Tensor([2, 0, 1])).item())
    with pytest.raises(quern.IndexError, match=rf"{name.split(',')[0]}: class 3 is not one of the 3 classes from 0 on"):
        loss(x, Tensor.full((3,), 3, dtype="int32"))


def test_classes_that_are_ignored_need_not_exist():
    x, target = Tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]], requires_grad=True), Tensor([2, -100])
    for loss in (lambda t: x.sparse_categorical_crossentropy(t, ignore_index=-100), lambda t: x.log_softmax().nll_loss(t, ignore_index=-100)):
        value = loss(target)
        np.testing.assert_allclose(value.item(), x[:1].cross_entropy(Tensor([2])).item(), rtol=1e-6)
        x.grad = None
        value.backward()
        assert x.grad.numpy()[1].tolist() == [0, 0, 0] and np.isfinite(x.grad.numpy()).all()
        assert loss(Tensor.full((2,), -100, dtype="int32")).shape == ()

"""Layers by the names that they have in PyTorch, against NumPy; descriptions of models, rates that change, scaled losses, and checkpoints
in several files."""

import json
import math

import numpy as np
import pytest

import quern
from quern import Error, ShapeError, Tensor, nn
from quern.nn import state

ACTIVATIONS = """
CELU ELU GELU GLU Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid LogSoftmax Mish PReLU ReLU ReLU6 SELU SiLU Sigmoid Softmax Softplus
Softsign Tanh
""".split()
LOSSES = "BCELoss BCEWithLogitsLoss CrossEntropyLoss HuberLoss KLDivLoss L1Loss MSELoss SmoothL1Loss".split()
OTHERS = """
AdaptiveAvgPool2d AdaptiveMaxPool2d AvgPool2d Dropout Flatten GRU GradScaler Identity LSTM Layer MaxPool2d MultiheadAttention PixelShuffle
RNN Sequential TransformerEncoder TransformerEncoderLayer Unflatten describe
""".split()
NAMES = ACTIVATIONS + LOSSES + OTHERS


def values(layer):
    return {name: t.numpy().astype(np.float64) for name, t in state.get_state_dict(layer).items()}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# ---- recurrent layers


def cell(kind, x, states, w, end, nonlinearity=np.tanh):
    """One step: the new states."""
    def part(v, name):
        return v @ w[f"weight_{name}{end}"].T + w.get(f"bias_{name}{end}", 0)

    h = states[0]
    a, b = part(x, "ih"), part(h, "hh")
    if kind == "RNN":
        return [nonlinearity(a + b)]
    if kind == "GRU":
        (r, z, n), (rh, zh, nh) = np.split(a, 3, -1), np.split(b, 3, -1)
        update = sigmoid(z + zh)
        return [(1 - update) * np.tanh(n + sigmoid(r + rh) * nh) + update * h]
    i, f, g, o = np.split(a + b, 4, -1)
    c = sigmoid(f) * states[1] + sigmoid(i) * np.tanh(g)
    return [sigmoid(o) * np.tanh(c), c]


def recurrent(kind, x, states, w, layers, directions, nonlinearity=np.tanh):
    """Of (steps, batch, inputs): outputs, and the last states."""
    ends = []
    for layer in range(layers):
        outputs = []
        for d in range(directions):
            now, each = [s[layer * directions + d] for s in states], []
            for t in range(len(x))[::-1 if d else 1]:
                now = cell(kind, x[t], now, w, f"_l{layer}{'_reverse' if d else ''}", nonlinearity)
                each.append(now[0])
            outputs.append(np.stack(each[::-1] if d else each))
            ends.append(now)
        x = np.concatenate(outputs, -1)
    return x, [np.stack([e[i] for e in ends]) for i in range(len(states))]


def compare(got, expected):
    got = got if isinstance(got, (tuple, list)) else [got]
    for a, b in zip(got, expected):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "batch_first": True}, {"bidirectional": True, "num_layers": 2}, {"bias": False}], ids=str)
def test_recurrent(kind, options):
    layer = getattr(nn, kind)(3, 4, **options)
    directions, layers = 2 if options.get("bidirectional") else 1, options.get("num_layers", 1)
    rng, count = np.random.default_rng(0), 2 if kind == "LSTM" else 1
    x = rng.normal(size=(5, 2, 3))
    given = [rng.normal(size=(layers * directions, 2, 4)) for _ in range(count)]
    for states in ([np.zeros_like(g) for g in given], given):
        expected, ends = recurrent(kind, x, states, values(layer), layers, directions)
        first = options.get("batch_first", False)
        tensors = [Tensor(s.astype(np.float32)) for s in states]
        outputs, last = layer(Tensor((x.swapaxes(0, 1) if first else x).astype(np.float32)),
                              *([] if states is not given else [tuple(tensors) if count == 2 else tensors[0]]))
        compare(outputs, [expected.swapaxes(0, 1) if first else expected])
        compare(last, ends)


def test_recurrent_without_a_batch_and_its_gradient():
    layer = nn.RNN(3, 4, nonlinearity="relu")
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    expected, ends = recurrent("RNN", x[:, None], [np.zeros((1, 1, 4))], values(layer), 1, 1, lambda v: np.maximum(v, 0))
    outputs, last = layer(Tensor(x))
    compare([outputs, last], [expected[:, 0], ends[0][:, 0]])
    lstm, seen = nn.LSTM(2, 3), Tensor.rand(4, 1, 2)
    lstm(seen)[0].sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum().item() > 0 for p in state.get_parameters(lstm))
    step = 1e-2
    weight = lstm.weight_hh_l0
    slope, before = weight.grad.numpy()[1, 2], weight.numpy()
    totals = []
    for sign in (1, -1):
        moved = before.copy()
        moved[1, 2] += sign * step
        weight.assign(Tensor(moved))
        totals.append(lstm(seen)[0].sum().item())
    np.testing.assert_allclose((totals[0] - totals[1]) / (2 * step), slope, rtol=1e-2, atol=1e-4)


def test_recurrent_in_a_jit():
    layer, jitted = nn.GRU(2, 3), None
    jitted = quern.TinyJit(lambda x: layer(x)[0].realize())
    for n in range(4):
        x = Tensor.full((4, 1, 2), 0.1 * n).contiguous().realize()
        compare(jitted(x), [layer(x)[0].numpy()])


def test_names_of_weights():
    assert list(state.get_state_dict(nn.LSTM(3, 4, 2, bidirectional=True, bias=False))) == [
        "weight_ih_l0", "weight_hh_l0", "weight_ih_l0_reverse", "weight_hh_l0_reverse", "weight_ih_l1", "weight_hh_l1",
        "weight_ih_l1_reverse", "weight_hh_l1_reverse"]
    assert nn.GRU(3, 4, 2).weight_ih_l1.shape == (12, 4)
    assert list(state.get_state_dict(nn.MultiheadAttention(4, 2))) == ["in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"]
    names = list(state.get_state_dict(nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2)))
    assert "layers.1.self_attn.in_proj_weight" in names and "layers.0.norm2.bias" in names and len(names) == 24


# ---- attention


def attention(x, w, heads, mask=0.0):
    """Of (batch, steps, size) to itself: the output, and the mean of the weights."""
    n, s, e = x.shape
    q, k, v = (np.moveaxis((x @ a.T + b).reshape(n, s, heads, -1), 2, 1)
               for a, b in zip(np.split(w["in_proj_weight"], 3), np.split(w["in_proj_bias"], 3)))
    weights = softmax(q @ k.swapaxes(-1, -2) / math.sqrt(e // heads) + mask)
    return np.moveaxis(weights @ v, 1, 2).reshape(n, s, e) @ w["out_proj.weight"].T + w["out_proj.bias"], weights.mean(1)


@pytest.mark.parametrize("batch_first", [False, True])
def test_attention(batch_first):
    layer = nn.MultiheadAttention(6, 2, batch_first=batch_first)
    for bias in (layer.in_proj_bias, layer.out_proj.bias):
        bias.assign(Tensor.rand(*bias.shape))
    x = np.random.default_rng(0).normal(size=(3, 4, 6))
    t = Tensor((x if batch_first else x.swapaxes(0, 1)).astype(np.float32))
    later = np.triu(np.ones((4, 4), bool), 1)
    padding = np.array([[False] * 4, [False, False, True, True], [False, True, False, False]])
    for options, mask in (({}, 0.0), ({"attn_mask": Tensor(later)}, np.where(later, -np.inf, 0)), ({"is_causal": True}, np.where(later, -np.inf, 0)),
                          ({"key_padding_mask": Tensor(padding)}, np.where(padding, -np.inf, 0)[:, None, None]),
                          ({"attn_mask": Tensor(np.arange(16).reshape(4, 4).astype(np.float32))}, np.arange(16).reshape(4, 4))):
        expected, weights = attention(x, values(layer), 2, mask)
        output, got = layer(t, t, t, **options)
        compare([output, got], [expected if batch_first else expected.swapaxes(0, 1), weights])
    assert layer(t, t, t, need_weights=False)[1] is None and layer(t, t, t, average_attn_weights=False)[1].shape == (3, 2, 4, 4)


@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder(norm_first):
    layer = nn.TransformerEncoderLayer(6, 2, 10, norm_first=norm_first, batch_first=True)
    x = np.random.default_rng(0).normal(size=(3, 4, 6))
    w = values(layer)

    def norm(v, name):
        centred = v - v.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]

    def attended(v):
        return attention(v, {k.removeprefix("self_attn."): p for k, p in w.items()}, 2)[0]

    def fed(v):
        return np.maximum(v @ w["linear1.weight"].T + w["linear1.bias"], 0) @ w["linear2.weight"].T + w["linear2.bias"]

    if norm_first:
        expected = x + attended(norm(x, "norm1"))
        expected = expected + fed(norm(expected, "norm2"))
    else:
        expected = norm(x + attended(x), "norm1")
        expected = norm(expected + fed(expected), "norm2")
    t = Tensor(x.astype(np.float32))
    compare(layer(t), [expected])
    compare(nn.TransformerEncoder(layer, 1)(t), [expected])
    with Tensor.train():
        assert abs(layer(t).numpy() - expected).max() > 0.01  # dropout


# ---- functions as layers

CALLS = {"GELU": lambda x: x.gelu("none"), "Softmax": lambda x: x.softmax(-1), "LogSoftmax": lambda x: x.log_softmax(-1), "SiLU": Tensor.silu,
         "LogSigmoid": Tensor.logsigmoid, "PReLU": lambda x: (x > 0).where(x, x * 0.25), "LeakyReLU": Tensor.leaky_relu}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name):
    x = Tensor(np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32))
    compare(getattr(nn, name)()(x), [CALLS.get(name, getattr(Tensor, name.lower(), None))(x).numpy()])


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name):
    x, y = Tensor([[0.2, 0.7], [0.4, 0.3]]), Tensor([[0.0, 1.0], [0.5, 0.5]])
    same = {"BCELoss": "binary_crossentropy", "BCEWithLogitsLoss": "binary_crossentropy_logits", "CrossEntropyLoss": "cross_entropy",
            "HuberLoss": "huber_loss", "KLDivLoss": "kl_div", "L1Loss": "l1_loss", "MSELoss": "mse_loss", "SmoothL1Loss": "smooth_l1_loss"}[name]
    assert getattr(nn, name)()(x, y).item() == getattr(x, same)(y).item()
    assert getattr(nn, name)(reduction="sum")(x, y).item() == getattr(x, same)(y, reduction="sum").item()


def test_other_functions():
    x = Tensor(np.arange(48.0, dtype=np.float32).reshape(1, 4, 3, 4))
    assert nn.Identity()(x) is x and nn.Flatten()(x).shape == (1, 48) and nn.Unflatten(1, (2, 2))(x).shape == (1, 2, 2, 3, 4)
    assert nn.MaxPool2d(2)(x).shape == (1, 4, 1, 2) and nn.AvgPool2d(3, stride=1)(x).shape == (1, 4, 1, 2)
    assert nn.AdaptiveAvgPool2d(1)(x).shape == (1, 4, 1, 1) and nn.AdaptiveMaxPool2d((2, None))(x).shape == (1, 4, 2, 4)
    assert nn.PixelShuffle(2)(x).shape == (1, 1, 6, 8) and nn.Dropout(0.9)(x).tolist() == x.tolist()
    with Tensor.train():
        assert 0 < (nn.Dropout(0.5)(x + 1) == 0).sum().item() < 48


def test_sequential():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), lambda x: x * 2)
    assert list(state.get_state_dict(model)) == ["0.weight", "0.bias"] and len(model) == 3 and len(model[:2]) == 2
    x = Tensor.rand(2, 3)
    compare(model(x), [(model[0](x).relu() * 2).numpy()])
    assert model.append(nn.Tanh()) is model and isinstance(model[-1], nn.Tanh) and [type(m).__name__ for m in model][1] == "ReLU"
    nn.optim.SGD(state.get_parameters(model))


@pytest.mark.parametrize("error, text, call", [
    (ShapeError, "LSTM: the state has shape", lambda: nn.LSTM(3, 4)(Tensor.zeros(5, 2, 3), (Tensor.zeros(1, 3, 4),) * 2)),
    (TypeError, "LSTM: expected two tensors as the state", lambda: nn.LSTM(3, 4)(Tensor.zeros(5, 2, 3), Tensor.zeros(1, 2, 4))),
    (ShapeError, "GRU: axis 2 of the input", lambda: nn.GRU(3, 4)(Tensor.zeros(5, 2, 4))),
    (ShapeError, "GRU: 0 steps", lambda: nn.GRU(3, 4)(Tensor.zeros(0, 2, 3))),
    (ShapeError, "RNN: hidden_size is 0", lambda: nn.RNN(3, 0)), (ValueError, "nonlinearity is 'sin'", lambda: nn.RNN(3, 4, nonlinearity="sin")),
    (ShapeError, "cannot be divided among 3 heads", lambda: nn.MultiheadAttention(8, 3)),
    (ShapeError, "the key has shape", lambda: nn.MultiheadAttention(8, 2)(*[Tensor.zeros(3, 2, d) for d in (8, 6, 8)])),
    (ValueError, "activation is 'sin'", lambda: nn.TransformerEncoderLayer(8, 2, activation="sin")),
    (TypeError, "Sequential: expected a layer or a function, got 5", lambda: nn.Sequential(5)),
    (TypeError, "MaxPool2d: kernel_size is missing", lambda: nn.MaxPool2d()), (TypeError, "there is no option 'slope'", lambda: nn.ReLU(slope=1)),
    (TypeError, "Tanh: the input is 5", lambda: nn.Tanh()(5)), (TypeError, "expected a layer, got 7", lambda: nn.TransformerEncoder(7, 2))])
def test_wrong_use(error, text, call):
    with pytest.raises(error, match=text):
        call()


# ---- descriptions


def test_describe():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm(2), nn.ReLU(), nn.Linear(8, 4, bias=False))
    assert repr(model) == nn.describe(model) == """\
Sequential - 56 parameters
  0: Conv2d: weight (2, 1, 3, 3), bias (2,) - 20 parameters
  1: BatchNorm: weight (2,), bias (2,), num_batches_tracked (), running_mean (2,), running_var (2,) - 4 parameters
  2: ReLU
  3: Linear: weight (4, 8) - 32 parameters"""

    class Net:
        def __init__(self):
            self.layers, self.scale = [nn.Linear(2, 1), nn.LeakyReLU(0.5)], Tensor.ones(1)
            self.tied, self.itself = self.layers[0].weight, self

    assert nn.describe(Net()) == """\
Net: scale (1,), tied (1, 2) - 4 parameters
  layers: list - 3 parameters
    0: Linear: weight (1, 2), bias (1,) - 3 parameters
    1: LeakyReLU(negative_slope=0.5)"""
    assert repr(nn.GRU(1, 1, batch_first=True)).startswith("GRU(1, 1, batch_first=True): weight_ih_l0 (3, 1)")


# ---- rates


def rates(make, count=8, lr=0.5):
    optimiser = nn.optim.SGD([Tensor.zeros(1).contiguous()], lr=lr)
    scheduler, found = make(optimiser), []
    for i in range(count):
        found.append(optimiser.lr.item())
        if i + 1 < count:
            scheduler.step()
    return found


cos = [(1 + math.cos(math.pi * i / 4)) / 2 for i in range(8)]


@pytest.mark.parametrize("make, expected", [
    (lambda o: nn.lr_scheduler.StepLR(o, 3), [0.5] * 3 + [0.05] * 3 + [0.005] * 2),
    (lambda o: nn.lr_scheduler.MultiStepLR(o, [1, 4], 0.5), [0.5] + [0.25] * 3 + [0.125] * 4),
    (lambda o: nn.lr_scheduler.ConstantLR(o, 0.5, 2), [0.25] * 2 + [0.5] * 6),
    (lambda o: nn.lr_scheduler.LinearLR(o, 0.5, 1.0, 4), [0.25, 0.3125, 0.375, 0.4375] + [0.5] * 4),
    (lambda o: nn.lr_scheduler.ExponentialLR(o, 0.5), [0.5 ** (i + 1) for i in range(8)]),
    (lambda o: nn.lr_scheduler.LambdaLR(o, lambda i: i + 1), [0.5 * (i + 1) for i in range(8)]),
    (lambda o: nn.lr_scheduler.CosineAnnealingLR(o, 4, 0.1), [0.1 + 0.4 * c for c in cos]),
    (lambda o: nn.lr_scheduler.CosineAnnealingWarmRestarts(o, 4), [0.5 * c for c in cos[:4] * 2]),
    (lambda o: nn.lr_scheduler.OneCycleLR(o, 1.0, 8, pct_start=0.5, anneal_strategy="linear", div_factor=10, final_div_factor=10),
     [0.1 + 0.3 * i for i in range(4)] + [1 - 0.2475 * i for i in range(1, 5)]),
    (lambda o: nn.lr_scheduler.SequentialLR(o, [nn.lr_scheduler.ConstantLR(o, 0.1, 9), nn.lr_scheduler.ExponentialLR(o, 0.5)], [3]),
     [0.05] * 3 + [0.5 / 2**i for i in range(5)])])
def test_rates(make, expected):
    np.testing.assert_allclose(rates(make), expected, rtol=1e-5)


def test_plateau_groups_and_states():
    a, b = nn.optim.SGD([Tensor.zeros(1).contiguous()], lr=1.0), nn.optim.Adam([Tensor.zeros(1).contiguous()], lr=0.1)
    both = nn.optim.OptimizerGroup(a, b)
    scheduler = nn.optim.lr_scheduler.StepLR(both, 1, gamma=0.5)
    scheduler.step()
    assert [round(v, 6) for v in scheduler.get_last_lr()] == [0.5, 0.05] and abs(b.lr.item() - 0.05) < 1e-6
    kept = scheduler.state_dict()
    scheduler.step()
    scheduler.load_state_dict(kept)
    assert a.lr.item() == 0.5 and scheduler.last_epoch == 1
    plateau = nn.lr_scheduler.ReduceLROnPlateau(a, patience=1, factor=0.1)
    for loss in (3.0, 2.0, 2.0, Tensor([2.0]), 2.0):
        plateau.step(loss)
    np.testing.assert_allclose(a.lr.item(), 0.05, rtol=1e-5)
    with pytest.raises(TypeError, match="needs the number"):
        plateau.step()
    with pytest.raises(TypeError, match="StepLR: expected an optimizer, got 5"):
        nn.lr_scheduler.StepLR(5, 1)
    with pytest.raises(ValueError, match="step_size is 0"):
        nn.lr_scheduler.StepLR(a, 0)


def test_scaled_losses():
    w = Tensor([2.0, -1.0]).contiguous()
    optimiser, scaler = nn.optim.SGD([w], lr=0.5), nn.GradScaler(init_scale=1024, growth_interval=2)
    for _ in range(2):
        optimiser.zero_grad()
        scaler.scale((w * w).sum()).backward()
        assert scaler.step(optimiser) is True
        scaler.update()
    np.testing.assert_allclose(w.numpy(), [0, 0], atol=1e-6)
    assert scaler.get_scale() == 2048
    optimiser.zero_grad()
    scaler.scale((w * float("inf")).sum()).backward()
    assert scaler.step(optimiser) is False and w.isfinite().all().item()
    scaler.update()
    assert scaler.get_scale() == 1024
    optimiser.zero_grad()
    scaler.scale((w + 1).square().sum()).backward()
    scaler.unscale_(optimiser)
    np.testing.assert_allclose(w.grad.numpy(), [2, 2], rtol=1e-5)
    with pytest.raises(RuntimeError, match="unscale_"):
        scaler.unscale_(optimiser)
    assert scaler.step(optimiser) and nn.GradScaler(enabled=False).scale(w) is w
    other = nn.GradScaler()
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == scaler.get_scale()
    with pytest.raises(ValueError, match="init_scale is 0"):
        nn.GradScaler(init_scale=0)


# ---- checkpoints in several files


def test_checkpoints_in_several_files(tmp_path):
    a, b = {"x.weight": Tensor([1.0, 2.0]), "y": Tensor([3])}, {"z": Tensor([[4.0]])}
    state.safe_save(a, tmp_path / "model-00001-of-00002.safetensors")
    state.safe_save(b, tmp_path / "model-00002-of-00002.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    places = {**{n: "model-00001-of-00002.safetensors" for n in a}, "z": "model-00002-of-00002.safetensors"}
    index.write_text(json.dumps({"metadata": {"total_size": 20}, "weight_map": places}))
    for given in (index, str(index), tmp_path):
        loaded = state.safe_load(given)
        assert {n: t.tolist() for n, t in loaded.items()} == {"x.weight": [1, 2], "y": [3], "z": [[4]]}
    for text, wrong in (("does not have w", {"weight_map": {"w": places["z"]}}), ("is no name of a file", {"weight_map": {"z": "../z"}}),
                        ("expected a weight_map", {"weights": {}}), ("expected a weight_map", [])):
        index.write_text(json.dumps(wrong))
        with pytest.raises(Error, match=text):
            state.safe_load(index)
    index.unlink()
    with pytest.raises(Error, match="has 2 files"):
        state.safe_load(tmp_path)
    with pytest.raises(FileNotFoundError):
        state.safe_load(index)

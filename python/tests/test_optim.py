"""Every optimiser with its options: several steps against the same formulas in NumPy, in float64."""

import copy
import pickle

import numpy as np
import pytest

from quern import Context, Tensor, TinyJit, nn
from quern.nn import optim
from quern.nn.state import get_state_dict, load_state_dict

START = [np.array([[1.0, -2.0, 0.5], [3.0, 0.25, -1.0]]), np.array([[0.5], [-0.75], [2.0]])]
SCALES = [np.array([[1.0, 0.5, 2.0], [-3.0, 1.5, 0.1]]), np.array([[2.0], [1.0], [-0.5]])]
STEPS = 4


def gradient(p, s):
    """Of sum((p * s) ** 2) / 2."""
    return p * s * s


def loss(params):
    return sum(((p * Tensor(s.astype(np.float32))).square().sum() / 2 for p, s in zip(params, SCALES)), Tensor(0.0))


def parameters(dtype="float32"):
    return [Tensor(p, dtype=dtype).realize() for p in START]


def norm(x):
    return np.sqrt((x * x).sum())


def newton_schulz(x, steps, coefficients):
    """Odd polynomials that bring the singular values to 1."""
    wide = x.shape[0] <= x.shape[1]
    x = x if wide else x.T
    x = x / (norm(x) + 1e-7)
    for _ in range(steps):
        square = x @ x.T
        power, total = x, 0
        for c in coefficients:
            total = total + c * power
            power = square @ power
        x = total
    return x if wide else x.T


def sgd(lr=0.001, momentum=0.0, weight_decay=0.0, nesterov=False, classic=False, tcoef=0.0, pre_wd=True, ns_steps=0, ns_coefficients=None):
    """Of SGD, LARS and Muon: one formula."""

    def step(p, g, memory):
        rate = lr
        if tcoef:
            rate = lr * tcoef * norm(p) / (norm(g) + weight_decay * norm(p)) if norm(p) > 0 and norm(g) > 0 else lr
        if pre_wd:
            g = g + weight_decay * p
        if classic:
            g = rate * g
        if momentum:
            memory["v"] = momentum * memory.get("v", 0) + g
            g = g + momentum * memory["v"] if nesterov else memory["v"]
        if ns_steps:
            g = newton_schulz(g, ns_steps, ns_coefficients)
        if not classic:
            g = rate * g
        return p - g - (0 if pre_wd else lr * weight_decay * p)

    return step


def adam(lr=0.001, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0, lamb=False):
    """Of Adam, AdamW and LAMB."""

    def step(p, g, memory):
        t = memory["t"] = memory.get("t", 0) + 1
        memory["m"] = b1 * memory.get("m", 0) + (1 - b1) * g
        memory["v"] = b2 * memory.get("v", 0) + (1 - b2) * g * g
        change = memory["m"] / (1 - b1**t) / (np.sqrt(memory["v"] / (1 - b2**t)) + eps) + weight_decay * p
        ratio = norm(p) / norm(change) if lamb and norm(p) > 0 and norm(change) > 0 else 1
        return p - lr * ratio * change

    return step


NS = (3.4445, -4.775, 2.0315)
CASES = [
    (optim.SGD, {}, sgd()),
    (optim.SGD, {"lr": 0.1}, sgd(0.1)),
    (optim.SGD, {"lr": 0.1, "weight_decay": 0.2}, sgd(0.1, weight_decay=0.2)),
    (optim.SGD, {"lr": 0.05, "momentum": 0.9}, sgd(0.05, 0.9)),
    (optim.SGD, {"lr": 0.05, "momentum": 0.9, "nesterov": True}, sgd(0.05, 0.9, nesterov=True)),
    (optim.SGD, {"lr": 0.05, "momentum": 0.8, "nesterov": True, "weight_decay": 0.1}, sgd(0.05, 0.8, 0.1, True)),
    (optim.SGD, {"lr": 0.05, "momentum": 0.9, "classic": True}, sgd(0.05, 0.9, classic=True)),
    (optim.SGD, {"lr": 0.05, "nesterov": True}, sgd(0.05)),  # of no momentum
    (optim.LARS, {}, sgd(0.001, 0.9, 1e-4, classic=True, tcoef=0.001)),
    (optim.LARS, {"lr": 0.5, "tcoef": 0.1}, sgd(0.5, 0.9, 1e-4, classic=True, tcoef=0.1)),
    (optim.LARS, {"lr": 0.5, "tcoef": 0.1, "nesterov": True, "weight_decay": 0.3}, sgd(0.5, 0.9, 0.3, True, True, 0.1)),
    (optim.LARS, {"lr": 0.5, "tcoef": 0.1, "classic": False}, sgd(0.5, 0.9, 1e-4, tcoef=0.1)),
    (optim.LARS, {"lr": 0.5, "tcoef": 0.1, "momentum": 0.0}, sgd(0.5, 0, 1e-4, classic=True, tcoef=0.1)),
    (optim.LARS, {"lr": 0.05, "tcoef": 0, "momentum": 0.5}, sgd(0.05, 0.5, 1e-4, classic=True)),
    (optim.LARS, {"lr": 0.5, "tcoef": 0.1, "pre_wd": False, "weight_decay": 0.1}, sgd(0.5, 0.9, 0.1, False, True, 0.1, False)),
    (optim.LARS, {"lr": 0.1, "tcoef": 0, "ns_steps": 3, "ns_coefficients": NS, "classic": False},
     sgd(0.1, 0.9, 1e-4, ns_steps=3, ns_coefficients=NS)),
    (optim.Muon, {"lr": 0.1}, sgd(0.1, 0.95, 0.1, True, pre_wd=False, ns_steps=5, ns_coefficients=NS)),
    (optim.Muon, {"lr": 0.1, "nesterov": False, "weight_decay": 0.0, "momentum": 0.5, "ns_steps": 2, "ns_coefficients": (2, -1.5, 0.5)},
     sgd(0.1, 0.5, ns_steps=2, ns_coefficients=(2, -1.5, 0.5))),
    (optim.Adam, {}, adam()),
    (optim.Adam, {"lr": 0.1, "b1": 0.5, "b2": 0.8, "eps": 1e-3}, adam(0.1, 0.5, 0.8, 1e-3)),
    (optim.AdamW, {}, adam(weight_decay=0.01)),
    (optim.AdamW, {"lr": 0.1, "weight_decay": 0.5}, adam(0.1, weight_decay=0.5)),
    (optim.LAMB, {}, adam(eps=1e-6, lamb=True)),
    (optim.LAMB, {"lr": 0.1, "weight_decay": 0.5}, adam(0.1, eps=1e-6, weight_decay=0.5, lamb=True)),
    (optim.LAMB, {"lr": 0.1, "weight_decay": 0.5, "adam": True}, adam(0.1, eps=1e-6, weight_decay=0.5)),
]
IDS = [f"{make.__name__} {' '.join(f'{k}={v}' for k, v in options.items())}"[:60] for make, options, _ in CASES]


def expected_after(step, steps=STEPS):
    memories = [{} for _ in START]
    params = [p.copy() for p in START]
    for _ in range(steps):
        params = [step(p, gradient(p, s), memory) for p, s, memory in zip(params, SCALES, memories)]
    return params


def train(optimiser, params):
    optimiser.zero_grad()
    loss(params).backward()
    optimiser.step()


@pytest.mark.parametrize("make, options, step", CASES, ids=IDS)
def test_steps(make, options, step):
    params = parameters()
    optimiser = make(params, **options)
    for _ in range(STEPS):
        train(optimiser, params)
    for p, start, expected in zip(params, START, expected_after(step)):
        np.testing.assert_allclose(p.numpy(), expected, rtol=1e-4, atol=1e-6)
        assert np.abs(p.numpy() - start).max() > 1e-7  # it has moved


@pytest.mark.parametrize("make, options, step", CASES[3:5] + CASES[9:10] + CASES[16:17] + CASES[19:20],
                         ids=["momentum", "nesterov", "LARS", "Muon", "Adam"])
def test_steps_of_a_jit(make, options, step):
    params, scales = parameters(), [Tensor(s.astype(np.float32)).realize() for s in SCALES]
    optimiser = make(params, **options)

    @TinyJit
    def run():
        optimiser.zero_grad()
        sum(((p * s).square().sum() / 2 for p, s in zip(params, scales)), Tensor.zeros(())).backward()
        optimiser.step()

    for _ in range(STEPS + 2):
        run()
    assert run.captured
    for p, expected in zip(params, expected_after(step, STEPS + 2)):
        np.testing.assert_allclose(p.numpy(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("make, options, step", [CASES[4], CASES[9], CASES[19]], ids=["SGD", "LARS", "Adam"])
def test_narrow_parameters_are_changed_in_float32(make, options, step):
    params = parameters("float16")
    optimiser = make(params, **options)
    for _ in range(STEPS):
        optimiser.zero_grad()
        sum(((p.float() * Tensor(s.astype(np.float32))).square().sum() / 2 for p, s in zip(params, SCALES)), Tensor(0.0)).backward()
        optimiser.step()
    for p, expected in zip(params, expected_after(step)):
        assert p.dtype.name == "float16"
        np.testing.assert_allclose(p.numpy(), expected, rtol=1e-2, atol=1e-2)
    assert all(s.dtype.name == "float32" for s in optimiser.state())


@pytest.mark.parametrize("make, options, step", CASES, ids=IDS)
def test_state_out_and_in(make, options, step):
    """Two steps, its state into another one, two steps of that: as four of one."""
    params = parameters()
    optimiser = make(params, **options)
    for _ in range(2):
        train(optimiser, params)
    others = parameters()
    other = make(others, **options)
    load_state_dict(other, {k: v.clone().realize() for k, v in get_state_dict(optimiser).items()}, verbose=False)
    for _ in range(STEPS - 2):
        train(other, others)
    for p, expected in zip(others, expected_after(step)):
        np.testing.assert_allclose(p.numpy(), expected, rtol=1e-4, atol=1e-6)


ADAM = "params.0 params.1 lr b1_t b2_t m.0 m.1 v.0 v.1"
NAMES = [  # as tinygrad has them: checkpoints of one are those of the other
    (optim.SGD, {}, "params.0 params.1 lr"), (optim.SGD, {"momentum": 0.9}, "params.0 params.1 lr b.0 b.1"),
    (optim.LARS, {}, "params.0 params.1 lr b.0 b.1"), (optim.Muon, {}, "params.0 params.1 lr b.0 b.1"),
    (optim.Adam, {}, ADAM), (optim.AdamW, {}, ADAM), (optim.LAMB, {}, ADAM),
]


@pytest.mark.parametrize("make, options, names", NAMES)
def test_names_of_a_state(make, options, names):
    optimiser = make(parameters(), **options)
    assert list(get_state_dict(optimiser)) == names.split()
    assert [id(t) for t in optimiser.state()] == [id(t) for name, t in get_state_dict(optimiser).items() if name[:2] not in ("pa", "lr")]


def test_names_of_the_state_of_a_group():
    a, b = parameters()
    group = optim.OptimizerGroup(optim.SGD([a], momentum=0.9), optim.Adam([b]))
    assert list(get_state_dict(group)) == [
        "optimizers.0.params.0", "optimizers.0.lr", "optimizers.0.b.0", "optimizers.1.params.0", "optimizers.1.lr", "optimizers.1.b1_t",
        "optimizers.1.b2_t", "optimizers.1.m.0", "optimizers.1.v.0", "params.0", "params.1"]


def test_values_of_a_state():
    """Those that tinygrad has after three steps by gradients of 2 and 1."""
    p = [Tensor.ones(1), Tensor.ones(1)]
    adam, momentum = optim.Adam(p), optim.SGD(p, momentum=0.9)
    for _ in range(3):
        for optimiser in (adam, momentum):
            optimiser.zero_grad()
            (p[0] * 2 + p[1]).sum().backward()
            optimiser.step()
    state = {name: t.item() for name, t in get_state_dict(adam).items()}
    expected = {"b1_t": 0.729, "b2_t": 0.997003, "m.0": 0.542, "m.1": 0.271, "v.0": 0.011988, "v.1": 0.002997}
    assert {name: state[name] for name in expected} == pytest.approx(expected, rel=1e-5)
    assert [t.item() for t in momentum.b] == pytest.approx([5.42, 2.71])


def test_attributes():
    params = parameters()
    adam = optim.AdamW(params, 0.1, 0.8, 0.9, 1e-3, 0.5)
    assert (adam.b1, adam.b2, adam.eps, adam.wd, adam.adam, adam.fused, adam.device) == (0.8, 0.9, 1e-3, 0.5, True, False, params[0].device)
    assert adam.b1_t.tolist() == [1] and len(adam.m) == len(adam.v) == 2 and adam.buffers == []
    muon = optim.Muon(params)
    assert (muon.momentum, muon.wd, muon.nesterov, muon.classic, muon.ns_steps, muon.tcoef) == (0.95, 0.1, True, False, 5, 0)
    assert isinstance(optim.SGD(params), optim.LARS) and isinstance(adam, optim.LAMB)


def test_parameters_are_the_objects_that_were_given():
    a, b = parameters()
    fixed = Tensor([1.0], requires_grad=False)
    optimiser = optim.SGD([a, b, fixed, a])
    assert optimiser.params[0] is a and optimiser.params[1] is b and len(optimiser.params) == 2 and optimiser.buffers[0] is fixed
    assert a in optimiser.params and optimiser.lr is optimiser.lr
    lr = optimiser.lr
    optimiser.lr = 0.5
    assert optimiser.lr is lr and lr.item() == 0.5


def test_small_steps_have_all_digits():
    """Of 1 - b2**t, where b2**t is near 1."""
    p = Tensor([1.0])
    optimiser = optim.Adam([p], lr=0.25, b2=0.9999)
    before = 1.0
    for _ in range(5):
        p.grad = Tensor([3.0])
        optimiser.step()
        assert before - p.item() == pytest.approx(0.25, abs=1e-6)
        before = p.item()


def test_group():
    params = parameters()
    group = optim.OptimizerGroup(optim.SGD(params[:1], lr=0.1), optim.Adam(params[1:], lr=0.2))
    for _ in range(STEPS):
        train(group, params)
    np.testing.assert_allclose(params[0].numpy(), expected_after(sgd(0.1))[0], rtol=1e-4)
    np.testing.assert_allclose(params[1].numpy(), expected_after(adam(0.2))[1], rtol=1e-4)
    assert len(group) == 2 and len(group.params) == 2 and isinstance(group[1], optim.Adam) and len(group.state()) == len(group[1].state())
    group.lr = 0.25
    assert [part.lr.item() for part in group.optimizers] == [0.25, 0.25] and group.lr.item() == 0.25
    group.zero_grad()
    assert all(p.grad is None for p in params)


def test_a_schedule_of_learning_rates():
    params = parameters()
    optimiser = optim.SGD(params)
    expected = [p.copy() for p in START]
    for rate in (0.1, 0.05, 0.01):
        optimiser.lr.assign(Tensor([rate])) if rate == 0.05 else setattr(optimiser, "lr", rate)
        train(optimiser, params)
        expected = [p - rate * gradient(p, s) for p, s in zip(expected, SCALES)]
    for p, e in zip(params, expected):
        np.testing.assert_allclose(p.numpy(), e, rtol=1e-5)


def test_an_optimiser_of_ones_own():
    class Signs(optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, lr)
            self.count = Tensor.zeros(1).contiguous().realize()

        def _step(self, params, grads):
            return [self.lr * g.sign() for g in grads], [self.count.assign(self.count + 1)]

    params = parameters()
    signs = Signs(params, 0.5)
    for _ in range(3):
        train(signs, params)
    assert signs.count.item() == 3
    expected = [p.copy() for p in START]
    for _ in range(3):
        expected = [p - 0.5 * np.sign(gradient(p, s)) for p, s in zip(expected, SCALES)]
    for p, e in zip(params, expected):
        np.testing.assert_allclose(p.numpy(), e)
    with pytest.raises(NotImplementedError, match=r"an optimizer needs a method _step\(params, grads\)"):
        train(optim.Optimizer(params, 0.1), params)

    class Wrong(optim.Optimizer):
        def _step(self, params, grads):
            return grads[:1], []

    with pytest.raises(Exception, match="_step: 1 changes for 2 parameters"):
        train(Wrong(params, 0.1), params)


def test_gradients_are_added_until_they_are_forgotten():
    params = parameters()
    optimiser = optim.SGD(params, lr=0.1)
    loss(params).backward()
    loss(params).backward()
    optimiser.step()
    for p, start, s in zip(params, START, SCALES):
        np.testing.assert_allclose(p.numpy(), start - 0.2 * gradient(start, s), rtol=1e-5)


@pytest.mark.parametrize("most", [0.5, 1e6])
def test_clip_grad_norm(most):
    params = parameters()
    loss(params).backward()
    grads = [gradient(p, s) for p, s in zip(START, SCALES)]
    whole = np.sqrt(sum((g * g).sum() for g in grads))
    assert optim.clip_grad_norm(params, most).item() == pytest.approx(whole, rel=1e-5)
    for p, g in zip(params, grads):
        np.testing.assert_allclose(p.grad.numpy(), g * min(1, most / whole), rtol=1e-4)


def test_clip_grad_value():
    params = parameters()
    loss(params).backward()
    optim.clip_grad_value(params, 0.75)
    for p, start, s in zip(params, START, SCALES):
        np.testing.assert_allclose(p.grad.numpy(), np.clip(gradient(start, s), -0.75, 0.75), rtol=1e-5)


def test_one_parameter_twice_is_one():
    p = Tensor([1.0, 2.0]).realize()
    optimiser = optim.SGD([p, p], lr=0.1)
    p.square().sum().backward()
    optimiser.step()
    assert len(optimiser.params) == 1
    np.testing.assert_allclose(p.numpy(), [0.8, 1.6], rtol=1e-6)


def test_parameters_that_refuse_are_left_alone():
    p, fixed = Tensor([1.0]).realize(), Tensor([5.0], requires_grad=False).realize()
    optimiser = optim.SGD([p, fixed], lr=0.1)
    (p * fixed).sum().backward()
    optimiser.step()
    assert fixed.tolist() == [5.0] and p.item() == pytest.approx(0.5)


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam, optim.AdamW, optim.LAMB, optim.LARS, optim.Muon])
def test_steps_of_shards(make):
    params, whole = [], parameters()
    for p, axis in zip(parameters(), (1, 0)):
        params.append(p.shard(("CPU:0", "CPU:1", "CPU:2"), axis).realize())
    optimisers = make(params, lr=0.1), make(whole, lr=0.1)
    for _ in range(2):
        for optimiser in optimisers:
            optimiser.zero_grad()
            a, b = ((p * Tensor(s.astype(np.float32)).shard_like(p)).square().sum() for p, s in zip(optimiser.params, SCALES))
            ((a + b) / 2).backward()
            optimiser.step()
    for p, expected in zip(params, whole):
        assert isinstance(p.device, tuple)
        np.testing.assert_allclose(p.numpy(), expected.numpy(), rtol=1e-4)


def test_training_changes_what_dropout_does():
    layer = nn.Linear(4, 4)
    x = Tensor.ones(8, 4)
    assert layer(x).dropout(0.5).tolist() == layer(x).tolist()
    with Context(TRAINING=1):
        dropped = layer(x).dropout(0.5).numpy()
    assert (dropped == 0).any() and not (dropped == 0).all()


class Halving(nn.optim.Optimizer):
    """One of a user's: each parameter is halved and halved."""

    def __init__(self, params):
        super().__init__(params, lr=0.5)
        self.taken = self._new_optim_param()

    def _step(self, params, grads):
        changes = [self.lr * p.detach() for p in params]
        return changes, [taken.assign(taken + change) for taken, change in zip(self.taken, changes)]


@pytest.mark.parametrize("copied", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy])
@pytest.mark.parametrize("make", [
    lambda p: nn.optim.SGD(p, 0.1, momentum=0.9, nesterov=True), lambda p: nn.optim.SGD(p, 0.1), lambda p: nn.optim.Adam(p, 0.1),
    lambda p: nn.optim.AdamW(p, 0.1, weight_decay=0.1), lambda p: nn.optim.LAMB(p, 0.1, adam=True),
    lambda p: nn.optim.LARS(p, 0.1), lambda p: nn.optim.Muon(p[:1], 0.1, ns_steps=3), Halving,
    lambda p: nn.optim.OptimizerGroup(nn.optim.SGD(p[:1], 0.1, momentum=0.9), nn.optim.Adam(p[1:], 0.1)),
])
def test_pickles_and_copies_go_on_where_they_were(make, copied):
    def train(model, optimiser, steps):
        x = Tensor(np.linspace(-1, 1, 12).reshape(4, 3).astype(np.float32))
        with Context(TRAINING=1):
            for _ in range(steps):
                optimiser.zero_grad()
                (model(x).sum(-1) - 1).square().mean().backward()
                optimiser.step()
        return [w.numpy() for w in nn.state.get_parameters(model)]

    model = nn.Linear(3, 2)
    optimiser = make([model.weight, model.bias])
    train(model, optimiser, 2)
    optimiser.lr = 0.05
    other_model, other = copied((model, optimiser))
    assert type(other) is type(optimiser) and other.lr.tolist() == optimiser.lr.tolist()
    assert other.params[0] is other_model.weight
    before = [w.numpy() for w in nn.state.get_parameters(model)]
    after = train(other_model, other, 3)
    for now, kept in zip(nn.state.get_parameters(model), before):
        np.testing.assert_array_equal(now.numpy(), kept)
    for ours, theirs in zip(after, train(model, optimiser, 3)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)

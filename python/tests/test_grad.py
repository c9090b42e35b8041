"""Gradients, assignment, settings and counters."""

import copy
import pickle

import numpy as np
import pytest

from quern import Context, GlobalCounters, Tensor, TinyJit, helpers, nn


def test_backward():
    x = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    w = Tensor([[0.5], [-1.0]], requires_grad=True)
    assert x.grad is None
    loss = (x @ w).relu().sum() + (x**2).mean()
    assert loss.backward() is loss
    np.testing.assert_allclose(x.grad.numpy(), x.numpy() / 2, rtol=1e-6)
    assert w.grad.shape == (2, 1)
    (x * 2).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), x.numpy() / 2 + 2, rtol=1e-6)
    x.grad = None
    assert x.grad is None


def test_gradient():
    x, y = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    gx, gy = (x * y).sum().gradient(x, y)
    assert gx.tolist() == [3, 4] and gy.tolist() == [1, 2]
    (g,) = (x * x).gradient(x, gradient=Tensor([1.0, 10.0]))
    assert g.tolist() == [2, 40]


def test_requires_grad():
    assert Tensor([1.0]).requires_grad is None
    x = Tensor([1.0], requires_grad=False)
    assert x.requires_grad is False
    x.requires_grad = True
    assert x.requires_grad is True
    x.requires_grad = None
    assert x.requires_grad is None
    assert Tensor.zeros(2, requires_grad=True).requires_grad is True
    assert x.requires_grad_() is x


def test_assign():
    x = Tensor([1.0, 2.0]).realize()
    assert x.assign([3, 4]) is x
    assert x.tolist() == [3, 4]
    x.assign(x + 1)
    assert x.tolist() == [4, 5]
    y = x.clone()
    x.assign(0)
    assert y.tolist() == [4, 5] and x.tolist() == [0, 0]
    assert x.replace(Tensor([7.0, 8.0])) is x and x.tolist() == [7, 8]
    assert x.realize() is x


def test_training():
    assert Tensor.training is False
    with Tensor.train():
        assert Tensor.training is True
        with Tensor.train(False):
            assert Tensor.training is False
        zeros = (Tensor.ones(1000).dropout(0.3) == 0).sum().item()
        assert 200 < zeros < 400
    assert Tensor.training is False
    assert (Tensor.ones(100).dropout(0.3) == 1).all().item()

    @Tensor.train()
    def inside():
        return Tensor.training

    assert inside() is True and Tensor.training is False
    Tensor.training = True
    assert Tensor.training is True


def test_context_and_counters():
    before = helpers.DEBUG.value
    with Context(DEBUG=0, NOOPT=1):
        assert helpers.NOOPT.value == 1
        with Context(NOOPT=0):
            assert not helpers.NOOPT
        assert helpers.NOOPT
    assert helpers.DEBUG.value == before and helpers.NOOPT.value == 0
    with pytest.raises(Exception):
        with Context(NOOPT=1, NO_SUCH_VARIABLE=1):
            pass
    assert helpers.NOOPT.value == 0
    with Context(WINO=1, PROFILE=0, DEBUG=0):  # of tinygrad's, which mean nothing here
        assert helpers.DEBUG.value == 0
    GlobalCounters.reset()
    kept = (Tensor.rand(10).realize() + 1).realize()
    assert kept.shape == (10,)
    assert GlobalCounters.kernel_count >= 2
    assert GlobalCounters.global_ops > 0 and GlobalCounters.global_mem > 0 and GlobalCounters.mem_used > 0


def test_contexts_that_end_in_another_order():
    for name in ("DEBUG", "TRAINING"):
        original, contexts = getattr(helpers, name).value, [Context(**{name: value}) for value in (1, 0, 1)]
        for context in contexts:
            context.__enter__()
        for i, then in ((0, 1), (2, 0), (1, original)):
            contexts[i].__exit__()
            assert getattr(helpers, name).value == then


def test_the_end_of_a_block_that_was_not_begun():
    for context in (Context(DEBUG=0), Tensor.train()):
        with context:
            pass
        with pytest.raises(RuntimeError, match="the end of a block that was not begun"):
            context.__exit__()


def test_schedule():
    schedule = (Tensor([1.0, 2.0]) @ Tensor([3.0, 4.0]) + 1).schedule()
    assert len(schedule) == 1 and schedule[0].kind == "kernel" and schedule.kernels == list(schedule) and schedule.copies == []
    assert str(schedule).startswith("kernel") and schedule[0].name in str(schedule) and schedule[0].buffers == 3


@pytest.mark.parametrize("function", ["relu", "silu", "sigmoid", "tanh", "gelu"])
def test_a_maximum_is_found_again(function):
    """The gradient of a maximum goes to values that are computed again, in other kernels than that of the maximum."""
    def steps(dtype):
        random = np.random.default_rng(0)
        made = lambda *shape: Tensor(random.normal(size=shape), dtype=dtype).realize()  # noqa: E731
        x, up, norm = made(64, 64, 8, 8), made(64, 64, 3, 3), nn.BatchNorm(64)
        weights = kernel, bias, norm.weight, norm.bias = made(64, 64, 3, 3), made(64), made(64), made(64)
        before = [weight.numpy() for weight in weights]
        y = norm(getattr(x.conv2d(kernel / 24, bias), function)())
        loss = (y.max_pool2d() * up).sum().backward()
        loss.realize(*nn.optim.SGD(weights, lr=1.0).schedule_step())
        return [old - weight.numpy() for old, weight in zip(before, weights)]

    with Context(TRAINING=1):
        narrow = steps("float32")
        with Context(DEFAULT_FLOAT="float64"):
            wide = steps("float64")
    for got, want in zip(narrow, wide):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-4 * abs(want).max())


@pytest.mark.parametrize("read", [
    Tensor.numpy, Tensor.tolist, Tensor.data, Tensor.tobytes, np.asarray, np.from_dlpack, pickle.dumps, copy.deepcopy, repr,
    lambda y: [part.item() for part in y],
])
@pytest.mark.parametrize("said", [True, None])
def test_reading_does_not_cut_off(read, said):
    x = Tensor([1.0, 2.0], requires_grad=said)
    y = x * 2
    read(y)
    read(x * 2)
    (y + x).sum().backward()
    assert x.grad.tolist() == [3, 3] and y.tolist() == [2, 4]


def test_reading_what_was_written_does_not_cut_off():
    x = Tensor([1.0, 2, 3])
    y = x.clone()
    y[0] = 0
    v = y[1:]
    loss = (y * y).sum()
    assert loss.item() == 13 and y.tolist() == [0, 2, 3] and v.tolist() == [2, 3] and (y > 2).tolist() == [False, False, True]
    assert loss.gradient(x)[0].tolist() == [0, 4, 6]
    y[1] = 5  # the loss was computed before
    assert y.tolist() == [0, 5, 3] and loss.gradient(x, y.detach())[0].tolist() == [0, 4, 6]


def test_reading_does_not_end_what_is_contiguous():
    x = Tensor([1.0, 2, 3])
    y = (x * 2).contiguous()
    loss = (y * y).sum()
    assert loss.item() == 56 and (y > 2).any().item()
    assert loss.gradient(x)[0].tolist() == [8, 16, 24]


def test_reading_in_a_loop_of_writes():
    w, x = Tensor([2.0, 3.0]), Tensor.zeros(2)
    for i in range(5):
        x += w * i
        assert x.tolist() == [2 * sum(range(i + 1)), 3 * sum(range(i + 1))]
    assert x.sum().gradient(w)[0].tolist() == [10, 10]


def test_reading_ends_no_loop():
    """What nobody can ask a gradient for ends, so that each reading computes one step."""
    x = Tensor([1.0, 2.0])
    for _ in range(50):
        x = x * 0.5
        x.tolist()
    assert len(x.uop.toposort()) < 20


def test_what_was_realized_has_lost_its_graph():
    x = Tensor([1.0, 2, 3])
    y = (x * 2).realize()
    loss = (y * y).sum()
    for target in (x, x * 1):
        with pytest.raises(RuntimeError, match="gradient: how the loss depends on target 0.*has been realized"):
            loss.gradient(target)
    assert loss.gradient(y)[0].tolist() == [4, 8, 12]
    assert loss.gradient(Tensor([1.0, 2.0]))[0].tolist() == [0, 0]  # on this one it does not depend
    with pytest.raises(RuntimeError, match="gradient: how the loss depends on target 1"):
        loss.realize().gradient(loss, x)


def test_a_part_of_the_graph_that_was_realized():
    x = Tensor([1.0, 2, 3])
    y = (x * x).realize()
    with pytest.raises(RuntimeError, match="gradient: how the loss depends on target 0.*detach"):
        (x + y).sum().gradient(x)
    assert (x + y.detach()).sum().gradient(x)[0].tolist() == [1, 1, 1]
    x.assign([5.0, 6, 7]).realize()  # y was computed of other values
    assert (x + y).sum().gradient(x)[0].tolist() == [1, 1, 1]
    z = (x * 3).realize()
    assert (y * z).sum().gradient(z)[0].tolist() == [1, 4, 9]


def test_what_was_copied_of_what_was_realized():
    x = Tensor([1.0, 2, 3])
    y = (x * 2).realize()
    z = y.clone()
    del y
    loss = z.sum()
    assert loss.item() == 12
    with pytest.raises(RuntimeError, match="gradient: how the loss depends on target 0"):
        loss.gradient(x)


@pytest.mark.parametrize("said", [True, None])
def test_backward_of_a_loss_that_was_realized(said):
    x = Tensor([1.0, 2, 3], requires_grad=said)
    loss = (x * x).sum()
    loss.realize()
    with pytest.raises(RuntimeError, match="backward: the loss was computed of what has been realized"):
        loss.backward()
    assert x.grad is None and loss.grad is None and loss.item() == 14


def test_results_of_a_jit_have_no_graph():
    x = Tensor([1.0, 2, 3]).realize()
    double = TinyJit(lambda x: (x * 2).realize())
    for _ in range(4):
        y = double(x)
        with pytest.raises(RuntimeError, match="gradient: how the loss depends on target 0"):
            y.sum().gradient(x)


def test_steps_that_are_written_by_hand_need_no_realize():
    x, p = Tensor([1.0, 2.0]), Tensor([3.0, 4.0], requires_grad=True)
    for step in range(4):
        loss = (p * x).square().sum().backward()
        loss.item()
        p.assign(p - p.grad * 0.1)
        p.grad = None
    factors = np.array([1 - 0.2, 1 - 0.8]) ** 4
    np.testing.assert_allclose(p.numpy(), np.array([3.0, 4.0]) * factors, rtol=1e-5)
    assert (p * x).sum().gradient(Tensor([0.0]))[0].tolist() == [0]


def test_clone():
    x = Tensor([1.0, 2, 3], requires_grad=True)
    (x * x).sum().backward()
    y, z = x.clone(), x.detach().clone()
    assert y.requires_grad is True and y.grad.tolist() == [2, 4, 6] and z.requires_grad is None and z.grad is None
    y.grad += 1
    assert x.grad.tolist() == [2, 4, 6]
    assert (y * y).sum().gradient(x)[0].tolist() == [2, 4, 6]
    assert Tensor([1.0], requires_grad=False).clone().requires_grad is False


def gradient_at(f, points):
    x = Tensor(points)
    return f(x).sum().gradient(x)[0].numpy()


@pytest.mark.parametrize("f, points, expected", [
    (lambda x: x.clip(-1, 2), [-2.0, -1, 0, 2, 3], [0, 1, 1, 1, 0]),
    (lambda x: x.clamp(-1), [-2.0, -1, 0], [0, 1, 1]),
    (lambda x: x.clamp(max_=2), [0.0, 2, 3], [1, 1, 0]),
    (lambda x: x.hardtanh(), [-2.0, -1, 0, 1, 2], [0, 1, 1, 1, 0]),
    (lambda x: x.relu6(), [-1.0, 0, 1, 6, 7], [0, 0, 1, 1, 0]),
    (lambda x: x.hardswish(), [-3.0, 3], [0, 1.5]),
    (lambda x: x.hardsigmoid(), [-3.0, 0, 3], [0, 1 / 6, 1 / 6]),
    (lambda x: x.maximum(1), [0.0, 1, 2], [0, 0.5, 1]),
])
def test_gradients_at_bounds(f, points, expected):
    np.testing.assert_allclose(gradient_at(f, points), expected, rtol=1e-6)


def test_nan_goes_through_bounds():
    x = Tensor([float("nan"), 1.0])
    for y in (x.clip(0, 2), x.relu6(), x.hardtanh(), x.hardswish(), x.hardsigmoid()):
        assert np.isnan(y.numpy()[0]) and np.isfinite(y.numpy()[1])
    assert np.isnan(Tensor([1.0]).clip(Tensor([float("nan")]), 2).numpy()).all()


@pytest.mark.parametrize("f, points, expected", [
    (lambda x: x.std(), [2.0, 2, 2], [0, 0, 0]),
    (lambda x: x.reshape(1, 2).normalize() * 1e-12, [0.0, 0], [1, 1]),
    (lambda x: x.reshape(1, 2).normalize(p=3) * 1e-12, [0.0, 0], [1, 1]),
    (lambda x: x.silu(), [-3e38, 3e38], [0, 1]),
    (lambda x: x.mish(), [-3e38, 3e38, 99, 101], [0, 1, 1, 1]),
    (lambda x: x.erf(), [-np.inf, np.inf, 3e38], [0, 0, 0]),
])
def test_gradients_where_nothing_varies(f, points, expected):
    np.testing.assert_allclose(gradient_at(f, points), expected, rtol=1e-6)


def test_a_mask_of_which_one_bool_is_known():
    """LLVM vectorises the loop of this kernel, and its masks are comparisons of which one bool is a constant."""
    at = Tensor(np.array([0.125, -0.25, 0.5, 0.75]))
    weights = np.arange(1.0, 7).reshape(3, 2)
    windows = at.unfold(0, 2, 1)
    share = Tensor(weights).shrink(((0, 3), (0, 1))) / Tensor(np.ones((3, 1))).realize()
    same = windows.shrink(((0, 3), (0, 1))).eq(Tensor(np.array([[0.125], [-0.25], [0.5]])).realize())
    first = Tensor.ones(3, 1).cast("bool").pad(((0, 0), (0, 1)))
    factors = same.where(share, 0).pad(((0, 0), (0, 1))) + first.where(0, Tensor(weights).realize())
    (gradient,) = (windows * factors.detach()).sum().gradient(at)
    np.testing.assert_array_equal(gradient.numpy(), [1, 5, 9, 6])


@pytest.mark.parametrize("read", [True, False])
def test_what_is_overwritten_has_no_part_in_it(read):
    """Reading another loss ends the graph of x: a value that was overwritten before is not what x was computed of."""
    a = Tensor([1.0, 2.0])
    x, y = a.clone(), Tensor.empty(2).assign(Tensor([3.0, 4.0]))
    x.assign(y - 1)
    losses = [(x * x).sum(), (y * y).sum()]
    if read:
        assert x.tolist() == [2, 3] and [loss.item() for loss in losses] == [13, 25]
    assert losses[0].gradient(a)[0].tolist() == [0, 0]

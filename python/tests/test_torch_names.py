"""What scripts for PyTorch call on tensors: writes in place, facts, blocks without gradients, gradients of functions."""

import inspect

import numpy as np
import pytest

import quern
from quern import DTypeError, Error, ShapeError, Tensor, TinyJit, dtypes, grad, nn, no_grad, value_and_grad

IN_PLACE = [
    ("add_", lambda x, y: x.add_(y), lambda x, y: x + y), ("add_", lambda x, y: x.add_(y, alpha=-2), lambda x, y: x - 2 * y),
    ("add_", lambda x, y: x.add_(1.5, alpha=2), lambda x, y: x + 3), ("sub_", lambda x, y: x.sub_(y, alpha=3), lambda x, y: x - 3 * y),
    ("sub_", lambda x, y: x.sub_(1), lambda x, y: x - 1), ("mul_", lambda x, y: x.mul_(y), lambda x, y: x * y),
    ("div_", lambda x, y: x.div_(y), lambda x, y: x / y), ("zero_", lambda x, y: x.zero_(), lambda x, y: x * 0),
    ("fill_", lambda x, y: x.fill_(2.5), lambda x, y: x * 0 + 2.5), ("copy_", lambda x, y: x.copy_(y[0]), lambda x, y: x * 0 + y[0]),
    ("clamp_", lambda x, y: x.clamp_(-0.5, 0.5), lambda x, y: x.clip(-0.5, 0.5)),
    ("clamp_", lambda x, y: x.clamp_(min=0), lambda x, y: x.clip(0, None)), ("clip_", lambda x, y: x.clip_(max=0), lambda x, y: x.clip(None, 0)),
    ("lerp_", lambda x, y: x.lerp_(y, 0.25), lambda x, y: x + (y - x) / 4),
    ("addcmul_", lambda x, y: x.addcmul_(y, y, value=0.5), lambda x, y: x + y * y / 2),
    ("addcdiv_", lambda x, y: x.addcdiv_(x, y, value=-1), lambda x, y: x - x / y),
    ("masked_fill_", lambda x, y: x.masked_fill_(x > 0, -1), lambda x, y: np.where(x > 0, -1, x)),
]


@pytest.mark.parametrize("name, write, expected", IN_PLACE, ids=[n for n, _, _ in IN_PLACE])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_in_place(name, write, expected, dtype, device):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 4)).astype(dtype), rng.uniform(0.5, 2, (3, 4)).astype(dtype)
    x, y = Tensor(a, device=device), Tensor(b, device=device)
    row = x[1]  # a view sees it
    assert write(x, y) is x and x.dtype.name == dtype
    np.testing.assert_allclose(x.numpy(), expected(a, b), rtol=1e-5)
    np.testing.assert_allclose(row.numpy(), expected(a, b)[1], rtol=1e-5)
    computed = Tensor(a, device=device) * 2  # what has no memory yet
    write(computed, y)
    np.testing.assert_allclose(computed.numpy(), expected(a * 2, b), rtol=1e-5)


def test_in_place_keeps_the_dtype():
    x = Tensor([1, 2])
    for call in (lambda: x.add_(0.5), lambda: x.div_(2), lambda: x.mul_(Tensor([1.5, 1.0]))):
        with pytest.raises(DTypeError, match="cast it"):
            call()
    assert x.tolist() == [1, 2]
    assert Tensor([1.0], dtype="float16").add_(Tensor([0.5])).dtype == dtypes.half
    with pytest.raises(ShapeError, match="fill_"):
        x.fill_(Tensor([1, 2]))
    with pytest.raises(ValueError, match="clamp_"):
        x.clamp_()
    assert Tensor([1.7, -1.7]).copy_(Tensor([True, False])).tolist() == [1, 0]


def test_random_in_place(device):
    x = Tensor.zeros(2000, device=device).contiguous()
    assert x.normal_(3, 0.5) is x and abs(x.mean().item() - 3) < 0.1 and abs(x.std().item() - 0.5) < 0.1
    assert x.uniform_(-1, 2) is x and -1 <= x.min().item() < -0.9 and 1.9 < x.max().item() < 2


def test_facts(device):
    x = Tensor([[1, 2, 3]], dtype="int16", device=device)
    assert (x.dim(), x.nelement(), x.numel(), x.size(1), x.size()) == (2, 3, 3, 3, (1, 3))
    assert x.cpu().device == "CPU" and x.type_as(Tensor([1.0])).dtype == dtypes.float32
    assert x.equal(Tensor([[1, 2, 3]])) and not x.equal(Tensor([1, 2, 3])) and not x.equal(x + 1)
    for made, value in ((x.new_zeros(2, 2), 0), (x.new_ones((2, 2)), 1), (x.new_full((2, 2), 7), 7)):
        assert (made.tolist(), made.dtype.name, made.device) == ([[value] * 2] * 2, "int16", device)
    assert x.new_empty(4).shape == (4,) and x.new_empty(4).dtype == x.dtype and x.new_tensor([5]).dtype == x.dtype
    assert x.new_zeros(2, dtype="float32").dtype == dtypes.float32


def test_an_axis_out_of_range_is_an_index_error():
    x = Tensor([[1.0, 2.0]])
    for call in (lambda: x.sum(5), lambda: x.size(2), lambda: x.transpose(0, 9), lambda: x.unbind(-3), lambda: x.movedim(0, 2)):
        with pytest.raises(IndexError) as raised:
            call()
        assert isinstance(raised.value, ShapeError) and isinstance(raised.value, quern.AxisError)
    for call in (lambda: x.narrow(1, 1, 2), lambda: x.narrow(1, -3, 1), lambda: x.select(1, 2)):
        with pytest.raises(IndexError):
            call()


def test_results_by_name():
    x = Tensor([[3.0, 1.0, 2.0]])
    assert x.sort().values.tolist() == [[1, 2, 3]] and x.sort().indices.tolist() == [[1, 2, 0]]
    assert x.topk(1).values.item() == 3 and x.cummax(1).indices.tolist() == [[0, 0, 0]] and x.median(1).values.item() == 2
    assert x.aminmax().min.item() == 1 and x.aminmax().max.item() == 3
    jitted = TinyJit(lambda t: (t + 1).sort())
    for n in range(4):
        assert jitted((x + n).realize()).values.tolist() == [[2 + n, 3 + n, 4 + n]]


# ---- no_grad


def test_no_grad():
    w = Tensor([2.0, 3.0], requires_grad=True)
    with no_grad():
        assert not quern.is_grad_enabled()
        inside = w * w
        view = w[:1]
    assert quern.is_grad_enabled()
    (inside * w + view.sum()).sum().backward()
    assert w.grad.tolist() == [4, 9]
    w.assign(Tensor([5.0, 6.0]))
    assert view.tolist() == [5] and inside.tolist() == [4, 9]


def test_no_grad_decorates():
    w = Tensor([2.0], requires_grad=True)

    @no_grad
    def plain(x):
        return x * w

    @no_grad()
    def called(x):
        return x * w

    (plain(w) * w + called(w) * w).sum().backward()
    assert w.grad.tolist() == [8]
    assert plain.__name__ == "plain"


def test_training_by_hand():
    Tensor.manual_seed(1)
    x, y = Tensor([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]]), Tensor([[5.0], [1.0], [1.5]])
    w = Tensor.zeros(2, 1, requires_grad=True)
    moved = Tensor.zeros(2, 1)
    for _ in range(200):
        (x @ w).mse_loss(y).backward()
        with no_grad():
            w -= 0.1 * w.grad
            moved.mul_(0.9).add_(w, alpha=0.1)
            w.grad = None
    np.testing.assert_allclose(w.numpy(), [[1], [2]], atol=1e-3)
    np.testing.assert_allclose(moved.numpy(), [[1], [2]], atol=1e-2)
    assert w.requires_grad


def test_no_grad_nests_and_ends_with_errors():
    w = Tensor([2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="stop"), no_grad(), no_grad():
        raise RuntimeError("stop")
    assert quern.is_grad_enabled()
    with no_grad():
        with no_grad():
            a = w * 2
        b = w * 3
        assert not quern.is_grad_enabled()
    made = None
    with no_grad():
        made = Tensor([4.0], requires_grad=True)
    (a * w + b * w + made * made).sum().backward()
    assert w.grad.tolist() == [10] and made.grad.tolist() == [8]


@pytest.mark.parametrize("outside", [False, True])
def test_no_grad_and_jit(outside):
    w = Tensor([2.0, 3.0])

    def forward(x):
        return (x * w).realize()

    jitted = TinyJit(forward) if outside else TinyJit(no_grad(forward))
    for n in range(5):
        x = Tensor([1.0 * n, 2.0]).realize()
        if outside:
            with no_grad():
                assert jitted(x).tolist() == [2 * n, 6]
        else:
            assert jitted(x).tolist() == [2 * n, 6]


# ---- gradients of functions


def test_value_and_grad():
    x, y = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    value, gradient = value_and_grad(lambda a, b: (a * a * b).sum())(x, y)
    assert value.item() == 19 and gradient.tolist() == [6, 16]
    _, (by_x, by_y) = value_and_grad(lambda a, b: (a * a * b).sum(), argnums=(0, 1))(x, y)
    assert by_x.tolist() == [6, 16] and by_y.tolist() == [1, 4]
    assert grad(lambda a, b: (a * b).sum(), argnums=-1)(x, y).tolist() == [1, 2]
    assert grad(lambda a, b: (a * b).sum())(x, x).tolist() == [1, 2]  # by the first argument only
    (value, other), gradient = value_and_grad(lambda a: ((a * a).sum(), a + 1), has_aux=True)(x)
    assert value.item() == 5 and other.tolist() == [2, 3] and gradient.tolist() == [2, 4]


def test_gradients_have_the_structure_of_the_argument():
    x = Tensor([1.0, 2.0])
    parameters = {"w": Tensor([3.0, 4.0]), "b": [Tensor([1.0]), 5], "n": Tensor([1, 2])}
    gradients = grad(lambda p: (p["w"] * x + p["b"][0] * 2).sum())(parameters)
    assert gradients["w"].tolist() == [1, 2] and gradients["b"][0].tolist() == [4] and gradients["b"][1] is None and gradients["n"] is None
    layer = nn.Linear(2, 1)
    _, gradients = value_and_grad(lambda model: model(x).sum())(layer)
    assert gradients["weight"].tolist() == [[1, 2]] and gradients["bias"].tolist() == [1]


@pytest.mark.parametrize("error, text, call", [
    (TypeError, "expected a function, got 5", lambda x: value_and_grad(5)),
    (ShapeError, r"shape \(2,\), expected one number", lambda x: grad(lambda a: a)(x)),
    (TypeError, "returned 3, expected a Tensor", lambda x: grad(lambda a: 3)(x)),
    (ValueError, "argnums has 1, there are 1 arguments", lambda x: grad(lambda a: a.sum(), 1)(x)),
    (Error, "no tensors of floats", lambda x: grad(lambda a: x.sum())(3)),
    (TypeError, "returns", lambda x: grad(lambda a: a.sum(), has_aux=True)(x))])
def test_value_and_grad_refuses(error, text, call):
    with pytest.raises(error, match=text):
        call(Tensor([1.0, 2.0]))


# ---- what there is not, and how functions are called


@pytest.mark.parametrize("name", ["vmap", "jvp", "fft"])
def test_not_yet(name):
    with pytest.raises(AttributeError, match=f"no {name} yet"):
        getattr(quern, name)
    with pytest.raises(AttributeError, match="no dtype complex64 yet"):
        dtypes.complex64


def test_every_method_has_a_signature():
    x = Tensor([1.0])
    for name in dir(Tensor):
        if not name.startswith("_") and callable(getattr(Tensor, name)):
            inspect.signature(getattr(Tensor, name))
            inspect.signature(getattr(x, name))
    assert str(inspect.signature(Tensor.argmax)).startswith("(self, axis: 'int | None' = None, keepdim: 'bool' = False)")
    assert list(inspect.signature(x.sum).parameters) == ["axis", "keepdim", "dtype"]
    assert str(inspect.signature(x.reshape)) == "(*shape)" and "reverse" in inspect.signature(Tensor.add).parameters
    assert list(inspect.signature(Tensor.full).parameters)[:2] == ["shape", "fill_value"]

"""Gradients beyond those of the tables: second ones, those of steps, and those in narrow types."""

import numpy as np
import pytest

import test_ops_linalg
import test_ops_nn
import test_ops_reduce
import test_ops_unary
from quern import Tensor

from reference import FLOATS, RTOL, compare, differences, normal, positive, several, tensor

SECOND = [  # a function, and its second derivative
    ("exp", lambda x: x.exp(), np.exp),
    ("log", lambda x: x.log(), lambda x: -1 / x**2),
    ("sin", lambda x: x.sin(), lambda x: -np.sin(x)),
    ("cos", lambda x: x.cos(), lambda x: -np.cos(x)),
    ("sqrt", lambda x: x.sqrt(), lambda x: -0.25 * x**-1.5),
    ("pow", lambda x: x**3, lambda x: 6 * x),
    ("pow", lambda x: x**2.5, lambda x: 3.75 * x**0.5),
    ("mul", lambda x: x * x * x, lambda x: 6 * x),
    ("reciprocal", lambda x: x.reciprocal(), lambda x: 2 / x**3),
    ("tanh", lambda x: x.tanh(), lambda x: -2 * np.tanh(x) / np.cosh(x) ** 2),
    ("sigmoid", lambda x: x.sigmoid(), lambda x: np.exp(-x) * (np.exp(-x) - 1) / (1 + np.exp(-x)) ** 3),
    ("softplus", lambda x: x.softplus(), lambda x: np.exp(-x) / (1 + np.exp(-x)) ** 2),
    ("relu", lambda x: x.relu() * x, lambda x: np.full_like(x, 2)),
]


@pytest.mark.parametrize("name, function, expected", SECOND, ids=[s[0] for s in SECOND])
def test_second_derivative(name, function, expected, device):
    array = positive(3, 5).make("float64", 0)
    x = Tensor(array, device=device)
    (first,) = function(x).sum().gradient(x)
    (second,) = first.sum().gradient(x)
    compare(second, expected(array), "float64", loose=10)  # two chains of products


def test_second_derivative_of_a_form(device):
    """x' A x has the Hessian A + A'."""
    a = normal(4, 4).make("float64", 0)
    x = Tensor(normal(4).make("float64", 1), device=device)
    (first,) = (x @ Tensor(a, device=device) @ x).gradient(x)
    rows = [first[i].gradient(x)[0] for i in range(4)]
    compare(Tensor.stack(*rows), a + a.T, "float64")


@pytest.mark.parametrize("name", ["floor", "ceil", "round", "trunc", "sign"])
def test_steps_are_flat(name, device):
    x = Tensor(normal(3, 5).make("float64", 0), device=device)
    y = getattr(x, name)()
    assert (y * 2 + x).sum().gradient(x)[0].tolist() == [[1.0] * 5] * 3


def test_copysign(device):
    x, y = normal(3, 5).make("float64", 0), normal(3, 5).make("float64", 1)
    a, b = Tensor(x, device=device), Tensor(y, device=device)
    compare((a.copysign(b) + b).sum().gradient(a, b), [np.sign(x) * np.sign(y), np.ones_like(y)], "float64")


NARROW = [next(e for e in module.TABLE if e.name == name) for module, names in [
    (test_ops_unary, "exp sqrt gelu"), (test_ops_reduce, "sum mean softmax logsumexp cumsum"), (test_ops_linalg, "matmul"),
    (test_ops_nn, "layernorm cross_entropy scaled_dot_product_attention")] for name in names.split()]


@pytest.mark.parametrize("entry", NARROW, ids=[e.name for e in NARROW])
@pytest.mark.parametrize("dtype", FLOATS.split()[:3])
def test_narrow_types(entry, dtype, device):
    """The gradient has the type of what it belongs to, and is as precise, but for rounding of what is between."""
    arrays = [i.make(dtype, n) for n, i in enumerate(entry.inputs)]
    inputs = [tensor(a, i.dtype or dtype, device) for a, i in zip(arrays, entry.inputs)]
    wide = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays]
    weights = [np.ones(np.shape(r)) for r in several(entry.arrays(*wide))]
    (gradient,) = (entry.tensors(*inputs) * 3).sum().gradient(inputs[0])
    assert gradient.dtype == inputs[0].dtype and gradient.device == device
    values = gradient.numpy()
    for at, expected in differences(entry.arrays, wide, weights, 0):
        np.testing.assert_allclose(values[at], 3 * expected, rtol=4 * RTOL[dtype], atol=4 * RTOL[dtype])


def test_gradient_through_a_cast(device):
    x = Tensor([1.5, -2.0], dtype="float16", device=device)
    (gradient,) = (x.float() * Tensor([3.0, 5.0], device=device)).sum().gradient(x)
    assert gradient.dtype == x.dtype and gradient.tolist() == [3, 5]


def test_values_used_twice(device):
    x = Tensor([2.0, 3.0], device=device, requires_grad=True)
    y = x * x
    (y + y * x + x[0]).sum().backward()
    assert x.grad.tolist() == [2 * 2 + 3 * 4 + 2, 2 * 3 + 3 * 9]


def test_gradient_by_what_it_does_not_depend_on(device):
    x, other = Tensor([1.0], device=device), Tensor([[1.0, 2.0]], device=device)
    grads = (x * 3).sum().gradient(other, x)
    assert [g.tolist() for g in grads] == [[[0, 0]], [3]] and grads[0].dtype == other.dtype

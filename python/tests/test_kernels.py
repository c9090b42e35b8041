"""Kernels that a user writes in Python, and their gradients."""

import re

import numpy as np
import pytest

import quern
from quern import Tensor, TinyJit, dtypes
from quern.uop import Ops, UOp


def at(memory, *place):
    return UOp(Ops.INDEX, memory.dtype, (memory, *place))


def load(memory, place):
    return UOp(Ops.LOAD, dtypes.float32, (at(memory, place),))


def store(memory, place, value, *ranges):
    return UOp(Ops.END, None, (UOp(Ops.STORE, None, (at(memory, place), value)), *ranges))


def each(count, compute):
    """A kernel: out[i] = compute(the elements i of the others)."""

    def body(out, *others):
        i = UOp.range(count, 0)
        return UOp.sink(store(out, i, compute(*(load(o, i) for o in others)), i))

    return body


def double(x, **kwargs):
    return Tensor.empty(*x.shape).custom_kernel(x, fxn=each(x.numel(), lambda v: v * 2.0), **kwargs)[0]


def test_elements():
    x, y = Tensor([1.0, 2.0, 3.0]), Tensor([4.0, 5.0, 6.0])
    assert double(x).tolist() == [2, 4, 6]
    assert Tensor.empty(3).custom_kernel(x, y, fxn=each(3, lambda a, b: a * b + 1.0))[0].tolist() == [5, 11, 19]
    assert Tensor.empty(3).custom_kernel(x, fxn=each(3, lambda a: (a < 2.5).where(a, a * 10)))[0].tolist() == [1, 2, 30]


def test_it_is_part_of_a_graph():
    x = Tensor([1.0, 2.0, 3.0])
    assert (double(x + 1) * 10).sum().item() == 180
    assert double(double(x)).tolist() == [4, 8, 12]
    assert double(Tensor.arange(6).float().reshape(2, 3).permute(1, 0).contiguous()).tolist() == [[0, 6], [2, 8], [4, 10]]


def test_two_results():
    def body(least, most, x, y):
        i = UOp.range(4, 0)
        a, b = load(x, i), load(y, i)
        stores = (UOp(Ops.STORE, None, (at(least, i), a.minimum(b))), UOp(Ops.STORE, None, (at(most, i), a.maximum(b))))
        return UOp.sink(UOp(Ops.END, None, (UOp(Ops.GROUP, None, stores), i)))

    x, y = np.array([1, 5, 2, 7], np.float32), np.array([4, 3, 2, 9], np.float32)
    least, most, *rest = Tensor.empty(4).custom_kernel(Tensor.empty(4), Tensor(x), Tensor(y), fxn=body)
    np.testing.assert_array_equal(least.numpy(), np.minimum(x, y))
    np.testing.assert_array_equal(most.numpy(), np.maximum(x, y))
    assert len(rest) == 2


def test_a_sum():
    def body(out, x):
        i, k = UOp.range(2, 0), UOp.range(3, 1, "REDUCE")
        total = UOp(Ops.REDUCE, dtypes.float32, (load(x, i * 3 + k), k), arg=(Ops.ADD, ()))
        return UOp.sink(store(out, i, total, i))

    assert Tensor.empty(2).custom_kernel(Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), fxn=body)[0].tolist() == [6, 15]


@pytest.mark.parametrize("device", ["CPU", "INTERP", "LINEAR"])
def test_devices(device):
    x = Tensor([1.0, 2.0], device=device)
    assert Tensor.empty(2, device=device).custom_kernel(x, fxn=each(2, lambda v: v * v))[0].tolist() == [1, 4]


def test_in_a_jit():
    jitted = TinyJit(lambda x: double(x).realize())
    for i in range(5):
        assert jitted(Tensor([1.0 + i, 2.0]).realize()).tolist() == [2.0 + 2 * i, 4.0]
    assert jitted.captured


def test_memory_is_never_left():
    def behind(out, x):
        i = UOp.range(4, 0)
        return UOp.sink(store(out, i, load(x, i + 1), i))

    with pytest.raises(quern.IndexError, match="4"):
        Tensor.empty(4).custom_kernel(Tensor.ones(4), fxn=behind)

    def from_memory(out, x, places):
        i = UOp.range(3, 0)
        place = UOp(Ops.LOAD, dtypes.int32, (at(places, i),)).cast(dtypes.index)
        return UOp.sink(store(out, i, load(x, place), i))

    out = Tensor.empty(3).custom_kernel(Tensor([5.0, 6.0]), Tensor([1, 9, -4]), fxn=from_memory)[0]
    assert out.tolist() == [6, 0, 0]


def test_gradient():
    calls = []

    def backward(grads, arguments):
        calls.append((len(grads), [a.shape for a in arguments]))
        return [None, grads[0] * 2]

    x = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    (double(x * 5, grad_fxn=backward) * Tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [10, 100, 1000]
    assert calls == [(2, [(3,), (3,)])]
    (g,) = double(x, grad_fxn=backward).sum().gradient(x)
    assert g.tolist() == [2, 2, 2]


def test_gradient_of_two_arguments():
    def backward(grads, arguments):
        _, x, y = arguments
        return [None, grads[0] * y, grads[0] * x]

    x, y = Tensor([1.0, 2.0], requires_grad=True), Tensor([3.0, 4.0], requires_grad=True)
    product = Tensor.empty(2).custom_kernel(x, y, fxn=each(2, lambda a, b: a * b), grad_fxn=backward)[0]
    (product * product).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.numpy() * y.numpy() ** 2)
    np.testing.assert_allclose(y.grad.numpy(), 2 * y.numpy() * x.numpy() ** 2)


def test_gradient_that_is_a_kernel_too():
    def square(x):
        def backward(grads, arguments):
            return [None, Tensor.empty(2).custom_kernel(grads[0].contiguous(), arguments[1], fxn=each(2, lambda g, v: g * v * 2.0))[0]]

        return Tensor.empty(2).custom_kernel(x, fxn=each(2, lambda v: v * v), grad_fxn=backward)[0]

    x = Tensor([3.0, -4.0], requires_grad=True)
    (square(x) * Tensor([1.0, 0.5])).sum().backward()
    assert x.grad.tolist() == [6, -4]


def test_training_through_a_kernel():
    w = Tensor([1.0, 2.0]).realize()
    optimiser = quern.nn.optim.SGD([w], lr=0.25)

    @TinyJit
    def step():
        optimiser.zero_grad()
        loss = double(w, grad_fxn=lambda grads, _: [None, grads[0] * 2]).square().sum()
        loss.backward()
        optimiser.step()
        return loss

    losses = [step().item() for _ in range(4)]
    assert losses == [20.0, 20.0, 20.0, 20.0] and w.tolist() == [1.0, 2.0]  # 4 w * 2 * 0.25: it changes its sign in each step


def test_without_a_gradient():
    x = Tensor([1.0, 2.0], requires_grad=True)
    of_no_gradient = Tensor.empty(2).custom_kernel(x, fxn=each(2, lambda v: v * 2.5))[0]
    with pytest.raises(quern.Error, match="gradient: a custom kernel was made without a gradient"):
        of_no_gradient.sum().backward()


def double_with(factor):
    return lambda x: double(x, grad_fxn=lambda grads, _: [None, grads[0] * factor])


def test_gradients_of_kernels_that_are_alike():
    x, y = Tensor([1.0, 2.0], requires_grad=True), Tensor([1.0, 2.0], requires_grad=True)
    (double_with(2)(x).sum() + double_with(3)(y).sum()).backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([2, 2], [3, 3])


def test_without_a_gradient_beside_one_that_has_it():
    x = Tensor([1.0, 2.0], requires_grad=True)
    double_with(2)(x).sum().backward()
    with pytest.raises(quern.Error, match="without a gradient"):
        double(x).sum().backward()


@pytest.mark.parametrize("kind, returned, text", [
    (quern.Error, [None], "custom_kernel: its gradient gave 1 tensors for 2 arguments"),
    (quern.Error, [None, Tensor([1, 2])], "argument 1 of a custom kernel is float32 of shape (2,), its gradient int32 of shape (2,)"),
    (quern.Error, [None, Tensor.ones(5)], "custom_kernel: argument 1 has shape (2,), its gradient (5,)"),
    (TypeError, 5, "expected a list of tensors and None from grad_fxn, got 5"),
    (TypeError, [None, "a"], "expected a list of tensors and None from grad_fxn, got [None, 'a']"),
], ids=["too few", "dtype", "shape", "no list", "no tensor"])
def test_wrong_gradients(kind, returned, text):
    x = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(kind, match=re.escape(text)):
        double(x, grad_fxn=lambda grads, _: returned).sum().backward()


def test_gradients_that_raise():
    def fail(grads, arguments):
        raise KeyError("mine")

    x = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(KeyError, match="mine"):
        double(x, grad_fxn=fail).sum().backward()
    assert x.grad is None

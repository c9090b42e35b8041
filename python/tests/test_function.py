"""function: calls as nodes."""

import numpy as np
import pytest

from quern import Error, Tensor, TinyJit, function, nn


class Layer:
    def __init__(self, size):
        self.weight, self.bias = Tensor.randn(size, size).realize(), Tensor.randn(size).realize()

    def plain(self, x):
        return (x @ self.weight + self.bias).tanh()

    @function(precompile=True)
    def __call__(self, x):
        return self.plain(x)


def test_layers_compute_what_they_did():
    layers, x = [Layer(8) for _ in range(6)], Tensor.randn(3, 8).realize()
    expected = x
    for layer in layers:
        expected = layer.plain(expected)
    np.testing.assert_allclose(x.sequential(layers).numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    jitted = TinyJit(lambda x: x.sequential(layers).realize())
    for _ in range(4):
        np.testing.assert_allclose(jitted(x).numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


def test_gradients_are_those_of_what_is_computed():
    layer, x = Layer(5), Tensor.randn(2, 5).realize()
    found = layer(x).square().sum().gradient(x, layer.weight, layer.bias)
    expected = layer.plain(x).square().sum().gradient(x, layer.weight, layer.bias)
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)


def trained(forward_of):
    Tensor.manual_seed(5)
    layer, x, losses = Layer(4), Tensor.randn(16, 4).realize(), []
    optimiser = nn.optim.SGD([layer.weight, layer.bias], lr=0.5)
    with Tensor.train():
        for _ in range(20):
            optimiser.zero_grad()
            losses.append(forward_of(layer)(x).square().mean().backward().item())
            optimiser.step()
    return losses


def test_training_with_functions():
    found = trained(lambda layer: layer)
    np.testing.assert_allclose(found, trained(lambda layer: layer.plain), rtol=1e-4)
    assert found[-1] < found[0]


def test_several_results_and_arguments_in_lists():
    @function
    def both(x, *, others):
        """Sum and product."""
        return x + others[0], x * others[1]["y"]

    x, y, z = Tensor([1.0, 2]), Tensor([3.0, 4]), Tensor([5.0, 6])
    total, product = both(x, others=[y, {"y": z}])
    assert total.tolist() == [4, 6] and product.tolist() == [5, 12]
    assert both.__name__ == "both" and both.__doc__ == "Sum and product."


def test_the_same_argument_twice_and_constants():
    square = function(lambda x, y: x * y + 1)
    x = Tensor([2.0, 3])
    assert square(x, x).tolist() == [5, 10] and square(x, Tensor(2.0)).tolist() == [5, 7]
    assert square(Tensor.ones(2), Tensor.ones(2)).tolist() == [2, 2]


def test_memory_that_is_no_argument():
    hidden = Tensor([1.0, 2]).realize()
    with pytest.raises(Error, match="function .*<lambda>: it uses memory that is no argument: 2 elements of float32 on "):
        function(lambda x: x + hidden)(Tensor([1.0, 2]))
    assert function(lambda x: x + hidden, allow_implicit=True)(Tensor([1.0, 2])).tolist() == [2, 4]


def test_several_devices():
    a, b = Tensor([1.0, 2], device="INTERP").realize(), Tensor([3.0, 4], device="CPU").realize()
    assert function(lambda x, y: y + 1, precompile=True)(a, b).tolist() == [4, 5]
    assert [r.tolist() for r in function(lambda x, y: (y + 1, x + 1), precompile=True)(a, b)] == [[4, 5], [2, 3]]
    assert function(lambda x: x.to("CPU") * 2, precompile=True)(a).tolist() == [2, 4]
    assert function(lambda x: (x + 1).to("CPU").to("INTERP"), precompile=True)(a + 1).tolist() == [3, 4]
    assert function(lambda x: Tensor.arange(3), precompile=True)(a).tolist() == [0, 1, 2]
    assert function(lambda x: x, precompile=True)(b).tolist() == [3, 4]
    assert function(lambda x: Tensor.ones(2), precompile=True)(Tensor.ones(2, device="NULL")).tolist() == [1, 1]
    assert function(lambda x: Tensor.ones(2), precompile=True)(Tensor.empty(2, device="NULL")).tolist() == [1, 1]


def test_wrong_use():
    with pytest.raises(Error, match="returned 3, expected a Tensor or a tuple of Tensors"):
        function(lambda: 3)()
    with pytest.raises(Error, match="returned list"):
        function(lambda x: [x])(Tensor([1.0]))
    with pytest.raises(TypeError, match="function: expected a function, got 3"):
        function(3)
    with pytest.raises(TypeError, match="expected a function as grad_fxn, got 3"):
        function(lambda x: x, grad_fxn=3)
    x = Tensor([1.0, 2.0])
    with pytest.raises(TypeError, match="expected a list of tensors and None from grad_fxn, got 5"):
        function(lambda x: x * 2, grad_fxn=lambda grads, given: 5)(x).sum().gradient(x)
    with pytest.raises(Error, match="a function of 1 arguments gave 2 gradients"):
        function(lambda x: x * 2, grad_fxn=lambda grads, given: [None, None])(x).sum().gradient(x)
    with pytest.raises(Error, match=r"argument 0 of a function is float32 of shape \(2,\), its gradient float32 of shape \(\)"):
        function(lambda x: x * 2, grad_fxn=lambda grads, given: [grads[0].sum()])(x).sum().gradient(x)


@pytest.mark.parametrize("precompile", [False, True])
def test_a_gradient_of_its_own(precompile):
    asked = []

    def straight_through(grads, given):
        asked.append((len(grads), len(given)))
        return [grads[0] * given[1], None]

    rounded = function(lambda x, w: x.round() * w, precompile=precompile, grad_fxn=straight_through)
    x, w = Tensor([0.4, 1.6, -2.5], requires_grad=True), Tensor([1.0, 2.0, 3.0])
    y = rounded(x, w)
    assert y.tolist() == [0, 4, -6]
    (y * Tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [1, 20, 300] and asked == [(1, 2)]
    both = function(lambda x: (x * 2, x * 3), precompile=precompile, grad_fxn=lambda grads, given: [grads[0] + grads[1] * given[0]])
    a, b = both(x)
    assert a.sum().gradient(x)[0].tolist() == [1, 1, 1]  # of what is not used the gradient is 0
    np.testing.assert_allclose((a + b * b).sum().gradient(x)[0].numpy(), 1 + 2 * 3 * x.numpy() * x.numpy())
    assert x.square().sum().gradient(x)[0].tolist() == (2 * x).tolist()


@pytest.mark.parametrize("f", [lambda x, i: x[i], lambda x, i: x.gather(0, i.reshape(3, 1)), lambda x, i: Tensor.cat(x, i.reshape(3, 1).float())])
def test_what_indexing_computes_is_one_body(f):
    """A call adds few nodes: the body is made once for all tensors of these shapes."""
    values = np.arange(15, dtype=np.float32).reshape(3, 5)
    x, i = Tensor(values if "cat" not in f.__code__.co_names else values[:, :1]).realize(), Tensor([2, 0, 1]).realize()
    first, second = f(x, i), f(x * 2, i + 0)
    assert first.uop.src[0] == second.uop.src[0] and first.uop.op.name == "FUNCTION"
    np.testing.assert_array_equal(f(x * 2, i).numpy()[:3, :1], 2 * first.numpy()[:3, :1])
    y = f(x, i)
    y[0] = 7  # a value of its own, not what another call gave
    assert (f(x, i).numpy() == first.numpy()).all() and (y.numpy()[0] == 7).all()

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
    with pytest.raises(Error, match="grad_fxn"):
        function(lambda x: x, grad_fxn=lambda *_: None)

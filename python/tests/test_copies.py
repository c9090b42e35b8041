"""Pickles and copies: of functions, models, optimisers and tensors with what belongs to them."""

import copy
import pickle

import pytest

from quern import Tensor, TinyJit, nn

COPIES = [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), lambda x: pickle.loads(pickle.dumps(x, protocol=2))]
copied = pytest.mark.parametrize("copied", COPIES, ids=["deepcopy", "pickle", "old pickle"])


@copied
@pytest.mark.parametrize("function", [Tensor.relu, Tensor.zeros, Tensor.schedule, Tensor.cat, nn.state.safe_save])
def test_functions(copied, function):
    assert copied(function) is function


@copied
def test_a_model_of_layers_and_functions(copied):
    layers = [nn.Linear(2, 3), Tensor.relu, nn.Linear(3, 1)]
    x = Tensor([[1.0, -2.0]])
    again = copied(layers)
    assert again[1] is Tensor.relu and again[0].weight is not layers[0].weight
    assert x.sequential(again).tolist() == x.sequential(layers).tolist()


@copied
def test_methods(copied):
    x = Tensor([-1.0, 2.0])
    method, same = copied([x.relu, x])
    assert method().tolist() == [0, 2] and method.__self__ is same


@copied
def test_a_jit_of_a_method(copied):
    again = copied(TinyJit(Tensor.relu))
    for _ in range(3):
        assert again(Tensor([-1.0, 2.0]).realize()).tolist() == [0, 2]


@copied
def test_a_gradient_goes_with_its_tensor(copied):
    x, y = Tensor([1.0, 2.0], requires_grad=True), Tensor([1.0])
    (x * x).sum().backward()
    again, other = copied((x, y))
    assert again.grad.tolist() == [2, 4] and again.grad is not x.grad and other.grad is None and again.requires_grad is True
    again.grad.assign([0.0, 0.0]).realize()
    assert x.grad.tolist() == [2, 4]

"""Axes by the name that PyTorch has for them, and what errors say of them."""

import pytest

from quern import Tensor

NAMES = """
sum prod mean max min any all argmax argmin std var std_mean var_mean logsumexp softmax softmin log_softmax cumsum cumprod cummax cummin
logcumsumexp
""".split()


def values(result):
    return [part.tolist() for part in result] if isinstance(result, (tuple, list)) else result.tolist()


@pytest.mark.parametrize("name", NAMES)
def test_dim_is_axis(name):
    function = getattr(Tensor([[1.0, 3.0, 2.0], [4.0, 0.5, 6.0]]), name)
    for axis in (0, 1, -1):
        assert values(function(dim=axis)) == values(function(axis=axis)) == values(function(axis))
    with pytest.raises(TypeError, match="incompatible function arguments"):
        function(axis=0, dim=0)


def test_other_arguments_go_with_it():
    x = Tensor([[1.0, 3.0], [4.0, 0.5]])
    assert x.sum(dim=(0, 1)).item() == 8.5 == x.sum(dim=None).item() and x.max(dim=1, keepdim=True).shape == (2, 1)
    assert x.std(dim=0, correction=0).tolist() == x.std(axis=0, correction=0).tolist()


def test_types_in_errors_are_said_once():
    for function in vars(Tensor).values():
        for signature, *_ in getattr(function, "__nb_signature__", ()):
            assert "None | None" not in signature

"""What is wrong is an exception of the kind that Python has for it, and says what was given."""

import pytest

import quern
from quern import Context, Device, Tensor


@pytest.mark.parametrize("kind, also, call", [
    (quern.ShapeError, ValueError, lambda: Tensor.ones(2, 3) + Tensor.ones(4)),
    (quern.ShapeError, ValueError, lambda: Tensor.ones(2, 3).reshape(5)),
    (quern.ShapeError, ValueError, lambda: Tensor([[1, 2], [3]])),
    (quern.ShapeError, ValueError, lambda: Tensor([[1, 2], 3])),
    (quern.ShapeError, ValueError, lambda: Tensor.ones(2).item()),
    (quern.DTypeError, TypeError, lambda: Tensor([1], dtype="uint8") + 300),
    (quern.DTypeError, TypeError, lambda: Tensor([1], dtype="float31")),
    (quern.DTypeError, TypeError, lambda: Tensor([2**70])),
    (quern.DTypeError, TypeError, lambda: Tensor([1.5]) & 1),
    (quern.IndexError, IndexError, lambda: Tensor.ones(2)[5]),
    (quern.IndexError, IndexError, lambda: Tensor.ones(2)["a"]),
    (quern.IndexError, IndexError, lambda: Tensor.ones(2)[0, 0]),
    (quern.DeviceError, RuntimeError, lambda: Tensor([1], device="TOASTER")),
    (quern.DeviceError, RuntimeError, lambda: Device["TOASTER"]),
    (quern.Error, RuntimeError, lambda: Context(NO_SUCH_VARIABLE=1).__enter__()),
    (quern.Error, RuntimeError, lambda: quern.nn.optim.SGD([Tensor([1.0])]).step()),
])
def test_kind(kind, also, call):
    with pytest.raises(kind) as caught:
        call()
    assert isinstance(caught.value, also) and isinstance(caught.value, quern.Error)
    assert str(caught.value)


@pytest.mark.parametrize("call", [
    lambda: Tensor("text"),
    lambda: Tensor(object()),
    lambda: Tensor([1, "a"]),
    lambda: Tensor([1]) + "a",
    lambda: Tensor([1]) + None,
    lambda: Tensor([1]).add("a"),
    lambda: Tensor.ones(2, "a"),
    lambda: Tensor.ones(2).sum("a"),
    lambda: Tensor.ones(2).cast(5),
    lambda: Tensor.ones(2.5),
    lambda: Tensor.ones(2).cat(5),
    lambda: list(Tensor(1)),
    lambda: Tensor([1]).reshape(1, nonsense=2),
    lambda: quern.jit(5),
])
def test_type_error(call):
    with pytest.raises(TypeError):
        call()


def test_equality_with_others():
    assert (Tensor([1]) == None) is False  # noqa: E711
    assert (Tensor([1]) != "a") is True


def test_exceptions_pass_through():
    def body():
        raise KeyError("mine")

    with pytest.raises(KeyError):
        Tensor([1]).sequential([lambda x: body()])

    @quern.TinyJit
    def fails(x):
        raise KeyError("mine")

    for _ in range(3):
        with pytest.raises(KeyError):
            fails(Tensor([1.0]).realize())

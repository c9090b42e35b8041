"""Tensor: what is simpler to say in Python is added to the class of the core here."""

import contextlib

from quern import _core
from quern._core import Tensor
from quern.download import fetch
from quern.schedule import Schedule


class _Train(contextlib.ContextDecorator):
    """Training until the end of a block, or of a function."""

    def __init__(self, mode: bool = True):
        self._mode = mode
        self._before = []

    def __enter__(self):
        self._before.append(Tensor.training)
        Tensor.training = self._mode
        return self

    def __exit__(self, *_):
        Tensor.training = self._before.pop()


def _iterate(self):
    if self.ndim == 0:
        raise TypeError("a Tensor of no axes cannot be iterated over")
    return (self[i] for i in range(len(self)))


def _rebuild(data, shape, dtype, device, requires_grad):
    made = Tensor(data, dtype=dtype, device=device).reshape(shape)
    made.requires_grad = requires_grad
    return made


def _reduce(self):
    device = self.device if isinstance(self.device, str) else self.device[0]
    if device.startswith("DISK"):
        device = None
    known = self.contiguous() if any(not isinstance(s, int) for s in self.shape) else self
    return _rebuild, (known.tobytes(), known.shape, self.dtype, device, self.requires_grad)


def _format(self, spec):
    return format(self.item(), spec) if spec else repr(self)


def _from_url(url: str, gunzip: bool = False, **kwargs) -> Tensor:
    """A tensor that is the contents of a file of the network, which is downloaded once."""
    return Tensor(fetch(url, gunzip=gunzip), **kwargs)


def _const_like(self, b, dtype=None) -> Tensor:
    """The number b in this shape and dtype, or another dtype."""
    return self.full_like(b, dtype=dtype)


_schedule_text = Tensor.schedule


def _schedule(self) -> Schedule:
    """The steps that realize() would take: text, and a table in a notebook."""
    return Schedule(_schedule_text(self))


Tensor.train = _Train
Tensor.schedule = _schedule
Tensor.from_url = staticmethod(_from_url)
Tensor.const_like = _const_like
Tensor.__iter__ = _iterate
Tensor.__reduce__ = _reduce
Tensor.__format__ = _format
Tensor.__contains__ = lambda self, x: bool((self == x).any())
Tensor.__complex__ = lambda self: complex(self.item())
Tensor.__array_priority__ = 1000  # beside arrays of NumPy it is the tensor that computes
Tensor.__array_ufunc__ = None
Tensor.__module__ = "quern"

__all__ = ["Tensor"]

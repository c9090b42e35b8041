"""What realize() would do, before it does it."""

from typing import NamedTuple

from quern import _core
from quern._core import Tensor


class Estimate(NamedTuple):
    """Counts of a schedule, estimated from its kernels."""

    kernels: int
    operations: int  # on values, not on indices
    bytes: int  # of the buffers of each kernel and copy, once each
    memory: int  # bytes of the results, and of what lies between kernels at the same time


def estimate(*tensors: Tensor) -> Estimate:
    """How much realize() of these tensors, together, would do. Nothing is compiled or run."""
    for x in tensors:
        if not isinstance(x, Tensor):
            raise TypeError(f"estimate: expected tensors, got {type(x).__name__}")
    return Estimate(*_core.estimate(list(tensors)))


__all__ = ["Estimate", "estimate"]

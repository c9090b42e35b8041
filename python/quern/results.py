"""Results of several tensors, by name: x.sort().values."""

from typing import NamedTuple

from quern._core import Tensor


class ValuesIndices(NamedTuple):
    """Values, and where they are along an axis."""

    values: Tensor
    indices: Tensor


class MinMax(NamedTuple):
    """The least and the greatest."""

    min: Tensor
    max: Tensor


__all__ = ["MinMax", "ValuesIndices"]

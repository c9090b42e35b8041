"""What layers ask of what they are given, in words of the layer."""

import operator

from quern._core import ShapeError, Tensor, shown


def size(layer: str, name: str, value, least: int = 0) -> int:
    """An int that is not below another."""
    try:
        value = operator.index(value)
    except TypeError:
        raise TypeError(f"{layer}: {name} is {value!r}, expected an int") from None
    if value < least:
        raise ShapeError(f"{layer}: {name} is {value}, expected at least {least}")
    return value


def sizes(layer: str, name: str, value, axes: int | None = None) -> tuple[int, ...]:
    """An int for each axis from one for all, or from a tuple."""
    if hasattr(type(value), "__index__"):
        return (operator.index(value),) * (axes or 2)
    if not isinstance(value, (tuple, list)) or not all(hasattr(type(v), "__index__") for v in value):
        raise TypeError(f"{layer}: {name} is {value!r}, expected an int or a tuple of them")
    if axes is not None and len(value) != axes:
        raise ShapeError(f"{layer}: {name} is {tuple(value)}, expected {axes} numbers")
    return tuple(map(operator.index, value))


def groups(layer: str, number: int, **channels: int):
    """Channels that can be divided into groups."""
    size(layer, "groups", number, 1)
    for name, count in channels.items():
        if size(layer, name, count) % number != 0:
            raise ShapeError(f"{layer}: {name} is {count}, which cannot be divided into {number} groups")


def tensor(layer, x, name: str = "the input") -> Tensor:
    """A Tensor."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{type(layer).__name__}: {name} is {shown(x)}, expected a Tensor")
    return x


def axis(layer, x, at: int, count: int) -> Tensor:
    """A Tensor with an axis of a size."""
    shape = tensor(layer, x).shape
    least = at + 1 if at >= 0 else -at
    if len(shape) < least:
        raise ShapeError(f"{type(layer).__name__}: the input has shape {shape}, expected at least {least} axes")
    if isinstance(shape[at], int) and shape[at] != count:
        raise ShapeError(f"{type(layer).__name__}: axis {at % len(shape)} of the input {shape} is {shape[at]}, expected {count}")
    return x

"""What a model is made of, as text."""

import math

from quern._core import Tensor
from quern.nn.state import get_state_dict


def _parts(value):
    """What a list, a dictionary or an object holds, by name."""
    if isinstance(value, dict):
        return [(str(name), part) for name, part in value.items()]
    if isinstance(value, (list, tuple)):
        return [(str(i), part) for i, part in enumerate(value)]
    return list(vars(value).items()) if hasattr(value, "__dict__") and not isinstance(value, type) else []


def _count(value) -> int:
    tensors = {id(t): t for t in get_state_dict({"": value}).values()}
    return sum(math.prod(t.shape) for t in tensors.values() if not _is_statistic(t))


def _is_statistic(tensor) -> bool:
    return tensor.requires_grad is False


def _holds(value, above) -> bool:
    """Whether it is a layer, or has tensors."""
    return isinstance(value, Layer) or (id(value) not in above and bool(get_state_dict({"": value})))


def _lines(name: str, value, depth: int, above: tuple) -> list[str]:
    if id(value) in above:
        return []
    above = (*above, id(value))
    tensors, layers = [], []
    for part_name, part in _parts(value):
        if isinstance(part, Tensor):
            tensors.append(f"{part_name} {part.shape}")
        elif not isinstance(part, (str, bytes)) and _holds(part, above):
            layers.append((part_name, part))
    kind = type(value).__name__
    text = f"{kind}({value.options()})" if isinstance(value, Layer) and value.options() else kind
    own = f": {', '.join(tensors)}" if tensors else ""
    count = _count(value)
    total = f" - {count:,} parameter{'s' if count != 1 else ''}" if count else ""
    lines = [f"{'  ' * depth}{name + ': ' if name else ''}{text}{own}{total}"]
    for part_name, part in layers:
        lines += _lines(part_name, part, depth + 1, above)
    return lines


def describe(model) -> str:
    """The layers of a model, a line each: kind, shapes of tensors, and how many parameters there are. Tensors that refuse gradients,
    as running statistics do, are not counted."""
    return "\n".join(_lines("", model, 0, ()))


class Layer:
    """What layers have in common: repr() describes them. A model that is a subclass is described, too."""

    def options(self) -> str:
        """What stands between the brackets: what it was made with, where shapes do not tell."""
        return ""

    def __repr__(self):
        return describe(self)


__all__ = ["Layer", "describe"]

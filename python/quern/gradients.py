"""Blocks without gradients, and gradients of functions."""

import contextlib
import functools

from quern import _core
from quern._core import Error, ShapeError, Tensor
from quern.nn.state import get_state_dict


class no_grad(contextlib.ContextDecorator):
    """with no_grad(): what is computed until the end of the block carries no gradient, and what is written into other tensors does
    not either. Also a decorator of functions, with parentheses or without."""

    def __new__(cls, fxn=None):
        return cls()(fxn) if callable(fxn) else super().__new__(cls)

    def __init__(self):
        self._open = []

    def __enter__(self):
        self._open.append(_core.NoGradBlock())
        return self

    def __exit__(self, *_):
        if not self._open:
            raise RuntimeError(f"{type(self).__name__}: the end of a block that was not begun")
        self._open.pop().end()


class inference_mode(no_grad):
    """The same as no_grad."""


def is_grad_enabled() -> bool:
    """False in a block of no_grad()."""
    return _core.is_grad_enabled()


def _like(value, gradients):
    """The gradients of the tensors in a value, where these stand in it; None for what is no float."""
    if isinstance(value, Tensor):
        return gradients[id(value)] if value.dtype.is_float else None
    if isinstance(value, dict):
        return {key: _like(part, gradients) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        parts = [_like(part, gradients) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    tensors = get_state_dict(value)
    return {name: _like(t, gradients) for name, t in tensors.items()} if tensors else None


def _own(value, others):
    """The value, with copies in place of tensors that other arguments have, too: the gradient is by this argument only."""
    if isinstance(value, Tensor):
        return value.clone() if id(value) in others else value
    if isinstance(value, dict):
        return {key: _own(part, others) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_own(part, others) for part in value)
    return value


def value_and_grad(fxn, argnums=0, has_aux=False):
    """A function that returns what fxn returns, a loss of one number, and its gradients by an argument, or by a tuple of them. The
    gradient of a list, a tuple or a dictionary is one of gradients; of an object (a model), a dictionary by the names of its tensors.
    has_aux: fxn returns (loss, other)."""
    if not callable(fxn):
        raise TypeError(f"value_and_grad: expected a function, got {fxn!r}")
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    if not numbers or not all(isinstance(n, int) for n in numbers):
        raise TypeError(f"value_and_grad: argnums is {argnums!r}, expected an int or a tuple of them")

    @functools.wraps(fxn)
    def compute(*args, **kwargs):
        args = list(args)
        for n in numbers:
            if not -len(args) <= n < len(args):
                raise ValueError(f"value_and_grad: argnums has {n}, there are {len(args)} arguments")
        places = [n % len(args) for n in numbers]
        for place in places:
            others = [a for i, a in enumerate(args) if i != place]
            args[place] = _own(args[place], {id(t) for t in get_state_dict((others, kwargs)).values()})
        result = fxn(*args, **kwargs)
        if has_aux and (not isinstance(result, (tuple, list)) or len(result) != 2):
            raise TypeError(f"value_and_grad: with has_aux the function returns (loss, other), it returned {result!r}")
        loss = result[0] if has_aux else result
        if not isinstance(loss, Tensor):
            raise TypeError(f"value_and_grad: the function returned {loss!r}, expected a Tensor of one number")
        if loss.numel() != 1:
            raise ShapeError(f"value_and_grad: the function returned a tensor of shape {loss.shape}, expected one number")
        by = [args[place] for place in places]
        targets = list({id(t): t for t in get_state_dict(by).values() if t.dtype.is_float}.values())
        if not targets:
            raise Error("value_and_grad: there are no tensors of floats in the argument")
        found = loss.reshape(()).gradient(*targets)
        gradients = dict(zip(map(id, targets), found))
        each = tuple(_like(value, gradients) for value in by)
        return result, each if isinstance(argnums, tuple) else each[0]

    return compute


def grad(fxn, argnums=0, has_aux=False):
    """value_and_grad() without the value; with has_aux: (gradients, other)."""
    both = value_and_grad(fxn, argnums, has_aux)

    @functools.wraps(fxn)
    def compute(*args, **kwargs):
        result, gradients = both(*args, **kwargs)
        return (gradients, result[1]) if has_aux else gradients

    return compute


__all__ = ["grad", "inference_mode", "is_grad_enabled", "no_grad", "value_and_grad"]

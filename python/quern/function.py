"""function: what a function of tensors computes as one node of the graph, so that equal layers are scheduled once."""

import functools

from quern import _core
from quern._core import Error, Tensor, shown


class _Function:
    """A function whose calls are nodes. As a method, it is called with its object."""

    def __init__(self, fxn, precompile, allow_implicit, grad_fxn):
        if not callable(fxn):
            raise TypeError(f"function: expected a function, got {shown(fxn)}")
        if grad_fxn is not None and not callable(grad_fxn):
            raise TypeError(f"function: expected a function as grad_fxn, got {shown(grad_fxn)}")
        self.fxn, self.precompile, self.allow_implicit, self.grad_fxn = fxn, precompile, allow_implicit, grad_fxn
        functools.update_wrapper(self, fxn, updated=())

    def __get__(self, obj, owner=None):
        return self if obj is None else functools.partial(self, obj)

    def __call__(self, *args, **kwargs):
        from quern.nn.state import get_state_dict  # which needs this package

        given = list(get_state_dict((args, kwargs)).values())
        begun = _core.memory_mark()
        result = self.fxn(*args, **kwargs)
        several = isinstance(result, tuple)
        name = getattr(self.fxn, "__qualname__", type(self.fxn).__qualname__)
        for part in result if several else (result,):
            if not isinstance(part, Tensor):
                raise Error(f"function {name}: it returned {shown(part)}, expected a Tensor or a tuple of Tensors")
        parts = _core.called(given, list(result) if several else [result], name, self.precompile, self.allow_implicit, begun)
        if self.grad_fxn is not None:
            parts = _core.with_function_gradient(parts, given, self.grad_fxn)
        return tuple(parts) if several else parts[0]


def function(fxn=None, *, precompile=False, precompile_backward=False, allow_implicit=False, grad_fxn=None):
    """A decorator, with or without arguments. The function takes tensors, also in lists, dictionaries and objects, and returns a
    Tensor or a tuple of Tensors. With precompile, calls that compute the same of other tensors are scheduled once, and each is a
    program of its own; else a call is what it computes. Memory that is not in its arguments is an error, unless
    allow_implicit is set. Gradients are those of what it computes, or what grad_fxn says: it gets the gradients of the results and
    the tensors that were given, two lists, and returns a list of a gradient, or None, for each of these tensors.
    precompile_backward changes nothing."""
    if fxn is None:
        return lambda f: _Function(f, bool(precompile), bool(allow_implicit), grad_fxn)
    return _Function(fxn, bool(precompile), bool(allow_implicit), grad_fxn)

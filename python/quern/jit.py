"""TinyJit: a function that is captured in its second call, and replayed in later ones."""

import functools
import itertools
import operator
import sys

from quern import _core
from quern._core import Error, Tensor, UOp, shown


class _Parts:
    """Arguments or results taken apart: tensors, sizes, and all else, which has to be the same in each call."""

    def __init__(self):
        self.tensors, self.dims = [], []

    def take(self, value, like=None):
        """The structure of a value: what stands for each tensor and size in it, and the rest as it is. Dictionaries with the keys
        of those in `like`, a structure, are gone through in their order."""
        if isinstance(value, Tensor):
            self.tensors.append(value)
            return _TENSOR
        if isinstance(value, UOp):
            self.dims.append(value)
            return _DIM
        parts = like[1:] if isinstance(like, tuple) else ()
        if isinstance(value, (list, tuple)):
            return (type(value), *(self.take(part, before) for part, before in itertools.zip_longest(value, parts[: len(value)])))
        if isinstance(value, dict):
            known = dict(parts) if isinstance(like, tuple) and like[0] is dict else {}
            keys = known if known.keys() == value.keys() else value
            return (dict, *((key, self.take(value[key], known.get(key))) for key in keys))
        return _Value(value)


class _Mark:
    def __init__(self, name):
        self._name = name

    def __repr__(self):
        return self._name


_TENSOR, _DIM = _Mark("a tensor"), _Mark("a size")


class _Value:
    """A value that is no tensor, compared by identity and then by ==."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        if not isinstance(other, _Value):
            return False
        if self.value is other.value:
            return True
        try:
            return type(self.value) is type(other.value) and bool(self.value == other.value)
        except Exception:
            return False

    __hash__ = None

    def __repr__(self):
        return repr(self.value)


def _put(structure, tensors, dims):
    if structure is _TENSOR:
        return next(tensors)
    if structure is _DIM:
        return next(dims)
    if isinstance(structure, _Value):
        return structure.value
    kind, *parts = structure
    if kind is dict:
        return {key: _put(part, tensors, dims) for key, part in parts}
    values = [_put(part, tensors, dims) for part in parts]
    return kind(*values) if hasattr(kind, "_fields") else kind(values)


def _only_tensors(structure):
    if isinstance(structure, _Value):
        return structure.value is None
    if structure is _TENSOR:
        return True
    if structure is _DIM:
        return False
    kind, *parts = structure
    return all(_only_tensors(part[1] if kind is dict else part) for part in parts)


def _text(structure):
    """Arguments as they would be written in a call."""
    _, (_, *args), (_, *kwargs) = structure
    return f"({', '.join([*map(_part, args), *(f'{key}={_part(part)}' for key, part in kwargs)])})"


def _part(structure):
    if not isinstance(structure, tuple):
        return repr(structure)
    kind, *parts = structure
    if kind is dict:
        return "{" + ", ".join(f"{key!r}: {_part(part)}" for key, part in parts) + "}"
    inside = ", ".join(map(_part, parts))
    return f"[{inside}]" if issubclass(kind, list) else f"({inside})"


class CapturedJit:
    """What a jit replays."""

    def __init__(self, calls):
        self._calls = calls

    @property
    def kernels(self) -> int:
        """Kernels of a replay."""
        return self._calls.kernels

    @property
    def memory_bytes(self) -> int:
        """Memory that a replay needs between its kernels."""
        return self._calls.memory_bytes


class TinyJit:
    """The first call runs the function, the second remembers what it ran, later ones run that again on the tensors they
    are given. Tensors and sizes among the arguments may be others in each call; all else has to be the same."""

    def __new__(cls, fxn=None, *, prune: bool = False):
        return (lambda f: cls(f, prune=prune)) if fxn is None else super().__new__(cls)

    def __init__(self, fxn=None, *, prune: bool = False):  # prune: a replay never runs what nobody reads
        if not callable(fxn):
            raise TypeError(f"jit: expected a function, got {shown(fxn)}")
        self.fxn = fxn
        self.reset()
        functools.update_wrapper(self, fxn, updated=())

    def reset(self):
        """The next call is the first one again."""
        self._calls = _core.JitCalls()
        self._captured = CapturedJit(self._calls)
        self._given = self._returned = self._kinds = None
        self.cnt = 0  # calls since then

    @property
    def captured(self) -> CapturedJit | None:
        """What is replayed; None before."""
        return self._captured if self._calls.is_captured else None

    @property
    def kernels(self) -> int:
        """Kernels of a replay."""
        return self._calls.kernels

    @property
    def memory_bytes(self) -> int:
        """Memory that a replay needs between its kernels."""
        return self._calls.memory_bytes

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        # each object has a jit of its own for its method
        jits = instance.__dict__.setdefault("_quern_jits", {})
        if self not in jits:
            jits[self] = TinyJit(functools.partial(self.fxn, instance))
        return jits[self]

    def __reduce__(self):
        # what was captured belongs to this process: the function, or its name if the jit stands under it
        name = getattr(self.fxn, "__qualname__", "")
        try:
            known = operator.attrgetter(name)(sys.modules[self.fxn.__module__]) if name else None
        except (AttributeError, KeyError):
            known = None
        return name if known is self else (TinyJit, (self.fxn,))

    def __hash__(self):
        return id(self)

    def __eq__(self, other):
        return self is other

    def __call__(self, *args, **kwargs):
        self.cnt += 1
        # most calls: nothing but tensors and sizes, where they were when it was captured
        if not kwargs and tuple(map(type, args)) == self._kinds:
            if UOp in self._kinds:
                results = self._calls.replay([t for t in args if type(t) is Tensor], tuple(d for d in args if type(d) is UOp))
            else:
                results = self._calls.replay(args, ())
            if results is not None:
                return results[0] if self._returned is _TENSOR else _put(self._returned, iter(results), iter(()))
        parts = _Parts()
        given = parts.take((args, kwargs), self._given if self._calls.is_captured else None)
        if self._given is not None and given != self._given and self._calls.is_captured:
            raise Error(f"jit: the function was captured with the arguments {_text(self._given)}, and is called with {_text(given)}: "
                        "all but tensors and sizes must be the same")
        results = self._calls.replay(parts.tensors, tuple(parts.dims))
        if results is not None:
            return _put(self._returned, iter(results), iter(()))
        returned = None

        def call(tensors):
            nonlocal returned
            # what was passed is passed on, unless it had to become another tensor
            now = [old if new is old else new for old, new in zip(parts.tensors, tensors)]
            call_args, call_kwargs = _put(given, iter(now), iter(parts.dims))
            returned = self.fxn(*call_args, **call_kwargs)
            outputs = _Parts()
            self._returned = outputs.take(returned)
            if not _only_tensors(self._returned):
                raise Error("jit: the function must return tensors (also in tuples, lists and dictionaries) or nothing: other "
                            "results would not change in a replay")
            return outputs.tensors

        self._calls.run(parts.tensors, tuple(parts.dims), call)
        self._given = given
        kinds = tuple(map(type, args))
        self._kinds = kinds if self._calls.is_captured and not kwargs and set(kinds) <= {Tensor, UOp} else None
        return returned


def jit(fxn=None, *, prune: bool = False):
    """The same as TinyJit."""
    return TinyJit(fxn, prune=prune)

"""Settings for a while, counters of what ran, numbers of the environment, and small things that scripts need."""

import collections
import contextlib
import functools
import itertools
import operator
import os
import threading

from quern import _core
from quern.download import fetch
from quern.progress import Timing, tqdm, trange


def _set(name, value):
    """Sets a variable, and returns what it was. TRAINING is what Tensor.training says."""
    if not isinstance(value, (int, str)):
        raise TypeError(f"Context: {name} is {value!r}, expected a number or text")
    if name != "TRAINING":
        return _core.set_setting(name, value)
    before, _core.Tensor.training = _core.Tensor.training, bool(value)
    return before


class _Settings(threading.local):
    """What is set and not closed, the latest last: of a thread for TRAINING, as that is of each thread by itself."""

    def __init__(self):
        self.training = []


_of_all_threads, _of_thread, _lock = collections.defaultdict(list), _Settings(), threading.RLock()


class _Setting:
    """A variable that is set until close(). What was set later and is still open goes back to what was before this one."""

    def __init__(self, name, value):
        with _lock:
            self._name = name
            self._before = _set(name, value)
            self._open = _of_thread.training if name == "TRAINING" else _of_all_threads[name]
            self._open.append(self)

    def close(self):
        with _lock:
            at = self._open.index(self)
            self._open.remove(self)
            if at < len(self._open):
                self._open[at]._before = self._before
            else:
                _set(self._name, self._before)


# Variables of tinygrad that are about what quern does not have, or does by itself: setting them changes nothing.
_OF_TINYGRAD = frozenset(
    "ALLOW_TF32 ALLREDUCE_CAST CAPTURING FLOAT16 FUSE_ARANGE FUSE_OPTIM IMAGE LRU NO_MEMORY_PLANNER PICKLE_BUFFERS PROFILE"
    " SCACHE TC TC_OPT TC_SELECT TRACEMETA USE_TC VIZ WINO".split())


class Context(contextlib.ContextDecorator):
    """Variables of quern (DEBUG, BEAM, NOOPT, ...) set until the end of a block: with Context(DEBUG=2): ..."""

    def __init__(self, **values):
        self._values = {name: value for name, value in values.items() if name not in _OF_TINYGRAD}
        self._open = []

    def __enter__(self):
        opened = []
        try:
            for name, value in self._values.items():
                opened.append(_Setting(name, value))
        except BaseException:
            for setting in reversed(opened):
                setting.close()
            raise
        self._open.append(opened)
        return self

    def __exit__(self, *_):
        if not self._open:
            raise RuntimeError(f"{type(self).__name__}: the end of a block that was not begun")
        for setting in reversed(self._open.pop()):
            setting.close()


class ContextVar:
    """One variable of quern's: its name and its value."""

    def __init__(self, name: str):
        self.key = name

    @property
    def value(self):
        """What is in force now."""
        return int(_core.Tensor.training) if self.key == "TRAINING" else _core.setting(self.key)

    def __bool__(self):
        return bool(self.value)

    def __int__(self):
        return int(self.value)

    def __eq__(self, other):
        return self.value == other

    def __ge__(self, other):
        return self.value >= other

    def __gt__(self, other):
        return self.value > other

    def __le__(self, other):
        return self.value <= other

    def __lt__(self, other):
        return self.value < other

    __hash__ = None

    def __repr__(self):
        return f"{self.key}={self.value}"


_variables = {name: ContextVar(name) for name in (*_core.setting_names(), "TRAINING")}


def __getattr__(name):  # quern.helpers.DEBUG and the others
    try:
        return _variables[name]
    except KeyError:
        raise AttributeError(f"quern.helpers has no {name}") from None


def getenv(key: str, default=0):
    """A variable of the environment, as the type of the default."""
    given = os.environ.get(key)
    if given is None or default is None:
        return default if given is None else given
    try:
        return type(default)(given)
    except ValueError:
        raise ValueError(f"getenv: {key} is {given!r}, expected {type(default).__name__}") from None


class _GlobalCounters:
    """What has run in this process, and how much memory is in use."""

    def __init__(self):
        self._kernels = 0

    @property
    def kernel_count(self) -> int:
        """Kernels that ran."""
        return _core.counter("kernels")

    @property
    def global_ops(self) -> int:
        """Arithmetic that was done, estimated."""
        return _core.counter("operations")

    @property
    def global_mem(self) -> int:
        """Bytes moved from and to memory, estimated."""
        return _core.counter("bytes")

    @property
    def searches(self) -> int:
        """Kernels whose optimisations were searched for."""
        return _core.counter("searches")

    @property
    def mem_used(self) -> int:
        """Bytes in use, on all devices."""
        return _core.counter("mem_used")

    @property
    def mem_peak(self) -> int:
        """The most bytes that were in use."""
        return _core.counter("mem_peak")

    @staticmethod
    def reset():
        """All become 0 but mem_used, which is a fact."""
        _core.reset_counters()


GlobalCounters = _GlobalCounters()


# ---- lists, numbers and text


def prod(x):
    """The product of all."""
    return functools.reduce(operator.mul, x, 1)


def flatten(lists) -> list:
    """Lists behind each other."""
    return list(itertools.chain.from_iterable(lists))


def fully_flatten(values) -> list:
    """All that is in nested lists and tuples."""
    return flatten(map(fully_flatten, values)) if isinstance(values, (list, tuple)) else [values]


def dedup(x) -> list:
    """Each once, in the order in which they came."""
    return list(dict.fromkeys(x))


def argfix(*x) -> tuple:
    """f(1, 2) and f((1, 2)) as one tuple."""
    return tuple(x[0]) if len(x) == 1 and isinstance(x[0], (tuple, list)) else x


def argsort(x):
    """Where the sorted values are."""
    return type(x)(sorted(range(len(x)), key=x.__getitem__))


def all_same(items) -> bool:
    """Whether all are equal."""
    return all(item == items[0] for item in items)


def all_int(items) -> bool:
    """Whether all are ints."""
    return all(isinstance(item, int) for item in items)


def make_tuple(x, cnt: int) -> tuple:
    """An int as often, or the values as they are."""
    return (x,) * cnt if isinstance(x, int) else tuple(x)


def ceildiv(num, amt):
    """num / amt, rounded up."""
    return -(num // -amt)


def round_up(num: int, amt: int) -> int:
    """The least multiple of amt that is not below num."""
    return ceildiv(num, amt) * amt


def partition(values, condition) -> tuple[list, list]:
    """Those for which it holds, and the others."""
    yes, no = [], []
    for value in values:
        (yes if condition(value) else no).append(value)
    return yes, no


_COLORS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


def colored(st: str, color: str | None, background: bool = False) -> str:
    """Text in a colour, for a terminal; a name in capitals is bright."""
    if color is None:
        return st
    if color.lower() not in _COLORS:
        raise ValueError(f"colored: there is no colour {color!r}; there are {', '.join(_COLORS)}")
    code = (10 if background else 0) + (90 if color.isupper() else 30) + _COLORS.index(color.lower())
    return f"\033[{code}m{st}\033[0m"


__all__ = [
    "Context", "ContextVar", "GlobalCounters", "Timing", "all_int", "all_same", "argfix", "argsort", "ceildiv", "colored", "dedup",
    "fetch", "flatten", "fully_flatten", "getenv", "make_tuple", "partition", "prod", "round_up", "tqdm", "trange",
]

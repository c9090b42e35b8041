"""Settings for a while, counters of what ran, numbers of the environment, and small things that scripts need."""

import ctypes
import functools
import getpass
import itertools
import operator
import pathlib
import re
import sys
import tempfile

from quern import _core
from quern.download import fetch
from quern.progress import Timing, tqdm, trange
from quern.settings import Context, ContextVar, getenv, variables


def __getattr__(name):  # quern.helpers.DEBUG and the others
    try:
        return variables[name]
    except KeyError:
        raise AttributeError(f"quern.helpers has no {name}") from None


def _counter(name: str, doc: str, unit=1):
    def get(self):
        return _core.counter(name) * unit

    def put(self, value):
        _core.set_counter(name, int(value / unit))

    return property(get, put, doc=doc)


class _GlobalCounters:
    """What has run in this process, and how much memory is in use. Counts may be set, to count from there."""

    kernel_count = _counter("kernels", "Kernels that ran.")
    global_ops = _counter("operations", "Arithmetic that was done, estimated.")
    global_mem = _counter("bytes", "Bytes moved from and to memory, estimated.")
    time_sum_s = _counter("nanoseconds", "Seconds that kernels and copies took; of replays of a jit with DEBUG=2 or PROFILE=1 only.", 1e-9)
    searches = _counter("searches", "Kernels whose optimisations were searched for.")
    mem_peak = _counter("mem_peak", "The most bytes that were in use.")

    @property
    def mem_used(self) -> int:
        """Bytes in use, on all devices."""
        return _core.counter("mem_used")

    @staticmethod
    def reset():
        """All become 0 but mem_used, which is a fact."""
        _core.reset_counters()


GlobalCounters = _GlobalCounters()
OSX, WIN = sys.platform == "darwin", sys.platform == "win32"


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


def colorize_float(x: float) -> str:
    """A ratio of times: green if it is less, red if it is more, yellow if it is about 1."""
    return colored(f"{x:7.2f}x", "green" if x < 0.75 else "red" if x > 1.15 else "yellow")


def ansistrip(s: str) -> str:
    """Text without its colours."""
    return re.sub("\x1b\\[[0-9;]*[mK]", "", s)


def ansilen(s: str) -> int:
    """How many characters of it are seen."""
    return len(ansistrip(s))


def size_to_str(s: int) -> str:
    """A number of bytes: 1.46 KB."""
    for power, unit in ((3, "GB"), (2, "MB"), (1, "KB")):
        if s >= 1024**power:
            return f"{s / 1024**power:.2f} {unit}"
    return f"{s} B"


def time_to_str(t: float, w: int = 8) -> str:
    """A number of seconds, w wide: 10.00us."""
    for least, scale, unit in ((10, 1, "s "), (1e-2, 1e3, "ms")):
        if t > least:
            return f"{t * scale:{w}.2f}{unit}"
    return f"{t * 1e6:{w}.2f}us"


def unwrap(x):
    """What is not None."""
    if x is None:
        raise AssertionError("unwrap: expected something, got None")
    return x


def get_single_element(x):
    """The one element of a list."""
    if len(x) != 1:
        raise AssertionError(f"get_single_element: expected one element, got {len(x)}")
    return x[0]


def merge_dicts(ds) -> dict:
    """All of several dictionaries, which agree where they have the same keys."""
    merged: dict = {}
    for d in ds:
        for key, value in d.items():
            if merged.setdefault(key, value) != value:
                raise RuntimeError(f"merge_dicts: {key!r} is {merged[key]!r} in one, {value!r} in another")
    return merged


def temp(x: str, append_user: bool = False) -> str:
    """The path of a file in the folder for such that are for a while."""
    return (pathlib.Path(tempfile.gettempdir()) / (f"{x}.{getpass.getuser()}" if append_user else x)).as_posix()


def cdiv(x: int, y: int) -> int:
    """x / y, rounded towards zero, as C does it; 0 by 0."""
    return 0 if y == 0 else abs(x) // abs(y) * (1 if x * y >= 0 else -1)


def cmod(x: int, y: int) -> int:
    """What cdiv() leaves, which has the sign of x."""
    return x - cdiv(x, y) * y


def round_down(num: int, amt: int) -> int:
    """The greatest multiple of amt that is not above num."""
    return num // amt * amt


def strides_for_shape(shape: tuple) -> tuple:
    """How far apart elements along each axis are, in order; 0 along axes of one element."""
    strides = list(itertools.accumulate(reversed(shape[1:]), operator.mul, initial=1))[::-1] if shape else []
    return tuple(0 if size == 1 else stride for size, stride in zip(shape, strides))


def to_mv(ptr: int, sz: int) -> memoryview:
    """The bytes at an address, which have to stay there."""
    return memoryview((ctypes.c_uint8 * sz).from_address(ptr)).cast("B")


def from_mv(mv: memoryview, to_type=ctypes.c_char):
    """An array of C over the same memory."""
    return ctypes.cast(ctypes.addressof(to_type.from_buffer(mv)), ctypes.POINTER(to_type * len(mv))).contents


def flat_mv(mv: memoryview) -> memoryview:
    """The bytes of memory that has axes."""
    return mv if len(mv) == 0 else mv.cast("B", shape=[mv.nbytes])


__all__ = [
    "OSX", "WIN", "Context", "ContextVar", "GlobalCounters", "Timing", "all_int", "all_same", "ansilen", "ansistrip", "argfix", "argsort",
    "cdiv", "ceildiv", "cmod", "colored", "colorize_float", "dedup", "fetch", "flat_mv", "flatten", "from_mv", "fully_flatten",
    "get_single_element", "getenv", "make_tuple", "merge_dicts", "partition", "prod", "round_down", "round_up", "size_to_str",
    "strides_for_shape", "temp", "time_to_str", "to_mv", "tqdm", "trange", "unwrap",
]

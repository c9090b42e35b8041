"""Variables of the environment: those of quern, those of tinygrad that mean nothing here, and a user's own; for a while, or from now on."""

import contextlib
import os
import threading
import warnings

from quern import _core


def getenv(key: str, default=0):
    """A variable of the environment, as the type of the default."""
    given = os.environ.get(key)
    if given is None or default is None:
        return default if given is None else given
    try:
        return type(default)(given)
    except ValueError:
        raise ValueError(f"getenv: {key} is {given!r}, expected {type(default).__name__}") from None


class ContextVar:
    """A variable with a name and a value, which Context(NAME=...) sets for a while. One of your own has a default, and is read from
    the environment when it is made."""

    def __init__(self, key: str, default_value: int | str):
        if key in variables:
            raise _core.Error(f"ContextVar: there is one called {key}")
        self.key = key
        self._value = getenv(key, default_value)
        self._add()

    def _add(self):
        self._open = []  # what sets it for a while, the latest last
        variables[self.key] = self

    @property
    def value(self):
        """What is in force now."""
        return self._value

    @value.setter
    def value(self, value):
        self._value = value

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


_lock = threading.RLock()


class _Setting:
    """A variable that is set until close(). What was set later and is still open goes back to what was before this one."""

    def __init__(self, variable, value):
        with _lock:
            self._variable, self._before, self._open = variable, variable.value, variable._open
            variable.value = value
            self._open.append(self)

    def close(self):
        with _lock:
            at = self._open.index(self)
            self._open.remove(self)
            if at < len(self._open):
                self._open[at]._before = self._before
            else:
                self._variable.value = self._before


class _OfCore(ContextVar):
    """One that the core reads, and checks."""

    def __init__(self, key: str):
        self.key = key
        self._add()

    @property
    def value(self):
        """What is in force now."""
        return _core.setting(self.key)

    @value.setter
    def value(self, value):
        _core.set_setting(self.key, value)


class _Training(_OfCore):
    """What Tensor.training says, which is of each thread by itself."""

    def __init__(self):
        self._of_thread = threading.local()
        super().__init__("TRAINING")

    @property
    def _open(self):
        return self._of_thread.__dict__.setdefault("open", [])

    @_open.setter
    def _open(self, value):
        self._of_thread.open = value

    @property
    def value(self):
        """What is in force now."""
        return int(_core.Tensor.training)

    @value.setter
    def value(self, value):
        _core.Tensor.training = bool(value)


variables: dict[str, ContextVar] = {}
for _name in _core.setting_names():
    _OfCore(_name)
_Training()

# Of tinygrad, about what quern does not have, or does by itself: they have values, and change nothing.
for _name in "ALLOW_TF32 FLOAT16 FUSE_ARANGE FUSE_OPTIM IMAGE NO_MEMORY_PLANNER PICKLE_BUFFERS TC_OPT VIZ WINO".split():
    ContextVar(_name, 0)
for _name in "ALLREDUCE_CAST CAPTURING LRU SCACHE TC TRACEMETA USE_TC".split():
    ContextVar(_name, 1)
ContextVar("TC_SELECT", -1)


class _Dev(ContextVar):
    """DEV of tinygrad: DEVICE by another name. What stands behind a colon, the renderer, is not told apart here."""

    def __init__(self):
        self.key = "DEV"
        self._add()
        if os.environ.get("DEV") and not os.environ.get("DEVICE"):
            self.value = os.environ["DEV"]

    @property
    def value(self):
        """What is in force now."""
        return _core.setting("DEVICE")

    @value.setter
    def value(self, value):
        kind, _, rest = str(value).partition(":")
        _core.set_setting("DEVICE", str(value) if rest.isdigit() else kind)


_Dev()

# Of tinygrad, too, and about the inside of it: a Context that sets them says so once.
_NO_MEANING = frozenset("""
ALL2ALL ALLOW_DEVICE_USAGE CACHELEVEL CAPTURE_PROCESS_REPLAY CCACHE CHECK_OOB DEBUG_RANGEIFY DISABLE_FAST_IDIV DISALLOW_BROADCAST
EMULATED_DTYPES IGNORE_BEAM_CACHE JIT_BATCH_SIZE MAX_BUFFER_SIZE NOLOCALS NULL_ALLOW_COPYOUT NUM_CPU_THREADS OPENPILOT_HACKS PARALLEL
REWRITE_STACK_LIMIT TRANSCENDENTAL TUPLE_ORDER USE_ATOMICS VALIDATE_WITH_CPU
""".split())


def _known(name: str) -> bool:
    if name in _NO_MEANING and name not in variables:
        warnings.warn(f"Context: {name} is a variable of tinygrad that has no meaning in quern: it changes nothing", stacklevel=4)
        ContextVar(name, 0)
    return name in variables


class Context(contextlib.ContextDecorator):
    """Variables (DEBUG, BEAM, NOOPT, ...) set until the end of a block: with Context(DEBUG=2): ..."""

    def __init__(self, **values):
        self._values = values
        self._open = []

    def __enter__(self):
        opened = []
        try:
            for name, value in self._values.items():
                if isinstance(value, _core.DType):
                    value = value.name
                if not isinstance(value, (int, str)):
                    raise TypeError(f"Context: {name} is {value!r}, expected a number or text")
                if not _known(name):
                    _core.set_setting(name, value)  # which says that there is none
                opened.append(_Setting(variables[name], value))
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


__all__ = ["Context", "ContextVar", "getenv", "variables"]

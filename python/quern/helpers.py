"""Settings for a while, counters of what ran, and numbers of the environment."""

import contextlib
import os

from quern import _core


class Context(contextlib.ContextDecorator):
    """Variables of quern (DEBUG, BEAM, NOOPT, ...) set until the end of a block: with Context(DEBUG=2): ..."""

    def __init__(self, **values):
        self._values = values
        self._open = []

    def __enter__(self):
        opened = []
        try:
            for name, value in self._values.items():
                opened.append(_core.Setting(name, value))
        except BaseException:
            for setting in reversed(opened):
                setting.close()
            raise
        self._open.append(opened)
        return self

    def __exit__(self, *_):
        for setting in reversed(self._open.pop()):
            setting.close()


class ContextVar:
    """One variable of quern's: its name and its value."""

    def __init__(self, name: str):
        self.key = name

    @property
    def value(self):
        """What is in force now."""
        return _core.setting(self.key)

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


_variables = {name: ContextVar(name) for name in _core.setting_names()}


def __getattr__(name):  # quern.helpers.DEBUG and the others
    try:
        return _variables[name]
    except KeyError:
        raise AttributeError(f"quern.helpers has no {name}") from None


def getenv(key: str, default=0):
    """A variable of the environment, as the type of the default."""
    return type(default)(os.environ.get(key, default))


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

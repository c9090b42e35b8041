"""quern.jit, by the name that it has in tinygrad."""

from quern.jit import CapturedJit, TinyJit

__all__ = ["CapturedJit", "TinyJit"]

"""Optimisations of a kernel by the names that they have in tinygrad: KernelInfo(opts_to_apply=(Opt(OptOps.UPCAST, 0, 4),))."""

import enum
from typing import NamedTuple


class OptOps(enum.Enum):
    """What is done to an axis (docs/codegen.md)."""

    UPCAST = "UPCAST"
    UNROLL = "UNROLL"
    LOCAL = "LOCAL"
    THREAD = "THREAD"
    GROUP = "GROUP"
    GROUPTOP = "GROUPTOP"
    NOLOCALS = "NOLOCALS"
    PADTO = "PADTO"
    SWAP = "SWAP"
    BLOCK = "BLOCK"
    PACK = "PACK"


class Opt(NamedTuple):
    """One optimisation: an axis, and how much of it. Its text is what kernels are told."""

    op: OptOps
    axis: int | None = None
    arg: int | None = None

    def __str__(self):
        return f"{self.op.name}({', '.join(str(v) for v in (self.axis, self.arg) if v is not None)})"


__all__ = ["Opt", "OptOps"]

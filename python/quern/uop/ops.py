"""Nodes, and what goes with them, by the names that they have in tinygrad."""

import enum
import re
from typing import NamedTuple

from quern._core import Ops, ShapeError, UOp, shown
from quern.uop.rules import PatternMatcher, UPat, graph_rewrite

sint = int | UOp


class AxisType(str, enum.Enum):
    """What a loop is for: UOp.range(8, 0, AxisType.REDUCE)."""

    LOOP, GLOBAL, LOCAL, WARP, THREAD = "LOOP", "GLOBAL", "LOCAL", "WARP", "THREAD"
    REDUCE, GROUP_REDUCE, UPCAST, UNROLL = "REDUCE", "GROUP_REDUCE", "UPCAST", "UNROLL"


class KernelInfo(NamedTuple):
    """The name of a kernel, and its optimisations as texts ("UPCAST(0, 4)"): the argument of its sink()."""

    name: str = "test"
    opts_to_apply: tuple[str, ...] = ()


_ALL = list(Ops)


def _between(first: Ops, last: Ops) -> set[Ops]:
    return set(_ALL[_ALL.index(first):_ALL.index(last) + 1])


class GroupOp:
    """Sets of ops."""

    All = set(_ALL)
    Unary = _between(Ops.NEG, Ops.TRUNC)
    Binary = _between(Ops.ADD, Ops.THREEFRY)
    Ternary = {Ops.WHERE, Ops.MULACC}
    ALU = Unary | Binary | Ternary
    Broadcastable = Binary | Ternary
    Elementwise = ALU | {Ops.CAST, Ops.BITCAST}
    Commutative = _between(Ops.ADD, Ops.CMPNE)
    Associative = _between(Ops.ADD, Ops.XOR)
    Idempotent = {Ops.OR, Ops.AND, Ops.MAX, Ops.MIN}
    Comparison = _between(Ops.CMPEQ, Ops.CMPLE)
    Reduce = {Ops.ADD, Ops.MUL, Ops.MAX}
    Movement = _between(Ops.RESHAPE, Ops.FLIP)
    Irreducible = {Ops.CONST, Ops.DEFINE_VAR, Ops.SPECIAL, Ops.RANGE, Ops.PARAM}
    Defines = {Ops.BUFFER, Ops.PARAM, Ops.DEFINE_LOCAL, Ops.DEFINE_REG}


class Variable:
    """An integer that is known later: Variable("n", 1, 4096).bind(17) is a size."""

    def __new__(cls, name: str, min_val: int, max_val: int, dtype=None) -> UOp:
        return UOp.variable(name, min_val, max_val, dtype)


# ---- sizes


def resolve(x, default: bool = True) -> bool:
    """Whether a condition holds; the default if its variables decide."""
    if not isinstance(x, UOp):
        return bool(x)
    least, most = bool(x.simplify().vmin), bool(x.simplify().vmax)
    return least if least == most else default


def ssimplify(x):
    """A size as simple as it can be: an int, if it is one."""
    if not isinstance(x, UOp):
        return x
    simple = x.simplify()
    return simple.arg if simple.op is Ops.CONST else simple


def sym_infer(x, var_vals: dict[str, int]) -> int:
    """What a size is with these values of its variables, by name; bound ones have their own if they are not among them."""
    if not isinstance(x, UOp):
        return x
    values = {}
    for node in x.toposort():
        if node.op is Ops.BIND and node.src[0].expr not in var_vals:
            values[node] = node.src[1]
        elif node.op is Ops.BIND or node.op is Ops.DEFINE_VAR and node.expr in var_vals:
            values[node] = node.const_like(var_vals[(node.src[0] if node.op is Ops.BIND else node).expr])
    return int(x.substitute(values))


def _extreme(choose, method, given):
    sizes = list(given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given)
    if all(isinstance(s, int) for s in sizes):
        return choose(sizes)
    found = next(s for s in sizes if isinstance(s, UOp))
    sizes.remove(found)
    for size in sizes:
        found = getattr(found, method)(size)
    return ssimplify(found)


def smax(*lst):
    """The greatest of several sizes."""
    return _extreme(max, "maximum", lst)


def smin(*lst):
    """The least of several sizes."""
    return _extreme(min, "minimum", lst)


# ---- what is added to nodes


def _sink(*src, arg=None) -> UOp:
    """The root of several: UOp.sink(a, b), or a.sink(b). arg: the name of a kernel, or a KernelInfo."""
    for node in src:
        if not isinstance(node, UOp):
            raise TypeError(f"expected a UOp for sink(), got {shown(node)}")
    if isinstance(arg, KernelInfo):
        arg = arg._replace(opts_to_apply=tuple(map(str, arg.opts_to_apply)))
    # of memory that was written it is the writing that counts
    return UOp(Ops.SINK, None, [effect for node in src for effect in node._effects()], arg)


def _render(self, simplify: bool = True) -> str:
    """A size as text, with its variables by name."""
    return re.sub(r"\$(\w+)(\[[^\]]*\])?", r"\1", repr(self.simplify() if simplify else self))


_all_nodes = UOp.toposort


def _toposort(self, gate=None) -> list[UOp]:
    """The node and all below it, sources first. gate: a function that says of a node whether it, and what is below it, is wanted."""
    if gate is None:
        return _all_nodes(self)
    found: dict[UOp, None] = {}
    entered: set[UOp] = set()
    waiting = [(self, False)]
    while waiting:
        node, is_done = waiting.pop()
        if is_done:
            found.setdefault(node)
        elif node not in entered and gate(node):
            entered.add(node)
            waiting.append((node, True))
            waiting.extend((source, False) for source in reversed(node.src))
    return list(found)


def _backward_slice(self) -> dict[UOp, None]:
    """All nodes below this one, sources first."""
    return dict.fromkeys(_all_nodes(self)[:-1])


def _buf_uop(self) -> UOp:
    """The memory that this node is a view of, or was written."""
    node = self
    while node.op is not Ops.BUFFER and node.op is not Ops.PARAM:
        if not node.src or node.op not in GroupOp.Movement | {Ops.AFTER, Ops.DETACH, Ops.CONTIGUOUS, Ops.MULTI, Ops.BITCAST}:
            raise ShapeError(f"buf_uop: {node.op} is no view of memory")
        node = node.src[0]
    return node


def _max_shape(self) -> tuple[int, ...]:
    """The sizes of the axes, at most."""
    return tuple(size if isinstance(size, int) else size.vmax for size in self.shape)


UOp.toposort = _toposort
UOp.backward_slice = property(_backward_slice)
UOp.buf_uop = property(_buf_uop)
UOp.max_shape = property(_max_shape)
UOp.sink = _sink
UOp.render = _render
UOp.ssimplify = ssimplify
UOp.sym_infer = sym_infer
UOp.__iter__ = None  # x[i] is a place in memory, of which there is no last

__all__ = [
    "AxisType", "GroupOp", "KernelInfo", "Ops", "PatternMatcher", "UOp", "UPat", "Variable", "graph_rewrite", "resolve", "sint", "smax",
    "smin", "ssimplify", "sym_infer",
]

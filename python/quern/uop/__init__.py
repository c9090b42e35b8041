"""Nodes, and rules that rewrite them, written in Python."""

from quern.uop.ops import AxisType, GroupOp, KernelInfo, Ops, PatternMatcher, UOp, UPat, Variable, graph_rewrite


def _parse(text: str) -> UOp:
    return UOp.parse(text)


UOp.__reduce__ = lambda self: (_parse, (repr(self),))

__all__ = ["AxisType", "GroupOp", "KernelInfo", "Ops", "PatternMatcher", "UOp", "UPat", "Variable", "graph_rewrite"]

"""Nodes, and rules that rewrite them, written in Python."""

from quern._core import Ops, UOp
from quern.uop.rules import PatternMatcher, UPat, graph_rewrite


def _parse(text: str) -> UOp:
    return UOp.parse(text)


UOp.__reduce__ = lambda self: (_parse, (repr(self),))


class Variable:
    """An integer that is known later: Variable("n", 1, 4096).bind(17) is a size."""

    def __new__(cls, name: str, min_val: int, max_val: int, dtype=None) -> UOp:
        return UOp.variable(name, min_val, max_val, dtype)


__all__ = ["Ops", "PatternMatcher", "UOp", "UPat", "Variable", "graph_rewrite"]

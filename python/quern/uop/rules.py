"""Rules: a pattern, and a function of what it captured that returns another node, or None to refuse.

    rules = PatternMatcher([(UPat.var("x") * 1, lambda x: x)])
    graph_rewrite(node, rules)
"""

import inspect
import itertools

from quern import _core
from quern._core import DType, Ops, UOp, as_dtype, shown

_COMMUTATIVE = {Ops.ADD, Ops.MUL, Ops.MAX, Ops.MIN, Ops.AND, Ops.OR, Ops.XOR, Ops.CMPEQ, Ops.CMPNE}


def _check_pattern(what, pattern):
    if not isinstance(pattern, UPat):
        raise TypeError(f"{what}: expected a UPat, got {shown(pattern)}")


def _tuple(value):
    return None if value is None else tuple(value) if isinstance(value, (tuple, list, set, frozenset)) else (value,)


class UPat:
    """What a node has to look like. src: a tuple of patterns in order, a list in any order, or one pattern for all."""

    def __init__(self, op=None, dtype=None, src=None, arg=None, name=None, allow_any_len=False):
        self.op = _tuple(op)
        for o in self.op or ():
            if not isinstance(o, Ops):
                raise TypeError(f"UPat: op is one of Ops, or several of them, not {o!r}")
        self.dtype = None if dtype is None else tuple(as_dtype(d) for d in _tuple(dtype))
        self.src, self.arg, self.name, self.allow_any_len = src, arg, name, allow_any_len
        if src is not None and not isinstance(src, (UPat, tuple, list)):
            raise TypeError(f"UPat: src is a pattern, a tuple or a list of them, not {shown(src)}")
        for part in src if isinstance(src, (tuple, list)) else ():
            _check_pattern("UPat: src", part)

    @staticmethod
    def var(name=None, dtype=None):
        """Any node."""
        return UPat(dtype=dtype, name=name)

    @staticmethod
    def cvar(name=None, dtype=None):
        """A constant."""
        return UPat(Ops.CONST, dtype=dtype, name=name)

    @staticmethod
    def const(b, dtype=None):
        """The constant that equals a number; the dtype may also stand first."""
        if isinstance(b, (DType, str, tuple, list)) or b is None:
            b, dtype = dtype, b
        return UPat(Ops.CONST, dtype=dtype, arg=b)

    @staticmethod
    def any(*patterns):
        """The first of several that matches."""
        return _Any(patterns)

    def named(self, name):
        """The same, captured by a name."""
        return UPat(self.op, self.dtype, self.src, self.arg, name, self.allow_any_len)

    def or_casted(self, name=None):
        """This, or a CAST of it; the name is that of what is found."""
        return UPat.any(self if name is None else self.named(name), UPat(Ops.CAST, src=(self,), name=name))

    def matches(self, node: UOp, known: dict):
        """Every way in which a node fits: dictionaries of what is captured, by name."""
        if self.op is not None and node.op not in self.op:
            return
        if self.dtype is not None and node.dtype not in self.dtype and node.dtype.scalar() not in self.dtype:
            return
        if self.arg is not None and (type(node.arg) is bool) != (type(self.arg) is bool):
            return
        if self.arg is not None and node.arg != self.arg:
            return
        if self.name is not None:
            if self.name in known and not known[self.name] == node:
                return
            known = {**known, self.name: node}
        if self.src is None:
            yield known
            return
        sources = node.src
        if isinstance(self.src, UPat):
            yield from _match_all([self.src] * len(sources), sources, known)
            return
        if len(sources) != len(self.src) and not (self.allow_any_len and len(sources) > len(self.src)):
            return
        orders = itertools.permutations(self.src) if isinstance(self.src, list) else [self.src]
        for order in orders:
            yield from _match_all(order, sources, known)

    def names(self) -> set[str]:
        """What it captures."""
        parts = (self.src,) if isinstance(self.src, UPat) else self.src or ()
        return {self.name}.union(*(part.names() for part in parts)) - {None}

    def match(self, node: UOp, known=None) -> list[dict]:
        """All ways in which a node fits."""
        return list(self.matches(node, known or {}))

    def _with(self, op, *others, reverse=False):
        operands = [self, *(o if isinstance(o, UPat) else _Number(o) for o in others)]
        if reverse:
            operands.reverse()
        return UPat(op, src=operands if op in _COMMUTATIVE else tuple(operands))

    def alu(self, op, *src):
        """An op of this and others."""
        return self._with(op, *src)

    def cast(self, dtype=None):
        """A CAST of this."""
        return UPat(Ops.CAST, dtype=dtype, src=(self,))

    def load(self, *src, **kwargs):
        """A LOAD from this."""
        return UPat(Ops.LOAD, src=(self, *src), **kwargs)

    def store(self, *src, **kwargs):
        """A STORE to this."""
        return UPat(Ops.STORE, src=(self, *src), **kwargs)

    def index(self, *src, **kwargs):
        """An INDEX of this."""
        return UPat(Ops.INDEX, src=(self, *src), **kwargs)

    def f(self, op, **kwargs):
        """A node of an op over this."""
        return UPat(op, src=(self,), **kwargs)

    def bitcast(self, dtype=None):
        """A BITCAST of this."""
        return UPat(Ops.BITCAST, dtype=dtype, src=(self,))

    def after(self, *src, **kwargs):
        """An AFTER of this."""
        return UPat(Ops.AFTER, src=(self, *src), **kwargs)

    def end(self, *src, **kwargs):
        """An END of this."""
        return UPat(Ops.END, src=(self, *src), **kwargs)

    def sink(self, *src, **kwargs):
        """A SINK of this and others."""
        return UPat(Ops.SINK, src=(self, *src), **kwargs)

    def reduce(self, *src, **kwargs):
        """A REDUCE of this."""
        return UPat(Ops.REDUCE, src=(self, *src), **kwargs)

    def or_after(self, name=None):
        """This, or an AFTER of it; the name is that of what is found."""
        return UPat.any(self if name is None else self.named(name), UPat(Ops.AFTER, src=(self,), name=name, allow_any_len=True))

    def where(self, yes, no):
        """A WHERE with this as the condition."""
        return self._with(Ops.WHERE, yes, no)

    def __add__(self, other): return self._with(Ops.ADD, other)
    def __radd__(self, other): return self._with(Ops.ADD, other, reverse=True)
    def __sub__(self, other): return self + (other * -1 if isinstance(other, UPat) else -other)
    def __mul__(self, other): return self._with(Ops.MUL, other)
    def __rmul__(self, other): return self._with(Ops.MUL, other, reverse=True)
    def __neg__(self): return self * -1
    def __floordiv__(self, other): return self._with(Ops.FLOORDIV, other)
    def __truediv__(self, other): return self._with(Ops.FDIV, other)
    def __mod__(self, other): return self._with(Ops.FLOORMOD, other)
    def __and__(self, other): return self._with(Ops.AND, other)
    def __or__(self, other): return self._with(Ops.OR, other)
    def __xor__(self, other): return self._with(Ops.XOR, other)
    def __lshift__(self, other): return self._with(Ops.SHL, other)
    def __rshift__(self, other): return self._with(Ops.SHR, other)
    def __lt__(self, other): return self._with(Ops.CMPLT, other)
    def __le__(self, other): return self._with(Ops.CMPLE, other)
    def eq(self, other): return self._with(Ops.CMPEQ, other)
    def ne(self, other): return self._with(Ops.CMPNE, other)
    def maximum(self, other): return self._with(Ops.MAX, other)
    def minimum(self, other): return self._with(Ops.MIN, other)

    def __repr__(self):
        parts = [f"{k}={v!r}" for k, v in vars(self).items() if v not in (None, False)]
        return f"UPat({', '.join(parts)})"


class _Number(UPat):
    """A constant equal to a number, whatever its dtype."""

    def __init__(self, value):
        super().__init__(Ops.CONST)
        self.value = value

    def matches(self, node, known):
        if node.op == Ops.CONST and not isinstance(node.arg, str) and node.arg == self.value:
            yield known


class _Any(UPat):
    def __init__(self, patterns):
        for pattern in patterns:
            _check_pattern("UPat.any", pattern)
        ops = [p.op for p in patterns]
        super().__init__(None if None in ops else tuple(o for op in ops for o in op))
        self.patterns = patterns

    def names(self):
        return super().names().union(*(pattern.names() for pattern in self.patterns))

    def matches(self, node, known):
        for pattern in self.patterns:
            yield from pattern.matches(node, known)


def _match_all(patterns, sources, known):
    """All ways in which several patterns fit as many nodes, one after the other."""
    if not patterns:
        yield known
        return
    for first in patterns[0].matches(sources[0], known):
        yield from _match_all(patterns[1:], sources[1:], first)


def _rule(number, given):
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise TypeError(f"PatternMatcher: rule {number} is {given!r}, expected (pattern, function)")
    _check_pattern(f"PatternMatcher: rule {number}", given[0])
    if not callable(given[1]):
        raise TypeError(f"PatternMatcher: rule {number}: expected a function, got {shown(given[1])}")
    return tuple(given)


class PatternMatcher:
    """Rules in order: (pattern, function). The function gets what was captured by the names of its parameters, and the
    context as `ctx`. The first that returns another node wins."""

    def __init__(self, patterns):
        self.patterns = [_rule(number, given) for number, given in enumerate(patterns)]
        self._by_op, self._anywhere = {}, []
        for number, (pattern, function) in enumerate(self.patterns):
            parameters = inspect.signature(function).parameters
            known = pattern.names()
            for name, p in parameters.items():
                if name != "ctx" and name not in known and p.default is p.empty and p.kind is not p.VAR_KEYWORD:
                    raise TypeError(f"PatternMatcher: the function of rule {number} has the parameter {name}, its pattern captures "
                                    f"{', '.join(sorted(known)) or 'nothing'}")
            rule = (number, pattern, function, "ctx" in parameters,
                    any(p.kind == p.VAR_KEYWORD for p in parameters.values()), tuple(n for n in parameters if n in known))
            if pattern.op is None:
                self._anywhere.append(rule)
            else:
                for op in pattern.op:
                    self._by_op.setdefault(op, []).append(rule)
        self._rules = {}

    @property
    def roots(self) -> list[Ops]:
        """The ops that a rule may start from; none: all."""
        return [] if self._anywhere else list(self._by_op)

    def __add__(self, other):
        if not isinstance(other, PatternMatcher):
            return NotImplemented
        return PatternMatcher(self.patterns + other.patterns)

    def rewrite(self, node: UOp, ctx=None) -> UOp | None:
        """What the first rule that applies makes of a node; None if there is none."""
        rules = self._rules.get(node.op)
        if rules is None:
            rules = self._rules[node.op] = sorted(self._by_op.get(node.op, []) + self._anywhere, key=lambda r: r[0])
        for _, pattern, function, takes_context, takes_all, names in rules:
            for captured in pattern.matches(node, {}):
                if not takes_all:
                    captured = {name: captured.get(name) for name in names}
                result = function(ctx=ctx, **captured) if takes_context else function(**captured)
                if result is not None and not isinstance(result, UOp):
                    raise TypeError(f"expected a UOp or None from a rule, got {shown(result)}")
                if result is not None and not result == node:
                    return result
        return None


def graph_rewrite(sink: UOp, pm: PatternMatcher, ctx=None, bottom_up=False, name=None) -> UOp:
    """Applies rules to every node of a graph until none applies. bottom_up: a node is tried before its sources."""
    if not isinstance(sink, UOp) or not isinstance(pm, PatternMatcher):
        raise TypeError(f"graph_rewrite: expected a UOp and a PatternMatcher, got {shown(sink)} and {shown(pm)}")
    return _core.rewrite_nodes(sink, lambda node: pm.rewrite(node, ctx), pm.roots, bottom_up, name or "rewrite")


__all__ = ["DType", "PatternMatcher", "UPat", "graph_rewrite"]

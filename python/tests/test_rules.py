"""Rewrite rules that a user writes in Python: every way to say a pattern, and what becomes of a graph."""

import pytest

from quern import Tensor, Variable, dtypes
from quern.uop import Ops, PatternMatcher, UOp, UPat, graph_rewrite

a, b, c = (Variable(name, 0, 9) for name in "abc")
x, y = UPat.var("x"), UPat.var("y")


@pytest.mark.parametrize("pattern, node", [
    (x + y, a + b), (x * y, a * b), (x // y, UOp(Ops.FLOORDIV, dtypes.index, (a, b))),
    (x % y, UOp(Ops.FLOORMOD, dtypes.index, (a, b))), (x & y, a & b), (x | y, a | b), (x ^ y, a ^ b), (x << y, a << b),
    (x >> y, a >> b), (x < y, a < b),
    (x.eq(y), a.eq(b)), (x.ne(y), a.ne(b)), (x.maximum(y), a.maximum(b)), (x.minimum(y), a.minimum(b)), (-x, -a),
    (x - y, a - b), (x - 3, a + (-3)), (3 + x, a + 3), (3 * x, a * 3), (x.cast(), a.cast("float32")), (x.cast("float32"), a.cast("float32")),
    ((x < y).where(x, y), (a < b).where(a, b)), (x.alu(Ops.MUL, y), a * b), (UPat(Ops.ADD), a + b), (UPat((Ops.MUL, Ops.ADD)), a + b),
    (UPat(Ops.ADD, src=(x, y)), a + b), (UPat(Ops.ADD, src=[y, x]), a + b), (UPat(Ops.ADD, src=UPat(Ops.DEFINE_VAR)), a + b),
    (UPat(dtype="index"), a), (UPat(dtype=(dtypes.int32, dtypes.index)), a), (UPat.cvar("c"), UOp.const("int32", 3)),
    (UPat.const("int32", 3), UOp.const("int32", 3)), (UPat.any(x * y, x + y), a + b),
    (UPat(Ops.SINK, src=(x,), allow_any_len=True), UOp.sink(a, b)), (UPat(Ops.DEFINE_VAR, arg=("a", 0, 9)), a), ((x + y) * x, (a + b) * a),
], ids=str)
def test_patterns_that_fit(pattern, node):
    found = pattern.match(node)
    assert found
    for captured in found:
        assert set(captured) <= pattern.names() and all(isinstance(value, UOp) for value in captured.values())


@pytest.mark.parametrize("pattern, node", [
    (x + y, a * b), (x + x, a + b), (x + 3, a + 4), (UPat(Ops.ADD, src=(x,)), a + b), (UPat(dtype="float32"), a),
    (UPat.cvar("c"), a), (UPat.const("int32", 3), UOp.const("int32", 4)), (UPat.any(x * y, x - 3), a + 4), ((x + y) * x, (a + b) * c),
    (UPat.const("bool", True), UOp.const("int32", 1)), (x.cast("float32"), a.cast("float64")), (UPat.any(), a),
    (x < y, UOp(Ops.CMPLE, dtypes.bool, (a, b))), (UPat(Ops.SINK, src=(x,)), UOp.sink(a, b)),
], ids=str)
def test_patterns_that_do_not_fit(pattern, node):
    assert pattern.match(node) == []


def test_what_is_captured():
    assert (x + y).match(a + b) == [{"x": a, "y": b}, {"x": b, "y": a}]  # sums have no order
    assert UPat(Ops.ADD, src=(x, y)).match(a + b) == [{"x": a, "y": b}]
    assert (x + x).match(a + a) == [{"x": a}, {"x": a}]
    assert (x * y).named("whole").match(a * b)[0]["whole"] == a * b
    assert x.match(a, {"x": b}) == [] and x.match(a, {"x": a}) == [{"x": a}]
    assert ((x + y) * UPat.cvar("c")).names() == {"x", "y", "c"} and UPat.any(x, y).names() == {"x", "y"}


def test_a_graph_is_rewritten_until_no_rule_applies():
    rules = PatternMatcher([
        ((x + y) * UPat.cvar("c"), lambda x, y, c: x * c + y * c),
        (x * UPat.cvar("c"), lambda x, c: x if c.arg == 1 else None),
    ])
    assert graph_rewrite((a + b + c) * 2, rules) == a * 2 + b * 2 + c * 2
    assert graph_rewrite((a + b) * 1, rules) == a + b
    assert graph_rewrite(a // 2, rules) == a // 2


def test_the_first_rule_that_answers_wins():
    said = []

    def say(word, result=None):
        return lambda x: said.append(word) or result

    rules = PatternMatcher([(x + 1, say("first")), (x + 1, say("second", b)), (x + 1, say("third", c))])
    assert rules.rewrite(a + 1) == b and said == ["first", "second"]
    assert (PatternMatcher([(x + 1, lambda x: c)]) + rules).rewrite(a + 1) == c
    assert (rules + PatternMatcher([(x * 2, lambda x: x)])).rewrite(a * 2) == a
    assert rules.rewrite(a * 7) is None


def test_parameters_of_functions():
    seen = []
    rules = PatternMatcher([
        (x * 2, lambda x, by=5: x * by),  # what is not captured keeps its default
        (x + 3, lambda ctx, x: ctx.append(x)),
        (UPat(Ops.FLOORDIV, src=(x, UPat.cvar("c"))), lambda **all_: seen.append(sorted(all_))),
        (UPat.any(UPat(Ops.AND, src=(x, y)), UPat(Ops.OR, src=(x,), allow_any_len=True)), lambda x, y: x if y is None else y),
    ])
    context = []
    assert rules.rewrite(a * 2) == a * 5
    assert rules.rewrite(a + 3, context) is None and context == [a]
    assert rules.rewrite(UOp(Ops.FLOORDIV, dtypes.index, (a, a.const_like(4)))) is None and seen == [["c", "x"]]
    assert rules.rewrite(a & b) == b and rules.rewrite(a | b) == a


def test_order_of_a_rewrite():
    def order(**kwargs):
        seen = []
        rules = PatternMatcher([(UPat((Ops.ADD, Ops.MUL), name="u"), lambda ctx, u: ctx.append(u.op))])
        graph_rewrite(a * 2 + 1, rules, ctx=seen, **kwargs)
        return seen

    assert order() == [Ops.MUL, Ops.ADD]
    assert order(bottom_up=True) == [Ops.ADD, Ops.MUL]


def test_a_node_that_is_used_twice_is_rewritten_once():
    seen = []
    shared = a * 3
    graph_rewrite(shared + (shared + 1), PatternMatcher([(x * 3, lambda ctx, x: ctx.append(x))]), ctx=seen)
    assert seen == [a]


def test_long_graphs():
    node = a
    for i in range(3000):
        node = node * 2 + (i % 7)
    doubled = graph_rewrite(node, PatternMatcher([(UPat.cvar("c"), lambda c: c.const_like(3) if c.arg == 2 else None)]))
    left = doubled.toposort()
    assert not any(u.op == Ops.CONST and u.arg == 2 for u in left) and len(left) > 6000


def test_rules_for_tensors():
    data = Tensor([1.0, 4.0, 9.0]).realize()
    total = (data.sqrt() + data * 2).sum()
    graph = total.uop
    halves = PatternMatcher([
        (UPat(Ops.SQRT, src=(x,)), lambda x: x),
        (UPat.cvar("c", dtype="float32"), lambda c: c.const_like(0.5) if c.arg == 2 else None),
    ])
    assert Tensor(graph_rewrite(graph, halves)).item() == 21.0
    assert total.item() == Tensor(graph).item() == 34.0  # it is another graph


def test_rules_that_put_one_tensor_for_another():
    old, new = Tensor([1.0, 2.0]).realize(), Tensor([5.0, 6.0]).realize()
    graph = (old * 3).uop
    swapped = graph_rewrite(graph, PatternMatcher([(UPat(Ops.BUFFER, name="u"), lambda ctx, u: ctx.get(u))]), ctx={old.uop: new.uop})
    assert Tensor(swapped).tolist() == [15.0, 18.0]
    assert Tensor(graph.substitute({old.uop: new.uop})).tolist() == [15.0, 18.0]

"""Nodes and rules in Python."""

import pickle

import numpy as np
import pytest

import quern
from quern import Tensor, Variable, dtypes
from quern.uop import Ops, PatternMatcher, UOp, UPat, graph_rewrite


def test_nodes():
    n = Variable("n", 1, 10)
    assert n.op == Ops.DEFINE_VAR and n.arg == ("n", 1, 10) and n.dtype == dtypes.index
    assert n + 1 == n + 1 and (n + 1) is not None and hash(n + 1) == hash(n + 1)
    assert (n + 1).src[0] == n and (n * 2).vmax == 20 and (3 - n).vmin == -7
    assert (n * 4 // 4).simplify() == n
    assert ((n + 0) * 1).simplify() == n
    assert [u.op for u in (n + 1).toposort()][-1] == Ops.ADD
    assert (n + 1).substitute({n: n * 2}) == n * 2 + 1
    assert n.bind(3).unbind() == (n, 3)
    assert UOp.parse(repr(n + 1)) == n + 1
    assert pickle.loads(pickle.dumps(n * 3)) == n * 3
    assert UOp.const(dtypes.int32, 5).arg == 5
    assert UOp(Ops.CONST, dtypes.float32, arg=2.5).arg == 2.5
    assert (n + 1).replace(op=Ops.MUL) == n * 1
    assert UOp.range(8, 0).arg == (0, "LOOP")


def test_wrong_nodes():
    with pytest.raises(quern.Error):
        UOp(Ops.ADD, dtypes.int32, (UOp.const("int32", 1),))
    with pytest.raises(quern.Error):
        UOp.const("int32", 1) + UOp.const("float32", 1)
    with pytest.raises(quern.Error):
        UOp.parse("%%%")
    with pytest.raises(quern.Error):
        Variable("n", 5, 1)
    with pytest.raises(quern.Error):
        Variable("n", 1, 5).bind(9)


def test_rules():
    a, b = Variable("a", 0, 9), Variable("b", 0, 9)
    rules = PatternMatcher([
        (UPat.var("x") * 1, lambda x: x),
        (UPat.var("x") + 0, lambda x: x),
        (UPat.var("x") + UPat.var("x"), lambda x: x * 2),
        (UPat(Ops.FLOORDIV, src=(UPat.var("x"), UPat.cvar("c")), name="whole"),
         lambda ctx, x, c, whole: ctx.append(whole) or (x if c.arg == 1 else None)),
    ])
    seen = []
    assert graph_rewrite((a * 1 + 0) + a * 1, rules, ctx=seen) == a * 2
    node = UOp(Ops.FLOORDIV, dtypes.index, (b, b.const_like(1)))
    assert graph_rewrite(node + a, rules, ctx=seen) in (b + a, a + b)
    assert seen
    assert rules.rewrite(b * 1) == b and rules.rewrite(b) is None
    both = PatternMatcher([(UPat.cvar("c"), lambda c: c.const_like(7) if c.arg == 3 else None)]) + rules
    assert graph_rewrite(a * 3, both) == a * 7
    assert graph_rewrite(a * 3, both, bottom_up=True) == a * 7


def test_rules_that_never_rest():
    rules = PatternMatcher([(UPat.var("x") + UPat.var("y"), lambda x, y: (x + 1) + (y + 1))])
    with pytest.raises(quern.Error):
        graph_rewrite(Variable("a", 0, 9) + Variable("b", 0, 9), rules)


def test_rules_that_raise():
    def fail(x):
        raise KeyError("mine")

    with pytest.raises(KeyError):
        graph_rewrite(Variable("a", 0, 9) + 1, PatternMatcher([(UPat.var("x") + 1, fail)]))


def test_tensor_graph():
    x = Tensor([1.0, 2.0]).realize()
    y = x * 3
    rules = PatternMatcher([(UPat.cvar("c"), lambda c: c.const_like(5) if c.arg == 3 else None)])
    assert Tensor(graph_rewrite(y.uop, rules)).tolist() == [5, 10]


def test_custom_kernel():
    def double(out, x):
        i = UOp.range(4, 0)
        at = UOp(Ops.INDEX, x.dtype, (x, i))
        load = UOp(Ops.LOAD, dtypes.float32, (at,))
        store = UOp(Ops.STORE, None, (UOp(Ops.INDEX, out.dtype, (out, i)), load * 2.0))
        return UOp.sink(UOp(Ops.END, None, (store, i)))

    out, x = Tensor.empty(4), Tensor([1.0, 2.0, 3.0, 4.0])
    result = out.custom_kernel(x, fxn=double)[0]
    np.testing.assert_array_equal(result.numpy(), [2, 4, 6, 8])


def test_refused_nodes_are_freed():
    with pytest.raises(quern.SpecError):
        UOp(Ops.UNIQUE)

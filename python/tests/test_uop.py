"""Nodes and rules in Python."""

import pickle

import numpy as np
import pytest

import quern
from quern import Tensor, Variable, dtypes
from quern.uop import AxisType, GroupOp, KernelInfo, Ops, PatternMatcher, UOp, UPat, graph_rewrite
from quern.uop.ops import resolve, smax, smin, ssimplify, sym_infer


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


def test_constants_in_both_orders():
    assert UOp.const(2, dtypes.int32) == UOp.const(dtypes.int32, 2) == UOp.const(b=2, dtype="int32")
    assert UOp.const(2.5).dtype == dtypes.default_float and UOp.const(True).dtype == dtypes.bool
    n = Variable("n", 0, 9)
    for pattern in (UPat.const(0), UPat.const(dtypes.index, 0), UPat.const(0, dtypes.index), UPat.const(None, 0)):
        assert PatternMatcher([(UPat.var("x") + pattern, lambda x: x)]).rewrite(n + 0) == n
    assert PatternMatcher([(UPat.var("x") + UPat.const(0, dtypes.int32), lambda x: x)]).rewrite(n + 0) is None


def test_or_casted():
    rules = PatternMatcher([(UPat.cvar("c").or_casted("found") + UPat.var("x"), lambda c, found, x: found)])
    n = UOp.variable("n", 0, 9, dtypes.int32)
    const = UOp.const(3, dtypes.int64)
    assert rules.rewrite(const.cast(dtypes.int32) + n) == const.cast(dtypes.int32)
    assert rules.rewrite(UOp.const(3, dtypes.int32) + n) == UOp.const(3, dtypes.int32)


def test_groups_of_ops():
    assert Ops.ADD in GroupOp.Commutative and Ops.SUB not in GroupOp.Commutative and Ops.SUB in GroupOp.Binary
    assert GroupOp.Unary | GroupOp.Binary | GroupOp.Ternary == GroupOp.ALU and GroupOp.ALU < GroupOp.Elementwise < GroupOp.All
    assert GroupOp.Movement == {Ops.RESHAPE, Ops.EXPAND, Ops.PAD, Ops.SHRINK, Ops.PERMUTE, Ops.FLIP}
    assert GroupOp.Comparison == {Ops.CMPEQ, Ops.CMPNE, Ops.CMPLT, Ops.CMPLE} and GroupOp.Ternary == {Ops.WHERE, Ops.MULACC}
    n = UOp.const(6)
    for op in GroupOp.Associative:
        assert n.alu(op, 3).alu(op, 2).simplify() == n.alu(op, n.const_like(3).alu(op, 2)).simplify()


def test_sizes_as_ints():
    n, m = Variable("n", 1, 9), Variable("m", 1, 9)
    assert resolve(n > 20) is False and resolve(n > 5) is True and resolve(n > 5, False) is False and resolve(3) is True
    assert ssimplify(n * 0 + 2) == 2 and (n - n).ssimplify() == 0 and ssimplify(7) == 7
    assert smax(n, 3).vmin == 3 and smax(1, 5) == 5 and smin((n, 0)) == 0 and smax(n, m) == n.maximum(m).simplify()
    assert sym_infer(n * 2 + m, {"n": 3, "m": 1}) == 7 and sym_infer(5, {}) == 5 and n.bind(4).sym_infer({}) == 4
    assert (n.bind(4) + m).sym_infer({"n": 2, "m": 1}) == 3
    with pytest.raises(ValueError, match="depends on the value of m"):
        sym_infer(n + m, {"n": 3})
    assert (n * 2 + 3).render() == "n * 2 + 3" and (n * 1).render() == "n" and (n * 1).render(simplify=False) == "n * 1"


def test_memory_of_a_tensor():
    x = Tensor([[1.0, 2.0], [3.0, 4.0]]).realize()
    view = x.permute(1, 0).uop
    assert view.base == x.uop.base and view.is_realized and not (x + 1).uop.is_realized
    assert view.shape == (2, 2) == view.size() and view.size(-1) == 2 and view.flatten().shape == (4,)
    with pytest.raises(quern.IndexError):
        view.size(2)


def test_kernels_as_tinygrad_writes_them():
    def add(out, x):
        i = UOp.range(x.size(0), 0)
        return out[i].store(x[i] + 1).end(i).sink(arg=KernelInfo(name="add"))

    def double(out, x):
        i = UOp.range(4, 0)
        return out[i].set(2 * x[i], end=i).sink(arg=KernelInfo("double", opts_to_apply=("UPCAST(0, 2)",)))

    def total(out, x):
        x = x.flatten()
        i = UOp.range(x.size(0), 0, AxisType.REDUCE)
        return out[0].set(x[i].reduce(i, arg=Ops.ADD)).sink()

    def most(out, x):
        i = UOp.range(4, 0, axis_type=AxisType.REDUCE)
        return out.index(0).store((x[i] * x[i]).reduce(i, arg=Ops.MAX)).sink(arg="most")

    def both(out, x):
        i = UOp.range(4, 0)
        return out[i].store((x[i] < 2.5).where(x[i], -x[i])).end(i).sink()

    def places(out, x):
        i = UOp.range(4, 0)
        return out[i].store(i).end(i).sink()

    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    for kernel, size, expected in ((add, 4, [2, 3, 4, 5]), (double, 4, [2, 4, 6, 8]), (total, 1, [10]), (most, 1, [16]),
                                   (both, 4, [1, 2, -3, -4]), (places, 4, [0, 1, 2, 3])):
        assert Tensor.empty(size).custom_kernel(x, fxn=kernel)[0].tolist() == expected


def test_wrong_kernels():
    memory = []

    def keep(out):
        memory.append(out)
        return out[0].store(1.0).sink()

    assert Tensor.empty(1).custom_kernel(fxn=keep)[0].tolist() == [1]
    for kind, text, call in (
        (quern.ShapeError, "index: memory of a kernel has one axis, not 2", lambda: memory[0][0, 1]),
        (quern.DTypeError, "index: expected memory of a kernel, got CONST", lambda: UOp.const(1)[0]),
        (quern.DTypeError, "store: expected a place in memory", lambda: memory[0].store(1.0)),
        (TypeError, "expected a UOp or a number for store", lambda: memory[0][0].store("a")),
        (TypeError, "expected a UOp for end", lambda: memory[0].end(3)),
        (TypeError, "expected a UOp for sink", lambda: UOp.sink(3)),
        (TypeError, "not iterable", lambda: list(memory[0])),
    ):
        with pytest.raises(kind, match=text):
            call()


def test_graphs_that_are_no_tensors():
    memory = Tensor([1.0, 2.0, 3.0, 4.0]).realize()
    n, one = Variable("n", 0, 2), UOp.const(dtypes.index, 1)
    part = lambda of, offset: UOp(Ops.SLICE, dtypes.float32, (of, offset), 2)
    assert (Tensor(part(memory.uop, one)) + 1).tolist() == [3, 4]
    for node in [
        UOp(Ops.STATE, dtypes.float32, arg=0),
        UOp(Ops.VECTORIZE, dtypes.float32, (memory.uop,)),
        UOp(Ops.GEP, dtypes.float32, (memory.uop,), (0,)),
        UOp.range(4, 0).cast(dtypes.float32),
        part(memory.uop, n), part(memory.uop, n.bind(1)), part((memory + 1).uop, one), part(UOp.const(dtypes.float32, 1.0), one),
    ]:
        for tensor in (Tensor(node) + 1, Tensor(node).sum() if node.op is Ops.SLICE else Tensor(node) + Tensor([1.0])):
            with pytest.raises(quern.SpecError, match="^tensor level: "):
                tensor.numpy()

"""Wrong use of gradients, assignment, jit, variables, settings, nodes, rules and kernels."""

import os
import subprocess
import sys

import pytest
from wrong import refuses, row, wanted

import quern
from quern import Context, DeviceError, DTypeError, Error, ParseError, RewriteError, ShapeError, SpecError
from quern import Tensor, TinyJit, Variable, getenv, nn
from quern.uop import Ops, PatternMatcher, UOp, UPat, graph_rewrite

n = Variable("n", 1, 10)
m = Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).realize()
a = Tensor([1.0, 2.0]).realize()
one, half = UOp.const("int32", 1), UOp.const("float32", 0.5)


any_node = UPat.var("x")


def numbers(*values, **kwargs):
    return Tensor(list(values), **kwargs).realize()


def set_to(thing, name, value):
    return lambda: setattr(thing, name, value)


GRADIENTS = [
    row(ShapeError, "backward: a loss of shape (2, 3) needs a gradient of that shape", lambda: m.backward()),
    row(DTypeError, "backward: the loss has dtype int32; only floats have gradients", lambda: Tensor([1, 2]).sum().backward()),
    row(ShapeError, "backward: the loss has shape (), the gradient given for it (3,)", lambda: m.sum().backward(Tensor.ones(3))),
    row(DTypeError, "backward: the loss has dtype float32, the gradient given for it int32", lambda: a.backward(Tensor([1, 2]))),
    row(TypeError, "backward(): incompatible function arguments", lambda: a.sum().backward(5)),
    row(DTypeError, "gradient: target 0 has dtype int32; only floats have gradients", lambda: a.sum().gradient(Tensor([1]))),
    row(TypeError, "expected a Tensor, got 5", lambda: a.sum().gradient(5)),
    row(DTypeError, "requires_grad: gradients need floats, this tensor is int32 (2,)", set_to(Tensor([1, 2]), "requires_grad", True)),
    row(ShapeError, "the gradient has shape (7,), the tensor (2,)", set_to(a, "grad", Tensor.ones(7))),
    row(ShapeError, "assign: (3,) cannot be broadcast to (2,): axis 0 is 3, not 1 or 2", lambda: a.assign(Tensor.ones(3))),
    row(DTypeError, "assign: the value is float64, the tensor float32; cast it", lambda: a.assign(Tensor.ones(2, dtype="float64"))),
    row(TypeError, "expected numbers", lambda: a.assign("a")),
    row(Error, "replace: float32 (2,) by float32 (3,): the shape must stay", lambda: a.replace(Tensor.ones(3))),
    row(TypeError, "replace(): incompatible function arguments", lambda: a.replace(5)),
    row(Error, '"NOPE(0,4)" is no optimisation: there is none called "NOPE"', lambda: (a + 1).contiguous("NOPE(0,4)").realize()),
    row(TypeError, "expected a bool as requires_grad, got 'yes'", set_to(a, "requires_grad", "yes")),
    row(TypeError, "expected a Tensor, got 5", lambda: a.realize(5)),
    row(DTypeError, "assign: the value is float32, the tensor int32; cast it", lambda: Tensor([1, 2]).assign([1.5, 2])),
]

VARIABLES = [
    row(Error, "variable n: its least value 5 is above its greatest 1", lambda: Variable("n", 5, 1)),
    row(TypeError, "missing 1 required positional argument: 'max_val'", lambda: Variable("n", 1)),
    row(TypeError, "variable(): incompatible function arguments", lambda: Variable("n", "a", 2)),
    row(quern.ValueError, "bind: 11 is outside the bounds of variable n, 1 to 10", lambda: n.bind(11)),
    row(Error, "bind: only a variable can be bound, not ADD", lambda: (n + 1).bind(3)),
    row(Error, "bind: only a variable can be bound, not BIND", lambda: n.bind(2).bind(3)),
    row(quern.ValueError, "unbind: not a variable with a value: $n[1..10]", lambda: n.unbind()),
    row(quern.ValueError, "int() of the UOp $n[1..10]: it depends on the value of n, from 1 to 10; v.unbind()[1] is", lambda: int(n)),
    row(quern.ValueError, "bool() of the UOp 5 < $n[1..10]: it depends on the value of n; v.unbind()[1] is", lambda: bool(n > 5)),
    row(ShapeError, "shape ($n[1..10],): a variable has no value", lambda: Tensor.ones(n).numpy()),
    row(Error, "variable n has no value", lambda: Tensor.ones(n).realize()),
    row(ShapeError, "add: shapes (BIND($n[1..10], 3),) and (3,) cannot be broadcast together",
        lambda: Tensor.ones(4)[:n.bind(3)] + Tensor.ones(3)),
    row(ShapeError, "unfold: windows of 4 elements over axis 0 of BIND($n[1..10], 3)", lambda: Tensor.ones(10)[:n.bind(3)].unfold(0, 4, 1)),
    row(ShapeError, "avg_pool2d: axis -1 of (1, 1, 4, BIND($n[1..10], 3)) is symbolic, which is not supported here",
        lambda: Tensor.ones(1, 1, 4, 10)[:, :, :, :n.bind(3)].avg_pool2d()),
    row(ShapeError, "split: axis 0 of ($n[1..10],) is symbolic, and has no value that says how many parts there are",
        lambda: Tensor.ones(10)[:n].split(2)),
    row(ShapeError, "the size BIND($n[1..10], 3) is symbolic; a number is needed here", lambda: len(Tensor.ones(4)[:n.bind(3)])),
    row(quern.ValueError, "int() of the UOp $n[1..10]: it depends on the value of n", lambda: m[::n]),
    row(Error, "variable n has no value", lambda: Tensor(n).item()),
    row(quern.IndexError, "9) is out of bounds for axis 0 of size 2", lambda: m[n.bind(9)]),
]

SETTINGS = [
    row(Error, "there is no variable NO_SUCH; there are DEBUG", lambda: Context(NO_SUCH=1).__enter__()),
    row(Error, "DEBUG is a number, not text", lambda: Context(DEBUG="a").__enter__()),
    row(Error, "DEBUG=-1: DEBUG is a number from 0 to 7", lambda: Context(DEBUG=-1).__enter__()),
    row(TypeError, "Context: DEBUG is 1.5, expected a number or text", lambda: Context(DEBUG=1.5).__enter__()),
    row(TypeError, "Context: DEBUG is None, expected a number or text", lambda: Context(DEBUG=None).__enter__()),
    row(TypeError, "takes 1 positional argument but 2 were given", lambda: Context(5)),
    row(AttributeError, "quern.helpers has no NOPE", lambda: quern.helpers.NOPE),
    row(TypeError, "default_value", lambda: quern.helpers.ContextVar("NOPE")),
    row(Error, "ContextVar: there is one called DEBUG", lambda: quern.helpers.ContextVar("DEBUG", 1)),
    row(Error, "DEBUG", set_to(quern.helpers.DEBUG, "value", 99)),
    row(AssertionError, "unwrap: expected something, got None", lambda: quern.helpers.unwrap(None)),
    row(RuntimeError, "merge_dicts: 'a' is 1 in one, 2 in another", lambda: quern.helpers.merge_dicts([{"a": 1}, {"a": 2}])),
    row(ValueError, "colored: there is no colour 'mauve'; there are black", lambda: quern.helpers.colored("a", "mauve")),
    row(TypeError, "incompatible function arguments", set_to(Tensor, "training", "yes")),
    row(TypeError, "str expected, not int", lambda: getenv(5)),
]

NODES = [
    row(SpecError, 'ADD breaks "it has as many sources as the table of ops says": 1, not 2 to 2', lambda: UOp(Ops.ADD, "int32", (one,))),
    row(SpecError, 'CONST breaks "its argument is of the kind that the table of ops says"', lambda: UOp(Ops.CONST, "int32")),
    row(TypeError, "expected CONST: a number as its argument, got 'a'", lambda: UOp(Ops.CONST, "int32", arg="a")),
    row(TypeError, "expected one of Ops for the op of a UOp, got 'ADD'", lambda: UOp("ADD")),
    row(TypeError, "__new__(): incompatible function arguments", lambda: UOp(Ops.ADD, "int32", (1, 2))),
    row(DTypeError, "ADD(int32, float32): the operands must have one dtype; cast one of them", lambda: one + half),
    row(DTypeError, "FLOORMOD(float32, float32): needs integers", lambda: half % 2),
    row(DTypeError, "WHERE(int32, float32): the operands must have one dtype", lambda: (n < 3).where(one, half)),
    row(TypeError, "unsupported operand type(s) for +: 'UOp' and 'str'", lambda: n + "a"),
    row(DTypeError, "300 is not one of the values of uint8 (0 to 255)", lambda: UOp.const("uint8", 300)),
    row(DTypeError, "'nope' is not a dtype", lambda: one.cast("nope")),
    row(DTypeError, "bitcast of int32 to int64: both must have the same lanes and bits", lambda: one.bitcast("int64")),
    row(Error, "FLOORDIV: division of $n[1..10] by the constant 0", lambda: n // 0),
    row(ParseError, "1:2: expected the name of a node directly after '%', found '%'", lambda: UOp.parse("%%%")),
    row(ParseError, "1:1: there is no expression in this text", lambda: UOp.parse("")),
    row(ParseError, "1:4: expected an expression, found the end of the text", lambda: UOp.parse("1 +")),
    row(quern.ValueError, "range: there is no kind NOPE", lambda: UOp.range(8, 0, "NOPE")),
    row(ShapeError, "range 0: a loop of -1 steps; sizes must be positive", lambda: UOp.range(-1, 0)),
    row(quern.ValueError, "replace: a node has op, dtype, src, arg and tag, and no nonsense", lambda: n.replace(nonsense=5)),
    row(quern.ValueError, "alu: ADD of 1 operands", lambda: n.alu(Ops.ADD)),
    row(Error, "Tensor: SINK of dtype void is not a value with a shape", lambda: Tensor(UOp.sink())),
    row(AttributeError, "no_such", lambda: n.no_such),
    row(TypeError, "sink", lambda: UOp.sink(5)),
    row(TypeError, "substitute", lambda: n.substitute({n: 5})),
    row(TypeError, "replace", lambda: n.replace(src=5)),
    row(TypeError, "Ops", lambda: UOp(5)),
    row(TypeError, "expected UNIQUE: an integer as its argument, got ()", lambda: UOp(Ops.UNIQUE, None, (), ())),
    row(TypeError, "expected UNIQUE: an integer as its argument, got []", lambda: UOp(Ops.UNIQUE, None, (), [])),
    row(TypeError, "expected UNIQUE: an integer as its argument, got '1'", lambda: UOp(Ops.UNIQUE, None, (), "1")),
    row(TypeError, "expected text, an int or a tuple of ints as a tag, got []", lambda: one.rtag([])),
    row(TypeError, "expected one of Ops for the op of a UOp, got 5", lambda: one.replace(op=5)),
    row(TypeError, "expected DEFINE_VAR: a name as its argument, got 1", lambda: UOp(Ops.DEFINE_VAR, "int32", (), (1, 2, 3))),
    row(TypeError, "expected DEFINE_VAR: an integer as its argument, got 'a'", lambda: UOp(Ops.DEFINE_VAR, "int32", (), ("n", "a", 3))),
    row(UnicodeEncodeError, "surrogates not allowed", lambda: UOp(Ops.DEFINE_VAR, "int32", (), ("\ud800", 1, 3))),
]

RULES = [
    row(TypeError, "UPat: op is one of Ops, or several of them, not 'ADD'", lambda: UPat("ADD")),
    row(TypeError, "UPat: src is a pattern, a tuple or a list of them, not 5", lambda: UPat(Ops.ADD, src=5)),
    row(TypeError, "UPat: src: expected a UPat, got 5", lambda: UPat(Ops.ADD, src=(any_node, 5))),
    row(TypeError, "UPat.any: expected a UPat, got 5", lambda: UPat.any(any_node, 5)),
    row(DTypeError, "'zz' is not a dtype", lambda: UPat(Ops.ADD, dtype="zz")),
    row(TypeError, "PatternMatcher: rule 1 is 5, expected (pattern, function)", lambda: PatternMatcher([(any_node, lambda x: x), 5])),
    row(TypeError, "PatternMatcher: rule 0: expected a UPat, got 5", lambda: PatternMatcher([(5, lambda: None)])),
    row(TypeError, "PatternMatcher: rule 0: expected a function, got 5", lambda: PatternMatcher([(any_node, 5)])),
    row(TypeError, "PatternMatcher: the function of rule 0 has the parameter y, its pattern captures x",
        lambda: PatternMatcher([(any_node, lambda y: y)])),
    row(TypeError, "expected a UOp or None from a rule, got 5", lambda: PatternMatcher([(any_node, lambda x: 5)]).rewrite(n)),
    row(TypeError, "expected a UOp or None from a rule, got 5", lambda: graph_rewrite(n, PatternMatcher([(any_node, lambda x: 5)]))),
    row(TypeError, "graph_rewrite: expected a UOp and a PatternMatcher, got 5 and PatternMatcher",
        lambda: graph_rewrite(5, PatternMatcher([]))),
    row(TypeError, "graph_rewrite: expected a UOp and a PatternMatcher, got UOp and []", lambda: graph_rewrite(n, [])),
    row(TypeError, "unsupported operand type(s) for +: 'PatternMatcher' and 'int'", lambda: PatternMatcher([]) + 5),
    row(RewriteError, "mine: these rules undo each other or never come to rest, at $n[1..10] + 1",
        lambda: graph_rewrite(n + 1, PatternMatcher([(any_node + UPat.var("y"), lambda x, y: (x + 1) + (y + 1))]), name="mine")),
    row(ZeroDivisionError, "by zero", lambda: graph_rewrite(n + 1, PatternMatcher([(any_node + 1, lambda x: 1 // 0)]))),
]

KERNELS = [
    row(TypeError, "custom_kernel(): incompatible function arguments", lambda: a.custom_kernel()),
    row(TypeError, "custom_kernel(): incompatible function arguments", lambda: a.custom_kernel(fxn=5)),
    row(TypeError, "expected a UOp from the function of a kernel, got None", lambda: a.custom_kernel(fxn=lambda out: None)),
    row(TypeError, "takes 0 positional arguments but 1 was given", lambda: a.custom_kernel(fxn=lambda: None)),
    row(Error, "custom_kernel: the body gave PARAM, not a SINK", lambda: a.custom_kernel(fxn=lambda out: out)),
    row(SpecError, 'SINK breaks "a SINK holds effects"', lambda: a.custom_kernel(fxn=lambda out: UOp.sink(one))[0].realize()),
    row(Error, "custom_kernel: one tensor is on CPU, another on INTERP; move one with to()",
        lambda: a.custom_kernel(Tensor.ones(2, device="INTERP"), fxn=lambda out, x: UOp.sink())),
    row(TypeError, "expected a Tensor, got 5", lambda: a.custom_kernel(5, fxn=lambda out, x: None)),
    row(TypeError, "expected a function as grad_fxn, got 5", lambda: a.custom_kernel(fxn=lambda out: UOp.sink(), grad_fxn=5)),
]


@pytest.mark.parametrize("kind, text, call", GRADIENTS)
def test_gradients_and_assignment(kind, text, call):
    refuses(kind, text, call)
    assert a.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("kind, text, call", VARIABLES)
def test_variables(kind, text, call):
    refuses(kind, text, call)


@pytest.mark.parametrize("kind, text, call", SETTINGS)
def test_settings(kind, text, call):
    refuses(kind, text, call)


@pytest.mark.parametrize("kind, text, call", NODES)
def test_nodes(kind, text, call):
    refuses(kind, text, call)


@pytest.mark.parametrize("kind, text, call", RULES)
def test_rules(kind, text, call):
    refuses(kind, text, call)


@pytest.mark.parametrize("kind, text, call", KERNELS)
def test_kernels(kind, text, call):
    refuses(kind, text, call)


def read_inside(x):
    return x * (x + 1).item()


def numbers_inside(x, last=[0.0]):  # noqa: B006
    last[0] += 1
    return (x + Tensor([last[0]])) * 0


CAPTURED = "captured with the arguments (a tensor, 3), and is called with "
CALLS = [  # of a function that was captured with (numbers(1.0, 2.0), 3)
    row(ShapeError, "jit: input 0 has shape (3,), it was (2,) when the function was captured", lambda f: f(numbers(1.0, 2.0, 3.0), 3)),
    row(DTypeError, "jit: input 0 is int32, it was float32 when the function was captured", lambda f: f(numbers(1, 2), 3)),
    row(DeviceError, "jit: input 0 is on INTERP, it was on CPU", lambda f: f(numbers(1.0, 2.0, device="INTERP"), 3)),
    row(Error, CAPTURED + "(a tensor, 4)", lambda f: f(a, 4)),
    row(Error, CAPTURED + "(a tensor, 3.0)", lambda f: f(a, 3.0)),
    row(Error, CAPTURED + "(a tensor)", lambda f: f(a)),
    row(Error, CAPTURED + "()", lambda f: f()),
    row(Error, CAPTURED + "(a tensor, a tensor)", lambda f: f(a, numbers(3.0))),
    row(Error, CAPTURED + "(a tensor, scale=3)", lambda f: f(a, scale=3)),
    row(Error, CAPTURED + "([a tensor], {'a': (3)})", lambda f: f([a], {"a": (3,)})),
]


@pytest.mark.parametrize("kind, text, call", CALLS)
def test_calls_of_a_jit(kind, text, call):
    scaled = TinyJit(lambda x, scale: (x * scale).realize())
    for _ in range(3):
        scaled(numbers(1.0, 2.0), 3)
    refuses(kind, text, lambda: call(scaled))
    assert scaled(numbers(1.0, 4.0), 3).tolist() == [3.0, 12.0]


@pytest.mark.parametrize("kind, text, call", [
    row(TypeError, "jit: expected a function, got 5", lambda: TinyJit(5)),
    row(TypeError, "unexpected keyword argument 'nonsense'", lambda: TinyJit(len, nonsense=1)),
    row(Error, "jit: the function must return tensors", lambda: TinyJit(lambda x: 5)(a)),
    row(Error, "jit: the function must return tensors", lambda: TinyJit(lambda x: [x, "text"])(a)),
    row(Error, "jit: the function must return tensors", lambda: TinyJit(lambda x: n)(a)),
    row(Error, "jit: the function must return tensors", lambda: TinyJit(lambda x: x.numpy())(a)),
])
def test_jit(kind, text, call):
    refuses(kind, text, call)


@pytest.mark.parametrize("function, given, text", [
    (read_inside, (numbers(2.0),), "jit: inside the function values are read"),
    (numbers_inside, (numbers(2.0),), "jit: inside the function a tensor is made from numbers of the host"),
    (lambda x, y: x + y, (a, a), "jit: inputs 0 and 1 are the same memory"),
], ids=["values read", "numbers of the host", "the same memory"])
def test_what_a_jit_cannot_repeat(function, given, text):
    jitted = TinyJit(function)
    expected = function(*given).tolist()
    assert jitted(*given).tolist() == expected  # the first call only runs
    refuses(Error, text, lambda: jitted(*given))


def test_sizes_of_a_jit():
    total = TinyJit(lambda x, size: x[:size].sum().realize())
    x = Tensor.arange(10).realize()
    for i in (1, 2, 3):
        total(x, n.bind(i))
    refuses(ShapeError, "jit: size 0 among the arguments is $n[1..10], it was BIND($n[1..10]", lambda: total(x, n))
    refuses(ShapeError, "is BIND($k[1..10], 3), it was BIND($n[1..10]", lambda: total(x, Variable("k", 1, 10).bind(3)))
    refuses(Error, "captured with the arguments (a tensor, a size), and is called with (a tensor, 3)", lambda: total(x, 3))


def test_getenv(monkeypatch):
    monkeypatch.setenv("QUERN_TEST_VALUE", "text")
    refuses(ValueError, "getenv: QUERN_TEST_VALUE is 'text', expected int", lambda: getenv("QUERN_TEST_VALUE"))
    refuses(ValueError, "getenv: QUERN_TEST_VALUE is 'text', expected float", lambda: getenv("QUERN_TEST_VALUE", 1.5))
    assert getenv("QUERN_TEST_VALUE", "") == "text" and getenv("QUERN_TEST_VALUE", None) == "text"
    monkeypatch.delenv("QUERN_TEST_VALUE")
    assert getenv("QUERN_TEST_VALUE", None) is None and getenv("QUERN_TEST_VALUE", 7) == 7


def python(code, **environment):
    return subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, env={**os.environ, **environment})


@pytest.mark.parametrize("name, value, text", [
    ("DEBUG", "abc", "quern.Error: DEBUG=abc: DEBUG is a number from 0 to 7"),
    ("BEAM", "-1", "quern.Error: BEAM=-1: BEAM is a number from 0 to 64"),
    ("DEVICE", "TOASTER", "quern.DeviceError: there is no device 'TOASTER'; there are CPU"),
    ("CPU_VECTOR_BYTES", "48", "CPU_VECTOR_BYTES=48: expected 16, 32 or 64"),
    ("DEFAULT_FLOAT", "int32", "DEFAULT_FLOAT=int32: DEFAULT_FLOAT is the name of a float type"),
    ("OPTS", "NOPE(1, 2)", 'there is none called "NOPE"'),
])
def test_variables_of_the_environment(name, value, text):
    ran = python("from quern import Tensor; print((Tensor([1.0, 2.0]) + 1).tolist())", **{name: value})
    assert ran.returncode == 1 and text in ran.stderr


def test_tensors_of_too_many_bytes():
    ran = python("from quern import Error, Tensor\ntry:\n    repr(Tensor.empty(2**62).realize())\nexcept Error:\n    print('refused')")
    assert ran.stdout == "refused\n"

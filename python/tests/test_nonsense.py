"""Nonsense given to all that is public is an exception of Python that says something, and never the end of the process.
QUERN_NIGHTLY=1: 50,000 calls."""

import ast
import importlib
import inspect
import itertools
import os
import pkgutil
import random
import re
import resource
import signal
import warnings

import numpy as np
import pytest

import quern
from quern import Device, Tensor, TinyJit, UOp, Variable, dtypes, nn
from quern.uop import Ops, PatternMatcher, UPat

CALLS = 25000 if os.environ.get("QUERN_NIGHTLY") else 1500  # of each of the two tests
SECONDS = 20  # that a call may take
MEMORY = 4 << 30  # bytes that the calls may take

# what is about raw addresses, the network, or Python's own ways with classes; what writes a step for each that it is told
# or for each column, until memory ends; and what makes a list of all rows of all rows
LEFT_OUT = {
    "newton_schulz", "svd", "quern.helpers.flatten", "from_blob", "from_url", "fetch", "__class__", "__init_subclass__", "__subclasshook__",
    "__getattribute__", "__setattr__", "__delattr__", "__dict__", "__weakref__", "__doc__", "__module__", "__new__",
}
UNCLEAR = ("std::", "vector::", "basic_string", "map::at", "_M_", "nanobind", "not expected here")


# ---- what is called


def public():
    """(name, owner, attribute): functions and classes of all modules, and what classes have, their protocols, too."""
    modules = [quern, quern._core]
    for info in pkgutil.walk_packages(quern.__path__, "quern."):
        if info.name.rsplit(".", 1)[1] not in ("__main__", "_core", "libquern_llvm", "datasets", "download"):
            modules.append(importlib.import_module(info.name))
    found, seen = [], set()
    for module in modules:
        for name, value in sorted(vars(module).items()):
            if name.startswith("_") or not LEFT_OUT.isdisjoint((name, f"{module.__name__}.{name}")):
                continue
            if not callable(value) or id(value) in seen:
                continue
            if not (getattr(value, "__module__", None) or "").startswith("quern"):
                continue
            seen.add(id(value))
            found.append((f"{module.__name__}.{name}", module, name))
            if inspect.isclass(value) and not issubclass(value, BaseException):
                found += [(f"{value.__qualname__}.{a}", value, a) for a in sorted(dir(value)) if is_public(value, a)]
    return found


def is_public(cls, name):
    if name in LEFT_OUT or (name.startswith("_") and not name.startswith("__")):
        return False
    return inspect.getattr_static(cls, name) is not inspect.getattr_static(object, name, None)


# ---- what it is called with


def fail(*_, **__):
    raise KeyError("mine")


def first(*given, **_):
    return given[0] if given else None


def evil(**methods):
    """An object of which some methods are wrong."""
    return lambda: type("Evil", (), {f"__{name}__": method for name, method in methods.items()})()


def changes(*_):
    x = Tensor([1.0, 2.0])
    x.assign(x + 1).realize()
    return 1


class Lies(list):
    def __len__(self):
        return 3


class Fresh(list):
    def __iter__(self):
        return iter([1.5 * i for i in range(list.__len__(self))])


class Strange(Tensor):
    shape = property(lambda self: (5, 5))

    def __len__(self):
        return 10**9


class Unequal(str):
    def __eq__(self, other):
        raise KeyError("mine")

    __hash__ = str.__hash__


def deep(depth, value):
    for _ in range(depth):
        value = [value]
    return value


def holds_itself():
    value = []
    value.append(value)
    return value


SIMPLE = [
    None, True, False, 0, 1, -1, 2, 3, 7, 16, 64, 2**31 - 1, 2**31, -(2**31) - 1, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64,
    2**200, -(2**200), 0.0, -0.0, 0.5, 1e-320, 1e308, float("nan"), float("inf"), -float("inf"), 1j, "", "a", "\0", "\ud800", "a" * 10000, "é", "mean",
    "sum", "none", "cpu", "CPU:1", "CPU:99999999999999999999", "INTERP", "NULL", "DISK:/nonexistent/x", "DISK:", "float32", "int8", "void", "index",
    "float32x4", "ij,jk->ik", "i->", "...ij->", "a (b c) -> b a c", "((", "constant", "circular", "UPCAST(0, 4)", "add", "LOOP", "DEBUG", b"", b"abcd",
    (), (1,), (0,), (-1,), (1, 2), (2**62, 4), (2**63,), (0, 2**62, 2**62), (None,), (None, 1), ((0, 1), (1, 2)), ((-1, -1),), ((2**62, 2**62),),
    range(3), slice(None), slice(0, 2**63), slice(None, None, -1), slice(None, None, 0), slice("a"), slice(-(2**70), 2**70, 2**70), ...,
    NotImplemented, object(), type, len, fail, first, memoryview(b"abcd"), frozenset([2]), Tensor, UOp, quern.DType,
]
NUMPY = [
    np.float32(2), np.float64("nan"), np.int8(-1), np.uint64(2**64 - 1), np.bool_(True), np.longdouble(1), np.complex64(1), np.str_("a"),
    np.datetime64("2020"), np.zeros((0, 3)), np.array(5), np.array("text"), np.array([object()]), np.arange(6).reshape(2, 3)[:, ::-1],
    np.zeros(3, ">f4"), np.zeros(2, "f2,i4"), np.float32, np.dtype("f4"), np.broadcast_to(np.float32(1), (2**20, 2**20)),
]
QUERN = [
    dtypes.float32, dtypes.bool, dtypes.void, dtypes.index, dtypes.uint8, dtypes.float32.vec(4), Variable("n", 1, 4), Variable("n", 1, 4).bind(2),
    Variable("n", 1, 4) + 1, UOp.const("int32", 3), UOp.const("float32", float("nan")), UOp.sink(), UOp.range(4, 0), Ops.ADD, Ops.SINK, Ops.CONST,
    Ops.RANGE, Ops.INDEX, UPat.var("x"), UPat(Ops.ADD), PatternMatcher([]), PatternMatcher([(UPat.var("x"), lambda x: fail())]),
]
MADE = [  # what a call may change is made for each
    list, dict, set, lambda: bytearray(8), lambda: [2, 3], lambda: [[1, 2], [3]], lambda: [[[]]], lambda: {"a": 1}, lambda: {1: 2},
    lambda: np.zeros(2), lambda: iter([]), lambda: iter([Tensor([1.0])]), lambda: (i for i in range(3)),
]
TENSORS = [
    lambda: Tensor([1.0, 2.0]), lambda: Tensor([[1, 2], [3, 4]]), lambda: Tensor(2.5), lambda: Tensor(3), lambda: Tensor([True, False]),
    lambda: Tensor.zeros(0), lambda: Tensor.zeros(2, 0, 3), lambda: Tensor.ones(1, 2, 4, 4), lambda: Tensor.ones(*[1] * 30), lambda: Tensor.ones(*[1] * 70),
    lambda: Tensor.rand(3, 3), lambda: Tensor([1.0, 2.0], requires_grad=True), lambda: Tensor([-1, 5, 2**31 - 1]), lambda: Tensor([float("nan"), float("inf")]),
    lambda: Tensor([1.0], device="INTERP"), lambda: Tensor.ones(2, device="NULL"), lambda: Tensor.ones(4).shard(("CPU:0", "CPU:1"), axis=0),
    lambda: Tensor.ones(2, dtype="bfloat16"), lambda: Tensor([1, 2], dtype="uint64"), lambda: Tensor([1.0], dtype="fp8e5m2"),
    lambda: Tensor.ones(Variable("n", 1, 4).bind(3)), lambda: Tensor.ones(4)[: Variable("n", 1, 4).bind(2)], lambda: Tensor.empty(2, 2**45),
    lambda: Tensor.ones(2, 2**31, 2**30, device="NULL"), lambda: Tensor.arange(12).reshape(3, 4).T, lambda: Tensor([1.0, 2.0, 3.0])[1:], lambda: Strange([1.0, 2.0]),
    lambda: Tensor.__new__(Tensor),
]
OBJECTS = [
    lambda: [Tensor([1.0]), Tensor([2.0])], lambda: [Tensor([1]), 3], lambda: {"a": Tensor([1.0]), "b": 5}, lambda: {"a": Tensor([1.0])},
    lambda: Tensor([1.0]).uop, lambda: (Tensor([1.0, 2.0]) + 1).uop, lambda: TinyJit(first), lambda: TinyJit(fail), lambda: nn.Linear(2, 2),
    lambda: nn.Conv2d(1, 1, 1), lambda: nn.optim.SGD([Tensor([1.0])]), lambda: quern.Context(DEBUG=0), lambda: UOp.__new__(UOp),
]
NASTY = [
    evil(getattr=fail), evil(index=fail), evil(index=lambda _: 2**70), evil(index=lambda _: "a"), evil(index=changes), evil(len=fail),
    evil(len=lambda _: -1), evil(float=fail), evil(iter=fail), evil(iter=lambda self: self, next=fail), evil(getitem=fail, len=lambda _: 3),
    evil(eq=fail, hash=lambda _: 1), evil(hash=fail), evil(bool=fail), evil(array=fail), evil(array=lambda *_, **__: 5), evil(array_interface={}),
    evil(array_interface=property(fail)), evil(dlpack=fail), evil(dlpack=lambda *_, **__: None),
    evil(dlpack=lambda *_, **__: np.zeros(2).__dlpack__(), dlpack_device=fail), evil(dlpack=lambda _, capsule=np.zeros(2).__dlpack__(), **__: capsule),
    evil(fspath=fail), evil(fspath=lambda _: 5), evil(fspath=lambda _: b"/nonexistent/x"), evil(fspath=lambda _: "a\0b"), evil(call=fail),
    evil(repr=fail, str=fail), evil(radd=fail), evil(reduce=fail), evil(format=fail), lambda: Lies([1, 2, 3, 4]), lambda: Fresh([1.0, 2.0]),
    lambda: Unequal("float32"), lambda: [evil(index=changes)()], lambda: (evil(index=fail)(),), lambda: {"a": evil(getattr=fail)()},
    lambda: type("Pair", (tuple,), {"__iter__": lambda _: iter([2, 2])})((5, 5)), holds_itself, lambda: deep(5000, 1.0), lambda: deep(70, 1.0),
    lambda: type("float64", (), {"__module__": "numpy", "__float__": fail})(),
]
KEYWORDS = "axis dim dtype device shape value x index mask bias stride padding mode arg src tag op stream max_version copy dl_device strict".split()

FITTING = {  # what may be right for an annotation with this word in it
    "Tensor": TENSORS, "DType": QUERN[:6], "UOp": QUERN[6:13], "tuple": [v for v in SIMPLE if isinstance(v, tuple)],
    "int": [v for v in SIMPLE if type(v) is int], "bool": [True, False], "float": [v for v in SIMPLE if isinstance(v, float)],
    "str": [v for v in SIMPLE if isinstance(v, str)], "Sequence": OBJECTS[:2], "Mapping": OBJECTS[2:4], "Callable": [fail, first],
}


def pick(rng):
    kind, = rng.choices((SIMPLE, NUMPY, QUERN, MADE, TENSORS, OBJECTS, NASTY), (35, 10, 10, 5, 20, 8, 20))
    value = rng.choice(kind)
    return value() if kind in (MADE, TENSORS, OBJECTS, NASTY) else value


def fitting(rng, annotation):
    """Mostly something of a kind that is taken, so that calls come further than to the check of their arguments."""
    pools = [pool for word, pool in FITTING.items() if word in annotation]
    if rng.random() < 0.3:
        return pick(rng)
    pool = rng.choice(pools or [TENSORS, FITTING["int"], FITTING["tuple"], SIMPLE])
    value = rng.choice(pool)
    return value() if pool in (TENSORS, FITTING["Sequence"], FITTING["Mapping"]) else value


def parameters(function):
    """Names, annotations and kinds of what a function takes, or None."""
    if known := getattr(function, "__nb_signature__", None):
        text = re.sub(r"\\\d+", "None", known[0][0])
        node = ast.parse(text + ": ...").body[0].args
        noted = [(a.arg, ast.unparse(a.annotation) if a.annotation else "") for a in node.posonlyargs + node.args]
        required = len(noted) - len(node.defaults)
        found = [(*a, "required" if i < required else "optional") for i, a in enumerate(noted)]
        found += [(node.vararg.arg, "", "more")] if node.vararg else []
        return found + [(a.arg, ast.unparse(a.annotation) if a.annotation else "", "optional") for a in node.kwonlyargs]
    try:
        given = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    kinds = {inspect.Parameter.VAR_POSITIONAL: "more", inspect.Parameter.VAR_KEYWORD: "named", inspect.Parameter.KEYWORD_ONLY: "optional"}
    return [(p.name, str(p.annotation), kinds.get(p.kind, "required" if p.default is p.empty else "optional")) for p in given]


def arguments(rng, function, is_method):
    known = parameters(function) if rng.random() > 0.1 else None
    if known is None:
        given = [pick(rng) for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3, 4)))]
        return given, {rng.choice(KEYWORDS): pick(rng) for _ in range(rng.choice((0, 0, 0, 1, 2)))}
    given, named = [], {}
    for name, annotation, kind in known[1:] if is_method and known and known[0][0] == "self" else known:
        if kind == "required":
            given.append(fitting(rng, annotation))
        elif kind == "more":
            given += [fitting(rng, annotation) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
        elif kind == "named" or rng.random() < 0.25:
            named[rng.choice(KEYWORDS) if kind == "named" else name] = fitting(rng, annotation)
    return given, named


# ---- calls


def instance(cls, rng):
    """An object of a class; sometimes one that was never initialised."""
    if rng.random() < 0.03:
        return cls.__new__(cls)
    if issubclass(cls, Tensor):
        return rng.choice(TENSORS)()
    p = Tensor([1.0, 2.0], requires_grad=True)
    p.grad = Tensor([1.0, 1.0])
    known = {UOp: QUERN[6:13], quern.DType: QUERN[:6], Ops: QUERN[13:18]}
    if cls in known:
        return rng.choice(known[cls])
    for given in ((), ([p],), (nn.optim.SGD([p]),), (2, 2), (2, 2, 1), (4,), (first,), ("DEBUG",), ("CPU",), ([],), (1, 2)):
        try:
            return cls(*given)
        except Exception:
            continue
    return cls.__new__(cls)


def shown(value):
    try:
        return repr(value)[:100]
    except BaseException:
        return f"<{type(value).__name__}>"


def use(result):
    """What is lazy is asked for."""
    if hasattr(result, "__next__"):
        list(itertools.islice(result, 5))
    for part in list(result)[:3] if isinstance(result, (list, tuple)) else [result]:
        if type(part) is Tensor and all(isinstance(s, int) for s in part.shape) and part.numel() <= 10000:
            part.realize(), repr(part), part.numpy()


class Hang(BaseException):
    """A call that does not come to an end."""


def hang(*_):
    raise Hang


@pytest.fixture
def contained(tmp_path, monkeypatch):
    """Files are written here only, memory has a limit, and so has time."""
    monkeypatch.chdir(tmp_path)
    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, hard))
    before = signal.signal(signal.SIGALRM, hang)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def attempt(rng, name, owner, attribute, note):
    """What is wrong with how a call ended, or None."""
    try:
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        is_method = inspect.isclass(owner) and rng.random() > 0.03  # else self is nonsense, too
        function = getattr(owner, attribute)
        given, named = arguments(rng, function, is_method) if callable(function) else ([], {})
        on = instance(owner, rng) if is_method else owner
        note(f"{name} of {shown(on)} ({', '.join([*map(shown, given), *(f'{k}={shown(v)}' for k, v in named.items())])})")
        value = getattr(on, attribute)
        use(value(*given, **named) if callable(value) else value)
    except (quern.InternalError, SystemError, Hang) as error:
        return repr(error)
    except MemoryError:
        pass
    except BaseException as error:
        said = re.sub(r"'nanobind\.nb_\w+'", "", str(error))  # the kinds of quern's classes and functions, which Python may name
        if any(word in said for word in UNCLEAR) and "incompatible function arguments" not in said:
            return repr(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return None


def restore():
    Device.DEFAULT, dtypes.default_float, dtypes.default_int, Tensor.training = "CPU", "float32", "int32", False
    quern._core.set_setting("DEBUG", 0)


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc")
@pytest.mark.parametrize("seed", [1, 2])
def test_nonsense(contained, tmp_path, seed):
    warnings.simplefilter("ignore")
    targets, wrong, last = public(), [], ""
    assert len(targets) > 700
    with open(tmp_path / "call", "wb", buffering=0) as file:  # the last one, should the process end there

        def note(text):
            nonlocal last
            last = f"{i}: {text}"
            file.seek(0)
            file.write(last.encode(errors="replace"))
            file.truncate()

        for i in range(CALLS):
            rng = random.Random(f"{seed} {i}")
            if error := attempt(rng, *(targets[(i * 7919 + seed) % len(targets)] if i % 2 else rng.choice(targets)), note):
                wrong.append(f"{last}: {error[:200]}")
            restore()
            if i % 50 == 0:
                assert (Tensor([1.0, 2.0]) * 3).tolist() == [3, 6], last
    assert not wrong, "\n".join(wrong)

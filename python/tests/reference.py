"""What the tables of test_ops_*.py are made of, and the checks that run over them.

A table is a list of op(name, function of tensors, function of arrays, *inputs, **options); `name` is the member of Tensor that the
entry tests. The function of arrays is the oracle: it is given float64 for floats of any width, and integers as they are. Gradients are
compared with central differences of the oracle, in float64. An entry without inputs makes tensors: its functions are given the dtype."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest

from quern import Tensor

FLOATS = "float16 bfloat16 float32 float64"
SIGNED = "int8 int16 int32 int64"
UNSIGNED = "uint8 uint16 uint32 uint64"
INTS = f"{SIGNED} {UNSIGNED}"
ALL = f"bool {INTS} {FLOATS}"
SOME = "int8 int64 float16 float32 float64"  # of what another entry tests with all

# Twice the rounding of the type, or more where functions are made of several: docs/tensor.md, Precision.
RTOL = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1e-5, "float64": 1e-12}
ATOL = {"float16": 1e-4, "bfloat16": 1e-3, "float32": 1e-6, "float64": 1e-13}


@dataclasses.dataclass(frozen=True)
class Input:
    """Values of a shape: of the dtype that is tested, or of one of its own. What is fixed is never given as a view."""

    shape: tuple
    of_floats: Callable  # of a generator and a shape
    of_ints: Callable
    dtype: str | None = None
    fixed: bool = False

    def make(self, dtype, seed, shape=None):
        name = self.dtype or dtype
        shape = self.shape if shape is None else shape
        rng = np.random.default_rng([seed, *shape])
        if name == "bool":
            return rng.integers(0, 2, shape) == 1
        if "int" in name:
            values = np.asarray(self.of_ints(rng, shape))
            return (abs(values) if name[0] == "u" else values).astype(name)
        values = np.asarray(self.of_floats(rng, shape))
        return bfloat16(values) if name == "bfloat16" else values.astype(name)


def normal(*shape, dtype=None):
    """Around 0: floats, or integers from -6 to 6."""
    return Input(shape, lambda rng, s: 2 * rng.normal(size=s), lambda rng, s: rng.integers(-6, 7, s), dtype)


def positive(*shape, dtype=None):
    """Above 0: floats from 0.1 to 3, or integers from 1 to 6."""
    return Input(shape, lambda rng, s: rng.uniform(0.1, 3, s), lambda rng, s: rng.integers(1, 7, s), dtype)


def between(low, high, *shape, dtype=None, fixed=False):
    """From low up to high, which is not among them."""
    return Input(shape, lambda rng, s: rng.uniform(low, high, s), lambda rng, s: rng.integers(low, high, s), dtype, fixed)


def nonzero(*shape, dtype=None):
    """At least 1/2 away from 0, of both signs."""
    return Input(shape, lambda rng, s: rng.uniform(0.5, 3, s) * rng.choice([-1, 1], s),
                 lambda rng, s: rng.integers(1, 7, s) * rng.choice([-1, 1], s), dtype)


def distinct(*shape):
    """No two of them are equal, and each is at least 1/4 away from its neighbours."""
    def values(rng, s):
        return rng.permutation(math.prod(s)).reshape(s) - math.prod(s) // 2

    return Input(shape, lambda rng, s: values(rng, s) / 4 + 0.1, values)


def mask(*shape):
    """Bools."""
    return dataclasses.replace(normal(*shape), dtype="bool")


def given(values, dtype=None):
    """These values: of the dtype that they have, or of one that is said."""
    array = np.asarray(values)
    name = dtype or array.dtype.name
    return Input(array.shape, lambda rng, s: array, lambda rng, s: array, name, fixed=True)


@dataclasses.dataclass(frozen=True)
class Op:
    """An entry of a table."""

    name: str
    tensors: Callable
    arrays: Callable
    inputs: tuple
    dtypes: str = "float32 float64"
    out: str | Callable = "same"  # dtype of the result: that of the inputs; "float": float32 for integers; a name; a function of the name
    grad: bool = True  # whether it has a gradient to check, where it is of floats
    views: bool = True  # whether inputs may be views, and repeat themselves
    loose: float = 1  # tolerances are this much wider; the entry says why
    smoke: bool = False  # runs on OpenCL too
    xfail: dict = dataclasses.field(default_factory=dict)  # check, or check and dtype -> the bug that it shows

    def out_dtype(self, dtype):
        if callable(self.out):
            return self.out(dtype)
        return {"same": dtype, "float": dtype if "float" in dtype else "float32"}.get(self.out, self.out)

    @property
    def differentiable(self):
        return self.grad and "float64" in self.dtypes.split() and self.out_dtype("float64") == "float64"


def summed(dtype):
    """Sums of narrow integers have 32 bits."""
    if dtype in ("bool", "int8", "int16"):
        return "int32"
    return "uint32" if dtype in ("uint8", "uint16") else dtype


def op(name, tensors=None, arrays=None, *inputs, **options):
    """An entry. The function of tensors is the member of that name if it is None, and the same as that of arrays if that is None."""
    tensors = tensors or getattr(Tensor, name)
    return Op(name, tensors, arrays or tensors, inputs, **options)


def bfloat16(values):
    """The nearest numbers that bfloat16 has, as float32: NumPy has no such type."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).astype(np.uint32).view(np.float32)


def tensor(array, dtype, device, **options):
    return Tensor(array, dtype="bfloat16" if dtype == "bfloat16" and array.dtype == np.float32 else array.dtype.name, device=device,
                  **options)


def several(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def compare(result, expected, dtype, loose=1.0):
    """Results (one, or several) are these values; floats of type dtype, within its tolerance."""
    result, expected = several(result), several(expected)
    assert len(result) == len(expected)
    for got, wanted in zip(result, expected):
        wanted = np.asarray(wanted)
        got = got.numpy() if isinstance(got, Tensor) else np.asarray(got)
        assert got.shape == wanted.shape
        if wanted.dtype.kind == "f" and "float" in dtype:
            np.testing.assert_allclose(got, wanted, rtol=RTOL[dtype] * loose, atol=ATOL[dtype] * loose)
        else:
            np.testing.assert_array_equal(got, wanted)


def oracle_inputs(entry, arrays, dtype):
    """Floats in float64; integers too where the result is a float."""
    wide = entry.out == "float"
    return [a.astype(np.float64) if a.dtype.kind == "f" or (wide and i.dtype is None) else a for a, i in zip(arrays, entry.inputs)]


# A view: an array that holds what the view shows of it, and the view of a tensor and of an array.
def permuted(x):
    order = tuple(reversed(range(x.ndim)))
    return x.transpose(order).copy(), lambda t: t.permute(order) if x.ndim else t, lambda a: a.transpose(order)


def strided(x):
    """Every other element, from behind."""
    at = (slice(None, None, -2),) * x.ndim
    base = np.ones([max(2 * n - 1, 0) for n in x.shape], x.dtype)
    base[at] = x
    return base, lambda t: t[at], lambda a: a[at]


def expanded(x):
    """The first along the first axis, for all of them."""
    return x[:1].copy() if x.ndim else x, lambda t: t.expand(x.shape), lambda a: np.broadcast_to(a, x.shape)


VIEWS = [permuted, strided, expanded]


def whole(x):
    return x, lambda t: t, lambda a: a


def differences(function, arrays, weights, which, sample=24):
    """Derivatives of the weighted sum of a function by elements of one of its arrays: pairs of index and value, at most `sample`."""
    def total():
        return sum((np.asarray(r) * w).sum() for r, w in zip(several(function(*arrays)), weights) if w is not None)

    x = arrays[which]
    places = list(np.ndindex(x.shape))
    for at in [places[i] for i in sorted(np.random.default_rng(0).permutation(len(places))[:sample])]:
        before, step = x[at], 1e-5
        x[at] = before + step
        above = total()
        x[at] = before - step
        below = total()
        x[at] = before
        yield at, (above - below) / (2 * step)


def check_values(entry, dtype, device, shape=None):
    arrays = [i.make(dtype, n, shape) for n, i in enumerate(entry.inputs)]
    if entry.inputs:
        result = entry.tensors(*[tensor(a, i.dtype or dtype, device) for a, i in zip(arrays, entry.inputs)])
        with np.errstate(all="ignore"):
            expected = entry.arrays(*oracle_inputs(entry, arrays, dtype))
    else:
        result, expected = entry.tensors(dtype), entry.arrays("float64" if "float" in dtype else dtype)
    first = several(result)[0]
    if isinstance(first, Tensor):
        assert first.dtype.name == entry.out_dtype(dtype)
        assert first.device == device
    compare(result, expected, entry.out_dtype(dtype), entry.loose)


def check_views(entry, view, device, use_backward):
    """Values of views, and gradients by what they are views of."""
    dtype = "float64" if entry.differentiable else entry.dtypes.split()[0]
    made = [(whole if i.fixed else view)(i.make(dtype, n)) for n, i in enumerate(entry.inputs)]
    bases = [tensor(base, i.dtype or dtype, device) for (base, _, _), i in zip(made, entry.inputs)]
    arrays = [base.copy() for base, _, _ in made]

    def oracle(*arrays):
        seen = [of_array(a) for a, (_, _, of_array) in zip(arrays, made)]
        return entry.arrays(*oracle_inputs(entry, seen, dtype))

    result = entry.tensors(*[of_tensor(t) for t, (_, of_tensor, _) in zip(bases, made)])
    with np.errstate(all="ignore"):
        expected = oracle(*arrays)
    if not entry.differentiable:
        compare(result, expected, entry.out_dtype(dtype), entry.loose)
        return
    rng = np.random.default_rng(7)
    weights = [rng.uniform(0.5, 1.5, np.shape(e)) if np.asarray(e).dtype.kind == "f" else None for e in several(expected)]
    total = sum((r * tensor(np.asarray(w), "float64", device)).sum() for r, w in zip(several(result), weights) if w is not None)
    wanted = [n for n, a in enumerate(arrays) if a.dtype == np.float64]
    if use_backward:
        total.backward()
        gradients = [bases[n].grad for n in wanted]
    else:
        gradients = total.gradient(*[bases[n] for n in wanted])
    compare(result, expected, dtype, entry.loose)  # after the gradient was asked for: a result that was run is a value like any other
    for n, gradient in zip(wanted, gradients):
        values = gradient.numpy()
        assert values.shape == arrays[n].shape
        for at, expected_value in differences(oracle, arrays, weights, n):
            np.testing.assert_allclose(values[at], expected_value, rtol=1e-5, atol=1e-6, err_msg=f"gradient by input {n} at {at}")


def cases(table, check, dtypes=False):
    """Parameters of a check: an entry, or an entry and a dtype, each."""
    found = []
    for number, entry in enumerate(table):
        done = ["float64"] if entry.differentiable and entry.inputs and entry.dtypes != "float64" else []
        for dtype in [d for d in entry.dtypes.split() if d not in done] if dtypes else [None]:
            label = f"{number}-{entry.name}" + (f"-{dtype}" if dtype else "")
            reason = entry.xfail.get(check) or entry.xfail.get(f"{check} {dtype}")
            marks = [pytest.mark.xfail(strict=True, reason=reason)] if reason else []
            found.append(pytest.param(*([entry, dtype] if dtypes else [entry]), id=label, marks=marks))
    return found


def checks_of(table):
    """test_values, test_gradient and test_views of the module that has this table. The entries take turns with the views."""
    @pytest.mark.parametrize("entry, dtype", cases(table, "values", dtypes=True))  # float64: see test_gradient, which has both
    def test_values(entry, dtype, device):
        check_values(entry, dtype, device)

    @pytest.mark.parametrize("entry", cases([e for e in table if e.differentiable and e.inputs], "gradient"))
    def test_gradient(entry, device):
        check_views(entry, whole, device, use_backward=False)

    @pytest.mark.parametrize("entry, view", [
        pytest.param(*case.values, VIEWS[n % len(VIEWS)], id=f"{case.id}-{VIEWS[n % len(VIEWS)].__name__}", marks=case.marks)
        for n, case in enumerate(cases([e for e in table if e.views and e.inputs], "views"))])
    def test_views(entry, view, device):
        check_views(entry, view, device, use_backward=True)

    return test_values, test_gradient, test_views


def shape_checks_of(table, shapes=((), (0,), (1, 3, 1))):
    """Functions of each element, of other shapes than those of the table."""
    @pytest.mark.parametrize("entry", cases(table, "shapes"))
    def test_shapes(entry, device):
        for shape in shapes:
            check_values(entry, entry.dtypes.split()[0], device, shape)

    return test_shapes

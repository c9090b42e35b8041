"""Shapes and indices made at random, against NumPy. QUERN_NIGHTLY=1: many more, and others in each run."""

import math
import os
import warnings

import numpy as np
import pytest

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import given, settings, strategies as st  # noqa: E402

from quern import Error, ShapeError, Tensor  # noqa: E402

NIGHTLY = bool(os.environ.get("QUERN_NIGHTLY"))
sizes = st.integers(0, 5)
shapes = st.lists(sizes, max_size=5).map(tuple).filter(lambda shape: math.prod(shape) <= 400)
data = st.data()


def examples(count):
    return settings(max_examples=count * 20 if NIGHTLY else count, derandomize=not NIGHTLY, deadline=None, database=None,
                    suppress_health_check=list(hypothesis.HealthCheck))


def numbers(shape, dtype=np.int32):
    """Others at each place."""
    return np.arange(1, math.prod(shape) + 1, dtype=dtype).reshape(shape)


def same(tensor, expected):
    assert tensor.shape == expected.shape
    np.testing.assert_array_equal(tensor.numpy(), expected)


# ---- indices


def slices(draw):
    ends = st.none() | st.integers(-7, 7)
    return slice(draw(ends), draw(ends), draw(st.none() | st.integers(-3, 3).filter(bool)))


def along(draw, size, kinds):
    """An index of one axis."""
    kind = draw(st.sampled_from([k for k in kinds if size > 0 or k not in ("int", "list", "array", "tensor")]))
    if kind == "int":
        return draw(st.integers(-size, size - 1))
    if kind == "slice":
        return slices(draw)
    places = st.lists(st.integers(-size, size - 1), min_size=1, max_size=4)
    if kind == "list":
        return draw(places)
    made = np.array(draw(places))
    return made if kind == "array" else Tensor(made.astype(np.int32))


@st.composite
def basic(draw, shape):
    """Ints and slices for some of the axes, an ellipsis or none, new axes anywhere."""
    named = draw(st.integers(0, len(shape)))
    index = [along(draw, size, ("int", "slice")) for size in shape[:named]]
    if draw(st.booleans()):
        behind = draw(st.integers(0, named))
        index = index[:named - behind]
        last = shape[len(shape) - behind:] if behind else ()
        index += [..., *(along(draw, size, ("int", "slice")) for size in last)]
    for _ in range(draw(st.integers(0, 2))):
        index.insert(draw(st.integers(0, len(index))), None)
    return index[0] if len(index) == 1 and draw(st.booleans()) else tuple(index)


@st.composite
def advanced(draw, shape, kinds=("int", "slice", "slice", "list", "array", "tensor")):
    """One array or more, of shapes that fit each other, among ints and slices."""
    index = [along(draw, size, kinds) for size in shape]
    lengths = [len(i) for i in index if isinstance(i, (list, np.ndarray, Tensor))]
    shortest = min(lengths, default=0)
    return tuple(i[:shortest] if isinstance(i, (list, np.ndarray, Tensor)) else i for i in index)


def array(index):
    return np.array(index.numpy() if isinstance(index, Tensor) else index)


def is_array(index):
    return isinstance(index, (list, np.ndarray, Tensor))


def expected_at(x, index):
    """In the order of PyTorch: first what is no array, then the arrays, of which an int is none."""
    first, then = [], []
    for part in index:
        if is_array(part):
            axes = array(part).ndim if array(part).dtype == bool else 1
            first += [slice(None)] * axes
            then.append(array(part))
        else:
            first.append(part)
            if not isinstance(part, int):
                then.append(slice(None))
    return x[tuple(first)][tuple(then)]


@examples(100)
@given(shapes, data)
def test_property_basic_indices(shape, draw):
    x = numbers(shape)
    index = draw.draw(basic(shape))
    same(Tensor(x)[index], x[index])


@examples(50)
@given(shapes.filter(len), data)
def test_property_advanced_indices(shape, draw):
    x = numbers(shape)
    index = draw.draw(advanced(shape))
    same(Tensor(x)[index], expected_at(x, index))


@examples(50)
@given(shapes.filter(len), data)
def test_property_masks(shape, draw):
    x = numbers(shape)
    axes = draw.draw(st.integers(1, len(shape)))
    flags = draw.draw(st.lists(st.booleans(), min_size=math.prod(shape[:axes]), max_size=math.prod(shape[:axes])))
    mask = np.array(flags, dtype=bool).reshape(shape[:axes])
    rest = [along(draw.draw, size, ("int", "slice")) for size in shape[axes:]]
    expected = expected_at(x, (mask, *rest))
    same(Tensor(x)[(mask, *rest)], expected)
    same(Tensor(x)[(Tensor(mask), *rest)], expected)


@examples(75)
@given(shapes, data)
def test_property_setitem_basic(shape, draw):
    x = numbers(shape)
    index = draw.draw(basic(shape))
    tensor = Tensor(x).realize()
    kept = tensor + 0
    part = x[index].shape
    values = -numbers(part[draw.draw(st.integers(0, len(part))):])  # of fewer axes: broadcast
    value = draw.draw(st.sampled_from([-5, values, Tensor(values)]))
    expected = x.copy()
    expected[index] = value.numpy() if isinstance(value, Tensor) else value
    tensor[index] = value
    same(tensor, expected)
    same(kept, x)


@examples(50)
@given(shapes.filter(len), data)
def test_property_setitem_advanced(shape, draw):
    x = numbers(shape)
    index = draw.draw(advanced(shape))
    expected, places = x.copy(), expected_at(np.arange(x.size).reshape(shape), index)
    expected.reshape(-1)[places] = -5
    tensor = Tensor(x).realize()
    tensor[index] = -5
    same(tensor, expected)


@examples(40)
@given(shapes.filter(len), data)
def test_property_setitem_masks(shape, draw):
    x = numbers(shape)
    flags = draw.draw(st.lists(st.booleans(), min_size=x.size, max_size=x.size))
    mask = np.array(flags, dtype=bool).reshape(shape)
    expected = x.copy()
    expected[mask] = -5
    tensor = Tensor(x).realize()
    tensor[Tensor(mask)] = -5
    same(tensor, expected)


@examples(50)
@given(shapes.filter(len), data)
def test_property_indices_out_of_bounds(shape, draw):
    axis = draw.draw(st.integers(0, len(shape) - 1))
    wrong = shape[axis] + draw.draw(st.integers(0, 3))
    at = draw.draw(st.sampled_from([wrong, -wrong - 1]))
    with pytest.raises(IndexError, match=f"index {at} is out of bounds"):
        Tensor(numbers(shape))[(slice(None),) * axis + (at,)]


# ---- movement


def divide(draw, count):
    """Sizes whose product is a number."""
    left, shape = count, []
    while left > 1 and len(shape) < 4:
        shape.append(draw(st.sampled_from([d for d in range(1, left + 1) if left % d == 0])))
        left //= shape[-1]
    return (*shape, left) if left != 1 or not shape else tuple(shape)


def reshape(draw, x):
    shape = divide(draw, x.size) if x.size else (*x.shape, 1)
    return lambda t: t.reshape(shape), x.reshape(shape)


def permute(draw, x):
    order = tuple(draw(st.permutations(range(x.ndim))))
    return lambda t: t.permute(order), x.transpose(order)


def flip(draw, x):
    axes = tuple(a for a in range(x.ndim) if draw(st.booleans()))
    return lambda t: t.flip(axes), np.flip(x, axes)


def expand(draw, x):
    shape = tuple(draw(st.integers(0, 3)) if s == 1 else s for s in x.shape)
    shape = (2, *shape) if x.ndim < 5 and draw(st.booleans()) else shape
    return lambda t: t.expand(shape), np.broadcast_to(x, shape)


def shrink(draw, x):
    bounds = tuple(tuple(sorted((draw(st.integers(0, s)), draw(st.integers(0, s))))) for s in x.shape)
    return lambda t: t.shrink(bounds), x[tuple(slice(*b) for b in bounds)]


def pad(draw, x):
    around = tuple((draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in x.shape)
    value = draw(st.sampled_from([0, -7]))
    padded = np.pad(x, around, constant_values=value) if x.ndim else x
    return lambda t: t.pad(around, value=value), padded


def cut(draw, x):
    index = tuple(slices(draw) for _ in x.shape)
    return lambda t: t[index], x[index]


def axis_less(draw, x):
    return lambda t: t.squeeze(), x.squeeze()


def axis_more(draw, x):
    at = draw(st.integers(-x.ndim - 1, x.ndim))
    return lambda t: t.unsqueeze(at), np.expand_dims(x, at)


def roll(draw, x):
    axes = tuple(a for a in range(x.ndim) if draw(st.booleans()))
    shifts = tuple(draw(st.integers(-6, 6)) for _ in axes)
    return lambda t: t.roll(shifts, axes) if axes else t, np.roll(x, shifts, axes) if axes else x


def add(draw, x):
    return lambda t: t + 1, x + 1


STEPS = [reshape, permute, flip, expand, shrink, pad, cut, axis_less, axis_more, roll, add]


@examples(80)
@given(shapes, data)
def test_property_chains_of_movement(shape, draw):
    x = numbers(shape)
    tensor = Tensor(x)
    for step in draw.draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=6)):
        move, moved = step(draw.draw, x)
        if moved.size > 2000 or moved.ndim > 6:
            continue
        x, tensor = moved, move(tensor)
    same(tensor, x)


@examples(40)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple), data)
def test_property_chains_of_movement_of_shards(shape, draw):
    axis = draw.draw(st.sampled_from([None, *(a for a, s in enumerate(shape) if s % 2 == 0)]))
    x = numbers(shape)
    tensor = Tensor(x).shard(("CPU:0", "CPU:1"), axis=axis)
    for step in draw.draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=5)):
        move, moved = step(draw.draw, x)
        if 0 < moved.size <= 2000 and moved.ndim <= 6:
            x, tensor = moved, move(tensor)
    try:
        values = tensor.numpy()
    except ShapeError as error:  # elements of one axis would have to change their devices
        assert "gather it first with to()" in str(error) and axis is not None
        return
    np.testing.assert_array_equal(values, x)


# ---- broadcasting and reduces


@examples(80)
@given(st.lists(st.integers(0, 3), max_size=4).map(tuple), st.lists(st.integers(0, 3), max_size=4).map(tuple))
def test_property_broadcasting(one, other):
    a, b = numbers(one), -2 * numbers(other)
    try:
        expected = [a + b, np.maximum(a, b), np.where(a > 2, a, b)]
    except ValueError:
        for compute in (Tensor.add, Tensor.maximum, lambda x, y: (x > 2).where(x, y)):
            with pytest.raises(Error, match="cannot be broadcast together"):
                compute(Tensor(a), Tensor(b))
        return
    x, y = Tensor(a), Tensor(b)
    for made, wanted in zip([x + y, x.maximum(y), (x > 2).where(x, y)], expected):
        same(made, wanted)


REDUCES = ["sum", "prod", "max", "min", "mean", "any", "all", "argmax", "argmin"]


@examples(80)
@given(shapes, data)
def test_property_reduces(shape, draw):
    name = draw.draw(st.sampled_from(REDUCES))
    axes = tuple(a for a in range(len(shape)) if draw.draw(st.booleans()))
    axis = draw.draw(st.sampled_from([None, tuple(a - len(shape) if draw.draw(st.booleans()) else a for a in axes)]))
    if name.startswith("arg") and axis is not None:
        axis = axis[0] if axis else None
    keepdim = draw.draw(st.booleans()) and not (name.startswith("arg") and axis is None)
    x = (numbers(shape) % 5 - 1).astype(np.float64 if name == "mean" else np.int32)
    compute = {"any": lambda v, **k: np.any(v != 0, **k), "all": lambda v, **k: np.all(v != 0, **k)}.get(name, getattr(np, name))
    reduced = axis if axis is not None else tuple(range(len(shape)))
    count = math.prod(shape[a] for a in (reduced if isinstance(reduced, tuple) else (reduced,)))
    tensor = Tensor(x)
    if count == 0 and name in ("max", "min", "argmax", "argmin"):
        with pytest.raises(Error, match="is empty"):
            getattr(tensor, name)(axis, keepdim=keepdim)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the mean of nothing
        expected = np.asarray(compute(x, axis=axis, keepdims=keepdim))
    if name in ("sum", "prod"):
        expected = expected.astype(np.int32)  # NumPy has made it int64
    result = getattr(tensor, name)(axis, keepdim=keepdim)
    assert result.shape == expected.shape
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-12)

"""Functions made at random, captured and replayed, against NumPy. QUERN_NIGHTLY=1: many more."""

import os

import numpy as np
import pytest

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import given, settings, strategies as st  # noqa: E402

from quern import Tensor, TinyJit, dtypes  # noqa: E402

NIGHTLY = bool(os.environ.get("QUERN_NIGHTLY"))
SIZE = 4
data = st.data()


def examples(count):
    return settings(max_examples=count * 20 if NIGHTLY else count, derandomize=not NIGHTLY, deadline=None, database=None,
                    suppress_health_check=list(hypothesis.HealthCheck))


# Steps of a function: each makes one more value, of values so far. They do the same to tensors and to arrays.
STEPS = {
    "double": lambda a, b: a * 2,
    "double again": lambda a, b: a * 2,
    "sum": lambda a, b: a + b,
    "sum the other way": lambda a, b: b + a,
    "rows": lambda a, b: a.reshape(2, 2),
    "flat": lambda a, b: a.reshape(2, 2).reshape(SIZE),
    "behind": lambda a, b: a[1:],
    "before": lambda a, b: a[:2],
    "total": lambda a, b: a.sum(),
    "half of the double total": lambda a, b: (a * 2).sum() // 2,
    "itself": lambda a, b: a,
}
KEEP_SHAPE = {"double", "double again", "sum", "sum the other way", "flat", "itself"}


@examples(150)
@given(data)
def test_property_functions_in_a_jit(draw):
    """Results that are equal, inputs, views of inputs and of each other; arguments by keyword in any order; what is held is assigned."""
    names = ["x", "y", "z"][: draw.draw(st.integers(1, 3))]
    by_keyword = [draw.draw(st.booleans()) for _ in names]
    by_keyword = [any(by_keyword[: i + 1]) for i in range(len(names))]  # none by place behind one by keyword
    steps, whole = [], list(range(len(names) + 1))  # which values have the whole shape
    for _ in range(draw.draw(st.integers(1, 5))):
        name = draw.draw(st.sampled_from(sorted(STEPS)))
        steps.append((name, *(whole[draw.draw(st.integers(0, len(whole) - 1))] for _ in range(2))))
        if name in KEEP_SHAPE:
            whole.append(len(names) + len(steps))
    count = len(names) + 1 + len(steps)
    returned = draw.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=4))
    assigned = draw.draw(st.sampled_from([None, *whole]))
    in_place = draw.draw(st.booleans())
    lazy_outside = draw.draw(st.booleans())

    held, held_array = Tensor([1, 2, 3, 4], dtype=dtypes.int32).realize(), np.array([1, 2, 3, 4], np.int32)

    def compute(values):
        for name, a, b in steps:
            values.append(STEPS[name](values[a], values[b]))
        return values

    @TinyJit
    def jitted(x, y=None, z=None):
        values = compute([*(v for v in (x, y, z) if v is not None), held])
        if assigned is not None:
            held.assign(values[assigned] + 1)
        return tuple(values[i] for i in returned)

    for call in range(5):
        arrays = [np.array(draw.draw(st.lists(st.integers(-9, 9), min_size=SIZE, max_size=SIZE)), np.int32) for _ in names]
        tensors = [Tensor(a).realize() for a in arrays]
        outside = held * 2 if lazy_outside else None
        outside_array = held_array * 2
        keywords = draw.draw(st.permutations([i for i in range(len(names)) if by_keyword[i]]))
        results = jitted(*(t for t, k in zip(tensors, by_keyword) if not k), **{names[i]: tensors[i] for i in keywords})
        # What is returned is as it is when the call is over, so what is held is seen as it is then.
        values = compute([*arrays, held_array.copy()])
        if assigned is not None:
            held_array[...] = values[assigned] + 1
        of_held = {len(names)}
        for i, (name, a, _) in enumerate(steps):
            if name in ("rows", "flat", "behind", "before", "itself") and a in of_held:
                of_held.add(len(names) + 1 + i)
        now = compute([*arrays, held_array])
        for result, i in zip(results, returned):
            np.testing.assert_array_equal(result.numpy(), now[i] if i in of_held else values[i])
        np.testing.assert_array_equal(held.numpy(), held_array)
        if outside is not None:
            np.testing.assert_array_equal(outside.numpy(), outside_array)
        for tensor, array in zip(tensors, arrays):
            np.testing.assert_array_equal(tensor.numpy(), array)
        if in_place and STEPS and steps:  # results of steps that are equal by value only are not each other
            first = returned[0]
            is_fresh = first > len(names) and steps[first - len(names) - 1][0] in ("double", "double again", "sum", "sum the other way")
            others = [i for i in returned[1:] if i != first]
            views = {i + len(names) + 1 for i, (name, *_) in enumerate(steps) if name in ("rows", "flat", "behind", "before", "itself")}
            if is_fresh and not any(i in views for i in others):
                results[0].assign(results[0] + 100)
                for result, i in zip(results[1:], returned[1:]):
                    expected = now[i] if i in of_held else values[i]
                    np.testing.assert_array_equal(result.numpy(), expected + 100 if i == first else expected)

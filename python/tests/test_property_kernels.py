"""Programs of kernels that users write, assignments and views, made at random, against NumPy. QUERN_NIGHTLY=1: many more."""

import os

import numpy as np
import pytest

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import given, settings, strategies as st  # noqa: E402

from quern import Tensor, TinyJit, dtypes, function  # noqa: E402
from quern.uop import Ops, UOp  # noqa: E402

NIGHTLY = bool(os.environ.get("QUERN_NIGHTLY"))
SIZE = 4
data = st.data()


def examples(count):
    return settings(max_examples=count * 20 if NIGHTLY else count, derandomize=not NIGHTLY, deadline=None, database=None,
                    suppress_health_check=list(hypothesis.HealthCheck))


def at(memory, place):
    return UOp(Ops.INDEX, memory.dtype, (memory, place))


def load(memory, place):
    return UOp(Ops.LOAD, dtypes.int32, (at(memory, place),))


def kernel(*outputs, flipped=False):
    """For the first arguments: what is stored there, computed from the elements of all. Flipped: those of the others from behind."""

    def body(*memory):
        i = UOp.range(SIZE, 0)
        given = [load(m, SIZE - 1 - i if flipped and k >= len(outputs) else i) for k, m in enumerate(memory)]
        stores = tuple(UOp(Ops.STORE, None, (at(m, i), f(*given))) for m, f in zip(memory, outputs))
        return UOp.sink(UOp(Ops.END, None, (UOp(Ops.GROUP, None, stores) if len(stores) > 1 else stores[0], i)))

    def expected(*arrays):
        arrays = [a.copy() for a in arrays]
        given = [a[::-1] if flipped and k >= len(outputs) else a for k, a in enumerate(arrays)]
        return [f(*given) for f in outputs] + arrays[len(outputs):]

    return body, expected


ADD = kernel(lambda a, b: a + b)
ADD_THREE = kernel(lambda a, b, c: a + b * 2 - c)
FLIP = kernel(lambda a, b: b - a, flipped=True)
BOTH = kernel(lambda a, b: a + b, lambda a, b: a - b)
TWO_OF_THREE = kernel(lambda a, b, c: b + c, lambda a, b, c: a - c, flipped=True)
KERNELS = [(ADD, 2), (ADD_THREE, 3), (FLIP, 2), (BOTH, 2), (TWO_OF_THREE, 3)]


class Program:
    """Tensors and what they should hold, as NumPy arrays that see each other's memory as the tensors do."""

    def __init__(self, draw):
        self.draw, self.all = draw, []
        for _ in range(2):
            self.make()

    def pick(self):
        return self.all[self.draw(st.integers(0, len(self.all) - 1))]

    def add(self, tensor, array):
        self.all.append((tensor, array))

    def make(self):
        values = np.array(self.draw(st.lists(st.integers(-9, 9), min_size=SIZE, max_size=SIZE)), np.int32)
        self.add(Tensor(values).realize() if self.draw(st.booleans()) else Tensor(values.tolist(), dtype=dtypes.int32), values)

    def compute(self):
        (x, a), (y, b) = self.pick(), self.pick()
        op = self.draw(st.sampled_from(["+", "flip", "*", "rows"]))
        if op == "+":
            self.add(x + y, a + b)
        elif op == "*":
            self.add(x * 3 - y, a * 3 - b)
        elif op == "flip":
            self.add(x.flip(0) + y, a[::-1] + b)
        else:
            self.add((x.reshape(2, 2).sum(0, keepdim=True) + y.reshape(2, 2)).reshape(SIZE), (a.reshape(2, 2).sum(0) + b.reshape(2, 2)).reshape(-1))

    def call(self):
        (body, expected), count = KERNELS[self.draw(st.integers(0, len(KERNELS) - 1))]
        given = [self.pick() for _ in range(count)]
        wrapped = self.draw(st.sampled_from([None, None, False, True]))

        def run(*tensors):
            return tuple(Tensor.custom_kernel(*tensors, fxn=body))

        if wrapped is not None:
            run = function(run, precompile=wrapped)
        results = run(*(t for t, _ in given))
        arrays = expected(*(a for _, a in given))
        kept = self.draw(st.lists(st.booleans(), min_size=count, max_size=count))
        for tensor, array, keep in zip(results, arrays, kept):
            if keep:
                self.add(tensor, array)

    def assign(self):
        (x, a), (y, b) = self.pick(), self.pick()
        part = self.draw(st.sampled_from([None, slice(1, 3), slice(0, 2)]))
        if part is None:
            x.assign(y * 2)
            a[...] = b * 2
        else:
            x[part].assign(y[part] + 1)
            a[part] = b[part] + 1

    def drop(self):
        if len(self.all) > 2:
            del self.all[self.draw(st.integers(0, len(self.all) - 1))]

    def read(self):
        tensor, array = self.pick()
        np.testing.assert_array_equal(tensor.numpy(), array)

    def realize(self):
        Tensor.realize(*(t for t, _ in self.all[:: self.draw(st.integers(1, 3))]))

    def check(self):
        for i in self.draw(st.permutations(range(len(self.all)))):
            tensor, array = self.all[i]
            np.testing.assert_array_equal(tensor.numpy(), array)


STEPS = [Program.make, Program.compute, Program.call, Program.call, Program.call, Program.assign, Program.assign, Program.drop, Program.read,
         Program.realize]


@examples(150)
@given(data)
def test_property_programs_of_kernels(draw):
    program = Program(draw.draw)
    for step in draw.draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=12)):
        step(program)
    program.check()


@examples(40)
@given(data)
def test_property_kernels_in_a_jit(draw):
    """A function of kernels that read and write what is given, what is held and what it makes, captured and replayed."""
    (first, first_expected), first_count = draw.draw(st.sampled_from(KERNELS))
    (second, second_expected), second_count = draw.draw(st.sampled_from(KERNELS))
    places = [draw.draw(st.integers(0, 3)) for _ in range(first_count + second_count)]
    assigned = draw.draw(st.sampled_from([None, "held", "before"]))
    held = Tensor([1, 2, 3, 4], dtype=dtypes.int32).realize()
    held_array = np.array([1, 2, 3, 4], np.int32)

    def run(x, y, *, hold, kernel, assign):
        values = [x, y, hold, x + y]
        if assign == "before":
            assign_to(hold, y)
        one = kernel(0)(*(values[p] for p in places[:first_count]))
        values[1] = one[0]
        two = kernel(1)(*(values[p] for p in places[first_count:]))
        if assign == "held":
            assign_to(hold, two[0])
        return tuple(one) + tuple(two)

    def assign_to(target, value):
        if isinstance(target, Tensor):
            target.assign(value)
        else:
            target[...] = value

    @TinyJit
    def jitted(x, y):
        results = run(x, y, hold=held, kernel=lambda i: lambda *t: Tensor.custom_kernel(*t, fxn=(first, second)[i]), assign=assigned)
        return tuple(r + 0 for r in results)

    for i in range(5):
        a, b = np.array([i, 2 * i, 3, -i], np.int32), np.array([5, -i, i, 1], np.int32)
        x, y = Tensor(a).realize(), Tensor(b).realize()
        results = jitted(x, y)
        expected = run(a, b, hold=held_array, kernel=lambda i: (first_expected, second_expected)[i], assign=assigned)
        for result, array in zip(results, expected):
            np.testing.assert_array_equal(result.numpy(), array)
        np.testing.assert_array_equal(held.numpy(), held_array)
        np.testing.assert_array_equal(x.numpy(), a)
        np.testing.assert_array_equal(y.numpy(), b)

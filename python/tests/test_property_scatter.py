"""Values put into places by random indices, against NumPy. QUERN_NIGHTLY=1: many more, and others in each run."""

import os

import numpy as np
import pytest

from quern import Tensor

NIGHTLY = bool(os.environ.get("QUERN_NIGHTLY"))
SEED = int(os.environ.get("QUERN_SEED", 1))
CASES = 3000 if NIGHTLY else 60
DTYPES = ["bool", "int8", "uint8", "int16", "int32", "int64", "uint32", "float16", "float32", "float64"]
COMBINE = {"": lambda old, new: new, "sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


@pytest.fixture
def cases(request):
    """A generator of numbers for each case."""
    print(f"{CASES} cases, QUERN_SEED={SEED}")
    return [np.random.default_rng([SEED, case]) for case in range(CASES)]


def numbers(random, shape, dtype):
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(bool)
    return random.integers(0 if dtype.startswith("u") else -4, 5, shape).astype(dtype)


def laid_out(random, array, device):
    """The array as a tensor that lies in memory in one way or another, or does not yet."""
    def tensor(a):
        return Tensor(np.array(a, order="C"), dtype=a.dtype.name, device=device)

    way = random.integers(0, 5) if array.ndim else 4
    if way == 0:
        order = random.permutation(array.ndim)
        return tensor(array.transpose(order)).permute(*np.argsort(order).tolist())
    if way == 1:
        return tensor(array[::-1]).flip(0)
    if way == 2:
        around = np.zeros((array.shape[0] + 2, *array.shape[1:]), array.dtype)
        around[1:-1] = array
        return tensor(around)[1:-1]
    if way == 3 and array.dtype != bool:
        return tensor(array) + 0
    return tensor(array).realize()


def scattered(x, axis, index, source, reduce, include_self):
    found = {}
    for at in np.ndindex(*index.shape):
        place = int(index[at]) + (x.shape[axis] if index[at] < 0 else 0)
        if 0 <= place < x.shape[axis]:
            found.setdefault((*at[:axis], place, *at[axis + 1:]), []).append(source[at])
    result = x.copy()
    for at, values in found.items():
        if include_self and reduce:
            values.insert(0, x[at])
        if reduce == "mean":
            total = sum(float(v) for v in values)
            result[at] = total / len(values) if x.dtype.kind == "f" else total // len(values)
            continue
        so_far = np.asarray(values[0])
        for v in values[1:]:
            so_far = np.asarray(COMBINE[reduce](so_far, v)).astype(x.dtype)
        result[at] = so_far
    return result


def test_scatter(cases, device):
    for number, random in enumerate(cases):
        dtype = str(random.choice(DTYPES))
        shape = tuple(int(random.integers(0 if random.random() < 0.1 else 1, 6)) for _ in range(random.integers(1, 4)))
        axis = int(random.integers(len(shape)))
        sizes = [int(random.integers(0, s + 1)) if random.random() < 0.2 else s for s in shape]
        sizes[axis] = int(random.integers(0, 9))
        n = shape[axis]
        index = random.integers(-n - 2, n + 2, sizes).astype(random.choice(["int8", "int32", "int64"]))
        x, source = numbers(random, shape, dtype), numbers(random, tuple(s + int(random.integers(2)) for s in sizes), dtype)
        reduce = str(random.choice(["", "sum", "prod", "mean", "amax", "amin"]))
        if dtype == "bool" and reduce in ("mean", "prod"):
            continue
        include_self = bool(random.integers(2))
        ours = [laid_out(random, a, device) for a in (x, index, source)]
        result = ours[0].scatter(axis, *ours[1:]) if not reduce else ours[0].scatter_reduce(axis, *ours[1:], reduce, include_self)
        wanted = scattered(x, axis, index, source, reduce, include_self)
        loose = 2e-3 if dtype == "float16" and reduce in ("mean", "prod") else 0
        np.testing.assert_allclose(result.numpy(), wanted, rtol=loose, atol=0 if reduce != "mean" else 1e-6, err_msg=f"case {number}")
        np.testing.assert_array_equal(ours[0].numpy(), x, err_msg=f"case {number}: its argument")


def picked_by(random, shape, together):
    """Indices, tensors among them, for some of the axes."""
    at = []
    for size in shape:
        kind = random.integers(0, 7)
        if kind < 3:
            own = tuple(1 if random.random() < 0.2 else s for s in together)
            at.append(random.integers(-size, size, own).astype("int32" if kind else "int64"))
        elif kind == 3:
            at.append(int(random.integers(-size, size)))
        elif kind == 4:
            at.append(slice(int(random.integers(0, size)), None, int(random.integers(1, 3))))
        else:
            at.append(slice(None))
        if random.random() < 0.1:
            at.append(None)
    return at


def test_assignment(cases, device):
    for number, random in enumerate(cases):
        shape = tuple(int(random.integers(1, 6)) for _ in range(random.integers(1, 4)))
        dtype = str(random.choice(["int8", "int64", "float16", "float32"]))
        at = picked_by(random, shape, tuple(int(random.integers(0 if random.random() < 0.1 else 1, 4)) for _ in range(random.integers(3))))
        if not any(isinstance(i, np.ndarray) for i in at):
            continue
        before = numbers(random, shape, dtype)
        expected = before.copy()
        view, rest = expected, []  # integers are taken first
        for i in at:
            if isinstance(i, int):
                view = view[(*[slice(None)] * sum(r is not None for r in rest), i)]
            else:
                rest.append(i)
        places = np.arange(view.size).reshape(view.shape)[tuple(rest)]
        value = numbers(random, tuple(1 if random.random() < 0.3 else s for s in places.shape)[int(random.integers(places.ndim + 1)):], dtype)
        written = view.flatten()
        for place, v in zip(places.ravel(), np.broadcast_to(value, places.shape).ravel()):
            written[place] = v  # the last one stays
        view[...] = written.reshape(view.shape)
        x = laid_out(random, before, device)
        copy = x * 1
        given = laid_out(random, value, device) if value.ndim or random.random() < 0.5 else value.item()
        x[tuple(laid_out(random, i, device) if isinstance(i, np.ndarray) else i for i in at)] = given
        np.testing.assert_array_equal(x.numpy(), expected, err_msg=f"case {number}")
        np.testing.assert_array_equal(copy.numpy(), before, err_msg=f"case {number}: what was computed before")


def test_the_same_bits(cases):
    """Floats are added in the order of the source, whatever the device."""
    for number, random in enumerate(cases[:20]):
        shape = (int(random.integers(1, 4)), int(random.integers(1, 5)), int(random.integers(1, 20)))
        dtype = str(random.choice(["float16", "float32", "float64"]))
        index, x = random.integers(0, shape[1], 30), random.standard_normal(shape).astype(dtype)
        source = random.standard_normal((shape[0], 30, shape[2])).astype(dtype)
        expected = x.astype("float32" if dtype == "float16" else dtype)
        for k, place in enumerate(index):
            expected[:, place] += source[:, k]
        for device in ("CPU", "INTERP", "LINEAR"):
            tensors = [Tensor(a, device=device) for a in (x, index, source)]
            result = tensors[0].index_add(1, *tensors[1:])
            np.testing.assert_array_equal(result.numpy(), expected.astype(dtype), err_msg=f"case {number} on {device}")

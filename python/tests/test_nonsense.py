"""Nonsense given to every function is an exception of Python, and never the end of the process. QUERN_NIGHTLY=1: 50,000 calls."""

import os
import random

import numpy as np
import pytest

import quern
from quern import Tensor, Variable, dtypes, nn
from quern.uop import Ops, UOp

CALLS = 25000 if os.environ.get("QUERN_NIGHTLY") else 1500  # of each of the two tests

# what runs code of its own, or waits, or is about the process
LEFT_OUT = {"from_blob", "train", "custom_kernel", "sequential", "manual_seed"}

VALUES = [
    None, True, 0, 1, -1, 2, 3, 7, 2**31, -(2**63), 2**64, 10**30, 0.5, float("nan"), float("inf"), "", "mean", "sum", "cpu",
    "float32", "ij,jk->ik", "a b -> b a", b"ab", (), (1,), (1, 2), (None, 1), ((0, 1), (1, 2)), slice(None), ..., object(),
    dtypes.float32, dtypes.bool, Ops.ADD, np.array("text"), np.float32(2), Variable("n", 1, 4), Variable("n", 1, 4).bind(2),
    UOp.const("int32", 3), Tensor, len,
]
MADE = [  # what a call may change is made for each
    list, dict, lambda: [2, 3], lambda: [[1, 2], [3]], lambda: {"a": 1}, lambda: np.zeros(2), lambda: Tensor([1.0, 2.0]),
    lambda: Tensor([[1, 2], [3, 4]]), lambda: Tensor(2.5), lambda: Tensor([True, False]), lambda: Tensor.zeros(0),
    lambda: Tensor.zeros(2, 0, 3), lambda: Tensor.ones(1, 2, 4, 4), lambda: [Tensor([1.0]), Tensor([2.0])],
]
KEYWORDS = "axis dim dtype device shape size keepdim value x y index mask bias weight stride padding reduction lr name".split()


def pick(rng):
    i = rng.randrange(len(VALUES) + len(MADE))
    return VALUES[i] if i < len(VALUES) else MADE[i - len(VALUES)]()


@pytest.fixture
def attempt(tmp_path):
    """A function that calls another with nonsense. What it calls stands in a file, should the process end there."""
    with open(tmp_path / "call", "wb", buffering=0) as file:

        def call(name, function, rng):
            given = [pick(rng) for _ in range(rng.randint(0, 4))]
            named = {rng.choice(KEYWORDS): pick(rng) for _ in range(rng.choice((0, 0, 0, 1, 2)))}
            file.seek(0)
            file.write(f"{name} {given} {named}\n".encode(errors="replace"))
            file.truncate()
            try:
                result = function(*given, **named)
                if isinstance(result, Tensor) and all(isinstance(s, int) for s in result.shape) and result.numel() <= 10000:
                    result.realize()
            except quern.InternalError as error:
                raise AssertionError(f"{name} {given} {named}") from error
            except Exception:
                pass

        yield call


def test_nonsense(attempt):
    rng = random.Random(1)
    names = [n for n in dir(Tensor) if not n.startswith("__") and n not in LEFT_OUT]
    names += "__add__ __radd__ __getitem__ __setitem__ __matmul__ __eq__ __contains__ __format__ __pow__ __array__".split()
    for i in range(CALLS):
        name = names[i % len(names)]
        x = rng.choice([Tensor([1.0, 2.0]), Tensor([[1, 2], [3, 4]]), Tensor(2.5), Tensor.ones(1, 2, 4, 4)])
        function = getattr(x, name)
        if callable(function):
            attempt(f"Tensor.{name}", function, rng)


def test_nonsense_elsewhere(attempt):
    rng = random.Random(2)
    calls = [Tensor, UOp, Variable, quern.Context, quern.TinyJit, dtypes.min, dtypes.is_float, quern.DType]
    calls += [getattr(nn, n) for n in nn.__all__ if callable(getattr(nn, n))]
    calls += [getattr(nn.optim, n) for n in nn.optim.__all__]
    calls += [getattr(nn.state, n) for n in nn.state.__all__ if "save" not in n]
    u = Variable("n", 1, 4)
    calls += [getattr(u, n) for n in dir(UOp) if callable(getattr(u, n)) and (not n.startswith("__") or n in ("__add__", "__mod__"))]
    for i in range(CALLS):
        function = calls[i % len(calls)]
        attempt(getattr(function, "__qualname__", str(function)), function, rng)

"""Nonsense given to every function is an exception of Python, and never the end of the process."""

import random

import numpy as np

import quern
from quern import Tensor, Variable, dtypes, nn
from quern.uop import Ops, UOp

# what runs code of its own, or waits, or is about the process
LEFT_OUT = {"from_blob", "train", "custom_kernel", "sequential", "manual_seed"}


def values(pick):
    return [
        None, True, 0, 1, -1, 2, 3, 7, 2**31, -(2**63), 2**64, 10**30, 0.5, float("nan"), float("inf"), "", "mean", "sum", "cpu",
        "float32", "ij,jk->ik", "a b -> b a", b"ab", (), [], (1,), (1, 2), [2, 3], [[1, 2], [3]], (None, 1), ((0, 1), (1, 2)), {},
        {"a": 1}, slice(None), ..., object(), dtypes.float32, dtypes.bool, Ops.ADD, np.zeros(2), np.array("text"), np.float32(2),
        Variable("n", 1, 4), Variable("n", 1, 4).bind(2), Tensor([1.0, 2.0]), Tensor([[1, 2], [3, 4]]), Tensor(2.5),
        Tensor([True, False]), Tensor.zeros(0), Tensor.zeros(2, 0, 3), Tensor.ones(1, 2, 4, 4), [Tensor([1.0]), Tensor([2.0])],
        UOp.const("int32", 3), Tensor, len,
    ]


def attempt(call, rng):
    pool = values(rng)
    given = [rng.choice(pool) for _ in range(rng.randint(0, 4))]
    try:
        result = call(*given)
        if isinstance(result, Tensor) and all(isinstance(s, int) for s in result.shape) and result.numel() <= 10000:
            result.realize()
    except quern.InternalError:
        raise
    except Exception:
        pass


def test_nonsense():
    rng = random.Random(1)
    names = [n for n in dir(Tensor) if not n.startswith("__") and n not in LEFT_OUT]
    names += "__add__ __radd__ __getitem__ __setitem__ __matmul__ __eq__ __contains__ __format__ __pow__ __array__".split()
    for _ in range(4):
        for name in names:
            x = rng.choice([Tensor([1.0, 2.0]), Tensor([[1, 2], [3, 4]]), Tensor(2.5), Tensor.ones(1, 2, 4, 4)])
            function = getattr(x, name)
            if callable(function):
                attempt(function, rng)


def test_nonsense_elsewhere():
    rng = random.Random(2)
    calls = [Tensor, UOp, Variable, quern.Context, quern.TinyJit, dtypes.min, dtypes.is_float, quern.DType]
    calls += [getattr(nn, n) for n in nn.__all__ if callable(getattr(nn, n))]
    calls += [getattr(nn.optim, n) for n in nn.optim.__all__]
    calls += [getattr(nn.state, n) for n in nn.state.__all__ if "save" not in n]
    u = Variable("n", 1, 4)
    calls += [getattr(u, n) for n in dir(UOp) if callable(getattr(u, n)) and (not n.startswith("__") or n in ("__add__", "__mod__"))]
    for _ in range(20):
        for call in calls:
            attempt(call, rng)

"""Wrong use of shapes, axes and indices."""

import numpy as np
import pytest
from wrong import NO_SETTER, refuses, row, wanted

import quern
from quern import AxisError, DTypeError, Error, IndexError, ShapeError, Tensor  # noqa: A004 (an IndexError of Python, too)

m = Tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]).realize()
INDEX = "expected an int, a slice, ..., None or a Tensor as an index, got "


def set_at(at, value, x=m):
    return lambda: x.__setitem__(at, value)


BROADCASTING = [
    row(ShapeError, "add: shapes (2, 3) and (4,) cannot be broadcast together: sizes 3 and 4", lambda: m + Tensor.ones(4)),
    row(ShapeError, "mul: shapes (2, 3) and (3, 2) cannot be broadcast together: sizes 2 and 3", lambda: m * Tensor.ones(3, 2)),
    row(ShapeError, "maximum: shapes (2, 3) and (2,) cannot be broadcast together", lambda: m.maximum(Tensor.ones(2))),
    row(ShapeError, "where: shapes (2,) and (3,) cannot be broadcast together",
        lambda: Tensor([True]).where(Tensor.ones(2), Tensor.ones(3))),
    row(TypeError, "unsupported operand type(s) for %: 'Tensor' and 'str'", lambda: m % "x"),
    row(TypeError, "expected a Tensor or a number, got 'a'", lambda: m.add("a")),
    row(TypeError, "expected a Tensor or a number, got 'a'", lambda: m.clamp("a")),
    row(quern.ValueError, "clamp: neither a least nor a greatest value is given", lambda: m.clamp()),
    row(quern.ValueError, 'div: rounding "up" is not "", "floor" or "trunc"', lambda: m.div(2, rounding_mode="up")),
    row(quern.ValueError, 'gelu: approximate is "x", not "tanh" or "none"', lambda: m.gelu("x")),
    row(quern.ValueError, "softplus: beta is 0; it must be positive", lambda: m.softplus(0)),
    row(quern.ValueError, "dropout: p is 1.5; it must be in [0, 1]", lambda: m.dropout(1.5)),
]

MOVEMENT = [
    row(ShapeError, "reshape: (2, 3) has 6 elements, (5,) has 5", lambda: m.reshape(5)),
    row(ShapeError, "reshape: more than one -1 in (-1, -1)", lambda: m.reshape(-1, -1)),
    row(ShapeError, "reshape: (2, 3) to (4, -1): -1 stands for no size", lambda: m.reshape(4, -1)),
    row(ShapeError, "reshape: negative size in (-2, -3)", lambda: m.reshape(-2, -3)),
    row(ShapeError, "reshape: None stands for axis 2, the tensor has shape (2, 3)", lambda: m.reshape(None, None, None)),
    row(TypeError, "expected a size: an int, or a UOp, got 2.0", lambda: m.reshape(2.0, 3)),
    row(TypeError, "kwargs = { nonsense: int }", lambda: m.reshape(1, nonsense=2)),
    row(ShapeError, "expand: (2, 3) cannot be broadcast to (2, 4): axis 1 is 3, not 1 or 4", lambda: m.expand(2, 4)),
    row(ShapeError, "expand: (2, 3) has more axes than (3,)", lambda: m.expand(3)),
    row(ShapeError, "permute: [0] names 1 axes of (2, 3)", lambda: m.permute(0)),
    row(ShapeError, "permute: axis 0 is named twice in [0, 0]", lambda: m.permute(0, 0)),
    row(AxisError, "permute: axis 2 is not in [-2, 1]", lambda: m.permute(0, 2)),
    row(TypeError, "expected an int, got 'a'", lambda: m.permute(0, "a")),
    row(AxisError, "transpose: axis 5 is not in [-2, 1]", lambda: m.transpose(0, 5)),
    row(ShapeError, "flatten: the first axis 1 is behind the last 0", lambda: m.flatten(1, 0)),
    row(ShapeError, "reshape: (3,) has 3 elements, (2, 2) has 4", lambda: m.unflatten(1, (2, 2))),
    row(AxisError, "squeeze: axis 5 is not in [-2, 1]", lambda: m.squeeze(5)),
    row(AxisError, "unsqueeze: axis 5 is not in [-3, 2]", lambda: m.unsqueeze(5)),
    row(ShapeError, "shrink: axis 0 is 2 long, asked for [0, 5)", lambda: m.shrink(((0, 5), None))),
    row(ShapeError, "shrink: 1 bounds for the 2 axes of (2, 3)", lambda: m.shrink(((0, 1),))),
    row(TypeError, "expected shrink: a pair of sizes, got 0", lambda: m.shrink((0, 1))),
    row(ShapeError, "pad: 3 numbers for (2, 3); two an axis are needed, the last axis first", lambda: m.pad((1, 2, 3))),
    row(ShapeError, "pad: 1 pairs for the 2 axes of (2, 3)", lambda: m.pad(((1, 1),))),
    row(quern.ValueError, 'pad: mode "nope" is not "constant", "reflect", "replicate" or "circular"', lambda: m.pad((1, 1), mode="nope")),
    row(ShapeError, "pad: mode reflect cannot pad axis 1 of (2, 3) by (3, 3)", lambda: m.pad((3, 3), mode="reflect")),
    row(ShapeError, "pad: (-4, 0) takes more than the 3 elements of axis 1", lambda: m.pad((-4, 0))),
    row(ShapeError, "flip: axis 0 is named twice in [0, 0]", lambda: m.flip(0, 0)),
    row(quern.ValueError, "roll: 2 shifts for 1 axes", lambda: m.roll((1, 2), 0)),
    row(TypeError, "expected an int, or a tuple of them, got 'a'", lambda: m.roll(1, "a")),
    row(ShapeError, "repeat: 1 numbers for the 2 axes of (2, 3)", lambda: m.repeat(2)),
    row(ShapeError, "repeat: -1 times; it must be 0 or more", lambda: m.repeat(-1, 2)),
    row(AxisError, "repeat_interleave: axis 5 is not in [-2, 1]", lambda: m.repeat_interleave(2, 5)),
    row(TypeError, "expected a Tensor, got 5", lambda: m.cat(5)),
    row(TypeError, "expected a Tensor, got 'ab'", lambda: Tensor.cat("ab", m)),
    row(TypeError, "expected a Tensor, got 5", lambda: Tensor.stack([m, 5])),
    row(TypeError, "expected a Tensor, got np.float64(1.0)", lambda: Tensor.stack(np.float64(1))),
    row(TypeError, "expected a Tensor, got list", lambda: Tensor.einsum("a->a", [[m]])),
    row(TypeError, "expected a Tensor, got 5", lambda: Tensor.einsum("a->a", 5)),
    row(TypeError, "expected the size of an axis, got ()", lambda: m.rearrange("a (b c) -> a b c", b=())),
    row(quern.ValueError, "stack: no tensors are given", lambda: Tensor.stack([])),
    row(ShapeError, "cat: tensor 1 has shape (2, 4), the first (2, 3); only axis 0 may differ", lambda: m.cat(Tensor.ones(2, 4))),
    row(ShapeError, "stack: shapes (2, 3) and (3, 2) differ", lambda: Tensor.stack(m, Tensor.ones(3, 2))),
    row(quern.ValueError, "split: parts of 0 elements; they must be positive", lambda: m.split(0)),
    row(ShapeError, "split: parts [1, 1] do not add up to 3, the size of axis 1", lambda: m.split([1, 1], 1)),
    row(quern.ValueError, "chunk: 0 chunks; there must be at least 1", lambda: m.chunk(0)),
    row(ShapeError, "unfold: windows of 5 elements over axis 1 of 3", lambda: m.unfold(1, 5, 1)),
    row(quern.ValueError, "unfold: step 0; it must be positive", lambda: m.unfold(1, 2, 0)),
    row(quern.ValueError, 'rearrange "a b c -> a b": the left side has 3 axes, the tensor (2, 3)', lambda: m.rearrange("a b c -> a b")),
    row(quern.ValueError, 'rearrange "a b -> a c": c is on the right only', lambda: m.rearrange("a b -> a c")),
    row(quern.ValueError, 'rearrange "a b": it must have one "->"', lambda: m.rearrange("a b")),
    row(quern.ValueError, "axis 1 of size 3 cannot be divided by 2", lambda: m.rearrange("a (b c) -> a b c", b=2)),
    row(ShapeError, "pad_to: axis 0 is 2 long, more than 1", lambda: m.pad_to(1, 3)),
    row(ShapeError, "pad_to: 1 sizes for the 2 axes of (2, 3)", lambda: m.pad_to(5)),
    row(ShapeError, "diagonal: axis 0 is named twice", lambda: m.diagonal(0, 0, 0)),
    row(ShapeError, "interpolate: 3 sizes for the axes of (2, 3)", lambda: m.interpolate((2, 2, 2))),
    row(quern.ValueError, 'interpolate: mode "cubic" is not "linear"', lambda: m.interpolate((2,), mode="cubic")),
    row(ShapeError, "len: a tensor of no axes has no length", lambda: len(Tensor(1))),
    row(AxisError, "size: axis 5 is not in [-2, 1]", lambda: m.size(5)),
    row(AttributeError, NO_SETTER, lambda: setattr(m, "shape", (1,))),
]

INDEXING = [
    row(IndexError, "index 5 is out of bounds for axis 0 of size 2", lambda: m[5]),
    row(IndexError, "index -3 is out of bounds for axis 0 of size 2", lambda: m[-3]),
    row(IndexError, "index 3 is out of bounds for axis 1 of size 3", lambda: m[:, 3]),
    row(IndexError, "index: 3 indices for the 2 axes of (2, 3)", lambda: m[0, 0, 0]),
    row(IndexError, "index: 1 indices for the 0 axes of ()", lambda: Tensor(1)[0]),
    row(IndexError, INDEX + "str", lambda: m["a"]),
    row(IndexError, INDEX + "float", lambda: m[1.5]),
    row(IndexError, INDEX + "dict", lambda: m[{1: 2}]),
    row(IndexError, "index: more than one ellipsis", lambda: m[..., ...]),
    row(IndexError, "a bool is no index; a mask is a Tensor of bools", lambda: m[True]),
    row(IndexError, "index: a tensor of float32; indices are integers or bools", lambda: m[Tensor([0.5])]),
    row(IndexError, "index: a mask of shape (3,) does not fit axis 0 of (2, 3)", lambda: m[np.array([True, False, True])]),
    row(ShapeError, "index: shapes (2,) and (3,) cannot be broadcast together", lambda: m[[0, 1], [0, 1, 2]]),
    row(quern.ValueError, "index: a slice with step 0", lambda: m[::0]),
    row(TypeError, "expected a size: an int, or a UOp, got 'a'", lambda: m[slice("a", None)]),
    row(TypeError, "a Tensor of no axes cannot be iterated over", lambda: list(Tensor(1))),
    row(IndexError, "index 5 is out of bounds for axis 0 of size 2", set_at(5, 1)),
    row(IndexError, INDEX + "str", set_at("a", 1)),
    row(ShapeError, "set: (2,) cannot be broadcast to (3,): axis 0 is 2, not 1 or 3", set_at(0, [1, 2])),
    row(ShapeError, "set: (5,) cannot be broadcast to (2, 3)", set_at(slice(None), Tensor.ones(5))),
    row(TypeError, "expected numbers", set_at(0, "a")),
    row(DTypeError, "1.5 is not one of the values of int32", set_at(0, 1.5, Tensor([1, 2]))),
    row(AxisError, "gather: axis 5 is not in [-2, 1]", lambda: m.gather(5, Tensor([[0]]))),
    row(ShapeError, "gather: the indices have shape (1,), the tensor (2, 3): as many axes are needed", lambda: m.gather(0, Tensor([0]))),
    row(DTypeError, "gather: the indices must be integers, given float32 (1, 1)", lambda: m.gather(0, Tensor([[0.5]]))),
    row(ShapeError, "scatter: the source (1, 1) is smaller than the indices (1, 2)",
        lambda: m.scatter(0, Tensor([[0, 1]]), Tensor.ones(1, 1))),
    row(quern.ValueError, 'scatter: reduce is "nope", not "", "add" or "multiply"',
        lambda: m.scatter(0, Tensor([[0]]), Tensor([[1.0]]), reduce="nope")),
    row(quern.ValueError, 'scatter_reduce: reduce is "nope", not "sum", "prod", "mean", "amax" or "amin"',
        lambda: m.scatter_reduce(0, Tensor([[0]]), Tensor([[1.0]]), "nope")),
    row(DTypeError, "masked_fill: the mask must be bool, given int32 (2,)", lambda: m.masked_fill(Tensor([1, 0]), 1)),
    row(ShapeError, "masked_select: shapes (2, 3) and (2,) cannot be broadcast", lambda: m.masked_select(Tensor([True, False]))),
    row(DTypeError, "index_select: the indices must be integers, given float32 (1,)", lambda: m.index_select(0, Tensor([0.5]))),
    row(quern.ValueError, "topk: k is 9, axis 1 has 3 elements", lambda: m.topk(9)),
    row(AxisError, "sort: axis 5 is not in [-2, 1]", lambda: m.sort(5)),
    row(quern.ValueError, "nonzero: size is -1, expected 0 or more", lambda: m.nonzero(size=-1)),
    row(IndexError, "index 3 is out of bounds for axis 1 of size 3", lambda: m[0, 3]),
]

REDUCES = [
    row(TypeError, "expected an int, or a tuple of them, got 'a'", lambda: m.sum("a")),
    row(AxisError, "sum: axis 5 is not in [-2, 1]", lambda: m.sum(5)),
    row(ShapeError, "sum: axis 0 is named twice in [0, 0]", lambda: m.sum((0, 0))),
    row(DTypeError, "'zz' is not a dtype", lambda: m.sum(0, dtype="zz")),
    row(AxisError, "max: axis -3 is not in [-2, 1]", lambda: m.max(-3)),
    row(ShapeError, "max: axis 0 of (0,) is empty: there is no value", lambda: Tensor.zeros(0).max()),
    row(ShapeError, "argmin: axis 1 of (2, 0) is empty: there is no value", lambda: Tensor.zeros(2, 0).argmin(1)),
    row(TypeError, "argmax(): incompatible function arguments", lambda: m.argmax((0, 1))),
    row(AxisError, "softmax: axis 5 is not in [-2, 1]", lambda: m.softmax(5)),
    row(AxisError, "cumsum: axis 5 is not in [-2, 1]", lambda: m.cumsum(5)),
    row(AxisError, "logsumexp: axis 5 is not in [-2, 1]", lambda: m.logsumexp(5)),
    row(quern.ValueError, "multinomial: 5 samples of 3 without replacement", lambda: m.multinomial(5)),
    row(ShapeError, "multinomial: needs one or two axes, given (2, 2, 2)", lambda: Tensor.ones(2, 2, 2).multinomial(1)),
    row(ShapeError, "item: a tensor of shape (2, 3) has not one element", lambda: m.item()),
    row(ShapeError, "item: a tensor of shape (2, 3) has not one element", lambda: bool(m)),
    row(ShapeError, "item: a tensor of shape (2, 3) has not one element", lambda: f"{m:.2f}"),
    row(AxisError, "var: axis 5 is not in [-2, 1]", lambda: m.var(5)),
    row(AxisError, "normalize: axis 5 is not in [-2, 1]", lambda: m.normalize(dim=5)),
    row(AxisError, "layernorm: axis 5 is not in [-2, 1]", lambda: m.layernorm(5)),
]


@pytest.mark.parametrize("kind, text, call", BROADCASTING)
def test_broadcasting(kind, text, call):
    refuses(kind, text, call)


@pytest.mark.parametrize("kind, text, call", MOVEMENT)
def test_movement(kind, text, call):
    refuses(kind, text, call)


@pytest.mark.parametrize("kind, text, call", INDEXING)
def test_indexing(kind, text, call):
    refuses(kind, text, call)
    assert m.tolist() == [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]


@pytest.mark.parametrize("kind, text, call", REDUCES)
def test_reduces(kind, text, call):
    refuses(kind, text, call)

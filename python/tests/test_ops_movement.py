"""What moves elements: shapes, padding, joining and cutting."""

import numpy as np
import pytest

from quern import Tensor, Variable

from reference import checks_of, normal, op

X, CUBE, WIDE, VECTOR, SCALAR = normal(3, 7), normal(2, 3, 4), normal(1, 3, 4, 5), normal(7), normal()
EMPTY = normal(3, 0, 2)
TYPES = {"dtypes": "bool int8 uint16 uint64 float16 bfloat16 float32 float64"}  # all widths


def pads(mode, *pairs):
    """np.pad of the last axes; the pairs are for the last axis first."""
    name = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    return lambda x, **options: np.pad(x, [(0, 0)] * (x.ndim - len(pairs)) + list(reversed(pairs)), name, **options)


def windows(x, axis, size, step):
    seen = np.lib.stride_tricks.sliding_window_view(x, size, axis)
    return np.take(seen, range(0, seen.shape[axis], step), axis)


def linear(x, size, align_corners=False):
    """Linear between neighbours, one axis after the other from the first of those given."""
    for axis, out in zip(range(x.ndim - len(size), x.ndim), size):
        n, i = x.shape[axis], np.arange(out)
        at = i * (n - 1) / max(out - 1, 1) if align_corners else (i + 0.5) * n / out - 0.5
        at = np.clip(at, 0, n - 1)
        low = np.floor(at).astype(int)
        high, weight = np.minimum(low + 1, n - 1), (at - low).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
        x = np.take(x, low, axis) * (1 - weight) + np.take(x, high, axis) * weight
    return x


def shuffled(x, f):
    *front, c, h, w = x.shape
    result = np.zeros((*front, c // f // f, h * f, w * f), x.dtype)
    for i in range(f):
        for k in range(f):
            result[..., i::f, k::f] = x[..., i * f + k::f * f, :, :]
    return result


def unshuffled(x, f):
    parts = [x[..., i::f, k::f] for i in range(f) for k in range(f)]
    return np.stack(parts, -3).reshape(*x.shape[:-3], -1, *parts[0].shape[-2:])


def nearest(x, size, exact=False):
    for axis, out in zip(range(x.ndim - len(size), x.ndim), size):
        x = np.take(x, np.floor((np.arange(out) + 0.5 * exact) * x.shape[axis] / out).astype(int), axis)
    return x


TABLE = [
    op("reshape", lambda x: x.reshape(7, 3), None, X, **TYPES),
    op("reshape", lambda x: x.reshape((4, -1)), None, CUBE),
    op("reshape", lambda x: x.reshape(None, 12), lambda x: x.reshape(2, 12), CUBE),
    op("reshape", lambda x: x.reshape(0, 5), None, EMPTY),
    op("reshape", lambda x: x.reshape(1, 1), None, SCALAR),
    op("reshape", lambda x: x.reshape(()), None, normal(1, 1)),
    op("view", lambda x: x.view(7, 3), lambda x: x.reshape(7, 3), X),
    op("view", lambda x: x.view((-1,)), lambda x: x.reshape(-1), CUBE),
    op("expand", lambda x: x.expand(3, 7), lambda x: np.broadcast_to(x, (3, 7)), normal(3, 1), **TYPES),
    op("expand", lambda x: x.expand((2, -1, 3)), lambda x: np.broadcast_to(x, (2, 7, 3)), normal(7, 1)),
    op("expand", lambda x: x.expand(2, 3), lambda x: np.broadcast_to(x, (2, 3)), SCALAR),
    op("permute", lambda x: x.permute(2, 0, 1), lambda x: x.transpose(2, 0, 1), CUBE, **TYPES),
    op("permute", lambda x: x.permute((0, -1, 1)), lambda x: x.transpose(0, 2, 1), CUBE),
    op("transpose", None, lambda x: x.swapaxes(0, 1), X),
    op("transpose", lambda x: x.transpose(0, -1), lambda x: x.swapaxes(0, -1), CUBE),
    op("swapaxes", lambda x: x.swapaxes(0, -1), None, CUBE, **TYPES),
    op("swapdims", lambda x: x.swapdims(0, 1), lambda x: x.swapaxes(0, 1), X),
    op("movedim", lambda x: x.movedim(0, -1), lambda x: np.moveaxis(x, 0, -1), CUBE, **TYPES),
    op("movedim", lambda x: x.movedim((0, 3), (2, 0)), lambda x: np.moveaxis(x, (0, 3), (2, 0)), WIDE),
    op("moveaxis", lambda x: x.moveaxis([1], [0]), lambda x: np.moveaxis(x, [1], [0]), CUBE),
    op("tile", lambda x: x.tile(2, 3), lambda x: np.tile(x, (2, 3)), X),
    op("tile", lambda x: x.tile((2,)), lambda x: np.tile(x, 2), CUBE),
    op("tile", lambda x: x.tile((2, 1, 3)), lambda x: np.tile(x, (2, 1, 3)), X),
    op("broadcast_to", lambda x: x.broadcast_to((2, 3, 7)), lambda x: np.broadcast_to(x, (2, 3, 7)), normal(3, 1)),
    op("ravel", None, np.ravel, CUBE, **TYPES),
    op("expand_as", lambda x, y: x.expand_as(y), lambda x, y: np.broadcast_to(x, y.shape), normal(3, 1), X, grad=False),
    op("view_as", lambda x: x.view_as(Tensor.zeros(7, 3)), lambda x: x.reshape(7, 3), X),
    op("reshape_as", lambda x: x.reshape_as(Tensor.zeros(7, 3)), lambda x: x.reshape(7, 3), X),
    op("unbind", None, list, CUBE, **TYPES),
    op("unbind", lambda x: x.unbind(-1), lambda x: list(np.moveaxis(x, -1, 0)), X),
    op("narrow", lambda x: x.narrow(1, 2, 3), lambda x: x[:, 2:5], X, **TYPES),
    op("narrow", lambda x: x.narrow(-1, -3, 2), lambda x: x[:, -3:-1], X),
    op("select", lambda x: x.select(1, -2), lambda x: x[:, -2], CUBE, **TYPES),
    op("t", None, lambda x: x.T, X),
    op("t", None, lambda x: x, VECTOR),
    op("mT", lambda x: x.mT, lambda x: x.swapaxes(-1, -2), CUBE),
    op("concat", lambda x, y: x.concat(y, dim=1), lambda x, y: np.concatenate([x, y], 1), X, normal(3, 2)),
    op("concatenate", lambda x, y: Tensor.concatenate([x, y]), lambda x, y: np.concatenate([x, y]), X, normal(2, 7)),
    op("hstack", lambda x, y: Tensor.hstack([x, y]), lambda x, y: np.hstack([x, y]), X, normal(3, 2)),
    op("hstack", lambda x, y: Tensor.hstack((x, y)), lambda x, y: np.hstack([x, y]), VECTOR, normal(2)),
    op("vstack", lambda x, y: Tensor.vstack([x, y]), lambda x, y: np.vstack([x, y]), VECTOR, X),
    op("pixel_shuffle", lambda x: x.pixel_shuffle(2), lambda x: shuffled(x, 2), normal(2, 12, 3, 2), **TYPES),
    op("pixel_shuffle", lambda x: x.pixel_shuffle(3), lambda x: shuffled(x, 3), normal(9, 1, 2)),
    op("pixel_unshuffle", lambda x: x.pixel_unshuffle(2), lambda x: unshuffled(x, 2), normal(2, 3, 4, 6)),
    op("pixel_unshuffle", lambda x: x.pixel_shuffle(2).pixel_unshuffle(2), lambda x: x, normal(1, 4, 2, 3)),
    op("diff", None, np.diff, X, dtypes="bool int8 int32 float32 float64"),
    op("diff", lambda x: x.diff(2, 0), lambda x: np.diff(x, 2, 0), normal(5, 3)),
    op("diff", lambda x: x.diff(4, 0), lambda x: np.diff(x, 3, 0)[:0], X),
    op("glu", None, lambda x: x[..., :2] / (1 + np.exp(-x[..., 2:])), CUBE),
    op("glu", lambda x: x.glu(0), lambda x: x[:1] / (1 + np.exp(-x[1:])), CUBE),
    op("T", lambda x: x.T, lambda x: x.T, X),
    op("T", lambda x: x.T, lambda x: x.swapaxes(0, 1), CUBE, views=False),
    op("flatten", None, np.ravel, CUBE),
    op("flatten", lambda x: x.flatten(1, 2), lambda x: x.reshape(1, 12, 5), WIDE),
    op("flatten", None, np.ravel, SCALAR),
    op("unflatten", lambda x: x.unflatten(1, (2, -1)), lambda x: x.reshape(2, 2, 2, 3), normal(2, 4, 3)),
    op("squeeze", None, np.squeeze, normal(1, 3, 1)),
    op("squeeze", lambda x: x.squeeze(-1), lambda x: x.squeeze(-1), normal(1, 3, 1)),
    op("squeeze", lambda x: x.squeeze(0), lambda x: x, X),
    op("unsqueeze", lambda x: x.unsqueeze(1), lambda x: np.expand_dims(x, 1), X),
    op("unsqueeze", lambda x: x.unsqueeze(-1), lambda x: np.expand_dims(x, -1), SCALAR),
    op("shrink", lambda x: x.shrink(((1, 3), None)), lambda x: x[1:3], X, **TYPES),
    op("shrink", lambda x: x.shrink(((0, 2), (2, 2), (1, 4))), lambda x: x[:, 2:2, 1:], CUBE),
    op("shrink_to", lambda x: x.shrink_to(2, None), lambda x: x[:2], X),
    op("shrink_to", lambda x: x.shrink_to((1, 2, 3)), lambda x: x[:1, :2, :3], CUBE),
    op("pad", lambda x: x.pad((1, 2)), pads("constant", (1, 2)), X, **TYPES, smoke=True),
    op("pad", lambda x: x.pad((1, 2, 0, 3), value=4), lambda x: pads("constant", (1, 2), (0, 3))(x, constant_values=4), X,
       dtypes="int8 float32 float64"),
    op("pad", lambda x: x.pad(((1, 0), None, (0, 2)), value=-1.5),
       lambda x: np.pad(x, ((1, 0), (0, 0), (0, 2)), constant_values=-1.5), CUBE),
    op("pad", lambda x: x.pad((-1, 2, 1, -2)), lambda x: np.pad(x[:-2, 1:], ((1, 0), (0, 2))), X),
    op("pad", lambda x: x.pad((1, 1, 2, 0)), lambda x: np.pad(x, ((0, 0), (2, 0), (1, 1))), EMPTY),
    op("pad", lambda x: x.pad((2, 3, 1, 2), mode="reflect"), pads("reflect", (2, 3), (1, 2)), WIDE),
    op("pad", lambda x: x.pad((2, 3, 1, 2), mode="replicate"), pads("replicate", (2, 3), (1, 2)), WIDE, dtypes="int32 float32 float64"),
    op("pad", lambda x: x.pad((2, 3, 1, 2), mode="circular"), pads("circular", (2, 3), (1, 2)), WIDE),
    op("pad_to", lambda x: x.pad_to(4, None), lambda x: np.pad(x, ((0, 1), (0, 0))), X),
    op("pad_to", lambda x: x.pad_to((2, 5, 4), value=3), lambda x: np.pad(x, ((0, 0), (0, 2), (0, 0)), constant_values=3), CUBE),
    op("flip", lambda x: x.flip(0), np.flipud, X, **TYPES),
    op("flip", lambda x: x.flip((0, -1)), lambda x: np.flip(x, (0, 2)), CUBE),
    op("flip", lambda x: x.flip(0, 1, 2), np.flip, CUBE),
    op("roll", lambda x: x.roll(2, 1), lambda x: np.roll(x, 2, 1), X, dtypes="bool int8 float32 float64"),
    op("roll", lambda x: x.roll((1, -5), (0, 2)), lambda x: np.roll(x, (1, -5), (0, 2)), CUBE),
    op("roll", lambda x: x.roll(4), lambda x: np.roll(x, 4), X),
    op("repeat", lambda x: x.repeat(2, 3), lambda x: np.tile(x, (2, 3)), X, dtypes="bool int8 float32 float64"),
    op("repeat", lambda x: x.repeat((2, 1, 2)), lambda x: np.tile(x, (2, 1, 2)), X),
    op("repeat_interleave", lambda x: x.repeat_interleave(3, 1), lambda x: np.repeat(x, 3, 1), X, dtypes="bool int8 float32 float64"),
    op("repeat_interleave", lambda x: x.repeat_interleave(2), lambda x: np.repeat(x, 2), X),
    op("cat", lambda x, y: x.cat(y, dim=1), lambda x, y: np.concatenate([x, y], 1), X, normal(3, 2), **TYPES, smoke=True),
    op("cat", lambda x, y, z: Tensor.cat(x, y, z), lambda *xs: np.concatenate(xs), X, normal(1, 7), normal(0, 7)),
    op("cat", lambda x, y: x.cat(y, dim=-1), lambda x, y: np.concatenate([x, y], -1), normal(2, 3, dtype="int8"),
       normal(2, 3, dtype="float32"), dtypes="float32"),
    op("stack", lambda x, y: x.stack(y), lambda x, y: np.stack([x, y]), normal(3, 7), normal(3, 7), **TYPES),
    op("stack", lambda x, y, z: Tensor.stack(x, y, z, dim=-1), lambda *xs: np.stack(xs, -1), VECTOR, VECTOR, VECTOR),
    op("stack", lambda x, y: Tensor.stack(x, y), lambda *xs: np.stack(xs), SCALAR, SCALAR),
    op("stack", lambda x, y: Tensor.stack([x, y], dim=1), lambda *xs: np.stack(xs, 1), VECTOR, VECTOR),
    op("cat", lambda x, y: Tensor.cat((x, y)), lambda *xs: np.concatenate(xs), VECTOR, VECTOR),
    op("split", lambda x: x.split(3, dim=1), lambda x: np.split(x, [3, 6], 1), normal(3, 7), dtypes="bool int8 float32 float64"),
    op("split", lambda x: x.split([1, 0, 2]), lambda x: np.split(x, [1, 1]), normal(3, 2)),
    op("chunk", lambda x: x.chunk(3, dim=1), lambda x: np.split(x, [3, 6], 1), normal(3, 7)),
    op("chunk", lambda x: x.chunk(2), lambda x: np.split(x, 2), normal(4, 2)),
    op("unfold", lambda x: x.unfold(1, 3, 2), lambda x: windows(x, 1, 3, 2), normal(3, 7), dtypes="int8 float32 float64"),
    op("unfold", lambda x: x.unfold(0, 2, 1), lambda x: windows(x, 0, 2, 1), CUBE),
    op("unfold", lambda x: x.unfold(-1, 1, 3), lambda x: windows(x, 2, 1, 3), CUBE),
    op("diagonal", None, np.diagonal, normal(3, 7), dtypes="bool int8 float32 float64"),
    op("diagonal", lambda x: x.diagonal(2), lambda x: x.diagonal(2), normal(3, 7)),
    op("diagonal", lambda x: x.diagonal(-1, 2, 0), lambda x: x.diagonal(-1, 2, 0), CUBE),
    op("diag", None, np.diag, VECTOR, dtypes="bool int8 float32 float64"),
    op("tril", None, np.tril, normal(3, 7), **TYPES),
    op("tril", lambda x: x.tril(-1), lambda x: np.tril(x, -1), CUBE),
    op("triu", None, np.triu, normal(7, 3), **TYPES),
    op("triu", lambda x: x.triu(2), lambda x: np.triu(x, 2), CUBE),
    op("rearrange", lambda x: x.rearrange("a b c -> c a b"), lambda x: x.transpose(2, 0, 1), CUBE),
    op("rearrange", lambda x: x.rearrange("a (b c) d -> (a d) c b", c=2),
       lambda x: x.reshape(2, 2, 2, 3).transpose(0, 3, 2, 1).reshape(6, 2, 2), normal(2, 4, 3)),
    op("rearrange", lambda x: x.rearrange("... c -> c ... 1"), lambda x: x.transpose(2, 0, 1)[..., None], CUBE),
    op("rearrange", lambda x: x.rearrange("... -> (...)"), lambda x: x.reshape(-1), CUBE),
    op("rearrange", lambda x: x.rearrange("a ... -> (...) a"), lambda x: x.transpose(1, 2, 0).reshape(-1, x.shape[0]), CUBE),
    op("rearrange", lambda x: x.rearrange("a ... c -> (c ... a)"), lambda x: x.transpose(2, 1, 0).reshape(-1), CUBE),
    op("meshgrid", None, lambda x, y: np.meshgrid(x, y, indexing="ij"), normal(3), normal(5), dtypes="int8 float32 float64"),
    op("meshgrid", lambda x, y: x.meshgrid(y, indexing="xy"), lambda x, y: np.meshgrid(x, y), normal(3), normal(5)),
    op("interpolate", lambda x: x.interpolate((7, 3)), lambda x: linear(x, (7, 3)), WIDE, dtypes="float16 bfloat16 float32 float64"),
    op("interpolate", lambda x: x.interpolate((7, 3), align_corners=True), lambda x: linear(x, (7, 3), True), WIDE),
    op("interpolate", lambda x: x.interpolate((9,)), lambda x: linear(x, (9,)), CUBE, smoke=True),
    op("interpolate", lambda x: x.interpolate((2, 5, 3)), lambda x: linear(x, (2, 5, 3)), WIDE),
    op("interpolate", lambda x: x.interpolate((1, 9), mode="nearest"), lambda x: nearest(x, (1, 9)), WIDE, dtypes="uint8 float32 float64"),
    op("interpolate", lambda x: x.interpolate((3, 9), mode="nearest-exact"), lambda x: nearest(x, (3, 9), True), WIDE),
    # indexing
    op("__getitem__", lambda x: x[1:, ::-2], lambda x: x[1:, ::-2], normal(3, 7), **TYPES),
    op("__getitem__", lambda x: x[..., None, 0], lambda x: x[..., None, 0], CUBE),
    op("detach", None, np.copy, CUBE, grad=False),
    op("contiguous", lambda x: x.T.contiguous(), lambda x: x.T, normal(3, 7), **TYPES),
    op("contiguous_backward", None, np.copy, CUBE),
    op("clone", None, np.copy, CUBE, **TYPES),
]

test_values, test_gradient, test_views = checks_of(TABLE)


def test_detach_has_no_gradient(device):
    x = Tensor([2.0, 3.0], device=device)
    assert (x.detach() * x).sum().gradient(x)[0].tolist() == [2, 3]


def test_symbolic_sizes(device):
    n = Variable("n", 1, 5).bind(3)
    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    part = Tensor(x, device=device)[:n]
    assert part.sum().item() == x[:3].sum()
    assert (part * 2).contiguous().max(1).sum().item() == 2 * x[:3].max(1).sum()


@pytest.mark.parametrize("call", [
    lambda x: x.reshape(4, 4), lambda x: x.expand(3, 8), lambda x: x.permute(0, 0), lambda x: x.pad((1,)),
    lambda x: x.shrink(((0, 9), None)), lambda x: x.split([1, 1]), lambda x: x.cat(x, dim=5), lambda x: x.stack(x[0]),
    lambda x: x.unfold(0, 4, 1), lambda x: x.squeeze(2), lambda x: x.flip(2),
    lambda x: x.diagonal(0, 1, 1), lambda x: x.rearrange("a b c -> c"), lambda x: x.interpolate((0,)),
    lambda x: x.roll((1, 2), 0), lambda x: x.shrink_to(4, 7), lambda x: x.pad_to(2, 7), lambda x: x.chunk(0),
    lambda x: x.pad((7, 7), mode="reflect"), lambda x: x.pad((1, 1), mode="no such")])
def test_shapes_that_do_not_fit(call):
    with pytest.raises((ValueError, IndexError, RuntimeError)):
        call(Tensor.zeros(3, 7))


# What PyTorch makes of pictures of bytes with mode="bilinear": (h, w), size, align_corners, values.
BYTES = [
    ((3, 4), (2, 3), False, [[70, 146, 115], [76, 152, 121]]),
    ((3, 4), (5, 7), False, [[31, 66, 121, 177, 214, 123, 66], [84, 82, 79, 127, 172, 139, 119], [163, 106, 15, 53, 108, 163, 198],
                             [89, 87, 83, 132, 176, 144, 124], [39, 74, 129, 185, 222, 131, 74]]),
    ((3, 4), (5, 7), True, [[31, 80, 128, 177, 225, 146, 66], [97, 82, 66, 115, 163, 148, 132], [163, 84, 4, 53, 101, 150, 198],
                            [101, 86, 70, 119, 167, 152, 136], [39, 88, 136, 185, 233, 154, 74]]),
    ((8, 5), (3, 3), False, [[40, 202, 108], [140, 131, 122], [153, 59, 78]]),
    ((2, 3), (4, 6), False, [[31, 55, 104, 152, 201, 225], [40, 64, 113, 145, 162, 170], [57, 81, 130, 130, 83, 59],
                             [66, 90, 139, 123, 44, 4]]),
    ((5, 1), (3, 2), True, [[31, 31], [225, 225], [163, 163]]),
]


@pytest.mark.parametrize("shape, size, align_corners, expected", BYTES)
def test_pictures_of_bytes_are_rounded_as_pytorch_rounds(shape, size, align_corners, expected):
    picture = ((np.arange(np.prod(shape)) * 97 + 31) % 256).astype(np.uint8).reshape(1, 1, *shape)
    resized = Tensor(picture).interpolate(size, mode="linear", align_corners=align_corners)
    assert resized.dtype.name == "uint8" and resized[0, 0].tolist() == expected

"""Layers and losses in NumPy, as their definitions say: the oracle of test_ops_nn.py."""

import math

import numpy as np


def per_axis(value, n):
    return (value,) * n if isinstance(value, int) else tuple(value)


def pairs(padding, n):
    """Pairs for each axis: of one number, one for each axis, or (before, after) from the last axis on."""
    padding = per_axis(padding, n)
    return [(p, p) for p in padding] if len(padding) == n else [padding[2 * i:2 * i + 2] for i in reversed(range(n))]


def steps(at, out, stride, dilation):
    """Where the element `at` of a window is, for all windows."""
    return tuple(slice(k * d, k * d + (o - 1) * s + 1, s) for k, o, s, d in zip(at, out, stride, dilation))


def conv(x, w, bias=None, groups=1, stride=1, dilation=1, padding=0):
    n = w.ndim - 2
    stride, dilation = per_axis(stride, n), per_axis(dilation, n)
    x = np.pad(x, [(0, 0), (0, 0), *pairs(padding, n)])
    out = [(size - (k - 1) * d - 1) // s + 1 for size, k, s, d in zip(x.shape[2:], w.shape[2:], stride, dilation)]
    parts = []
    for part, weight in zip(np.split(x, groups, 1), np.split(w, groups)):
        parts.append(sum(np.einsum("bc...,oc->bo...", part[(..., *steps(at, out, stride, dilation))], weight[(..., *at)])
                         for at in np.ndindex(w.shape[2:])))
    y = np.concatenate(parts, 1)
    return y if bias is None else y + bias.reshape(-1, *[1] * n)


def conv_transpose(x, w, bias=None, groups=1, stride=1, dilation=1, padding=0, output_padding=0):
    """Each element of the input adds the kernel, times itself, to the output."""
    n = w.ndim - 2
    stride, dilation, extra = (per_axis(v, n) for v in (stride, dilation, output_padding))
    size = [(i - 1) * s + (k - 1) * d + 1 + e for i, k, s, d, e in zip(x.shape[2:], w.shape[2:], stride, dilation, extra)]
    parts = []
    for part, weight in zip(np.split(x, groups, 1), np.split(w, groups)):
        y = np.zeros((len(x), w.shape[1], *size))
        for at in np.ndindex(w.shape[2:]):
            y[(..., *steps(at, x.shape[2:], stride, dilation))] += np.einsum("bc...,co->bo...", part, weight[(..., *at)])
        parts.append(y)
    y = np.concatenate(parts, 1)[(..., *[slice(a, s - b) for (a, b), s in zip(pairs(padding, n), size)])]
    return y if bias is None else y + bias.reshape(-1, *[1] * n)


def windows(x, kernel, stride=None, dilation=1, padding=0, ceil_mode=False, fill=0.0, fill_more=None):
    """All windows: the elements of each along the last axis. What ceil mode adds behind the padding is fill_more."""
    kernel = per_axis(kernel, 2)
    n = len(kernel)
    stride, dilation = per_axis(kernel if stride is None else stride, n), per_axis(dilation, n)
    before = [(0, 0)] * (x.ndim - n)
    out, more = [], []
    for size, k, s, d, (a, b) in zip(x.shape[-n:], kernel, stride, dilation, pairs(padding, n)):
        room = size + a + b - (k - 1) * d - 1
        count = (math.ceil(room / s) if ceil_mode else room // s) + 1
        if ceil_mode and (count - 1) * s >= size + a:  # a window begins inside
            count -= 1
        out.append(count)
        more.append((0, max((count - 1) * s - room, 0)))
    x = np.pad(x, before + pairs(padding, n), constant_values=fill)
    x = np.pad(x, before + more, constant_values=fill if fill_more is None else fill_more)
    return np.stack([x[(..., *steps(at, out, stride, dilation))] for at in np.ndindex(kernel)], -1)


def max_pool(x, kernel=2, **options):
    least = -np.inf if x.dtype.kind == "f" else False if x.dtype == bool else np.iinfo(x.dtype).min
    return windows(x, kernel, fill=least, **options).max(-1)


def max_places(x, kernel=2, **options):
    """The places of max_pool, in the numbering of the pooled axes."""
    n = len(per_axis(kernel, 2))
    numbers = np.broadcast_to(np.arange(math.prod(x.shape[-n:])).reshape(x.shape[-n:]), x.shape)
    best = windows(x, kernel, fill=-np.inf, **options).argmax(-1)
    return np.take_along_axis(windows(numbers, kernel, **options), best[..., None], -1)[..., 0].astype(np.int32)


def unpool(x, places, size):
    y = np.zeros((*x.shape[:2], math.prod(size)))
    np.put_along_axis(y, places.reshape(*x.shape[:2], -1), x.reshape(*x.shape[:2], -1), -1)
    return y.reshape(*x.shape[:2], *size)


def avg_pool(x, kernel=2, count_include_pad=True, **options):
    counted = windows(np.ones_like(x), kernel, fill=float(count_include_pad), fill_more=0.0, **options)
    return windows(x, kernel, **options).sum(-1) / counted.sum(-1)


def batchnorm(x, weight, bias, mean, invstd, axis=1):
    shape = [size if a == axis else 1 for a, size in enumerate(x.shape)]
    weight, bias, mean, invstd = (None if v is None else v.reshape(shape) for v in (weight, bias, mean, invstd))
    y = (x - mean) * invstd * (1 if weight is None else weight)
    return y if bias is None else y + bias


def layernorm(x, axis=-1, eps=1e-5):
    return (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + eps)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(q, k, v, mask=None, causal=False):
    if q.ndim > 2 and k.shape[-3] != q.shape[-3]:  # several queries share a key
        k, v = (np.repeat(t, q.shape[-3] // t.shape[-3], -3) for t in (k, v))
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        mask = np.tril(np.ones(scores.shape[-2:], bool))
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    return softmax(scores) @ v


def reduced(loss, reduction, weight=None):
    if reduction == "mean":
        return loss.sum() / (loss.size if weight is None else weight.sum())
    return loss.sum() if reduction == "sum" else loss


def cross_entropy(x, y, axis=1, reduction="mean", smoothing=0.0, ignored=None):
    """Of logits and classes (numbers, or probabilities along the same axis)."""
    classes = x.shape[axis]
    logs = x - np.log(np.exp(x).sum(axis, keepdims=True))
    target = y if y.dtype.kind == "f" else np.moveaxis(np.eye(classes)[y % classes], -1, axis)
    loss = -(logs * ((1 - smoothing) * target + smoothing / classes)).sum(axis)
    counted = np.ones(y.shape) if ignored is None else (y != ignored).astype(float)
    return reduced(loss, reduction) if ignored is None else reduced(loss * counted, reduction, counted)


def nll(x, y, weight=None, ignored=None, reduction="mean"):
    w = (np.ones(x.shape[1]) if weight is None else weight)[y] * (1 if ignored is None else y != ignored)
    return reduced(-np.take_along_axis(x, y[:, None], 1)[:, 0] * w, reduction, w)


def binary(p, y, reduction="mean", positive=1.0):
    return reduced(-(positive * y * np.log(p) + (1 - y) * np.log(1 - p)), reduction)

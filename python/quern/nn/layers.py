"""Linear, convolutions, Embedding, LSTMCell. Weights begin as those of tinygrad: uniform within 1 / sqrt(inputs), where a convolution
has in_channels * kernel inputs whatever its groups."""

import math

from quern._core import ShapeError, Tensor, ValueError, shown  # noqa: A004
from quern.nn import given
from quern.nn.describe import Layer


def _uniform(inputs, *shape):
    bound = 1 / math.sqrt(inputs) if inputs > 0 else 0
    return Tensor.uniform(*shape, low=-bound, high=bound)


class Linear(Layer):
    """x @ weight.T + bias; the weight has the shape (out_features, in_features)."""

    def __init__(self, in_features: int, out_features: int, bias=True):
        given.size("Linear", "in_features", in_features)
        given.size("Linear", "out_features", out_features)
        self.weight = _uniform(in_features, out_features, in_features)
        self.bias = _uniform(in_features, out_features) if bias else None

    def __call__(self, x: Tensor) -> Tensor:
        return given.axis(self, x, -1, self.weight.shape[1]).linear(self.weight.transpose(), self.bias)


class Conv2d(Layer):
    """A convolution over as many axes as kernel_size has numbers (one number: two). padding='same' keeps the size."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size, stride=1, padding=0, dilation=1, groups=1,
                 bias=True):
        name = type(self).__name__
        self.kernel_size = given.sizes(name, "kernel_size", kernel_size)
        if isinstance(padding, str):
            padding = _padding(name, padding, self.kernel_size, stride, dilation)
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        given.groups(name, groups, in_channels=in_channels, out_channels=out_channels)
        inputs = in_channels * math.prod(self.kernel_size)
        self.weight = _uniform(inputs, out_channels, in_channels // groups, *self.kernel_size)
        self.bias = _uniform(inputs, out_channels) if bias else None

    def __call__(self, x: Tensor) -> Tensor:
        return given.tensor(self, x).conv2d(self.weight, self.bias, self.groups, self.stride, self.dilation, self.padding)


def _padding(layer, name, kernel_size, stride, dilation):
    if name.lower() == "valid":
        return 0
    if name.lower() != "same":
        raise ValueError(f"{layer}: padding is a number, numbers, 'same' or 'valid', not {name!r}")
    if any(s != 1 for s in given.sizes(layer, "stride", stride, len(kernel_size))):
        raise ValueError(f"{layer}: padding 'same' needs a stride of 1, not {stride}")
    padding = []
    for size, step in reversed(list(zip(kernel_size, given.sizes(layer, "dilation", dilation, len(kernel_size))))):
        whole = step * (size - 1)
        padding += [whole // 2, whole - whole // 2]
    return tuple(padding)


def Conv1d(in_channels: int, out_channels: int, kernel_size: int, stride=1, padding=0, dilation=1, groups=1,
           bias=True) -> Conv2d:
    """A convolution over one axis."""
    return Conv2d(in_channels, out_channels, given.sizes("Conv1d", "kernel_size", kernel_size, 1), stride, padding, dilation, groups, bias)


class ConvTranspose2d(Conv2d):
    """The transpose of a convolution; the weight has the shape (in, out / groups, kernel...)."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size, stride=1, padding=0, output_padding=0, dilation=1,
                 groups=1, bias=True):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)
        self.weight = _uniform(in_channels * math.prod(self.kernel_size), in_channels, out_channels // groups, *self.kernel_size)
        self.output_padding = output_padding

    def __call__(self, x: Tensor) -> Tensor:
        return given.tensor(self, x).conv_transpose2d(self.weight, self.bias, self.groups, self.stride, self.dilation, self.padding,
                                  self.output_padding)


def ConvTranspose1d(in_channels: int, out_channels: int, kernel_size: int, stride=1, padding=0, output_padding=0,
                    dilation=1, groups=1, bias=True) -> ConvTranspose2d:
    """The transpose of a convolution over one axis."""
    return ConvTranspose2d(in_channels, out_channels, given.sizes("ConvTranspose1d", "kernel_size", kernel_size, 1), stride, padding,
                           output_padding, dilation, groups, bias)


class Embedding(Layer):
    """A row of `weight` for each integer."""

    def __init__(self, vocab_size: int, embed_size: int):
        self.vocab_size = given.size("Embedding", "vocab_size", vocab_size)
        self.embed_size = given.size("Embedding", "embed_size", embed_size)
        self.weight = Tensor.glorot_uniform(vocab_size, embed_size)

    def __call__(self, idx: Tensor) -> Tensor:
        return self.weight[idx]


class LSTMCell(Layer):
    """One step of an LSTM: the new (hidden, cell). Gates in the order input, forget, cell, output."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True):
        given.size("LSTMCell", "input_size", input_size)
        given.size("LSTMCell", "hidden_size", hidden_size)
        self.weight_ih = _uniform(hidden_size, hidden_size * 4, input_size)
        self.weight_hh = _uniform(hidden_size, hidden_size * 4, hidden_size)
        self.bias_ih = Tensor.zeros(hidden_size * 4) if bias else None
        self.bias_hh = Tensor.zeros(hidden_size * 4) if bias else None

    def __call__(self, x: Tensor, hc: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        hidden_size = self.weight_hh.shape[1]
        if given.axis(self, x, -1, self.weight_ih.shape[1]).ndim != 2:
            raise ShapeError(f"LSTMCell: the input has shape {x.shape}, expected (batch, {self.weight_ih.shape[1]})")
        if hc is not None and (not isinstance(hc, (tuple, list)) or len(hc) != 2):
            raise TypeError(f"LSTMCell: expected two tensors of shape (batch, {hidden_size}) as the state, got {shown(hc)}")
        if hc is None:
            hc = (Tensor.zeros(x.shape[0], hidden_size, dtype=x.dtype, device=x.device),) * 2
        gates = x.linear(self.weight_ih.T, self.bias_ih) + hc[0].linear(self.weight_hh.T, self.bias_hh)
        i, f, g, o = gates.chunk(4, dim=1)
        cell = f.sigmoid() * hc[1] + i.sigmoid() * g.tanh()
        return (o.sigmoid() * cell.tanh()).contiguous(), cell.contiguous()

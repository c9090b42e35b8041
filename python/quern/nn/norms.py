"""Layers that normalise."""

from quern._core import ShapeError, Tensor
from quern.nn import given
from quern.nn.describe import Layer


class BatchNorm(Layer):
    """Over all axes but the second: by the statistics of the batch in training, which move the running ones; else by the
    running ones."""

    def __init__(self, sz: int, eps=1e-5, affine=True, track_running_stats=True, momentum=0.1):
        self.num_features = given.size("BatchNorm", "sz", sz)
        self.eps, self.track_running_stats, self.momentum = eps, track_running_stats, momentum
        self.weight = Tensor.ones(sz) if affine else None
        self.bias = Tensor.zeros(sz) if affine else None
        self.num_batches_tracked = Tensor.zeros(dtype="int64", requires_grad=False)
        if track_running_stats:
            self.running_mean = Tensor.zeros(sz, requires_grad=False)
            self.running_var = Tensor.ones(sz, requires_grad=False)

    def calc_stats(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The mean and the variance that x is normalised by."""
        if self.track_running_stats and not Tensor.training:
            return self.running_mean, self.running_var
        axes = tuple(a for a in range(x.ndim) if a != 1)
        variance, mean = x.var_mean(axis=axes, correction=0)
        return mean, variance

    def __call__(self, x: Tensor) -> Tensor:
        given.axis(self, x, 1, self.num_features)
        mean, variance = self.calc_stats(x)
        if self.track_running_stats and Tensor.training:
            count = x.numel() // x.shape[1]
            unbiased = variance * (count / max(count - 1, 1))
            self.running_mean.assign((1 - self.momentum) * self.running_mean + self.momentum * mean.detach())
            self.running_var.assign((1 - self.momentum) * self.running_var + self.momentum * unbiased.detach())
            self.num_batches_tracked.assign(self.num_batches_tracked + 1)
        return x.batchnorm(self.weight, self.bias, mean, (variance + self.eps).rsqrt())


BatchNorm1d = BatchNorm2d = BatchNorm3d = BatchNorm


class GroupNorm(Layer):
    """Over groups of channels, and all axes behind them."""

    def __init__(self, num_groups: int, num_channels: int, eps=1e-5, affine=True):
        given.groups(type(self).__name__, num_groups, num_channels=num_channels)
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = Tensor.ones(num_channels) if affine else None
        self.bias = Tensor.zeros(num_channels) if affine else None

    def __call__(self, x: Tensor) -> Tensor:
        given.axis(self, x, 1, self.num_channels)
        y = x.reshape(x.shape[0], self.num_groups, -1).layernorm(eps=self.eps).reshape(x.shape)
        if self.weight is None:
            return y
        shape = (1, -1) + (1,) * (x.ndim - 2)
        return y * self.weight.reshape(shape) + self.bias.reshape(shape)


class InstanceNorm(GroupNorm):
    """Over all axes behind the channels."""

    def __init__(self, num_features: int, eps: float = 1e-5, affine: bool = True):
        super().__init__(num_features, num_features, eps, affine)


class LayerNorm(Layer):
    """Over the last axes."""

    def __init__(self, normalized_shape, eps: float = 1e-5, elementwise_affine: bool = True):
        shape = (normalized_shape,) if hasattr(type(normalized_shape), "__index__") else normalized_shape
        shape = given.sizes(type(self).__name__, "normalized_shape", shape)
        self.normalized_shape, self.axis = shape, tuple(-1 - i for i in range(len(shape)))
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight = Tensor.ones(*shape) if elementwise_affine else None
        self.bias = Tensor.zeros(*shape) if elementwise_affine else None

    def __call__(self, x: Tensor) -> Tensor:
        if given.tensor(self, x).shape[-len(self.normalized_shape):] != self.normalized_shape:
            raise ShapeError(f"{type(self).__name__}: the last axes of {x.shape} are not {self.normalized_shape}")
        y = x.layernorm(axis=self.axis, eps=self.eps)
        return y * self.weight + self.bias if self.elementwise_affine else y


class LayerNorm2d(LayerNorm):
    """Over the channels of images (batch, channels, height, width)."""

    def __call__(self, x: Tensor) -> Tensor:
        if given.tensor(self, x).ndim != 4:
            raise ShapeError(f"LayerNorm2d: the input has shape {x.shape}, expected (batch, channels, height, width)")
        return super().__call__(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class RMSNorm(Layer):
    """x / sqrt(mean(x * x) + eps) over the last axis, in float32 at least."""

    def __init__(self, dim: int, eps=1e-6, elementwise_affine=True):
        self.dim, self.eps = given.size("RMSNorm", "dim", dim), eps
        self.weight = Tensor.ones(dim) if elementwise_affine else None

    def __call__(self, x: Tensor) -> Tensor:
        given.axis(self, x, -1, self.dim)
        wide = x if x.dtype.name == "float64" else x.float()
        y = (wide * (wide.square().mean(-1, keepdim=True) + self.eps).rsqrt()).cast(x.dtype)
        return y if self.weight is None else y * self.weight

"""quern, PyTorch and NumPy under the same names, for programs that are written once: what the three call in different ways. What quern
and PyTorch call alike (x.exp(), x @ y, x.reshape(...)) is not here."""

import os


class Quern:
    name = "quern"

    def __init__(self, jit=False):
        from quern import GlobalCounters, Tensor, TinyJit

        self.Tensor, self.counters, self.TinyJit, self.jit = Tensor, GlobalCounters, TinyJit, jit

    def array(self, values):
        return self.Tensor(values).realize()

    def wait(self, results):
        self.Tensor.realize(*results)

    def values(self, result):
        return result.numpy()

    def is_float(self, x):
        return x.is_floating_point()

    def gradients(self, result, targets, weights):
        return result.gradient(*targets, gradient=weights) if weights is not None else result.gradient(*targets)

    def flipped(self, x, order):
        return x.permute(order)

    def with_gradient(self, x):
        return x

    # functions
    def conv(self, x, w, stride=1, padding=0, groups=1, dilation=1):
        return x.conv2d(w, stride=stride, padding=padding, groups=groups, dilation=dilation)

    def conv_transpose(self, x, w, stride=1, padding=0):
        return x.conv_transpose2d(w, stride=stride, padding=padding)

    def max_pool(self, x, n=2):
        return x.max_pool2d((n, n))

    def avg_pool(self, x, n=2):
        return x.avg_pool2d((n, n))

    def upsample(self, x):
        return x.interpolate((2 * x.shape[2], 2 * x.shape[3]), mode="nearest")

    def cat(self, xs, dim=0):
        return self.Tensor.cat(*xs, dim=dim)

    def stack(self, xs, dim=0):
        return self.Tensor.stack(*xs, dim=dim)

    def where(self, m, x, y):
        return m.where(x, y)

    def layernorm(self, x):
        return x.layernorm()

    def cross_entropy(self, x, y):
        return x.sparse_categorical_crossentropy(y)

    def attention(self, q, k, v, causal=False):
        return q.scaled_dot_product_attention(k, v, is_causal=causal)

    def gelu(self, x):
        return x.gelu()

    def silu(self, x):
        return x.silu()

    def softplus(self, x):
        return x.softplus()

    def one_hot(self, i, n):
        return i.one_hot(n).float()

    def arange(self, n):
        return self.Tensor.arange(n).float()

    def zeros(self, *shape):
        return self.Tensor.zeros(*shape)

    def eye(self, n):
        return self.Tensor.eye(n)

    def scatter_add(self, x, i, s):
        return x.scatter_reduce(0, i, s, "sum")

    def pad(self, x, widths):
        return x.pad(widths)

    # these have one name for NumPy, too
    def exp(self, x):
        return x.exp()

    def log(self, x):
        return x.log()

    def sqrt(self, x):
        return x.sqrt()

    def sin(self, x):
        return x.sin()

    def tanh(self, x):
        return x.tanh()

    def erf(self, x):
        return x.erf()

    def abs(self, x):
        return x.abs()

    def sum(self, x, axis=None, keepdim=False):
        return x.sum(axis, keepdim=keepdim)

    def amax(self, x, axis, keepdim=False):
        return x.max(axis, keepdim=keepdim)

    def argmin(self, x, axis):
        return x.argmin(axis)

    def maximum(self, x, y):
        return x.maximum(y)

    def minimum(self, x, y):
        return x.minimum(y)

    def roll(self, x, n, axis):
        return x.roll(n, axis)

    def number(self, x):
        return x.float()


class Torch(Quern):
    name = "torch"

    def __init__(self, jit=False):
        import torch

        torch.set_num_threads(int(os.environ["CPU_THREADS"]))
        self.t, self.F = torch, torch.nn.functional

    def array(self, values):
        x = self.t.from_numpy(values)
        return x.long() if values.dtype == "int32" else x

    def wait(self, results):
        pass

    def values(self, result):
        return result.detach().numpy()

    def is_float(self, x):
        return x.is_floating_point()

    def gradients(self, result, targets, weights):
        return self.t.autograd.grad(result, targets, weights, materialize_grads=True, allow_unused=True)

    def with_gradient(self, x):
        return x.detach().requires_grad_()

    def conv(self, x, w, stride=1, padding=0, groups=1, dilation=1):
        of = {3: self.F.conv1d, 4: self.F.conv2d}[x.dim()]
        return of(x, w, stride=stride, padding=padding, groups=groups, dilation=dilation)

    def conv_transpose(self, x, w, stride=1, padding=0):
        return self.F.conv_transpose2d(x, w, stride=stride, padding=padding)

    def max_pool(self, x, n=2):
        return self.F.max_pool2d(x, n)

    def avg_pool(self, x, n=2):
        return self.F.avg_pool2d(x, n)

    def upsample(self, x):
        return self.F.interpolate(x, scale_factor=2)

    def cat(self, xs, dim=0):
        return self.t.cat(xs, dim)

    def stack(self, xs, dim=0):
        return self.t.stack(xs, dim)

    def where(self, m, x, y):
        return self.t.where(m, x, y)

    def layernorm(self, x):
        return self.F.layer_norm(x, x.shape[-1:])

    def cross_entropy(self, x, y):
        return self.F.cross_entropy(x, y)

    def attention(self, q, k, v, causal=False):
        return self.F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def gelu(self, x):
        return self.F.gelu(x, approximate="tanh")

    def silu(self, x):
        return self.F.silu(x)

    def softplus(self, x):
        return self.F.softplus(x)

    def one_hot(self, i, n):
        return self.F.one_hot(i, n).float()

    def arange(self, n):
        return self.t.arange(n).float()

    def zeros(self, *shape):
        return self.t.zeros(*shape)

    def eye(self, n):
        return self.t.eye(n)

    def pad(self, x, widths):
        return self.F.pad(x, widths)

    def amax(self, x, axis, keepdim=False):
        return x.amax(axis, keepdim=keepdim)


class NumPy:
    name = "numpy"

    def __init__(self, jit=False):
        import numpy

        self.n = numpy
        for name in "exp log sqrt sin tanh abs where stack zeros eye".split():
            setattr(self, name, getattr(numpy, name))

    def array(self, values):
        return values

    def wait(self, results):
        pass

    def values(self, result):
        return self.n.asarray(result)

    def is_float(self, x):
        return x.dtype.kind == "f"

    def flipped(self, x, order):
        return x.transpose(order)

    def sum(self, x, axis=None, keepdim=False):
        return x.sum(axis, keepdims=keepdim)

    def amax(self, x, axis, keepdim=False):
        return x.max(axis, keepdims=keepdim)

    def argmin(self, x, axis):
        return x.argmin(axis)

    def maximum(self, x, y):
        return self.n.maximum(x, y)

    def minimum(self, x, y):
        return self.n.minimum(x, y)

    def roll(self, x, n, axis):
        return self.n.roll(x, n, axis)

    def cat(self, xs, dim=0):
        return self.n.concatenate(xs, dim)

    def arange(self, n):
        return self.n.arange(n, dtype="float32")

    def one_hot(self, i, n):
        return (i[..., None] == self.n.arange(n)).astype("float32")

    def number(self, x):
        return x.astype("float32")


LIBRARIES = {"quern": Quern, "torch": Torch, "numpy": NumPy}

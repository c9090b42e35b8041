"""What quern and PyTorch call in different ways, for networks_models.py. What both call alike (x.mean, x.reshape, ...) is not here."""

import os


class Quern:
    name = "quern"

    def __init__(self):
        from quern import Tensor

        self.Tensor = Tensor

    def array(self, values):
        return self.Tensor(values).realize()

    def weight(self, values):
        return self.Tensor(values, requires_grad=True).realize()

    def numpy(self, x):
        return x.numpy()

    def gradients(self, loss, weights):
        return loss.gradient(*weights)

    def linear(self, x, w, b):
        return x.linear(w.T, b)

    def conv(self, x, w, b, stride, padding, groups):
        return x.conv2d(w, b, groups=groups, stride=stride, padding=padding)

    def conv_transpose(self, x, w, stride):
        return x.conv_transpose2d(w, stride=stride)

    def batchnorm(self, x, w, b, mean, variance, train):
        if train:
            mean = x.mean((0, 2, 3))
            centred = x - mean.reshape(1, -1, 1, 1)
            variance = centred.square().mean((0, 2, 3))
        return x.batchnorm(w, b, mean, (variance + 1e-5).rsqrt())

    def layernorm(self, x, w, b):
        return x.layernorm(eps=1e-5) * w + b

    def groupnorm(self, x, groups, w, b):
        y = x.reshape(x.shape[0], groups, -1).layernorm(eps=1e-5).reshape(*x.shape)
        return y * w.reshape(1, -1, 1, 1) + b.reshape(1, -1, 1, 1)

    def attention(self, q, k, v, causal):
        return q.scaled_dot_product_attention(k, v, is_causal=causal)

    def embedding(self, w, i):
        return w[i]

    def rows(self, x, i):
        return x[i]

    def add_rows(self, n, i, x):
        return self.Tensor.zeros(n, x.shape[1]).scatter_reduce(0, i.reshape(-1, 1).expand(*x.shape), x, "sum")

    def max_pool(self, x, k, stride, padding):
        return x.max_pool2d((k, k), stride=stride, padding=padding)

    def upsample(self, x):
        return x.interpolate((2 * x.shape[2], 2 * x.shape[3]), mode="nearest")

    def cat(self, xs, dim):
        return self.Tensor.cat(*xs, dim=dim)

    def lstm(self, x, wx, wh, bx, bh):
        n, d = x.shape[1], wh.shape[1]
        h = c = self.Tensor.zeros(n, d)
        out = []
        for t in range(x.shape[0]):
            g = x[t].linear(wx.T, bx) + h.linear(wh.T, bh)
            i, f, z, o = g.chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * z.tanh()
            h = o.sigmoid() * c.tanh()
            out.append(h)
        return self.Tensor.stack(*out)

    def gru(self, x, wx, wh, bx, bh):
        h = self.Tensor.zeros(x.shape[1], wh.shape[1])
        out = []
        for t in range(x.shape[0]):
            a, b = x[t].linear(wx.T, bx), h.linear(wh.T, bh)
            (ar, az, an), (br, bz, bn) = a.chunk(3, 1), b.chunk(3, 1)
            r, z = (ar + br).sigmoid(), (az + bz).sigmoid()
            h = (1 - z) * (an + r * bn).tanh() + z * h
            out.append(h)
        return self.Tensor.stack(*out)

    def relu(self, x):
        return x.relu()

    def relu6(self, x):
        return x.relu6()

    def gelu(self, x):
        return x.gelu()

    def silu(self, x):
        return x.silu()


class Torch:
    name = "torch"

    def __init__(self):
        import torch

        torch.set_num_threads(int(os.environ.get("CPU_THREADS", os.cpu_count())))
        self.t, self.F = torch, torch.nn.functional

    def array(self, values):
        x = self.t.from_numpy(values)
        return x.long() if values.dtype == "int32" else x

    def weight(self, values):
        return self.t.from_numpy(values).requires_grad_()

    def numpy(self, x):
        return x.detach().numpy()

    def gradients(self, loss, weights):
        return self.t.autograd.grad(loss, weights)

    def linear(self, x, w, b):
        return self.F.linear(x, w, b)

    def conv(self, x, w, b, stride, padding, groups):
        return self.F.conv2d(x, w, b, stride, padding, 1, groups)

    def conv_transpose(self, x, w, stride):
        return self.F.conv_transpose2d(x, w, stride=stride)

    def batchnorm(self, x, w, b, mean, variance, train):
        return self.F.batch_norm(x, None if train else mean, None if train else variance, w, b, train)

    def layernorm(self, x, w, b):
        return self.F.layer_norm(x, x.shape[-1:], w, b)

    def groupnorm(self, x, groups, w, b):
        return self.F.group_norm(x, groups, w, b)

    def attention(self, q, k, v, causal):
        return self.F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def embedding(self, w, i):
        return self.F.embedding(i, w)

    def rows(self, x, i):
        return x[i]

    def add_rows(self, n, i, x):
        return self.t.zeros(n, x.shape[1]).index_add(0, i, x)

    def max_pool(self, x, k, stride, padding):
        return self.F.max_pool2d(x, k, stride, padding)

    def upsample(self, x):
        return self.F.interpolate(x, scale_factor=2)

    def cat(self, xs, dim):
        return self.t.cat(xs, dim)

    def lstm(self, x, *weights):
        zeros = self.t.zeros(1, x.shape[1], weights[1].shape[1])
        return self.t._VF.lstm(x, (zeros, zeros), list(weights), True, 1, 0.0, False, False, False)[0]

    def gru(self, x, *weights):
        zeros = self.t.zeros(1, x.shape[1], weights[1].shape[1])
        return self.t._VF.gru(x, zeros, list(weights), True, 1, 0.0, False, False, False)[0]

    def relu(self, x):
        return self.F.relu(x)

    def relu6(self, x):
        return self.F.relu6(x)

    def gelu(self, x):
        return self.F.gelu(x, approximate="tanh")

    def silu(self, x):
        return self.F.silu(x)


LIBRARIES = {"quern": Quern, "torch": Torch}

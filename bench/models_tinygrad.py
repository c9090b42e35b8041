"""The networks of models/models.cpp by tinygrad. DEV in the environment says on which device."""

from tinygrad import Tensor, dtypes

parameters = []


def parameter(*shape):
    parameters.append(Tensor.empty(*shape, dtype=dtypes.float32))
    return parameters[-1]


def convolution(x, fro, to, kernel, stride=1):
    y = x.conv2d(parameter(to, fro, kernel, kernel), None, stride=stride, padding=kernel // 2)
    scale, shift, mean, var = (parameter(to) for _ in range(4))
    return y.batchnorm(scale, shift, mean, (var + 1e-5).rsqrt())


def bottleneck(x, fro, width, stride):
    to = 4 * width
    y = convolution(x, fro, width, 1).relu()
    y = convolution(y, width, width, 3, stride).relu()
    y = convolution(y, width, to, 1)
    shortcut = x if fro == to and stride == 1 else convolution(x, fro, to, 1, stride)
    return (y + shortcut).relu()


def basic_block(x, fro, width, stride):
    y = convolution(x, fro, width, 3, stride).relu()
    y = convolution(y, width, width, 3)
    return (y + (x if fro == width else convolution(x, fro, width, 1, stride))).relu()


def residual(batch, blocks, widening, block):
    x = convolution(Tensor.empty(batch, 3, 224, 224), 3, 64, 7, 2).relu()
    x = x.max_pool2d((3, 3), stride=2, padding=1)
    fro = 64
    for stage, count in enumerate(blocks):
        for i in range(count):
            x = block(x, fro, 64 << stage, 2 if i == 0 and stage > 0 else 1)
            fro = widening * (64 << stage)
    return x.mean((2, 3)).linear(parameter(fro, 1000), parameter(1000))


def resnet18(batch):
    return residual(batch, (2, 2, 2, 2), 1, basic_block)


def resnet50(batch):
    return residual(batch, (3, 4, 6, 3), 4, bottleneck)


def norm(x, dim):
    return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * parameter(dim)


def rotated(x, cosines, sines, half):
    a, b = x.split(half, -1)
    return (a * cosines - b * sines).cat(b * cosines + a * sines, dim=-1)


def llama_loss(layers, dim=4096, hidden=11008, heads=32, vocabulary=32000, tokens=512):
    head, n = dim // heads, tokens
    half = head // 2
    ids, targets = Tensor.empty(1, n, dtype=dtypes.int32), Tensor.empty(1, n, dtype=dtypes.int32)
    cosines, sines = Tensor.empty(1, 1, n, half), Tensor.empty(1, 1, n, half)
    x = parameter(vocabulary, dim)[ids.reshape(n)].reshape(1, n, dim)
    for _ in range(layers):
        h = norm(x, dim)

        def project():
            return h.matmul(parameter(dim, dim)).reshape(1, n, heads, head).permute(0, 2, 1, 3)
        q, k, v = rotated(project(), cosines, sines, half), rotated(project(), cosines, sines, half), project()
        attention = q.scaled_dot_product_attention(k, v, is_causal=True)
        x = x + attention.permute(0, 2, 1, 3).reshape(1, n, dim).matmul(parameter(dim, dim))
        f = norm(x, dim)
        gate, up = f.matmul(parameter(dim, hidden)), f.matmul(parameter(dim, hidden))
        x = x + (gate.silu() * up).matmul(parameter(hidden, dim))
    logits = norm(x, dim).matmul(parameter(dim, vocabulary))
    return logits.reshape(n, vocabulary).sparse_categorical_crossentropy(targets.reshape(n))


def lstm_loss(steps, units=128, batch=16):
    wx, wh, bias = parameter(units, 4 * units), parameter(units, 4 * units), parameter(4 * units)
    inputs = Tensor.empty(steps, batch, units)
    h, c = Tensor.empty(batch, units), Tensor.empty(batch, units)
    for t in range(steps):
        gates = (inputs[t].matmul(wx) + h.matmul(wh) + bias).chunk(4, 1)
        c = gates[1].sigmoid() * c + gates[0].sigmoid() * gates[2].tanh()
        h = gates[3].sigmoid() * c.tanh()
    return h.sum()


def sgd_step(loss):
    for p, g in zip(parameters, loss.gradient(*parameters)):
        p.assign(p - g * 1e-3)
    return parameters

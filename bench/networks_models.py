"""The networks that the suite `networks` measures, each written once for quern and PyTorch (networks_libraries.py has what they call in
different ways). A network asks for its weights in the order in which it uses them; they are made when it first runs, from a seed.

A model is (name, inputs at each size, forward): forward(N, L, *inputs) returns the result, from which `loss` makes a number to train on.
N.train says whether statistics of batches are used, as a training step does."""

import math

MODELS = []


class Weights:
    """Weights by the order in which they are asked for: made in the first run, the same ones in all that follow."""

    def __init__(self, library, rng):
        self.library, self.rng, self.all, self.fixed, self.next, self.next_fixed, self.train = library, rng, [], [], 0, 0, False

    def begin(self, train):
        self.next = self.next_fixed = 0
        self.train = train

    def w(self, *shape, scale=None, value=None):
        """A weight: normal with this deviation (by default one over the root of the inputs), or of one value."""
        if self.next == len(self.all):
            fan = math.prod(shape[1:]) or 1
            values = self.rng.standard_normal(shape).astype("float32") * (fan ** -0.5 if scale is None else scale)
            if value is not None:
                values[...] = value
            self.all.append(self.library.weight(values))
        self.next += 1
        return self.all[self.next - 1]

    def statistic(self, size, value):
        """What training does not learn by gradients: a running mean or variance."""
        if self.next_fixed == len(self.fixed):
            values = self.rng.standard_normal(size).astype("float32") * 0.01 + value
            self.fixed.append(self.library.array(values))
        self.next_fixed += 1
        return self.fixed[self.next_fixed - 1]


def model(name, *sizes, integer_loss=False):
    """`sizes`: for each size, its title and the inputs: a shape, or (high, shape) of integers below `high`."""
    def add(forward):
        MODELS.append((name, sizes, forward))
        return forward
    return add


# ---- parts

def linear(N, L, x, n, bias=True):
    k = x.shape[-1]
    return L.linear(x, N.w(n, k), N.w(n, value=0) if bias else None)


def conv(N, L, x, n, k=3, stride=1, groups=1, bias=False, padding=None):
    w = N.w(n, x.shape[1] // groups, k, k)
    return L.conv(x, w, N.w(n, value=0) if bias else None, stride, k // 2 if padding is None else padding, groups)


def batchnorm(N, L, x):
    c = x.shape[1]
    return L.batchnorm(x, N.w(c, value=1), N.w(c, value=0), N.statistic(c, 0), N.statistic(c, 1), N.train)


def layernorm(N, L, x):
    return L.layernorm(x, N.w(x.shape[-1], value=1), N.w(x.shape[-1], value=0))


def conv_norm(N, L, x, n, k=3, stride=1, groups=1, activation="relu"):
    x = batchnorm(N, L, conv(N, L, x, n, k, stride, groups))
    return getattr(L, activation)(x) if activation else x


def attention(N, L, x, heads, causal=False, mask=None):
    b, t, d = x.shape
    q, k, v = (y.reshape(b, t, heads, d // heads).transpose(1, 2) for y in (linear(N, L, x, d) for _ in range(3)))
    return linear(N, L, L.attention(q, k, v, causal).transpose(1, 2).reshape(b, t, d), d)


def encoder(N, L, x, heads, wide, causal=False):
    x = x + attention(N, L, layernorm(N, L, x), heads, causal)
    return x + linear(N, L, L.gelu(linear(N, L, layernorm(N, L, x), wide)), x.shape[-1])


# ---- pictures

def basic_block(N, L, x, n, stride):
    y = conv_norm(N, L, x, n, 3, stride)
    y = conv_norm(N, L, y, n, activation=None)
    if stride != 1 or x.shape[1] != n:
        x = conv_norm(N, L, x, n, 1, stride, activation=None)
    return L.relu(x + y)


def bottleneck(N, L, x, n, stride):
    y = conv_norm(N, L, x, n, 1)
    y = conv_norm(N, L, y, n, 3, stride)
    y = conv_norm(N, L, y, 4 * n, 1, activation=None)
    if stride != 1 or x.shape[1] != 4 * n:
        x = conv_norm(N, L, x, 4 * n, 1, stride, activation=None)
    return L.relu(x + y)


def resnet(N, L, x, block, counts):
    x = L.max_pool(conv_norm(N, L, x, 64, 7, 2), 3, 2, 1)
    for i, count in enumerate(counts):
        for k in range(count):
            x = block(N, L, x, 64 << i, 2 if i > 0 and k == 0 else 1)
    return linear(N, L, x.mean((2, 3)), 1000)


@model("ResNet-18", ("1x224", (1, 3, 224, 224)), ("8x64", (8, 3, 64, 64)))
def resnet18(N, L, x):
    return resnet(N, L, x, basic_block, (2, 2, 2, 2))


@model("ResNet-50", ("1x224", (1, 3, 224, 224)), ("4x96", (4, 3, 96, 96)))
def resnet50(N, L, x):
    return resnet(N, L, x, bottleneck, (3, 4, 6, 3))


def inverted(N, L, x, n, stride, widen, k, activation, squeeze):
    wide = x.shape[1] * widen
    y = conv_norm(N, L, x, wide, 1, activation=activation) if widen > 1 else x
    y = conv_norm(N, L, y, wide, k, stride, wide, activation)
    if squeeze:
        gate = y.mean((2, 3), keepdim=True)
        gate = L.relu(conv(N, L, gate, max(8, x.shape[1] // 4), 1, bias=True))
        y = y * conv(N, L, gate, wide, 1, bias=True).sigmoid()
    y = conv_norm(N, L, y, n, 1, activation=None)
    return x + y if stride == 1 and x.shape[1] == n else y


def mobile(N, L, x, plan, activation, squeeze, first, last):
    x = conv_norm(N, L, x, first, 3, 2, activation=activation)
    for widen, n, count, stride, k in plan:
        for i in range(count):
            x = inverted(N, L, x, n, stride if i == 0 else 1, widen, k, activation, squeeze)
    return linear(N, L, conv_norm(N, L, x, last, 1, activation=activation).mean((2, 3)), 1000)


@model("MobileNetV2", ("1x224", (1, 3, 224, 224)), ("8x96", (8, 3, 96, 96)))
def mobilenet(N, L, x):
    plan = ((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 32, 3, 2, 3), (6, 64, 4, 2, 3), (6, 96, 3, 1, 3), (6, 160, 3, 2, 3), (6, 320, 1, 1, 3))
    return mobile(N, L, x, plan, "relu6", False, 32, 1280)


@model("EfficientNet-lite0", ("1x224", (1, 3, 224, 224)), ("8x96", (8, 3, 96, 96)))
def efficientnet(N, L, x):
    plan = ((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3))
    return mobile(N, L, x, plan, "relu6", False, 32, 1280)


def doubled(N, L, x, n):
    return conv_norm(N, L, conv_norm(N, L, x, n), n)


@model("U-Net", ("1x128", (1, 3, 128, 128)), ("4x64", (4, 3, 64, 64)))
def unet(N, L, x):
    skips, n = [], 32
    for _ in range(3):
        x = doubled(N, L, x, n)
        skips.append(x)
        x, n = L.max_pool(x, 2, 2, 0), 2 * n
    x = doubled(N, L, x, n)
    for skip in reversed(skips):
        n //= 2
        x = doubled(N, L, L.cat([L.conv_transpose(x, N.w(x.shape[1], n, 2, 2), 2), skip], 1), n)
    return conv(N, L, x, 2, 1, bias=True)


@model("VAE", ("128x784", (128, 784), (128, 20)), ("16x784", (16, 784), (16, 20)))
def vae(N, L, x, noise):
    h = L.relu(linear(N, L, x, 400))
    mean, log_variance = linear(N, L, h, 20), linear(N, L, h, 20)
    z = mean + noise * (log_variance * 0.5).exp()
    return linear(N, L, L.relu(linear(N, L, z, 400)), 784).sigmoid()


# ---- sequences

@model("LSTM", ("64 steps, 16x256", (64, 16, 256)), ("32 steps, 64x128", (32, 64, 128)))
def lstm(N, L, x):
    d = x.shape[-1]
    return L.lstm(x, N.w(4 * d, d), N.w(4 * d, d), N.w(4 * d, value=0), N.w(4 * d, value=0))


@model("GRU", ("64 steps, 16x256", (64, 16, 256)), ("32 steps, 64x128", (32, 64, 128)))
def gru(N, L, x):
    d = x.shape[-1]
    return L.gru(x, N.w(3 * d, d), N.w(3 * d, d), N.w(3 * d, value=0), N.w(3 * d, value=0))


@model("BERT", ("2x128, 4 layers of 256", (8000, (2, 128))), ("8x64, 2 layers of 512", (8000, (8, 64))))
def bert(N, L, tokens):
    d, layers = (256, 4) if tokens.shape[1] == 128 else (512, 2)
    x = L.embedding(N.w(8000, d, scale=0.02), tokens) + N.w(tokens.shape[1], d, scale=0.02)
    x = layernorm(N, L, x)
    for _ in range(layers):
        x = layernorm(N, L, x + attention(N, L, x, d // 64))
        x = layernorm(N, L, x + linear(N, L, L.gelu(linear(N, L, x, 4 * d)), d))
    return linear(N, L, x[:, 0], 2)


@model("GPT", ("1x256, 4 layers of 256", (8000, (1, 256))), ("4x128, 2 layers of 512", (8000, (4, 128))))
def gpt(N, L, tokens):
    d, layers = (256, 4) if tokens.shape[1] == 256 else (512, 2)
    table = N.w(8000, d, scale=0.02)
    x = L.embedding(table, tokens) + N.w(tokens.shape[1], d, scale=0.02)
    for _ in range(layers):
        x = encoder(N, L, x, d // 64, 4 * d, True)
    return L.linear(layernorm(N, L, x), table, None)


@model("ViT", ("2x224, 4 layers of 192", (2, 3, 224, 224)), ("8x64, 4 layers of 192", (8, 3, 64, 64)))
def vit(N, L, x):
    d, patch = 192, 16 if x.shape[-1] == 224 else 8
    x = L.conv(x, N.w(d, 3, patch, patch), N.w(d, value=0), patch, 0, 1)
    x = x.reshape(x.shape[0], d, -1).transpose(1, 2)
    x = x + N.w(x.shape[1], d, scale=0.02)
    for _ in range(4):
        x = encoder(N, L, x, 3, 4 * d)
    return linear(N, L, layernorm(N, L, x).mean(1), 1000)


@model("MLP-Mixer", ("4x196x256, 4 layers", (4, 196, 256)), ("16x64x128, 4 layers", (16, 64, 128)))
def mixer(N, L, x):
    t, d = x.shape[1:]
    for _ in range(4):
        y = layernorm(N, L, x).transpose(1, 2)
        x = x + linear(N, L, L.gelu(linear(N, L, y, 2 * d)), t).transpose(1, 2)
        x = x + linear(N, L, L.gelu(linear(N, L, layernorm(N, L, x), 4 * d)), d)
    return linear(N, L, x.mean(1), 1000)


# ---- others

@model("diffusion step", ("1x64", (1, 4, 64, 64), (1, 128)), ("4x32", (4, 4, 32, 32), (4, 128)))
def diffusion(N, L, x, time):
    def residual(x, n):
        h = conv(N, L, L.silu(L.groupnorm(x, 8, N.w(x.shape[1], value=1), N.w(x.shape[1], value=0))), n, bias=True)
        h = h + linear(N, L, L.silu(time), n).reshape(-1, n, 1, 1)
        h = conv(N, L, L.silu(L.groupnorm(h, 8, N.w(n, value=1), N.w(n, value=0))), n, bias=True)
        return h + (x if x.shape[1] == n else conv(N, L, x, n, 1))

    x = conv(N, L, x, 64, bias=True)
    first = residual(x, 64)
    second = residual(conv(N, L, first, 64, 3, 2, bias=True), 128)
    b, c, h, w = second.shape
    tokens = second.reshape(b, c, h * w).transpose(1, 2)
    second = second + attention(N, L, tokens, 2).transpose(1, 2).reshape(b, c, h, w)
    up = conv(N, L, L.upsample(second), 64, bias=True)
    return conv(N, L, L.silu(residual(L.cat([up, first], 1), 64)), 4, bias=True)


@model("graph network", ("10000 nodes, 50000 edges", (10000, (50000,)), (10000, (50000,)), (10000, 64)),
       ("1000 nodes, 8000 edges", (1000, (8000,)), (1000, (8000,)), (1000, 64)))
def graph(N, L, source, target, x):
    for _ in range(3):
        sent = L.relu(linear(N, L, L.rows(x, source), 64))
        x = L.relu(linear(N, L, x, 64) + L.add_rows(x.shape[0], target, sent))
    return linear(N, L, x, 16)


@model("MLP", ("128x784, 2 of 512", (128, 784)), ("1024x64, 4 of 256", (1024, 64)))
def mlp(N, L, x):
    n, count = (512, 2) if x.shape[1] == 784 else (256, 4)
    for _ in range(count):
        x = L.relu(linear(N, L, x, n))
    return linear(N, L, x, 10)

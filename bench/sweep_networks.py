"""Small networks and loops of science that the sweep measures, each written once for all libraries (sweep_libraries.py)."""

import math

from sweep_functions import Input, Program

PROGRAMS = []


def x(*shape):
    return Input("x", shape)


def w(*shape):
    return Input("w", shape)


def u(*shape):
    return Input("z", shape)


def index(high, *shape):
    return Input(high, shape)


def program(name, *inputs, grad=None, numpy=False, loose=10):
    """`grad`: the first result is a loss, and its gradients by the inputs from this number on are results, too."""
    def add(function):
        libraries = ("quern", "torch", *(["numpy"] if numpy else []))
        floats = [n for n, i in enumerate(inputs) if not i.is_index]
        of = tuple(n for n in floats if n >= grad) if grad is not None else None
        PROGRAMS.append(Program(name, inputs, dict.fromkeys(libraries, function), "network", grad=of, loose=loose))
        return function
    return add


def mean(L, v, axis, keepdim=False):
    axes = (axis,) if isinstance(axis, int) else axis
    return L.sum(v, axis, keepdim) / math.prod(v.shape[a] for a in axes)


def batchnorm(L, v, scale):
    m = v.mean((0, 2, 3), keepdim=True)
    centred = v - m
    return centred * (centred.square().mean((0, 2, 3), keepdim=True) + 1e-5).rsqrt() * scale.reshape(1, -1, 1, 1)


# ---- networks

def mlp(L, v, *weights):
    for weight in weights[:-1]:
        v = (v @ weight.T).relu()
    return v @ weights[-1].T


for title, n, sizes in (("tiny", 4, (16, 16, 4)), ("small", 64, (64, 128, 128, 10)), ("wide", 256, (784, 1024, 1024, 10)),
                        ("deep", 128, (128, *[128] * 12, 10))):
    layers = [w(b, a) for a, b in zip(sizes, sizes[1:])]
    program(f"MLP {title}", x(n, sizes[0]), *layers)(mlp)
    program(f"MLP {title}, gradients", x(n, sizes[0]), index(sizes[-1], n), *layers, grad=2)(
        lambda L, v, y, *weights: L.cross_entropy(mlp(L, v, *weights), y))


def cnn(L, v, a, b, c, d):
    v = L.max_pool(L.conv(v, a, padding=1).relu())
    v = L.max_pool(L.conv(v, b, padding=1).relu())
    return L.conv(v, c, padding=1).relu().mean((2, 3)) @ d.T


CNN = (w(16, 1, 3, 3), w(32, 16, 3, 3), w(64, 32, 3, 3), w(10, 64))
program("CNN for digits", x(32, 1, 28, 28), *CNN)(cnn)
program("CNN for digits, gradients", x(32, 1, 28, 28), index(10, 32), *CNN, grad=2)(
    lambda L, v, y, *weights: L.cross_entropy(cnn(L, v, *weights), y))


def residual(L, v, a, s, b, t):
    y = batchnorm(L, L.conv(v, a, padding=1), s).relu()
    return (batchnorm(L, L.conv(y, b, padding=1), t) + v).relu()


BLOCK = (w(64, 64, 3, 3), u(64), w(64, 64, 3, 3), u(64))
program("ResNet block", x(8, 64, 28, 28), *BLOCK)(residual)
program("ResNet block, gradients", x(8, 64, 28, 28), *BLOCK, grad=0)(lambda L, *given: residual(L, *given).square().mean())
program("bottleneck block", x(4, 256, 14, 14), w(64, 256, 1, 1), w(64, 64, 3, 3), w(256, 64, 1, 1))(
    lambda L, v, a, b, c: (L.conv(L.conv(L.conv(v, a).relu(), b, padding=1).relu(), c) + v).relu())
program("separable block", x(4, 64, 28, 28), w(64, 1, 3, 3), w(128, 64, 1, 1))(
    lambda L, v, a, b: L.conv(L.conv(v, a, padding=1, groups=64).relu(), b).relu())


@program("dense block", x(4, 16, 28, 28), w(16, 16, 3, 3), w(16, 32, 3, 3), w(16, 48, 3, 3))
def dense(L, v, *weights):
    for weight in weights:
        v = L.cat([v, L.conv(v, weight, padding=1).relu()], 1)
    return v


@program("inception block", x(4, 32, 28, 28), w(16, 32, 1, 1), w(16, 32, 3, 3), w(16, 32, 5, 5))
def inception(L, v, a, b, c):
    return L.cat([L.conv(v, a), L.conv(v, b, padding=1), L.conv(v, c, padding=2)], 1).relu()


@program("squeeze and excite", x(8, 64, 28, 28), w(16, 64), w(64, 16), grad=1)
def squeeze(L, v, a, b):
    gate = ((v.mean((2, 3)) @ a.T).relu() @ b.T).sigmoid()
    return (v * gate.reshape(8, 64, 1, 1)).square().mean()


def unet(L, v, a, b, c, d):
    one = L.conv(v, a, padding=1).relu()
    two = L.conv(L.max_pool(one), b, padding=1).relu()
    up = L.cat([L.upsample(two), one], 1)
    return L.conv(L.conv(up, c, padding=1).relu(), d)


UNET = (w(16, 1, 3, 3), w(32, 16, 3, 3), w(16, 48, 3, 3), w(1, 16, 1, 1))
program("U-Net", x(2, 1, 64, 64), *UNET)(unet)
program("U-Net, gradients", x(2, 1, 64, 64), *UNET, grad=1)(lambda L, *given: unet(L, *given).square().mean())


@program("autoencoder, gradients", x(128, 784), w(128, 784), w(16, 128), w(128, 16), w(784, 128), grad=1)
def autoencoder(L, v, a, b, c, d):
    return (((v @ a.T).relu() @ b.T @ c.T).relu() @ d.T - v).square().mean()


@program("VAE, gradients", u(64, 784), x(64, 8), w(128, 784), w(8, 128), w(8, 128), w(128, 8), w(784, 128), grad=2)
def vae(L, v, noise, a, m, s, b, c):
    h = (v @ a.T).relu()
    mu, log_var = h @ m.T, h @ s.T
    logits = ((mu + noise * (log_var * 0.5).exp()) @ b.T).relu() @ c.T
    loss = (L.softplus(logits) - logits * v).sum(1).mean()
    return loss - 0.5 * (1 + log_var - mu.square() - log_var.exp()).sum(1).mean()


@program("GAN losses, gradients", x(64, 16), x(64, 64), w(64, 16), w(64, 64), w(64, 64), w(1, 64), grad=2)
def gan(L, noise, real, a, b, c, d):
    fake = ((noise @ a.T).relu() @ b.T).tanh()

    def judge(v):
        return (v @ c.T).relu() @ d.T
    return L.softplus(-judge(real)).mean() + L.softplus(judge(fake)).mean() + L.softplus(-judge(fake)).mean()


def lstm(L, inputs, wx, wh):
    n = wh.shape[1]
    h = c = L.zeros(inputs.shape[1], n)
    for t in range(inputs.shape[0]):
        g = inputs[t] @ wx.T + h @ wh.T
        i, f, o, z = (g[:, k * n:(k + 1) * n] for k in range(4))
        c = f.sigmoid() * c + i.sigmoid() * z.tanh()
        h = o.sigmoid() * c.tanh()
    return h


program("LSTM, 20 steps", x(20, 16, 32), w(256, 32), w(256, 64))(lstm)
program("LSTM, 20 steps, gradients", x(20, 16, 32), w(256, 32), w(256, 64), grad=1)(lambda L, *given: lstm(L, *given).square().mean())


@program("GRU, 20 steps", x(20, 16, 32), w(192, 32), w(192, 64))
def gru(L, inputs, wx, wh):
    h = L.zeros(16, 64)
    for t in range(20):
        a, b = inputs[t] @ wx.T, h @ wh.T
        r, z = (a[:, :64] + b[:, :64]).sigmoid(), (a[:, 64:128] + b[:, 64:128]).sigmoid()
        h = (1 - z) * (a[:, 128:] + r * b[:, 128:]).tanh() + z * h
    return h


@program("RNN, 30 steps, gradients", x(30, 8, 16), w(32, 16), w(32, 32), grad=1)
def rnn(L, inputs, a, b):
    h = L.zeros(8, 32)
    for t in range(30):
        h = (inputs[t] @ a.T + h @ b.T).tanh()
    return h.square().mean()


def transformer(L, v, qkv, o, a, b, causal=False, heads=4):
    n, t, d = v.shape
    h = L.layernorm(v) @ qkv.T
    q, k, s = (h[..., i * d:(i + 1) * d].reshape(n, t, heads, d // heads).transpose(1, 2) for i in range(3))
    v = v + L.attention(q, k, s, causal).transpose(1, 2).reshape(n, t, d) @ o.T
    return v + L.gelu(L.layernorm(v) @ a.T) @ b.T


TRANSFORMER = (w(384, 128), w(128, 128), w(512, 128), w(128, 512))
program("transformer block", x(4, 64, 128), *TRANSFORMER)(transformer)
program("transformer block, causal, gradients", x(4, 64, 128), *TRANSFORMER, grad=0)(
    lambda L, *given: transformer(L, *given, causal=True).square().mean())
program("small GPT, gradients", index(100, 4, 32), index(100, 128), x(100, 128), *TRANSFORMER, grad=2)(
    lambda L, i, y, e, *weights: L.cross_entropy(transformer(L, e[i], *weights, causal=True).reshape(128, 128) @ e.T, y))


@program("llama block", x(1, 64, 128), x(64, 16), w(128, 128), w(128, 128), w(128, 128), w(128, 128), w(256, 128), w(256, 128), w(128, 256))
def llama(L, v, angle, wq, wk, wv, wo, gate, up, down):
    def norm(t):
        return t * (t.square().mean(-1, keepdim=True) + 1e-5).rsqrt()

    def split(t):
        return t.reshape(1, 64, 4, 32).transpose(1, 2)

    def rotated(t):
        a, b = t[..., :16], t[..., 16:]
        return L.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)
    h = norm(v)
    y = L.attention(rotated(split(h @ wq.T)), rotated(split(h @ wk.T)), split(h @ wv.T), True)
    v = v + y.transpose(1, 2).reshape(1, 64, 128) @ wo.T
    h = norm(v)
    return v + (L.silu(h @ gate.T) * (h @ up.T)) @ down.T


@program("one token with a cache of keys", x(1, 128), x(4, 500, 32), x(4, 500, 32), w(128, 128), w(128, 128))
def decode(L, v, keys, values, a, b):
    q = (v @ a.T).reshape(4, 1, 32)
    return v + L.attention(q, keys, values).reshape(1, 128) @ b.T


@program("vision transformer patches", x(4, 3, 64, 64), w(128, 3, 8, 8), *TRANSFORMER)
def vit(L, v, patch, *weights):
    tokens = L.conv(v, patch, stride=8).reshape(4, 128, 64).transpose(1, 2)
    return transformer(L, tokens, *weights).mean(1)


@program("MLP mixer, gradients", x(8, 64, 128), w(128, 64), w(64, 128), w(256, 128), w(128, 256), grad=1)
def mixer(L, v, a, b, c, d):
    v = v + (L.gelu(L.layernorm(v).transpose(1, 2) @ a.T) @ b.T).transpose(1, 2)
    return (v + L.gelu(L.layernorm(v) @ c.T) @ d.T).square().mean()


@program("graph convolution", u(500, 500), x(500, 64), w(64, 64), w(16, 64))
def graph(L, links, v, a, b):
    links = links / links.sum(1, keepdim=True)
    return links @ (links @ (v @ a.T)).relu() @ b.T


@program("messages along edges, gradients", index(1000, 5000), index(1000, 5000), x(1000, 32), w(32, 32), grad=2)
def messages(L, source, target, v, a):
    sent = (v[source] @ a.T).relu()
    return L.scatter_add(L.zeros(1000, 32), target.reshape(5000, 1).expand(5000, 32), sent).square().mean()


@program("skip-gram, gradients", index(5000, 256), index(5000, 256), index(5000, 256, 5), x(5000, 64), x(5000, 64), grad=3)
def skip_gram(L, word, near, others, a, b):
    v = a[word]
    good, bad = (v * b[near]).sum(-1), (v.unsqueeze(1) * b[others]).sum(-1)
    return L.softplus(-good).mean() + L.softplus(bad).mean()


@program("matrix factorisation, gradients", index(2000, 4096), index(3000, 4096), x(4096), x(2000, 16), x(3000, 16), grad=3)
def factors(L, user, item, score, a, b):
    return ((a[user] * b[item]).sum(1) - score).square().mean()


@program("triplet loss, gradients", x(64, 32), x(64, 32), x(64, 32), w(64, 32), grad=3)
def triplet(L, a, b, c, weight):
    a, b, c = (t @ weight.T for t in (a, b, c))
    return ((a - b).square().sum(1) - (a - c).square().sum(1) + 1).relu().mean()


@program("contrastive loss, gradients", x(128, 64), x(128, 64), w(64, 64), grad=2)
def contrastive(L, a, b, weight):
    a, b = (t / t.square().sum(1, keepdim=True).sqrt() for t in (a @ weight.T, b @ weight.T))
    logits = a @ b.T * 10
    return (logits.logsumexp(1) - (a * b).sum(1) * 10).mean()


@program("mixture of experts", x(64, 32), w(8, 32), w(8, 32, 32))
def experts(L, v, gate, weights):
    share = (v @ gate.T).softmax(-1)
    each = (v.unsqueeze(0) @ weights).relu()
    return (each * share.T.unsqueeze(-1)).sum(0)


@program("neural ODE, 10 steps, gradients", x(64, 16), w(32, 16), w(16, 32), grad=1)
def ode(L, v, a, b):
    def slope(t):
        return (t @ a.T).tanh() @ b.T
    for _ in range(10):
        k = slope(v)
        v = v + 0.1 * slope(v + 0.05 * k)
    return v.square().mean()


@program("dilated causal convolutions", x(4, 16, 500), w(16, 16, 2), w(16, 16, 2), w(16, 16, 2), w(16, 16, 2))
def wavenet(L, v, *weights):
    for i, weight in enumerate(weights):
        h = L.conv(L.pad(v, (2**i, 0)), weight, dilation=2**i)
        v = v + h.tanh() * h.sigmoid()
    return v


@program("NeRF network", x(2048, 3), w(64, 36), w(64, 64), w(4, 64))
def nerf(L, v, a, b, c):
    waves = L.cat([(v * 2.0**k).sin() for k in range(6)] + [(v * 2.0**k).cos() for k in range(6)], 1)
    return (((waves @ a.T).relu() @ b.T).relu() @ c.T).sigmoid()


@program("group norm and convolution, gradients", x(4, 32, 16, 16), w(32, 32, 3, 3), grad=0)
def groupnorm(L, v, a):
    g = v.reshape(4, 8, 4, 16, 16)
    m = g.mean((2, 3, 4), keepdim=True)
    g = (g - m) * ((g - m).square().mean((2, 3, 4), keepdim=True) + 1e-5).rsqrt()
    return L.conv(L.silu(g.reshape(4, 32, 16, 16)), a, padding=1).square().mean()


@program("deep Q learning, gradients", x(256, 8), index(4, 256, 1), x(256), x(256, 8), w(64, 8), w(4, 64), grad=4)
def q_learning(L, state, action, reward, following, a, b):
    def worth(s):
        return (s @ a.T).relu() @ b.T
    target = reward + 0.99 * L.amax(worth(following).detach(), 1)
    return (worth(state).gather(1, action).squeeze(1) - target).square().mean()


@program("PPO loss, gradients", x(256, 8), index(4, 256, 1), x(256), x(256), w(64, 8), w(4, 64), grad=4)
def ppo(L, state, action, before, advantage, a, b):
    now = ((state @ a.T).tanh() @ b.T).log_softmax(-1).gather(1, action).squeeze(1)
    ratio = (now - before * 0.1 + 1.4).exp()
    return -L.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()


@program("convolutional upsampling", x(4, 32, 8, 8), w(32, 16, 4, 4), w(16, 3, 4, 4))
def generator(L, v, a, b):
    return L.conv_transpose(L.conv_transpose(v, a, 2, 1).relu(), b, 2, 1).tanh()


# ---- science: these run with NumPy, too

@program("n bodies, 5 steps", x(300, 3), x(300, 3), u(300), numpy=True)
def bodies(L, place, speed, mass):
    for _ in range(5):
        d = place[None, :, :] - place[:, None, :]
        r = L.sum(d * d, -1) + 0.05
        speed = speed + 0.001 * L.sum(d * (mass[None, :] / (r * L.sqrt(r)))[:, :, None], 1)
        place = place + 0.001 * speed
    return place


def neighbours(L, v):
    return L.roll(v, 1, 0) + L.roll(v, -1, 0) + L.roll(v, 1, 1) + L.roll(v, -1, 1)


@program("heat equation, 50 steps", x(256, 256), numpy=True)
def heat(L, v):
    for _ in range(50):
        v = v + 0.1 * (neighbours(L, v) - 4 * v)
    return v


@program("wave equation, 30 steps", x(200, 300), numpy=True)
def wave(L, v):
    before = v
    for _ in range(30):
        v, before = 2 * v - before + 0.1 * (neighbours(L, v) - 4 * v), v
    return v


@program("reaction and diffusion, 30 steps", u(128, 128), u(128, 128), numpy=True)
def gray_scott(L, a, b):
    for _ in range(30):
        r = a * b * b
        a, b = a + 0.2 * (neighbours(L, a) - 4 * a) - r + 0.03 * (1 - a), b + 0.1 * (neighbours(L, b) - 4 * b) + r - 0.09 * b
    return a, b


@program("Jacobi, 50 steps", u(300, 300), x(300), numpy=True)
def jacobi(L, a, b):
    v = b * 0
    for _ in range(50):
        v = (b - a @ v) / 300  # of (a + 300) v = b
    return v


@program("conjugate gradients, 15 steps", w(200, 200), x(200), numpy=True, loose=100)
def conjugate(L, a, b):
    a = a @ a.T + L.eye(200)
    v, r = b * 0, b
    p, rr = r, L.sum(r * r)
    for _ in range(15):
        q = a @ p
        alpha = rr / L.sum(p * q)
        v, r = v + alpha * p, r - alpha * q
        rr, before = L.sum(r * r), rr
        p = r + rr / before * p
    return v


@program("power iteration, 20 steps", u(400, 400), x(400), numpy=True)
def power(L, a, v):
    for _ in range(20):
        v = a @ v
        v = v / L.sqrt(L.sum(v * v))
    return v, L.sum(v * (a @ v))


@program("PCA by power iteration", x(1000, 50), x(50, 4), numpy=True, loose=100)
def pca(L, v, q):
    v = v - mean(L, v, 0, True)
    covariance = v.T @ v / 1000
    for _ in range(5):
        q = covariance @ q
        q = q / L.sqrt(L.sum(q * q, 0, True))
    return v @ q


@program("k-means, 5 steps", x(2000, 8), x(10, 8), numpy=True)
def k_means(L, v, centres):
    for _ in range(5):
        near = L.argmin(L.sum((v[:, None, :] - centres[None, :, :]) ** 2, -1), 1)
        member = L.one_hot(near, 10)
        centres = (member.T @ v) / (L.sum(member, 0)[:, None] + 1e-6)
    return centres


@program("mixture of Gaussians, 5 steps", x(1000, 4), x(6, 4), numpy=True)
def mixture(L, v, m):
    for _ in range(5):
        score = -0.5 * L.sum((v[:, None, :] - m[None, :, :]) ** 2, -1)
        share = L.exp(score - L.amax(score, 1, True))
        share = share / L.sum(share, 1, True)
        m = share.T @ v / (L.sum(share, 0)[:, None] + 1e-6)
    return m


@program("Mandelbrot, 30 steps", u(256, 256), u(256, 256), numpy=True)
def mandelbrot(L, a, b):
    cr, ci = a * 3 - 2, b * 2 - 1
    zr, zi, count = cr * 0, ci * 0, cr * 0
    for _ in range(30):
        inside = L.number(zr * zr + zi * zi < 4)
        zr, zi = (zr * zr - zi * zi + cr) * inside + zr * (1 - inside), (2 * zr * zi + ci) * inside + zi * (1 - inside)
        count = count + inside
    return L.sum(count) / 65536


@program("game of life, 20 steps", Input("b", (200, 200)), numpy=True)
def life(L, cells):
    v = L.number(cells)
    for _ in range(20):
        row = L.roll(v, 1, 0) + v + L.roll(v, -1, 0)
        n = L.roll(row, 1, 1) + row + L.roll(row, -1, 1) - v
        v = L.number(n == 3) + v * L.number(n == 2)
    return v


@program("linear regression by gradient descent, 20 steps", x(500, 20), x(500), x(20), numpy=True)
def regression(L, a, y, v):
    for _ in range(20):
        v = v - 0.1 / 500 * (a.T @ (a @ v - y))
    return v


@program("logistic regression, 20 steps", x(500, 20), u(500), x(20), numpy=True)
def logistic(L, a, y, v):
    for _ in range(20):
        v = v - 0.5 / 500 * (a.T @ (1 / (1 + L.exp(-(a @ v))) - y))
    return v


@program("Black and Scholes", u(100_000), u(100_000), u(100_000))
def black_scholes(L, price, strike, years):
    d1 = (L.log(price / strike) + (0.02 + 0.045) * years) / (0.3 * L.sqrt(years))
    d2 = d1 - 0.3 * L.sqrt(years)

    def normal(v):
        return 0.5 * (1 + L.erf(v / math.sqrt(2)))
    return price * normal(d1) - strike * L.exp(-0.02 * years) * normal(d2)


@program("random walks", x(2000, 250))
def walks(L, v):
    price = (v * 0.02).cumsum(1).exp()
    return (L.amax(price, 1) - 1).relu().mean(), price.mean(0)


@program("Lorenz attractors, 30 steps", x(1000, 3), numpy=True, loose=100)
def lorenz(L, v):
    a, b, c = v[:, 0], v[:, 1], v[:, 2]
    for _ in range(30):
        a, b, c = a + 0.005 * 10 * (b - a), b + 0.005 * (a * (28 - c) - b), c + 0.005 * (a * b - 8 / 3 * c)
    return a, b, c


@program("Sinkhorn, 15 steps", u(300, 300), numpy=True)
def sinkhorn(L, cost):
    k = L.exp(-5 * cost)
    a = mean(L, cost, 1) * 0 + 1
    for _ in range(15):
        b = 1 / (k.T @ a)
        a = 1 / (k @ b)
    return a[:, None] * k * b[None, :]


@program("PageRank, 20 steps", u(500, 500), numpy=True)
def page_rank(L, links):
    links = L.number(links > 0.9)
    out = L.sum(links, 0, True) + 1e-6
    v = mean(L, links, 1) * 0 + 1 / 500
    for _ in range(20):
        v = 0.15 / 500 + 0.85 * ((links / out) @ v)
    return v


@program("shortest paths, 40 nodes", u(40, 40), numpy=True)
def paths(L, d):
    for k in range(40):
        d = L.minimum(d, d[:, k:k + 1] + d[k:k + 1, :])
    return d


@program("nearest neighbours", x(1000, 16), x(500, 16))
def nearest(L, a, b):
    d = a.square().sum(1, keepdim=True) + b.square().sum(1).unsqueeze(0) - 2 * a @ b.T
    return (-d).topk(5, 1)[0]


@program("kernel regression", x(500, 8), x(500), x(300, 8), numpy=True)
def kernel(L, a, y, b):
    k = L.exp(-0.1 * L.sum((b[:, None, :] - a[None, :, :]) ** 2, -1))
    return (k @ y) / (L.sum(k, 1) + 1e-6)


@program("blur and edges", x(1, 1, 300, 400))
def blur(L, v):
    def along(t, weights, axis):
        return sum(L.roll(t, i - len(weights) // 2, axis) * c for i, c in enumerate(weights))
    v = along(along(v, (0.06, 0.24, 0.4, 0.24, 0.06), 2), (0.06, 0.24, 0.4, 0.24, 0.06), 3)
    a, b = along(along(v, (-1, 0, 1), 2), (1, 2, 1), 3), along(along(v, (1, 2, 1), 2), (-1, 0, 1), 3)
    return (a * a + b * b).sqrt()


@program("Fourier transform by a matrix", x(256, 64), numpy=True)
def fourier(L, v):
    k = L.arange(256)
    angle = k[:, None] * k[None, :] * (2 * math.pi / 256)
    return L.sin(angle + math.pi / 2) @ v, L.sin(angle) @ v


@program("square root of a matrix, 10 steps", w(100, 100), numpy=True, loose=100)
def matrix_root(L, a):
    a = a @ a.T + L.eye(100)
    a = a / L.sqrt(L.sum(a * a))
    y, z, one = a, L.eye(100), L.eye(100)
    for _ in range(10):
        t = 0.5 * (3 * one - z @ y)
        y, z = y @ t, t @ z
    return y


@program("spins on a grid, 10 steps", x(128, 128), u(10, 128, 128), numpy=True)
def spins(L, start, chances):
    v = L.number(start > 0) * 2 - 1
    for t in range(10):
        flip = L.number(chances[t] < L.exp(-0.8 * v * neighbours(L, v)))
        v = v * (1 - 2 * flip)
    return v


@program("predators and prey, 50 steps", u(1000), u(1000), numpy=True)
def prey(L, a, b):
    for _ in range(50):
        a, b = a + 0.01 * (a - a * b), b + 0.01 * (a * b - b)
    return a, b


@program("Viterbi, 30 steps", x(30, 20), x(20, 20), numpy=True)
def viterbi(L, seen, moves):
    v = seen[0]
    for t in range(1, 30):
        v = L.amax(v[:, None] + moves, 0) + seen[t]
    return v


@program("forward algorithm, 30 steps", x(30, 20), x(20, 20), numpy=True)
def forward(L, seen, moves):
    v = seen[0]
    for t in range(1, 30):
        s = v[:, None] + moves
        m = L.amax(s, 0, True)
        v = L.log(L.sum(L.exp(s - m), 0)) + m[0] + seen[t]
    return v


@program("Kalman filter, 20 steps", x(20, 100), numpy=True)
def kalman(L, seen):
    place, spread = seen[0], seen[0] * 0 + 1
    for t in range(1, 20):
        spread = spread + 0.1
        gain = spread / (spread + 0.5)
        place, spread = place + gain * (seen[t] - place), (1 - gain) * spread
    return place, spread

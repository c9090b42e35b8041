"""The train suite's work by JAX, compiled."""

import jax
import jax.numpy as jnp
import numpy as np
import train_work


def conv(x, w, b):
    return jax.lax.conv_general_dilated(x, w, (1, 1), "VALID") + b[None, :, None, None]


def batchnorm(x, scale, shift):
    mean = x.mean((0, 2, 3), keepdims=True)
    var = ((x - mean) ** 2).mean((0, 2, 3), keepdims=True)
    normal = (x - mean) * jax.lax.rsqrt(var + 1e-5)
    return normal * scale[None, :, None, None] + shift[None, :, None, None], mean.ravel(), var.ravel()


def max_pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def loss_of(p, running, x, y):
    z = jax.nn.relu(conv(jax.nn.relu(conv(x, p[0], p[1])), p[2], p[3]))
    z, m0, v0 = batchnorm(z, p[4], p[5])
    z = max_pool(z)
    z = jax.nn.relu(conv(jax.nn.relu(conv(z, p[6], p[7])), p[8], p[9]))
    z, m1, v1 = batchnorm(z, p[10], p[11])
    z = max_pool(z).reshape(x.shape[0], -1) @ p[12] + p[13]
    moved = [0.9 * old + 0.1 * new for old, new in zip(running, (m0, v0, m1, v1))]
    return -jnp.take_along_axis(jax.nn.log_softmax(z), y[:, None], 1).mean(), moved


def make():
    shapes = [(32, 1, 5, 5), (32,), (32, 32, 5, 5), (32,), (32,), (32,), (64, 32, 3, 3), (64,), (64, 64, 3, 3), (64,),
              (64,), (64,), (576, 10), (10,)]
    random = np.random.default_rng(1)
    p = [jnp.asarray(random.standard_normal(s, dtype=np.float32) * 0.05) for s in shapes]
    state = (p, [jnp.zeros_like(w) for w in p], [jnp.zeros_like(w) for w in p], jnp.zeros(()),
             [jnp.zeros(32), jnp.ones(32), jnp.zeros(64), jnp.ones(64)])
    x, y = jnp.asarray(train_work.IMAGES), jnp.asarray(train_work.DIGITS)

    @jax.jit
    def step(state, x, y):
        p, m, v, t, running = state
        (loss, running), g = jax.value_and_grad(loss_of, has_aux=True)(p, running, x, y)
        t = t + 1
        m = [0.9 * a + 0.1 * b for a, b in zip(m, g)]
        v = [0.999 * a + 0.001 * b * b for a, b in zip(v, g)]
        p = [w - 0.001 * (a / (1 - 0.9**t)) / (jnp.sqrt(b / (1 - 0.999**t)) + 1e-8) for w, a, b in zip(p, m, v)]
        return (p, m, v, t, running), loss

    def run():
        nonlocal state
        state, loss = step(state, x, y)
        loss.block_until_ready()
    return run


train_work.measure(make, 10)

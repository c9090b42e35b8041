"""The start suite's work by JAX, compiled: python start_jax.py NAME. Importing it is not counted."""

import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

parameters = []  # shapes, in the order in which they are used


def convolution(x, fro, to, kernel, stride, given):
    y = jax.lax.conv_general_dilated(x, given((to, fro, kernel, kernel)), (stride, stride), [(kernel // 2, kernel // 2)] * 2)
    scale, shift, mean, var = (given((to,))[None, :, None, None] for _ in range(4))
    return (y - mean) * scale * jax.lax.rsqrt(var + 1e-5) + shift


def basic_block(x, fro, width, stride, given):
    y = jax.nn.relu(convolution(x, fro, width, 3, stride, given))
    y = convolution(y, width, width, 3, 1, given)
    return jax.nn.relu(y + (x if fro == width else convolution(x, fro, width, 1, stride, given)))


def resnet18(x, given):
    x = jax.nn.relu(convolution(x, 3, 64, 7, 2, given))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 3, 3), (1, 1, 2, 2), [(0, 0), (0, 0), (1, 1), (1, 1)])
    fro = 64
    for stage in range(4):
        for i in range(2):
            x = basic_block(x, fro, 64 << stage, 2 if i == 0 and stage > 0 else 1, given)
            fro = 64 << stage
    return x.mean((2, 3)) @ given((fro, 1000)) + given((1000,))


def compiled_resnet18():
    shapes = []
    image = np.zeros((1, 3, 224, 224), np.float32)

    def note(shape):
        shapes.append(shape)
        return jnp.zeros(shape, jnp.float32)
    jax.eval_shape(lambda x: resnet18(x, note), image)
    weights = [np.zeros(shape, np.float32) for shape in shapes]

    def run(x, weights):
        rest = iter(weights)
        return resnet18(x, lambda shape: next(rest))
    start = time.perf_counter()
    np.asarray(jax.jit(run)(image, weights))
    return start


name = sys.argv[1]
if name == "softmax":
    x, w = np.zeros((256, 256), np.float32), np.zeros((256, 256), np.float32)
    start = time.perf_counter()
    np.asarray(jax.jit(lambda x, w: jax.nn.softmax(x @ w))(x, w))
    title = "softmax(x @ w) of 256x256"
else:
    start = compiled_resnet18()
    title = "ResNet-18 forward, batch 1"
print(json.dumps({"name": title, "value": 1e3 * (time.perf_counter() - start), "unit": "ms"}))

"""The work of cpu.cpp by JAX, compiled."""

import cpu_work
import jax
import jax.numpy as jnp


def compiled(function, **fixed):
    def prepare(*given, **options):
        run = jax.jit(lambda *arrays: function(*arrays, **fixed, **options))
        return lambda: run(*given).block_until_ready()
    return prepare


def conv(x, w, stride, padding):
    return jax.lax.conv_general_dilated(x, w, (stride, stride), [(padding, padding)] * 2)


def layernorm(x):
    centred = x - x.mean(1, keepdims=True)
    return centred * jax.lax.rsqrt((centred * centred).mean(1, keepdims=True) + 1e-5)


def attention(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / 8
    scores = jnp.where(jnp.tril(jnp.ones((1024, 1024), bool)), scores, -jnp.inf)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v)


cpu_work.measure(jnp.asarray, {
    "matmul": compiled(jnp.matmul),
    "matmul transposed": compiled(lambda a, b: a @ b.T),
    "conv": compiled(conv),
    "add": compiled(jnp.add),
    "sum of all": compiled(jnp.sum),
    "sum of rows": compiled(jnp.sum, axis=1),
    "sum of columns": compiled(jnp.sum, axis=0),
    "max of rows": compiled(jnp.max, axis=1),
    "softmax": compiled(jax.nn.softmax),
    "rmsnorm": compiled(lambda x: x * jax.lax.rsqrt((x * x).mean(1, keepdims=True) + 1e-5)),
    "layernorm": compiled(layernorm),
    "gelu (tanh)": compiled(jax.nn.gelu),
    "gelu (erf)": compiled(jax.nn.gelu, approximate=False),
    "transpose": compiled(jnp.transpose),
    "attention": compiled(attention),
})

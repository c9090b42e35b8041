"""The work of cpu.cpp by tinygrad's jit on its CPU device; of the products only some, because they are slow."""

import os

os.environ.setdefault("DEV", "CPU")
os.environ.setdefault("CC", "clang-19")  # what ./dev setup installs

import cpu_work
from tinygrad import Tensor, TinyJit


def compiled(function):
    def prepare(*given, **options):
        run = TinyJit(lambda *arrays: function(*arrays, **options).contiguous().realize())
        return lambda: run(*given).numpy() if given[0].numel() <= 4 else run(*given)
    return prepare


def array(x):
    return Tensor(x).realize()


cpu_work.measure(array, {
    "matmul": compiled(lambda a, b: a @ b),
    "conv": compiled(lambda x, w, stride, padding: x.conv2d(w, stride=stride, padding=padding)),
    "add": compiled(lambda a, b: a + b),
    "sum of rows": compiled(lambda x: x.sum(1)),
    "sum of columns": compiled(lambda x: x.sum(0)),
    "softmax": compiled(lambda x: x.softmax(1)),
    "layernorm": compiled(lambda x: x.layernorm()),
    "gelu (tanh)": compiled(lambda x: x.gelu()),
    "transpose": compiled(lambda x: x.T.contiguous()),
    "attention": compiled(lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True)),
}, sizes=((256, 256, 256), (1024, 1024, 1024), (1, 4096, 4096)))

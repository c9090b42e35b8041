"""The work of cpu.cpp by PyTorch, op by op."""

import os

import cpu_work
import torch
import torch.nn.functional as F

torch.set_num_threads(int(os.environ["CPU_THREADS"]))
torch.set_grad_enabled(False)


def eager(function, **fixed):
    return lambda *given, **options: lambda: function(*given, **fixed, **options)


cpu_work.measure(torch.from_numpy, {
    "matmul": eager(torch.matmul),
    "matmul transposed": eager(lambda a, b: a @ b.T),
    "conv": eager(F.conv2d),
    "add": eager(torch.add),
    "sum of all": eager(torch.sum),
    "sum of rows": eager(torch.sum, dim=1),
    "sum of columns": eager(torch.sum, dim=0),
    "max of rows": eager(torch.amax, dim=1),
    "softmax": eager(torch.softmax, dim=1),
    "rmsnorm": eager(F.rms_norm, normalized_shape=(1024,), eps=1e-5),
    "layernorm": eager(F.layer_norm, normalized_shape=(1024,)),
    "gelu (tanh)": eager(F.gelu, approximate="tanh"),
    "gelu (erf)": eager(F.gelu),
    "transpose": eager(lambda x: x.T.contiguous()),
    "attention": eager(F.scaled_dot_product_attention, is_causal=True),
})

"""quern: tensors that are compiled when they are needed.

    from quern import Tensor, nn
    x = Tensor.rand(64, 784)
    loss = (x @ Tensor.glorot_uniform(784, 10)).softmax().mean()
    print(loss.item())
"""

from quern._core import (
    AxisError,
    DeviceError,
    DType,
    DTypeError,
    Error,
    IndexError,  # noqa: A004 (an IndexError of Python, too)
    InternalError,
    MemoryError,
    MissingFileError,
    ParseError,
    RewriteError,
    ShapeError,
    SpecError,
    ValueError,  # noqa: A004 (a ValueError of Python, too)
)
from quern.device import Buffer, Device
from quern.dtype import dtypes
from quern.helpers import Context, GlobalCounters, fetch, getenv
from quern.tensor import Tensor
from quern.uop import UOp, Variable
from quern.jit import TinyJit, jit
from quern.function import function
from quern.estimate import estimate
from quern.gradients import grad, inference_mode, is_grad_enabled, no_grad, value_and_grad
from quern import nn

__version__ = "0.1.0"

_NOT_YET = {
    "vmap": "functions of one example take a batch where their shapes are broadcast",
    "jvp": "gradients go backward only: grad, value_and_grad, Tensor.gradient",
    "fft": "there are no complex numbers; a transform of small size is a product with matrices of cosines and sines",
}


def __getattr__(name):
    if name in _NOT_YET:
        raise AttributeError(f"quern has no {name} yet: {_NOT_YET[name]}")
    raise AttributeError(f"module 'quern' has no attribute {name!r}")


__all__ = [
    "AxisError", "Buffer", "Context", "DType", "DTypeError", "Device", "DeviceError", "Error", "GlobalCounters", "IndexError", "InternalError",
    "MemoryError",
    "MissingFileError", "ParseError", "RewriteError", "ShapeError", "SpecError", "Tensor", "TinyJit", "UOp", "ValueError", "Variable",
    "dtypes", "estimate", "fetch", "function", "getenv", "grad", "inference_mode", "is_grad_enabled", "jit", "nn", "no_grad", "value_and_grad",
]

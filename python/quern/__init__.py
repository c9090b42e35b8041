"""quern: tensors that are compiled when they are needed.

    from quern import Tensor, nn
    x = Tensor.rand(64, 784)
    loss = (x @ Tensor.glorot_uniform(784, 10)).softmax().mean()
    print(loss.item())
"""

from quern._core import (
    DeviceError,
    DType,
    DTypeError,
    Error,
    IndexError,  # noqa: A004 (an IndexError of Python, too)
    InternalError,
    MissingFileError,
    ParseError,
    RewriteError,
    ShapeError,
    SpecError,
    ValueError,  # noqa: A004 (a ValueError of Python, too)
)
from quern.device import Device
from quern.dtype import dtypes
from quern.helpers import Context, GlobalCounters, fetch, getenv
from quern.tensor import Tensor
from quern.uop import UOp, Variable
from quern.jit import TinyJit, jit
from quern.function import function
from quern.estimate import estimate
from quern import nn

__version__ = "0.1.0"

__all__ = [
    "Context", "DType", "DTypeError", "Device", "DeviceError", "Error", "GlobalCounters", "IndexError", "InternalError",
    "MissingFileError", "ParseError", "RewriteError", "ShapeError", "SpecError", "Tensor", "TinyJit", "UOp", "ValueError", "Variable",
    "dtypes", "estimate", "fetch", "function", "getenv", "jit", "nn",
]

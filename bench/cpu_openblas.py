"""The work of cpu.cpp by NumPy, whose matrix products are OpenBLAS's."""

import cpu_work
import numpy as np

cpu_work.measure(lambda x: x, {
    "matmul": lambda a, b: lambda: a @ b,
    "matmul transposed": lambda a, b: lambda: a @ b.T,
    "add": lambda a, b: lambda: a + b,
    "sum of all": lambda x: lambda: x.sum(),
    "sum of rows": lambda x: lambda: x.sum(1),
    "sum of columns": lambda x: lambda: x.sum(0),
    "max of rows": lambda x: lambda: x.max(1),
    "transpose": lambda x: lambda: np.ascontiguousarray(x.T),
})

"""dtypes: the types that elements may have, by name."""

from quern import _core
from quern._core import DType

_NAMES = (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "fp8e4m3", "fp8e5m2", "float16",
    "bfloat16", "float32", "float64",
)
_OTHER_NAMES = {
    "half": "float16", "float": "float32", "double": "float64", "char": "int8", "uchar": "uint8", "short": "int16",
    "ushort": "uint16", "int": "int32", "uint": "uint32", "long": "int64", "ulong": "uint64",
}


class _Names:  # apart from the functions, in which bool, int and float are those of Python
    bool: DType
    int8: DType
    uint8: DType
    int16: DType
    uint16: DType
    int32: DType
    uint32: DType
    int64: DType
    uint64: DType
    fp8e4m3: DType
    fp8e5m2: DType
    float16: DType
    bfloat16: DType
    float32: DType
    float64: DType
    half: DType
    float: DType
    double: DType
    char: DType
    uchar: DType
    short: DType
    ushort: DType
    int: DType
    uint: DType
    long: DType
    ulong: DType


class _DTypes(_Names):
    """The dtypes: dtypes.float32, dtypes.int8, ...; and what is asked of them."""

    def __init__(self):
        for name in _NAMES:
            setattr(self, name, DType(name))
        for name, meant in _OTHER_NAMES.items():
            setattr(self, name, getattr(self, meant))
        self.void = DType("void")
        self.index = DType("index")
        self.fp8s = (self.fp8e4m3, self.fp8e5m2)
        self.floats = (*self.fp8s, self.float16, self.bfloat16, self.float32, self.float64)
        self.uints = (self.uint8, self.uint16, self.uint32, self.uint64)
        self.sints = (self.int8, self.int16, self.int32, self.int64)
        self.ints = self.uints + self.sints
        self.all = (self.bool, *self.ints, *self.floats)

    @property
    def default_float(self) -> DType:
        """What floats are if nothing is said."""
        return _core.default_float()

    @default_float.setter
    def default_float(self, dtype):
        _core.set_default_float(dtype)

    @property
    def default_int(self) -> DType:
        """What integers are if nothing is said."""
        return _core.default_int()

    @default_int.setter
    def default_int(self, dtype):
        _core.set_default_int(dtype)

    @staticmethod
    def is_float(dtype) -> bool:
        """Whether it is a float."""
        return _core.as_dtype(dtype).is_float

    @staticmethod
    def is_int(dtype) -> bool:
        """Whether it is an integer."""
        return _core.as_dtype(dtype).is_int

    @staticmethod
    def is_unsigned(dtype) -> bool:
        """Whether it is an integer without a sign."""
        return _core.as_dtype(dtype).is_unsigned

    @staticmethod
    def is_bool(dtype) -> bool:
        """Whether it is bool."""
        return _core.as_dtype(dtype).is_bool

    @staticmethod
    def min(dtype):
        """The least value; -inf of floats."""
        return _core.as_dtype(dtype).min

    @staticmethod
    def max(dtype):
        """The greatest value; inf of floats."""
        return _core.as_dtype(dtype).max

    @staticmethod
    def finfo(dtype) -> tuple[int, int]:
        """Bits of the exponent and of the mantissa of a float."""
        sizes = {"float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52), "fp8e5m2": (5, 2), "fp8e4m3": (4, 3)}
        name = _core.as_dtype(dtype).name
        if name not in sizes:
            raise _core.DTypeError(f"finfo: expected a float, got {name}")
        return sizes[name]

    @staticmethod
    def from_py(value) -> DType:
        """What a number of Python, or a list of them, is as a tensor."""
        from quern.tensor import Tensor

        return Tensor(value).dtype

    def __getattr__(self, name):
        if name.startswith(("complex", "cfloat", "cdouble")):
            raise AttributeError(f"there is no dtype {name} yet: a complex number is two floats, along an axis of their own")
        raise AttributeError(f"there is no dtype {name}; there are {', '.join(_NAMES)}")

    def __repr__(self):
        return "quern.dtypes"


dtypes = _DTypes()


def least_upper_dtype(*given) -> DType:
    """The smallest dtype that all of these convert to."""
    if not given:
        raise TypeError("least_upper_dtype: expected at least one dtype")
    found = _core.as_dtype(given[0])
    for dtype in given[1:]:
        found = _core.promote(found, _core.as_dtype(dtype))
    return found


def to_dtype(dtype) -> DType:
    """A DType from one, or from its name."""
    return _core.as_dtype(dtype)


def _to_np_dtype(dtype) -> type | None:
    """The type of NumPy; None if it has none."""
    import numpy

    letter = _core.as_dtype(dtype).fmt
    return None if letter is None else numpy.dtype(letter).type


def _from_np_dtype(npdtype) -> DType:
    """The DType of one of NumPy."""
    import numpy

    return _core.as_dtype(numpy.dtype(npdtype).name)

"""Wrong use in making tensors: from Python, NumPy, buffers and files; dtypes, devices, shards, pickles."""

import pathlib
import pickle

import numpy as np
import pytest
from wrong import NO_SETTER, refuses, row, wanted

import quern
from quern import AxisError, Device, DeviceError, DType, DTypeError, Error, MissingFileError, ShapeError, Tensor, UOp, Variable, dtypes, fetch, nn

NUMBERS = "expected numbers: a number, a list, an array of numbers, bytes or a Tensor, got "
DTYPE = "expected a dtype, such as dtypes.float32 or 'float32', got "
n = Variable("n", 1, 10)
a = Tensor([1.0, 2.0]).realize()
two = ("CPU:0", "CPU:1")
image, kernel = Tensor.ones(1, 1, 8, 8), Tensor.ones(1, 1, 3, 3)


def set_to(thing, name, value):
    return lambda: setattr(thing, name, value)


MAKING = [
    row(TypeError, NUMBERS + "'text'", lambda: Tensor("text")),
    row(TypeError, NUMBERS + "object", lambda: Tensor(object())),
    row(TypeError, NUMBERS + "'a'", lambda: Tensor([1, "a"])),
    row(TypeError, NUMBERS + "{1: 2}", lambda: Tensor({1: 2})),
    row(TypeError, NUMBERS + "set", lambda: Tensor({1, 2})),
    row(TypeError, NUMBERS + "complex", lambda: Tensor(1j)),
    row(TypeError, NUMBERS + "generator", lambda: Tensor(x for x in range(3))),
    row(TypeError, NUMBERS + "ndarray", lambda: Tensor(np.array(["a"]))),
    row(ShapeError, "lists of different lengths make no tensor: 2 and 1 on axis 1", lambda: Tensor([[1, 2], [3]])),
    row(ShapeError, "lists of different depths make no tensor", lambda: Tensor([[1, 2], 3])),
    row(ShapeError, "stack: shapes (2,) and (3,) differ", lambda: Tensor([Tensor.ones(2), Tensor.ones(3)])),
    row(ShapeError, "3 bytes are no multiple of the 4 of int32", lambda: Tensor(b"abc", dtype="int32")),
    row(DTypeError, f"{2**40} is not one of the values of int32", lambda: Tensor([2**40])),
    row(DTypeError, f"{2**40} is not one of the values of int32", lambda: Tensor(2**40)),
    row(DTypeError, f"the integer {2**70} does not fit in 64 bits", lambda: Tensor([2**70])),
    row(DTypeError, "requires_grad: gradients need floats, this tensor is int32 (1,)", lambda: Tensor([1], requires_grad=True)),
    row(TypeError, "kwargs = { nonsense: int }", lambda: Tensor([1], nonsense=1)),
    row(MissingFileError, "from_file: /no/such: No such file or directory", lambda: Tensor(pathlib.Path("/no/such"))),
    row(ShapeError, "ones: negative size in (-1,)", lambda: Tensor.ones(-1)),
    row(ShapeError, "zeros: negative size in (2, -3)", lambda: Tensor.zeros((2, -3))),
    row(ShapeError, f"ones: ({2**40}, {2**40}) has more than 2^63 elements", lambda: Tensor.ones(2**40, 2**40)),
    row(quern.ValueError, f"randperm: {2**63 - 1} elements; there must be at most 2^30", lambda: Tensor.randperm(2**63 - 1)),
    row(ShapeError, f"rand: ({2**63 - 1},) has more than 2^63 elements", lambda: Tensor.rand(2**63 - 1)),
    row(ShapeError, f"randn: shape ({2**62},) is too large: at most 2^50 words", lambda: Tensor.randn(2**62)),
    row(ShapeError, f"randint: shape ({2**52},) is too large: at most 2^50 words", lambda: Tensor.randint(2**52)),
    row(ShapeError, f"pad: ({2**63 - 1},) has more than 2^63 elements", lambda: Tensor.ones(1).expand(2**62).cat(Tensor.ones(1).expand(2**62))),
    row(ShapeError, f"pad: ({2**63 - 1},) has more than 2^63 elements", lambda: Tensor.ones(3).pad((2**63 - 4, 2**63 - 1))),
    row(ShapeError, f"sort: axis -1 of ({2**62 + 1},) has more than 2^30 elements", lambda: Tensor.ones(1).expand(2**62 + 1).sort()),
    row(ShapeError, f"cumsum: axis 0 of ({2**63 - 2},) has more than 2^40 elements", lambda: Tensor.ones(1).expand(2**63 - 2).cumsum()),
    *(row(quern.ValueError, f"{name} is [{', '.join([str(2**63 - 1)] * times)}]; each must be at most 2^31", lambda call=call: call(2**63 - 1))
      for name, times, call in (
          ("conv2d: stride", 2, lambda n: image.conv2d(kernel, stride=n)), ("conv2d: dilation", 2, lambda n: image.conv2d(kernel, dilation=n)),
          ("conv2d: padding", 1, lambda n: image.conv2d(kernel, padding=n)), ("max_pool2d: padding", 1, lambda n: image.max_pool2d(3, padding=n)),
          ("conv_transpose2d: stride", 2, lambda n: image.conv_transpose2d(kernel, stride=n)),
          ("max_unpool2d: the window", 2, lambda n: image.max_unpool2d(image.cast("int32"), n)))),
    row(TypeError, "expected a size: an int, or a UOp, got 'a'", lambda: Tensor.ones(2, "a")),
    row(TypeError, "expected a size: an int, or a UOp, got 2.5", lambda: Tensor.ones(2.5)),
    row(TypeError, "expected a Tensor or a number, got 'a'", lambda: Tensor.full((2,), "a")),
    row(DTypeError, "300 is not one of the values of uint8", lambda: Tensor([1], dtype="uint8").full_like(300)),
    row(DTypeError, "nan is not one of the values of int32", lambda: Tensor([1]).full_like(float("nan"))),
    row(quern.ValueError, "arange: the step is 0", lambda: Tensor.arange(1, 2, 0)),
    row(quern.ValueError, "arange: start 0, stop inf and step 1 must be finite", lambda: Tensor.arange(float("inf"))),
    row(TypeError, "arange(): incompatible function arguments", lambda: Tensor.arange()),
    row(ShapeError, "linspace: -1 steps; there must be 0 or more", lambda: Tensor.linspace(0, 1, -1)),
    row(ShapeError, "eye: 2 rows and -3 columns must not be negative", lambda: Tensor.eye(2, -3)),
    row(DTypeError, "rand: needs a float type, given int32", lambda: Tensor.rand(2, dtype="int32")),
    row(DTypeError, "randint: needs an integer type, given float32", lambda: Tensor.randint(2, dtype="float32")),
    row(quern.ValueError, "randint: low 6 must be below high 5", lambda: Tensor.randint(2, low=6, high=5)),
    row(quern.ValueError, "randperm: -1 elements; there must be 0 or more", lambda: Tensor.randperm(-1)),
    row(quern.ValueError, "normal: the standard deviation -1 is negative", lambda: Tensor.normal(2, std=-1)),
    row(ShapeError, "glorot_uniform: a shape of no axes has no inputs", lambda: Tensor.glorot_uniform()),
    row(DTypeError, "one_hot: the indices must be integers, given float32 (1,)", lambda: Tensor([1.5]).one_hot(3)),
    row(quern.ValueError, "one_hot: -5 classes; there must be 0 or more", lambda: Tensor([1]).one_hot(-5)),
    row(quern.ValueError, 'meshgrid: indexing "zz" is neither "ij" nor "xy"', lambda: Tensor([1]).meshgrid(Tensor([1]), indexing="zz")),
    row(ShapeError, "tril: needs at least 2 axes, given ()", lambda: Tensor(1).tril()),
    row(ShapeError, "diag: needs one or two axes, given (2, 2, 2)", lambda: Tensor.ones(2, 2, 2).diag()),
    row(TypeError, "random_bits: the key is 5, expected a Tensor", lambda: Tensor.random_bits(5, a, 3)),
    row(ShapeError, "random_bits: the key is float32 of shape (2,), expected uint32 of shape (2,)", lambda: Tensor.random_bits(a, a, 3)),
    row(Error, "memory of 8 bytes is given as a null pointer", lambda: Tensor.from_blob(0, (2,), dtype="float32")),
    row(Error, "from_file: /tmp is not a file", lambda: Tensor.from_file("/tmp")),
    row(TypeError, "fetch: expected a URL or a path, got 5", lambda: fetch(5)),
    row(TypeError, NUMBERS + "5", lambda: Tensor.from_dlpack(5)),
    row(TypeError, "a bytes-like object is required, not 'Tensor'", lambda: memoryview(a)),
    row(BufferError, "unsupported dl_device", lambda: a.__dlpack__(dl_device=(2, 0))),
    row(TypeError, "unsupported keyword argument 'nonsense'", lambda: a.__dlpack__(nonsense=1)),
    row(TypeError, "expected a bool as requires_grad, got 'yes'", lambda: Tensor([1.0], requires_grad="yes")),
    row(DTypeError, "complex128", lambda: Tensor(np.array([1j]))),
    row(TypeError, "expected numbers or tensors in a list, got None", lambda: Tensor([None])),
    row(TypeError, "arange", lambda: Tensor.arange("a")),
    row(quern.ValueError, "manual_seed: the seed is -1", lambda: Tensor.manual_seed(-1)),
    row(quern.ValueError, f"manual_seed: the seed is {2**64}, expected 0 to 2^64 - 1", lambda: Tensor.manual_seed(2**64)),
    row(UnicodeEncodeError, "surrogates not allowed", lambda: Tensor([1], device="\ud800")),
    row(UnicodeEncodeError, "surrogates not allowed", lambda: Tensor([1], dtype="\ud800")),
    *[row(ShapeError, f"the values of float32 ({2**31}, {2**31}) take more than 2^63 bytes", lambda f=f: getattr(Tensor.ones(2**31, 2**31), f)())
      for f in ("tolist", "numpy", "data", "tobytes")],
    row(TypeError, "train: mode is 'no', expected a bool", lambda: Tensor.train("no")),
]

no_tensor, no_node = Tensor.__new__(Tensor), UOp.__new__(UOp)
UNMADE = [
    row(TypeError, "a Tensor whose __init__() was not called", call)
    for call in (
        lambda: a + no_tensor, lambda: a == no_tensor, lambda: Tensor(no_tensor), lambda: Tensor([no_tensor]), lambda: no_tensor.realize(),
        lambda: a.realize(no_tensor), lambda: Tensor.stack(no_tensor), lambda: Tensor.cat([a, no_tensor]), lambda: a[no_tensor],
        lambda: a.assign(no_tensor), lambda: Tensor.einsum("a->a", no_tensor), lambda: a.gradient(no_tensor),
        lambda: nn.state.safe_save({"a": no_tensor}, "/no/such/file"), lambda: nn.state.safe_load(no_tensor), lambda: a.where(no_tensor, 1),
    )
] + [
    row(TypeError, "a UOp whose __init__() was not called", call)
    for call in (lambda: Tensor.ones(no_node), lambda: Tensor(no_node), lambda: a + no_node, lambda: a[no_node], lambda: n + no_node)
] + [
    row(TypeError, "incompatible function arguments", call)
    for call in (lambda: no_tensor.shape, lambda: no_tensor + 1, lambda: repr(no_tensor), lambda: no_tensor.numpy(), lambda: no_node.op)
]

DTYPES = [
    row(DTypeError, "'float31' is not a dtype", lambda: Tensor([1], dtype="float31")),
    row(TypeError, DTYPE + "5", lambda: Tensor([1], dtype=5)),
    row(TypeError, DTYPE + "5", lambda: a.cast(5)),
    row(DTypeError, "cast: a tensor cannot hold void", lambda: a.cast("void")),
    row(DTypeError, "void has no values", lambda: dtypes.void.max),
    row(DTypeError, "void has no values", lambda: dtypes.min(dtypes.void)),
    row(DTypeError, "empty: a tensor cannot hold void", lambda: Tensor.empty(2, dtype="void")),
    row(ShapeError, "bitcast: float32 (3,) to float64: the last axis must be a multiple of 2",
        lambda: Tensor([1.0, 2.0, 3.0]).bitcast("float64")),
    row(DTypeError, "bitwise_and: needs integers or bools, given float32", lambda: a & 1),
    row(DTypeError, "bitwise_not: needs integers or bools, given float32", lambda: ~a),
    row(DTypeError, "lshift: needs integers, given float32", lambda: Tensor([1]) << 1.5),
    row(DTypeError, "threefry: counter and key must be uint64, given float32 and float32", lambda: a.threefry(a)),
    row(DTypeError, "lerp: needs floats, given int32 (2,) and int32 (2,)", lambda: Tensor([1, 2]).lerp(Tensor([3, 4]), 0.5)),
    row(DTypeError, "where: the condition must be bool, given float32 (1,)", lambda: Tensor([1.0]).where(1, 2)),
    row(quern.ValueError, "pow: an integer to the power -1; cast it to a float first", lambda: Tensor([1]) ** -1),
    row(DTypeError, "finfo: expected a float, got int32", lambda: dtypes.finfo("int32")),
    row(DTypeError, "'nope' is not a dtype", lambda: dtypes.min("nope")),
    row(DTypeError, "'xx' is not a dtype", lambda: DType("xx")),
    row(DTypeError, "set_default_float: int32 is not a float type", set_to(dtypes, "default_float", "int32")),
    row(DTypeError, "set_default_int: float32 is not an integer type", set_to(dtypes, "default_int", "float32")),
    row(AttributeError, "there is no dtype float33; there are bool, int8", lambda: dtypes.float33),
    row(TypeError, "least_upper_dtype: expected at least one dtype", lambda: quern.dtype.least_upper_dtype()),
    row(TypeError, NUMBERS + "'a'", lambda: dtypes.from_py("a")),
    row(AttributeError, NO_SETTER, set_to(a, "dtype", "int32")),
]

DEVICES = [
    row(DeviceError, "there is no device 'TOASTER'; there are CPU", lambda: Tensor([1], device="TOASTER")),
    row(DeviceError, "there is no device 'TOASTER'; there are CPU", lambda: Device["TOASTER"]),
    row(DeviceError, "there is no device 'TOASTER'; there are CPU", set_to(Device, "DEFAULT", "TOASTER")),
    row(DeviceError, "there is no device 'TOASTER'; there are CPU", lambda: Device.canonicalize("TOASTER")),
    row(DeviceError, "device 'CPU:x': expected a number behind the colon, as in CPU:1", lambda: Tensor([1], device="CPU:x")),
    row(DeviceError, "there is no device 'float16'", lambda: a.to("float16")),
    row(DeviceError, "cast('float16') converts to that dtype", lambda: a.to("float16")),
    row(TypeError, "expected the name of a device, got the dtype float16: cast() converts to a dtype", lambda: a.to(dtypes.half)),
    row(TypeError, "expected the name of a device, got 5", lambda: Tensor([1], device=5)),
    row(TypeError, "expected the name of a device, got 5", lambda: a.to(5)),
    row(TypeError, "expected the name of a device, got 5", lambda: Device[5]),
    row(TypeError, "expected the name of a device, got 5", set_to(Device, "DEFAULT", 5)),
    row(DeviceError, "DISK:/no/such/x: cannot write the file: No such file", lambda: a.to("DISK:/no/such/x").realize()),
    row(DeviceError, "there is no device 'TOASTER'", lambda: a.to("TOASTER").realize()),
    row(DeviceError, "NULL holds no values: 8 bytes cannot be read from it", lambda: Tensor.ones(2, device="NULL").tolist()),
    row(Error, "add: one tensor is on CPU, another on INTERP; move one with to()", lambda: a + Tensor([1.0], device="INTERP")),
    row(Error, "matmul: one tensor is on CPU, another on INTERP", lambda: a @ Tensor.ones(2, 2, device="INTERP")),
    row(Error, "assign: the value is on INTERP, the tensor on CPU; move it with to()",
        lambda: a.assign(Tensor.ones(2, device="INTERP"))),
    row(quern.ValueError, "shard: no devices are named", lambda: a.shard(())),
    row(quern.ValueError, "shard: device CPU is named twice", lambda: a.shard(("CPU:0", "CPU:0"), axis=0)),
    row(AxisError, "shard: axis 5 is not in [-1, 0]", lambda: a.shard(two, axis=5)),
    row(ShapeError, "shard: axis 0 of (3,) cannot be divided evenly among 2 devices", lambda: Tensor.ones(3).shard(two, axis=0)),
    row(Error, "add: one tensor is on CPU+CPU:1, another on CPU; move one with to()", lambda: a.shard(two, axis=0) + a),
    row(TypeError, "expected the name of a device, got 1", lambda: a.shard((1, 2))),
    row(TypeError, "shard_like: expected a Tensor, got 5", lambda: a.shard_like(5)),
    row(DeviceError, "there is no device 'TOASTER'", lambda: a.to("TOASTER")),
    row(DeviceError, "there is no device 'NOPE'", lambda: a.shard(("CPU:0", "NOPE"), axis=0)),
    row(TypeError, "shard", lambda: a.shard(5)),
]


@pytest.mark.parametrize("kind, text, call", MAKING)
def test_making(kind, text, call):
    refuses(kind, text, call)


@pytest.mark.filterwarnings("ignore:nanobind")
@pytest.mark.parametrize("kind, text, call", UNMADE)
def test_what_was_made_without_init(kind, text, call):
    refuses(kind, text, call)


@pytest.mark.parametrize("kind, text, call", DTYPES)
def test_dtypes(kind, text, call):
    before = dtypes.default_float, dtypes.default_int
    refuses(kind, text, call)
    assert (dtypes.default_float, dtypes.default_int) == before


@pytest.mark.parametrize("kind, text, call", DEVICES)
def test_devices(kind, text, call):
    before = Device.DEFAULT
    refuses(kind, text, call)
    assert Device.DEFAULT == before


def test_bytes_of_many_elements():
    assert Tensor.ones(2**31, 2**31).nbytes() == 2**64


def test_pickles():
    refuses(Error, "variable n has no value", lambda: pickle.dumps(Tensor.ones(n)))
    refuses(DeviceError, "NULL holds no values", lambda: pickle.dumps(Tensor.ones(2, device="NULL")))
    refuses(pickle.UnpicklingError, "truncated", lambda: pickle.loads(pickle.dumps(a)[:-20]))
    assert str(pickle.loads(pickle.dumps(ShapeError("text")))) == "text"


def test_files_and_what_they_are_read_as(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(bytes(10))
    refuses(ShapeError, f"from_file: {path} has 10 bytes, which is no multiple of the 4 of int32",
            lambda: Tensor.from_file(path, dtype="int32"))
    refuses(ShapeError, str(path), lambda: Tensor.from_file(path, shape=(20,), dtype="uint8"))
    refuses(DTypeError, "'xx' is not a dtype", lambda: Tensor.from_file(path, dtype="xx"))


def test_numpy_refuses_dtypes_that_it_has_not():
    with pytest.raises((RuntimeError, BufferError), match="[Uu]nsupported dtype"):
        np.from_dlpack(Tensor([1.0], dtype="bfloat16"))

"""What scripts for tinygrad call, beyond the tables."""

import hashlib
import inspect
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest

import quern
from quern import Buffer, Context, Tensor, UOp, dtypes, helpers
from quern.codegen.opt import Opt, OptOps
from quern.uop import GroupOp, KernelInfo, Ops, UPat


@pytest.mark.parametrize("name", ["sha3_224", "sha3_256", "sha3_384", "sha3_512", "shake_128", "shake_256"])
def test_keccak(name):
    for message in (b"Hello World!", b"", bytes(range(200))):
        got = bytes(Tensor(list(message), dtype="uint8").keccak(name).tolist())
        made = hashlib.new(name, message)
        assert got == (made.digest(len(got)) if "shake" in name else made.digest())
    if name == "sha3_256":
        rows = Tensor([[1, 2], [3, 4]], dtype="uint8").keccak()
        assert [bytes(row) for row in rows.tolist()] == [hashlib.sha3_256(bytes(row)).digest() for row in ([1, 2], [3, 4])]
        with pytest.raises(ValueError, match="keccak: cfg is 'md5'"):
            Tensor([1], dtype="uint8").keccak("md5")
        with pytest.raises(TypeError, match="keccak: expected bytes"):
            Tensor([1.0]).keccak()


@pytest.mark.parametrize("size", [0, 12, 2**20, 2**20 + 5])
def test_hash(size):
    data = (np.arange(size) % 251).astype(np.uint8)
    parts = [data.tobytes()[i : i + 2**20].ljust(2**20, b"\0") for i in range(0, max(size, 1), 2**20)]

    def short(part):
        rows = (hashlib.shake_128(part[i : i + 4096]).digest(16) for i in range(0, 2**20, 4096))
        return hashlib.shake_128(b"".join(rows)).digest(16)

    expected = short(parts[0]) if len(parts) == 1 else short(b"".join(map(short, parts)).ljust(2**20, b"\0"))
    found = Tensor(data).hash()
    assert found.shape == (16,) and found.dtype == dtypes.uint8 and bytes(found.tolist()) == expected
    if size == 12:
        assert Tensor(data.view(np.float32)).hash().tolist() == found.tolist()


def test_const_and_invalids():
    assert Tensor.const(3, dtypes.int8).item() == 3 and Tensor.const(2.5).shape == () and Tensor.const(2.5).dtype == dtypes.float32
    x = Tensor.invalids(2, 3, dtype="int8")
    assert x.shape == (2, 3) and x.dtype == dtypes.int8 and x.zero_().tolist() == [[0] * 3] * 2


def test_default_float_as_a_dtype():
    with Context(DEFAULT_FLOAT=dtypes.half):
        assert Tensor([1.0]).dtype == dtypes.float16
    assert Tensor([1.0]).dtype == dtypes.float32


def test_dev_is_device():
    with Context(DEV="INTERP"):
        assert Tensor.zeros(2).contiguous().device == "INTERP" and helpers.DEV == "INTERP" and helpers.DEVICE == "INTERP"
    with Context(DEV="CPU:LLVM"):
        assert Tensor.zeros(2).contiguous().device == "CPU"
    before, quern.Device.DEFAULT = quern.Device.DEFAULT, "INTERP"
    try:
        assert helpers.DEV == "INTERP"
        with Context(DEVICE="CPU"):  # also where the default was set by hand
            assert quern.Device.DEFAULT == Tensor([1.0]).device == "CPU"
        assert quern.Device.DEFAULT == "INTERP"
    finally:
        quern.Device.DEFAULT = before
    code = "from quern import Tensor; print(Tensor([1.0]).device)"
    done = subprocess.run([sys.executable, "-c", code], env={**__import__("os").environ, "DEV": "INTERP"}, capture_output=True, check=True)
    assert done.stdout == b"INTERP\n"


def test_names_without_a_meaning_warn_once():
    with pytest.warns(UserWarning, match="PARALLEL is a variable of tinygrad that has no meaning in quern"), Context(PARALLEL=2):
        assert helpers.PARALLEL == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Context(PARALLEL=3):
            pass


def test_opts():
    assert str(Opt(OptOps.UPCAST, 0, 4)) == "UPCAST(0, 4)" and str(Opt(OptOps.NOLOCALS)) == "NOLOCALS()"
    x = Tensor.arange(16).contiguous().realize()
    y = (x + 1).contiguous(arg=(Opt(OptOps.UPCAST, 0, 4),))
    assert y.tolist() == list(range(1, 17)) and (x + 1).contiguous(opts="UPCAST(0, 4)").tolist() == y.tolist()
    with pytest.raises(TypeError, match="expected a tuple of Opt as arg, got 5"):
        x.contiguous(arg=5)

    def add(out, given):
        i = UOp.range(16, 0)
        return out[i].store(given[i] + 1).end(i).sink(arg=KernelInfo("add", opts_to_apply=(Opt(OptOps.UPCAST, 0, 4),)))

    assert Tensor.custom_kernel(Tensor.empty(16, dtype="int32"), x, fxn=add)[0].tolist() == list(range(1, 17))


def test_nodes():
    x = Tensor([1.0, 2.0]).realize()
    y = (x + 1).sum()
    nodes = y.uop.toposort()
    assert nodes[-1] == y.uop and list(y.uop.backward_slice) == nodes[:-1]
    without = y.uop.toposort(gate=lambda u: u.op is not Ops.ADD)
    assert without[-1] == y.uop and all(u.op is not Ops.ADD for u in without) and len(without) < len(nodes)
    assert y.uop.toposort(gate=lambda u: False) == []
    assert x.uop.buf_uop.op is Ops.BUFFER and x.reshape(2, 1)[:1].uop.buf_uop == x.uop.buf_uop and x.uop.max_shape == (2,)
    with pytest.raises(ValueError, match="is no view of memory"):
        _ = y.uop.buf_uop
    n = quern.Variable("n", 1, 7).bind(3)
    assert Tensor.ones(7, 2)[:n].uop.max_shape == (7, 2)


def test_chains_of_patterns():
    p = UOp.variable("n", 0, 9).cast("int32")
    node = (p + 1).bitcast("uint32")
    assert UPat.var("x").bitcast().match(node)[0]["x"] == p + 1
    assert UPat(Ops.ADD, name="a").f(Ops.BITCAST, name="b").match(node)[0]["b"] == node
    assert UPat.var("x").f(Ops.CAST).match(node) == []
    sink = node.sink()
    assert UPat.var("x").sink().match(sink)[0]["x"] == node
    assert UPat(Ops.BITCAST).or_after("y").match(node)[0]["y"] == node and Ops.ADD in GroupOp.ALU


def test_a_line_above_the_bar(capsys):
    helpers.tqdm.write("above")
    for _ in helpers.tqdm([1], disable=True):
        pass
    assert "above" in capsys.readouterr().err


def test_one_object_for_a_node():
    x = Tensor([1.0, 2.0]).realize()
    y = (x + 1).sum()
    assert x.uop is x.uop and y.uop.toposort()[-1] is y.uop and y.uop.src[0] is y.uop.src[0]
    assert UOp.const(1, dtypes.int32) is UOp.const(1, dtypes.int32) and UOp.const(1, dtypes.int32) is not UOp.const(2, dtypes.int32)
    n = quern.Variable("n", 1, 7)
    assert n is quern.Variable("n", 1, 7) and n + 1 is n + 1 and pickle.loads(pickle.dumps(n + 1)) is n + 1
    assert UOp(Ops.ADD, n.dtype, (n, n)) is n + n
    assert n.substitute({n: n + 1}) is n + 1 and (n + 0).simplify() is n
    for i in range(5000):  # objects that are gone leave nothing that is found
        assert (UOp.const(i, dtypes.int32)).arg == i


# ---- Buffer


def test_buffer(device):
    b = Buffer(device, 4, dtypes.float32)
    assert (b.device, b.size, b.dtype, b.nbytes) == (device, 4, dtypes.float32, 16) and not b.is_allocated()
    assert b.allocate() is b and b.is_allocated() and b.ensure_allocated() is b
    values = np.array([1, 2, 3, 4], np.float32)
    assert b.copyin(memoryview(values)) is b
    out = bytearray(16)
    assert b.copyout(memoryview(out)) == values.tobytes() == bytes(out) == bytes(b.as_buffer())
    assert b.numpy().tolist() == [1, 2, 3, 4] and b.numpy().dtype == np.float32
    assert np.frombuffer(b.as_memoryview(), np.float32).tolist() == [1, 2, 3, 4]
    assert b.view(2, dtypes.float32, 8).numpy().tolist() == [3, 4] and b.view(4, dtypes.int32).numpy()[0] == 0x3F800000
    assert Buffer(device, 2, "int16", initial_value=b"\1\0\2\0").numpy().tolist() == [1, 2]
    assert Buffer(device, 0, "int8").numpy().tolist() == [] and Buffer(device, 2, "int8", preallocate=True).is_allocated()
    half = Buffer(device, 2, "bfloat16", initial_value=b"\x80\x3f\x00\x40")
    assert half.numpy().tolist() == [1, 2]
    assert repr(b) == f"<Buffer {device} float32 4>"


def test_buffer_in_place():
    b = Buffer("CPU", 2, dtypes.int32, initial_value=np.array([5, 6], np.int32))
    memory = b.as_buffer(allow_zero_copy=True)
    b.copyin(np.array([7, 8], np.int32))
    assert np.frombuffer(memory, np.int32).tolist() == [7, 8]
    del b
    assert np.frombuffer(memory, np.int32).tolist() == [7, 8]


def test_buffer_of_a_tensor():
    x = Tensor([[1.0, 2.0], [3.0, 4.0]]).realize()
    b = x.uop.buffer
    assert b.size == 4 and b.numpy().tolist() == [1, 2, 3, 4] and x[1].uop.buffer.numpy().tolist() == [3, 4]
    b.copyin(np.array([5, 6, 7, 8], np.float32))
    assert x.tolist() == [[5, 6], [7, 8]] and x.uop.realized.size == 4 and (x + 1).uop.realized is None
    with pytest.raises(ValueError, match="buffer: the node is no stretch of memory"):
        _ = x.permute(1, 0).uop.buffer
    with pytest.raises(ValueError, match="buffer: the node is no stretch of memory"):
        _ = (x + 1).uop.buffer


@pytest.mark.parametrize("kind, text, call", [
    (ValueError, "copyin: 3 bytes are given, the memory has 4", lambda b: b.copyin(b"abc")),
    (ValueError, "copyout: 5 bytes are given, the memory has 4", lambda b: b.copyout(bytearray(5))),
    (TypeError, "expected bytes, or an array, for copyin", lambda b: b.copyin("abcd")),
    (TypeError, "expected bytes, or an array, for copyin, got None", lambda b: b.copyin(None)),
    (TypeError, "expected bytes, or an array, for copyout, got None", lambda b: b.copyout(None)),
    (BufferError, "writable", lambda b: b.copyout(b"abcd")), (quern.Error, "do not lie within", lambda b: b.view(2, "int8", 3)),
    (ValueError, "no multiple of the 2 of int16", lambda b: b.view(1, "int16", 1)), (quern.DeviceError, "NOWHERE", lambda b: Buffer("NOWHERE", 1, "int8")),
    (ValueError, "-1 elements", lambda b: Buffer("CPU", -1, "int8")), (ValueError, "Buffer: 1 bytes are given", lambda b: Buffer("CPU", 2, "int8", initial_value=b"a")),
    (quern.DTypeError, "not the dtype of memory", lambda b: Buffer("CPU", 2, dtypes.index))])
def test_buffer_refuses(kind, text, call):
    with pytest.raises(kind, match=text):
        call(Buffer("CPU", 4, "int8"))


@pytest.mark.parametrize("kind", [UOp, Buffer, type(dtypes.float32)])
def test_every_method_has_a_signature(kind):
    for name in dir(kind):
        if not name.startswith("_") and callable(getattr(kind, name)):
            inspect.signature(getattr(kind, name))

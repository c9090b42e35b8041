"""Variables, counters, devices, dtypes and small functions, by the names and with the results that they have in tinygrad."""

import ctypes
import importlib
import struct

import numpy as np
import pytest

import quern
from quern import Context, Device, GlobalCounters, Tensor, TinyJit, dtypes, helpers
from quern.dtype import _from_np_dtype, _to_np_dtype

IMPORTS = """
quern.uop.ops: UOp Ops UPat PatternMatcher graph_rewrite Variable KernelInfo AxisType GroupOp resolve sym_infer smax smin ssimplify sint
quern.uop: UOp Ops GroupOp
quern.engine.jit: TinyJit CapturedJit
quern.helpers: WINO FUSE_OPTIM FLOAT16 IMAGE USE_TC PROFILE VIZ CAPTURING DEBUG BEAM JIT NOOPT TRAINING Context ContextVar GlobalCounters
quern.helpers: colorize_float ansilen size_to_str time_to_str unwrap temp cdiv merge_dicts strides_for_shape to_mv from_mv flat_mv OSX
quern.dtype: dtypes DType least_upper_dtype to_dtype _to_np_dtype _from_np_dtype
quern.device: Device Buffer
quern.tensor: Tensor
quern.nn.state: get_state_dict
"""


@pytest.mark.parametrize("line", IMPORTS.strip().splitlines())
def test_imports(line):
    module, names = line.split(": ")
    for name in names.split():
        getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("call, expected", [
    (lambda: helpers.size_to_str(12), "12 B"), (lambda: helpers.size_to_str(1500), "1.46 KB"), (lambda: helpers.size_to_str(1.5e9), "1.40 GB"),
    (lambda: helpers.time_to_str(0.5), "  500.00ms"), (lambda: helpers.time_to_str(1e-5), "   10.00us"), (lambda: helpers.time_to_str(12, 6), " 12.00s "),
    (lambda: helpers.ansilen(helpers.colored("ab", "red")), 2), (lambda: helpers.ansistrip(helpers.colorize_float(0.5)), "   0.50x"),
    (lambda: helpers.colorize_float(2.0), "\x1b[31m   2.00x\x1b[0m"), (lambda: helpers.colorize_float(1.0), "\x1b[33m   1.00x\x1b[0m"),
    (lambda: [helpers.cdiv(*a) for a in ((7, 2), (-7, 2), (7, -2), (-7, -2))], [3, -3, -3, 3]), (lambda: helpers.cmod(-7, 2), -1),
    (lambda: helpers.strides_for_shape((2, 3, 4)), (12, 4, 1)), (lambda: helpers.strides_for_shape((2, 1, 4)), (4, 0, 1)),
    (lambda: helpers.strides_for_shape(()), ()), (lambda: helpers.merge_dicts([{"a": 1}, {"b": 2}, {"a": 1}]), {"a": 1, "b": 2}),
    (lambda: helpers.unwrap(3), 3), (lambda: helpers.get_single_element([7]), 7), (lambda: helpers.round_down(7, 3), 6),
    (lambda: helpers.temp("a").rsplit("/", 1)[1], "a"), (lambda: helpers.temp("a", append_user=True).rsplit("/", 1)[1][:2], "a."),
])
def test_small_functions(call, expected):
    assert call() == expected


def test_memory():
    memory = bytearray(b"abcd")
    array = helpers.from_mv(memoryview(memory), ctypes.c_uint8)
    array[1] = ord("x")
    assert memory == b"axcd" and bytes(helpers.to_mv(ctypes.addressof(array), 4)) == b"axcd"
    assert bytes(helpers.flat_mv(memoryview(np.arange(4, dtype=np.uint8).reshape(2, 2)))) == b"\0\1\2\3"


def test_variables_may_be_set():
    before = helpers.DEBUG.value
    try:
        helpers.DEBUG.value = 1
        assert helpers.DEBUG == 1
        with Context(DEBUG=0):
            assert helpers.DEBUG == 0
        assert helpers.DEBUG == 1
    finally:
        helpers.DEBUG.value = before
    with Context(WINO=1, VIZ=2):
        assert helpers.WINO and helpers.VIZ == 2
    assert not helpers.WINO and helpers.USE_TC and helpers.TC_SELECT == -1


def test_variables_of_ones_own(monkeypatch):
    monkeypatch.setenv("OURS_OF_THE_ENVIRONMENT", "7")
    number, text = helpers.ContextVar("OURS", 3), helpers.ContextVar("OURS_TEXT", "a")
    assert number.value == 3 and number > 2 and text == "a" and helpers.ContextVar("OURS_OF_THE_ENVIRONMENT", 1).value == 7
    with Context(OURS=5, OURS_TEXT="b"):
        assert (number.value, text.value) == (5, "b")
    assert (number.value, text.value) == (3, "a")
    number.value = 4
    assert number == 4 and helpers.OURS is number


def test_counters_may_be_set():
    GlobalCounters.reset()
    (Tensor([1.0, 2.0]) + 1).realize()
    assert GlobalCounters.kernel_count > 0 and GlobalCounters.time_sum_s > 0 and GlobalCounters.global_ops > 0
    GlobalCounters.kernel_count = GlobalCounters.time_sum_s = GlobalCounters.global_ops = GlobalCounters.global_mem = 0
    assert (GlobalCounters.kernel_count, GlobalCounters.time_sum_s, GlobalCounters.global_ops, GlobalCounters.global_mem) == (0, 0, 0, 0)
    with pytest.raises(AttributeError):
        GlobalCounters.mem_used = 0


def test_calls_of_a_jit():
    jitted = TinyJit(lambda x: ((x + 1).contiguous().sum() + 1).realize())
    assert jitted.cnt == 0 and jitted.captured is None
    for i in range(4):
        jitted(Tensor.ones(1000).contiguous().realize())
        assert jitted.cnt == i + 1
    assert jitted.captured.kernels == jitted.kernels == 2 and jitted.captured is jitted.captured
    assert 4000 <= jitted.captured.memory_bytes < 8192  # what is between them
    jitted.reset()
    assert jitted.cnt == 0 and jitted.captured is None


def test_a_device_is_one_object():
    assert Device["CPU"] is Device["cpu:0"] and Device["CPU"] is not Device["CPU:1"]


def test_dtypes():
    order = sorted(dtypes.all)
    assert [d.name for d in order] == ("bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 fp8e4m3 fp8e5m2 float16 bfloat16 float32"
                                       " float64").split()
    assert [d.priority for d in order] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15]
    assert dtypes.float32 < dtypes.float64 and not dtypes.float64 < dtypes.float32 and dtypes.float64 > dtypes.int64
    for dtype in dtypes.all:
        if dtype.fmt is None:
            assert dtype in (dtypes.bfloat16, *dtypes.fp8s) and _to_np_dtype(dtype) is None
        else:
            assert struct.calcsize(dtype.fmt) == dtype.itemsize
            assert _from_np_dtype(_to_np_dtype(dtype)) is dtype and _from_np_dtype(np.dtype(_to_np_dtype(dtype))) is dtype
    assert _to_np_dtype(dtypes.float16) is np.float16
    with pytest.raises(quern.Error):
        _from_np_dtype(np.complex64)

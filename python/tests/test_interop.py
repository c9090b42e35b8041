"""Values to and from NumPy, DLPack, pickle, Python."""

import copy
import gc
import pickle
import threading

import numpy as np
import pytest

import quern
from quern import Tensor, dtypes

NUMPY_DTYPES = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64".split()


@pytest.mark.parametrize("name", NUMPY_DTYPES)
def test_numpy_both_ways(name):
    x = np.array([[0, 1, 1], [1, 0, 1]], dtype=name)
    tensor = Tensor(x)
    assert tensor.dtype.name == name
    back = tensor.numpy()
    assert back.dtype == x.dtype
    np.testing.assert_array_equal(back, x)
    np.testing.assert_array_equal(Tensor(x[:, ::-2]).numpy(), x[:, ::-2])  # strides


def test_narrow_floats_as_float32():
    x = Tensor([1.5, -2.0], dtype=dtypes.bfloat16)
    assert x.numpy().dtype == np.float32 and x.tolist() == [1.5, -2.0]
    assert Tensor([1.5], dtype="fp8e4m3").numpy().tolist() == [1.5]


def test_values_are_copied():
    x = np.zeros(3, np.float32)
    tensor = Tensor(x)
    x[0] = 1
    assert tensor.tolist() == [0, 0, 0]
    y = tensor.numpy()
    y[1] = 5
    assert tensor.tolist() == [0, 0, 0]


def test_read_only_and_empty():
    x = np.arange(3)
    x.flags.writeable = False
    assert Tensor(x).tolist() == [0, 1, 2]
    assert Tensor(np.zeros((0, 3))).shape == (0, 3)
    assert Tensor(np.zeros((0, 3))).numpy().shape == (0, 3)
    assert Tensor(np.array(2.5)).item() == 2.5


def test_array_protocols():
    x = Tensor([[1.0, 2.0]])
    assert np.asarray(x).tolist() == [[1.0, 2.0]]
    assert np.array(x, dtype=np.int32).tolist() == [[1, 2]]
    assert np.sum(np.asarray(x)) == 3
    view = x.data()
    assert isinstance(view, memoryview) and view.shape == (1, 2) and view.tolist() == [[1.0, 2.0]]
    assert x.tobytes() == np.array([1, 2], np.float32).tobytes()


def test_dlpack_out_shares_memory():
    x = Tensor([1.0, 2.0, 3.0]).realize()
    array = np.from_dlpack(x)
    np.testing.assert_array_equal(array, [1, 2, 3])
    x[0] = 7
    x.realize()
    assert array[0] == 7
    del x
    gc.collect()
    assert array.tolist() == [7, 2, 3]


def test_dlpack_in_shares_memory():
    array = np.array([1.0, 2.0, 3.0], np.float32)
    x = Tensor.from_dlpack(array)
    array[1] = 9
    assert (x * 2).tolist() == [2, 18, 6]
    del array
    gc.collect()
    assert x.tolist() == [1, 9, 3]
    del x
    gc.collect()


def test_what_is_read_only_is_shared_and_not_written():
    array = np.array([1.0, 2.0, 3.0], np.float32)
    array.flags.writeable = False
    writes = [
        lambda x: x.assign(x + 1),
        lambda x: x.realize().assign(x + 1),
        lambda x: (x.tolist(), x.assign(x + 1)),
        lambda x: x.__setitem__(0, 9),
        lambda x: x[1:].assign(x[:2]),
        lambda x: np.from_dlpack(x).__setitem__(0, 9),
    ]
    for write in writes:
        x = Tensor.from_dlpack(array)
        write(x)
        assert x.tolist() != [1, 2, 3] and array.tolist() == [1, 2, 3]
    x = Tensor.from_dlpack(array)
    array.flags.writeable = True
    array[1] = 9
    assert (x * 2).tolist() == [2, 18, 6]


def test_what_only_the_buffer_says_is_read_only_is_not_written():  # JAX's arrays are such
    class Array(np.ndarray):
        def __dlpack__(self, **_):
            return self.base.__dlpack__()

    base = np.array([1.0, 2.0, 3.0], np.float32)
    array = base.view(Array)
    array.flags.writeable = False
    x = Tensor.from_dlpack(array)
    assert x.assign(x + 1).tolist() == [2, 3, 4] and base.tolist() == [1, 2, 3]


def test_from_blob():
    array = np.arange(4, dtype=np.float32)
    x = Tensor.from_blob(array.ctypes.data, (2, 2), dtype=dtypes.float32, owner=array)
    assert (x + 1).tolist() == [[1, 2], [3, 4]]


def test_pickle_and_copy():
    x = Tensor([[1.5, 2.5]], requires_grad=True)
    y = pickle.loads(pickle.dumps(x))
    assert y.tolist() == x.tolist() and y.dtype == x.dtype and y.requires_grad is True
    assert copy.deepcopy(x).tolist() == x.tolist()
    assert pickle.loads(pickle.dumps(dtypes.float16)) == dtypes.float16


def test_python_numbers():
    assert float(Tensor(2.5)) == 2.5 and int(Tensor([3])) == 3 and bool(Tensor([[True]])) is True
    assert f"{Tensor(2.5):.2f}" == "2.50"
    assert isinstance(Tensor(True).item(), bool) and isinstance(Tensor(1).item(), int)


def test_tensors_that_are_numbers_are_weak():
    half, small = Tensor([1.0, 2.0]).half(), Tensor([1], dtype=dtypes.int8)
    for x in (half * Tensor(0.1), Tensor(0.1) * half, half * Tensor(2), half * Tensor(0.1).realize(), half.maximum(Tensor(0.1)),
              (half > 1).where(half, Tensor(2.0))):
        assert x.dtype is dtypes.half
    assert (small + Tensor(1)).dtype is dtypes.int8 and (small + Tensor(0.5)).dtype is dtypes.float32
    for strong in (Tensor([0.1]), Tensor(0.1, dtype="float32"), Tensor.full((), 0.1), Tensor.rand(), Tensor(np.float64(0.1))):
        assert (half * strong).dtype is strong.dtype
    written = Tensor.zeros(2, dtype=dtypes.half).contiguous().realize()
    written[1] = Tensor(2.5)
    assert written.tolist() == [0, 2.5]
    scale = Tensor(3.0, requires_grad=True)
    (half * scale).sum().backward()
    assert scale.grad.item() == 3.0 and scale.grad.dtype is dtypes.float32
    with pytest.raises(quern.DTypeError):
        written[1] = Tensor([2.5])
    with pytest.raises(quern.DTypeError):
        small[0] = Tensor(2.5)


def test_files(tmp_path):
    path = tmp_path / "numbers"
    np.arange(4, dtype=np.int32).tofile(path)
    assert Tensor(path).shape == (16,)
    assert Tensor.from_file(path, dtype="int32").tolist() == [0, 1, 2, 3]


def test_threads():
    results = {}

    def work(i):
        results[i] = (Tensor.full((64, 64), float(i)) @ Tensor.ones(64, 64)).sum().item()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == {i: i * 64.0**3 for i in range(4)}


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 4)])
def test_nothing_by_dlpack(shape):
    assert np.from_dlpack(Tensor.zeros(*shape)).shape == shape
    assert Tensor.from_dlpack(Tensor.zeros(*shape)).shape == shape

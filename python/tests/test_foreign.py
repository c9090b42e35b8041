"""What Python and NumPy pass that is not as it seems: scalars that are no numbers, capsules used twice, buffers that move, lists
that change while they are read."""

import array
import gc
import mmap

import numpy as np
import pytest

from quern import DTypeError, ShapeError, Tensor

x = Tensor([1.0]).realize()
NO_NUMBERS = [np.datetime64("2020"), np.timedelta64(3, "s"), np.str_("a"), np.void(b"ab"), np.array([np.datetime64("2020")]), np.array([object()]),
              np.zeros(2, "f2,i4"), np.array("text")]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda v: str(v.dtype))
def test_what_is_no_number_is_refused_by_its_dtype(value):
    for call in (Tensor, Tensor.from_dlpack, lambda v: x + v, lambda v: x == v, lambda v: x[v], lambda v: x.assign(v), lambda v: Tensor([1.0, v])):
        with pytest.raises(TypeError) as caught:
            call(value)
        assert f"got {type(value).__name__} of {value.dtype}" in str(caught.value)


@pytest.mark.parametrize("dtype", [np.longdouble, np.complex64])
def test_numbers_without_a_dtype_here(dtype):
    for value in (dtype(1), np.zeros(2, dtype)):
        for call in (Tensor, Tensor.from_dlpack, lambda v: x + v):
            with pytest.raises(DTypeError, match=f"an array of {np.dtype(dtype).name}, which quern has no dtype for"):
                call(value)


@pytest.mark.parametrize("dtype", [">f4", ">i8", ">u2", "<f8", ">f2"])
def test_bytes_in_the_other_order(dtype):
    for make in (Tensor, Tensor.from_dlpack):
        made = make(np.arange(6, dtype=dtype).reshape(2, 3))
        assert made.dtype.name == np.dtype(dtype).name and made.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (x + np.arange(2, dtype=dtype)).tolist() == [1, 2]
    assert Tensor(np.array(5, dtype)).item() == 5


@pytest.mark.parametrize(
    "value", [np.int64(2**40), np.uint64(2**64 - 1), np.int8(-1), np.bool_(True), np.float16(0.5), np.float32(2.5), np.float64(0.1)], ids=repr)
def test_scalars_of_numpy_keep_their_dtype(value):
    made = Tensor(value)
    assert made.dtype.name == value.dtype.name and made.shape == () and made.item() == value
    assert Tensor(value, dtype="float64").dtype.name == "float64"
    if value.dtype.kind == "f":
        assert (x + value).dtype.name == "float32"  # beside a tensor it is a number


def test_lists_of_scalars_of_numpy():
    assert Tensor([np.True_, np.False_]).dtype.name == "bool" and Tensor([np.True_, 2]).dtype.name == "int32"
    assert Tensor([np.int64(1), np.int64(2)]).dtype.name == "int32" and Tensor([np.float64(1), 2]).dtype.name == "float32"


def test_a_class_that_only_says_it_is_numpys():
    numbers = [type("float64", (), {"__module__": "numpy", "__float__": lambda self: 1 / 0}),
               type("bool_", (), {"__module__": "numpy", "__bool__": lambda self: 1 / 0})]
    for cls in numbers:
        with pytest.raises(TypeError, match="unsupported operand"):
            x + cls()

    class Failing(np.float32):
        def __float__(self):
            raise KeyError("mine")

    for call in (lambda: x + Failing(2), lambda: Tensor(Failing(2)), lambda: Tensor([Failing(2)])):
        with pytest.raises(KeyError, match="mine"):
            call()


# ---- DLPack


def test_a_capsule_is_used_once():
    capsule = np.arange(3.0).__dlpack__()

    class Same:
        def __dlpack__(self, **_):
            return capsule

        def __dlpack_device__(self):
            return (1, 0)

    first = Tensor(Same())
    for call in (lambda: Tensor(Same()), lambda: Tensor.from_dlpack(Same()), lambda: Tensor.from_dlpack(capsule)):
        with pytest.raises(ValueError, match="a capsule of DLPack that was used before"):
            call()
    assert first.tolist() == [0, 1, 2]
    assert Tensor.from_dlpack(np.arange(3.0).__dlpack__()).tolist() == [0, 1, 2]


def test_exceptions_of_others_are_seen():
    class Packs:
        def __dlpack__(self, **_):
            raise KeyError("mine")

    class Interface:
        @property
        def __array_interface__(self):
            raise KeyError("mine")

    for call in (lambda: Tensor(Packs()), lambda: Tensor.from_dlpack(Packs()), lambda: Tensor(Interface()), lambda: x + Interface(), lambda: x[Interface()]):
        with pytest.raises(KeyError, match="mine"):
            call()


def test_what_dlpack_may_return():
    class Packs:
        def __init__(self, value, error=None):
            self.value, self.error = value, error

        def __dlpack__(self, **options):
            if options and self.error:
                raise self.error
            return self.value

    with pytest.raises(TypeError, match=r"expected a capsule from __dlpack__\(\), got None"):
        Tensor(Packs(None))
    assert Tensor(Packs(np.arange(3.0).__dlpack__(), TypeError("no versions"))).tolist() == [0, 1, 2]
    with pytest.raises(BufferError, match="no versions"):
        Tensor(Packs(None, BufferError("no versions")))


def test_arrays_by_their_interface():
    class Interface:
        def __init__(self, array):
            self.array = array

        @property
        def __array_interface__(self):
            return self.array.__array_interface__

    assert Tensor(Interface(np.arange(4))).tolist() == [0, 1, 2, 3]
    assert (x + Interface(np.arange(2.0))).tolist() == [1, 2]


def test_strides():
    base = np.arange(24).reshape(2, 3, 4)
    for view in (base.T, base[:, ::-1], base[..., ::2], np.broadcast_to(np.int64(7), (2, 3)), base[:0], base[:, :, 1:3]):
        assert Tensor(view).tolist() == view.tolist() and Tensor.from_dlpack(view).tolist() == view.tolist()
    assert Tensor(memoryview(b"abcdef")[::2]).tolist() == [97, 99, 101]
    field = np.array([(1, 2.5), (3, 4.5)], "i2,f4")["f1"]  # 6 bytes from one to the next
    assert Tensor(field).tolist() == Tensor.from_dlpack(field).tolist() == [2.5, 4.5]


# ---- buffers


def test_a_buffer_that_is_shared_is_held():
    memory, numbers, single = mmap.mmap(-1, 4096), bytearray(range(8)), array.array("f", [1, 2, 3])
    shared = [Tensor.from_dlpack(b) for b in (memory, numbers, single)]
    for change in (memory.close, numbers.clear, lambda: single.extend([0] * 1000)):
        with pytest.raises(BufferError):
            change()
    numbers[0] = 9
    assert [s.sum().item() for s in shared] == [0, 37, 6]
    del shared
    gc.collect()
    Tensor([1.0])  # which lets go
    memory.close(), numbers.clear(), single.extend([0] * 1000)


def test_a_buffer_of_what_is_no_number():
    with pytest.raises(DTypeError, match="a buffer with elements '>f', which quern has no dtype for"):
        Tensor(memoryview(np.zeros(2, ">f4")))


# ---- lists


class Fresh(list):
    def __iter__(self):
        return iter([i * 1.5 for i in range(len(self))])


def test_lists_that_make_what_they_hold():
    assert Tensor(Fresh([0.0] * 1000)).tolist() == [i * 1.5 for i in range(1000)]
    assert Tensor([Fresh([0.0] * 2)] * 3).tolist() == [[0, 1.5]] * 3


def test_lists_that_change_while_they_are_read():
    class Clears(np.float32):
        def __float__(self):
            numbers.clear()
            gc.collect()
            return 1.0

    numbers = [Clears(1), *(i * 0.5 for i in range(100))]
    assert Tensor(numbers).shape == (101,) and numbers == []


@pytest.mark.parametrize("gives, text", [(lambda self: iter([1.0]), "gives 1"), (lambda self: iter([1.0] * 3), "gives more"),
                                         (lambda self: iter(lambda: 1.0, 2.0), "gives more")])
def test_lists_of_another_length(gives, text):
    with pytest.raises(ShapeError, match="a list says that it has 2 elements, and " + text):
        Tensor(type("Other", (list,), {"__iter__": gives})([1.0, 2.0]))


def test_lists_that_hold_themselves():
    class Endless(list):
        def __getitem__(self, i):
            return self

        def __iter__(self):
            return iter([self])

    itself = []
    itself.append(itself)
    for endless in (Endless([1.0]), itself, [itself, x]):
        with pytest.raises(ShapeError, match="lists within lists, more than 64 deep"):
            Tensor(endless)


# ---- many axes


@pytest.mark.parametrize("axes", [65, 128, 129, 255])
def test_arrays_have_at_most_64_axes(axes):
    many = Tensor.ones(*[1] * axes)
    for call in (many.numpy, many.data, many.__array__, many.__dlpack__, lambda: np.asarray(many), lambda: np.from_dlpack(many)):
        with pytest.raises(ShapeError, match=f"the tensor has {axes} axes, arrays of NumPy have at most 64"):
            call()


def test_lists_of_any_number_of_axes():
    most = Tensor.ones(*[1] * 64)
    assert most.numpy().ndim == np.from_dlpack(most).ndim == most.data().ndim == 64
    found, depth = Tensor.ones(*[1] * 100_000).contiguous().tolist(), 0
    while isinstance(found, list):
        (found,), depth = found, depth + 1
    assert (found, depth) == (1, 100_000)
    assert repr(most.contiguous().realize()).endswith("1" + "]" * 64 + ">") and repr(Tensor.ones(*[1] * 100_000).contiguous().realize()).endswith(" [...]>")
    for shape in ((), (0,), (2, 0, 3), (0, 2), (2, 3, 4)):
        numbers = np.arange(np.prod(shape, dtype=int)).reshape(shape)
        assert Tensor(numbers).tolist() == numbers.tolist()


def test_text_of_many_empty_rows():
    rows = ",\n ".join(["[]"] * 3)
    assert repr(Tensor.zeros(2**62, 0).realize()) == f"<Tensor CPU float32 ({2**62}, 0)\n[{rows},\n ...,\n {rows}]>"
    assert repr(Tensor.zeros(2, 0).realize()) == "<Tensor CPU float32 (2, 0)\n[[],\n []]>"

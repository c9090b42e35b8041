"""Tensor: what is simpler to say in Python is added to the class of the core here."""

from quern import _core
from quern import pickles as _pickles  # noqa: F401 (which says how functions of the extension are pickled)
from quern import signatures as _signatures  # noqa: F401 (which says what arguments they take)
from quern._core import Ops, ShapeError, Tensor, shown
from quern.helpers import Context, argfix, fetch
from quern.keccak import hash as hash_of_bytes, keccak
from quern.schedule import Schedule


class _Train(Context):
    """Training until the end of a block, or of a function."""

    def __init__(self, mode: bool = True):
        if not isinstance(mode, int):
            raise TypeError(f"train: mode is {mode!r}, expected a bool")
        super().__init__(TRAINING=mode)


def _iterate(self):
    if self.ndim == 0:
        raise TypeError("a Tensor of no axes cannot be iterated over")
    return (self[i] for i in range(len(self)))


def _rebuild(data, shape, dtype, device, requires_grad, grad=None):
    made = Tensor(data, dtype=dtype, device=device).reshape(shape)
    made.requires_grad = requires_grad
    made.grad = grad
    return made


def _reduce(self):
    device = self.device if isinstance(self.device, str) else self.device[0]
    if device.startswith("DISK"):
        device = None
    known = self.contiguous() if any(not isinstance(s, int) for s in self.shape) else self
    return _rebuild, (known.tobytes(), known.shape, self.dtype, device, self.requires_grad, self.grad)


def _format(self, spec):
    return format(self.item(), spec) if spec else repr(self)


def _from_url(url: str, gunzip: bool = False, **kwargs) -> Tensor:
    """A tensor that is the contents of a file of the network, which is downloaded once."""
    return Tensor(fetch(url, gunzip=gunzip), **kwargs)


def _const_like(self, b, dtype=None) -> Tensor:
    """The number b in this shape and dtype, or another dtype."""
    return self.full_like(b, dtype=dtype)


def _shard_like(self, y: Tensor) -> Tensor:
    """On the devices of another, divided along the same axis. The other is computed if that is what tells its axis."""
    if not isinstance(y, Tensor):
        raise TypeError(f"shard_like: expected a Tensor, got {shown(y)}")
    if isinstance(y.device, str):
        return self.to(y.device)
    where = y.uop if y.uop.op is Ops.MULTI else y.detach().contiguous().realize().uop
    return self.shard(y.device, where.arg if where.op is Ops.MULTI else None)


def _random_bits(key: Tensor, counter: Tensor, num: int) -> Tensor:
    """Random uint32s: the same for the same key and counter, two uint32s each. Each two are threefry of their number and of a
    key that is threefry of the counter."""
    for name, given in (("key", key), ("counter", counter)):
        if not isinstance(given, Tensor):
            raise TypeError(f"random_bits: the {name} is {shown(given)}, expected a Tensor")
        if given.shape != (2,) or given.dtype.name != "uint32":
            raise ShapeError(f"random_bits: the {name} is {given.dtype.name} of shape {given.shape}, expected uint32 of shape (2,)")
    if not 0 <= num < 2**32:
        raise ShapeError(f"random_bits: {num} numbers, expected 0 to {2**32 - 1}")

    def joined(low, high):
        return low.cast("uint64") | (high.cast("uint64") << 32)

    half = (num + 1) // 2
    count = Tensor.arange(half, dtype="uint64", device=key.device)
    mixed = joined(counter[:1], counter[1:]).threefry(joined(key[:1], key[1:]))
    both = joined(count, count + half).threefry(mixed.expand(half))
    return (both & 0xFFFFFFFF).cast("uint32").cat((both >> 32).cast("uint32"))[:num]


def _cpu(self) -> Tensor:
    """On the CPU."""
    return self.to("CPU")


def _type_as(self, other: Tensor) -> Tensor:
    """Converted to the dtype of another."""
    if not isinstance(other, Tensor):
        raise TypeError(f"type_as: expected a Tensor, got {other!r}")
    return self.cast(other.dtype)


def _equal(self, other: Tensor) -> bool:
    """Whether the shapes are the same, and all elements. Runs."""
    if not isinstance(other, Tensor):
        raise TypeError(f"equal: expected a Tensor, got {other!r}")
    return self.shape == other.shape and bool((self == other).all().item())


def _new_full(self, size, fill_value, dtype=None, device=None) -> Tensor:
    """One number in a shape, of the dtype and on the device of this tensor."""
    return Tensor.full(size, fill_value, dtype=dtype or self.dtype, device=device or self.device)


def _new_zeros(self, *size, dtype=None, device=None) -> Tensor:
    """Zeros of the dtype and on the device of this tensor."""
    return _new_full(self, argfix(*size), 0, dtype, device)


def _new_ones(self, *size, dtype=None, device=None) -> Tensor:
    """Ones of the dtype and on the device of this tensor."""
    return _new_full(self, argfix(*size), 1, dtype, device)


def _new_empty(self, *size, dtype=None, device=None) -> Tensor:
    """Memory of the dtype and on the device of this tensor."""
    return Tensor.empty(*size, dtype=dtype or self.dtype, device=device or self.device)


def _new_tensor(self, data, dtype=None, device=None) -> Tensor:
    """These values, of the dtype and on the device of this tensor."""
    return Tensor(data, dtype=dtype or self.dtype, device=device or self.device)


def _const(b, dtype=None) -> Tensor:
    """A number, as a tensor of no axes."""
    return Tensor.full((), b, dtype=dtype)


def _invalids(*shape, dtype=None, device=None) -> Tensor:
    """Memory with values that nobody may rely on: empty()."""
    return Tensor.empty(*shape, dtype=dtype, device=device)


_schedule_text = Tensor.schedule


def _schedule(self) -> Schedule:
    """The steps that realize() would take: a list, which prints as text."""
    return Schedule(_schedule_text(self))


Tensor.train = _Train
Tensor.const, Tensor.invalids = staticmethod(_const), staticmethod(_invalids)
Tensor.keccak = keccak
Tensor.hash = hash_of_bytes
Tensor.schedule = _schedule
for _function in (_cpu, _type_as, _equal, _new_full, _new_zeros, _new_ones, _new_empty, _new_tensor):
    _function.__name__ = _function.__name__[1:]
    _function.__qualname__ = f"Tensor.{_function.__name__}"
    setattr(Tensor, _function.__name__, _function)
Tensor.from_url = staticmethod(_from_url)
Tensor.const_like = _const_like
Tensor.shard_like = _shard_like
Tensor.random_bits = staticmethod(_random_bits)
Tensor.__iter__ = _iterate
Tensor.__reduce__ = _reduce
Tensor.__format__ = _format
Tensor.__contains__ = lambda self, x: bool((self == x).any())
Tensor.__complex__ = lambda self: complex(self.item())
Tensor.__array_priority__ = 1000  # beside arrays of NumPy it is the tensor that computes
Tensor.__array_ufunc__ = None
Tensor.__module__ = "quern"

__all__ = ["Tensor"]

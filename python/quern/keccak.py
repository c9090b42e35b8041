"""Keccak, of which SHA-3 is made, in operations on tensors."""

from quern._core import DTypeError, ShapeError, Tensor, ValueError, shown  # noqa: A004

_KINDS = {  # bytes of a block, the byte behind the message, bytes of the result
    "sha3_224": (144, 0x06, 28), "sha3_256": (136, 0x06, 32), "sha3_384": (104, 0x06, 48), "sha3_512": (72, 0x06, 64),
    "shake_128": (168, 0x1F, 16), "shake_256": (136, 0x1F, 32),
}
_ROTATIONS = [[0, 1, 62, 28, 27], [36, 44, 6, 55, 20], [3, 10, 43, 25, 39], [41, 45, 15, 21, 8], [18, 2, 61, 56, 14]]  # [y][x]


def _round_constants() -> list[int]:
    """Bits 2^j - 1 of round i are those of a shift register of 8 bits."""
    constants, register = [], 1
    for _ in range(24):
        constant = 0
        for j in range(7):
            if register & 1:
                constant |= 1 << (2**j - 1)
            register = register << 1 ^ (0x171 if register & 0x80 else 0)
        constants.append(constant)
    return constants


def _rotated(x: Tensor, by: Tensor) -> Tensor:
    return (x << by) | ((x >> 1) >> (63 - by))


def _round(state: Tensor, constant: Tensor, rotations: Tensor, order: list[int]) -> Tensor:
    """Of (..., 5, 5), with the axes y and x."""
    column = state[..., 0, :] ^ state[..., 1, :] ^ state[..., 2, :] ^ state[..., 3, :] ^ state[..., 4, :]
    one = Tensor([1], dtype="uint64", device=state.device)
    state = state ^ (column.roll(1, -1) ^ _rotated(column.roll(-1, -1), one)).unsqueeze(-2)
    flat = _rotated(state, rotations).contiguous().flatten(-2)
    moved = Tensor.stack(*[flat[..., place] for place in order], dim=-1).reshape(state.shape).contiguous()
    mixed = moved ^ (moved.roll(-1, -1).bitwise_not() & moved.roll(-2, -1))
    return (mixed ^ constant).contiguous()


def keccak(self, cfg: str = "sha3_256") -> Tensor:
    """The hash of the bytes along the last axis: 'sha3_224', 'sha3_256', 'sha3_384', 'sha3_512', 'shake_128' (16 bytes) or 'shake_256'
    (32 bytes)."""
    if cfg not in _KINDS:
        raise ValueError(f"keccak: cfg is {shown(cfg)}, expected one of {', '.join(_KINDS)}")
    if self.dtype.name != "uint8":
        raise DTypeError(f"keccak: expected bytes, uint8, got {self.dtype.name}")
    if self.ndim == 0 or not all(isinstance(size, int) for size in self.shape):
        raise ShapeError(f"keccak: expected bytes along an axis of known size, got shape {self.shape}")
    rate, suffix, length = _KINDS[cfg]
    front, count = self.shape[:-1], self.shape[-1]
    missing = rate - count % rate
    end = [suffix] + [0] * (missing - 1)
    end[-1] |= 0x80
    padding = Tensor(end, dtype="uint8", device=self.device).expand(*front, missing)
    lanes = self.cat(padding, dim=-1).contiguous().bitcast("uint64").reshape(*front, -1, rate // 8)
    rotations = Tensor(_ROTATIONS, dtype="uint64", device=self.device)
    first = [[0] * 5 for _ in range(5)]
    constants = []
    for constant in _round_constants():
        first[0][0] = constant
        constants.append(Tensor(first, dtype="uint64", device=self.device))
    order = [5 * x + (x + 3 * y) % 5 for y in range(5) for x in range(5)]  # where each lane comes from
    state = Tensor.zeros(*front, 5, 5, dtype="uint64", device=self.device).contiguous()
    for block in range(lanes.shape[-2]):
        part = lanes[..., block, :].pad(((0, 0),) * len(front) + ((0, 25 - rate // 8),))
        state = (state ^ part.reshape(*front, 5, 5)).contiguous()
        for constant in constants:
            state = _round(state, constant, rotations, order)
    return state.flatten(-2).bitcast("uint8")[..., :length].contiguous()


__all__ = ["keccak"]

"""Keccak, of which SHA-3 is made, in operations on tensors."""

from quern._core import DTypeError, ShapeError, Tensor, ValueError, keccak_states, shown  # noqa: A004

_KINDS = {  # bytes of a block, the byte behind the message, bytes of the result
    "sha3_224": (144, 0x06, 28), "sha3_256": (136, 0x06, 32), "sha3_384": (104, 0x06, 48), "sha3_512": (72, 0x06, 64),
    "shake_128": (168, 0x1F, 16), "shake_256": (136, 0x1F, 32),
}


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
    state = keccak_states(lanes)
    return state.bitcast("uint8")[..., :length].contiguous()


def _short(data: Tensor) -> Tensor:
    """16 bytes of each row of 2^20: of its 256 parts, and of what these gave."""
    return data.reshape(-1, 4096).keccak("shake_128").reshape(data.shape[0], -1).keccak("shake_128")


def hash(self) -> Tensor:  # noqa: A001
    """16 bytes that depend on all bytes of this tensor, filled up with zeros to parts of 2^20."""
    if not all(isinstance(size, int) for size in self.shape):
        raise ShapeError(f"hash: expected a known size, got shape {self.shape}")
    data = self.flatten().bitcast("uint8")
    parts = -(-data.shape[0] // 2**20)
    while parts > 1:
        data = _short(data.pad_to(parts * 2**20).reshape(parts, 2**20)).flatten()
        parts = -(-data.shape[0] // 2**20)
    return _short(data.pad_to(2**20).unsqueeze(0)).flatten()


__all__ = ["hash", "keccak"]

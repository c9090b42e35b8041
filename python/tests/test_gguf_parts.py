"""Files of GGUF in memory, and models in several files."""

import struct

import numpy as np
import pytest

from quern import DTypeError, Error, Tensor
from quern.nn.state import gguf_load


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(values, tensors):
    """A file of version 3, with numbers of 16 bits and tensors of float32."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values))
    head += b"".join(text(name) + struct.pack("<IH", 2, number) for name, number in values.items())
    at, data = 0, b""
    for name, array in tensors.items():
        head += text(name) + struct.pack("<I", array.ndim) + struct.pack(f"<{array.ndim}Q", *reversed(array.shape)) + struct.pack("<IQ", 0, at)
        bytes_ = array.astype(np.float32).tobytes()
        bytes_ += b"\0" * (-len(bytes_) % 32)
        data, at = data + bytes_, at + len(bytes_)
    return head + b"\0" * (-len(head) % 32) + data


def part(number, count, total, tensors):
    return gguf({"split.no": number, "split.count": count, "split.tensors.count": total}, tensors)


A, B = {"a": np.arange(6.0).reshape(2, 3), "b": np.ones(4)}, {"c": np.array([5.0])}


def test_in_memory():
    metadata, tensors = gguf_load(Tensor(gguf({"answer": 42}, A)))
    assert metadata == {"answer": 42} and {n: t.tolist() for n, t in tensors.items()} == {n: v.tolist() for n, v in A.items()}
    with pytest.raises(DTypeError, match="gguf_load: expected the bytes of a file, uint8 along one axis, got float32"):
        gguf_load(Tensor([1.0]))
    with pytest.raises(Error, match="a tensor: not a file of GGUF"):
        gguf_load(Tensor(b"no such thing"))


def test_in_several_files(tmp_path):
    first = tmp_path / "m-00001-of-00002.gguf"
    second = tmp_path / "m-00002-of-00002.gguf"
    first.write_bytes(part(0, 2, 3, A))
    second.write_bytes(part(1, 2, 3, B))
    metadata, tensors = gguf_load(first)
    assert metadata["split.count"] == 2 and {n: t.tolist() for n, t in tensors.items()} == {n: v.tolist() for n, v in (A | B).items()}
    with pytest.raises(Error, match="give the first"):
        gguf_load(second)
    for wrong, message in ((part(1, 3, 3, B), "not part 2 of 2"), (part(1, 2, 3, A), "stands in a part before it"), (part(1, 2, 3, {}), "it says 3")):
        second.write_bytes(wrong)
        with pytest.raises(Error, match=message):
            gguf_load(first)
    second.unlink()
    with pytest.raises(FileNotFoundError):
        gguf_load(first)
    other = tmp_path / "renamed.gguf"
    other.write_bytes(part(0, 2, 3, A))
    with pytest.raises(Error, match="give the first"):
        gguf_load(other)

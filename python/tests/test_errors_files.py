"""Files that are cut off, or something else: safetensors, NumPy, GGUF, PyTorch. Each message names the file."""

import io
import json
import os
import pickle
import re
import struct
import zipfile

import numpy as np
import pytest

from quern import Error, Tensor
from quern.nn import state


def safetensors(header, body=bytes(8), length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + body


def one(**changes):
    return {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}


def npy(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def gguf(version=3, tensors=0, values=0, rest=b""):
    return b"GGUF" + struct.pack("<IQQ", version, tensors, values) + rest


def gguf_tensor(kind, sizes, offset=0):
    name = struct.pack("<Q", 1) + b"a"
    head = gguf(tensors=1, rest=name + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, offset))
    return head + bytes(-len(head) % 32) + bytes(64)


def archive(**files):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, content in files.items():
            made.writestr(name.replace("__", "/").replace("_pkl", ".pkl").replace("_npy", ".npy"), content)
    return file.getvalue()


class Command:
    def __reduce__(self):
        return os.system, ("false",)


FLOATS = npy(np.arange(4, dtype=np.float32))
FILES = [
    (state.safe_load, b"abc", "it has 3 bytes, the length of its header alone takes 8"),
    (state.safe_load_metadata, b"", "it has 0 bytes, the length of its header alone takes 8"),
    (state.safe_load, safetensors(one(), length=10**6), "a header of 1000000 bytes in a file of 77: it is cut off"),
    (state.safe_load, safetensors(one(), length=2**63), "a header of 9223372036854775808 bytes; 100000000 are allowed"),
    (state.safe_load, safetensors(b"hello"), "its header does not begin with {"),
    (state.safe_load, safetensors([1, 2]), "its header does not begin with {"),
    (state.safe_load, safetensors(one(), bytes(4)), "tensor 'a' stands at 0 to 8 of 4 bytes"),
    (state.safe_load, safetensors(one(data_offsets=[8, 0])), "tensor 'a' stands at 8 to 0 of 8 bytes"),
    (state.safe_load, safetensors(one(dtype="Q9")), "tensor 'a' has the dtype \"Q9\", which quern does not know"),
    (state.safe_load, safetensors(one(shape=[3])), "tensor 'a' has 8 bytes, its shape needs 12"),
    (state.safe_load, safetensors(one(shape=[-2])), "a size is -2, expected a number from 0"),
    (state.safe_load, safetensors(one(shape="x")), "tensor 'a': its shape is no list of sizes"),
    (state.safe_load, safetensors({"a": {"dtype": "F32", "shape": [2]}}), "tensor 'a' has no data_offsets"),
    (state.safe_load, safetensors({"__metadata__": {"a": 5}, **one()}), "__metadata__: 'a' is not text"),
    (state.npy_load, b"", "its first bytes at 0 takes 6 bytes of a file of 0: it is cut off"),
    (state.npy_load, b"X" * 100, "it does not begin as one"),
    (state.npy_load, FLOATS[:20], "its header at 10 takes 118 bytes of a file of 20: it is cut off"),
    (state.npy_load, FLOATS[:-4], "12 bytes of numbers, its shape (4,) of float32 needs 16"),
    (state.npy_load, FLOATS + b"more", "20 bytes of numbers, its shape (4,) of float32 needs 16"),
    (state.npy_load, FLOATS[:6] + b"\x09\x00" + FLOATS[8:], "version 9.0; quern reads 1.0, 2.0 and 3.0"),
    (state.npy_load, npy(np.array(["a"])), "an array of dtype '<U1', which quern does not have"),
    (state.npy_load, npy(np.array([1j])), "an array of dtype '<c16', which quern does not have"),
    (state.npy_load, npy(np.array([{}])), "an array of dtype '|O', which quern does not have"),
    (state.npz_load, b"X" * 100, "no end of a directory"),
    (state.npz_load, archive(a_npy=FLOATS)[:-10], "no end of a directory"),
    (state.gguf_load, b"", "its first bytes at 0 takes 4 bytes of a file of 0: it is cut off"),
    (state.gguf_load, b"X" * 100, "it does not begin with GGUF"),
    (state.gguf_load, b"GGUF", "its version at 4 takes 4 bytes of a file of 4: it is cut off"),
    (state.gguf_load, gguf(version=99), "version 99; quern reads 2 and 3"),
    (state.gguf_load, gguf(tensors=10**6), "1000000 tensors in 0 bytes"),
    (state.gguf_load, gguf(values=2**63), "9223372036854775808 values in 0 bytes"),
    (state.gguf_load, gguf_tensor(999, [4]), "tensor 'a' is of type 999, which quern does not read"),
    (state.gguf_load, gguf_tensor(0, [400]), "tensor 'a' has 1600 bytes at 0 of 64: it is cut off"),
    (state.gguf_load, gguf_tensor(0, [4], 10**9), "tensor 'a' has 16 bytes at 1000000000 of 64: it is cut off"),
    (state.gguf_load, gguf_tensor(2, [5]), "tensor 'a' has rows of 5; Q4_0 has blocks of 32"),
    (state.torch_load, b"", "it is empty"),
    (state.torch_load, archive(a=b"x"), "there is no data.pkl in it"),
    (state.torch_load, archive(archive__data_pkl=b"garbage"), "its pickle is older than protocol 2"),
    (state.torch_load, archive(archive__data_pkl=pickle.dumps({"a": [1]}, 2)[:-3]), "it is cut off"),
    (state.torch_load, archive(archive__data_pkl=pickle.dumps(Command(), 2)), "asks for 'posix.system', which is not on the list"),
    (state.torch_load, archive(archive__data_pkl=b"\x80\x02c\xff\n\xfe\n."), r"asks for '\xff.\xfe'"),
    (state.torch_load, pickle.dumps({"a": 1}, 2), "it is of PyTorch before 1.6"),
    (state.torch_load, b"PK", "it has 2 bytes, the end of an archive alone has 22"),
    (state.torch_load, b"GGUF" + bytes(20), "it looks like a file of GGUF (gguf_load)"),
    (state.torch_load, bytes([2, 0, 0, 0, 0, 0, 0, 0]) + b"{}", "it looks like a file of safetensors (safe_load)"),
    (state.torch_load, b"\x93NUMPY\x01\x00", "it looks like an array of NumPy (npy_load)"),
    (state.torch_load, b"\x1f\x8b\x08\x00", "it looks like a file that is compressed by gzip"),
    (state.torch_load, b"<!DOCTYPE html>", "it looks like a page of the web"),
    (state.torch_load, b"version https://git-lfs.github.com/spec/v1\n", "it looks like a pointer of Git LFS"),
    (state.torch_load, b"hello\nyou", "it looks like text: 'hello'"),
    (state.torch_load, bytes(range(20)), "it is 20 bytes of a kind that is not known"),
]


@pytest.mark.parametrize("load, content, text", FILES, ids=[f"{load.__name__} {text}"[:60] for load, _, text in FILES])
def test_files(tmp_path, load, content, text):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(Error, match=f"^{re.escape(str(path))}: not a file of .*{re.escape(text)}"):
        load(path)


@pytest.mark.parametrize("load, content", [
    (state.safe_load, safetensors(one())), (state.npy_load, FLOATS), (state.gguf_load, gguf_tensor(0, [4])),
    (state.npz_load, archive(a_npy=FLOATS)),
], ids=["safetensors", "npy", "gguf", "npz"])
def test_every_part_of_a_file_is_needed(tmp_path, load, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    load(path)
    end = len(content) - (48 if load is state.gguf_load else 0)  # the 4 floats are followed by bytes that nobody asked for
    for length in range(end):
        path.write_bytes(content[:length])
        with pytest.raises(Error, match="not a file of"):
            load(path)


def test_names_in_files_that_are_not_utf8(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(gguf(values=1, rest=struct.pack("<Q", 3) + b"a\xffb" + struct.pack("<II", 4, 7)))
    assert state.gguf_load(path)[0] == {r"a\xffb": 7}
    named = gguf_tensor(0, [4])
    path.write_bytes(named.replace(struct.pack("<Q", 1) + b"a", struct.pack("<Q", 1) + b"\xff"))
    assert list(state.gguf_load(path)[1]) == [r"\xff"]


class Path:
    def __init__(self, path):
        self.path = path

    def __fspath__(self):
        return self.path


@pytest.mark.parametrize("kind", [os.fsdecode, os.fsencode, lambda p: Path(os.fsdecode(p)), lambda p: Path(os.fsencode(p))],
                         ids=["text", "bytes", "path of text", "path of bytes"])
@pytest.mark.parametrize("name", [b"plain", "größe".encode(), b"not \xff utf-8"])
def test_paths_are_as_open_takes_them(tmp_path, name, kind):
    path = kind(os.path.join(os.fsencode(tmp_path), name))
    x = Tensor([1.0, 2.0])
    state.safe_save({"x": x}, path)
    assert state.safe_load(path)["x"].tolist() == [1, 2]
    file, start, _ = state.safe_load_metadata(path)
    assert file.to("CPU")[start:].bitcast("float32").tolist() == [1, 2] and file.device == "DISK:" + os.fsdecode(path)
    assert state.safe_load(file)["x"].tolist() == [1, 2] and repr(file).startswith("<Tensor DISK:")
    assert Tensor.from_file(path).shape == file.shape
    Tensor([5, 6], dtype="uint8").to(file.device).realize()
    assert Tensor.from_file(path).tolist()[:2] == [5, 6]
    if hasattr(path, "__fspath__"):
        assert Tensor(path).tolist()[:2] == [5, 6]
    state.npy_save(x, path)
    assert state.npy_load(path).tolist() == [1, 2]
    assert os.listdir(os.fsencode(tmp_path)) == [name]


@pytest.mark.parametrize("path, kind, text", [
    ("x\0y", ValueError, "embedded null byte"), (b"x\0y", ValueError, "embedded null byte"), (Path("x\0y"), ValueError, "embedded null byte"),
    ("\ud800", UnicodeEncodeError, "surrogates not allowed"), (5, TypeError, "expected str, bytes or os.PathLike object, not int"),
    (Path(5), TypeError, "to return str or bytes, not int"),
], ids=range(6))
def test_paths_that_are_none(tmp_path, monkeypatch, path, kind, text):
    monkeypatch.chdir(tmp_path)
    x = Tensor([1.0])
    for call in (lambda: state.safe_save({"x": x}, path), lambda: state.npy_save(x, path), lambda: state.safe_load(path), lambda: state.npy_load(path),
                 lambda: state.npz_load(path), lambda: state.gguf_load(path), lambda: state.torch_load(path), lambda: state.safe_load_metadata(path),
                 lambda: Tensor.from_file(path)):
        with pytest.raises(kind, match=text):
            call()
    assert os.listdir(tmp_path) == []


def test_names_that_are_no_text(tmp_path):
    with pytest.raises(UnicodeEncodeError, match="surrogates not allowed"):
        state.safe_save({"\ud800": Tensor([1.0])}, tmp_path / "file")

"""Files of quern are read by the packages of others, and the reverse: safetensors, gguf, NumPy."""

import sys

import packages

packages.enter()

import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np
import safetensors
import safetensors.numpy

sys.path.insert(0, str(pathlib.Path(__file__).parent / "data"))
import make_gguf

TOOL = os.environ["QUERN_IO_TOOL"]
DTYPES = [np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64,
          np.float16, np.float32, np.float64]


class InteropTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        random = np.random.default_rng(1)
        self.arrays = {np.dtype(d).name: (random.normal(size=(3, 5)) * 50).astype(d) for d in DTYPES}
        self.arrays |= {"scalar": np.array(2.5), "empty": np.zeros((2, 0, 3), np.float32), "long": np.arange(1000)}

    def convert(self, source, target):
        done = subprocess.run([TOOL, "convert", str(self.folder / source), str(self.folder / target)],
                              stderr=subprocess.PIPE, check=False, timeout=300)
        self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))
        return self.folder / target

    def assert_same(self, got, expected):
        self.assertEqual(sorted(got), sorted(expected))
        for name, array in expected.items():
            self.assertEqual(got[name].dtype, array.dtype, name)
            self.assertEqual(got[name].shape, array.shape, name)
            self.assertEqual(got[name].tobytes(), array.tobytes(), name)

    def test_safetensors(self):
        safetensors.numpy.save_file(self.arrays, self.folder / "a.safetensors", metadata={"a": "b"})
        written = self.convert("a.safetensors", "b.safetensors")
        self.assert_same(safetensors.numpy.load_file(written), self.arrays)
        with safetensors.safe_open(written, "numpy") as file:
            self.assertEqual(file.metadata(), {"made by": "quern"})

    def test_safetensors_of_dtypes_that_numpy_has_not(self):
        memory = np.arange(4, dtype=np.uint8)
        raw = {name: safetensors.TensorSpec(dtype=name, shape=[2], data_ptr=memory.ctypes.data, data_len=2 * size)
               for name, size in (("bfloat16", 2), ("float8_e4m3fn", 1), ("float8_e5m2", 1))}
        safetensors.serialize_file(raw, self.folder / "a.safetensors")
        read = [dict(safetensors.deserialize(file.read_bytes()))
                for file in (self.folder / "a.safetensors", self.convert("a.safetensors", "b.safetensors"))]
        self.assertEqual([len(tensors) for tensors in read], [3, 3])
        self.assertEqual(*read)

    def test_numpy(self):
        np.savez(self.folder / "a.npz", **self.arrays)
        with np.load(self.convert("a.npz", "b.npz")) as file:
            self.assert_same(dict(file), self.arrays)
        np.savez_compressed(self.folder / "a.npz", **self.arrays)
        with np.load(self.convert("a.npz", "b.npz")) as file:
            self.assert_same(dict(file), self.arrays)
        for array in np.asfortranarray(self.arrays["float32"]), self.arrays["int16"].astype(">i2"), np.array(3):
            np.save(self.folder / "a.npy", array)
            got = np.load(self.convert("a.npy", "b.npy"))
            np.testing.assert_array_equal(got, array)
            self.assertEqual(got.dtype, array.dtype.newbyteorder("="))

    def test_gguf_of_every_type(self):
        for seed in range(3):
            make_gguf.write(self.folder, seed)
            with np.load(self.folder / "blocks.npz") as file:
                expected = dict(file)
            upper = np.ascontiguousarray(expected.pop("BF16").view(np.uint16)[:, 1::2])  # NumPy has no bfloat16
            got = dict(safetensors.deserialize(self.convert("blocks.gguf", "a.safetensors").read_bytes()))
            bf16 = got.pop("BF16")
            self.assertEqual((bf16["dtype"], bf16["shape"], bytes(bf16["data"])), ("BF16", [3, 4], upper.tobytes()))
            self.assertEqual(sorted(got), sorted(expected))
            for name, array in expected.items():
                self.assertEqual(got[name]["shape"], list(array.shape), name)
                self.assertEqual(bytes(got[name]["data"]), array.tobytes(), name)


if __name__ == "__main__":
    unittest.main()

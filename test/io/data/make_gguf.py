"""Writes blocks.gguf, a tensor of every type that quern reads, and blocks.npz, what the package gguf makes of it.

    .venv-test/bin/python test/io/data/make_gguf.py [FOLDER [SEED]]
"""

import pathlib
import sys

import gguf
import numpy as np

BLOCKS = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "MXFP4"]
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2],
          "Q6_K": [208], "MXFP4": []}  # where floats stand, which random bytes would make infinite
PLAIN = {"F32": np.float32, "F16": np.float16, "F64": np.float64, "I8": np.int8, "I16": np.int16, "I32": np.int32,
         "I64": np.int64}


def random_blocks(random, name, rows, blocks):
    """Any bytes are numbers, but for the scales, which are to be finite."""
    size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]][1]
    data = random.integers(0, 256, (rows * blocks, size), dtype=np.uint8)
    for at in HALVES[name]:
        data[:, at:at + 2] = random.normal(size=(rows * blocks, 1)).astype(np.float16).view(np.uint8)
    if name == "MXFP4":
        data[:, 0] = random.integers(1, 255, rows * blocks)
        data[0, 0] = 0
    return data.reshape(rows, blocks * size)


def write(folder, seed=0):
    random = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(folder / "blocks.gguf", "test")
    writer.add_uint32("test.uint32", 7)
    writer.add_int32("test.int32", -7)
    writer.add_float32("test.float32", 0.5)
    writer.add_bool("test.bool", True)
    writer.add_string("test.text", "grün")
    writer.add_array("test.texts", ["a", "", "bc"])
    writer.add_array("test.numbers", [1, -2, 3])
    expected = {}
    for name, dtype in PLAIN.items():
        expected[name] = (random.normal(size=(2, 3)) * 100).astype(dtype)
        writer.add_tensor(name, expected[name])
    bf16 = random.integers(0, 0x7f00, (3, 4), dtype=np.uint16)
    expected["BF16"] = (bf16.astype(np.uint32) << 16).view(np.float32)
    writer.add_tensor("BF16", bf16.view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
    for name in BLOCKS:
        kind = gguf.GGMLQuantizationType[name]
        data = random_blocks(random, name, 3, 2)
        expected[name] = gguf.dequantize(data, kind)
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    np.savez(folder / "blocks.npz", **expected)


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent,
          int(sys.argv[2]) if len(sys.argv) > 2 else 0)

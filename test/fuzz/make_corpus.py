"""Writes the corpus of the fuzz targets: small files of each kind.

    .venv-test/bin/python test/fuzz/make_corpus.py
"""

import io
import pathlib
import shutil
import sys
import zipfile

import gguf
import numpy as np
import safetensors.numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORPUS = ROOT / "test/fuzz/corpus"
sys.path.insert(0, str(ROOT / "test/io/data"))
import make_gguf


def put(target, name, content):
    file = CORPUS / target / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def write_safetensors():
    arrays = {"a": np.arange(4, dtype=np.float32).reshape(2, 2), "b": np.array([1], np.uint8), "c": np.zeros((0, 2))}
    put("safetensors", "three", safetensors.numpy.save(arrays, metadata={"format": "pt"}))
    put("safetensors", "empty", safetensors.numpy.save({}))
    for name, size in {"BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1, "I8": 1, "BF16": 2, "F16": 2, "I16": 2, "U16": 2, "I32": 4,
                       "U32": 4, "I64": 8, "F64": 8}.items():
        header = f'{{"x":{{"dtype":"{name}","shape":[1],"data_offsets":[0,{size}]}}}}'.encode()
        put("safetensors", name, len(header).to_bytes(8, "little") + header + bytes(size))


def write_gguf():
    for name in make_gguf.BLOCKS + ["F32", "F16", "BF16", "I32"]:
        writer = gguf.GGUFWriter(CORPUS / "gguf" / name, "t")
        if name == "F32":
            writer.add_array("texts", ["a", "b"])
            writer.add_bool("bool", True)
            writer.add_float64("float", 1.0)
            writer.add_custom_alignment(64)
        if name in make_gguf.BLOCKS:
            writer.add_tensor("x", make_gguf.random_blocks(np.random.default_rng(0), name, 1, 1),
                              raw_dtype=gguf.GGMLQuantizationType[name])
        else:
            kind = gguf.GGMLQuantizationType[name]
            data = np.zeros((2, 2 * gguf.GGML_QUANT_SIZES[kind][1]), np.uint8)
            writer.add_tensor("x", data, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def write_npy():
    put("npy", "matrix", npy(np.arange(6, dtype=np.float32).reshape(2, 3)))
    put("npy", "fortran", npy(np.asfortranarray(np.arange(6, dtype=np.int64).reshape(2, 3))))
    put("npy", "big_endian", npy(np.arange(2, dtype=">i2")))
    put("npy", "scalar", npy(np.array(True)))
    out = io.BytesIO()
    np.lib.format.write_array(out, np.arange(2, dtype=np.uint8), version=(2, 0))
    put("npy", "version_2", out.getvalue())


def write_zip():
    for name, method in ("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", method) as file:
            file.writestr(zipfile.ZipInfo("a.npy"), npy(np.zeros(8, np.uint8)), method)  # without the time
            with file.open(zipfile.ZipInfo("b"), "w", force_zip64=True) as entry:
                entry.write(b"b" * 100)
            file.comment = b"c"
        put("zip", name, out.getvalue())
    put("zip", "empty", b"PK\5\6" + bytes(18))
    put("zip", "torch", (ROOT / "test/io/data/tensor.pt").read_bytes())


def write_torch():
    for source in "tensor.pt", "checkpoint.pt":
        with zipfile.ZipFile(ROOT / "test/io/data" / source) as file:
            name = next(n for n in file.namelist() if n.endswith("/data.pkl"))
            put("torch", source.removesuffix(".pt"), file.read(name))


def write_image():
    for file in sorted((ROOT / "test/io/data").glob("*.png")) + sorted((ROOT / "test/io/data").glob("*.jpg")):
        put("image", file.name, file.read_bytes())


def write_chat_template():
    for name, source in {
        "messages": "{% for m in messages %}{% if loop.first %}{{ bos_token }}{% endif %}{{ m['role'] ~ ': ' + m.content|trim }}\n{% endfor %}",
        "set": "{%- set ns = namespace(x=1) -%}{% set y %}a{% endset %}{% for i in range(3) if i > 0 %}{% set ns.x = ns.x + i %}{% else %}-{% endfor %}",
        "macro": "{% macro f(a, b='c') %}{{ a }}{{ caller() }}{% endmacro %}{% call f(1, b=2) %}x{% endcall %}{% raw %}{{ }}{% endraw %}{# c #}",
        "filters": "{{ messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|join(', ')|upper }}{{ messages|tojson(indent=2) }}{{ 'a b'.split()[::-1] }}",
        "logic": "{{ 1 + 2 * -3 ** 2 // 4 % 5 if not x is defined and 'a' in 'abc' or 1 < 2 <= 3 else [1, (2,), {'a': none}] }}",
        "recursive": "{% for x in [[1, [2]], 3] recursive %}{% if x is number %}{{ x }}{% continue %}{% endif %}({{ loop(x) }}){% endfor %}",
    }.items():
        put("chat_template", name, source.encode())


def write_tokenizer():
    put("tokenizer", "text", "Hello, world! It's 1234 \u00fc \u4e2d\u6587 \U0001f999 <|x|>\n\n  a".encode())
    put("tokenizer", "bytes", bytes(range(256)))


if __name__ == "__main__":
    shutil.rmtree(CORPUS, ignore_errors=True)
    (CORPUS / "gguf").mkdir(parents=True)
    for write in write_safetensors, write_gguf, write_npy, write_zip, write_torch, write_image, write_chat_template, write_tokenizer:
        write()

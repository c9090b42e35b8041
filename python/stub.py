"""stub.py FOLDER PATTERNS: writes FOLDER/_core.pyi, the types of the extension that lies there, and py.typed."""

import pathlib
import re
import subprocess
import sys

folder, patterns = sys.argv[1:]
stub = pathlib.Path(folder, "_core.pyi")
subprocess.run([sys.executable, "-m", "nanobind.stubgen", "-q", "-i", folder, "-m", "_core", "-p", patterns, "-o", stub,
                "-M", pathlib.Path(folder, "py.typed")], check=True)


def outside(signature):
    """In a class with methods int(), float() and bool(), these words would mean the methods."""
    name, rest = signature.group().split("(", 1)
    rest = rest.replace("dtype: DType |", "dtype: DType | str |")
    return name + "(" + re.sub(r"(?<![\w.])(int|float|bool)\b", r"builtins.\1", rest)


stub.write_text(re.sub(r"^ +def .*", outside, stub.read_text(), flags=re.MULTILINE))

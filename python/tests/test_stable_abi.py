"""The extension uses only what the stable ABI of Python 3.12 has: wheels for newer Pythons are built with it."""

import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

import pytest

SOURCES = pathlib.Path(__file__).resolve().parents[1] / "src"
HEADERS = pathlib.Path(sysconfig.get_path("include"))


def used():
    """The names of Python's C API in the sources, less those for other ABIs only."""
    found = set()
    for path in sorted(SOURCES.iterdir()):
        text = re.sub(r"^#ifdef Py_LIMITED_API.*?\n(.*?)^#else\n.*?^#endif", r"\1", path.read_text(), flags=re.DOTALL | re.MULTILINE)
        text = re.sub(r"//.*", "", text)
        found |= set(re.findall(r"\bPy[A-Z]\w*_\w+(?=\()", text)) | set(re.findall(r"&(Py\w+_Type)", text))
    return found


def compiles(names):
    uses = "".join(f"#ifndef {name}  // a macro is there\n  (void)&{name};\n#endif\n" for name in names)
    text = f"#define Py_LIMITED_API 0x030C0000\n#include <Python.h>\nvoid use() {{\n{uses}}}\n"
    command = ["g++-12" if shutil.which("g++-12") else "c++", "-std=c++20", "-fsyntax-only", f"-I{HEADERS}", "-x", "c++", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)
    return done.returncode == 0, done.stderr


@pytest.mark.skipif(not (HEADERS / "Python.h").exists(), reason="Python's headers are not installed")
@pytest.mark.skipif(sys.version_info < (3, 11), reason="its headers know no stable ABI with buffers")
def test_only_the_stable_abi_is_used():
    names = used()
    assert len(names) > 10
    right, errors = compiles(sorted(names))
    assert right, errors
    assert not compiles(["PyGILState_Check"])[0]

"""The stubs: a script that uses the package is checked with mypy."""

import pathlib
import subprocess
import sys

import pytest

import quern

SCRIPT = """
from quern import Tensor, TinyJit, dtypes, nn

x: Tensor = Tensor.rand(2, 3) + 1
s: Tensor = x.sum(dim=0).softmax(dim=-1)
y: Tensor = (2 * x).sum(axis=0, keepdim=True, dtype="float32").reshape(3).relu()
layer = nn.Linear(3, 4)
z: Tensor = layer(x).softmax()
with Tensor.train():
    optimiser = nn.optim.Adam(nn.state.get_parameters(layer), lr=0.1)
    z.mean().backward()
    optimiser.step()
lr: Tensor = optimiser.lr
for row in x:
    print(row.shape, row.dtype == dtypes.float32, x[0, ..., None])
x.no_such_function()
Tensor.sum(x, axis=0, keep=True)
wrong: int = x.relu()
"""


def test_mypy_finds_what_is_wrong_and_nothing_else(tmp_path):
    pytest.importorskip("mypy")
    package = pathlib.Path(quern.__file__).parent
    if not (package / "_core.pyi").exists():
        pytest.skip("built without stubs")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    env = {"PATH": "/usr/bin:/bin"}
    if "site-packages" not in package.parts:  # which mypy knows by itself
        env["MYPYPATH"] = str(package.parent)
    ran = subprocess.run([sys.executable, "-m", "mypy", "--follow-imports=silent", "--cache-dir", tmp_path / "cache", script], check=False,
                         capture_output=True, text=True, env=env)
    found = [line.split(":")[1] for line in ran.stdout.splitlines() if ": error:" in line]
    found = list(dict.fromkeys(found))  # a wrong call of what can be called in two ways is two errors
    first = SCRIPT.splitlines().index("x.no_such_function()") + 1
    assert found == [str(first), str(first + 1), str(first + 2)], ran.stdout + ran.stderr

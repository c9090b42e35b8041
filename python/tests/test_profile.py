"""PROFILE=1: a table when the process ends, however that is."""

import os
import re
import subprocess
import sys

import pytest

SCRIPT = """
import sys
from quern import Context, Tensor, TinyJit

x = Tensor.ones(6, 7).contiguous().realize()


@TinyJit
def step(x):
    return (x * 2).sum(0).realize()


{}
"""


def run(body, **variables):
    """Status, and what is on stderr."""
    done = subprocess.run([sys.executable, "-c", SCRIPT.format(body)], env=os.environ | variables, capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.stdout == ""
    return done.returncode, done.stderr


def rows(table, title):
    """name: the other columns, as numbers where they are."""
    lines = table.split(f"\n{title} ", 1)[1].split("\n\n")[0].splitlines()[1:]
    return {m[1]: m[2].split() for m in (re.match(r"(.*?)  +(.*)", line) for line in lines)}


def test_kernels_stages_and_memory(tmp_path):
    status, table = run("for i in range(4): step(x)\nTensor.ones(1000, 250).contiguous().realize()", PROFILE="1", DEVICE="CPU", QUERN_CACHE_DIR=str(tmp_path))
    assert status == 0
    kernels, stages = rows(table, "kernel"), rows(table, "compiling")
    assert kernels["r_7"][:2] == ["CPU", "4"]
    assert sum(float(k[3]) for k in kernels.values()) == pytest.approx(100, abs=0.5)
    assert all(len(k) == 6 and float(k[2]) >= 0 for k in kernels.values())
    assert {"ranges", "canonical", "choose opts", "LLVM", "schedule: the rest", "lower: the rest"} <= set(stages)
    assert sum(float(s[2]) for s in stages.values()) == pytest.approx(100, abs=0.1 * len(stages))
    assert re.search(r"^profile: [\d.]+ s in all; kernels and copies [\d.]+ s", table, re.MULTILINE)
    assert float(re.search(r"peak memory of CPU: ([\d.]+) MB", table)[1]) >= 1


def runs_on(device):
    status, table = run("for i in range(3): step(x)", PROFILE="1", DEVICE=device)
    assert status == 0
    return [k[:2] for name, k in rows(table, "kernel").items() if name.startswith("r_")]


@pytest.mark.parametrize("name", ["CPU", "LINEAR"])
def test_devices(name):
    assert runs_on(name) == [[name, "3"]]


def test_opencl(opencl):
    assert runs_on(opencl) == [[opencl, "3"]]


def test_an_exception_ends_the_process():
    status, table = run("step(x)\nraise RuntimeError('an end')", PROFILE="1")
    assert status == 1
    assert table.index("RuntimeError: an end") < table.index("profile: ")
    assert "r_7" in rows(table, "kernel")


@pytest.mark.parametrize("body, status", [("sys.exit(3)", 3), ("step(x.reshape(5))", 1), ("import os; os._exit(4)", 4)])
def test_other_ends(body, status):
    ended, table = run(f"step(x)\n{body}", PROFILE="1")
    assert ended == status
    assert ("profile: " in table) == (status != 4)  # which calls nobody


def test_nothing_is_printed_when_it_is_off():
    assert run("step(x)", PROFILE="0") == (0, "")
    assert run("step(x)") == (0, "")


def test_for_a_while():
    status, table = run("step(x)\nwith Context(PROFILE=1):\n    x.sum(1).realize()\nstep(x)")
    assert status == 0
    assert list(rows(table, "kernel")) == ["r_6"]


def test_a_child_tells_of_itself():
    status, table = run("step(x)\nimport os\nchild = os.fork()\nif child: os.waitpid(child, 0)\nelse: x.sum(1).realize()", PROFILE="1",
                        DEVICE="INTERP")
    assert status == 0
    first, second = table.split("profile: ")[1:]
    assert "r_6" in first and "r_7" not in first
    assert "r_7" in second and "r_6" not in second


def test_it_is_a_number_from_0_to_1():
    status, message = run("step(x)", PROFILE="2")
    assert status == 1
    assert "PROFILE=2: PROFILE is a number from 0 to 1" in message

"""The process ends while a thread still computes."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import itertools, sys, threading, time
import numpy as np
from quern import Tensor, TinyJit
from quern.nn.state import safe_save
from quern.uop import PatternMatcher, UOp, UPat, graph_rewrite

x = Tensor.rand(8).realize()
replayed = TinyJit(lambda a: (a + 1).realize())
rules = PatternMatcher([(UPat.var("x"), lambda x: [None for _ in range(100)][0])])
begun = threading.Event()
sizes = itertools.count(3)


def captured():
    jit = TinyJit(lambda a: [(a + i).realize() for i in range(20)][-1])
    for _ in range(3):
        jit(x).numpy()


work = {
    "realize": lambda: (x + x).realize(),
    "replay": lambda: replayed(x).numpy(),
    "capture": captured,
    "compile": lambda: Tensor.empty(next(sizes), 7, 33).softmax().sum(0).tanh().matmul(Tensor.empty(33, 9)).realize(),
    "save": lambda: safe_save({"x": x}, sys.argv[2]),
    "share": lambda: Tensor.from_dlpack(np.arange(8.0)).sum().item(),
    "rules": lambda: graph_rewrite((x + 1).uop, rules),
}[sys.argv[1]]


def run():
    while True:
        work()
        begun.set()


for _ in range(2):
    threading.Thread(target=run, daemon=True).start()
begun.wait()
time.sleep(0.05)
print("end", flush=True)
"""


@pytest.mark.parametrize("trial", range(3))
@pytest.mark.parametrize("work", ["realize", "replay", "capture", "compile", "save", "share", "rules"])
def test_a_thread_that_computes_does_not_keep_the_process_from_ending(work, trial, tmp_path):
    done = subprocess.run([sys.executable, "-c", SCRIPT, work, tmp_path / "file"], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "QUERN_CACHE_DIR": str(tmp_path / "cache")}, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")

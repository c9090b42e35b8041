"""Processes that are forked while other threads compute, build graphs, save and load."""

import subprocess
import sys

import pytest

BEGIN = """
import ctypes, os, sys, tempfile, threading, time
import numpy as np
from quern import Error, Tensor, TinyJit, nn

def child(work):
    "What a forked process that calls work() exits with; it is killed after a minute."
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return "it hangs"

stop, rounds = threading.Event(), []
def forever(f):
    def run():
        while not stop.is_set():
            f()
            rounds.append(f)
    thread = threading.Thread(target=run)
    thread.start()
    return thread
"""


def run(script):
    done = subprocess.run([sys.executable, "-c", BEGIN + script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout == "done\n", done.stdout + done.stderr


def test_while_threads_compute():
    run("""
sizes = iter(range(10, 1000000))
weights = Tensor(np.ones((64, 64), np.float32)).realize()

def compiles():  # another kernel each time
    n = next(sizes)
    assert (Tensor.arange(n) * 3).sum().item() == 3 * (n * (n - 1) // 2)
def runs():
    assert (weights @ weights).numpy()[0, 0] == 64
def builds():
    x = weights
    for i in range(100):
        x = x + i
def saves():
    with tempfile.TemporaryDirectory() as folder:
        nn.state.safe_save({"a": weights}, folder + "/f")
        assert nn.state.safe_load(folder + "/f")["a"].sum().item() == 4096

def work():
    for i in range(3):
        compiles(), runs(), builds(), saves()
    Tensor.rand(300, 300).matmul(Tensor.rand(300, 300)).realize()  # in threads of its own

work()
threads = [forever(f) for f in (compiles, runs, builds, saves)]
for i in range(10):
    assert (code := child(work)) == 0, code
stop.set()
for t in threads:
    t.join()
assert len(set(rounds)) == 4
work()
print("done")
""")


def test_what_was_there_is_there_in_the_child():
    run("""
x = Tensor([1.0, 2.0, 3.0]).realize()
y = x + 1
step = TinyJit(lambda t: (t * 2).sum().realize())
for _ in range(3):
    step(x)

def work():
    assert y.tolist() == [2, 3, 4] and step(x).item() == 12
    x.assign(x * 2)
    assert x.tolist() == [2, 4, 6] and y.tolist() == [2, 3, 4]
    assert child(lambda: x.sum().item()) == 0  # and in its own

for _ in range(3):
    assert child(work) == 0
assert x.tolist() == [1, 2, 3] and y.tolist() == [2, 3, 4]
print("done")
""")


def test_a_child_may_end_as_programs_do():
    run("""
Tensor.rand(300, 300).matmul(Tensor.rand(300, 300)).realize()
pid = os.fork()
if pid == 0:
    Tensor.rand(300, 300).matmul(Tensor.rand(300, 300)).realize()
    sys.exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
print("done")
""")


def test_multiprocessing():
    run("""
import multiprocessing
pool = multiprocessing.get_context("fork").Pool
x = Tensor.arange(10).realize()
thread = forever(lambda: (x * 2).numpy())
def square(i):
    return int((x[i] * x[i]).item())
for _ in range(3):
    with pool(2) as workers:
        assert workers.map(square, range(10)) == [i * i for i in range(10)]
stop.set()
thread.join()
print("done")
""")


def test_a_fork_that_python_does_not_know_of():
    """It cannot wait for what runs: the child says so, or computes."""
    run("""
fork = ctypes.PyDLL(None).fork
def unknown(work):
    os.fork = fork
    return child(work)
def work():
    try:
        assert (Tensor([1.0, 2.0]) + 1).tolist() == [2, 3]
    except Error as e:
        assert "it was forked while another thread computed" in str(e), e
        os._exit(7)
assert unknown(work) == 0
numbers = Tensor.rand(600, 600).realize()
thread = forever(lambda: numbers.matmul(numbers).realize())
codes = {unknown(work) for _ in range(30)}
stop.set()
thread.join()
assert codes <= {0, 7} and 7 in codes, codes
print("done")
""")


def test_opencl():
    from quern import DeviceError, Tensor

    try:
        Tensor([1.0], device="CL").realize()
    except DeviceError:
        pytest.skip("there is no OpenCL device")
    run("""
assert child(lambda: Tensor([1.0], device="CL").numpy()) == 0  # the parent has not used it yet
x = Tensor([1.0, 2.0], device="CL").realize()
def work():
    global x
    for use in (x.numpy, lambda: (x + 1).realize(), lambda: Tensor([1.0], device="CL").realize()):
        try:
            use()
        except Error as e:
            assert "OpenCL cannot be used in a process that was forked" in str(e), e
        else:
            raise AssertionError
    del x
    assert Tensor([1.0]).tolist() == [1]
assert child(work) == 0
assert (x + 1).tolist() == [2, 3]
print("done")
""")

"""Ctrl-C: a KeyboardInterrupt, after which the process computes as before."""

import os
import signal
import subprocess
import sys
import time

import pytest

from quern import Tensor, TinyJit, Variable
from quern.uop import PatternMatcher, UOp, UPat, graph_rewrite

REALIZE = """
x = Tensor.rand(64, 64).realize()
def step():
    (x @ x).sum().item()
"""
NEW_KERNELS = """
x, count = Tensor.rand(64).realize(), 0
def step():
    global count
    count += 1
    (x * count).reshape(8, 8).sum(count % 2).realize()
"""
REPLAY = """
x = Tensor.rand(64, 64).realize()
product = TinyJit(lambda x: (x @ x).realize())
def step():
    product(x).numpy()
"""
TRAINING = """
layer = nn.Linear(16, 4)
optimiser = nn.optim.Adam(nn.state.get_parameters(layer))
x = Tensor.rand(8, 16).realize()
@TinyJit
@Tensor.train()
def train():
    optimiser.zero_grad()
    loss = layer(x).square().mean().backward()
    optimiser.step()
    return loss
def step():
    train().item()
"""
SCRIPT = """
import signal
from quern import Tensor, TinyJit, nn
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started this may not care for it
{}
for _ in range(4):
    step()
try:
    print("ready", flush=True)
    while True:
        step()
except KeyboardInterrupt:
    print("interrupted", flush=True)
for _ in range(4):
    step()
print((Tensor([1.0, 2.0]) * 3).tolist(), flush=True)
"""


@pytest.mark.parametrize("body", [REALIZE, NEW_KERNELS, REPLAY, TRAINING], ids=["realize", "new kernels", "replay", "training"])
def test_a_loop_is_interrupted_and_goes_on(body):
    child = subprocess.Popen([sys.executable, "-c", SCRIPT.format(body)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=300)
    finally:
        child.kill()
    assert (out, child.returncode) == ("interrupted\n[3.0, 6.0]\n", 0), err


LONG = """
import signal
from quern import GlobalCounters, Tensor
signal.signal(signal.SIGINT, signal.default_int_handler)
x = Tensor.full((500, 500), 1 / 500).contiguous().realize()
count = Tensor([0.0]).realize()
def chain(length):
    y = x + {written}
    for _ in range(length):
        y = (y @ x).contiguous()
    return y
count.assign(count + 1).realize()
GlobalCounters.reset()
y = chain(600)
try:
    print("ready", flush=True)
    {realize}
    print("ended", flush=True)
except KeyboardInterrupt:
    print("interrupted", {seen}, flush=True)
y = y[0, 0].item()
print(round(y, 3), count.item(), flush=True)
"""


@pytest.mark.parametrize(
    "written, realize, seen, out",
    [
        ("0", "y.realize()", "GlobalCounters.kernel_count < 600", "interrupted True\n0.002 1.0\n"),  # between kernels
        ("0", "y.numpy()", "GlobalCounters.kernel_count < 600", "interrupted True\n0.002 1.0\n"),
        # What is written first is written once: if that is done, the rest is run, too.
        ("count.assign(count + 1) * 0", "Tensor.realize(count, y)", "True", "interrupted True\n0.002 2.0\n"),
    ],
    ids=["realize", "reading", "writing"],
)
def test_a_long_run_is_interrupted(written, realize, seen, out):
    script = LONG.format(written=written, realize=realize, seen=seen)
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        found, err = child.communicate(timeout=300)
    finally:
        child.kill()
    assert (found, child.returncode) == (out, 0), err


ONE_KERNEL = """
import signal
from quern import Tensor
signal.signal(signal.SIGINT, signal.default_int_handler)
x = Tensor.full((400_000,), 0.5).contiguous().realize()
y = Tensor.arange(400_000).float().realize()
def long(n):
    x_, y_ = x[:n], y[:n]
    return {value}
try:
    print("ready", flush=True)
    {call}
    print("ended", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(round({after}, 3), (x + 1)[0].item(), flush=True)
"""
OUTER = "(x_.reshape(-1, 1) * y_.reshape(1, -1)).sin().sum()"  # 1.6e11 sines: minutes
NESTED = "(x_.reshape(-1, 1) * y_.reshape(1, -1)).sin().sum(1)"


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize(
    "value, call, after",
    [
        (OUTER, "long(400_000).realize()", "long(100).item()"),
        (NESTED, "long(400_000).numpy()", "long(100).sum().item()"),
    ],
    ids=["realize", "reading"],
)
def test_one_long_kernel_is_interrupted(value, call, after, threads):
    script = ONE_KERNEL.format(value=value, call=call, after=after)
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env={**os.environ, "CPU_THREADS": threads, "DEVICE": "CPU"})
    try:
        assert child.stdout.readline() == "ready\n"
        time.sleep(3)  # until it is in the kernel, most likely
        child.send_signal(signal.SIGINT)
        found, err = child.communicate(timeout=100)
    finally:
        child.kill()
    assert (found.splitlines()[0], child.returncode) == ("interrupted", 0), err
    assert found.splitlines()[1].split()[1:] == ["1.5"]


LONG_REPLAY = """
import signal
from quern import Tensor, TinyJit, Variable
signal.signal(signal.SIGINT, signal.default_int_handler)
x = Tensor.full((400_000,), 0.5).contiguous().realize()
count = Tensor([0.0]).realize()
n = Variable("n", 1, 400_000)
@TinyJit
def jitted(x, n):
    part = x[:n]
    result = (part.reshape(-1, 1) * part.reshape(1, -1)).sin().sum().realize()
    count.assign(count + 1).realize()
    return result
results = [jitted(x, n.bind(k)).item() for k in (2, 2, 2, 3)]
print("ready", flush=True)
try:
    jitted(x, n.bind(400_000))
    print("ended", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(count.item(), jitted(x, n.bind(3)).item() == results[3], count.item(), flush=True)
"""


def test_a_long_kernel_of_a_replay_is_interrupted():
    child = subprocess.Popen([sys.executable, "-c", LONG_REPLAY], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env={**os.environ, "DEVICE": "CPU"})
    try:
        assert child.stdout.readline() == "ready\n"
        time.sleep(1)
        child.send_signal(signal.SIGINT)
        found, err = child.communicate(timeout=100)
    finally:
        child.kill()
    assert (found, child.returncode) == ("interrupted\n4.0 True 5.0\n", 0), err


def interrupt(*_):
    signal.raise_signal(signal.SIGINT)


def interrupted(x=None):
    interrupt()
    return x


def in_a_jit():
    jitted = TinyJit(lambda x: interrupted(x + 1))
    jitted(Tensor([1.0]).realize())


def in_a_capture():
    calls = []

    def function(x):
        calls.append(1)
        return interrupted(x + 1) if len(calls) == 2 else x + 1

    jitted = TinyJit(function)
    jitted(Tensor([1.0]).realize())
    try:
        jitted(Tensor([1.0]).realize())
    finally:  # it is captured by the calls that follow
        assert not jitted.captured
        assert [jitted(Tensor([float(i)]).realize()).item() for i in range(4)] == [1.0, 2.0, 3.0, 4.0] and jitted.captured


def in_a_rule():
    graph_rewrite(Variable("n", 1, 4) + 1, PatternMatcher([(UPat.var("x") + 1, interrupted)]))


def in_the_body_of_a_kernel():
    Tensor([1.0]).custom_kernel(fxn=interrupted)


def in_the_gradient_of_a_kernel():
    x = Tensor([1.0], requires_grad=True)
    x.custom_kernel(fxn=lambda out: UOp.sink(out[0].store(1.0)), grad_fxn=interrupt)[0].sum().backward()


def in_a_layer():
    Tensor([1.0]).sequential([Tensor.relu, interrupted])


@pytest.mark.parametrize("call", [in_a_jit, in_a_capture, in_a_rule, in_the_body_of_a_kernel, in_the_gradient_of_a_kernel, in_a_layer])
def test_functions_of_the_user_are_interrupted(call):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            call()
    finally:
        signal.signal(signal.SIGINT, before)
    assert (Tensor([1.0, 2.0]) * 3).tolist() == [3.0, 6.0]

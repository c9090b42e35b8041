"""What a call took is given back. QUERN_NIGHTLY=1: 100,000 calls of each kind, 5,000 of those that do more."""

import gc
import os
import pickle
import resource
import threading

import numpy as np
import pytest

import quern
from quern import GlobalCounters, Tensor, TinyJit, Variable, nn

CALLS = 100_000 if os.environ.get("QUERN_NIGHTLY") else 1000
SLOW = CALLS // 20  # of those that do more
ALLOWED = 4e6  # bytes that the process may grow by: what the allocator keeps

add = TinyJit(lambda x, y: (x + y).realize())
n = Variable("n", 1, 8)
double_of_some = TinyJit(lambda x, size: (x[:size].sum() * 2).realize())
linear = nn.Linear(4, 2)
optimiser = nn.optim.Adam(nn.state.get_parameters(linear))
a, b, long = Tensor([1.0, 2, 3, 4]).realize(), Tensor([5.0, 6, 7, 8]).realize(), Tensor.arange(8).realize()
array = np.arange(4.0, dtype=np.float32)


def realize():
    (a + b).realize()


def replay():
    add(a, b)


def replay_of_a_size():
    double_of_some(long, n.bind(3))


def make():
    Tensor([1, 2, 3]), Tensor(array), Tensor.from_dlpack(array), Tensor.empty(4).realize()


def read():
    a.numpy(), a.tolist(), a.data(), np.from_dlpack(a), repr(a), a.shape, a.dtype, a.device


def graph():
    x = a
    for _ in range(20):
        x = (x.reshape(2, 2).permute(1, 0)[0:1] + 1).expand(2, 2).reshape(4) * b
    x.schedule()


def error():
    for wrong in (lambda: a.reshape(3), lambda: a + "x", lambda: a[9], lambda: Tensor(object()), lambda: add(a)):
        with pytest.raises(Exception):
            wrong()


def assign():
    x = Tensor([0.0, 0, 0, 0])
    x += a
    x[1:3] = 5
    x.realize()


def copies():
    pickle.loads(pickle.dumps(a)).realize()


def random_numbers():
    Tensor.rand(4).realize()


def training():
    with quern.Context(TRAINING=1):
        optimiser.zero_grad()
        linear(a.reshape(1, 4)).square().sum().backward()
        optimiser.step()


def new_layer():
    nn.Linear(4, 2)(a.reshape(1, 4)).realize()


def new_jit():
    jit = TinyJit(lambda x: (x * 2).realize())
    for _ in range(3):
        jit(a)


def refused():
    for wrong in (lambda: Tensor(array, requires_grad="yes"), lambda: Tensor([1, 2], requires_grad=True), lambda: nn.optim.SGD([1.0])):
        with pytest.raises(TypeError):
            wrong()


def cycle():
    x = Tensor([1.0])
    x.itself = x if hasattr(x, "__dict__") else None
    holder = [x]
    holder.append(holder)


def memory():
    """Resident bytes."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc")
@pytest.mark.parametrize("call, calls", [
    (realize, CALLS), (replay, CALLS), (replay_of_a_size, CALLS), (make, CALLS), (read, CALLS), (graph, SLOW), (error, SLOW),
    (assign, SLOW), (copies, SLOW), (random_numbers, SLOW), (training, SLOW), (new_layer, SLOW), (new_jit, SLOW), (cycle, CALLS),
    (refused, SLOW),
])
def test_no_leak(call, calls):
    for _ in range(calls // 10):
        call()
    gc.collect()
    before, objects, used = memory(), len(gc.get_objects()), GlobalCounters.mem_used
    for _ in range(calls):
        call()
    gc.collect()
    assert GlobalCounters.mem_used <= used
    assert len(gc.get_objects()) - objects < 50
    assert memory() - before < ALLOWED


def test_arrays_that_a_thread_shares_are_let_go_of_while_the_main_thread_waits():
    most = []

    def share():
        before = memory()
        for _ in range(200):
            Tensor.from_dlpack(np.zeros(2**17))
        most.append(memory() - before)

    thread = threading.Thread(target=share)
    thread.start()
    thread.join()
    assert most[0] < 20e6  # of 200 MB

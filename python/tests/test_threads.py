"""Threads of Python that share tensors."""

import sys
import threading

import numpy as np
import pytest

from quern import Tensor, TinyJit


@pytest.fixture(autouse=True)
def switch_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def run(*functions):
    errors = []

    def guarded(function):
        try:
            function()
        except BaseException as e:  # noqa: BLE001
            errors.append(e)

    threads = [threading.Thread(target=guarded, args=(f,)) for f in functions]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors


@pytest.mark.parametrize("trial", range(10))
def test_one_tensor_is_written_and_run_by_all(trial):
    x = Tensor.zeros(8).contiguous().realize()

    def adds(k):
        for i in range(20):
            x.assign(x + 1)
            if i % 5 == k:
                x.realize()

    def sets(k):
        for i in range(20):
            x[k : k + 2] = Tensor([1.0, 2.0])
            if i % 5 == k:
                x.realize()

    run(lambda: adds(1), lambda: sets(2), lambda: adds(3), lambda: sets(4))
    values = x.numpy()
    assert (values == np.floor(values)).all() and values.max() <= 42
    x.assign(Tensor.arange(8).float())
    assert x.tolist() == list(range(8))


def test_parts_of_one_tensor_are_written_at_once():
    x = Tensor.zeros(4, 16).contiguous()

    def rows(k):
        for i in range(50):
            x[k] = float(i)
            if i % 7 == k:
                x[k].realize()

    run(*[lambda k=k: rows(k) for k in range(4)])
    assert (x.numpy() == 49).all()


def test_what_waits_to_be_written_is_written_once():
    for _ in range(50):
        x = Tensor([0.0]).realize()
        x.assign(x + 1)
        run(x.realize, x.realize, x.numpy, lambda x=x: (x * 2).realize())
        assert x.item() == 1


def test_values_are_read_while_others_run():
    x = Tensor.rand(64, 64).realize()
    expected = x.numpy() @ x.numpy()
    jitted = TinyJit(lambda a: (a @ a).realize())
    lock = threading.Lock()

    def products():
        for _ in range(20):
            np.testing.assert_allclose((x @ x).numpy(), expected, rtol=1e-4)

    def replays():
        for _ in range(20):
            with lock:  # a jit is called by one thread at a time
                np.testing.assert_allclose(jitted(x).numpy(), expected, rtol=1e-4)

    run(products, replays, products, replays)

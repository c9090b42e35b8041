"""Kernels that a user writes in Python, and their gradients."""

import re

import numpy as np
import pytest

import quern
from quern import Tensor, TinyJit, dtypes
from quern.uop import KernelInfo, Ops, UOp


def at(memory, *place):
    return UOp(Ops.INDEX, memory.dtype, (memory, *place))


def load(memory, place):
    return UOp(Ops.LOAD, dtypes.float32, (at(memory, place),))


def store(memory, place, value, *ranges):
    return UOp(Ops.END, None, (UOp(Ops.STORE, None, (at(memory, place), value)), *ranges))


def each(count, compute):
    """A kernel: out[i] = compute(the elements i of the others)."""

    def body(out, *others):
        i = UOp.range(count, 0)
        return UOp.sink(store(out, i, compute(*(load(o, i) for o in others)), i))

    return body


def double(x, **kwargs):
    return Tensor.empty(*x.shape).custom_kernel(x, fxn=each(x.numel(), lambda v: v * 2.0), **kwargs)[0]


def test_elements():
    x, y = Tensor([1.0, 2.0, 3.0]), Tensor([4.0, 5.0, 6.0])
    assert double(x).tolist() == [2, 4, 6]
    assert Tensor.empty(3).custom_kernel(x, y, fxn=each(3, lambda a, b: a * b + 1.0))[0].tolist() == [5, 11, 19]
    assert Tensor.empty(3).custom_kernel(x, fxn=each(3, lambda a: (a < 2.5).where(a, a * 10)))[0].tolist() == [1, 2, 30]


def test_it_is_part_of_a_graph():
    x = Tensor([1.0, 2.0, 3.0])
    assert (double(x + 1) * 10).sum().item() == 180
    assert double(double(x)).tolist() == [4, 8, 12]
    assert double(Tensor.arange(6).float().reshape(2, 3).permute(1, 0).contiguous()).tolist() == [[0, 6], [2, 8], [4, 10]]


def test_two_results():
    def body(least, most, x, y):
        i = UOp.range(4, 0)
        a, b = load(x, i), load(y, i)
        stores = (UOp(Ops.STORE, None, (at(least, i), a.minimum(b))), UOp(Ops.STORE, None, (at(most, i), a.maximum(b))))
        return UOp.sink(UOp(Ops.END, None, (UOp(Ops.GROUP, None, stores), i)))

    x, y = np.array([1, 5, 2, 7], np.float32), np.array([4, 3, 2, 9], np.float32)
    least, most, *rest = Tensor.empty(4).custom_kernel(Tensor.empty(4), Tensor(x), Tensor(y), fxn=body)
    np.testing.assert_array_equal(least.numpy(), np.minimum(x, y))
    np.testing.assert_array_equal(most.numpy(), np.maximum(x, y))
    assert len(rest) == 2


def test_a_sum():
    def body(out, x):
        i, k = UOp.range(2, 0), UOp.range(3, 1, "REDUCE")
        total = UOp(Ops.REDUCE, dtypes.float32, (load(x, i * 3 + k), k), arg=(Ops.ADD, ()))
        return UOp.sink(store(out, i, total, i))

    assert Tensor.empty(2).custom_kernel(Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), fxn=body)[0].tolist() == [6, 15]


@pytest.mark.parametrize("device", ["CPU", "INTERP", "LINEAR"])
def test_devices(device):
    x = Tensor([1.0, 2.0], device=device)
    assert Tensor.empty(2, device=device).custom_kernel(x, fxn=each(2, lambda v: v * v))[0].tolist() == [1, 4]


def test_in_a_jit():
    jitted = TinyJit(lambda x: double(x).realize())
    for i in range(5):
        assert jitted(Tensor([1.0 + i, 2.0]).realize()).tolist() == [2.0 + 2 * i, 4.0]
    assert jitted.captured


def test_memory_is_never_left():
    def behind(out, x):
        i = UOp.range(4, 0)
        return UOp.sink(store(out, i, load(x, i + 1), i))

    with pytest.raises(quern.IndexError, match="4"):
        Tensor.empty(4).custom_kernel(Tensor.ones(4), fxn=behind)

    def from_memory(out, x, places):
        i = UOp.range(3, 0)
        place = UOp(Ops.LOAD, dtypes.int32, (at(places, i),)).cast(dtypes.index)
        return UOp.sink(store(out, i, load(x, place), i))

    out = Tensor.empty(3).custom_kernel(Tensor([5.0, 6.0]), Tensor([1, 9, -4]), fxn=from_memory)[0]
    assert out.tolist() == [6, 0, 0]


def test_gradient():
    calls = []

    def backward(grads, arguments):
        calls.append((len(grads), [a.shape for a in arguments]))
        return [None, grads[0] * 2]

    x = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    (double(x * 5, grad_fxn=backward) * Tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [10, 100, 1000]
    assert calls == [(2, [(3,), (3,)])]
    (g,) = double(x, grad_fxn=backward).sum().gradient(x)
    assert g.tolist() == [2, 2, 2]


def test_gradient_of_two_arguments():
    def backward(grads, arguments):
        _, x, y = arguments
        return [None, grads[0] * y, grads[0] * x]

    x, y = Tensor([1.0, 2.0], requires_grad=True), Tensor([3.0, 4.0], requires_grad=True)
    product = Tensor.empty(2).custom_kernel(x, y, fxn=each(2, lambda a, b: a * b), grad_fxn=backward)[0]
    (product * product).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.numpy() * y.numpy() ** 2)
    np.testing.assert_allclose(y.grad.numpy(), 2 * y.numpy() * x.numpy() ** 2)


def test_gradient_that_is_a_kernel_too():
    def square(x):
        def backward(grads, arguments):
            return [None, Tensor.empty(2).custom_kernel(grads[0].contiguous(), arguments[1], fxn=each(2, lambda g, v: g * v * 2.0))[0]]

        return Tensor.empty(2).custom_kernel(x, fxn=each(2, lambda v: v * v), grad_fxn=backward)[0]

    x = Tensor([3.0, -4.0], requires_grad=True)
    (square(x) * Tensor([1.0, 0.5])).sum().backward()
    assert x.grad.tolist() == [6, -4]


def test_training_through_a_kernel():
    w = Tensor([1.0, 2.0]).realize()
    optimiser = quern.nn.optim.SGD([w], lr=0.25)

    @TinyJit
    def step():
        optimiser.zero_grad()
        loss = double(w, grad_fxn=lambda grads, _: [None, grads[0] * 2]).square().sum()
        loss.backward()
        optimiser.step()
        return loss

    losses = [step().item() for _ in range(4)]
    assert losses == [20.0, 20.0, 20.0, 20.0] and w.tolist() == [1.0, 2.0]  # 4 w * 2 * 0.25: it changes its sign in each step


def test_without_a_gradient():
    x = Tensor([1.0, 2.0], requires_grad=True)
    of_no_gradient = Tensor.empty(2).custom_kernel(x, fxn=each(2, lambda v: v * 2.5))[0]
    with pytest.raises(quern.Error, match="gradient: a custom kernel was made without a gradient"):
        of_no_gradient.sum().backward()


def double_with(factor):
    return lambda x: double(x, grad_fxn=lambda grads, _: [None, grads[0] * factor])


def test_gradients_of_kernels_that_are_alike():
    x, y = Tensor([1.0, 2.0], requires_grad=True), Tensor([1.0, 2.0], requires_grad=True)
    (double_with(2)(x).sum() + double_with(3)(y).sum()).backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([2, 2], [3, 3])


def test_without_a_gradient_beside_one_that_has_it():
    x = Tensor([1.0, 2.0], requires_grad=True)
    double_with(2)(x).sum().backward()
    with pytest.raises(quern.Error, match="without a gradient"):
        double(x).sum().backward()


@pytest.mark.parametrize("kind, returned, text", [
    (quern.Error, [None], "custom_kernel: its gradient gave 1 tensors for 2 arguments"),
    (quern.Error, [None, Tensor([1, 2])], "argument 1 of a custom kernel is float32 of shape (2,), its gradient int32 of shape (2,)"),
    (quern.Error, [None, Tensor.ones(5)], "custom_kernel: argument 1 has shape (2,), its gradient (5,)"),
    (TypeError, 5, "expected a list of tensors and None from grad_fxn, got 5"),
    (TypeError, [None, "a"], "expected a list of tensors and None from grad_fxn, got [None, 'a']"),
], ids=["too few", "dtype", "shape", "no list", "no tensor"])
def test_wrong_gradients(kind, returned, text):
    x = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(kind, match=re.escape(text)):
        double(x, grad_fxn=lambda grads, _: returned).sum().backward()


def test_gradients_that_raise():
    def fail(grads, arguments):
        raise KeyError("mine")

    x = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(KeyError, match="mine"):
        double(x, grad_fxn=fail).sum().backward()
    assert x.grad is None


# ---- what is written, and who sees it


def accumulate(out, x):
    i = UOp.range(3, 0)
    return UOp.sink(store(out, i, load(out, i) + load(x, i), i))


def sum_and_difference(x, y):
    i = UOp.range(3, 0)
    a, b = load(x, i), load(y, i)
    stores = (UOp(Ops.STORE, None, (at(x, i), a + b)), UOp(Ops.STORE, None, (at(y, i), a - b)))
    return UOp.sink(UOp(Ops.END, None, (UOp(Ops.GROUP, None, stores), i)))


def pair():
    return Tensor([1.0, 2.0, 3.0]).realize(), Tensor([10.0, 20.0, 30.0]).realize()


def test_an_argument_is_assigned_afterwards():
    a, b = pair()
    o = Tensor.custom_kernel(a, b, fxn=accumulate)[0]
    a.assign(b * 2)
    assert o.tolist() == [11, 22, 33] and a.tolist() == [20, 40, 60] and o.tolist() == [11, 22, 33]


@pytest.mark.parametrize("kept", [False, True])
def test_two_kernels_that_write_what_the_other_reads(kept):
    a, b = pair()
    both = [*Tensor.custom_kernel(a, b, fxn=accumulate), *Tensor.custom_kernel(b, a, fxn=accumulate)]
    if not kept:
        del a, b
    Tensor.realize(*both)
    assert [t.tolist() for t in both] == [[11, 22, 33], [10, 20, 30], [11, 22, 33], [1, 2, 3]]
    assert not kept or (a.tolist() == [1, 2, 3] and b.tolist() == [10, 20, 30])


def test_results_that_nobody_asks_for_change_nothing():
    a, b = pair()
    total = Tensor.custom_kernel(a, b, fxn=sum_and_difference)[0]
    assert total.tolist() == [11, 22, 33] and a.tolist() == [1, 2, 3] and b.tolist() == [10, 20, 30]


def test_a_kernel_runs_once_for_all_its_results():
    a, b = pair()
    total, difference = Tensor.custom_kernel(a, b, fxn=sum_and_difference)
    twice = difference * 2
    del a, b, difference
    assert total.tolist() == [11, 22, 33] and twice.tolist() == [-18, -36, -54] and total.tolist() == [11, 22, 33]


def test_the_same_tensor_twice():
    def backwards(out, x):
        i = UOp.range(3, 0)
        return UOp.sink(store(out, i, load(x, 2 - i), i))

    a, _ = pair()
    assert Tensor.custom_kernel(a, a, fxn=backwards)[0].tolist() == [3, 2, 1] and a.tolist() == [1, 2, 3]
    left, right = Tensor.custom_kernel(a, a, fxn=sum_and_difference)
    assert left.tolist() == [2, 4, 6] and right.tolist() == [0, 0, 0] and a.tolist() == [1, 2, 3]


def test_a_tensor_is_assigned_what_a_kernel_made_of_it():
    a, b = pair()
    for i in range(1, 4):
        a.assign(Tensor.custom_kernel(a, b, fxn=accumulate)[0])
        assert a.tolist() == [1 + 10 * i, 2 + 20 * i, 3 + 30 * i]


def test_results_are_no_views_of_arguments():
    a, b = pair()
    _, read = Tensor.custom_kernel(a, b, fxn=accumulate)
    b.assign(b * 2)
    assert read.tolist() == [10, 20, 30] and b.tolist() == [20, 40, 60]
    read.assign(read + 1)
    assert read.tolist() == [11, 21, 31] and b.tolist() == [20, 40, 60]


@pytest.mark.parametrize("precompile", [False, True])
def test_in_functions(precompile):
    @quern.function(precompile=precompile)
    def f(x, y):
        of_parts = Tensor.custom_kernel(x + 1, y[1:4], fxn=accumulate)[0]
        return of_parts, Tensor.custom_kernel(x, y[:3], fxn=accumulate)[0], Tensor.custom_kernel(Tensor.zeros(3), x, fxn=accumulate)[0]

    x, y = Tensor([1.0, 2.0, 3.0]).realize(), Tensor([10.0, 20.0, 30.0, 40.0]).realize()
    for _ in range(2):
        assert [r.tolist() for r in f(x, y)] == [[22, 33, 44], [11, 22, 33], [1, 2, 3]]
    first, second = f(x, y), f(x + 1, y)
    assert [r.tolist() for r in (*second, *first)] == [[23, 34, 45], [12, 23, 34], [2, 3, 4], [22, 33, 44], [11, 22, 33], [1, 2, 3]]
    assert x.tolist() == [1, 2, 3]


def test_a_jit_whose_kernel_writes_into_what_it_holds_or_is_given():
    held, _ = pair()
    jitted = TinyJit(lambda x: (Tensor.custom_kernel(held, x, fxn=accumulate)[0] + 0, Tensor.custom_kernel(x, held, fxn=accumulate)[0] + 0))
    for i in range(5):
        x = Tensor([1.0 * i, 2.0, 3.0]).realize()
        first, second = jitted(x)
        assert first.tolist() == second.tolist() == [1 + i, 4, 6]
        assert held.tolist() == [1, 2, 3] and x.tolist() == [i, 2, 3]


# ---- kinds of ranges, and opts


def register_of(number=0, size=1):
    return UOp.parse(f"DEFINE_REG(; {number}):float32*[{size}]@REG")


def sum_in_a_register(kind, opts=(), started_inside=True):
    """out[i] = the sum of x[i, k], k by a range of that kind, added up in a register."""

    def body(out, x):
        i, k = UOp.range(4, 0), UOp.range(8, 1, kind)
        register = register_of()
        start = (register.after(i) if started_inside else register)[0].store(0.0)
        inside = register.after(start, k)
        done = inside[0].store(inside[0].load() + x[i * 8 + k].load()).end(k)
        return UOp.sink(out[i].store(register.after(done)[0].load()).end(i), arg=KernelInfo("sums", tuple(opts)))

    return body


DEVICES = ["CPU", "LINEAR", "INTERP"]


def rows(device):
    return Tensor.empty(4, device=device), Tensor.arange(32, device=device).float().realize()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["LOOP", "REDUCE"])
def test_a_sum_in_a_register(device, kind):
    assert Tensor.custom_kernel(*rows(device), fxn=sum_in_a_register(kind))[0].tolist() == [28, 92, 156, 220]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind, why", [
    ("GROUP_REDUCE", "by threads: DEFINE_REG 0 is stored by its steps and read behind it"),
    ("LOCAL", "by threads: DEFINE_REG 0 is stored by its steps and read behind it"),
    ("UNROLL", "at once: they share DEFINE_REG 0"),
    ("UPCAST", "at once: they share DEFINE_REG 0"),
])
def test_kinds_that_a_register_does_not_allow(device, kind, why):
    with pytest.raises(quern.Error, match=re.escape(f"kernel: the steps of range 1 (8 of kind {kind}) cannot be done {why}")):
        Tensor.custom_kernel(*rows(device), fxn=sum_in_a_register(kind))[0].tolist()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("opt", ["GROUP(1, 4)", "GROUPTOP(1, 8)", "UNROLL(1, 4)", "UPCAST(0, 2)", "LOCAL(0, 4)"])
def test_opts_that_a_register_does_not_allow(device, opt):
    with pytest.raises(quern.Error, match=re.escape(f"{opt} does not apply: its kernel has DEFINE_REG")):
        Tensor.custom_kernel(*rows(device), fxn=sum_in_a_register("REDUCE", [opt]))[0].tolist()


@pytest.mark.parametrize("device", DEVICES)
def test_opts_are_checked_everywhere(device):
    def more(opt):
        def body(out, x):
            i = UOp.range(3, 0)
            return UOp.sink(out[i].store(x[i].load() + 1.0).end(i), arg=KernelInfo("more", (opt,)))

        return Tensor.custom_kernel(Tensor.empty(3, device=device), Tensor([1.0, 2.0, 3.0], device=device), fxn=body)[0].tolist()

    with pytest.raises(quern.Error, match="UPCAST.0, 2. does not apply: 2 does not divide the 3 steps"):
        more("UPCAST(0, 2)")
    assert more("UPCAST(0, 3)") == [2, 3, 4]


@pytest.mark.parametrize("device", DEVICES)
def test_lanes_with_registers_of_their_own(device):
    def body(out, x):  # four rows at once, each with its place
        start_at, row, k = UOp.range(4, 0, "UPCAST"), UOp.range(4, 1, "UPCAST"), UOp.range(8, 2)
        register = register_of(0, 4)
        inside = register.after(register[start_at].store(0.0).end(start_at), k)
        done = inside[row].store(inside[row].load() + x[row * 8 + k].load()).end(row).end(k)
        last = UOp.range(4, 3, "UPCAST")
        return UOp.sink(out[last].store(register.after(done)[last].load()).end(last))

    assert Tensor.custom_kernel(*rows(device), fxn=body)[0].tolist() == [28, 92, 156, 220]


@pytest.mark.parametrize("device", DEVICES)
def test_what_steps_repeat(device):
    def doubled(x):
        i, k = UOp.range(4, 0), UOp.range(3, 1)
        return UOp.sink(x[i].store(x[i].load() * 2.0).end(k, i))

    def doubled_each_time(x):
        i, k = UOp.range(4, 0), UOp.range(3, 1)
        memory = x.after(k)
        return UOp.sink(memory[i].store(memory[i].load() * 2.0).end(i, k))

    x = Tensor([1.0, 2.0, 3.0, 4.0], device=device).realize()
    with pytest.raises(quern.Error, match="reads what it wrote, in steps of range 1 .3 of kind LOOP. that the LOAD does not depend on"):
        Tensor.custom_kernel(x, fxn=doubled)[0].tolist()
    assert Tensor.custom_kernel(x, fxn=doubled_each_time)[0].tolist() == [8, 16, 24, 32]


@pytest.mark.parametrize("device", DEVICES)
def test_threads_that_write_one_place(device):
    def body(out, x):
        i, k = UOp.range(4, 0, "GLOBAL"), UOp.range(8, 1, "LOCAL")
        return UOp.sink(out[i].store(out[i].load() + x[i * 8 + k].load()).end(i, k))

    with pytest.raises(quern.Error, match="range 1 .8 of kind LOCAL. cannot be done by threads: argument 0"):
        Tensor.custom_kernel(Tensor.zeros(4, device=device).contiguous(), rows(device)[1], fxn=body)[0].tolist()


@pytest.mark.parametrize("device", DEVICES)
def test_threads_inside_of_loops(device):
    def body(out, x):
        i, k = UOp.range(4, 0), UOp.range(8, 1, "THREAD")
        return UOp.sink(out[i * 8 + k].store(x[i * 8 + k].load() * 2.0).end(i, k))

    x = Tensor.arange(32, device=device).float().realize()
    assert Tensor.custom_kernel(Tensor.empty(32, device=device), x, fxn=body)[0].tolist() == [2.0 * i for i in range(32)]


@pytest.mark.parametrize("length", [64, 2048, 8192, 65536])
def test_reduces_of_one_kernel_share_local_memory(length):
    """They fit into the 32 KiB that a workgroup of LINEAR has."""
    values = np.random.default_rng(1).integers(-4, 5, (2, length)).astype(np.float32)
    x = Tensor(values, device="LINEAR").realize()
    found = Tensor.stack(x.mean(1), x.var(1), x.max(1), x.min(1), (x * x).sum(1), x.abs().max(1)).numpy()
    expected = [values.mean(1), values.var(1, ddof=1), values.max(1), values.min(1), (values * values).sum(1), np.abs(values).max(1)]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_an_internal_error_is_an_error():
    assert issubclass(quern.InternalError, quern.Error)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("factor", [3, 5])
def test_the_last_step_that_writes_a_place_wins(device, factor):
    def body(out, x):
        i, k = UOp.range(12, 0), UOp.range(4, 1)
        return UOp.sink(out[(i * 4 + k) * factor % 48].store(x[i * 4 + k].load()).end(i, k))

    values = np.arange(48, dtype=np.float32)
    expected = np.full(48, -1, np.float32)
    for i in range(48):
        expected[i * factor % 48] = values[i]
    out, x = Tensor.full((48,), -1.0, device=device).contiguous(), Tensor(values, device=device).realize()
    np.testing.assert_array_equal(Tensor.custom_kernel(out, x, fxn=body)[0].numpy(), expected)

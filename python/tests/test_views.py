"""What is written to a tensor is seen through its views, and the other way round, and by nothing else."""

import numpy as np
import pytest

from quern import Tensor, TinyJit, dtypes

WAYS = {
    "memory": lambda: Tensor(np.arange(12, dtype=np.float32).reshape(3, 4)),
    "realized": lambda: (Tensor(np.arange(12, dtype=np.float32).reshape(3, 4)) + 0).realize(),
    "computed": lambda: Tensor(np.arange(12, dtype=np.float32).reshape(3, 4)) + 0,
    "constant": lambda: Tensor.full((3, 4), 2.0),
    "contiguous": lambda: Tensor.zeros(3, 4).contiguous(),
    "arange": lambda: Tensor.arange(12).reshape(3, 4).float(),
}

VIEWS = {
    "slice": lambda x: x[1:, :2],
    "element": lambda x: x[2, 3],
    "row": lambda x: x[1],
    "step": lambda x: x[::2, ::3],
    "step behind": lambda x: x[:, 1::3],
    "backwards": lambda x: x[::-1, ::-2],
    "reshape": lambda x: x.reshape(2, 6),
    "transpose": lambda x: x.T,
    "flip": lambda x: x[::-1],
    "new axis": lambda x: x[:, None, 1:3],
}



@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("view", VIEWS)
def test_writing_a_view_writes_the_tensor(way, view):
    x = WAYS[way]()
    expected = x.numpy().copy()
    x = WAYS[way]()
    v = VIEWS[view](x)
    seen = VIEWS[view](expected)
    v += 5
    if view == "element":
        expected[2, 3] += 5
    else:
        seen += 5
    assert np.array_equal(x.numpy(), expected)
    assert np.array_equal(v.numpy(), VIEWS[view](expected))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("view", VIEWS)
def test_writing_the_tensor_writes_its_views(way, view):
    x = WAYS[way]()
    v = VIEWS[view](x)
    new = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    x.assign(Tensor(new))
    assert np.array_equal(v.numpy(), VIEWS[view](new))
    x[1] = 7
    new[1] = 7
    assert np.array_equal(v.numpy(), VIEWS[view](new))
    assert np.array_equal(x.numpy(), new)


@pytest.mark.parametrize("way", WAYS)
def test_views_of_views_and_of_what_is_gone(way):
    x = WAYS[way]()
    expected = x.numpy().copy()
    x = WAYS[way]()
    a, b = x.reshape(12)[:8], x.reshape(2, 6)[1]
    a[6:].assign(-1)
    expected.reshape(12)[6:8] = -1
    assert np.array_equal(b.numpy(), expected.reshape(2, 6)[1])
    assert np.array_equal(x.numpy(), expected)
    del x
    b += 1
    expected.reshape(2, 6)[1] += 1
    assert np.array_equal(a.numpy(), expected.reshape(12)[:8])


@pytest.mark.parametrize("way", WAYS)
def test_equal_values_are_not_views_of_each_other(way):
    x, y = WAYS[way](), WAYS[way]()
    before = y.numpy().copy()
    part = y[:2]
    Tensor.realize(x, y)
    x[:2].assign(9)
    assert np.array_equal(y.numpy(), before)
    assert np.array_equal(part.numpy(), before[:2])
    part.assign(8)
    assert (y.numpy()[:2] == 8).all()
    assert (x.numpy()[:2] == 9).all()


def test_equal_values_computed_of_one_tensor():
    a = Tensor([1.0, 2, 3, 4])
    x, y = a + 1, a + 1
    part = y[:2]
    Tensor.realize(x, y)
    part.assign(0)
    assert x.tolist() == [2, 3, 4, 5]
    assert y.tolist() == [0, 0, 4, 5]
    x, y = a * 2, a * 2
    x[2:].assign(-1)
    assert y.tolist() == [2, 4, 6, 8]


def test_detached_tensors_share_memory():
    p = Tensor([1.0, 2, 3], requires_grad=True)
    d = p.detach()
    d += 1
    assert p.tolist() == [2, 3, 4]
    p.assign([5.0, 6, 7])
    assert d.tolist() == [5, 6, 7]
    d.realize()
    d[0] = 0
    assert p.tolist() == [0, 6, 7]
    (p * d).sum().backward()
    assert p.grad.tolist() == [0, 6, 7]
    y = p * 2
    e = y.detach()
    e[1] = 100
    assert y.tolist() == [0, 100, 14]


def test_no_gradients_go_through_what_is_written_to_a_detached_tensor():
    w = Tensor([1.0, 2], requires_grad=True)
    p = Tensor([3.0, 4], requires_grad=True)
    p.detach().assign(w * 10)
    (p * p).sum().backward()
    assert w.grad is None or w.grad.tolist() == [0, 0]
    assert p.tolist() == [10, 20]


def test_gradients_go_through_writes_to_views():
    x = Tensor([1.0, 2, 3, 4], requires_grad=True)
    y = x * 3
    v = y[1:3]
    v *= 10
    y.sum().backward()
    assert y.tolist() == [3, 60, 90, 12]
    assert x.grad.tolist() == [3, 30, 30, 3]


PARTS = {
    "element": lambda y: y[2],
    "reshape": lambda y: y.reshape(2, 2),
    "permute": lambda y: y.reshape(2, 2).permute(1, 0),
    "unsqueeze": lambda y: y.unsqueeze(0),
    "slice": lambda y: y[1:3],
    "steps": lambda y: y[::2],
    "backwards": lambda y: y.flip(0),
    "detach": lambda y: y.detach(),
    "bits": lambda y: y.bitcast("int32").bitcast("float32"),
}

RUNS = {
    "realize": lambda y, v: v.realize(),
    "realize both": lambda y, v: Tensor.realize(y, v),
    "realize both, the view first": lambda y, v: Tensor.realize(v, y),
    "read": lambda y, v: v.numpy(),
    "item": lambda y, v: v.sum().item(),
}


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("part", PARTS)
def test_views_of_what_is_computed_stay_views(part, run):
    x = Tensor([0.0, 1, 2, 3]).realize()
    y = x * 2 + 1
    v, expected = PARTS[part](y), np.array([1.0, 3, 5, 7], np.float32)
    seen = {"element": expected[2:3], "slice": expected[1:3], "steps": expected[::2]}.get(part, expected)
    RUNS[run](y, v)
    v.assign(Tensor.full(v.shape, -3.0))
    seen[...] = -3
    assert np.array_equal(y.numpy(), expected)
    y += 1
    assert (v.numpy() == -2).all()


@pytest.mark.parametrize("part", PARTS)
def test_views_of_what_is_computed_stay_views_when_what_it_reads_is_written(part):
    x = Tensor([0.0, 1, 2, 3]).realize()
    y = x * 2 + 1
    v, expected = PARTS[part](y), np.array([1.0, 3, 5, 7], np.float32)
    seen = {"element": expected[2:3], "slice": expected[1:3], "steps": expected[::2]}.get(part, expected)
    x[1] = -2
    x.realize()
    v.assign(Tensor.full(v.shape, -3.0))
    seen[...] = -3
    assert np.array_equal(y.numpy(), expected)


def test_a_part_of_what_nobody_else_sees_is_computed_alone():
    v = (Tensor.arange(1000).reshape(10, 100).float().contiguous() * 2)[3]
    v.realize()
    assert v.uop.base.shape == (100,) and v.tolist() == [2.0 * i for i in range(300, 400)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_bits_are_written(way, dtype):
    x = WAYS[way]()
    expected = x.numpy().copy()
    x = WAYS[way]()
    bits = x[1:, ::2].bitcast(dtype)
    new = np.array([[1.5, -2.25], [0.5, 1e30]], np.float32)
    bits.assign(Tensor(new.view(dtype)))
    expected[1:, ::2] = new
    assert np.array_equal(x.numpy(), expected)
    bits[0, 1] = 0
    expected[1, 2] = 0
    assert np.array_equal(x.numpy(), expected)
    x += 1
    assert np.array_equal(bits.numpy(), np.ascontiguousarray((expected + 1)[1:, ::2]).view(dtype))


def test_views_of_constants_are_written():
    for make in (lambda: Tensor.zeros(4), lambda: Tensor.ones(4), lambda: Tensor.full((4,), 2.0), lambda: Tensor.arange(4).float()):
        expected = make().numpy().copy()
        x, other = make(), make()
        v = x[1:3]
        v.realize()
        v.assign(9)
        x.detach()[0] = 8
        changed = expected.copy()
        changed[:3] = [8, 9, 9]
        assert np.array_equal(x.numpy(), changed) and np.array_equal(other.numpy(), expected)


def test_a_jit_returns_views():
    @TinyJit
    def f(x):
        y = (x * 2).realize()
        return y, y[1:], y.detach(), y.bitcast("int32")

    for i in range(4):
        x = Tensor([1.0 + i, 2, 3]).realize()
        y, part, detached, bits = f(x)
        expected = np.array([2.0 + 2 * i, 4, 6], np.float32)
        assert np.array_equal(y.numpy(), expected) and np.array_equal(part.numpy(), expected[1:])
        assert np.array_equal(detached.numpy(), expected) and np.array_equal(bits.numpy(), expected.view(np.int32))


def test_an_expanded_view_is_not_written():
    for way in WAYS.values():
        x = way()
        e = x.reshape(3, 4, 1).expand(3, 4, 2)
        with pytest.raises(RuntimeError, match=r"expanded view.*clone\(\) it first"):
            e += 1
        x += 1
        assert np.array_equal(e.numpy()[:, :, 1], x.numpy())


# Operations that compute nothing here, as axes have one element or the dtype is one of integers.
OWN = {
    "sum": lambda x: x.sum(1),
    "sum of none": lambda x: x[:1].sum(),
    "max": lambda x: x.max(1, keepdim=True),
    "prod": lambda x: x.prod(1),
    "cat": lambda x: Tensor.cat(x),
    "cat with nothing": lambda x: Tensor.cat(Tensor.empty(0, 1, dtype=x.dtype), x),
    "stack": lambda x: Tensor.stack(x),
    "cumsum": lambda x: x.cumsum(1),
    "pad": lambda x: x.pad((0, 0, 0, 0)),
    "pad in pairs": lambda x: x.pad(((0, 0), (0, 0))),
    "pad, taking away": lambda x: x.pad((0, 0, -1, 0)),
    "repeat": lambda x: x.repeat(1, 1),
    "repeat_interleave": lambda x: x.repeat_interleave(1),
    "round": lambda x: x.round(),
    "floor": lambda x: x.floor(),
    "abs": lambda x: x.abs(),
    "dropout": lambda x: x.dropout(0.5),
    "roll": lambda x: x.roll(0, 0),
    "sort": lambda x: x.sort(1)[0],
    "topk": lambda x: x.topk(1, 1)[0],
    "einsum": lambda x: Tensor.einsum("ij->ij", x),
    "max_pool2d": lambda x: x.reshape(1, 1, 3, 1).max_pool2d((1, 1)),
    "scatter": lambda x: x.scatter(0, Tensor.empty(0, 1, dtype="int32"), x[:0]),
    "plus nothing": lambda x: x + 0,
}


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
@pytest.mark.parametrize("name", OWN)
def test_a_result_is_no_view_of_what_it_was_computed_of(name, dtype):
    for x in (Tensor([[1], [2], [3]], dtype=dtype).realize(), Tensor([[1], [2], [3]], dtype=dtype) * 1):
        result = OWN[name](x)
        kept = result.tolist()
        result = OWN[name](x)
        x += 1
        assert result.tolist() == kept
        result *= 2
        assert x.tolist() == [[2], [3], [4]]


def test_views_keep_their_values_in_loops():
    kept = Tensor.zeros(4, 2)
    for i in range(4):
        kept[i].assign(Tensor([float(i), float(i * i)]))
    assert kept.tolist() == [[0, 0], [1, 1], [2, 4], [3, 9]]
    rows = [kept[i] for i in range(4)]
    for row in rows:
        row.assign(row + 1)
    assert kept.tolist() == [[1, 1], [2, 2], [3, 5], [4, 10]]
    assert kept.dtype == dtypes.float32


def test_files_are_written_through_views(tmp_path):
    path = tmp_path / "file"
    t = Tensor.empty(24, dtype="uint8", device=f"disk:{path}")
    t[0:8].bitcast("int64").assign([77])
    floats = t[8:].bitcast("float32")
    floats.assign(Tensor([1.5, 2.5, 3.5, 4.5]))
    floats[::2] = 0
    floats.bitcast("int32")[1:2].assign(Tensor(np.array([9.0], np.float32).view(np.int32)))
    floats += 1
    t[0] += 1
    t.realize()
    data = path.read_bytes()
    assert np.frombuffer(data[:8], np.int64) == [78] and np.frombuffer(data[8:], np.float32).tolist() == [1, 10, 1, 5.5]
    assert floats.to("CPU").tolist() == [1, 10, 1, 5.5] and t[8:12].bitcast("float32").item() == 1


def test_what_is_computed_goes_to_files(tmp_path):
    x = Tensor.arange(12).reshape(3, 4).float().to(f"disk:{tmp_path / 'x'}")
    x.T[1] = Tensor([7.0, 8, 9])
    x[[0, 2]] = 5
    assert x.tolist() == [[5, 5, 5, 5], [4, 8, 6, 7], [5, 5, 5, 5]]
    y = Tensor.empty(2, device=f"disk:{tmp_path / 'y'}").assign(x[1, 1:3]).realize()
    assert np.fromfile(tmp_path / "y", np.float32).tolist() == [8, 6]
    before = y.to("CPU") * 2
    y.assign(0).realize()
    assert before.tolist() == [16, 12] and y.tolist() == [0, 0]

"""What scripts written for tinygrad rely on, beside the functions themselves."""

import numpy as np
import pytest

import quern
from quern import Context, Tensor, helpers, nn


@pytest.mark.parametrize("name, argument", [
    ("reshape", {"shape": (3, 2)}), ("view", {"shape": (6,)}), ("permute", {"order": (1, 0)}), ("flip", {"axis": 1}),
    ("repeat", {"repeats": (2, 1)}), ("shrink_to", {"shape": (1, 2)}), ("pad_to", {"shape": (3, 4), "value": 7}),
])
def test_sizes_by_name_as_a_tuple_and_one_by_one(name, argument):
    x = Tensor.arange(6).reshape(2, 3)
    (key, value), *rest = argument.items()
    rest = dict(rest)
    by_name = getattr(x, name)(**argument).tolist()
    assert getattr(x, name)(value, **rest).tolist() == by_name
    many = value if isinstance(value, tuple) else (value,)
    assert getattr(x, name)(*many, **rest).tolist() == by_name


def test_expand_by_name():
    assert Tensor([[1], [2]]).expand(shape=(2, 3)).tolist() == [[1, 1, 1], [2, 2, 2]]
    assert Tensor(5).reshape().shape == ()
    with pytest.raises(TypeError):
        Tensor([1, 2]).reshape(2, shape=(2,))


@pytest.mark.parametrize("size", [0, 2, 4, 6])
def test_selection_of_a_size(size):
    x = np.array([[3, 0, 5], [0, 2, 9]])
    mask = x > 2
    values = list(x[mask])[:size]
    expected = values + [-1] * (size - len(values))
    assert Tensor(x).masked_select(Tensor(mask), size=size, fill_value=-1).tolist() == expected
    rows = np.argwhere(x).tolist()[:size]
    assert Tensor(x).nonzero(size=size, fill_value=-2).tolist() == rows + [[-2, -2]] * (size - len(rows))


def test_selection_of_nothing():
    x = Tensor.zeros(0)
    assert x.masked_select(x > 0, size=2, fill_value=7).tolist() == [7, 7]
    assert x.nonzero(size=2).tolist() == [[0], [0]]
    with pytest.raises(quern.Error, match="-1"):
        Tensor([1]).nonzero(size=-1)


def test_words_about_memory_change_nothing():
    assert Tensor.full((2,), 3, buffer=False).tolist() == Tensor.ones(2, buffer=False).mul(3).tolist()
    Tensor.manual_seed(1)
    first = Tensor.rand(3, contiguous=False).tolist()
    Tensor.manual_seed(1)
    assert Tensor.rand(3).realize(do_update_stats=False).tolist() == first
    assert Tensor.randperm(4, "CPU", quern.dtypes.int64).dtype == quern.dtypes.int64


# ---- gradients


def test_gradients_where_nothing_was_said():
    x, y = Tensor([[2.0, 0, -2.0]]), Tensor.eye(3)
    z = x.matmul(y)
    z.sum().backward()
    assert x.grad.tolist() == [[1, 1, 1]]
    assert y.grad.tolist() == [[2, 2, 2], [0, 0, 0], [-2, -2, -2]]
    assert z.grad.tolist() == [[1, 1, 1]] and x.requires_grad is None


def test_only_what_requires_gradients_gets_them_if_anything_does():
    x, w = Tensor([1.0, 2]), Tensor([3.0, 4], requires_grad=True)
    (x * w).sum().backward()
    assert x.grad is None and w.grad.tolist() == [1, 2]


def test_a_tensor_that_refuses_gets_none():
    x, y = Tensor([1.0]), Tensor([2.0]).is_param_(False)
    (x * y).sum().backward()
    assert x.grad.item() == 2 and y.grad is None and not y.is_param and x.is_param


# ---- optimisers


class Halving(nn.optim.Optimizer):
    """Subtracts lr times the gradient, half of it at each step."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, lr)
        self.scale = Tensor([1.0]).realize()
        self.seen = self._new_optim_param()

    def _step(self, params, grads):
        changes = [g * self.lr * self.scale for g in grads]
        self.scale.assign(self.scale / 2)
        return changes, [self.scale]


def test_an_optimizer_in_python():
    p = Tensor([1.0, 2.0])
    optimiser = Halving([p], lr=0.5)
    assert optimiser.params[0] is p or optimiser.params[0].tolist() == [1, 2]
    for _ in range(2):
        optimiser.zero_grad()
        (p * Tensor([1.0, 10.0])).sum().backward()
        optimiser.step()
    np.testing.assert_allclose(p.numpy(), [1 - 0.75, 2 - 7.5])
    assert isinstance(optimiser, nn.optim.Optimizer) and optimiser.seen[0].tolist() == [0, 0]
    assert {"lr", "scale", "params.0", "seen.0"} <= set(nn.state.get_state_dict(optimiser))


def test_an_optimizer_without_a_step():
    p = Tensor([1.0])
    optimiser = nn.optim.Optimizer([p], 0.1)
    p.sum().backward()
    with pytest.raises(NotImplementedError):
        optimiser.step()

    class Few(nn.optim.Optimizer):
        def _step(self, params, grads):
            return [], []

    class Wrong(nn.optim.Optimizer):
        def _step(self, params, grads):
            return 3

    for kind, error in ((Few, quern.Error), (Wrong, TypeError)):
        q = Tensor([1.0])
        optimiser = kind([q], 0.1)
        q.sum().backward()
        with pytest.raises(error):
            optimiser.step()


def test_the_learning_rate_is_a_tensor():
    p = Tensor([0.0])
    optimiser = nn.optim.SGD([p], lr=0.5)
    assert optimiser.lr.shape == (1,) and optimiser.lr.item() == 0.5
    optimiser.lr.assign(optimiser.lr * 0.5).realize()
    assert optimiser.lr.item() == 0.25
    optimiser.lr = Tensor(0.125)
    assert optimiser.lr.item() == 0.125
    optimiser.lr = 2.0
    p.sum().backward()
    optimiser.step()
    assert p.item() == -2
    with pytest.raises(TypeError):
        optimiser.lr = "fast"


def test_the_learning_rate_in_a_jit():
    p = Tensor([0.0]).realize()
    optimiser = nn.optim.SGD([p], lr=1.0)

    @quern.TinyJit
    def step():
        optimiser.zero_grad()
        loss = p.sum().backward()
        optimiser.step()
        return loss

    for lr in (1, 1, 1, 0.5, 0.25):
        optimiser.lr = lr
        step()
    assert p.item() == -3.75


@pytest.mark.parametrize("make", [
    lambda p: nn.optim.SGD(p, lr=0.1, momentum=0.9, classic=True, device=None, fused=True),
    lambda p: nn.optim.LARS(p, lr=0.1, classic=True, tcoef=0.001, fused=False),
    lambda p: nn.optim.Muon(p, lr=0.1, fused=True), lambda p: nn.optim.Adam(p, device="CPU"), lambda p: nn.optim.AdamW(p, fused=True),
    lambda p: nn.optim.LAMB(p, adam=True, fused=True),
])
def test_arguments_of_optimizers(make):
    p = Tensor.ones(2, 2).to("CPU").realize()
    optimiser = make([p])
    p.square().sum().backward()
    optimiser.step()
    assert (p.numpy() < 1).all()
    with pytest.raises(quern.Error, match="device"):
        nn.optim.SGD([p], device="NULL")


def test_classic_momentum_keeps_the_rate_of_earlier_steps():
    p = Tensor([0.0])
    optimiser = nn.optim.SGD([p], lr=1.0, momentum=0.5, classic=True)
    for lr in (1.0, 0.0):
        optimiser.lr = lr
        optimiser.zero_grad()
        p.sum().backward()
        optimiser.step()
    assert p.item() == -1.5


def test_a_group():
    p, q = Tensor([1.0]), Tensor([1.0])
    group = nn.optim.OptimizerGroup(nn.optim.SGD([p], lr=0.5), nn.optim.SGD([q], lr=0.25))
    (p + q).sum().backward()
    group.step()
    assert (p.item(), q.item()) == (0.5, 0.75) and len(group.params) == 2 and group[1].lr.item() == 0.25
    group.zero_grad()
    assert p.grad is None and q.grad is None
    with pytest.raises(TypeError):
        nn.optim.OptimizerGroup(3)


# ---- around


def test_training_by_a_context():
    with Context(TRAINING=1):
        assert Tensor.training and helpers.TRAINING == 1
        with Context(TRAINING=0):
            assert not Tensor.training
    assert not Tensor.training


def test_digits():
    images, labels, test_images, test_labels = nn.datasets.digits()
    assert images.shape == (1437, 1, 8, 8) and labels.shape == (1437,) and test_images.shape == (360, 1, 8, 8)
    assert sorted(set(test_labels.tolist())) == list(range(10))
    assert images.min().item() == 0 and images.max().item() == 1


def test_a_schedule_is_a_table():
    x = Tensor.rand(8, 8).realize()
    schedule = (x @ x).softmax().schedule()
    assert len(schedule) == 2 and schedule[0].kind == "kernel"  # the product, and all of softmax
    assert schedule[0].device == x.device and schedule[0].buffers == 2 and "kept" in str(schedule)
    shown = schedule._repr_html_()
    assert shown.startswith("<table>") and shown.count("<tr>") == 3


def test_small_helpers():
    assert helpers.prod((2, 3, 4)) == 24 and helpers.flatten([[1], [2, 3]]) == [1, 2, 3]
    assert helpers.dedup([3, 1, 3]) == [3, 1] and helpers.argfix((1, 2)) == helpers.argfix(1, 2) == (1, 2)
    assert helpers.argsort((3, 1, 2)) == (1, 2, 0) and helpers.all_same([1, 1]) and helpers.make_tuple(2, 3) == (2, 2, 2)
    assert helpers.ceildiv(7, 2) == 4 and helpers.round_up(7, 4) == 8
    assert helpers.partition([1, 2, 3], lambda x: x > 1) == ([2, 3], [1])
    assert helpers.colored("x", "red") == "\033[31mx\033[0m" and helpers.colored("x", None) == "x"
    assert helpers.fully_flatten([1, [2, (3,)]]) == [1, 2, 3]


def test_progress(capsys):
    assert list(helpers.tqdm([1, 2], desc="two")) == [1, 2]
    shown = capsys.readouterr().err
    assert "two: " in shown and "2/2" in shown
    assert sum(helpers.trange(3, disable=True)) == 3 and capsys.readouterr().err == ""
    with helpers.Timing("took "):
        pass
    assert capsys.readouterr().out.startswith("took ")


def test_fetch_keeps_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "a.bin"
    file.write_bytes(b"abc")
    got = quern.fetch(file.as_uri())
    assert got.read_bytes() == b"abc"
    file.unlink()
    assert quern.fetch(file.as_uri()) == got and quern.fetch("./x").name == "x"
    with pytest.raises(ValueError):
        other = tmp_path / "b.bin"
        other.write_bytes(b"abc")
        quern.fetch(other.as_uri(), sha256="0" * 64)


def test_archives(tmp_path):
    import tarfile
    import zipfile

    (tmp_path / "a.txt").write_bytes(b"hello")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "a.txt", "x/a.txt")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(tmp_path / "a.txt", "x/a.txt")
    for found in (nn.state.tar_extract(tmp_path / "a.tar.gz"), nn.state.tar_extract(Tensor((tmp_path / "a.tar.gz").read_bytes())),
                  nn.state.zip_extract(str(tmp_path / "a.zip"))):
        assert bytes(found["x/a.txt"].tolist()) == b"hello" and found["x/a.txt"].dtype == quern.dtypes.uint8


def test_files_as_tensors(tmp_path):
    nn.state.safe_save({"w": Tensor([1.0, 2])}, tmp_path / "w.safetensors")
    assert nn.state.safe_load(Tensor(tmp_path / "w.safetensors"))["w"].tolist() == [1, 2]
    with pytest.raises(quern.Error, match="path"):
        nn.state.safe_load(Tensor([1, 2]))


def test_a_jit_with_options():
    @quern.TinyJit(prune=True)
    def double(x):
        return (x * 2).realize()

    assert [double(Tensor([i]).realize()).item() for i in range(4)] == [0, 2, 4, 6]


def test_dtypes_and_devices():
    assert quern.dtypes.finfo("bfloat16") == (8, 7) and quern.dtypes.finfo(quern.dtypes.float64) == (11, 52)
    quern.Device[quern.Device.DEFAULT].synchronize()
    assert Tensor([1, 2]).const_like(3).tolist() == [3, 3]


def test_the_command(capsys):
    from quern.__main__ import main

    assert main() == 0
    shown = capsys.readouterr().out
    assert quern.__version__ in shown and "CPU" in shown and "works" in shown

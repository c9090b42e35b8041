"""Values put into places: what it costs, gradients, and where else it has to work."""

import re

import numpy as np
import pytest

import quern
from quern import Tensor, TinyJit, nn


def random(*shape, dtype="float32"):
    return np.random.default_rng(len(shape) + sum(shape)).standard_normal(shape).astype(dtype)


def kernels(tensor):
    """The names of what is run for a tensor."""
    return re.findall(r"^kernel (\S+)", str(tensor.schedule()), re.MULTILINE)


def test_only_the_rows_that_are_named_are_written():
    x = Tensor(random(500, 40)).realize()
    rows, value = Tensor([3, -1, 3, 77]).realize(), Tensor(random(4, 40)).realize()
    x[rows] = value
    assert kernels(x) == ["put_1_4_40_500"]
    expected = random(500, 40)
    for row, v in zip([3, 499, 3, 77], random(4, 40)):
        expected[row] = v
    np.testing.assert_array_equal(x.numpy(), expected)


@pytest.mark.parametrize("at", [lambda i: (i, slice(2, 9)), lambda i: (i, i), lambda i: (slice(None, None, 2), i), lambda i: (7, i), lambda i: (i, None, i)],
                         ids=["slice", "two", "steps", "integer", "new axis"])
def test_places_are_counted_not_searched(at):
    x = Tensor(random(100, 50)).realize()
    x[at(Tensor([3, 1]).realize())] = 5.0
    names = kernels(x)
    assert len(names) <= 2 and names[-1].startswith("put_") and not any(name.startswith("r") for name in names)
    expected = random(100, 50)
    expected[at(np.array([3, 1]))] = 5
    np.testing.assert_array_equal(x.numpy(), expected)


def test_a_scatter_is_a_copy_and_a_kernel():
    x, index, source = Tensor(random(300)).realize(), Tensor(np.arange(1000) % 300).realize(), Tensor(random(1000)).realize()
    for reduce in ("sum", "prod", "amax", "amin"):
        assert kernels(x.scatter_reduce(0, index, source, reduce)) == ["e_300", "put_1_1000_1_300"]


def test_the_gradient_of_an_embedding_is_put_row_by_row():
    weight, tokens = Tensor(random(1000, 24)).realize(), Tensor([5, 1, 5, 999, 0, 5]).realize()
    (gradient,) = (weight[tokens] * Tensor(random(6, 24))).sum().gradient(weight)
    assert kernels(gradient)[-1] == "put_1_6_24_1000"
    expected = np.zeros((1000, 24), np.float32)
    np.add.at(expected, tokens.numpy(), random(6, 24))
    np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-6)


def test_what_is_put_may_be_read_from_the_same_memory():
    x = Tensor(np.arange(6.0)).realize()
    x[Tensor([5, 4, 3, 2, 1, 0])] = x
    assert x.tolist() == [5, 4, 3, 2, 1, 0]
    x[Tensor([0, 1, 2])] = x[3:]
    assert x.tolist() == [2, 1, 0, 2, 1, 0]
    y = x * 2
    x[Tensor([1, 2])] = x[Tensor([0, 1])] * 10
    assert x.tolist() == [2, 20, 10, 2, 1, 0] and y.tolist() == [4, 2, 0, 4, 2, 0]
    i = Tensor([2, 0, 1]).realize()
    i[i] = i
    assert i.tolist() == [0, 1, 2]


def test_views_are_written():
    x = Tensor(np.arange(12.0)).reshape(3, 4).realize()
    x[1:][Tensor([-1])] = -1
    x.T[Tensor([0])] = 50
    assert x.tolist() == [[50, 1, 2, 3], [50, 5, 6, 7], [50, -1, -1, -1]]


def test_indices_without_a_sign():
    x = Tensor([1.0, 2, 3, 4]).realize()
    index = Tensor(np.array([2**64 - 1, 3, 4, 2**63], np.uint64))
    assert x.scatter(0, index, Tensor([5.0, 6, 7, 8])).tolist() == [1, 2, 3, 6]
    x[Tensor([255, 1, 1], dtype="uint8")] = 9.0
    assert x.tolist() == [1, 9, 3, 4]


def test_masks_with_a_number():
    x = Tensor(np.arange(6.0)).reshape(2, 3).realize()
    mask = Tensor([True, False])
    x[mask] = -1
    x[..., Tensor([False, False, True])] = Tensor(9.0)
    x[:, Tensor([False, True, False])] = 7
    assert x.tolist() == [[-1, 7, 9], [3, 7, 9]]
    with pytest.raises(quern.IndexError, match="mask of shape"):
        x[Tensor([True, False, True])] = 1


def test_in_a_jit():
    x, expected = Tensor.zeros(20, 3).contiguous().realize(), np.zeros((20, 3), np.float32)

    @TinyJit
    def step(rows, value):
        x[rows] = value
        return Tensor.zeros(4).scatter_reduce(0, rows % 4, value.sum(1), "sum").realize(), x.realize()

    generator = np.random.default_rng(0)
    for _ in range(5):
        rows, value = generator.integers(-20, 20, 6), generator.integers(-9, 9, (6, 3)).astype(np.float32)
        sums, _ = step(Tensor(rows).realize(), Tensor(value).realize())
        for row, v in zip(rows, value):
            expected[row] = v
        np.testing.assert_array_equal(x.numpy(), expected)
        np.testing.assert_array_equal(sums.numpy(), np.bincount(rows % 4, value.sum(1), 4))


@pytest.mark.parametrize("precompile", [False, True])
def test_in_a_function(precompile):
    @quern.function(precompile=precompile)
    def twice(x, index, source):
        return x.scatter_reduce(0, index, source, "sum") * 2

    index, source = Tensor([0, 0, 3]).realize(), Tensor([1.0, 2.0, 3.0]).realize()
    one, other = twice(Tensor([0.0, 1, 2, 3]).realize(), index, source), twice(Tensor.ones(4).contiguous().realize(), index, source)
    assert (one + other).tolist() == [14, 4, 6, 20] and one.tolist() == [6, 2, 4, 12]
    x = Tensor([1.0, 2, 3, 4]).realize()
    (gradient,) = (twice(x, index, source) ** 2).sum().gradient(x)
    assert gradient.tolist() == [32, 16, 24, 56]


def test_training_an_embedding():
    embedding, layer = nn.Embedding(12, 5), nn.Linear(5, 12)
    optimiser = nn.optim.SGD([embedding.weight, layer.weight, layer.bias], lr=0.5)
    tokens, wanted = Tensor(np.arange(12)).realize(), Tensor(np.arange(12) * 7 % 12).realize()

    @TinyJit
    def step():
        optimiser.zero_grad()
        loss = layer(embedding(tokens)).sparse_categorical_crossentropy(wanted).backward()
        optimiser.step()
        return loss.realize()

    with Tensor.train():
        losses = [step().item() for _ in range(40)]
    assert losses[-1] < 0.9 * losses[0]


def test_second_gradients():
    w = Tensor(random(5, 3, dtype="float64"))
    (first,) = (w[Tensor([1, 1, 4])] ** 3).sum().gradient(w)
    (second,) = (first**2).sum().gradient(w)
    often = np.array([0, 2, 0, 0, 1])[:, None]
    np.testing.assert_allclose(second.numpy(), 2 * (3 * w.numpy() ** 2 * often) * 6 * w.numpy() * often)


def test_gradients_of_ties_and_zeros():
    x, source, index = Tensor([1.0, 0, 2]), Tensor([1.0, 3, 3, 0, 5]), Tensor([0, 1, 1, 1, 9])
    of_x, of_source = (x.scatter_reduce(0, index, source, "amax") * Tensor([1.0, 10, 100])).sum().gradient(x, source)
    assert of_x.tolist() == [0.5, 0, 100] and of_source.tolist() == [0.5, 5, 5, 0, 0]
    x = Tensor([1.0, 2, 2])
    of_x, of_source = (x.scatter_reduce(0, index, source, "prod") * Tensor([1.0, 10, 100])).sum().gradient(x, source)
    assert of_x.tolist() == [1, 0, 100] and of_source.tolist() == [1, 0, 0, 180, 0]
    of_x, of_source = (x.scatter(0, index, source) * Tensor([1.0, 10, 100])).sum().gradient(x, source)
    assert of_x.tolist() == [0, 0, 100] and of_source.tolist() == [1, 0, 0, 10, 0]  # the last one stayed


def test_sharded():
    devices, x, index = ("CPU", "INTERP"), random(4, 6), np.arange(12).reshape(4, 3) % 6
    ours = Tensor(x).shard(devices, 0)
    whole = Tensor(x).scatter_reduce(1, Tensor(index), Tensor(x), "sum").numpy()
    np.testing.assert_allclose(ours.scatter_reduce(1, Tensor(index).shard(devices, 0), ours, "sum").numpy(), whole, rtol=1e-6)
    w, tokens = Tensor(random(10, 4)), Tensor([3, 3, 1, 9])
    (alone,) = (w[tokens] ** 2).sum().gradient(w)
    w = w.shard(devices)
    (together,) = (w[tokens.shard(devices, 0)] ** 2).sum().gradient(w)
    np.testing.assert_allclose(together.numpy(), alone.numpy(), rtol=1e-6)


def test_rows_of_no_axes_and_of_none():
    x = Tensor(random(3, 2))
    nothing = Tensor(np.zeros(0, np.int64))
    for result in (x.index_add(0, nothing, Tensor.zeros(0, 2)), x.index_copy(0, nothing, Tensor.zeros(0, 2)), x.index_fill(1, nothing, 3)):
        np.testing.assert_array_equal(result.numpy(), x.numpy())
    assert x.index_fill(0, Tensor(1), 4).numpy()[1].tolist() == [4, 4]
    assert nothing.bincount().tolist() == [] and nothing.bincount(minlength=2).tolist() == [0, 0]
    assert Tensor([2, 0, 2]).bincount(Tensor([1, 2, 3])).dtype == quern.dtypes.float64


@pytest.mark.parametrize("kind, call, text", [
    (quern.ShapeError, lambda x: x.index_add(0, Tensor([0, 1]), Tensor.zeros(3, 2)), "index_add: the source has shape (3, 2); for 2 indices"),
    (quern.ShapeError, lambda x: x.index_copy(0, Tensor([[0]]), Tensor.zeros(1, 2)), "index_copy: the indices have shape (1, 1)"),
    (quern.DTypeError, lambda x: x.index_add(0, Tensor([0]), Tensor.zeros(1, 2, dtype="int32")), "index_add: the source is int32"),
    (quern.ShapeError, lambda x: x.index_fill(0, Tensor([0]), Tensor([1.0, 2.0])), "index_fill: the value has shape (2,)"),
    (quern.ShapeError, lambda x: x.index_fill(5, Tensor([0]), 1), "index_fill: axis 5 is not in"),
    (ValueError, lambda x: Tensor([1, -1]).bincount(), "bincount: a value is -1"),
    (ValueError, lambda x: Tensor([1]).bincount(minlength=-1), "bincount: minlength is -1"),
    (quern.DTypeError, lambda x: x.bincount(), "bincount"),
    (quern.ShapeError, lambda x: Tensor([1]).bincount(Tensor([1.0, 2.0])), "bincount: the weights have shape (2,)"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_wrong_arguments(kind, call, text):
    with pytest.raises(kind, match=re.escape(text)):
        call(Tensor(random(3, 2)))

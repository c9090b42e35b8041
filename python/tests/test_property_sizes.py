"""Programs with sizes that are known later (Variables), against the same programs with numbers. QUERN_NIGHTLY=1: many more."""

import os

import numpy as np
import pytest

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import given, settings, strategies as st  # noqa: E402

from quern import Error, Tensor, TinyJit, Variable  # noqa: E402

NIGHTLY = bool(os.environ.get("QUERN_NIGHTLY"))
CAPACITY = 6
X = np.arange(1, CAPACITY * 3 + 1, dtype=np.float32).reshape(CAPACITY, 3) * np.array([1, -1, 0.5], dtype=np.float32)
numbers = st.integers(-4, 7)


def cut(x, m, a, b, c):
    return x[a:b] if c > 0 else x[a:b:-1]


# What is done to x, of shape (n, 3), with another size m and three numbers. All of it is defined for numbers, too.
STEPS = {
    "part": cut,
    "from m": lambda x, m, a, b, c: x[m:],
    "up to m": lambda x, m, a, b, c: x[:m],
    "the last m": lambda x, m, a, b, c: x[-m:],
    "without the last m": lambda x, m, a, b, c: x[:-m],
    "every other": lambda x, m, a, b, c: x[a::2],
    "backward": lambda x, m, a, b, c: x[::-2],
    "one": lambda x, m, a, b, c: x[a].reshape(1, 3),
    "at m": lambda x, m, a, b, c: x[m - 1].reshape(1, 3),
    "filled up": lambda x, m, a, b, c: x.pad(((0, CAPACITY - x.shape[0]), None)),
    "filled up with a number": lambda x, m, a, b, c: x.pad(((1, CAPACITY + 1 - m), None), value=7),
    "cut or filled up": lambda x, m, a, b, c: x.pad(((0, 3 - m), (1, 0))).shrink((None, (1, 4))),
    "joined": lambda x, m, a, b, c: Tensor.cat(x, x[:m]),
    "clone": lambda x, m, a, b, c: x.clone(),
    "in memory": lambda x, m, a, b, c: x.contiguous().realize(),
    "written": lambda x, m, a, b, c: written(x),
    "plus places": lambda x, m, a, b, c: x + Tensor.arange(x.shape[0]).reshape(-1, 1),
    "rolled": lambda x, m, a, b, c: x.roll(a, 0),
    "flipped": lambda x, m, a, b, c: x.flip(0),
    "sorted": lambda x, m, a, b, c: x.sort(0, descending=c > 0)[0],
    "sorted places": lambda x, m, a, b, c: x + x.argsort(0, descending=c > 0),
    "lower": lambda x, m, a, b, c: x.tril(a),
    "upper": lambda x, m, a, b, c: x.triu(m - 2),
    "mask": lambda x, m, a, b, c: Tensor.ones(x.shape[0], x.shape[0] + m).triu(m + 1).sum(1, keepdim=True) + x,
    "convolution": lambda x, m, a, b, c: x.T.unsqueeze(0).conv2d(Tensor.ones(3, 1, 2), groups=3, padding=1)[0].T,
    "strided convolution": lambda x, m, a, b, c: x.T.unsqueeze(0).conv2d(Tensor.ones(3, 3, 2), stride=2, padding=(1, 1))[0].T,
    "transposed convolution": lambda x, m, a, b, c: x.T.unsqueeze(0).conv_transpose2d(Tensor.ones(3, 3, 2), stride=2)[0].T,
    "cumulative": lambda x, m, a, b, c: x.cumsum(0),
    "softmax": lambda x, m, a, b, c: (x / 16).softmax(0),
}


def written(x):
    y = Tensor.empty(*x.shape)
    return y.assign(x * 2)


def run(names, draws, n, m, source):
    x = source[:n]
    for name, (a, b, c) in zip(names, draws):
        x = STEPS[name](x, m, a, b, c)
    return x


def outcome(names, draws, n, m, source):
    """Its values, or that it is an error."""
    try:
        return run(names, draws, n, m, source).numpy()
    except (Error, IndexError, ValueError):
        return None


@settings(max_examples=1500 if NIGHTLY else 60, derandomize=not NIGHTLY, deadline=None, database=None,
          suppress_health_check=list(hypothesis.HealthCheck))
@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=3), st.lists(st.tuples(numbers, numbers, numbers), min_size=3, max_size=3),
       st.integers(1, CAPACITY), st.integers(1, CAPACITY), st.integers(0, 1), st.integers(0, 3))
def test_symbolic_sizes_are_numbers(names, draws, n, m, least, beyond):
    source = Tensor(X).realize()
    size, other = (Variable(name, least, CAPACITY + beyond).bind(value) for name, value in (("n", n), ("m", m)))
    expected = outcome(names, draws, n, m, source)
    if expected is None:
        return  # what is an error may be one, or an empty value
    found = run(names, draws, size, other, source)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", sorted(STEPS))
def test_each_alone_and_in_a_jit(name):
    """For all sizes: by itself, and replayed for others than it was captured with."""
    source = Tensor(X).realize()
    n, m = Variable("n", 1, CAPACITY), Variable("m", 1, CAPACITY)
    draws = [(1, 4, 1)]
    jitted = TinyJit(lambda x, n, m: run([name], draws, n, m, x).contiguous().realize())
    for a, b in ((3, 2), (4, 2), (CAPACITY, 3), (5, 4), (4, 4), (5, 5)):
        expected = outcome([name], draws, a, b, source)
        if expected is None:
            continue
        np.testing.assert_allclose(run([name], draws, n.bind(a), m.bind(b), source).numpy(), expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(jitted(source, n.bind(a), m.bind(b)).numpy(), expected, rtol=1e-5, atol=1e-5)


@settings(max_examples=1000 if NIGHTLY else 40, derandomize=not NIGHTLY, deadline=None, database=None,
          suppress_health_check=list(hypothesis.HealthCheck))
@given(st.lists(st.sampled_from(sorted(set(STEPS) - {"sorted", "sorted places"})), min_size=1, max_size=3),
       st.lists(st.tuples(numbers, numbers, numbers), min_size=3, max_size=3),
       st.lists(st.tuples(st.integers(0, CAPACITY + 1), st.integers(0, CAPACITY + 1)), min_size=3, max_size=6))
def test_a_replay_is_right_or_refused(names, draws, sizes):
    """Whatever sizes it was captured with: other sizes give the same values as numbers would, or an Error."""
    source = Tensor(X).realize()
    n, m = Variable("n", 0, CAPACITY + 1), Variable("m", 0, CAPACITY + 1)
    jitted = TinyJit(lambda x, n, m: run(names, draws, n, m, x).contiguous().realize())
    for a, b in sizes[:1] + sizes:
        try:
            found = jitted(source, n.bind(a), m.bind(b)).numpy()
        except (Error, IndexError, ValueError):
            continue
        expected = outcome(names, draws, a, b, source)
        if expected is not None:
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_replay_beyond_an_axis():
    x, n = Tensor(X).realize(), Variable("n", 1, CAPACITY)
    part = TinyJit(lambda x, n: x[n:n + 2].contiguous().realize())
    for a in (1, 2, 3, 4):
        np.testing.assert_array_equal(part(x, n.bind(a)).numpy(), X[a:a + 2])
    with pytest.raises(Error, match=r"captured with other sizes and cannot be replayed with n = 5: shrink: axis 0 is 6 long, asked for \[n"):
        part(x, n.bind(5))
    np.testing.assert_array_equal(part(x, n.bind(4)).numpy(), X[4:6])


def test_reshape_with_other_numbers_of_elements():
    x, n = Tensor(X).realize(), Variable("n", 1, CAPACITY)
    with pytest.raises(Error, match="reshape: "):
        x[:n.bind(4)].reshape(2, 3)
    halves = TinyJit(lambda x, n: x[:n].reshape(2, -1, 3).sum(1).realize())
    for a in (2, 4, 6, 2):
        np.testing.assert_allclose(halves(x, n.bind(a)).numpy(), X[:a].reshape(2, -1, 3).sum(1))
    with pytest.raises(Error, match="n = 5: reshape"):
        halves(x, n.bind(5))


@pytest.mark.parametrize("name", ["filled up", "clone", "rolled", "sorted", "upper", "convolution", "every other", "the last m"])
def test_gradients(name):
    draws = [(1, 4, 1)]
    found = []
    for n, m in ((3, 2), (Variable("n", 1, CAPACITY + 1).bind(3), Variable("m", 1, CAPACITY).bind(2))):
        source = Tensor(X, requires_grad=True)
        (run([name], draws, n, m, source) * 3).square().sum().backward()
        found.append(source.grad.numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)


@pytest.mark.parametrize("value", [0, 9, -1, 2**40])
def test_a_value_out_of_bounds(value):
    with pytest.raises(ValueError, match=f"bind: {value} is outside the bounds of variable n, 1 to 8"):
        Variable("n", 1, 8).bind(value)


@pytest.mark.parametrize("f", [
    lambda x, n: x[n], lambda x, n: x[n - 14], lambda x, n: x.shrink(((n, n + 2), None)), lambda x, n: x.shrink_to(n, None),
    lambda x, n: x[:3].pad_to(n - 5, None), lambda x, n: x[:3].pad(((0, 1 - n), None)), lambda x, n: x.sort(0)[0][n],
], ids=range(7))
def test_what_does_not_hold_now(f):
    """The bounds of the variable would allow it, its value does not."""
    x, n = Tensor(X), Variable("n", 0, 20)
    with pytest.raises(Error):
        f(x, n.bind(7))

"""Products of matrices, and decompositions by what they promise."""

import numpy as np
import pytest

from quern import Tensor

from reference import FLOATS, INTS, checks_of, given, normal, op

A, B, VECTOR, BATCH = normal(3, 7), normal(7, 2), normal(7), normal(2, 3, 4)
RANK_ONE = given(np.outer([1.0, 2.0, 3.0], [1.0, -1.0]))
CUBIC = (1.5, -0.5)  # x + (x - x^3) / 2: what Newton and Schulz took


def qr(x):
    q, r = x.qr()
    m = q.shape[-1]
    return q @ r, q.transpose(-2, -1) @ q - Tensor.eye(m, dtype=q.dtype), r.tril(-1)


def of_qr(x):
    m = x.shape[-2]
    return x, np.zeros((*x.shape[:-2], m, m)), np.zeros(x.shape)


def svd(full):
    def compute(x):
        u, s, v = x.svd(full_matrices=full)
        k = s.shape[-1]
        eyes = [t.transpose(-2, -1) @ t - Tensor.eye(t.shape[-1], dtype=t.dtype) for t in (u, v.transpose(-2, -1))]
        return u[..., :k] * s.unsqueeze(-2) @ v[..., :k, :], s, *eyes

    return compute


def of_svd(full):
    def compute(x):
        m, n = x.shape[-2:]
        k = min(m, n)
        a, b = (m, n) if full else (k, k)
        return x, np.linalg.svd(x, compute_uv=False), np.zeros((*x.shape[:-2], a, a)), np.zeros((*x.shape[:-2], b, b))

    return compute


def nearest_orthogonal(x):
    u, _, v = np.linalg.svd(x, full_matrices=False)
    return u @ v


def newton_schulz(x, steps, a, b, c):
    g = x / (np.linalg.norm(x) + 1e-7)
    for _ in range(steps):
        s = g @ g.T
        g = a * g + b * s @ g + c * s @ s @ g
    return g


def cosine(x, y, axis=1):
    return (x * y).sum(axis) / np.linalg.norm(x, axis=axis) / np.linalg.norm(y, axis=axis)


TABLE = [
    op("dot", None, np.matmul, A, B, dtypes=f"{INTS} {FLOATS}", smoke=True),
    op("dot", None, np.dot, VECTOR, VECTOR),
    op("dot", None, np.dot, A, VECTOR),
    op("dot", None, np.matmul, VECTOR, B),
    op("dot", lambda a, b: a.dot(b, dtype="float32"), np.matmul, A, B, dtypes="float16 bfloat16", out="float32"),
    op("matmul", None, np.matmul, A, B),
    op("matmul", None, np.matmul, BATCH, normal(2, 4, 5)),
    op("matmul", None, np.matmul, BATCH, normal(4, 5)),
    op("matmul", None, np.matmul, normal(2, 1, 3, 4), normal(5, 4, 1)),
    op("matmul", None, np.matmul, normal(3, 0), normal(0, 2)),
    op("matmul", None, np.matmul, normal(1, 1), normal(1, 1)),
    op("matmul", lambda a, b: b.matmul(a, reverse=True), np.matmul, A, B),
    op("matmul", lambda a, b: a @ b, np.matmul, A, B),
    op("mm", None, np.matmul, A, B, dtypes="int32 float16 float32 float64"),
    op("bmm", None, np.matmul, BATCH, normal(2, 4, 5)),
    op("mv", None, np.matmul, A, VECTOR),
    op("outer", None, np.outer, VECTOR, normal(3), dtypes="int8 float32 float64"),
    op("ger", None, np.outer, VECTOR, normal(3)),
    op("addmm", None, lambda x, a, b: x + a @ b, normal(2), A, B),
    op("addmm", lambda x, a, b: x.addmm(a, b, beta=0.5, alpha=-2), lambda x, a, b: 0.5 * x - 2 * a @ b, normal(3, 2), A, B),
    op("baddbmm", None, lambda x, a, b: x + a @ b, normal(2, 3, 5), BATCH, normal(2, 4, 5)),
    op("tensordot", None, np.tensordot, normal(2, 3, 4), normal(3, 4, 5)),
    op("tensordot", lambda x, y: x.tensordot(y, 0), lambda x, y: np.tensordot(x, y, 0), VECTOR, A),
    op("tensordot", lambda x, y: x.tensordot(y, dims=([0, 2], [1, 0])), lambda x, y: np.tensordot(x, y, ([0, 2], [1, 0])), BATCH, normal(4, 2, 3)),
    op("kron", None, np.kron, A, B),
    op("kron", None, np.kron, VECTOR, B),
    op("kron", None, np.kron, BATCH, normal(3)),
    op("trace", None, np.trace, normal(3, 3), dtypes="int32 float32 float64"),
    op("trace", None, np.trace, A),
    op("cross", None, np.cross, normal(4, 3), normal(4, 3), dtypes="int32 float32 float64"),
    op("cross", lambda x, y: x.cross(y, dim=0), lambda x, y: np.cross(x, y, axis=0), normal(3, 5), normal(3, 1)),
    op("cdist", None, lambda x, y: np.linalg.norm(x[..., :, None, :] - y[..., None, :, :], axis=-1), A, normal(4, 7)),
    op("cdist", lambda x, y: x.cdist(y, p=1), lambda x, y: np.abs(x[..., :, None, :] - y[..., None, :, :]).sum(-1), BATCH, normal(5, 4)),
    op("cdist", lambda x, y: x.cdist(y, p=float("inf")), lambda x, y: np.abs(x[:, None] - y[None]).max(-1), A, normal(2, 7), views=False),
    op("cosine_similarity", None, cosine, A, normal(3, 7)),
    op("cosine_similarity", lambda x, y: x.cosine_similarity(y, dim=-1), lambda x, y: cosine(x, y, -1), BATCH, normal(3, 4)),
    op("linear", None, lambda x, w, b: x @ w + b, BATCH, normal(4, 5), normal(5)),
    op("linear", None, lambda x, w: x @ w, BATCH, normal(4, 5), dtypes=FLOATS),
    op("linear", None, lambda x, w: x * w, BATCH, normal(4)),
    *[op("einsum", lambda *xs, f=formula: Tensor.einsum(f, *xs), lambda *xs, f=formula: np.einsum(f, *xs), *inputs)
      for formula, *inputs in [
        ("ij,jk->ik", A, B), ("ij->ji", A), ("ij->", A), ("ij->i", A), ("i,j->ij", VECTOR, normal(3)), ("ij,ij->j", A, normal(3, 7)),
        ("bij,bjk->bik", BATCH, normal(2, 4, 5)), ("ii->i", normal(3, 3)), ("ii", normal(3, 3)), ("ij,jk", A, B),
        ("bhwc,hkc->bwk", normal(2, 3, 2, 4), normal(3, 5, 4)),
        ("...ij,...jk->...ik", BATCH, normal(4, 5)), ("i,ij,j->", normal(3), A, VECTOR)]],
    op("einsum", lambda a, b: Tensor.einsum("ij,jk->ik", [a, b]), np.matmul, A, B, dtypes=FLOATS),
    op("qr", qr, of_qr, A, grad=False),
    op("qr", qr, of_qr, normal(7, 3), grad=False),
    op("qr", qr, of_qr, normal(2, 3, 3), grad=False),
    op("qr", qr, of_qr, normal(1, 1), grad=False, smoke=True),
    op("qr", qr, of_qr, RANK_ONE, grad=False, dtypes="float64"),
    op("svd", svd(True), of_svd(True), normal(4, 3), grad=False, views=False, dtypes="float32"),
    op("svd", svd(False), of_svd(False), normal(4, 2), grad=False, views=False),
    op("svd", svd(False), of_svd(False), normal(2, 2, 3), grad=False, views=False),
    op("svd", svd(True), of_svd(True), normal(1, 1), grad=False, views=False),
    op("svd", svd(True), of_svd(True), RANK_ONE, grad=False, dtypes="float64"),
    op("newton_schulz", lambda x: x.newton_schulz(30, CUBIC), nearest_orthogonal, normal(3, 3), views=False, grad=False),
    op("newton_schulz", lambda x: x.newton_schulz(30, CUBIC), nearest_orthogonal, normal(5, 2), views=False, grad=False),
    op("newton_schulz", lambda x: x.newton_schulz(2, (3.4445, -4.775, 2.0315)),
       lambda x: newton_schulz(x, 2, 3.4445, -4.775, 2.0315), normal(2, 3)),
    op("newton_schulz", lambda x: x.newton_schulz(0, CUBIC), lambda x: x / (np.linalg.norm(x) + 1e-7), normal(2, 3)),
    op("sequential", lambda x: x.sequential([Tensor.exp, lambda y: y.sum(0), Tensor.sqrt]), lambda x: np.sqrt(np.exp(x).sum(0)), A),
    op("sequential", lambda x: x.sequential([]), np.copy, A),
]

test_values, test_gradient, test_views = checks_of(TABLE)


@pytest.mark.parametrize("call", [
    lambda m, v, b: m.mm(v), lambda m, v, b: m.mm(b), lambda m, v, b: m.bmm(m), lambda m, v, b: b.bmm(b[:1]), lambda m, v, b: m.mv(m),
    lambda m, v, b: m.outer(v), lambda m, v, b: b.trace(), lambda m, v, b: v.cross(v), lambda m, v, b: m.cross(m, dim=1),
    lambda m, v, b: m.cdist(v), lambda m, v, b: m.cdist(m[:, :2]), lambda m, v, b: m.cdist(m, p=-1), lambda m, v, b: m.tensordot(m, 3),
    lambda m, v, b: m.tensordot(m, ([0], [1])), lambda m, v, b: m.tensordot(m, ([0, 1], [1])), lambda m, v, b: v.addmm(m, m)])
def test_what_does_not_fit(call):
    with pytest.raises(ValueError):
        call(Tensor.zeros(3, 7), Tensor.zeros(7), Tensor.zeros(2, 4, 4))


def test_distances_have_gradients_where_points_coincide(device):
    x = Tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
    assert x.cdist(x).tolist() == [[0, 8**0.5], [8**0.5, 0]] or abs(x.cdist(x)[0, 1].item() - 8**0.5) < 1e-6
    assert x.cdist(x.detach()).sum().gradient(x)[0].isfinite().all().item()
    assert Tensor([3.0, 0.0, -4.0], device=device).norm().item() == 5 and Tensor.zeros(3, device=device).norm().item() == 0


@pytest.mark.parametrize("left, right", [((3, 7), (3, 7)), ((7,), (6,)), ((2, 3, 4), (3, 4, 5)), ((), (3,))])
def test_products_that_do_not_fit(left, right):
    with pytest.raises(ValueError):
        Tensor.zeros(*left).matmul(Tensor.zeros(*right))


def numeric_gradient(f, x, step=1e-6):
    found = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        up, down = x.copy(), x.copy()
        up[i], down[i] = x[i] + step, x[i] - step
        found[i] = (f(up) - f(down)) / (2 * step)
    return found


def gradient_agrees(loss, x):
    given = Tensor(x, requires_grad=True)
    loss(given).backward()
    np.testing.assert_allclose(given.grad.numpy(), numeric_gradient(lambda v: loss(Tensor(v)).item(), x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (4, 2), (2, 4), (2, 3, 3), (5, 1), (1, 4), (6, 5)])
def test_gradients_of_qr(shape):
    rng = np.random.default_rng(3)
    x, a, b = rng.normal(size=shape), rng.normal(size=(shape[-2], min(shape[-2:]))), rng.normal(size=shape)
    gradient_agrees(lambda t: (t.qr()[0][..., :a.shape[1]] * Tensor(a)).sum(), x)
    gradient_agrees(lambda t: (t.qr()[1] * Tensor(b)).square().sum(), x)
    if shape[-2] > shape[-1]:  # of the columns that x does not determine: the space that they span
        weight = Tensor(rng.normal(size=(shape[-2], shape[-2])))

        def projector(t):
            q = t.qr()[0][..., shape[-1]:]
            return (q @ q.transpose(-2, -1) * weight).sum()

        gradient_agrees(projector, x)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (4, 2), (2, 4), (2, 3, 3), (5, 1), (1, 4)])
def test_gradients_of_svd(shape, full):
    rng = np.random.default_rng(4)
    k = min(shape[-2:])
    x, s = rng.normal(size=shape), Tensor(rng.normal(size=(k,)))
    left, right, both = (Tensor(rng.normal(size=z)) for z in ((shape[-2],) * 2, (shape[-1],) * 2, shape))
    gradient_agrees(lambda t: (t.svd(full_matrices=full)[1] * s).square().sum(), x)

    def spanned(t):  # each of its terms is the same whatever the signs of singular vectors are
        u, d, v = t.svd(full_matrices=full)
        u1, v1 = u[..., :1], v[..., :1, :]
        most = (u1 @ u1.transpose(-2, -1) * left).sum() + (v1.transpose(-2, -1) @ v1 * right).sum() + (u1 @ v1 * both).sum()
        rest = u[..., k:]
        return most + (rest @ rest.transpose(-2, -1) * left).sum() + (d * s).sum()

    gradient_agrees(spanned, x)


def test_second_derivative_of_qr():
    x = np.random.default_rng(5).normal(size=(3, 3))
    b = np.random.default_rng(6).normal(size=(3, 3))

    def slope(t):
        t.requires_grad_(True)
        return ((t.qr()[1] * Tensor(b)).square().sum().gradient(t)[0] * Tensor(b)).sum()

    given = Tensor(x, requires_grad=True)
    np.testing.assert_allclose(slope(given).gradient(given)[0].numpy(), numeric_gradient(lambda v: slope(Tensor(v)).item(), x),
                               rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(130, 140), (300, 200), (2, 129, 129)])
def test_decompositions_of_several_panels(shape):
    x = np.random.default_rng(7).normal(size=shape)
    k = min(shape[-2:])
    q, r = (t.numpy() for t in Tensor(x).qr())
    np.testing.assert_allclose(q @ r, x, atol=1e-12)
    np.testing.assert_allclose(np.swapaxes(q, -1, -2) @ q, np.broadcast_to(np.eye(shape[-2]), q.shape), atol=1e-12)
    assert not np.tril(r, -1).any()
    u, s, v = (t.numpy() for t in Tensor(x).svd())
    np.testing.assert_allclose((u[..., :k] * s[..., None, :]) @ v[..., :k, :], x, atol=1e-11)
    np.testing.assert_allclose(s, np.linalg.svd(x, compute_uv=False), rtol=1e-11)


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_svd_of_matrices_without_full_rank(rank):
    rng = np.random.default_rng(8)
    x = rng.normal(size=(7, rank)) @ rng.normal(size=(rank, 5))
    for given, full in ((x, True), (x, False), (x.T, True)):
        u, s, v = (t.numpy() for t in Tensor(given).svd(full_matrices=full))
        np.testing.assert_allclose((u[:, :5] * s) @ v[:5], given, atol=1e-12)
        np.testing.assert_allclose(u.T @ u, np.eye(u.shape[1]), atol=1e-12)
        np.testing.assert_allclose(v @ v.T, np.eye(v.shape[0]), atol=1e-12)
        assert (s[rank:] < 1e-13).all()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (0, 3, 3), (2, 0, 3)])
def test_decompositions_of_nothing(shape):
    x = Tensor.zeros(*shape, requires_grad=True)
    q, r = x.qr()
    assert q.shape == (*shape[:-1], shape[-2]) and r.shape == shape
    (q.sum() + r.sum()).backward()
    assert x.grad.shape == shape
    if min(shape[-2:]) > 0:
        u, s, v = x.svd()
        assert u.numpy().shape == (*shape[:-1], shape[-2]) and s.numpy().shape == shape[:-1] and v.numpy().shape == shape
        assert (u.sum() + s.sum()).gradient(x)[0].numpy().shape == shape

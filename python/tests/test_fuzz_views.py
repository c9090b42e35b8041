"""Random programs of views, writes, reads and realizations, beside the views of NumPy. QUERN_NIGHTLY=1: many more, and others in each run."""

import copy
import os
import pickle
import random
import time

import numpy as np
import pytest

from quern import Tensor, dtypes

NIGHTLY = bool(os.environ.get("QUERN_NIGHTLY"))
PROGRAMS = 20000 if NIGHTLY else 250
FIRST = time.time_ns() % 10**9 if NIGHTLY else 0

SHAPES = [(4,), (1,), (2, 3), (3, 4), (2, 2, 2)]


def array_of(seed, shape):
    """Halves, which float32 adds and multiplies exactly while they are small."""
    return (np.random.default_rng(seed).integers(-8, 9, shape) / 2).astype(np.float32)


def range_of(r, size):
    """A slice with at least one element."""
    if r.random() < 0.15:
        return slice(None, None, -1)
    begin = r.randrange(size)
    return slice(begin, r.randint(begin + 1, size + 1), r.choice([None, None, 2, 3]))


def index_of(r, shape):
    """Ints, slices and new axes for the first axes. The ellipsis makes a view of a single element, in NumPy, too."""
    index = []
    for size in shape[: r.randint(1, len(shape))]:
        if r.random() < 0.1:
            index.append(None)
        index.append(r.randrange(size) if r.random() < 0.4 else range_of(r, size))
    return (*index, ...)


VIEWS = {
    "index": lambda r, t, a: (lambda i: (t[i], a[i]))(index_of(r, a.shape)) if a.ndim else None,
    "reshape": lambda r, t, a: (t.reshape(-1), a.reshape(-1)) if a.flags.c_contiguous else None,
    "permute": lambda r, t, a: (lambda o: (t.permute(*o), a.transpose(o)))(r.sample(range(a.ndim), a.ndim)) if a.ndim > 1 else None,
    "unsqueeze": lambda r, t, a: (t.unsqueeze(0), a[None]),
    "flip": lambda r, t, a: (t.flip(0), a[::-1]) if a.ndim else None,
    "squeeze": lambda r, t, a: (t.squeeze(0), a[0, ...]) if a.ndim and a.shape[0] == 1 else None,
    "detach": lambda r, t, a: (t.detach(), a[...]),
    "bits": lambda r, t, a: (t.bitcast(dtypes.int32), a.view(np.int32)) if a.dtype == np.float32 else
                            (t.bitcast(dtypes.float32), a.view(np.float32)),
    "unsigned bits": lambda r, t, a: (t.bitcast(dtypes.uint32).bitcast(dtypes.float32), a.view(np.float32)),
}

READS = {
    "numpy": lambda t: t.numpy(),
    "tolist": lambda t: np.array(t.tolist(), dtype=t.numpy().dtype),
    "item": lambda t: np.array([part.item() for part in t.reshape(-1)], dtype=t.numpy().dtype).reshape(t.shape),
    "dlpack": lambda t: np.from_dlpack(t),
    "pickle": lambda t: pickle.loads(pickle.dumps(t)).numpy(),
    "copy": lambda t: copy.deepcopy(t).numpy(),
    "repr": lambda t: (repr(t), t.numpy())[1],
    "data": lambda t: np.array(t.data()),
}


class Program:
    """The same steps on tensors and on arrays; what it did is in `steps`."""

    def __init__(self, seed, reads=True, realizes=True, bits=True):
        self.r, self.seed, self.reads, self.realizes, self.bits = random.Random(seed), seed, reads, realizes, bits
        self.tensors, self.arrays, self.steps = [], [], []

    def say(self, text):
        self.steps.append(text)

    def add(self, tensor, array, text):
        self.say(f"x{len(self.tensors)} = {text}")
        self.tensors.append(tensor)
        self.arrays.append(array)

    def check(self, k, how="numpy"):
        got, want = READS[how](self.tensors[k]), self.arrays[k]
        assert got.shape == want.shape and got.dtype == want.dtype, (k, how, got, want)
        assert np.array_equal(got, want, equal_nan=True), f"x{k} read by {how} is\n{got}\n, expected\n{want}"

    def make(self, kind=None):
        r = self.r
        shape, number = r.choice(SHAPES), len(self.tensors)
        kind = kind or r.choice(["array", "realized", "computed", "full", "zeros", "arange", "contiguous", "empty"])
        a = array_of(self.seed * 31 + number, shape)
        if kind in ("full", "zeros"):
            a = np.full(shape, 0.0 if kind == "zeros" else 2.5, np.float32)
        if kind == "arange":
            a = np.arange(6, dtype=np.float32)
        made = {"array": lambda: Tensor(a.copy()), "realized": lambda: (Tensor(a.copy()) + 0).realize(),
                "computed": lambda: Tensor(a.copy()) * 1.0, "full": lambda: Tensor.full(shape, 2.5), "zeros": lambda: Tensor.zeros(*shape),
                "arange": lambda: Tensor.arange(6, dtype="float32"), "contiguous": lambda: (Tensor(a.copy()) + 0).contiguous(),
                "empty": lambda: Tensor.empty(*shape).assign(Tensor(a.copy()))}[kind]()
        self.add(made, a.copy(), f"{kind} {a.tolist()}")

    def compute(self, k):
        r, t, a = self.r, self.tensors[k], self.arrays[k]
        j = r.randrange(len(self.tensors))
        if a.dtype != np.float32:
            return self.add(t.cast("float32") * 0 + 1, np.ones_like(a, dtype=np.float32), f"x{k}.float() * 0 + 1")
        kind = r.choice(["affine", "negative", "sum", "axis", "add", "clone", "contiguous", "maximum"])
        if kind == "add" and (self.arrays[j].shape != a.shape or self.arrays[j].dtype != a.dtype):
            kind = "affine"
        if kind == "axis" and a.ndim == 0:
            kind = "clone"
        with np.errstate(all="ignore"):
            got, want = {
                "affine": lambda: (t * 0.5 + 1, a * np.float32(0.5) + np.float32(1)), "negative": lambda: (-t, -a),
                "sum": lambda: (t.sum(), np.array(a.sum(dtype=np.float32))), "axis": lambda: (t.sum(0), np.array(a.sum(0, dtype=np.float32))),
                "add": lambda: (t + self.tensors[j], np.array(a + self.arrays[j])), "clone": lambda: (t.clone(), a.copy()),
                "contiguous": lambda: ((t * 2).contiguous(), a * np.float32(2)),
                "maximum": lambda: (t.maximum(0.5), np.maximum(a, np.float32(0.5)))}[kind]()
        self.add(got, np.array(want, dtype=np.float32), f"{kind} of x{k}, x{j}")

    def view(self, k):
        kind = self.r.choice([v for v in VIEWS if self.bits or "bits" not in v])
        made = VIEWS[kind](self.r, self.tensors[k], self.arrays[k])
        if made is not None:
            self.add(made[0], made[1], f"{kind} of x{k}, {made[1].shape}")

    def write(self, k):
        r, t, a = self.r, self.tensors[k], self.arrays[k]
        j = r.randrange(len(self.tensors))
        if a.dtype != np.float32:
            value = array_of(self.seed + k, a.shape)
            a[...] = value.view(np.int32)
            t.assign(Tensor(value.view(np.int32)))
            return self.say(f"x{k}.assign(bits of {value.tolist()})")
        like = self.arrays[j].shape == a.shape and self.arrays[j].dtype == a.dtype
        kind = r.choice(["full", "add", "item", "own", "half"] + (["other", "other computed"] if like else []))
        if kind == "full":
            a[...] = -3
            t.assign(Tensor.full(t.shape, -3.0))
        elif kind == "add":
            a += 1
            t += 1
        elif kind == "half":
            a *= np.float32(0.5)
            t *= 0.5
        elif kind == "own":
            a[...] = np.array(a * np.float32(0.5) + a.sum(dtype=np.float32) * np.float32(0.25))
            t.assign(t * 0.5 + t.sum() * 0.25)
        elif kind == "other":
            a[...] = self.arrays[j].copy()
            t.assign(self.tensors[j])
        elif kind == "other computed":
            a[...] = np.array(self.arrays[j] - 1)
            t.assign(self.tensors[j] - 1)
        elif a.ndim:
            index = index_of(r, a.shape)
            kind += f" {index}"
            a[index] = 7
            t[index] = 7
        self.say(f"x{k}: write {kind}, x{j}")

    def step(self):
        r = self.r
        kinds = ["view"] * 5 + ["write"] * 4 + ["compute"] * 3 + ["make"] + ["read"] * 2 + ["realize"] * 2 + ["forget"]
        kind, k = r.choice(kinds), r.randrange(len(self.tensors))
        large = [i for i, a in enumerate(self.arrays) if a.dtype == np.float32 and not np.all(np.abs(a) < 1e4)]
        if kind == "make":
            self.make()
        elif kind == "view":
            self.view(k)
        elif kind == "write" and k not in large:
            self.write(k)
        elif kind == "compute" and not large:
            self.compute(k)
        elif kind == "read":
            how = r.choice(list(READS))
            if self.reads:
                self.say(f"read x{k} by {how}")
                self.check(k, how)
        elif kind == "realize":
            others = r.sample(range(len(self.tensors)), r.randint(0, min(2, len(self.tensors))))
            if self.realizes:
                self.say(f"realize x{k} with {others}")
                Tensor.realize(self.tensors[k], *(self.tensors[i] for i in others))
        elif kind == "forget" and len(self.tensors) > 3 and k > 1:
            self.say(f"forget x{k}")
            self.tensors[k], self.arrays[k] = Tensor([1.0, 2.0]), np.array([1.0, 2.0], np.float32)

    def run(self, steps):
        self.make()
        self.make()
        for _ in range(steps):
            self.step()
        for k in self.r.sample(range(len(self.tensors)), len(self.tensors)):
            self.check(k)
        return self


def each(run):
    print(f"{PROGRAMS} programs from seed {FIRST}")
    for seed in range(FIRST, FIRST + PROGRAMS):
        run(seed)


def explained(program, steps):
    try:
        return program.run(steps)
    except Exception as e:
        raise AssertionError("\n".join([f"seed {program.seed}", *program.steps, f"{type(e).__name__}: {e}"])) from e


def test_fuzz_views():
    each(lambda seed: explained(Program(seed), 2 + seed % 15))


def test_fuzz_views_on_other_devices():
    """Kernels of INTERP are not compiled, so that one sees what the graph says."""
    from quern import Context

    with Context(DEVICE="INTERP"):
        for seed in range(FIRST, FIRST + PROGRAMS // 10):
            explained(Program(seed), 2 + seed % 10)


@pytest.mark.parametrize("read", ["numpy", "item", "dlpack", "repr", "pickle"])
def test_fuzz_reading_changes_no_gradient(read):
    """Whatever is read in between, gradients are those of the same program without the reads."""

    def gradients(seed, reads):
        program = Program(seed, reads=False, realizes=False, bits=False)
        arrays = [array_of(seed + i, SHAPES[(seed + i) % len(SHAPES)]) for i in range(2)]
        leaves, r = [Tensor(a) for a in arrays], random.Random(seed)
        program.add(leaves[0].clone(), arrays[0].copy(), f"clone of a = {arrays[0].tolist()}")
        program.add(leaves[1] * 2, arrays[1] * 2, f"2 * b, b = {arrays[1].tolist()}")
        for _ in range(2 + seed % 9):
            program.step()
            if reads and r.random() < 0.5:
                k = r.randrange(len(program.tensors))
                program.say(f"read x{k}")
                program.check(k, read)
        losses = [(t * t).sum() for t in program.tensors if t.dtype == dtypes.float32]
        if reads:
            for loss in losses:
                loss.item()
        return [[g.numpy() for g in loss.gradient(*leaves)] for loss in losses], program

    for seed in range(FIRST, FIRST + PROGRAMS // 5):
        (plain, _), (read_too, program) = gradients(seed, False), gradients(seed, True)
        for a, b in zip(plain, read_too):
            for x, y in zip(a, b):
                np.testing.assert_allclose(x, y, rtol=1e-5, err_msg="\n".join([f"seed {seed}", *program.steps]))


OTHER_WIDTHS = [np.uint8, np.int16, np.int32, np.int64, np.float32, np.float64]


def view_of_file(r, t, a):
    """A view of a file and of an array, or None."""
    kind = r.choice(["index", "index", "reshape", "permute", "flip", "bits", "bits"])
    if kind != "bits":
        return VIEWS[kind](r, t, a)
    if a.ndim == 0 or not a.flags.c_contiguous:
        return None
    dtype = np.dtype(r.choice(OTHER_WIDTHS))
    if a.shape[-1] * a.itemsize % dtype.itemsize:
        return None
    return t.bitcast(dtype.name), a.view(dtype)


def test_fuzz_views_of_files(tmp_path):
    """Writes into a file through views of it, also of other widths."""

    def run(seed):
        r, steps = random.Random(seed), []
        path = tmp_path / f"{seed}"
        shape, dtype = r.choice([(16,), (4, 8), (2, 3, 4)]), np.dtype(r.choice(OTHER_WIDTHS))
        whole = np.zeros(shape, dtype)
        pairs = [(Tensor.empty(*shape, dtype=dtype.name, device=f"disk:{path}"), whole)]
        try:
            for _ in range(2 + seed % 8):
                t, a = r.choice(pairs)
                value = np.random.default_rng(seed).integers(1, 100, a.shape).astype(a.dtype)
                match r.choice(["view", "view", "assign", "set", "add", "read", "realize", "elsewhere"]):
                    case "view":
                        made = view_of_file(r, t, a)
                        if made is not None:
                            pairs.append(made)
                            steps.append(f"view {made[1].shape} {made[1].dtype} of {a.shape} {a.dtype}")
                    case "assign":
                        steps.append(f"assign {a.shape} {a.dtype}")
                        a[...] = value
                        t.assign(Tensor(value.copy(), dtype=a.dtype.name))
                    case "set" if a.ndim:
                        index = index_of(r, a.shape)
                        steps.append(f"set {a.shape} {index}")
                        a[index] = 7
                        t[index] = 7
                    case "add" if np.isfinite(a).all() and np.abs(a.astype(np.float64)).max(initial=0) < 100:
                        steps.append(f"add {a.shape} {a.dtype}")
                        a += 1
                        t += 1
                    case "read":
                        steps.append("read")
                        assert np.array_equal(t.numpy(), a, equal_nan=a.dtype.kind == "f")
                    case "elsewhere":
                        steps.append("to")
                        assert np.array_equal(t.to("CPU").numpy(), a, equal_nan=a.dtype.kind == "f")
                    case "realize":
                        t.realize()
            for t, a in pairs:
                assert np.array_equal(t.numpy(), a, equal_nan=a.dtype.kind == "f")
            if path.exists():
                assert path.read_bytes() == whole.tobytes()
        except Exception as e:
            raise AssertionError("\n".join([f"seed {seed}, {shape} {dtype}", *steps, f"{type(e).__name__}: {e}"])) from e
        path.unlink(missing_ok=True)

    each(run)

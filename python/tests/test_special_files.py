"""What is no plain file, names with a NUL byte, and files that others cut off while they are used."""

import os
import pathlib
import stat
import threading

import numpy as np
import pytest

from quern import Error, Tensor, TinyJit
from quern.nn import state

LOADERS = [state.safe_load, state.safe_load_metadata, state.torch_load, state.gguf_load, state.npy_load, state.npz_load, Tensor.from_file]


@pytest.fixture
def pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    yield path
    assert stat.S_ISFIFO(os.stat(path).st_mode) and os.listdir(tmp_path) == ["pipe"]


def read(path, into):
    with open(path, "rb") as file:
        into.append(file.read())


@pytest.mark.parametrize("save", [lambda t, fn: state.safe_save({"a": t}, fn), state.npy_save], ids=["safe_save", "npy_save"])
def test_saving_to_a_pipe_writes_into_it(pipe, tmp_path_factory, save):
    tensor, found = Tensor([1.0, 2.0, 3.0]), []
    thread = threading.Thread(target=read, args=(pipe, found), daemon=True)
    thread.start()
    save(tensor, pipe)
    thread.join(60)
    plain = tmp_path_factory.mktemp("plain") / "file"
    save(tensor, plain)
    assert found == [plain.read_bytes()]


@pytest.mark.parametrize("load", LOADERS, ids=lambda f: f.__name__)
def test_loading_a_pipe_does_not_wait(pipe, load):
    with pytest.raises(Error, match="pipe is not a file: it is a pipe"):
        load(str(pipe))


@pytest.mark.parametrize("load", LOADERS, ids=lambda f: f.__name__)
def test_names_with_a_nul_byte_are_not_loaded(tmp_path, load):
    (tmp_path / "x").write_bytes(b"12345678")
    with pytest.raises(ValueError, match="embedded null byte"):  # as open() says
        load(str(tmp_path / "x\0y"))


def test_names_with_a_nul_byte_are_not_written(tmp_path):
    t, path = Tensor([1.0]).realize(), str(tmp_path / "x\0y")
    for save in (lambda: state.safe_save({"a": t}, path), lambda: state.npy_save(t, path), lambda: t.to("DISK:" + path).realize()):
        with pytest.raises(ValueError, match="embedded null byte"):
            save()
    assert os.listdir(tmp_path) == []


def test_links_that_lead_nowhere_yet_are_followed(tmp_path):
    (tmp_path / "link").symlink_to("file")
    state.npy_save(Tensor([1.0, 2.0]), tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and np.load(tmp_path / "file").tolist() == [1, 2]


# ---- files that become shorter

VALUES = np.arange(100_000, dtype=np.float32)


def safetensors(folder):
    state.safe_save({"a": Tensor(VALUES)}, folder / "f")
    return state.safe_load(folder / "f")["a"]


def npy(folder):
    state.npy_save(Tensor(VALUES), folder / "f")
    return state.npy_load(folder / "f")


USES = {
    "numpy": lambda t: t.numpy(),
    "item": lambda t: t[-1].item(),
    "sum": lambda t: t.sum().item(),
    "to": lambda t: t.to("DISK:/nonexistent/file").realize(),
    "from_dlpack": np.from_dlpack,
    "save": lambda t: state.npy_save(t, os.devnull),
}
LOST = r"f: the file has 4096 bytes, and had \d+ when it was loaded: it was cut off or overwritten"


@pytest.mark.parametrize("make", [safetensors, npy], ids=lambda f: f.__name__)
@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_a_file_that_was_cut_is_an_error(tmp_path, monkeypatch, make, use):
    monkeypatch.chdir(tmp_path)
    t = make(pathlib.Path())
    monkeypatch.chdir("/")  # its name is one from where the process was then
    os.truncate(tmp_path / "f", 4096)
    with pytest.raises(Error, match=LOST):
        use(t)


def test_a_file_that_was_cut_is_an_error_in_a_jit(tmp_path):
    bound = npy(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    given = npy(other)

    @TinyJit
    def total(x):
        return (bound + x).sum().realize()

    for _ in range(4):
        assert total(given).item() == pytest.approx(2 * VALUES.sum(), rel=1e-5)
    os.truncate(tmp_path / "f", 4096)
    with pytest.raises(Error, match=LOST):
        total(given)
    (tmp_path / "f").write_bytes(bytes(500_000))  # as long as it was, or longer: it can be read
    os.truncate(other / "f", 4096)
    with pytest.raises(Error, match=LOST):
        total(given)


def test_a_file_that_was_replaced_stays_what_it_was(tmp_path):
    t = safetensors(tmp_path)
    state.safe_save({"a": Tensor([1.0])}, tmp_path / "f")
    assert (t.numpy() == VALUES).all()
    os.remove(tmp_path / "f")
    assert (t.numpy() == VALUES).all()


def test_thousands_of_files_may_be_loaded(tmp_path):
    import resource

    state.npy_save(Tensor([1.0, 2.0]), tmp_path / "f")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, before[1]))
    try:
        all = [state.npy_load(tmp_path / "f") for _ in range(200)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert all[150].tolist() == [1, 2]

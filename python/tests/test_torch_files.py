"""torch_load gives what torch.save was given. The checkpoint was written by PyTorch (test/io/data/make_torch.py)."""

import pathlib
import pickle
import zipfile

import numpy as np
import pytest

from quern import Error, Tensor, dtypes
from quern.nn.state import torch_load

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "test/io/data"


def saved(path, value, protocol=2):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", pickle.dumps(value, protocol))
    return path


def test_a_checkpoint_is_nested_as_it_was():
    got = torch_load(FOLDER / "checkpoint.pt")
    assert list(got) == [
        "model", "optimizer", "views", "dtypes", "tied", "parameter", "noted", "noted parameter", "ordered", 7, "epoch", "loss",
        "name", "nothing", "yes", "size", "device", "dtype", "large", "negative", "set",
    ]
    assert list(got["model"]) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert isinstance(got["model"]["0.weight"], Tensor) and got["model"]["0.weight"].shape == (4, 3)
    assert got["optimizer"]["param_groups"][0]["params"] == [0, 1, 2, 3] and set(got["optimizer"]["state"]) == {0, 1, 2, 3}
    assert isinstance(got["tied"], list) and isinstance(got["tied"][2], tuple)
    rest = {key: got[key] for key in list(got)[10:]}
    assert rest == {
        "epoch": 3, "loss": 0.25, "name": "a text", "nothing": None, "yes": True, "size": (1, 2), "device": "cpu",
        "dtype": dtypes.float32, "large": 1 << 40, "negative": -5, "set": {1, 2},
    }
    assert got["yes"] is True


def test_the_values_of_a_checkpoint():
    expected = dict(np.load(FOLDER / "checkpoint.npz"))
    found = {}

    def collect(path, value):
        if isinstance(value, Tensor):
            found[".".join(path)] = value
        elif isinstance(value, (dict, list, tuple)):
            for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
                collect([*path, str(key)], inner)

    collect([], torch_load(FOLDER / "checkpoint.pt"))
    assert list(found) == list(expected)
    for name, tensor in found.items():
        np.testing.assert_array_equal(tensor.cast(str(expected[name].dtype)).numpy(), expected[name], name)


def test_a_file_of_one_tensor():
    assert torch_load(FOLDER / "tensor.pt").shape == (6, 4)
    assert torch_load(Tensor(FOLDER / "tensor.pt")).shape == (6, 4)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("value", [
    None, True, 5, -(2**62), 2.5, "text \u00e9", b"bytes \xff\x00", [], [1, [2, (3, ())]], {"b": 1, "a": {}},
    {(1, "a"): 2, None: 3, 1.5: 4}, {1, 2}, frozenset({"a"}), {frozenset({1}): {"x"}}, ["same"] * 1000, {"a": float("inf")},
], ids=repr)
def test_values_that_are_no_tensors(tmp_path, value, protocol):
    got = torch_load(saved(tmp_path / "a.pt", value, protocol))
    assert got == value and type(got) is type(value)
    if isinstance(value, dict):
        assert list(got) == list(value)


def test_one_object_stays_one_object(tmp_path):
    inner = [1]
    got = torch_load(saved(tmp_path / "a.pt", {"a": inner, "b": inner}))
    assert got["a"] is got["b"]


def test_what_contains_itself(tmp_path):
    inner = {}
    inner["a"] = [inner]
    with pytest.raises(Error, match="'a.0' contains itself"):
        torch_load(saved(tmp_path / "a.pt", inner))
    deep = 1
    for _ in range(100):
        deep = [deep]
    with pytest.raises(Error, match="nested too deeply"):
        torch_load(saved(tmp_path / "a.pt", deep))

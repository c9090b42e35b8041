"""The scripts of examples/python, a few steps of each."""

import importlib.util
import itertools
import math
import pathlib

import numpy as np
import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples/python"

# arguments of steps(), and constants of the script, that make it short
SHORT = {
    "mnist": ({"batch": 4}, {}),
    "gan": ({"batch": 8}, {}),
    "transformer": ({}, {"LENGTH": 8, "LAYERS": 1}),
    "resnet": ({"size": 32}, {}),
    "decoding": ({}, {"LAYERS": 1}),
    "rnn": ({"batch": 4}, {"LENGTH": 4}),
}


def load(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_all_are_known():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(SHORT)


@pytest.mark.parametrize("name", SHORT)
def test_example(name):
    arguments, constants = SHORT[name]
    module = load(name)
    for constant, value in constants.items():
        assert hasattr(module, constant)
        setattr(module, constant, value)
    results = list(itertools.islice(module.steps(**arguments), 4))
    assert all(math.isfinite(value) for values in results for value in values)
    # another time, without what was captured
    again = next(module.steps(**arguments))
    np.testing.assert_allclose(again, results[0], rtol=1e-5)


def test_it_learns():
    losses = [loss for loss, in itertools.islice(load("rnn").steps(), 60)]
    assert min(losses[-10:]) < losses[0] / 4

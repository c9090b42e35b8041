"""A few ops of each table on OpenCL, wherever it is installed: all of them run there with QUERN_TEST_DEVICES=CL."""

import pytest

from quern import Tensor
from test_ops_complete import TABLES

from reference import cases, check_values, check_views, whole

SMOKE = [entry for table in TABLES for entry in table if entry.smoke]


@pytest.mark.parametrize("entry", cases(SMOKE, "opencl"))
def test_values(entry, opencl):
    check_values(entry, "float32" if "float32" in entry.dtypes else entry.dtypes.split()[0], opencl)


@pytest.mark.parametrize("entry", cases([e for e in SMOKE if e.name in ("softmax", "pad", "gather")], "opencl gradient"))
def test_gradients(entry, opencl):
    check_views(entry, whole, opencl, use_backward=True)


def test_random_numbers_are_those_of_the_cpu(opencl):
    Tensor.manual_seed(3)
    there = Tensor.rand(5, device=opencl).tolist()
    Tensor.manual_seed(3)
    assert Tensor.rand(5, device="CPU").tolist() == there

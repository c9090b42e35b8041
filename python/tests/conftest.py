import os

import pytest

from quern import Device, Error, Tensor

pytest.register_assert_rewrite("reference")
DEVICES = os.environ.get("QUERN_TEST_DEVICES", "CPU").split(",")  # where the tables of test_ops_*.py run


@pytest.fixture(autouse=True)
def seeded():
    Tensor.manual_seed(42)
    Tensor.training = False


def default_device(name):
    before = Device.DEFAULT
    Device.DEFAULT = name
    yield Device.DEFAULT
    Device.DEFAULT = before


@pytest.fixture(params=DEVICES)
def device(request):
    """Each of QUERN_TEST_DEVICES, for the time of a test also the device where tensors are made if nothing is said."""
    yield from default_device(request.param)


@pytest.fixture
def opencl():
    """OpenCL, where it is installed and not among QUERN_TEST_DEVICES."""
    if "CL" in DEVICES:
        pytest.skip("all of the tables run on CL")
    try:
        name = Device["CL"].name
    except Error as error:
        pytest.skip(f"CL cannot be opened: {error}")
    yield from default_device(name)

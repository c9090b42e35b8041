import pytest

from quern import Tensor


@pytest.fixture(autouse=True)
def seeded():
    Tensor.manual_seed(42)
    Tensor.training = False

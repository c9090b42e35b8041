"""Every public name of Tensor is in a table of ops, or in a test that is named here."""

import pathlib
import re

import pytest

import test_ops_binary
import test_ops_index
import test_ops_linalg
import test_ops_making
import test_ops_movement
import test_ops_nn
import test_ops_reduce
import test_ops_unary
from quern import Tensor

TABLES = [module.TABLE for module in (test_ops_binary, test_ops_index, test_ops_linalg, test_ops_making, test_ops_movement, test_ops_nn,
                                      test_ops_reduce, test_ops_unary)]

ELSEWHERE = {  # file: what it tests
    "test_ops_binary.py": "bitcast cast threefry",
    "test_ops_making.py": """
        assign backward data device dropout dtype element_size empty empty_like from_url grad is_floating_point is_param is_param_
        is_realized item manual_seed multinomial nbytes ndim numel numpy randint randperm realize replace requires_grad requires_grad_
        shape shard shard_ size to to_ tobytes tolist uop train""",
    "test_grad.py": "gradient schedule training",
    "test_tinygrad_names.py": "const hash invalids keccak",
    "test_torch_names.py": """
        add_ addcdiv_ addcmul_ clamp_ clip_ copy_ cpu dim div_ equal fill_ lerp_ masked_fill_ mul_ nelement new_empty new_full new_ones
        new_tensor new_zeros normal_ sub_ type_as uniform_ zero_""",
    "test_interop.py": "from_blob from_dlpack from_file",
    "test_uop.py": "custom_kernel",
    "test_shards.py": "random_bits shard_like",
}


def public_names():
    return [name for name in dir(Tensor) if not name.startswith("_")]


def test_every_name_is_tested():
    tested = {entry.name for table in TABLES for entry in table} | set(test_ops_binary.NAMES)
    tested |= {name for name, _, _ in test_ops_making.RANDOM}
    tested |= {name for names in ELSEWHERE.values() for name in names.split()}
    assert sorted(set(public_names()) - tested) == [], "public names of Tensor that no table of test_ops_*.py has"
    assert sorted(tested - set(dir(Tensor))) == [], "names that Tensor does not have"


@pytest.mark.parametrize("file", ELSEWHERE)
def test_files_test_what_is_said(file):
    text = (pathlib.Path(__file__).parent / file).read_text()
    assert [name for name in ELSEWHERE[file].split() if not re.search(rf"\.{name}\b", text)] == []

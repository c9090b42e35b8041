"""Functions and methods of the extension in pickles and copies: by name, as those of Python are."""

import copyreg

from quern import _core


def _by_name(function) -> str:
    return function.__qualname__


def _of_object(method):
    return getattr, (method.__self__, method.__func__.__name__)


copyreg.pickle(type(_core.promote), _by_name)
copyreg.pickle(type(_core.Tensor.relu), _by_name)
copyreg.pickle(type(_core.DType("float32").vec), _of_object)

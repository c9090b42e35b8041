"""Tables of wrong use: the kind of exception, what its text says, and the call."""

import re
import sys

import pytest

import quern

PYTHON = {  # what Python calls such a thing
    quern.ValueError: ValueError, quern.ShapeError: ValueError, quern.AxisError: IndexError, quern.DTypeError: TypeError, quern.IndexError: IndexError,
    quern.DeviceError: RuntimeError, quern.ParseError: ValueError, quern.SpecError: ValueError, quern.RewriteError: RuntimeError, quern.Error: RuntimeError,
    quern.MissingFileError: FileNotFoundError,
}


# Python's own words for an attribute that cannot be set
NO_SETTER = "has no setter" if sys.version_info >= (3, 11) else "can't set attribute"


def row(kind, text, call, *marks):
    return pytest.param(kind, text, call, id=re.sub(r"\W+", " ", text).strip()[:60], marks=marks)


def wanted(kind, text, call, reason):
    """What should be said, and is not yet."""
    return row(kind, text, call, pytest.mark.xfail(strict=True, reason=reason))


def refuses(kind, text, call):
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value).replace("quern._core.", "")  # of its own accord Python says where a type is from, or not
    if kind in PYTHON:
        assert type(caught.value) is kind and isinstance(caught.value, PYTHON[kind]) and isinstance(caught.value, quern.Error)
    else:
        assert not isinstance(caught.value, quern.Error)

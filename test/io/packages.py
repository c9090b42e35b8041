"""Where the tests of files find the packages that they compare quern with."""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-test" / "bin" / "python"


def enter():
    """Goes on in the Python of .venv-test, which has them. Without it the test fails: it is made by ./dev test."""
    if pathlib.Path(sys.prefix) == PYTHON.parents[1]:
        return
    if not PYTHON.exists():
        sys.exit(f"there is no {PYTHON}: ./dev test makes it from test/requirements.txt")
    os.execv(PYTHON, [str(PYTHON), *sys.argv])

"""Where the tests of files find the packages that they compare quern with."""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77  # what ctest takes for that
PYTHON = ROOT / ".venv-test" / "bin" / "python"


def enter():
    """Goes on in the Python of .venv-test, which has them. ./dev test makes it; where that cannot
    be done, on a machine without a network say, the test is skipped."""
    if pathlib.Path(sys.prefix) == PYTHON.parents[1]:
        return
    if not PYTHON.exists():
        print(f"skipped: there is no {PYTHON}, which ./dev test makes from test/requirements.txt")
        sys.exit(SKIPPED)
    os.execv(PYTHON, [str(PYTHON), *sys.argv])

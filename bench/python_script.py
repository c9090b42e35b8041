"""One side of the python suite: an example, with only its import changed.

    python bench/python_script.py LIBRARY EXAMPLE STEPS

prints what each step yields (unit "result"), the time from before the import to the first result, and that of a later step."""

import json
import pathlib
import re
import statistics
import sys
import time

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "examples/python"
CAPTURED = 3  # steps until a jit has captured what it runs


def load(example, library):
    """What the example defines, with `quern` in its imports replaced."""
    path = FOLDER / f"{example}.py"
    text = re.sub(r"^(from|import) quern\b", rf"\1 {library}", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    defined = {"__name__": example, "__file__": str(path)}
    exec(compile(text, path, "exec"), defined)
    return defined


def measured(name, value, unit):
    print(json.dumps({"name": name, "value": value, "unit": unit}), flush=True)


def main(library, example, count):
    import numpy  # noqa: F401 (not the time of either side)

    begin = time.perf_counter()
    results, times = load(example, library)["steps"](), []
    for step in range(count):
        values = next(results)
        times.append(time.perf_counter() - begin)
        for i, value in enumerate(values):
            measured(f"{example}: step {step}, value {i}", value, "result")
        begin = time.perf_counter()
    measured(f"{example}: first result", times[0] * 1e3, "ms")
    measured(f"{example}: step", statistics.median(times[CAPTURED:]) * 1e3, "ms")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))

"""python -m quern: what was installed, and what it finds here."""

import os
import platform
import sys

from quern import Device, Error, Tensor, __version__, _core

_MISSING = {  # what a device needs that was not found
    "CPU": "built without LLVM",
    "CL": "OpenCL, and a driver for it (Debian: ocl-icd-libopencl1 and pocl-opencl-icd)",
}


def _works(name: str) -> str:
    """Why it does not work, or "" if it does."""
    try:
        result = (Tensor([1.0, 2.0, 3.0], device=name) * 2).sum().item()
    except Error as e:
        return str(e)
    return "" if result == 12 else f"1 + 2 + 3, twice, is {result}"


def _hardware(name: str) -> str:
    if name != "CPU":
        return Device[name].hardware.removeprefix(name).strip()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "")
    except OSError:
        model = platform.processor()
    return f"{model}, {len(os.sched_getaffinity(0))} threads"


def main() -> int:
    """Prints it all; the status is whether the default device works."""
    print(f"quern {__version__}, Python {platform.python_version()}, {os.path.dirname(_core.__file__)}")
    default_works = False
    for name in sorted({*Device.names(), *_MISSING}):
        if name == "NULL" or name.startswith("DISK"):
            continue
        if name not in Device.names():
            print(f"  {name:8} missing: {_MISSING[name]}")
            continue
        wrong = _works(name)
        if wrong:
            print(f"  {name:8} missing: {wrong.removeprefix(name + ': ')}")
            continue
        mark = " (default)" if name == Device.DEFAULT else ""
        default_works = default_works or bool(mark)
        what = _hardware(name)
        print(f"  {name:8} works{mark}{': ' if what else ''}{what}")
    for module, use in (("numpy", "Tensor.numpy() and arrays as tensors"),):
        try:
            print(f"  {module:8} {__import__(module).__version__}")
        except ImportError:
            print(f"  {module:8} missing: {use} (pip install {module})")
    return 0 if default_works else 1


if __name__ == "__main__":
    sys.exit(main())

"""The start suite's work by tinygrad on its CPU device, without what it keeps on disk: python start_tinygrad.py NAME.
Importing it is not counted."""

import json
import os
import sys
import time

os.environ.setdefault("DEV", "CPU")
os.environ.setdefault("CC", "clang-19")  # what ./dev setup installs
os.environ["CACHELEVEL"] = "0"

from models_tinygrad import Tensor, parameter, resnet18, resnet50  # noqa: E402
from tinygrad import Device  # noqa: E402
from tinygrad.codegen import full_rewrite_to_sink, line_rewrite, linearize, pm_linearize_cleanups  # noqa: E402
from tinygrad.uop.ops import Ops  # noqa: E402


def measured(name, value, unit):
    print(json.dumps({"name": name, "value": value, "unit": unit}))


def programs():
    renderer = Device["CPU"].renderer
    kernels = {call.src[0] for call in resnet50(64).schedule_linear().src if call.src[0].op is Ops.SINK}
    for kernel in kernels:
        line_rewrite(linearize(full_rewrite_to_sink(kernel, renderer)), pm_linearize_cleanups)


name = sys.argv[1]
start = time.perf_counter()
if name == "softmax":
    (Tensor.empty(256, 256) @ parameter(256, 256)).softmax(1).numpy()
    title = "softmax(x @ w) of 256x256"
elif name == "resnet18":
    resnet18(1).numpy()
    title = "ResNet-18 forward, batch 1"
else:
    programs()
    title = "ResNet-50, batch 64: tensors to programs"
measured(title, 1e3 * (time.perf_counter() - start), "ms")

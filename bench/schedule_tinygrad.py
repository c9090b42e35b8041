"""The schedule suite's work by tinygrad: python schedule_tinygrad.py NAME [N]. The same networks as models/models.cpp."""

import json
import os
import resource
import sys
import time

os.environ.setdefault("DEV", "NULL")  # nothing is run
sys.setrecursionlimit(1_000_000)

from models_tinygrad import llama_loss, lstm_loss, resnet50, sgd_step  # noqa: E402


def measured(name, value, unit):
    print(json.dumps({"name": name, "value": value, "unit": unit}))


name, n = sys.argv[1], int(sys.argv[2])
start = time.perf_counter()
if name == "resnet":
    wanted, title = [resnet50(n)], f"ResNet-50 forward, batch {n}"
elif name == "llama":
    wanted, title = sgd_step(llama_loss(n)), f"llama training step, {n} layers"
else:
    wanted, title = sgd_step(lstm_loss(n)), f"LSTM training step, {n} time steps"
built = time.perf_counter() - start
start = time.perf_counter()
schedule = wanted[0].schedule_linear(*wanted[1:]).src
scheduled = time.perf_counter() - start
measured(f"{title}: to kernels", scheduled * 1e3, "ms")
measured(f"{title}: to tensors", built * 1e3, "ms")
measured(f"{title}: kernels", len(schedule), "kernels")
measured(f"{title}: memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MiB")

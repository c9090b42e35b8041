"""The cpu suite: kernels on one core, beside NumPy (with OpenBLAS) on one core."""

import os
import sys

import harness

os.environ["OPENBLAS_NUM_THREADS"] = "1"
given = harness.options(peers=["numpy"])
ours = harness.run([harness.program("cpu")])
theirs = {peer: harness.run([sys.executable, harness.ROOT / f"bench/cpu_{peer}.py"]) for peer in given.peers}
harness.report(ours, theirs, given)

"""The train suite: a training step of a network for MNIST, with a fresh cache. PyTorch is large: it is asked for by name
(--peers=torch), and must be installed."""

import os
import sys
import tempfile

import harness

given = harness.options(peers=["tinygrad", "jax", "torch"])
if "torch" in given.peers and given.peers != ["torch"]:
    try:
        import torch  # noqa: F401
    except ImportError:
        given.peers.remove("torch")
        print("PyTorch is not installed, and left out")
with tempfile.TemporaryDirectory() as folder:
    os.environ["QUERN_CACHE_DIR"] = folder
    ours = harness.run([harness.program("train")])
theirs = {}
for peer in given.peers:
    print(f"{peer} ...", flush=True)
    theirs[peer] = harness.run([sys.executable, harness.ROOT / f"bench/train_{peer}.py"])
harness.report(ours, theirs, given)

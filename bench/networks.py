"""The suite networks: whole networks at two sizes, forward and as a training step, replayed by quern's jit (or --eager: the graph is built
each time), beside PyTorch eager. The first result counts by itself. Results of both sides are compared."""

import os
import statistics
import sys
import tempfile

import numpy as np

import harness

TOLERANCE = 2e-3  # of the greatest value: networks of fifty layers add up in other orders


def add_options(parser):
    parser.add_argument("--only", metavar="REGEX", default="", help="networks whose name has this")
    parser.add_argument("--eager", action="store_true", help="quern's side without the jit")


def compare(ours, theirs):
    """Lines that say what differs."""
    for key in theirs.files:
        a, b = ours[key].astype(np.float64), theirs[key].astype(np.float64)
        if a.shape != b.shape:
            yield f"{key}: shape {a.shape} instead of {b.shape}"
        elif not (np.abs(a - b).max(initial=0) <= TOLERANCE * max(np.abs(b).max(initial=0), 1e-3)):
            yield f"{key}: differs by {np.abs(a - b).max():.3g}, of values up to {np.abs(b).max():.3g}"


given = harness.options(peers=["torch"], add=add_options)
with tempfile.TemporaryDirectory() as folder:
    def side(library):
        def turn():
            environment = {"CPU_THREADS": str(os.cpu_count()), "QUERN_CACHE_DIR": f"{folder}/cache"}
            if library == "quern":
                environment["PYTHONPATH"] = harness.package()
            os.environ.update(environment)
            return harness.run([sys.executable, harness.ROOT / "bench/networks_work.py", library, given.only, f"{folder}/{library}.npz",
                                *(["eager"] if given.eager else [])])
        return turn

    # The first results of a second turn would be those of kernels that are on disk.
    found = harness.in_turn({name: side(name) for name in ("quern", *given.peers)}, rounds=1)
    wrong = []
    for peer in given.peers:
        wrong += compare(np.load(f"{folder}/quern.npz"), np.load(f"{folder}/{peer}.npz"))
ours = found["quern"]
harness.report(ours, {peer: found[peer] for peer in given.peers}, given)
for peer in given.peers:
    theirs = {row["name"]: row["value"] for row in found[peer]}
    for kind in ("forward", "training step"):
        ratios = sorted(theirs[r["name"]] / r["value"] for r in ours if r["name"].endswith(kind) and r["name"] in theirs)
        if ratios:
            print(f"{kind}: {len(ratios)} programs, median {statistics.median(ratios):.2f} of {peer}'s speed, least {ratios[0]:.2f}")
for line in wrong:
    print(f"WRONG {line}")
sys.exit(1 if wrong else 0)

"""The schedule suite: from tensors to kernels. Larger sizes show how the cost grows; the peer does one size of each."""

import sys

import harness

given = harness.options(peers=["tinygrad"])
SIZES = {"resnet": [64], "llama": [8, 16, 32, 64], "lstm": [50, 100, 200, 400]}
COMPARED = {"resnet": 64, "llama": 32, "lstm": 50}

ours, theirs = [], {peer: [] for peer in given.peers}
for name, sizes in SIZES.items():
    for n in sizes[:1] if harness.COUNTED else sizes:
        if harness.COUNTED:
            ours += harness.counted(f"{name}, {n}", [harness.program("schedule"), name, n])
            continue
        ours += harness.best([harness.program("schedule"), name, n], runs=3)
    for peer, rows in theirs.items():
        print(f"{peer}: {name}")
        rows += harness.run([sys.executable, harness.ROOT / f"bench/schedule_{peer}.py", name, COMPARED[name]])
harness.report(ours, theirs, given)

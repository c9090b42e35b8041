"""The ir suite: building, walking and simplifying graphs."""

import sys

import harness
import ir_input

given = harness.options(peers=["tinygrad"])
inputs = ir_input.write(harness.ROOT / "build" / "bench-ir")
# A second simplification of the same expressions is quicker in tinygrad, which remembers: each process does it once.
command = [harness.program("ir"), *inputs]
ours = harness.counted("graphs and index expressions", command) if harness.COUNTED else harness.best(command, runs=3)
theirs = {peer: harness.best([sys.executable, harness.ROOT / f"bench/ir_{peer}.py", *inputs], runs=3) for peer in given.peers}


def take_checksum(rows):
    checksums = [row["value"] for row in rows if row["name"] == "checksum"]
    rows[:] = [row for row in rows if row["name"] != "checksum"]
    return checksums


# What the simplified expressions evaluate to, added up, has to be the same on both sides.
expected = take_checksum(ours)
for peer, rows in theirs.items():
    if (found := take_checksum(rows)) != expected:
        sys.exit(f"bench: the simplified expressions of {peer} add up to {found[0]}, those of quern to {expected[0]}")
harness.report(ours, theirs, given)

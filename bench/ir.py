"""The ir suite: building, walking and simplifying graphs."""

import sys

import harness
import ir_input

given = harness.options(peers=["tinygrad"])
inputs = ir_input.write(harness.ROOT / "build" / "bench-ir")
ours = harness.run([harness.program("ir"), *inputs])
theirs = {peer: harness.run([sys.executable, harness.ROOT / f"bench/ir_{peer}.py", *inputs]) for peer in given.peers}


def take_checksum(rows):
    (checksum,) = [row["value"] for row in rows if row["name"] == "checksum"]
    rows[:] = [row for row in rows if row["name"] != "checksum"]
    return checksum


# What the simplified expressions evaluate to, added up, has to be the same on both sides.
expected = take_checksum(ours)
for peer, rows in theirs.items():
    if (found := take_checksum(rows)) != expected:
        sys.exit(f"bench: the simplified expressions of {peer} add up to {found}, those of quern to {expected}")
harness.report(ours, theirs, given)

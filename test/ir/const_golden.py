"""Prints const_golden.h: how numpy and ml_dtypes round float32 values to the narrow float types. What is finite and too large for a
float of 8 bits becomes the greatest value, as quern has it.

Usage: python const_golden.py > const_golden.h

The inputs are float32, because ml_dtypes takes some doubles through float32 and so rounds them twice.
"""
import ml_dtypes
import numpy as np

TYPES = {
    "kFP8E4M3": (ml_dtypes.float8_e4m3fn, np.uint8),
    "kFP8E5M2": (ml_dtypes.float8_e5m2, np.uint8),
    "kFloat16": (np.float16, np.uint16),
    "kBFloat16": (ml_dtypes.bfloat16, np.uint16),
}
ROWS = 80
PER_LINE = 4
np.seterr(over="ignore", invalid="ignore")


def inputs(dtype, bits):
    """Values, midpoints and their neighbours, all over the range of the type and beyond it."""
    info = ml_dtypes.finfo(dtype)
    largest, smallest = np.float32(info.max), np.float32(info.smallest_subnormal)
    fixed = [0.0, -0.0, np.inf, -np.inf, largest, smallest]
    fixed += [smallest / np.float32(2), smallest * np.float32(1.5)]
    beyond = largest
    for _ in range(12):  # from the largest value up past the threshold of overflow
        beyond = np.float32(min(float(beyond) * 1.01, float(np.finfo(np.float32).max)))
        fixed.append(beyond)
    random = np.random.default_rng(7)
    patterns = random.integers(0, np.iinfo(bits).max // 2, 100).astype(bits)
    below = patterns.view(dtype).astype(np.float32)
    above = (patterns + bits(1)).view(dtype).astype(np.float32)
    middle = (below + above) / np.float32(2)
    near = []
    for m in middle[np.isfinite(middle)]:
        near += [m, -np.nextafter(m, np.float32(0)), np.nextafter(m, np.float32(np.inf))]
    return np.array((fixed + near)[:ROWS], np.float32)


print("// How numpy and ml_dtypes round: {float32 bits, bits of the result}. Printed by const_golden.py.")
print("#pragma once\n\n#include <cstdint>\n\nnamespace golden {\n")
print("struct Rounding {\n  uint32_t from;\n  uint16_t to;\n};\n")
for name, (dtype, bits) in TYPES.items():
    values = inputs(dtype, bits)
    largest = np.float32(ml_dtypes.finfo(dtype).max)
    limited = np.where(np.isfinite(values), np.clip(values, -largest, largest), values) if bits is np.uint8 else values
    results = limited.astype(dtype).view(bits)
    rows = [f"{{{int(v):#010x}, {int(r):#06x}}}" for v, r in zip(values.view(np.uint32), results)]
    print(f"inline constexpr Rounding {name}[] = {{")
    for i in range(0, len(rows), PER_LINE):
        print("    " + ", ".join(rows[i : i + PER_LINE]) + ",")
    print("};\n")
print("}  // namespace golden")

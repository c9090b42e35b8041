"""A filter for Doxygen, which takes only some comments for documentation: // becomes ///, and behind code ///<."""

import re
import sys

SECTION = re.compile(r"^\s*// ----")

with open(sys.argv[1], encoding="utf-8") as file:
    for number, line in enumerate(file):
        if sys.argv[1].endswith(".h"):
            if re.match(r"^\s*//", line) and not SECTION.match(line) and "NOLINT" not in line:
                line = re.sub(r"//+", "//! \\\\file\n///" if number == 0 else "///", line, count=1)
            else:
                line = re.sub(r"(?<=[;,{}]) +// (?!NOLINT|IWYU)", "  ///< ", line, count=1)
        sys.stdout.write(line)

"""The include rule: which folder of quern/ may include which. The table is the picture in docs/architecture.md."""

import pathlib
import re
import sys
import tempfile
import unittest

STAGES = ["ir", "tensor", "schedule", "codegen", "render", "runtime"]
ALL = STAGES + ["engine", "nn", "io", "viz", "apps", "python"]
MAY_INCLUDE = {  # besides itself
    "ir": [],
    "tensor": ["ir"],
    "schedule": ["ir"],
    "codegen": ["ir"],
    "render": ["ir"],
    "runtime": ["ir", "render"],
    "engine": STAGES,
    "nn": ["ir", "tensor", "engine"],
    "io": ["ir", "tensor", "engine"],
    "viz": ALL,
    "apps": ALL,
    "python": ALL,
}
INCLUDE = re.compile(r'\s*#\s*include\s*(["<])([^">]+)')


def violation(folder, quote, path):
    """Why a file of quern/<folder>/ may not include `path`, or None if it may."""
    parts = path.split("/")
    if folder == "python" and quote == '"' and path.startswith("python/src/"):
        return None
    if parts[0] != "quern":
        return f'"{path}" should be written from the root, as "quern/..."' if quote == '"' else None
    if len(parts) == 2:
        return f"{path} is for users, quern itself includes what it needs"
    if parts[1] == folder or parts[1] in MAY_INCLUDE[folder]:
        return None
    allowed = ", ".join([folder] + MAY_INCLUDE[folder])
    return f"quern/{folder} includes {path}; it may include only: {allowed}"


def violations(root):
    """'file:line: reason' for each include that breaks the rule in the folders of root/quern, and in python/src."""
    for file in sorted([*pathlib.Path(root, "quern").glob("*/**/*"), *pathlib.Path(root, "python").glob("src/**/*")]):
        if file.suffix not in (".h", ".cpp"):
            continue
        name = file.relative_to(root).as_posix()
        folder = "python" if name.startswith("python/") else name.split("/")[1]
        if folder not in MAY_INCLUDE:
            yield f"{name}:1: the folder quern/{folder} is not in the table of {pathlib.Path(__file__).name}"
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            include = INCLUDE.match(line)
            reason = include and violation(folder, *include.groups())
            if reason:
                yield f"{name}:{number}: {reason}"


class Layering(unittest.TestCase):
    def test_quern_keeps_the_rule(self):
        root = pathlib.Path(__file__).resolve().parent.parent
        self.assertTrue(list(root.glob("quern/ir/*.h")), "no headers found: is this the repository?")
        found = list(violations(root))
        self.assertFalse(found, "\n" + "\n".join(found))

    def found_in(self, name, text):
        with tempfile.TemporaryDirectory() as root:
            file = pathlib.Path(root, name)
            file.parent.mkdir(parents=True)
            file.write_text(text)
            return list(violations(root))

    def test_what_is_allowed(self):
        self.assertEqual(self.found_in("quern/ir/a.cpp", '#include "quern/ir/a.h"\n#include <vector>\n'), [])
        self.assertEqual(self.found_in("quern/engine/a.h", '#include "quern/codegen/lower.h"\n'), [])
        self.assertEqual(self.found_in("quern/apps/a.cpp", '#include "quern/viz/a.h"\n'), [])
        self.assertEqual(self.found_in("python/src/a.cpp", '#include "python/src/a.h"\n#include "quern/nn/a.h"\n'), [])
        self.assertEqual(self.found_in("quern/ir/a.cpp", '// #include "quern/tensor/a.h"\n'), [])

    def test_a_violation_is_caught_with_file_and_line(self):
        found = self.found_in("quern/ir/a.h", '#pragma once\n\n# include "quern/tensor/tensor.h"\n')
        self.assertEqual(found, ["quern/ir/a.h:3: quern/ir includes quern/tensor/tensor.h; it may include only: ir"])

    def test_each_kind_of_violation_is_caught(self):
        for name, text in [
            ("quern/schedule/a.cpp", "#include <quern/tensor/a.h>"),
            ("quern/codegen/deep/a.cpp", '#include "quern/schedule/a.h"'),
            ("quern/runtime/a.cpp", '#include "quern/engine/a.h"'),
            ("quern/nn/a.cpp", '#include "quern/codegen/a.h"'),
            ("quern/ir/a.cpp", '#include "op.h"'),
            ("quern/ir/a.cpp", '#include "../tensor/a.h"'),
            ("quern/apps/a.cpp", '#include "quern/quern.h"'),
            ("quern/misc/a.cpp", ""),
            ("python/src/a.cpp", '#include "a.h"'),
            ("quern/apps/a.cpp", '#include "python/src/a.h"'),
        ]:
            self.assertEqual(len(self.found_in(name, text)), 1, name + ": " + text)


if __name__ == "__main__":
    sys.exit(unittest.main())

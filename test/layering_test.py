"""The include rule: which folder of quern/ may include which, and in folders of rooms, which room may include which.
The tables are the picture in docs/architecture.md."""

import pathlib
import re
import sys
import tempfile
import unittest

STAGES = ["ir", "tensor", "schedule", "codegen", "render", "runtime"]
ALL = STAGES + ["engine", "nn", "io", "llm", "apps", "python"]
MAY_INCLUDE = {  # besides itself and base
    "base": [],
    "ir": [],
    "tensor": ["ir"],
    "schedule": ["ir"],
    "codegen": ["ir"],
    "render": ["ir"],
    "runtime": ["ir", "render"],
    "engine": STAGES,
    "nn": ["ir", "tensor", "engine"],
    "io": ["ir", "tensor", "engine"],
    "llm": STAGES + ["engine", "nn", "io"],
    "apps": ALL,
    "python": ALL,
}

# The rooms of a folder in an order: a room may include the rooms before it, and the headers that stand directly in the folder; the
# files that stand directly in the folder may include all rooms. Rooms in one tuple may include each other.
ROOMS = {
    "ir": ["node", "shape", "rules", "rewrite", "symbolic", "text", "spec", "pass"],
    "tensor": ["core", "shape", "indexing", "ops", "layers", "gradient"],
    "schedule": ["facts", "fuse", "devices", "canonicalise", "ranges", "kernels"],
    "codegen": ["analysis", "memory", "loops", "workgroup", "opt", "cost", "choose", "vector", "arithmetic", "linearize"],
    "render": ["c_style", "llvm"],
    "runtime": ["host", "cache", "cpu", "cl", "interp"],
    "engine": ["search", "realize", "jit"],
    "llm": ["tokenizer", "template", "model", "sampling"],
}
EXCEPTIONS = {  # (file, what it includes): why
    ("quern/ir/node/uop.cpp", "quern/ir/spec/spec.h"): "SPEC=2 checks each node where it is made",
}
INCLUDE = re.compile(r'\s*#\s*include\s*(["<])([^">]+)')


def place_of(folder, room):
    """The number of the room in the order of its folder, or None."""
    for number, rooms in enumerate(ROOMS[folder]):
        if room == rooms or (isinstance(rooms, tuple) and room in rooms):
            return number
    return None


def violation(file, quote, path):
    """Why `file` may not include `path`, or None if it may."""
    parts = path.split("/")
    own = file.split("/")[:-1]
    folder = "python" if own[0] == "python" else own[1]
    if folder == "python" and quote == '"' and path.startswith("python/src/"):
        return None
    if parts[0] != "quern":
        return f'"{path}" should be written from the root, as "quern/..."' if quote == '"' else None
    if len(parts) == 2:
        return f"{path} is for users, quern itself includes what it needs"
    if parts[1] != folder:
        if parts[1] == "base" or parts[1] in MAY_INCLUDE[folder]:
            return None
        allowed = ", ".join([folder] + MAY_INCLUDE[folder])
        return f"quern/{folder} includes {path}; it may include only: {allowed}"
    if folder in ROOMS and len(own) > 2:
        room, other = own[2], parts[2] if len(parts) > 3 else None
        if (file, path) in EXCEPTIONS:
            return None
        if room != other and other and place_of(folder, other) > place_of(folder, room):
            return f"the room quern/{folder}/{room} includes {path}, a room behind it"
    return None


def violations(root):
    """'file:line: reason' for each include that breaks the rule in the folders of root/quern, and in python/src."""
    for file in sorted([*pathlib.Path(root, "quern").glob("*/**/*"), *pathlib.Path(root, "python").glob("src/**/*")]):
        if file.suffix not in (".h", ".cpp"):
            continue
        name = file.relative_to(root).as_posix()
        parts = name.split("/")
        folder = "python" if parts[0] == "python" else parts[1]
        if folder not in MAY_INCLUDE:
            yield f"{name}:1: the folder quern/{folder} is not in the table of {pathlib.Path(__file__).name}"
            continue
        if folder in ROOMS and len(parts) > 3 and place_of(folder, parts[2]) is None:
            yield f"{name}:1: the room quern/{folder}/{parts[2]} is not in the table of {pathlib.Path(__file__).name}"
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            include = INCLUDE.match(line)
            reason = include and violation(name, *include.groups())
            if reason:
                yield f"{name}:{number}: {reason}"


class Layering(unittest.TestCase):
    def test_quern_keeps_the_rule(self):
        root = pathlib.Path(__file__).resolve().parent.parent
        self.assertTrue(list(root.glob("quern/ir/*/*.h")), "no headers found: is this the repository?")
        found = list(violations(root))
        self.assertFalse(found, "\n" + "\n".join(found))

    def test_each_room_says_what_it_is(self):
        root = pathlib.Path(__file__).resolve().parent.parent
        rooms = [room for folder in ROOMS for entry in ROOMS[folder]
                 for room in ([f"{folder}/{r}" for r in entry] if isinstance(entry, tuple) else [f"{folder}/{entry}"])]
        self.assertFalse([room for room in rooms if not (root / "quern" / room / "README.md").exists()])

    def found_in(self, name, text):
        with tempfile.TemporaryDirectory() as root:
            file = pathlib.Path(root, name)
            file.parent.mkdir(parents=True)
            file.write_text(text)
            return list(violations(root))

    def test_what_is_allowed(self):
        for name, text in [
            ("quern/ir/node/a.cpp", '#include "quern/ir/node/a.h"\n#include <vector>\n'),
            ("quern/ir/node/a.cpp", '#include "quern/base/a.h"\n'),
            ("quern/ir/spec/a.cpp", '#include "quern/ir/text/a.h"\n'),
            ("quern/ir/rules/a.cpp", '#include "quern/ir/node/a.h"\n'),
            ("quern/codegen/lower.cpp", '#include "quern/codegen/linearize/a.h"\n'),
            ("quern/codegen/loops/a.cpp", '#include "quern/codegen/lower.h"\n'),
            ("quern/engine/jit/a.h", '#include "quern/codegen/lower.h"\n'),
            ("quern/apps/a.cpp", '#include "quern/nn/a.h"\n'),
            ("python/src/a.cpp", '#include "python/src/a.h"\n#include "quern/nn/a.h"\n'),
            ("quern/ir/node/a.cpp", '// #include "quern/tensor/a.h"\n'),
        ]:
            self.assertEqual(self.found_in(name, text), [])

    def test_a_violation_is_caught_with_file_and_line(self):
        found = self.found_in("quern/ir/a.h", '#pragma once\n\n# include "quern/tensor/tensor.h"\n')
        self.assertEqual(found, ["quern/ir/a.h:3: quern/ir includes quern/tensor/tensor.h; it may include only: ir"])

    def test_each_kind_of_violation_is_caught(self):
        for name, text in [
            ("quern/schedule/a.cpp", "#include <quern/tensor/a.h>"),
            ("quern/codegen/loops/a.cpp", '#include "quern/schedule/a.h"'),
            ("quern/runtime/a.cpp", '#include "quern/engine/a.h"'),
            ("quern/nn/a.cpp", '#include "quern/codegen/a.h"'),
            ("quern/base/a.cpp", '#include "quern/ir/node/a.h"'),
            ("quern/ir/a.cpp", '#include "op.h"'),
            ("quern/ir/a.cpp", '#include "../tensor/a.h"'),
            ("quern/ir/node/a.cpp", '#include "quern/ir/text/a.h"'),
            ("quern/codegen/loops/a.cpp", '#include "quern/codegen/choose/a.h"'),
            ("quern/codegen/cellar/a.cpp", ""),
            ("quern/apps/a.cpp", '#include "quern/quern.h"'),
            ("quern/misc/a.cpp", ""),
            ("python/src/a.cpp", '#include "a.h"'),
            ("quern/apps/a.cpp", '#include "python/src/a.h"'),
        ]:
            self.assertEqual(len(self.found_in(name, text)), 1, name + ": " + text)


if __name__ == "__main__":
    sys.exit(unittest.main())

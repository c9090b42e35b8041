"""The tables of passes in docs/ are those that the compiler runs; each pass has the file that it names."""

import os
import pathlib
import subprocess
import sys
import unittest

COMMAND = os.environ.get("QUERN_COMMAND", "")
ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = {"schedule.md": ("tensors", "loops", "kernels"), "codegen.md": ("addresses", "opts", "program")}
HEADER = "| stage | pass | made of | file | needs | what holds afterwards |"


def stages(table):
    """The rows of each stage, in order."""
    found = {}
    stage = ""
    for line in table.splitlines():
        if not line.startswith("|") or line.startswith(("|---", HEADER)):
            continue
        stage = line.split("|")[1].strip() or stage
        found.setdefault(stage, []).append(line)
    return found


def printed():
    return subprocess.run([COMMAND, "ir", "--passes"], check=True, capture_output=True, text=True).stdout


def table_of(page):
    lines = (ROOT / "docs" / page).read_text().splitlines()
    start = lines.index(HEADER)
    end = next(i for i in range(start, len(lines)) if not lines[i].startswith("|"))
    return start, end, lines


class PassesTest(unittest.TestCase):
    def test_docs_have_the_tables(self):
        have = stages(printed())
        self.assertEqual(sorted(have), sorted(s for names in PAGES.values() for s in names))
        for page, names in PAGES.items():
            start, end, lines = table_of(page)
            self.assertEqual(
                stages("\n".join(lines[start:end])), {name: have[name] for name in names},
                f"docs/{page}: `python3 test/passes_test.py --write` with QUERN_COMMAND set writes the table anew")

    def test_names_are_unique(self):
        names = [row.split("|")[2].strip() for rows in stages(printed()).values() for row in rows]
        self.assertEqual(len(names), len(set(names)), names)

    def test_files_are_there(self):
        for rows in stages(printed()).values():
            for row in rows:
                file = row.split("|")[4].strip().strip("`")
                found = [ROOT / "quern" / f"{file}{ending}" for ending in (".cpp", ".h", "")]
                self.assertTrue(any(path.exists() for path in found), row)


def write():
    have = stages(printed())
    for page, names in PAGES.items():
        start, end, lines = table_of(page)
        rows = [HEADER, "|---|---|---|---|---|---|", *(row for name in names for row in have[name])]
        (ROOT / "docs" / page).write_text("\n".join(lines[:start] + rows + lines[end:]) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    elif COMMAND:
        unittest.main()
    else:
        sys.exit(77)

"""What the pages say is there is there: files that they name, and pages that they link to."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("quern/**/README.md"), *ROOT.glob("bench/*.md")]
NAMED = re.compile(r"`((?:quern|test|python|bench|docs|cmake)/[\w./*]+)`")
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


def is_there(name):
    return (ROOT / name).exists() or any(ROOT.glob(name)) or any(ROOT.glob(name.rstrip("/") + ".*"))


class Docs(unittest.TestCase):
    def test_files_that_are_named_exist(self):
        self.assertTrue(PAGES)
        allowed = {"quern/runtime/new"}  # of an example
        missing = [f"{page.relative_to(ROOT)}: {name}" for page in PAGES for name in NAMED.findall(page.read_text())
                   if name.rstrip("/") not in allowed and not is_there(name)]
        self.assertFalse(missing, "\n" + "\n".join(missing))

    def test_links_lead_somewhere(self):
        missing = [f"{page.relative_to(ROOT)}: {link}" for page in PAGES for link in LINK.findall(page.read_text())
                   if not (page.parent / link).exists()]
        self.assertFalse(missing, "\n" + "\n".join(missing))


if __name__ == "__main__":
    unittest.main()

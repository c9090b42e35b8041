"""The tool that compares what two builds make of the same graphs: it shows what differs, and nothing else."""

import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import corpus

TOOL = os.environ.get("QUERN_CORPUS_TOOL", "")
GRAPH = """\
%0 = DEVICE(["CPU"])
%1 = PARAM(40, %0; 1):float32
SINK(AFTER(%1, STORE(%1, PARAM(40, %0; 0):float32 OP PARAM(40, %0; 2):float32)))
"""


class CorpusTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def rendered(self, name, operator):
        out = self.folder / name
        subprocess.run([TOOL, str(out / "0")], input=f"# graph g\n{GRAPH.replace('OP', operator)}", text=True, check=True)
        return out

    def compare(self, before, after):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), self.assertRaises(SystemExit) as end:
            corpus.compare(types.SimpleNamespace(before=before, after=after, most=5))
        return end.exception.code, out.getvalue()

    def test_kernels_for_each_target(self):
        out = self.rendered("text", "+")
        for target, words in (("CPU", "void k_e_40("), ("CL", "__kernel"), ("LINEAR", "SPECIAL(")):
            text = (out / "0" / f"{target}.txt").read_text()
            self.assertTrue(text.startswith("graph g\nkernel float32[40] float32[40] float32[40]\nopts "), text)
            self.assertIn(words, text)

    def test_what_differs_is_shown(self):
        status, text = self.compare(self.rendered("sum", "+"), self.rendered("product", "*"))
        self.assertEqual(status, 1)
        self.assertIn("CPU: 1 graphs of 1 different kernels; graphs with a difference: 1", text)
        self.assertRegex(text, r"(?m)^-.* \+ ")
        self.assertRegex(text, r"(?m)^\+.* \* ")

    def test_names_are_none_of_it(self):
        before, after = self.rendered("before", "+"), self.rendered("after", "+")
        file = after / "0" / "CPU.txt"
        text = file.read_text()
        file.write_text(text.replace("k_e_40", "k_another").replace("v0", "v77"))
        self.assertEqual(self.compare(before, after)[0], 0)
        file.write_text(text.replace("v1", "v0"))
        self.assertEqual(self.compare(before, after)[0], 1)

    def test_graphs_on_one_side(self):
        before, after = self.rendered("before", "+"), self.rendered("after", "+")
        (after / "0" / "CL.txt").write_text("")
        self.assertIn("some are on one side only", str(self.compare(before, after)[0]))

    def test_graphs_that_cannot_be_read(self):
        for text, message in (("# graph g\nSINK(\n", "corpus_tool: 2:1: "), ("SINK()", "corpus_tool: expected \"# graph\" and a key")):
            done = subprocess.run([TOOL, str(self.folder / "x")], input=text, text=True, capture_output=True, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(message, done.stderr)

    def test_each_graph_is_once_in_what_is_collected(self):
        file = self.folder / "part.ir"
        file.write_text("# graph a\nx\ny\n# graph b\nz\n# graph a\nx\ny\n")
        self.assertEqual(corpus.graphs_in(file), {"a": "x\ny\n", "b": "z\n"})


if __name__ == "__main__":
    unittest.main() if TOOL else sys.exit(77)

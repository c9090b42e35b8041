"""quern demo: it learns, says how many kernels a step is, saves a file, and gives the same numbers twice."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

COMMAND = os.environ.get("QUERN_COMMAND", "")


def demo(*arguments, **variables):
    done = subprocess.run([COMMAND, "demo", *arguments], env=os.environ | variables, capture_output=True, text=True,
                          timeout=500, check=False)
    return done.returncode, done.stdout, done.stderr


class DemoTest(unittest.TestCase):
    def test_learns_to_read_digits(self):
        with tempfile.TemporaryDirectory() as folder:
            files = [pathlib.Path(folder) / name for name in ("a.safetensors", "b.safetensors")]
            texts = []
            for file in files:
                status, text, errors = demo("--epochs", "6", "--save", str(file))
                self.assertEqual((status, errors), (0, ""))
                texts.append(text)
            right = float(re.search(r"it reads ([\d.]+)% right", texts[0])[1])
            self.assertGreaterEqual(right, 97)
            self.assertRegex(texts[0], r"forward, backward and Adam, is \d+ kernels")
            self.assertIn("is a", texts[0])
            self.assertEqual(files[0].read_bytes(), files[1].read_bytes())  # the same seed, the same bits

    def test_another_seed_is_another_network(self):
        with tempfile.TemporaryDirectory() as folder:
            a, b = pathlib.Path(folder) / "a", pathlib.Path(folder) / "b"
            for file, seed in ((a, "1"), (b, "2")):
                self.assertEqual(demo("--epochs", "1", "--seed", seed, "--save", str(file))[0], 0)
            self.assertNotEqual(a.read_bytes(), b.read_bytes())

    def test_wrong_use(self):
        for arguments in (["--epochs", "0"], ["--epochs", "many"], ["--seed"], ["--unknown"]):
            status, _, errors = demo(*arguments)
            self.assertGreater(status, 0, arguments)
            self.assertNotIn("terminate", errors)

    def test_a_file_that_cannot_be_written(self):
        status, _, errors = demo("--epochs", "1", "--save", "/nowhere/at/all.safetensors")
        self.assertGreater(status, 0)
        self.assertIn("/nowhere/at/all.safetensors", errors)


if __name__ == "__main__":
    unittest.main()

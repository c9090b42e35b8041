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
            status, text, errors = demo("--epochs", "6", "--save", str(pathlib.Path(folder) / "net.safetensors"))
        self.assertEqual((status, errors), (0, ""))
        self.assertGreaterEqual(float(re.search(r"it reads ([\d.]+)% right", text)[1]), 97)
        self.assertRegex(text, r"forward, backward and Adam, is \d+ kernels")
        self.assertIn("is a", text)

    def test_the_same_seed_gives_the_same_bits(self):
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for seed in ("1", "1", "2"):
                file = pathlib.Path(folder) / f"{len(files)}.safetensors"
                self.assertEqual(demo("--epochs", "1", "--seed", seed, "--save", str(file))[0], 0)
                files.append(file.read_bytes())
        self.assertEqual(files[0], files[1])
        self.assertNotEqual(files[0], files[2])

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

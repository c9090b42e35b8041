"""A process that saves a file again and again is killed at random moments: the file is always a whole one."""

import sys

import packages

packages.enter()

import os
import pathlib
import random
import signal
import subprocess
import tempfile
import time
import unittest

import numpy as np
import safetensors.numpy

TOOL = os.environ["QUERN_IO_TOOL"]
KILLS = 200


class KillTest(unittest.TestCase):
    def check(self, file):
        tensors = safetensors.numpy.load_file(file)
        numbers = np.unique(np.concatenate([tensors["large"], tensors["small"]]))
        self.assertEqual((len(numbers), tensors["large"].shape, tensors["small"].shape), (1, (1 << 18,), (3,)))
        return numbers[0]

    def test_never_a_damaged_file(self):
        chance = random.Random(7)
        saves = parts = 0
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "model.safetensors")
            safetensors.numpy.save_file({"large": np.zeros(1 << 18, np.int64), "small": np.zeros(3, np.int64)}, file)
            for _ in range(KILLS):
                with subprocess.Popen([TOOL, "save-forever", str(file)], stdout=subprocess.PIPE) as process:
                    if chance.random() < 0.8:
                        for _ in range(chance.randint(1, 3)):
                            self.assertEqual(process.stdout.readline(), b"saved\n")
                    time.sleep(chance.random() * 0.03)
                    process.send_signal(signal.SIGKILL)
                saves += self.check(file)
                for part in pathlib.Path(folder).glob("*.part"):  # what a killed process leaves
                    part.unlink()
                    parts += 1
                self.assertEqual([p.name for p in pathlib.Path(folder).iterdir()], ["model.safetensors"])
        self.assertGreater(saves, KILLS)
        self.assertGreater(parts, 0, "none was killed while it wrote")
        print(f"{saves} saves, {KILLS} kills, {parts} of them while it wrote")


if __name__ == "__main__":
    unittest.main()

"""quern run, chat, tokenize, gguf, perplexity and bench, on a small random model."""

import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "test/io"), str(ROOT / "python/tests")]
import packages

packages.enter()
import small_models

COMMAND = os.environ.get("QUERN_COMMAND", "")
if "tokenize" not in subprocess.run([COMMAND, "--help"], capture_output=True, text=True, check=True).stdout:
    print("skipped: quern was built without language models")
    sys.exit(packages.SKIPPED)


class LlmCommandTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.model = str(pathlib.Path(cls.folder.name, "small.gguf"))
        small_models.SmallModel("llama", cls.model)

    def run_command(self, *arguments, text="", status=0):
        done = subprocess.run([COMMAND, *map(str, arguments)], input=text, capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def file(self, content, name="text"):
        path = pathlib.Path(self.folder.name, name)
        path.write_text(content)
        return path

    def test_run(self):
        first = self.run_command("run", self.model, "-p", "abc", "-n", 12, "-t", 0)
        self.assertTrue(first.stdout.startswith("abc"))
        self.assertIn("tokens/s", first.stderr)
        self.assertEqual(first.stdout, self.run_command("run", self.model, "-f", "-", "-n", 12, "-t", 0, text="abc").stdout)
        self.assertEqual(first.stdout, self.run_command("run", self.model, "-f", self.file("abc"), "-n", 12, "-t", 0).stdout)
        quiet = self.run_command("run", self.model, "-p", "abc", "-n", 12, "-t", 0, "-q")
        self.assertEqual((quiet.stdout, quiet.stderr), (first.stdout.removeprefix("abc"), ""))
        seeded = [self.run_command("run", self.model, "-p", "abc", "-n", 20, "--seed", seed, "-q").stdout for seed in (1, 1, 2)]
        self.assertEqual(seeded[0], seeded[1])
        self.assertNotEqual(seeded[0], seeded[2])

    def test_chat_without_a_terminal(self):
        lines = "hi\n/temperature 0\n/max 3\nhi \\\nthere\n/history\n/retry\n/clear\n/nothing\n/max x\n/exit\nnever\n"
        done = self.run_command("chat", self.model, "-n", 3, "-s", "Be brief", text=lines)
        self.assertIn("system: Be brief\nuser: hi\nassistant: ", done.stdout)
        self.assertIn("user: hi \nthere\n", done.stdout)
        self.assertIn("there is no /nothing", done.stdout)
        self.assertIn("/max needs a number", done.stdout)
        self.assertNotIn("never", done.stdout)
        self.assertEqual(done.stderr.count("answer: "), 3)
        self.assertIn(" known", done.stderr)  # of the conversation so far

    def test_a_chat_longer_than_the_context_forgets_its_beginning(self):
        done = self.run_command("chat", self.model, "-c", 40, "-n", 4, text="abcdefgh\n" * 8 + "x" * 100 + "\n")
        self.assertEqual(done.stderr.count("answer: "), 8)
        self.assertIn("and the context is of 40", done.stderr)

    def test_interrupts_end_the_answer_and_not_the_program(self):
        main, side = pty.openpty()
        program = subprocess.Popen([COMMAND, "chat", self.model, "-n", "100000", "-q", "-t", "1"], stdin=side, stdout=side, stderr=side, start_new_session=True)
        os.close(side)
        output = b""

        def read_until(done):
            nonlocal output
            end = time.monotonic() + 60
            while not done() and select.select([main], [], [], max(0, end - time.monotonic()))[0]:
                output += os.read(main, 4096)
            self.assertTrue(done(), output)

        read_until(lambda: b"> " in output)
        os.write(main, b"hi\n")
        read_until(lambda: len(output) > 100)
        program.send_signal(signal.SIGINT)
        read_until(lambda: output.rstrip(b" ").endswith(b"\r\n>"))
        self.assertIsNone(program.poll())
        os.write(main, b"/exit\n")
        self.assertEqual(program.wait(30), 0)
        os.close(main)

    def test_tokenize(self):
        done = self.run_command("tokenize", self.model, "-p", "ab\\")
        self.assertIn("'a'\n", done.stdout)
        self.assertTrue(done.stdout.endswith("4 tokens\n"), done.stdout)  # and one that begins the text
        ids = self.run_command("tokenize", self.model, "-f", "-", "--ids", "--no-bos", text="ab").stdout.split()
        self.assertEqual([int(i) for i in ids], [3 + ord(c) - 32 for c in "ab"])

    def test_gguf(self):
        done = self.run_command("gguf", self.model, "--tensors")
        self.assertIn("general.architecture", done.stdout)
        self.assertRegex(done.stdout, r"blk\.0\.attn_q\.weight +float32 +\(64, 64\)")
        self.assertRegex(done.stdout, r"tokenizer\.ggml\.tokens +\[96\]: '<unk>' ")

    def test_perplexity_and_bench(self):
        done = self.run_command("perplexity", self.model, self.file("hello world " * 20), "-c", 64)
        self.assertRegex(done.stdout, r"^perplexity \d+\.\d{4} of \d+ tokens, ")
        done = self.run_command("bench", self.model, "-p", 20, "-n", 5, "-r", 1)
        self.assertRegex(done.stdout, r"^prompt of 20: .* tokens/s\ndecode of 5: .* tokens/s, \d+ kernels a token\n$")

    def test_errors(self):
        cut = pathlib.Path(self.folder.name, "cut.gguf")
        cut.write_bytes(pathlib.Path(self.model).read_bytes()[:-5000])
        for arguments, words in (
            (["run", "none.gguf", "-p", "a"], "none.gguf"),
            (["run", cut, "-p", "a"], "cut off"),
            (["chat", self.file("no model", "no.gguf")], "does not begin with GGUF"),
            (["run", self.model], "there is no prompt"),
            (["run", self.model, "-p", "a", "--top-p", "3"], "top_p is 3"),
            (["run", self.model, "-p", "a" * 200, "-c", "100"], "tokens, and the context is of 100"),
            (["run", self.model, "-p", "a", "-c", "100000000"], "ask for a smaller one"),
            (["bench", self.model, "-p", "250", "-n", "250"], "do not fit"),
            (["perplexity", self.model, "nothing.txt"], "nothing.txt"),
        ):
            done = self.run_command(*arguments, status=1)
            self.assertIn(words, done.stderr)
            self.assertTrue(done.stderr.splitlines()[-1].startswith("quern: "), done.stderr)
        self.run_command("run", status=2)


if __name__ == "__main__":
    unittest.main()

"""The `quern` command, as a user runs it: what it prints, what it writes, and how it fails."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

COMMAND = os.environ.get("QUERN_COMMAND", "")
ROOT = pathlib.Path(__file__).resolve().parents[2]
LOCATION = re.compile(r"(quern/[\w/]+\.(?:cpp|h)):(\d+)$", re.MULTILINE)

TENSOR = """\
%0 = BUFFER(UNIQUE(0), DEVICE(["CPU"]); 12):float32
REDUCE(RESHAPE(%0, 3, 4); {op: ADD, axes: [1]})
"""
KERNEL = """\
%0 = LOAD(INDEX(PARAM(; 0):float32*[256], r0[16, GLOBAL] * 16 + r1[16, REDUCE]))
%1 = STORE(INDEX(PARAM(; 1):float32*[16], r0), REDUCE(%0 * %0, r1; {op: ADD}))
SINK(END(%1, r0); {name: "sum_of_squares"})
"""
PROGRAM = """\
%0 = INDEX(PARAM(; 0):float32*[16], r0[16:int32])
SINK(END(STORE(%0, LOAD(%0) + 1.0), r0); {name: "add_one"})
"""


class CommandTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, content, name="input.ir"):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def start(self, *arguments, text=b"", environment=None, **options):
        known = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        if "stdin" not in options:
            options["input"] = text
        return subprocess.run([COMMAND, *arguments], env=known | (environment or {}), cwd=self.folder,
                              timeout=120, stderr=subprocess.PIPE, check=False,
                              **({"stdout": subprocess.PIPE} | options))

    def run_well(self, *arguments, **options):
        """What a run without an error prints; nothing goes to stderr."""
        done = self.start(*arguments, **options)
        self.assertEqual((done.returncode, done.stderr.decode()), (0, ""), arguments)
        return done.stdout.decode()

    def run_badly(self, *arguments, says=(), **options):
        """The message of a run that must fail: by an exit status, not a crash, and in words that tell what is wrong."""
        done = self.start(*arguments, **options)
        message = done.stderr.decode()
        self.assertGreater(done.returncode, 0, f"{arguments}: {message}")  # negative: ended by a signal
        self.assertNotIn("terminate", message)
        for part in [says] if isinstance(says, str) else says:
            self.assertIn(part, message, arguments)
        return message


class StatusTest(CommandTest):
    def test_version(self):
        self.assertRegex(self.run_well("--version"), r"^quern \d+\.\d+\.\d+\n$")

    def test_status(self):
        """0 is fine, 1 failed, 2 is a command line that is wrong."""
        good, bad = self.file(KERNEL), self.folder / "bad.ir"
        bad.write_text("ADD(")
        for status, arguments in ((0, ["env"]), (0, ["ir", good]), (0, ["--help"]), (0, ["ir", "--help"]), (0, ["demo", "rules"]), (1, ["ir", bad]),
                                  (1, ["ir", self.folder / "none"]), (1, ["ir", good, "--check", "tensor"]),
                                  (1, ["ir", good, "--trace", self.folder / "none" / "trace"]), (2, []), (2, ["nothing"]),
                                  (2, ["ir"]), (2, ["ir", good, "--nothing"]), (2, ["ir", good, "--check", "no level"]), (2, ["env", "more"]),
                                  (2, ["demo", "--epochs", "0"]), (2, ["demo", "--seed", "a"])):
            self.assertEqual(self.start(*arguments).returncode, status, arguments)


class IrTest(CommandTest):
    def test_prints_what_it_reads(self):
        for text in TENSOR, KERNEL, PROGRAM, "$n[1..4096] * 2 + 1\n", "1.5:float32 + -inf\n":
            printed = self.run_well("ir", self.file(text))
            again = self.run_well("ir", self.file(printed))
            self.assertEqual(printed, again)
        self.assertEqual(self.run_well("ir", self.file(KERNEL)), KERNEL)

    def test_comments_and_names_are_gone(self):
        text = "# a comment\n%sum = $n[0..9] + 1  # named\n%sum * %sum\n"
        self.assertEqual(self.run_well("ir", self.file(text)), "%0 = $n[0..9] + 1\n%0 * %0\n")

    def test_dash_is_standard_input(self):
        self.assertEqual(self.run_well("ir", "-", text=KERNEL.encode()), KERNEL)

    def test_passes(self):
        listed = self.run_well("ir", "--passes")
        self.assertIn("| tensors | functions |", listed)
        self.assertIn("| program | expand |", listed)
        addresses = self.run_well("ir", self.file(KERNEL), "--until", "addresses")
        self.assertIn("LOAD", addresses)
        self.assertIn("REDUCE", addresses)
        program = self.run_well("ir", self.file(KERNEL), "--until", "decompose")
        self.assertNotIn("REDUCE(", program)
        self.assertEqual(program, self.run_well("ir", self.file(self.run_well(
            "ir", self.file(KERNEL), "--until", "transcendental")), "--pass", "decompose"))
        groups = self.run_well("ir", self.file(KERNEL), "--until", "workgroups", "--device", "LINEAR")
        self.assertIn("SPECIAL", groups)
        self.assertNotIn("SPECIAL", self.run_well("ir", self.file(KERNEL), "--until", "workgroups"))
        sink = ('%0 = BUFFER(UNIQUE(0), DEVICE(["CPU"]); 12):float32\n%1 = BUFFER(UNIQUE(1), DEVICE(["CPU"]); 3):float32\n'
                "SINK(AFTER(%1, STORE(%1, RESHAPE(REDUCE(RESHAPE(%0, 3, 4); {op: ADD, axes: [1]}), 3))))\n")
        self.assertIn("REDUCE", self.run_well("ir", self.file(sink), "--until", "ranges"))
        self.run_badly("ir", self.file(KERNEL), "--until", "nothing", says=['no pass "nothing"', "--passes"])
        self.assertEqual(self.run_well("ir", self.file(sink), "--until", "ranges"), self.run_well("ir", self.file(sink), "--pass", "ranges"))
        self.run_badly("ir", self.file(sink.replace("), 3)", "), 3, 1)")), "--until", "ranges", says=["STORE breaks"])
        self.run_badly("ir", self.file("1 + 2\n"), "--until", "expand", says=["SINK"])
        self.run_badly("ir", says=["FILE"])

    def test_simplify(self):
        file = self.file("($n[0..9] * 4 + 3) // 4\n")
        self.assertEqual(self.run_well("ir", file), "($n[0..9] * 4 + 3) // 4\n")
        for option in "--simplify", "-s":
            self.assertEqual(self.run_well("ir", file, option), "$n[0..9]\n")

    def test_floats_are_simplified_exactly_unless_relaxed(self):
        file = self.file("(CAST($n[0..9]):float32 + 1.5) + 2.25\n")
        exact, relaxed = (self.run_well("ir", file, option) for option in ("--simplify", "--relaxed"))
        self.assertEqual(exact, self.run_well("ir", file))
        self.assertEqual(relaxed, "CAST($n[0..9]):float32 + 3.75\n")

    def test_steps_show_each_rewrite_and_where_its_rule_stands(self):
        printed = self.run_well("ir", self.file("($n[0..9] + 0) * 1\n"), "--steps")
        self.assertRegex(printed, r"(?m)^   1  \$n\[0\.\.9\] \+ 0\n   -> \$n\[0\.\.9\]$")
        self.assertEqual(printed.count("   -> "), 2)
        self.check_locations(printed)
        self.assertTrue(printed.endswith("\n$n[0..9]\n"), printed)
        self.assertNotIn("\033", printed)  # no colours unless it is a terminal

    def check_locations(self, printed):
        locations = LOCATION.findall(printed)
        self.assertTrue(locations, printed)
        for file, line in locations:
            self.assertLessEqual(int(line), len((ROOT / file).read_text().splitlines()), file)

    def test_facts(self):
        printed = self.run_well("ir", self.file("$n[1..9] * 3\n"), "--facts")
        self.assertRegex(printed, r"\A# dtype index, 3 nodes, key \w+\n# from 3 to 27\n\$n\[1\.\.9\] \* 3\n\Z")
        self.assertNotIn("# from", self.run_well("ir", self.file("1.5:float32\n"), "--facts"))

    def test_facts_are_of_what_is_left(self):
        printed = self.run_well("ir", self.file("$n[1..9] + 0\n"), "--facts", "--simplify")
        self.assertIn("1 nodes", printed)

    def test_two_processes_print_the_same(self):
        for text in TENSOR, KERNEL, PROGRAM:
            file = self.file(text)
            runs = {self.run_well("ir", file, "--facts", "--simplify") for _ in range(2)}
            # Another order of creation: what is read first must not matter.
            runs.add(self.run_well("ir", self.file("%unused = $other[0..3] + 4096\n" + text), "--facts", "--simplify"))
            self.assertEqual(len(runs), 1, runs)

    def test_keys_tell_texts_apart(self):
        texts = [TENSOR, KERNEL, PROGRAM, KERNEL.replace("ADD", "MAX")]
        keys = {re.search(r"key (\w+)", self.run_well("ir", self.file(text), "--facts"))[1] for text in texts}
        self.assertEqual(len(keys), len(texts))

    def test_check(self):
        for level, text in ("tensor", TENSOR), ("kernel", KERNEL), ("program", PROGRAM):
            file = self.file(text)
            printed = self.run_well("ir", file, "--check", level)
            self.assertEqual(printed, f"# legal at {level} level\n" + self.run_well("ir", file))

    def test_check_refuses(self):
        self.run_badly("ir", self.file(KERNEL), "--check", "tensor", says=["tensor level", "is not legal"])
        self.run_badly("ir", self.file(TENSOR), "--check", "kernel", says="UNIQUE is not legal at kernel level")
        self.run_badly("ir", self.file(KERNEL), "--check", "program", says="REDUCE is not legal at program level")
        self.run_badly("ir", self.file("ADD(1, true)\n"), "--check", "kernel", says='ADD breaks "operands are values')

    def test_check_of_no_level(self):
        for level in "tensors", "":
            self.run_badly("ir", self.file(TENSOR), "--check", level, says=[f"--check: {level} not in", "tensor,kernel"])

    def test_trace_is_written(self):
        trace = self.folder / "rewrites.trace"
        for options in [], ["--simplify"], ["--relaxed"]:
            trace.unlink(missing_ok=True)
            self.run_well("ir", self.file("($n[0..9] + 0) * 1\n"), "--trace", str(trace), *options)
            self.assertTrue(trace.read_bytes().startswith(b"\x89QTRACE\n"))
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["input.ir", "rewrites.trace"])

    def test_trace_that_cannot_be_written(self):
        nowhere = str(self.folder / "no folder" / "trace")
        for path, says in [
            (nowhere, f"{nowhere}: cannot be written: No such file or directory"),
            (str(self.folder), f"{self.folder} is a folder"),
            ("", "a file cannot be written without a name"),
        ]:
            self.run_badly("ir", self.file("1 + 0\n"), "--trace", path, says=says)


class OtherCommandsTest(CommandTest):
    def test_demo_ends_with_what_is_left(self):
        printed = self.run_well("demo", "rules")
        steps = printed.count("   -> ")
        self.assertGreater(steps, 3)
        self.assertEqual(len(LOCATION.findall(printed)), steps)
        counts = re.search(r"What is left of (\d+) nodes is (\d+):\n\n", printed)
        self.assertLess(int(counts[2]), int(counts[1]))
        self.assertEqual(printed[counts.end():], "r0[6] * 8 + r1[8]\n")

    def test_env_lists_every_variable(self):
        lines = self.run_well("env").splitlines()
        self.assertEqual([line.split()[0] for line in lines], VARIABLES)
        for line in lines:
            self.assertRegex(line, r"^\w+ .* {2}\w+")

    def test_help_names_every_command_and_option(self):
        self.assertRegex(self.run_well("--help"), r"(?s)\bir\b.*\bdemo\b.*\benv\b")
        help_of_ir = self.run_well("ir", "--help")
        for option in "FILE", "--simplify", "--relaxed", "--steps", "--facts", "--check", "--trace", "--passes", "--until", "--pass", "--device":
            self.assertIn(option, help_of_ir)


class EnvironmentTest(CommandTest):
    def test_spec_checks_nodes_as_they_are_made(self):
        file = self.file("ADD(1, true)\n")
        self.run_well("ir", file, environment={"SPEC": "1"})
        self.run_badly("ir", file, environment={"SPEC": "2"}, says='ADD breaks "operands are values of one dtype"')
        for text in TENSOR, KERNEL, PROGRAM:
            self.run_well("ir", self.file(text), "--simplify", environment={"SPEC": "2"})

    def test_statistics_go_to_stderr(self):
        file = self.file("($n[0..9] + 0) * 1\n")
        for level in "1", "2":
            done = self.start("ir", file, "--simplify", environment={"TRACK_MATCH_STATS": level})
            self.assertEqual((done.returncode, done.stdout.decode()), (0, "$n[0..9]\n"))
            self.assertIn("symbolic", done.stderr.decode())
            self.assertEqual(level == "2", re.search(r"\.cpp:\d+", done.stderr.decode()) is not None)

    def test_trace_of_the_process(self):
        path = self.folder / "process.trace"
        self.run_well("ir", self.file("$n[0..9] + 0\n"), "--simplify", environment={"REWRITE_TRACE": str(path)})
        self.assertTrue(path.read_bytes().startswith(b"\x89QTRACE\n"))

    def test_trace_of_the_process_that_cannot_be_written(self):
        path = str(self.folder / "no folder" / "trace")
        done = self.start("ir", self.file("$n[0..9] + 0\n"), "--simplify", environment={"REWRITE_TRACE": path})
        self.assertEqual(done.stdout.decode(), "$n[0..9]\n")
        self.assertIn(f"REWRITE_TRACE: {path}: cannot be written: ", done.stderr.decode())

    def test_bad_values_are_refused(self):
        file = self.file("$n[0..9] + 0\n")
        for name in "SPEC", "TRACK_MATCH_STATS":
            for value in "3", "-1", "yes", "1 ", "99999999999999999999":
                self.run_badly("ir", file, "--simplify", environment={name: value},
                               says=[f"{name}={value}: {name} is a number from 0 to 2"])
            self.run_well("ir", file, "--simplify", environment={name: ""})  # as if it were not set

    def test_bad_values_do_not_hide_the_list(self):
        self.run_well("env", environment={"SPEC": "yes"})


class ErrorTest(CommandTest):
    def test_files_that_cannot_be_read(self):
        missing = str(self.folder / "missing.ir")
        self.run_badly("ir", missing, says=f"cannot read {missing}: No such file")
        self.run_badly("ir", str(self.folder), says=f"cannot read {self.folder}: Is a directory")
        self.run_badly("ir", "", says="cannot read ")

    @unittest.skipIf(os.geteuid() == 0, "root may read every file")
    def test_a_file_that_is_not_for_us(self):
        file = self.file(KERNEL)
        os.chmod(file, 0)
        self.run_badly("ir", file, says=f"cannot read {file}: Permission denied")

    @unittest.skipUnless(os.path.exists("/proc/self/mem"), "needs a file that opens and cannot be read")
    def test_a_read_that_fails(self):
        self.run_badly("ir", "/proc/self/mem", says="cannot read /proc/self/mem: ")
        folder = os.open(self.folder, os.O_RDONLY)
        self.addCleanup(os.close, folder)
        self.run_badly("ir", "-", stdin=folder, says="cannot read standard input")

    def test_texts_that_say_nothing(self):
        for content in "", "\n\n", "# only a comment\n":
            file = self.file(content)
            self.assertRegex(self.run_badly("ir", file), re.escape(file) + r":\d+:\d+: ")

    def test_binary_files(self):
        command = pathlib.Path(COMMAND).read_bytes()[:4096]
        for content in bytes(range(256)), b"\0", b"\xff" * 100, command:
            file = self.file(content)
            self.assertRegex(self.run_badly("ir", file), re.escape(file) + r":\d+:\d+: ")

    def test_malformed_text_is_named_by_line_and_column(self):
        file = self.file("%0 = $n[0..9] + 1\n%1 = LAOD(%0)\n%1\n")
        self.run_badly("ir", file, says=f"quern: {file}:2:6: unknown op LAOD (did you mean LOAD?)")
        self.run_badly("ir", "-", text=b"1 + %7\n", says="quern: standard input:1:5: %7 is not defined")
        self.run_badly("ir", "-", text=b"(" * 100000, says="standard input:1:")

    def test_command_lines_that_cannot_be(self):
        file = self.file(KERNEL)
        self.run_badly(says="subcommand is required")
        self.run_badly("grind", says="grind")
        self.run_badly("ir", says="FILE is required")
        self.run_badly("ir", file, "--no-such-option", says="--no-such-option")
        self.run_badly("ir", file, "another", says="another")
        self.run_badly("ir", file, "--check", says="--check")
        self.run_badly("demo", "more", says="more")

    @unittest.skipUnless(os.path.exists("/dev/full"), "needs a device that is full")
    def test_output_that_cannot_be_written(self):
        with open("/dev/full", "wb") as full:
            for arguments in ["env"], ["demo", "rules"], ["ir", self.file(KERNEL)]:
                self.run_badly(*arguments, stdout=full, says="cannot write to standard output")


def variables():
    """The names of the environment variables, from the table in the source."""
    table = (ROOT / "quern/base/env.h").read_text()
    return re.findall(r"^  (?:NUMBER|FLAG|TEXT)\((\w+),.*\".*\"\)", table, re.MULTILINE)


VARIABLES = variables()

if __name__ == "__main__":
    if not COMMAND:
        sys.exit("QUERN_COMMAND must be the path of the quern command")
    unittest.main()

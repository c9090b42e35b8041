"""Whether a change of the compiler changes what is computed: the kernels of many programs as text, before and after.

    corpus.py collect GRAPHS [--build FOLDER] [--only PART,..]     runs programs; what they schedule goes into GRAPHS, a folder
    corpus.py render GRAPHS TEXT [--build FOLDER]                  what a build makes of all graphs: C (CPU), OpenCL C (CL), LINEAR
    corpus.py compare TEXT TEXT [--most N]                         of two builds; status 1 if any kernel differs

FOLDER is build/release if nothing is said. Parts: examples, ops (the tests of ops in C++ and Python), networks (those of bench/networks.py,
at their least size, forward and as a training step) and random (programs by seed). Graphs are collected once; then render before the change
and after it, with the same graphs. Names of kernels and values do not count."""

import argparse
import concurrent.futures
import difflib
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGETS = ("CPU", "CL", "LINEAR")
MOST = 1200  # graphs of a part; the larger ones


# ---- graphs

def run_quietly(command, **variables):
    """Programs may fail, as tests do where a machine lacks something: what they scheduled until then counts."""
    done = subprocess.run([str(word) for word in command], cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"corpus: status {done.returncode} of {' '.join(map(str, command[:3]))}: {(done.stdout + done.stderr)[-300:]}", file=sys.stderr)


def pytest(build, *tests):
    return [ROOT / ".venv-test/bin/pytest", "-q", "-p", "no:cacheprovider", "-n", str(os.cpu_count()), *tests]


NETWORKS = """
import sys
sys.path.insert(0, "bench")
from networks_libraries import LIBRARIES
from networks_models import MODELS
from networks_work import Running
for name, sizes, forward in MODELS:
    for train in (False, True):
        try:
            network = Running(LIBRARIES["quern"](), sizes[-1][1:], forward, train, True)
            network.run(*network.inputs)
        except Exception as error:
            print(name, train, error)
"""


def parts(build):
    """For each part the commands that run it."""
    tests = build / "test"
    return {
        "examples": [*([program] for program in sorted(build.glob("examples/example_*")) if program.is_file()),
                     pytest(build, "python/tests/test_examples.py")],
        "ops": [[tests / "ops_test", "--gtest_brief=1"],
                pytest(build, *sorted(str(f.relative_to(ROOT)) for f in ROOT.glob("python/tests/test_ops_*.py")), "python/tests/test_layers.py",
                       "python/tests/test_more_layers.py", "python/tests/test_optim.py")],
        "networks": [[ROOT / ".venv-test/bin/python", "-c", NETWORKS]],
        "random": [[tests / "engine_test", "--gtest_brief=1", "--gtest_filter=ProgramFuzz.IntegersAreTheSameLazily*"]],
    }


def graphs_in(file):
    """Each graph once: {key: text}."""
    return dict(text.split("\n", 1) for text in file.read_text().split("# graph ")[1:])


def collect(given):
    build = given.build.resolve()
    given.graphs.mkdir(parents=True, exist_ok=True)
    for part, commands in parts(build).items():
        if given.only and part not in given.only.split(","):
            continue
        file = given.graphs.resolve() / f"{part}.ir"
        file.unlink(missing_ok=True)
        for command in commands:
            run_quietly(command, GRAPHS=str(file), PYTHONPATH=str(build / "python"), QUERN_SEED="1",
                        QUERN_CACHE_DIR=str(build / "test_cache"), **({"DEVICE": "NULL"} if part == "networks" else {}))
        graphs = graphs_in(file)
        kept = sorted(graphs.items(), key=lambda graph: (-len(graph[1]), graph[0]))[:MOST]
        file.write_text("".join(f"# graph {key}\n{text}" for key, text in kept))
        print(f"{part}: {len(kept)} graphs of {len(graphs)}")


# ---- what is made of them

def render(given):
    tool = given.build.resolve() / "test" / "corpus_tool"
    graphs = {key: text for file in sorted(given.graphs.glob("*.ir")) for key, text in graphs_in(file).items()}
    if not graphs:
        sys.exit(f"corpus: there are no graphs in {given.graphs}")
    texts, count = [f"# graph {key}\n{text}" for key, text in graphs.items()], os.cpu_count()

    def work(i):
        subprocess.run([str(tool), str(given.text.resolve() / str(i))], input="".join(texts[i::count]), text=True, check=True)

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        list(pool.map(work, range(count)))
    print(f"{len(graphs)} graphs, in {given.text}")


# ---- comparing

VALUE = re.compile(r"\b(v|acc|local)(\d+)(?=_\d+\b|\b)")
FUNCTION = re.compile(r"^(?:__kernel .*?|static )?void (\w+?)(?:_entry)?\(", re.MULTILINE)


def steps(text):
    """The steps of a schedule: kernels without their own names, values numbered in the order in which they come."""
    for step in re.split(r"^(?=kernel|copy|call|error)", text, flags=re.MULTILINE):
        for name in set(FUNCTION.findall(step)):
            step = re.sub(rf"\b{name}(_entry)?\b", r"f\1", step)
        numbers = {}
        yield VALUE.sub(lambda m: f"{m[1]}{numbers.setdefault(m[0], len(numbers))}", step)


def graphs_of(folder, target):
    """name: text"""
    found = {}
    for file in folder.glob(f"*/{target}.txt"):
        for text in re.split(r"^graph ", file.read_text(), flags=re.MULTILINE)[1:]:
            name, steps_of_it = text.split("\n", 1)
            found[name] = steps_of_it
    return found


def compare(given):
    different = 0
    for target in TARGETS:
        before, after = (graphs_of(side, target) for side in (given.before, given.after))
        if not before or before.keys() != after.keys():
            sys.exit(f"corpus: {target}: there are no graphs, or some are on one side only: {sorted(before.keys() ^ after.keys())[:5]}")
        all_kernels, changed = set(), []
        for name in sorted(before):
            a, b = (list(steps(side[name])) for side in (before, after))
            all_kernels.update(step for step in a if step.startswith("kernel"))
            if a != b:
                changed.append((name, a, b))
        print(f"{target}: {len(before)} graphs of {len(all_kernels)} different kernels; graphs with a difference: {len(changed)}")
        for name, a, b in changed[:given.most]:
            print(f"---- {target}/{name}")
            lines = difflib.unified_diff("".join(a).splitlines(), "".join(b).splitlines(), "before", "after", lineterm="", n=2)
            print("\n".join(list(lines)[:40]))
        different += len(changed)
    sys.exit(1 if different else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    build = {"type": pathlib.Path, "default": ROOT / "build/release"}
    command = commands.add_parser("collect")
    command.add_argument("graphs", type=pathlib.Path)
    command.add_argument("--only", default="")
    command.add_argument("--build", **build)
    command.set_defaults(run=collect)
    command = commands.add_parser("render")
    command.add_argument("graphs", type=pathlib.Path)
    command.add_argument("text", type=pathlib.Path)
    command.add_argument("--build", **build)
    command.set_defaults(run=render)
    command = commands.add_parser("compare")
    command.add_argument("before", type=pathlib.Path)
    command.add_argument("after", type=pathlib.Path)
    command.add_argument("--most", type=int, default=5, help="how many differences are shown")
    command.set_defaults(run=compare)
    given = parser.parse_args()
    given.run(given)


if __name__ == "__main__":
    main()

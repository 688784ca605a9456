"""``python -m tests.mutation --count 300 --seed 1``: plants one bug at a time, and tests.

All fast tests run once, to record which lines each of them executes. Then each bug is planted in a
copy of the tree, and the tests that execute its line run, fastest first. If there are none, as for
tables built at import, the tests nearest to the module run. The simulation is last. The first
failure ends the run. A bug that no test detects has survived, and is printed with its change. Tests
that exceed their time limit count as undecided, as does a single slow test that is equally slow
without the bug. If no later stage completes them, the bug is counted as ``open``. ``--only
PATTERN`` restricts the files, ``--stages`` the tests, ``--from`` and ``--to`` the bugs of the
sample.
"""

from __future__ import annotations

import argparse
import difflib
import fnmatch
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from time import monotonic

from tests.mutation.covering import PLUGIN, Covering, measure
from tests.mutation.nearest import OF_TREE, SIMULATED, WIDER, nearest, of_room
from tests.mutation.sample import Mutant, sample
from tests.rooms import FILES, ROOT, is_pure

#: The time limit for the tests of a stage; a single test that hangs fails long before.
SECONDS_MAX = {
    "covering": 900,
    "nearest": 240,
    "room": 240,
    "tree": 240,
    "package": 900,
    "simulation": 1200,
}
#: Stages after which no test of the package is left to run.
WHOLE = ("covering", "package")
#: Address space of a test run: an endless loop that allocates would otherwise kill other processes.
MEMORY_BYTES_MAX = 12 << 30
#: Name of the copy that is changed.
TREE = "tree"
#: Exit codes of pytest for wrong arguments, and if all tests of the files are slow.
MISUSED, NO_TESTS = 4, 5
#: pytest's message if it could not start because an import failed.
BROKEN = "ImportError while loading conftest"
#: How long a single test may take.
TEST_SECONDS_MAX = 60
#: pytest's message for a timeout.
TIMED_OUT = re.compile(r"Timeout \(>|\+\+\+ Timeout")
#: How pytest and the simulation name a failure.
FAILED = re.compile(r"(?:^FAILED|^ERROR|make sim RUNS=1) (\S+)", re.MULTILINE)
FAST = [
    *("-m", "pytest", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0"),
    *("-m", "not spark and not slow"),
]
PYTEST = [sys.executable, *FAST, "-x", f"--timeout={TEST_SECONDS_MAX}"]


def main() -> int:
    """Plant, run, count. Return 0 if the share of detected bugs is at least ``--least``."""
    options = _options()
    paths = [name for name in FILES if is_pure(name) and fnmatch.fnmatch(name, options.only)]
    mutants = sample(ROOT, paths, options.count, options.seed)[options.first : options.last]
    with tempfile.TemporaryDirectory() as folder:
        tree = _copied(Path(folder) / TREE)
        taken = None
        if "covering" in options.stages:
            taken = measure(tree, Path(folder), FAST, list(WIDER))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX,) * 2)  # tests inherit it
        numbered = enumerate(mutants, options.first)
        outcomes = [(m, _judged(tree, number, m, taken, options)) for number, m in numbered]
    caught = Counter(by for _, by in outcomes)
    survivors = [m for m, by in outcomes if by in ("nothing", "open")]
    for mutant in survivors:
        print(_change(mutant))
    share = 1 - len(survivors) / max(1, len(outcomes))
    print(json.dumps({"mutants": len(outcomes), "seed": options.seed, "caught_by": caught}))
    print(f"{len(outcomes) - len(survivors)} of {len(outcomes)} caught, {share:.0%}")
    return 0 if share >= options.least else 1


def _judged(
    tree: Path, number: int, mutant: Mutant, taken: Covering | None, options: argparse.Namespace
) -> str:
    """Return what catches a bug: a stage of tests, none, or open if not all tests finished."""
    path = tree / mutant.path
    source = path.read_text()
    changed = mutant.code(source)
    assert changed not in (None, source), mutant
    started_s = monotonic()
    tests = [] if taken is None else taken.tests(mutant.path, mutant.line)
    stages = _stages(mutant.path, _chosen(tests, tree.parent), options)
    path.write_text(changed)
    by, failed = "nothing", ""
    try:
        for stage, command in stages.items():
            passed, failed = _passes(tree, command, SECONDS_MAX[stage])
            if passed is None and failed:  # one test took too long: because of the machine?
                path.write_text(source)
                again = [*PYTEST, failed]
                passed = False if _passes(tree, again, TEST_SECONDS_MAX / 2)[0] else None
                path.write_text(changed)
            if passed is False:
                by = stage
                break
            if passed is None:
                by = "open"
            elif stage in WHOLE:  # it includes all tests that timed out
                by = "nothing"
    finally:
        path.write_text(source)
    took_s = monotonic() - started_s
    where = f"{mutant.path}:{mutant.line} {mutant.operator}"
    print(f"{number:3} {by:10} {took_s:5.0f} s {where} {failed}".rstrip(), flush=True)
    return by


def _chosen(tests: list[str], folder: Path) -> list[str]:
    """The test commands for a module, in order."""
    if not tests:
        return []
    chosen = folder / "chosen.json"
    chosen.write_text(json.dumps(tests))
    files = sorted({test.partition("::")[0] for test in tests})
    return [f"--rootdir={folder / TREE}", *files, *PLUGIN, "--chosen", str(chosen)]


def _stages(path: str, covering: list[str], options: argparse.Namespace) -> dict[str, list[str]]:
    """Return the commands to run for a module, in order."""
    package = path.partition("/")[0]
    tests = {"covering": covering}
    if not covering:
        tests = {"nearest": nearest(ROOT, path), "room": of_room(ROOT, path)}
        tests |= {"tree": OF_TREE, "package": WIDER[package]}
    found = {stage: [*PYTEST, *asked] for stage, asked in tests.items() if asked}
    if options.sim_runs and package in SIMULATED:
        found["simulation"] = [
            *(sys.executable, "-m", "tests.sim", "--runs", str(options.sim_runs)),
        ]
    wanted = options.stages.split(",")
    return {stage: command for stage, command in found.items() if stage in wanted}


def _passes(tree: Path, command: list[str], seconds_max: float) -> tuple[bool | None, str]:
    """Whether the tests pass, None if they timed out; and the failing test."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, timeout=seconds_max
        )
    except subprocess.TimeoutExpired:
        return None, ""
    text = done.stdout.decode(errors="replace")
    failed = FAILED.search(text)
    if TIMED_OUT.search(text):
        return None, failed[1] if failed else ""
    if done.returncode == MISUSED and BROKEN in done.stderr.decode(errors="replace"):
        return False, ""
    if done.returncode == MISUSED or (done.returncode == NO_TESTS and "--chosen" in command):
        raise SystemExit(f"{command} ran no tests:\n{text}")
    return done.returncode in (0, NO_TESTS), failed[1] if failed else ""


def _copied(tree: Path) -> Path:
    """A copy of the working tree, committed or not, without build products."""
    shutil.copytree(
        ROOT, tree, ignore=shutil.ignore_patterns(".*", "__pycache__", "streamscope-jobs")
    )
    return tree


def _change(mutant: Mutant) -> str:
    source = (ROOT / mutant.path).read_text()
    changed = mutant.code(source) or ""
    lines = difflib.unified_diff(
        source.splitlines(), changed.splitlines(), mutant.path, mutant.operator, lineterm="", n=1
    )
    return "\n".join(lines) + "\n"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="*", help="pattern of paths")
    parser.add_argument("--stages", default=",".join(SECONDS_MAX), help="the tests to ask")
    parser.add_argument("--from", dest="first", type=int, default=0, help="of the sample")
    parser.add_argument("--to", dest="last", type=int, help="of the sample")
    parser.add_argument("--sim-runs", type=int, default=200, help="0: no simulation")
    parser.add_argument("--least", type=float, default=0.9, help="share that must be caught")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

"""``python -m tests.mutation --count 300 --seed 1``: plants mistakes, one at a time, and tests.

Each mistake is planted in a copy of the tree. Its nearest tests run first, then all fast tests of
its package, then the simulation; the first failure ends it. What nothing catches has survived: it
is printed with its change. ``--only PATTERN`` restricts the files.
"""

from __future__ import annotations

import argparse
import difflib
import fnmatch
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from time import monotonic

from tests.mutation.nearest import SIMULATED, WIDER, nearest
from tests.mutation.sample import Mutant, sample
from tests.test_tidy import NAMES, PURE, ROOT, matches

#: A run of tests that takes longer has met a mistake that does not end.
TEST_SECONDS_MAX = 600
#: What pytest returns where all tests of the files are slow ones.
NO_TESTS = 5
PYTEST = [
    *(sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"),
    *("--hypothesis-seed=0", "--timeout=120", "-m", "not spark and not slow"),
]


def main() -> int:
    """Plant, run, count; 0 if the share that is caught is at least ``--least``."""
    options = _options()
    paths = [n for n in NAMES if matches(n, PURE) and fnmatch.fnmatch(n, options.only)]
    mutants = sample(ROOT, paths, options.count, options.seed)
    with tempfile.TemporaryDirectory() as folder:
        tree = _copied(Path(folder) / "tree")
        outcomes = [(m, _judged(tree, m, options.sim_runs)) for m in mutants]
    caught = Counter(by for _, by in outcomes)
    survivors = [m for m, by in outcomes if by == "nothing"]
    for mutant in survivors:
        print(_change(mutant))
    share = 1 - len(survivors) / max(1, len(outcomes))
    print(json.dumps({"mutants": len(outcomes), "seed": options.seed, "caught_by": caught}))
    print(f"{len(outcomes) - len(survivors)} of {len(outcomes)} caught, {share:.0%}")
    return 0 if share >= options.least else 1


def _judged(tree: Path, mutant: Mutant, sim_runs: int) -> str:
    """What catches a mistake: nearest, package, simulation or nothing."""
    package = mutant.path.partition("/")[0]
    path = tree / mutant.path
    source = path.read_text()
    changed = mutant.code(source)
    assert changed not in (None, source), mutant
    started_s = monotonic()
    path.write_text(changed)
    try:
        steps = [("nearest", [*PYTEST, *nearest(ROOT, mutant.path)])]
        if steps[0][1] == PYTEST:
            steps.pop()
        steps.append(("package", [*PYTEST, *WIDER[package]]))
        if sim_runs and package in SIMULATED:
            steps.append(
                ("simulation", [sys.executable, "-m", "tests.sim", "--runs", str(sim_runs)])
            )
        by = next((name for name, command in steps if not _passes(tree, command)), "nothing")
    finally:
        path.write_text(source)
    took_s = monotonic() - started_s
    print(f"{by:10} {took_s:5.0f} s {mutant.path}:{mutant.line} {mutant.operator}", flush=True)
    return by


def _passes(tree: Path, command: list[str]) -> bool:
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, timeout=TEST_SECONDS_MAX
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode in (0, NO_TESTS)


def _copied(tree: Path) -> Path:
    """The tree as it lies here, committed or not, without what is built."""
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
    parser.add_argument("--sim-runs", type=int, default=200, help="0: no simulation")
    parser.add_argument("--least", type=float, default=0.9, help="share that must be caught")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

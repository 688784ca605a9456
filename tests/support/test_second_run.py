"""A second run forgives a test that failed once, and no other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.second_run import AGAIN_MAX

OPTIONS = ["-q", "--max-worker-restart=0", "-n", "1"]
ROOT = Path(__file__).parents[2]
#: Tests that fail in the first run only, one that always fails, and one that ends its process.
FAILING = """
import os, pathlib
import pytest

@pytest.mark.parametrize("number", range({racing}))
def test_racing(number):
    mark = pathlib.Path(f"ran-{{number}}")
    is_first = not mark.exists()
    mark.touch()
    assert not is_first

@pytest.mark.parametrize("number", range({wrong}))
def test_wrong(number):
    assert False

@pytest.mark.parametrize("number", range({ending}))
def test_ending(number):
    os._exit(1)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("racing", "wrong", "ending", "status"),
    [(0, 0, 1, 1), (AGAIN_MAX, 0, 0, 0), (AGAIN_MAX + 1, 0, 0, 1), (1, 1, 0, 1)],
)
def test_only_a_few_tests_may_fail_once(
    tmp_path: Path, racing: int, wrong: int, ending: int, status: int
) -> None:
    text = FAILING.format(racing=racing, wrong=wrong, ending=ending)
    (tmp_path / "test_some.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.second_run", *OPTIONS],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout
    names = [f"test_some.py::test_racing[{number}]" for number in range(racing)]
    forgiven = done.stdout.partition("Passed only alone")[2]
    assert forgiven.split("\n")[1:-1] == [f"  {name}" for name in names] * (status == 0)

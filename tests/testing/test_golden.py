"""Golden results of recorded streams, and the plugin that rewrites them.

Not covered: a golden file that was wrong when it was written.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

import streamscope as ss
from rstream.errors import UsageError
from streamscope.testing import Input, assert_golden
from tests.rooms import ROOT

if TYPE_CHECKING:
    from pathlib import Path

LATE = Input({"at": "timestamp", "user": "string", "n": "int64"}, vs="at", delay="1s")


def counted(clicks: ss.Stream) -> ss.Stream:
    window = clicks.group_by("user").window(ss.tumbling("10s"))
    return window.agg(n=ss.agg.sum("n"), mean=ss.agg.mean("n"))


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A folder with a stream recorded as CSV, and as events in Parquet."""
    lines = ["at,user,n", "1970-01-01T00:00:01,ann,3", "1970-01-01T00:00:02,bob,4"]
    lines += ["1970-01-01T00:00:12,ann,5", "1970-01-01T00:00:03,ann,100"]
    (tmp_path / "clicks.csv").write_text("\n".join(lines) + "\n")
    events = [ss.event("1s", user="ann", n=3), ss.event("2s", user="bob", n=4)]
    events += [ss.event("12s", user="ann", n=5)]
    stream = ss.Stream.from_items({"user": "string", "n": "int64"}, events)
    pq.write_table(ss.collect(stream), tmp_path / "clicks.parquet")
    return tmp_path


def test_an_answer_is_written_and_then_compared(recorded: Path) -> None:
    with pytest.raises(AssertionError, match="run pytest with --rewrite-golden"):
        assert_golden(counted, {"clicks": "clicks.parquet"}, "answer.md", folder=recorded)
    for name in ("answer.md", "answer.parquet"):
        given = {"clicks": "clicks.parquet"}
        assert_golden(counted, given, name, folder=recorded, rewrite=True)
        assert_golden(counted, given, name, folder=recorded)
    text = (recorded / "answer.md").read_text()
    assert text.splitlines() == [
        "| start | end | user: string | n: int64 | mean: double |",
        "|-------|-----|--------------|----------|--------------|",
        "| 0s    | 10s | ann          | 3        | 3.0          |",
        "| 0s    | 10s | bob          | 4        | 4.0          |",
        "| 10s   | 20s | ann          | 5        | 5.0          |",
    ]


def test_late_rows_of_a_recording_are_late_again(recorded: Path) -> None:
    given = {"clicks": (LATE, "clicks.csv")}
    assert_golden(counted, {"clicks": "clicks.parquet"}, "a.md", folder=recorded, rewrite=True)
    assert_golden(counted, given, "a.md", folder=recorded)


def test_a_different_answer_is_shown(recorded: Path) -> None:
    given = {"clicks": "clicks.parquet"}
    assert_golden(counted, given, "a.md", folder=recorded, rewrite=True)
    path = recorded / "a.md"
    path.write_text(path.read_text().replace("| 4        |", "| 7        |"))
    with pytest.raises(AssertionError, match=r"- \| 0s .* 7 .*\n\+ \| 0s .* 4 "):
        assert_golden(counted, given, "a.md", folder=recorded)


def test_misuse_is_named(recorded: Path) -> None:
    with pytest.raises(UsageError, match=r"a \.md or a \.parquet file"):
        assert_golden(counted, {"clicks": "clicks.parquet"}, "a.txt", folder=recorded)
    with pytest.raises(UsageError, match=r"input clicks: .* is not there"):
        assert_golden(counted, {"clicks": "gone.parquet"}, "a.md", folder=recorded)


@pytest.mark.slow
def test_the_plugin_rewrites_answers(recorded: Path) -> None:
    call = 'golden("SELECT n FROM clicks", {"clicks": "clicks.parquet"}, "n.md")'
    (recorded / "test_it.py").write_text(f"def test_it(golden):\n    {call}\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "streamscope_pytest", "test_it.py"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}

    def code(*options: str) -> int:
        run = subprocess.run([*command, *options], cwd=recorded, env=env, check=False, timeout=400)
        return run.returncode

    assert [code(), code("--rewrite-golden"), code()] == [1, 0, 0]


def test_the_plugin_imports_no_module_of_streamscope() -> None:
    """The plugin also loads in projects that have a package with one of our names."""
    program = "import sys, streamscope_pytest; print(*sys.modules)"
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True, timeout=400)
    ours = {"rstream", "rvertex", "planner", "jobmanager", "streamscope", "pyarrow"}
    assert not ours & {name.partition(".")[0] for name in done.stdout.split()}

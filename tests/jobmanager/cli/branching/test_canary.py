"""``deploy --canary``: a query runs beside the job first, and is deployed if its rows are equal.

Not covered: hosts in separate processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from jobmanager.cli.branching import canary
from jobmanager.cli.branching.abandoned import LEFT_S, delete_abandoned, recorded
from jobmanager.cli.branching.branch import Branch
from jobmanager.cli.branching.canary import Canary, CanaryError, CanaryFailedError, run_canary
from jobmanager.cli.branching.image import PresentPlan, find_image
from jobmanager.cli.verbs.change import deploy
from jobmanager.driver.running.deploying import compared
from jobmanager.replay.rows import diffing
from jobmanager.storage.documents import json_document
from jobmanager.storage.query_file import load_query
from jobmanager.storage.root import FORMAT, GENERATION, JobRoot
from rstream.clock import SystemClock
from rstream.errors import UsageError
from rstream.types import MIN_TIME
from tests.jobmanager.cli.branching.test_onset import onset_of
from tests.support.changed_jobs import COUNTS, QUICK, ChangedJob, whole_answer
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOTALS = COUNTS.replace("n=ss", 't=ss.agg.sum("x"), n=ss')
FEWER = COUNTS.replace("rows", 'rows.filter(ss.col("x") > 3)')
SPAN_US = 1_500_000


@contextlib.contextmanager
def feeding(changed: ChangedJob) -> Iterator[None]:
    """Append the rows of one second every 0.2 s, while the context is open."""
    over = threading.Event()

    def feed() -> None:
        while not over.wait(0.2):
            changed.append()

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        yield
    finally:
        over.set()
        feeder.join(WAIT_S)


def begun(folder: Path) -> ChangedJob:
    changed = ChangedJob(folder)
    changed.append(2)
    changed.run(changed.query("old", COUNTS))
    changed.has_read_all()
    return changed


def present_time(changed: ChangedJob) -> int:
    return find_image(PresentPlan.read(JobRoot(changed.root)), None).time_us


def generation(changed: ChangedJob) -> int:
    return int(JobRoot(changed.root).settings().get(GENERATION, 0))


def check_unchanged(changed: ChangedJob) -> None:
    """Check that the job has the rows of an untouched job, and that no other root is left."""
    changed.has_read_all()
    rows = [{k: v for k, v in row.items() if k != "t"} for row in changed.finish()]
    assert rows == whole_answer(changed, COUNTS)


def roots(changed: ChangedJob) -> list[str]:
    return sorted(path.name for path in changed.folder.glob("job*"))


def test_an_output_without_rows_does_not_count_as_equal() -> None:
    none, one = (pa.table({"n": pa.array(values, pa.int64())}) for values in ([], [1]))
    empty, equal = diffing.compared(none, none, ()), diffing.compared(one, one, ())
    some = Canary("a", 0, 1, {"counts": equal, "alerts": empty})
    assert not some.is_equal
    assert "output alerts: no rows, nothing was compared" in str(some)
    both = Canary("a", 0, 1, {"counts": equal, "alerts": equal})
    assert both.is_equal
    assert both.hash != some.hash


def test_the_report_of_a_difference_has_both_row_counts_and_the_whole_range() -> None:
    old, new = (pa.table({"n": pa.array(range(*of), pa.int64())}) for of in ((0, 80), (40, 120)))
    text = str(Canary("a", 1, 60_000_001, {"out": diffing.compared(old, new, ())}))
    assert "canary 1970-01-01 00:00:00.000001 to 1970-01-01 00:01:00.000001 UTC:" in text
    assert "80 of 120 rows differ: 0 changed, 40 only in the old version, 40 only in" in text


def test_a_hash_approves_only_these_kinds_of_differences() -> None:
    """A hash covers per column whether values become null, become known or change."""

    def tried(old: list[int | None], new: list[int | None], **mixed: tuple[str, ...]) -> str:
        values = [pa.array(of_side, pa.int64()) for of_side in (old, new)]
        before, after = (pa.table({"k": range(len(n)), "n": n, "m": n}) for n in values)
        return Canary("a", 0, 1, {"out": diffing.compared(before, after, ("k",))}, mixed).hash

    hashes = [
        tried([1, 2, 3], [1, 2, 4]),
        tried([1, 2, 3], [1, 2, None]),
        tried([1, 2, None], [1, 2, 3]),
        tried([1, 2, 3], [2, 3, 4]),
        tried([1, 2, 3], [1, 2]),
        tried([1, 2, 3], []),
        tried([1, 2], [1, 2, 3]),
        tried([], [1, 2, 3]),
        tried([1, 2, 3], [1, 2, 4], out=("s02-even",)),
    ]
    assert len(set(hashes)) == len(hashes)
    assert tried([1, 2, 3], [1, 2, 4]) == tried([1, 5, 3, 8], [1, 2, 4, 8]) == hashes[0]


def test_without_keys_a_hash_approves_only_these_columns() -> None:
    """Without keys rows are not paired; such a hash used to approve any difference."""
    old = {"k": [1, 2, 3], "n": [10, 20, 30], "note": ["a", "b", None]}

    def tried(**new: list[object]) -> str:
        compared = diffing.compared(pa.table(old), pa.table({**old, **new}), ())
        return Canary("a", 0, 1, {"out": compared}).hash

    hashes = [
        tried(note=["a", "B", None]),
        tried(note=["a", "B", "c"]),
        tried(note=["a", None, None]),
        tried(n=[10, 20, 31]),
        tried(n=[10, 20, 31], note=["a", "b", "c"]),
        tried(n=[20, 10, 30]),
        tried(n=[20, 10, 30], note=["b", "a", "c"]),
    ]
    assert len(set(hashes)) == len(hashes)
    assert hashes[0] == tried(note=["A", "b", None])


def test_stages_that_use_old_rows_are_not_reported_as_equal() -> None:
    one = pa.table({"n": pa.array([1], pa.int64())})
    mixed = Canary("a", 0, 1, {"out": diffing.compared(one, one, ())}, {"out": ("s02-even",)})
    assert not mixed.is_equal
    assert "s02-even may use rows of any age that the former query has read" in str(mixed)


def test_the_root_of_a_running_or_renamed_canary_is_kept(tmp_path: Path) -> None:
    job, late_us = JobRoot(str(tmp_path / "job")), int(LEFT_S * 1e6) + 1
    running, other = (tmp_path / name for name in ("job-canary-00aa11", "job-canaries"))
    lease = {"machine": socket.gethostname(), "pid": os.getppid(), "written_us": 2 * 10**15}
    for folder in (running, other):
        folder.mkdir()
        (folder / "job.json").write_bytes(json_document({"format": FORMAT}))
        JobRoot(str(folder)).write_status({"job": "j", "state": "running", **lease})
    with recorded(job, str(running), 0), recorded(job, str(other), 0):
        assert delete_abandoned(job, late_us) == []
        JobRoot(str(running)).write_status({"job": "j", "state": "cancelled", **lease})
        assert delete_abandoned(job, late_us) == [str(running)]
    assert not running.exists()
    assert other.exists()


def test_the_record_of_a_canary_exists_as_long_as_its_root(tmp_path: Path) -> None:
    """The record names a root that could not be deleted, so that a later run finds it."""
    job, late_us = JobRoot(str(tmp_path / "job")), int(LEFT_S * 1e6) + 1
    left = tmp_path / "job-canary-00aa11"
    with recorded(job, str(left), 0):
        left.mkdir()
        (left / "file").write_text("rest")
    assert delete_abandoned(job, late_us, is_dry_run=True) == [str(left)]
    assert delete_abandoned(job, late_us) == [str(left)]
    assert not left.exists()
    assert job.store.list("canaries") == []


def test_invalid_options_are_rejected() -> None:
    with pytest.raises(UsageError, match="--canary '0s' has to be longer than zero"):
        deploy("NEW.py", "ROOT", canary="0s")
    with pytest.raises(UsageError, match="deploy --rollback takes no --canary"):
        deploy("ROOT", rollback=True, canary="5m")
    with pytest.raises(UsageError, match="deploy --rollback takes no --dry-run"):
        deploy("ROOT", rollback=True, dry_run=True)
    with pytest.raises(UsageError, match="it takes no file: deploy --rollback ROOT"):
        deploy("NEW.py", "ROOT", rollback=True)


@pytest.mark.slow
def test_equal_rows_are_confirmed_and_differences_are_shown(tmp_path: Path) -> None:
    changed, made, ranges = begun(tmp_path), list[Branch](), []
    totals = changed.query("totals", TOTALS)
    with feeding(changed):
        # A canary starts at a checkpoint. Before the first one, its range is not known beforehand.
        changed.watch.until(lambda _: present_time(changed) != MIN_TIME)
        same = run_canary(
            totals,
            changed.root,
            SPAN_US,
            comparison="a",
            config=QUICK,
            on_started=made.append,
            on_range=lambda lo, hi: ranges.append((lo, hi, onset_of(made[0]).time_us)),
        )
        fewer = [
            run_canary(
                changed.query("fewer", FEWER), changed.root, SPAN_US, comparison=c, config=QUICK
            )
            for c in ("a", "a", "b")
        ]
    assert same.is_equal
    ((begin_us, end_us, onset_us),) = ranges
    assert onset_us <= begin_us
    assert (same.begin_us, same.end_us) == (begin_us, end_us) == (begin_us, begin_us + SPAN_US)
    (rows,) = same.differences.values()
    assert rows.added_columns == ("t",)
    assert rows.old_rows == rows.new_rows > 0
    assert not fewer[0].is_equal
    (rows,) = fewer[0].differences.values()
    assert set(rows.columns) <= {"n", "m"}
    assert "n differs in" in str(fewer[0])
    assert fewer[0].hash == fewer[1].hash != fewer[2].hash
    assert fewer[0].begin_us < fewer[1].begin_us
    assert roots(changed) == ["job"]
    assert generation(changed) == 0
    check_unchanged(changed)


@pytest.mark.slow
def test_a_canary_that_fails_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = begun(tmp_path)
    wrong = changed.query("wrong", TOTALS.replace('sum("x")', 'sum(ss.col("t").cast("int8"))'))
    with feeding(changed), pytest.raises(CanaryFailedError, match="continues unchanged"):
        run_canary(wrong, changed.root, 60_000_000, comparison="a", config=QUICK)
    totals = changed.query("totals", TOTALS)
    with monkeypatch.context() as planted, feeding(changed):
        planted.setattr(canary, "ROWS_MAX", 1)
        with pytest.raises(CanaryFailedError, match="more than 1 rows in its range"):
            run_canary(totals, changed.root, 60_000_000, comparison="a", config=QUICK)
        planted.setattr(canary, "WALL_TIMES_MAX", 0)
        planted.setattr(canary, "WALL_MORE_S", 0.0)
        with pytest.raises(CanaryFailedError, match="its query has not begun within 0 s"):
            run_canary(totals, changed.root, SPAN_US, comparison="a", config=QUICK)
    assert roots(changed) == ["job"]
    check_unchanged(changed)
    with pytest.raises(CanaryError, match="it is finished, so there is no output"):
        run_canary(wrong, changed.root, SPAN_US, comparison="a")


def deploying(changed: ChangedJob, query: str, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "jobmanager", "deploy", query, changed.root, "--canary", "2s"]
    return subprocess.Popen(
        [*command, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.slow
def test_the_command_deploys_equal_rows_and_approved_differences(tmp_path: Path) -> None:
    changed = begun(tmp_path)
    fewer, totals = changed.query("fewer", FEWER), changed.query("totals", TOTALS)
    with feeding(changed):
        tried = deploying(changed, fewer, "--json")
        out, err = tried.communicate(timeout=WAIT_S)
        assert tried.returncode == 3, err
        shown = json.loads(out.splitlines()[-1])
        assert f"--approve {shown['canary']['hash']}" in err
        assert not shown["canary"]["equal"]
        assert generation(changed) == 0
        tried = deploying(changed, totals)
        assert tried.stderr is not None
        assert "canary in" in tried.stderr.readline()
        changed.query("totals", FEWER)  # the file is edited: the query that was tried is deployed
        out, err = tried.communicate(timeout=WAIT_S)
        assert tried.returncode == 0, err
        assert "equal, " in out
        assert generation(changed) == 1
    assert roots(changed) == ["job"]
    check_unchanged(changed)


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["comparison", "canary in", "savepoints", "equal"])
def test_a_canary_killed_at_any_phase_leaves_the_job_as_it_was(phase: str, tmp_path: Path) -> None:
    """Kill a canary in each phase: the job is unchanged, or deployed if the request was made."""
    changed = begun(tmp_path)
    totals = changed.query("totals", TOTALS)
    assert not compared(JobRoot(changed.root), load_query(totals)).refusals
    with feeding(changed):
        tried = deploying(changed, totals)
        assert tried.stdout is not None
        assert tried.stderr is not None
        stream = tried.stderr if phase in ("canary in", "savepoints") else tried.stdout
        word = "canary in" if phase == "savepoints" else phase
        lines = []
        while not (lines and word in lines[-1]):
            lines.append(stream.readline())
            assert lines[-1], (lines, tried.communicate())
        line = lines[-1]
        if phase == "savepoints":  # the branch is at its cut, and its query runs next
            place = line.split()[2]
            while not JobRoot(place).store.list("savepoints"):
                assert tried.poll() is None
        tried.send_signal(signal.SIGKILL)
        tried.wait(WAIT_S)
        left = [name for name in roots(changed) if name != "job"]
        assert all(name in line for name in left) or phase in ("comparison", "equal")
        assert len(left) <= 1
    job, now_us = JobRoot(changed.root), SystemClock().now_us()
    assert delete_abandoned(job, now_us) == [], "it may only just have begun"
    late_us = now_us + int(LEFT_S * 1e6) + 1
    uris = [f"{changed.folder}/{name}" for name in left]
    assert delete_abandoned(job, late_us, is_dry_run=True) == uris
    assert delete_abandoned(job, late_us) == uris
    assert roots(changed) == ["job"]
    assert delete_abandoned(job, late_us) == []
    check_unchanged(changed)

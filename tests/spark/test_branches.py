"""A branch and a canary of a live job, all on Spark hosts in processes of their own.

Not covered: a cluster with several machines.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from jobmanager.cli.branching.branch import prepare
from jobmanager.cli.branching.canary import run_canary
from tests.jobmanager.cli.branching.test_canary import FEWER, SPAN_US, TOTALS, feeding, roots
from tests.jobmanager.cli.branching.test_onset import onset_of, rows_from
from tests.support.changed_jobs import COUNTS, ChangedJob, whole_answer, whole_job
from tests.support.jobs import WAIT_S, wait_gone
from tests.support.live import Watch

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark


def ready(status: dict[str, Any]) -> set[int]:
    return {host["pid"] for host in status.get("hosts", ()) if host["state"] == "ready"}


def live(folder: Path) -> ChangedJob:
    """A job with one host, so that there are task slots for the hosts of a branch."""
    changed = ChangedJob(folder)
    changed.append(2)
    changed.run(changed.query("old", COUNTS), executor="spark", master="local[4]", hosts=1)
    changed.has_read_all()
    return changed


def test_a_branch_whose_worker_is_killed_emits_the_rows_of_its_query(tmp_path: Path) -> None:
    changed, watch = live(tmp_path), Watch()
    made = prepare(changed.query("fewer", FEWER), changed.root)
    branch = made.start(on_status=watch)
    status = watch.until(lambda status: bool(ready(status)))
    pid = min(ready(status))
    assert pid not in ready(changed.watch.status)
    assert pid != os.getpid()
    changed.append(2)
    os.kill(pid, signal.SIGKILL)
    wait_gone([pid])
    changed.append(2)
    watch.until(lambda status: status["restarts"] > 0)
    branch.stop(finish=True)
    assert branch.wait(WAIT_S)["state"] == "finished"
    assert changed.finish() == whole_answer(changed, COUNTS), "the job was not disturbed"
    begin_us = onset_of(made).time_us
    rows = rows_from(branch, begin_us)
    assert rows
    (tmp_path / "other").mkdir()
    other = ChangedJob(tmp_path / "other")
    other.append(changed.appended)
    assert rows == rows_from(whole_job(other, FEWER), begin_us)


def test_a_canary_reports_the_rows_that_a_query_changes(tmp_path: Path) -> None:
    changed = live(tmp_path)
    with feeding(changed):
        tried = [
            run_canary(changed.query(name, text), changed.root, SPAN_US, comparison=name)
            for name, text in (("totals", TOTALS), ("fewer", FEWER))
        ]
    assert [one.is_equal for one in tried] == [True, False]
    (difference,) = tried[1].differences.values()
    assert set(difference.columns) == {"n"}
    assert difference.kinds == {"n": {"changed"}}
    assert roots(changed) == ["job"]
    changed.has_read_all()
    assert changed.finish() == whole_answer(changed, COUNTS)

"""A job over files that is changed in the midst of them: several vertices, hosts and channels.

Cannot catch: logs without end (test_kept.py).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

import jobmanager
from jobmanager import JobConfig
from jobmanager.driver.running.changes.pending import new_change
from jobmanager.driver.running.deploying import _done as done
from jobmanager.driver.running.deploying import next_plan, take_savepoint
from jobmanager.storage.root import JobRoot
from tests.support.jobs import ROWS, WAIT_S, answer, two_exchanges, with_limits, write_events

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.trouble import Gate

CONFIG = with_limits(JobConfig(tick_s=0.02), checkpoint_interval_s=1e6, step_rows_max=200)


@pytest.mark.slow
def test_a_join_with_its_own_totals_goes_on_from_the_cut(gate: Gate, tmp_path: Path) -> None:
    events, root = write_events(tmp_path / "events.parquet"), str(tmp_path / "job")
    whole = jobmanager.run(two_exchanges(events), root=str(tmp_path / "whole"), executor="local")
    whole.wait(WAIT_S)
    due = threading.Event()

    def on_status(status: dict[str, Any]) -> None:
        if status["events_in"] >= ROWS // 2:
            due.set()

    with gate.closed_at(ROWS // 2):
        options: dict[str, Any] = {"config": CONFIG, "hosts": 2, "on_status": on_status}
        job = jobmanager.run(two_exchanges(events), root=root, executor="local", **options)
        assert due.wait(WAIT_S), job.status()
        job.stop()
        assert job.wait(WAIT_S)["state"] == "stopped"
    assert take_savepoint(root, "midway")["state"] == "done"
    query, plan = next_plan(JobRoot(root), two_exchanges(events))
    assert done(JobRoot(root), new_change("deploy"), query, plan, WAIT_S)["state"] == "done"
    resumed = jobmanager.resume(root, config=CONFIG)
    resumed.wait(WAIT_S)
    assert answer(resumed.output) == answer(whole.output)

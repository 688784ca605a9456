"""A job over files that is changed while it reads them: several vertices, hosts and channels.

Not covered: endless logs (test_kept.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import jobmanager
from jobmanager.driver.running.changes.pending import new_change
from jobmanager.driver.running.deploying import _done as done, next_plan, take_savepoint
from jobmanager.storage.root import JobRoot
from tests.jobmanager.driver.test_stop import CONFIG, stopped
from tests.support.jobs import WAIT_S, answer, two_exchanges, write_events

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.trouble import Gate


@pytest.mark.slow
def test_a_join_with_its_own_totals_continues_from_the_cut(gate: Gate, tmp_path: Path) -> None:
    events, root = write_events(tmp_path / "events.parquet"), str(tmp_path / "job")
    whole = jobmanager.run(two_exchanges(events), root=str(tmp_path / "whole"), executor="local")
    whole.wait(WAIT_S)
    stopped(events, gate, root, jobmanager.Job.stop)
    assert take_savepoint(root, "midway")["state"] == "done"
    query, plan = next_plan(JobRoot(root), two_exchanges(events))
    assert done(JobRoot(root), new_change("deploy"), query, plan, WAIT_S)["state"] == "done"
    resumed = jobmanager.resume(root, config=CONFIG)
    resumed.wait(WAIT_S)
    assert answer(resumed.output) == answer(whole.output)

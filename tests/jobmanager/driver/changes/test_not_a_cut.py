"""A change of a job that has not stopped at a cut is undone: rows and savepoints stay.

Not covered: a host that writes after the check (test_suspended_host.py).
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from jobmanager.driver.running.changes import apply, pending
from jobmanager.driver.running.changes.drafting import draw_change
from jobmanager.driver.running.changes.errors import ChangeUndoneError
from jobmanager.driver.running.changes.pending import new_change
from jobmanager.driver.running.deploying import deploy, rescale, take_savepoint
from jobmanager.errors import JobFailedError
from jobmanager.storage.root import CHANGE, JobRoot
from jobmanager.storage.savepoints import read_savepoint
from rstream.errors import StoreError
from rvertex.checkpoint.checkpointer import Checkpointer
from rvertex.host.executor import LocalExecutor
from tests.support.changed_jobs import COUNTS, QUICK, ROWS, ChangedJob, whole_answer
from tests.support.jobs import WAIT_S
from tests.support.live import answer_rows

if TYPE_CHECKING:
    from pathlib import Path

    from jobmanager.driver.running.changes.drafting import Drawn
    from rvertex.host.host import HostSpec

ONES, TWOS = (f'rows.select("key", "x", v=ss.lit({v}))' for v in (1, 2))


class Stalled:
    """A saved job whose checkpoints take longer than a stop, while ``stalls`` is set."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stalls, complete = threading.Event(), Checkpointer._complete

        def completed(checkpointer: Any, pending: Any) -> None:
            if not self.stalls.is_set():
                complete(checkpointer, pending)

        monkeypatch.setattr(Checkpointer, "_complete", completed)
        self.changed = ChangedJob(folder)
        self.changed.append()
        job = self.changed.run(self.changed.query("ones", ONES), parallelism=1)
        self.changed.has_read_all()
        assert take_savepoint(self.changed.root, "nightly", wait_s=WAIT_S)["state"] == "done"
        job.stop()
        job.wait(WAIT_S)
        self.job = self.changed.resume(config=replace(QUICK, stop_wait_s=0.2))

    def publish_beyond(self) -> None:
        """Publish rows beyond the last checkpoint of their writer."""
        self.stalls.set()
        self.changed.append()
        self.changed.watch.until(lambda _: self._published() > ROWS)

    def _published(self) -> int:
        try:
            return len(answer_rows(self.job))
        except StoreError:  # there is no segment yet
            return 0


@pytest.mark.slow
def test_published_rows_beyond_the_checkpoints_are_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stalled = Stalled(tmp_path, monkeypatch)
    changed = stalled.changed
    stalled.publish_beyond()
    with pytest.raises(ChangeUndoneError, match="its writer's checkpoint is at"):
        deploy(changed.query("twos", TWOS), changed.root, yes=True, wait_s=WAIT_S)
    stalled.stalls.clear()
    rows = changed.finish()
    assert [row["v"] for row in rows] == [1] * (2 * ROWS)


@pytest.mark.slow
def test_an_undone_replacement_keeps_the_old_savepoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stalled = Stalled(tmp_path, monkeypatch)
    root = stalled.changed.root
    former = read_savepoint(JobRoot(root).store, "nightly")
    stalled.publish_beyond()
    with pytest.raises(ChangeUndoneError, match="its writer's checkpoint is at"):
        take_savepoint(root, "nightly", wait_s=WAIT_S)
    assert read_savepoint(JobRoot(root).store, "nightly") == former
    stalled.stalls.clear()
    stalled.changed.finish()


@pytest.mark.slow
def test_a_change_that_was_drawn_for_another_cut_is_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = ChangedJob(tmp_path)
    changed.append(2)
    changed.run(changed.query("counts", COUNTS))
    changed.has_read_all()
    drawn: list[Drawn] = []

    def draw(*given: Any) -> Drawn:
        drawn.append(draw_change(*given))
        is_outdated = len(drawn) == 2
        return drawn[-1]._replace(basis=()) if is_outdated else drawn[-1]

    monkeypatch.setattr(apply, "draw_change", draw)
    for parallelism, count in ((3, 1), (2, 3)):
        done = rescale(changed.root, parallelism=parallelism, wait_s=WAIT_S)
        assert done["state"] == "done"
        assert len(drawn) == count
        changed.append()
        changed.has_read_all()
    assert changed.finish() == whole_answer(changed, COUNTS)


@pytest.mark.slow
def test_a_change_waits_for_hosts_without_a_task_slot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = ChangedJob(tmp_path)
    changed.append()
    start = LocalExecutor.start

    def within_slots(executor: LocalExecutor, spec: HostSpec, *given: Any) -> None:
        if not spec.host.startswith("h1"):
            start(executor, spec, *given)

    config = replace(QUICK, stop_wait_s=0.1, host_start_wait_s=1.0, hosts=2)
    with monkeypatch.context() as planted:
        planted.setattr(LocalExecutor, "start", within_slots)
        job = changed.run(changed.query("counts", COUNTS), config=config)
        root = JobRoot(changed.root)
        change = new_change("rescale", widths={"s02-agg": 3})
        pending.request(root, change, None, None)
        root.request(CHANGE)
        with pytest.raises(JobFailedError, match="does Spark have a free task slot"):
            job.wait(WAIT_S)
    assert pending.pending(root.store) == change
    changed.resume()
    changed.watch.until(lambda _: pending.pending(root.store) is None)
    outcome = pending.outcome_of(root.store, change.id)
    assert outcome is not None
    assert outcome["state"] == "done"
    changed.append()
    changed.has_read_all()
    assert changed.finish() == whole_answer(changed, COUNTS)

"""A job manager that is suspended in a change replaces no file of its successor.

Not covered: a process that is suspended within a call of the store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobmanager.driver.running.changes import pending
from jobmanager.driver.running.changes.apply import carry_out
from jobmanager.driver.running.changes.pending import new_change
from jobmanager.driver.running.changes.scaling.widths import widths_for
from jobmanager.driver.running.deploying import rescale
from jobmanager.errors import JobRunningError
from jobmanager.storage.root import JOB, PLAN, QUERY, JobRoot
from rstream.store.blobs import FsspecBlobs
from rvertex.sources.logs.written import growing_streams
from tests.support.changed_jobs import COUNTS, ChangedJob, whole_answer

if TYPE_CHECKING:
    from pathlib import Path


def files(root: str) -> dict[str, object]:
    """Return what later processes read of a job."""
    store = JobRoot(root)
    present: dict[str, object] = {name: store.read_file(name) for name in (PLAN, QUERY, JOB)}
    return present | {"streams": growing_streams(f"{root}/output")}


@pytest.mark.slow
def test_a_suspended_job_manager_replaces_nothing_of_its_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = ChangedJob(tmp_path)
    changed.run_and_stop(2, "counts", COUNTS)
    later: list[dict[str, object]] = []

    def succeed() -> None:
        """Complete the change as another job manager, then make the next one."""
        successor = JobRoot(changed.root)
        successor.claim(0)
        outcome = carry_out(successor)
        assert outcome is not None
        assert outcome["state"] == "done"
        rescale(changed.root, parallelism=5)
        later.append(files(changed.root))

    def get_and_sleep(store: FsspecBlobs, path: str) -> bytes:
        """Suspend the first process that has checked its ownership and reads what it writes."""
        content = get(store, path)
        if path.endswith(f"/{pending.COPY}") and not asleep:
            asleep.append(path)
            succeed()
        return content

    get, asleep = FsspecBlobs.get, list[str]()
    monkeypatch.setattr(FsspecBlobs, "get", get_and_sleep)
    root = JobRoot(changed.root)
    plan = root.read_plan()
    assert plan is not None
    widths = widths_for(plan, 3, {})
    pending.request(root, new_change("rescale", widths=widths), None, None)
    root.claim(0)
    with pytest.raises(JobRunningError):
        carry_out(root)
    assert later == [files(changed.root)]
    assert len(growing_streams(f"{changed.root}/output").places) == 5
    changed.resume()
    changed.append(1)
    changed.has_read_all()
    assert changed.finish() == whole_answer(changed, COUNTS)

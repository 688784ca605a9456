"""Savepoints: taken while a job runs and when it stops, kept by gc, exported to another root.

Cannot catch: a store without atomic puts.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

import jobmanager
from jobmanager import JobConfig
from jobmanager.driver.running.changes.errors import NotACutError
from jobmanager.driver.running.changes.export import export
from jobmanager.driver.running.deploying import deploy, take_savepoint
from jobmanager.storage import garbage
from jobmanager.storage.garbage import collect_garbage
from jobmanager.storage.root import JobRoot
from jobmanager.storage.savepoints import (
    STOP,
    NoSavepointError,
    expire,
    list_savepoints,
    read_savepoint,
)
from rstream.errors import UsageError
from tests.support.changed_jobs import QUICK, ChangedJob, rows_of, whole_answer
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from pathlib import Path

COUNTS = 'rows.group_by("key").window(ss.tumbling("700ms")).agg(n=ss.agg.count())'


def saved_files(root: str) -> dict[str, bool]:
    """Return the files that savepoints name, and whether they exist."""
    store = JobRoot(root).store
    return {name: store.exists(name) for one in list_savepoints(store) for name in one.files}


@pytest.mark.slow
def test_a_running_job_is_saved_and_another_one_starts_from_there(tmp_path: Path) -> None:
    changed = ChangedJob(tmp_path)
    changed.append(2)
    changed.run(changed.query("counts", COUNTS))
    changed.has_read_all()
    assert take_savepoint(changed.root, "early", wait_s=WAIT_S)["state"] == "done"
    early = list(rows_of_now(changed))
    changed.append(2)
    changed.has_read_all()
    other = str(tmp_path / "other")
    export(JobRoot(changed.root), "early", other)
    job = jobmanager.resume(other, config=QUICK)
    job.stop(finish=True)
    assert job.wait(WAIT_S)["state"] == "finished"
    whole = whole_answer(changed, COUNTS)
    assert sorted([*early, *rows_of(job)], key=str) == sorted(whole, key=str)
    assert changed.finish() == whole


@pytest.mark.slow
def test_an_exported_savepoint_is_tried_with_another_query(tmp_path: Path) -> None:
    """An exported savepoint runs another query, delivers nothing and leaves the live job alone."""
    changed = ChangedJob(tmp_path)
    changed.append(2)
    changed.run(changed.query("counts", COUNTS))
    changed.has_read_all()
    take_savepoint(changed.root, "now", wait_s=WAIT_S)
    early = list(rows_of_now(changed))
    other = str(tmp_path / "other")
    export(JobRoot(changed.root), "now", other)
    totals = COUNTS.replace("ss.agg.count()", 'ss.agg.count(), total=ss.agg.sum("x")')
    deploy(changed.query("totals", totals), other, yes=True)
    changed.append(2)
    job = jobmanager.resume(other, config=QUICK)
    job.stop(finish=True)
    assert job.wait(WAIT_S)["state"] == "finished"
    tried = rows_of(job)
    assert tried[-1].pop("total") is not None
    for row in tried:
        row.pop("total", None)
    whole = whole_answer(changed, COUNTS)
    assert sorted([*early, *tried], key=str) == sorted(whole, key=str)
    changed.has_read_all()
    assert changed.finish() == whole


def rows_of_now(changed: ChangedJob) -> list[dict[str, object]]:
    assert changed.job is not None
    found: list[dict[str, object]] = changed.job.to_arrow(wait=False).to_pylist()
    return found


@pytest.mark.slow
def test_what_a_savepoint_names_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = ChangedJob(tmp_path)
    changed.append(2)
    job = changed.run(changed.query("counts", COUNTS))
    changed.has_read_all()
    take_savepoint(changed.root, "early", wait_s=WAIT_S)
    changed.append(2)
    changed.has_read_all()
    job.stop()
    job.wait(WAIT_S)
    root = JobRoot(changed.root)
    assert {one.name for one in list_savepoints(root.store)} == {"early", STOP}
    files = saved_files(changed.root)
    assert all(files.values())
    collect_garbage(root, JobConfig(), {}, is_dry_run=False)
    assert all(saved_files(changed.root).values())
    with monkeypatch.context() as planted:
        planted.setattr(garbage, "named_files", lambda _: frozenset())
        obsolete = collect_garbage(root, JobConfig(), {}, is_dry_run=True).files
        assert any(name.endswith(tuple(files)) for name in obsolete), "it would lose a savepoint"
    expire(root.store, "early")
    expire(root.store, STOP)
    collect_garbage(root, JobConfig(), {}, is_dry_run=False)
    assert not all(root.store.exists(name) for name in files)
    changed.resume()
    changed.has_read_all()
    assert changed.finish() == whole_answer(changed, COUNTS)


def test_a_savepoint_has_a_name_that_a_folder_can_have(tmp_path: Path) -> None:
    root = JobRoot(str(tmp_path))
    with pytest.raises(UsageError, match="use letters, digits"):
        read_savepoint(root.store, "../up")
    with pytest.raises(NoSavepointError, match="has no savepoint 'a'; it has: none"):
        read_savepoint(root.store, "a")


@pytest.mark.slow
def test_a_cancelled_job_has_no_cut(tmp_path: Path) -> None:
    changed = ChangedJob(tmp_path)
    changed.append(1)
    job = changed.run(changed.query("counts", COUNTS))
    changed.has_read_all()
    changed.append(1)
    job.cancel()
    job.wait(WAIT_S)
    changed.close()
    with contextlib.suppress(NotACutError):  # it may have been cancelled at a consistent cut
        take_savepoint(changed.root, "now")
    assert not JobRoot(changed.root).store.exists("change/request.json")

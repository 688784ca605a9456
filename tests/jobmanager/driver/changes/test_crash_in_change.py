"""A process dies at any store call while it changes a job: the change is done or undone.

Not covered: deaths of hosts, which are shut down before a change.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

import jobmanager
from jobmanager.driver.running import deploying
from jobmanager.driver.running.changes import pending
from jobmanager.driver.running.deploying import deploy, rescale
from jobmanager.storage.documents import read_json_document
from jobmanager.storage.ownership import give_back
from jobmanager.storage.root import GENERATION, JobRoot
from rstream import Items, open_store
from rstream.errors import StoreError
from rstream.items.batch import cti_batch, item_schema
from rstream.log.durable import DurableLog
from tests.support.budget import scaled
from tests.support.changed_jobs import QUICK, ChangedJob, rows_of, whole_answer
from tests.support.crashing_store import CrashingBlobs, DiedError, Life, deaths
from tests.support.jobs import WAIT_S
from tests.support.live import Watch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COUNTS = 'rows.group_by("key").window(ss.tumbling("700ms")).agg(n=ss.agg.count())'
TOTALS = COUNTS.replace("ss.agg.count()", 'ss.agg.count(), total=ss.agg.sum("x")')
DEATHS = 7


def dying(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[], object], root: str, life: Life
) -> None:
    """Change a job in a process that dies as ``life`` says."""

    def crashing(uri: str, **options: Any) -> JobRoot:
        return JobRoot(CrashingBlobs(open_store(uri), life), **options)

    with monkeypatch.context() as planted:
        planted.setattr(deploying, "JobRoot", crashing)
        try:
            change()
        except DiedError:
            give_back(JobRoot(root))


def outcome(root: str) -> tuple[int, list[dict[str, Any]]]:
    """Return the output of the job that continues after a crash, and the number of changes."""
    watch = Watch()
    job = jobmanager.resume(root, config=QUICK, on_status=watch)
    watch.until(lambda status: pending.pending(JobRoot(root).store) is None)
    watch.until(lambda status: status["state"] == "running" and bool(status["vertices"]))
    job.stop(finish=True)
    assert job.wait(WAIT_S)["state"] == "finished"
    assert pending.committed(JobRoot(root).store) is None
    return int(JobRoot(root).settings().get(GENERATION, 0)), rows_of(job)


def counts(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((row["window_start"], row["key"], row["n"]) for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["deploy", "rescale"])
def test_after_a_crash_the_old_job_or_the_new_one_continues(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = ChangedJob(tmp_path)
    changed.run_and_stop(2, "counts", COUNTS)
    changed.close()
    new, life = changed.query("totals", TOTALS), Life()
    stopped, root = tmp_path / "stopped", tmp_path / "job"

    def change() -> object:
        if verb == "rescale":
            return rescale(str(root), parallelism=3)
        return deploy(new, str(root), yes=True)

    shutil.copytree(root, stopped)
    dying(monkeypatch, change, str(root), life)
    number, expected = outcome(str(root))
    assert number == 1
    found = deaths(life.calls, is_atomic=True)
    chosen = found[:: max(1, len(found) // scaled(DEATHS))]
    seen = set()
    for at, how in chosen:
        shutil.rmtree(root)
        shutil.copytree(stopped, root)
        dying(monkeypatch, change, str(root), Life(at, how))
        number, rows = outcome(str(root))
        seen.add(number)
        assert counts(rows) == counts(expected), (at, how)
        if verb == "deploy":
            assert ("total" in rows[0]) == (number == 1), (at, how)
    assert seen == {0, 1}


class FilesStay(CrashingBlobs):
    """A store that fails once, while the obsolete files of a completed change are deleted."""

    failures = 0

    def delete(self, path: str) -> None:
        is_done = not self._store.list(pending.COMMITS)
        if is_done and not self.failures and path.endswith(pending.NEXT_QUERY):
            self.failures += 1
            raise StoreError(path, "no answer")
        self._store.delete(path)


@pytest.mark.slow
def test_a_change_is_complete_although_its_files_were_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = ChangedJob(tmp_path)
    changed.run_and_stop(1, "counts", COUNTS)
    changed.close()
    stores: list[FilesStay] = []

    def failing(uri: str, **options: Any) -> JobRoot:
        stores.append(FilesStay(open_store(uri), Life()))
        return JobRoot(stores[-1], **options)

    monkeypatch.setattr(deploying, "JobRoot", failing)
    deploy(changed.query("totals", TOTALS), changed.root, yes=True)
    assert sum(store.failures for store in stores) == 1
    root = JobRoot(changed.root)
    assert root.settings()[GENERATION] == 1
    (at,) = [path for path in root.store.list(pending.FOLDER) if "/outcome-" in path]
    assert read_json_document(root.store.get(at))["state"] == "done"
    assert not any(path.endswith(pending.NEXT_QUERY) for path in root.store.list(pending.FOLDER))


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["deploy", "rescale"])
def test_files_of_an_attempt_at_another_cut_are_ignored(verb: str, tmp_path: Path) -> None:
    """The attempt died before its commit, and the job continued."""
    changed = ChangedJob(tmp_path)
    changed.append(2)
    job = changed.run(changed.query("counts", COUNTS))
    changed.has_read_all()
    for vertex in job.plan.vertices:
        for channel in vertex.inputs:
            uri = channel.uri.replace("/streams/", "/streams/g1/")
            schema = item_schema(channel.payload)
            log = DurableLog(open_store(uri), channel.stream, schema=schema)
            log.write(Items(0, cti_batch(9_000_000, schema)))
    if verb == "rescale":
        rescale(str(changed.root), parallelism=3)
    else:
        deploy(changed.query("totals", TOTALS), str(changed.root), yes=True)
    changed.append()
    changed.has_read_all()
    assert counts(changed.finish()) == counts(whole_answer(changed, COUNTS))

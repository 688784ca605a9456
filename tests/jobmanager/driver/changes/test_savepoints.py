"""Savepoints: taken while a job runs and when it stops, kept by gc, exported to another root.

Not covered: a store without atomic puts.
"""

from __future__ import annotations

import contextlib
import random
import threading
from typing import TYPE_CHECKING, Any

import pytest

import jobmanager
from jobmanager import JobConfig
from jobmanager.cli.branching.export import export
from jobmanager.driver.running.changes import drafting, pending as changes_pending
from jobmanager.driver.running.changes.errors import ChangeUndoneError, NotACutError
from jobmanager.driver.running.changes.pending import pending
from jobmanager.driver.running.changes.snapshots import read_snapshot
from jobmanager.driver.running.deploying import deploy, take_savepoint
from jobmanager.manager import saving
from jobmanager.storage import garbage
from jobmanager.storage.garbage import collect_garbage
from jobmanager.storage.root import JobRoot
from jobmanager.storage.savepoints import (
    STOP,
    NoSavepointError,
    expire,
    folder_of,
    list_savepoints,
    read_savepoint,
)
from rstream import open_reader
from rstream.errors import StoreError, UsageError
from rstream.log.background import ThreadBackground
from tests.support.budget import scaled
from tests.support.changed_jobs import (
    PAIRS,
    QUICK,
    ROWS,
    ChangedJob,
    rows_of,
    whole_answer,
)
from tests.support.jobs import WAIT_S
from tests.support.live import Watch

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from pathlib import Path

    from jobmanager.driver.running.changes.copies import Draft
    from jobmanager.driver.running.changes.cut import Cut
    from jobmanager.state.job_state import JobState
    from jobmanager.storage.savepoints import Savepoint
    from planner.physical.plan import PhysicalPlan

COUNTS = 'rows.group_by("key").window(ss.tumbling("700ms")).agg(n=ss.agg.count())'

#: Without DEPTH, a run tries every fourth kind of query.
KINDS = list(PAIRS)[:: max(1, 4 // scaled(1))]


def saved_files(root: str) -> dict[str, bool]:
    """Return the files that savepoints name, and whether they exist."""
    store = JobRoot(root).store
    return {name: store.exists(name) for one in list_savepoints(store) for name in one.files}


@pytest.mark.slow
def test_a_running_job_is_saved_and_another_one_starts_from_the_savepoint(tmp_path: Path) -> None:
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


def items_of(root: str, seqs: dict[str, int]) -> dict[str, list[dict[str, object]]]:
    """Return the items of each output stream of a finished job, from these seqs on."""
    plan = JobRoot(root).read_plan()
    assert plan is not None
    found: dict[str, list[dict[str, object]]] = {}
    for stream, uri in plan.sink_streams():
        reader = open_reader(uri, seqs[stream])
        found[stream] = []
        while (items := reader.read_next()) is not None:
            found[stream] += items.batch.to_pylist()
    return found


def ends_of(root: str, name: str) -> dict[str, int]:
    """Return where the output streams of a job end at a savepoint."""
    plan, saved = JobRoot(root).read_plan(), read_savepoint(JobRoot(root).store, name)
    assert plan is not None
    rows = {row.vertex: row.outputs for row in saved.vertices}
    ends = {
        stream: end
        for vertex in plan.vertices
        for stream, end in zip(vertex.output_streams, rows[vertex.id], strict=True)
    }
    return {stream: ends[stream] for stream, _ in plan.sink_streams()}


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_job_from_a_savepoint_of_a_running_job_writes_the_same_items(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, changed, other = PAIRS[name][0], ChangedJob(tmp_path), str(tmp_path / "other")
    changed.append(2)
    others = random.Random(name).choice(["checkpoint", "replication"])
    recovery = "replay" if name in ("two_stages", "own_totals") else others
    job = changed.run(changed.query("first", text), recovery=recovery)
    changed.watch.until(lambda status: status["state"] == "running")
    with monkeypatch.context() as planted:
        append_between(changed, planted)
        assert take_savepoint(changed.root, "moving", wait_s=WAIT_S)["stopped_because"] == ""
    assert read_savepoint(JobRoot(changed.root).store, "moving").rests
    changed.append()
    changed.has_read_all()
    job.stop()
    job.wait(WAIT_S)
    still = changed.resume()  # nothing is left to do, so the next stop is at the same moment
    changed.watch.until(lambda status: status["state"] == "running")
    assert take_savepoint(changed.root, "still", wait_s=WAIT_S)["stopped_because"] == ""
    still.stop()
    still.wait(WAIT_S)
    assert contents_of(changed.root, "still") == contents_of(changed.root, STOP)
    changed.resume()
    export(JobRoot(changed.root), "moving", other)
    begun = jobmanager.resume(other, config=QUICK, on_status=Watch())
    begun.stop(finish=True)
    assert begun.wait(WAIT_S)["state"] == "finished"
    rows = changed.finish()
    assert sorted(rows, key=str) == sorted(whole_answer(changed, text), key=str)
    ends = ends_of(changed.root, "moving")
    assert items_of(other, ends) == items_of(changed.root, ends)


def append_between(changed: ChangedJob, planted: pytest.MonkeyPatch) -> None:
    """Let a source read more rows after the first checkpoint of a savepoint and before its own."""
    inner, before = saving.ask, changed.appended

    def ask(job: JobState) -> None:
        if job.saving is not None and job.saving.names and changed.appended == before:
            changed.append()
        found = [job.furthest(v.id) for v in job.topology.vertices.values() if v.is_source]
        read = [0 if one is None else sum(one.consumed) for one in found]
        if changed.appended == before or min(read) >= changed.appended * ROWS:
            inner(job)

    planted.setattr(saving, "ask", ask)


def contents_of(root: str, name: str) -> dict[str, object]:
    """Return positions, digests and states of all vertices, and the items between them."""
    plan, store = JobRoot(root).read_plan(), JobRoot(root).store
    assert plan is not None
    saved = read_savepoint(store, name)
    found: dict[str, object] = {"rests": saved.rests, "time": saved.time_us}
    for row in saved.vertices:
        snapshot = read_snapshot(store, plan.vertex(row.vertex), row.checkpoint)
        tables = [{k: t.to_pylist() for k, t in s.tables.items()} for s in snapshot.states]
        found[row.vertex] = row.inputs, row.outputs, snapshot.digests, tables
    for rest in saved.rests:
        reader = open_reader(store.child(f"{folder_of(name)}/{rest.stream}"), rest.lo)
        items = reader.read_next(rest.hi - rest.lo)
        found[rest.stream] = None if items is None else items.batch.to_pylist()
    return found


def rows_of_now(changed: ChangedJob) -> list[dict[str, object]]:
    assert changed.job is not None
    found: list[dict[str, object]] = changed.job.to_arrow(wait=False).to_pylist()
    return found


@pytest.mark.slow
def test_files_named_by_a_savepoint_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.slow
def test_a_job_stops_while_its_savepoint_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stop's checkpoints are newer, but delete no file that the savepoint is about to name."""
    changed = ChangedJob(tmp_path)
    changed.append(2)
    job = changed.run(changed.query("counts", COUNTS))
    changed.has_read_all()
    is_written, has_stopped = threading.Event(), threading.Event()
    inner = drafting.save_cut

    def slow(draft: Draft, plan: PhysicalPlan, cut: Cut, name: str, now_us: int) -> Savepoint:
        if name == "early":
            is_written.set()
            assert has_stopped.wait(WAIT_S)
        return inner(draft, plan, cut, name, now_us)

    monkeypatch.setattr(drafting, "save_cut", slow)
    asking = in_thread(lambda: take_savepoint(changed.root, "early", wait_s=WAIT_S))
    assert is_written.wait(WAIT_S)
    changed.append()
    changed.has_read_all()
    job.stop()
    changed.watch.until(lambda status: status["state"] == "stopped")
    has_stopped.set()
    assert job.wait(WAIT_S)["state"] == "stopped"
    assert asking.result(WAIT_S)["state"] == "done"
    early, stop = (read_savepoint(JobRoot(changed.root).store, n) for n in ("early", STOP))
    assert not early.files & stop.files
    assert all(saved_files(changed.root).values())
    changed.close()


def in_thread(work: Callable[[], dict[str, Any]]) -> Future[dict[str, Any]]:
    background = ThreadBackground("client")
    return background.submit(work)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["finish", "stop", "cancel"])
def test_the_client_is_told_that_the_job_ended_first(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed, is_asked = ChangedJob(tmp_path), threading.Event()
    changed.append(1)
    job = changed.run(changed.query("counts", COUNTS))
    changed.has_read_all()
    monkeypatch.setattr(saving, "ask", lambda job: job.saving and is_asked.set())
    asking = in_thread(lambda: take_savepoint(changed.root, "early", wait_s=WAIT_S))
    assert is_asked.wait(WAIT_S)
    {"finish": lambda: job.stop(finish=True), "stop": job.stop, "cancel": job.cancel}[how]()
    job.wait(WAIT_S)
    changed.close()
    if how == "stop":
        assert asking.result(WAIT_S)["state"] == "done"
        assert all(saved_files(changed.root).values())
    else:
        with pytest.raises(ChangeUndoneError, match=r"the job (has finished|was cancelled)"):
            asking.result(WAIT_S)
    assert pending(JobRoot(changed.root).store) is None


@pytest.mark.slow
def test_a_job_continues_after_errors_of_a_savepoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = ChangedJob(tmp_path)
    changed.append(1)
    job = changed.run(changed.query("counts", COUNTS))
    changed.has_read_all()
    with monkeypatch.context() as planted:
        planted.setattr(drafting, "save_cut", fail(MemoryError("no room")))
        with pytest.raises(ChangeUndoneError, match="no room"):
            take_savepoint(changed.root, "one", wait_s=WAIT_S)
    with monkeypatch.context() as planted:
        planted.setattr(changes_pending, "tidy", fail(StoreError("root", "no listing")))
        for name in ("two", "three"):  # the request of "three" may come before "two" is over
            assert take_savepoint(changed.root, name, wait_s=WAIT_S)["state"] == "done"
    assert take_savepoint(changed.root, "four", wait_s=WAIT_S)["state"] == "done"
    saved = {one.name for one in list_savepoints(JobRoot(changed.root).store)}
    assert saved == {"two", "three", "four"}
    job.stop()
    assert job.wait(WAIT_S)["state"] == "stopped"
    assert job._run.driver is not None
    assert job._run.driver.job.saving is None, "nothing stays protected for good"
    changed.close()


def fail(error: Exception) -> Callable[..., None]:
    def failing(*args: object) -> None:
        raise error

    return failing


def test_the_name_of_a_savepoint_must_be_a_valid_folder_name(tmp_path: Path) -> None:
    root = JobRoot(str(tmp_path))
    with pytest.raises(UsageError, match="use letters, digits"):
        read_savepoint(root.store, "../up")
    with pytest.raises(NoSavepointError, match="has no savepoint 'a'; it has: none"):
        read_savepoint(root.store, "a")


@pytest.mark.slow
def test_a_cancelled_job_has_no_consistent_cut(tmp_path: Path) -> None:
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
    assert pending(JobRoot(changed.root).store) is None

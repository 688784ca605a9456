"""A branch of a running job starts from the job's state, beside the job, and does not affect it.

Not covered: hosts in separate processes, stores without atomic puts.
"""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any

import pytest

from jobmanager.cli.branching import image
from jobmanager.cli.branching.branch import prepare
from jobmanager.cli.branching.image import NotRetainedError
from jobmanager.driver.running.changes.errors import ChangePendingError, ChangeRefusedError
from jobmanager.driver.running.deploying import rescale, take_savepoint
from jobmanager.storage.root import JobRoot
from rstream import open_reader
from rstream.errors import UsageError
from rstream.items.batch import only_events
from rstream.log.durable import DurableLog
from rstream.store.blobs import open_store
from tests.support.budget import seeds
from tests.support.changed_jobs import COUNTS, QUICK, ROWS, STATEFUL, ChangedJob, rows_of
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from pathlib import Path

    from jobmanager import Job

TOTALS = COUNTS.replace("n=ss", 't=ss.agg.sum("x"), n=ss')
#: Counts over a followed log and a source that ends.
ENDED = COUNTS.replace(
    "rows",
    'rows.select("key", "x").union(ss.Stream.from_items({"key": "int64", "x": "int64"}, '
    "[ss.event(1, key=1, x=1)]))",
)


def ended(job: Job) -> Job:
    job.stop(finish=True)
    assert job.wait(WAIT_S)["state"] == "finished"
    return job


def later_rows(job: Job, starts: list[int]) -> list[list[dict[str, Any]]]:
    """The rows of each partition of the output, from these seqs on."""
    found = []
    for (_, uri), seq in zip(job.plan.sink_streams(), starts, strict=True):
        reader, rows = open_reader(open_store(uri), seq), []
        while (items := reader.read_next()) is not None:
            rows += only_events(items.batch).to_pylist()
        reader.close()
        found.append(rows)
    return found


def starts_of(job: Job) -> list[int]:
    return [DurableLog(open_store(uri), stream).mark for stream, uri in job.plan.sink_streams()]


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, 6))
def test_a_branch_of_the_same_query_gives_the_same_later_output(seed: int, tmp_path: Path) -> None:
    """Branch a job at random instants; rows are appended before and after the branch begins."""
    chance, changed = random.Random(seed), ChangedJob(tmp_path)
    text = [COUNTS, *STATEFUL.values()][seed % (1 + len(STATEFUL))]
    query = changed.query("query", text)
    changed.append(chance.randint(1, 3))
    live = changed.run(query, parallelism=chance.randint(1, 3))
    branches = []
    for _ in range(2):
        changed.append(chance.randint(0, 3))
        if chance.random() < 0.5:
            changed.has_read_all()
        threading.Event().wait(chance.random() * 0.3)  # the instant is the random part
        branches.append(prepare(query, changed.root).start(config=QUICK))
    changed.append(2)
    changed.has_read_all()
    for job in branches:
        ended(job)
    changed.finish()
    for job in branches:
        starts = starts_of(job)
        assert later_rows(job, starts) == later_rows(live, starts)
        assert job.status()["events_in"] <= live.status()["events_in"] == changed.appended * ROWS


def has_ended_source(status: dict[str, Any]) -> bool:
    return any(v["state"] == "finished" for v in status.get("vertices", ()))


def files_of(root: str) -> dict[str, bytes]:
    store = JobRoot(root).store
    return {path: store.get(path) for path in store.list()}


@pytest.mark.slow
def test_a_branch_writes_nothing_to_the_job_and_delivers_nothing(tmp_path: Path) -> None:
    changed, folder = ChangedJob(tmp_path), tmp_path / "delivered"
    to = f'.deliver(ss.sinks.parquet({str(folder)!r}, roll="0s"))'
    changed.append(2)
    scaled = {"max": 2, "dry_run": True}
    old = changed.query("old", f"{COUNTS}{to}")
    job = changed.run(old, retention="delivered", autoscale=scaled)
    changed.has_read_all()
    job.stop()
    job.wait(WAIT_S)
    before = files_of(changed.root), sorted(folder.rglob("*"))
    changed.append(2)
    made = prepare(changed.query("new", f"{TOTALS}{to}"), changed.root)
    assert made.switched_off == (f"parquet:{folder}",)
    assert "autoscale" in JobRoot(changed.root).settings()["options"]
    assert not {"autoscale", "retention"} & JobRoot(made.root.uri).settings()["options"].keys()
    decisions = {path for path in before[0] if path.startswith("intake/")}
    assert decisions
    assert decisions <= files_of(made.root.uri).keys()
    tried = ended(made.start(config=QUICK))
    assert (files_of(changed.root), sorted(folder.rglob("*"))) == before
    assert rows_of(tried)[-1]["t"] is not None
    with pytest.raises(NotRetainedError, match="no savepoint at or before that time"):
        prepare(changed.query("old", COUNTS), changed.root, at_us=-1)
    changed.resume()
    changed.has_read_all()
    whole = [str(row) for row in changed.finish()]
    assert all(str({k: v for k, v in row.items() if k != "t"}) in whole for row in rows_of(tried))
    with pytest.raises(ChangeRefusedError, match="it has finished"):
        prepare(changed.query("late", TOTALS), changed.root)


@pytest.mark.slow
def test_a_branch_starts_at_a_given_time(tmp_path: Path) -> None:
    """A branch at a time starts from the newest savepoint or checkpoint at or before that time."""
    changed = ChangedJob(tmp_path)
    query = changed.query("query", COUNTS)
    changed.append(1)
    live = changed.run(query, retain="all")
    changed.has_read_all()
    saved_us = take_savepoint(changed.root, "early", wait_s=WAIT_S)["time"]
    changed.append(2)
    changed.has_read_all()
    live = changed.job
    assert live is not None
    for at_us, expected in ((saved_us, saved_us), (saved_us + 1_500_000, None)):
        made = prepare(query, changed.root, at_us=at_us)
        assert (expected or saved_us) <= made.time_us <= at_us
        job = ended(made.start(config=QUICK))
        starts = starts_of(job)
        live_rows = later_rows(live, starts)
        for own, rows in zip(later_rows(job, starts), live_rows, strict=True):
            assert own[: len(rows)] == rows
    changed.finish()


@pytest.mark.slow
def test_a_failed_branch_leaves_no_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = ChangedJob(tmp_path)
    changed.append(1)
    job = changed.run(changed.query("counts", ENDED), parallelism=1)
    changed.watch.until(has_ended_source)
    there = sorted(path.name for path in tmp_path.iterdir())
    fewer = changed.query("fewer", f'{ENDED}.select("key")')
    with pytest.raises(ChangeRefusedError, match="'n' of the output would be removed"):
        prepare(fewer, changed.root)
    with pytest.raises(UsageError, match="is not empty: choose another --root"):
        prepare(changed.query("totals", TOTALS), changed.root, new_root=str(tmp_path))
    with monkeypatch.context() as planted:
        planted.setattr(image, "COPIES_MAX", 0)
        with pytest.raises(image.NotCopiedError, match="Take a savepoint first"):
            prepare(changed.query("ended", ENDED), changed.root)
    with pytest.raises(ChangePendingError):  # a change is completed while the state is copied
        prepare(
            changed.query("ended", ENDED),
            changed.root,
            on_compared=lambda _: rescale(changed.root, parallelism=2, wait_s=WAIT_S) and None,
        )
    with pytest.raises(NotRetainedError, match=r"source .* has ended.* name the time of a savepo"):
        prepare(changed.query("ended", ENDED), changed.root, at_us=1)
    added = {"fewer.py", "totals.py", "ended.py", "__pycache__"}
    assert {path.name for path in tmp_path.iterdir()} - set(there) <= added
    job.cancel()
    assert job.wait(WAIT_S)["state"] == "cancelled"
    changed.close()

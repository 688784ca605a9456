"""Vertices of jobs over live logs are replayed from recorded decisions and retained rows.

Not covered: a broker that has deleted rows meanwhile (tests of live Kafka start one).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import jobmanager
from jobmanager.replay.errors import CannotReplayError
from jobmanager.replay.replaying import Replay, replay, replay_all
from jobmanager.replay.rows.diffing import diff
from jobmanager.replay.rows.whys import why
from jobmanager.storage.root import JobRoot
from planner import Query, Stream, agg, col, tumbling
from tests.support.feed import Feed
from tests.support.jobs import WAIT_S, with_limits
from tests.support.live import FILE_ROWS, Watch, finish, has_read, write_file
from tests.support.retained import contents

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.brokers import Broker

QUICK = with_limits(checkpoint_interval_s=0.05, lease_s=0.5)


def counts(folder: Path) -> Query:
    """Count rows by key and half second, from two partitions that become silent."""
    events = Stream.from_json(
        str(folder),
        vs="t",
        delay="1s",
        partitions=2,
        follow=True,
        poll_every="20ms",
        idle_after="100ms",
    )
    return events.group_by("key").window(tumbling("500ms")).agg(n=agg.count()).to_parquet()


def vertices(root: Path) -> list[str]:
    plan = JobRoot(str(root)).read_plan()
    assert plan is not None
    return [v.id for v in plan.vertices]


def started(folder: Path, root: Path, watch: Watch) -> jobmanager.Job:
    """A live job over a growing folder with one file; everything is retained."""
    folder.mkdir()
    write_file(folder, 0)
    return jobmanager.run(
        counts(folder),
        root=str(root),
        executor="local",
        config=QUICK,
        on_status=watch,
        retain="all",
    )


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["finish", "cancel"])
def test_every_vertex_of_a_live_job_reproduces_the_recording(ends: str, tmp_path: Path) -> None:
    folder, root, watch = tmp_path / "in", tmp_path / "job", Watch()
    job = started(folder, root, watch)
    for number in range(1, 5):
        watch.until(has_read(number * FILE_ROWS))
        write_file(folder, number)
    watch.until(has_read(5 * FILE_ROWS))
    watch.until(lambda status: status["events_out"] >= 5)
    if ends == "finish":
        finish(job)
    else:
        job.cancel()
        job.wait(WAIT_S)
    before = contents(root)
    for vertex in vertices(root):
        found = replay(str(root), vertex)
        assert found.is_equal, found
        assert found.items > 0
        assert found.compared_digests > 0, found
        later = replay(str(root), vertex, from_="2s")
        assert later.is_equal, later
    row = job.to_arrow(wait=False).to_pylist()[3]
    start = row["window_start"].strftime("TIMESTAMP '%Y-%m-%d %H:%M:%S.%f'")
    found_row = why(str(root), f"key = {row['key']} AND window_start = {start}")
    assert found_row.is_smallest
    assert found_row.rows == row["n"]
    if ends == "finish":
        assert diff(str(root), counts(folder)).is_equal
        fewer = counts(folder).plan.input
        changed = diff(str(root), Stream(fewer).filter(col("n") > 1).to_parquet())
        assert changed.only_new == 0
    assert contents(root) == before


@pytest.mark.slow
def test_every_vertex_of_a_live_job_with_an_hour_retained(broker: Broker, tmp_path: Path) -> None:
    """Two hours of event time from a Kafka topic; the job still runs while it is replayed."""
    feed, watch = Feed(broker, 2), Watch()
    stream = feed.stream(idle="wait").deduplicate("t", within="1s").group_by("key")
    query = stream.window(tumbling("10s")).agg(n=agg.count()).to_parquet()
    job = jobmanager.run(
        query,
        root=str(tmp_path),
        executor="local",
        config=QUICK,
        on_status=watch,
        retain="1h",
    )
    for minute in range(120):
        feed.write(minute % 2, 60 * minute, rows=50)
        feed.write((minute + 1) % 2, 60 * minute, rows=1)
        if minute % 20 == 19:
            watch.until(feed.was_read)
            watch.until(has_checkpoints)
    watch.until(lambda status: status["events_out"] >= 119)
    checkpoints = {row["vertex"] for row in watch.status["vertices"] if row["state_bytes"]}
    assert checkpoints
    found = list(replay_all(str(tmp_path)))
    later = list(replay_all(str(tmp_path), from_=3_600 * 1_000_000))
    finish(job)
    for one in (*found, *later):
        assert isinstance(one, Replay), one
        assert one.is_equal, one
        assert one.compared_digests + one.compared_items > 0, one
    assert len(found) == len(job.plan.vertices)
    assert sum(bool(one.checkpoint) for one in later if isinstance(one, Replay)) >= 2


def has_checkpoints(status: dict[str, Any]) -> bool:
    return all(row["checkpoint_age_s"] is not None for row in status["vertices"])


@pytest.mark.slow
def test_missing_decisions_are_named(tmp_path: Path) -> None:
    folder, root, watch = tmp_path / "in", tmp_path / "job", Watch()
    job = started(folder, root, watch)
    watch.until(has_read(FILE_ROWS))
    write_file(folder, 1)
    watch.until(has_read(2 * FILE_ROWS))
    finish(job)
    source = vertices(root)[0]
    assert replay(str(root), source).is_equal
    blobs = sorted((root / "intake" / source).iterdir())
    blobs[1].unlink()
    with pytest.raises(CannotReplayError, match=r"not retained\. Name a later time"):
        replay(str(root), source)

"""Partitions added to a topic after a job was planned: read while it runs, or when it resumes.

Earlier output does not change (a delivery would reject that). New partitions are read from their
start, and rows too late for emitted windows are counted. Not covered: brokers that give topics
ids.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import jobmanager
from jobmanager.storage.root import JobRoot
from planner import agg, sinks, tumbling
from tests.rooms import ROOT
from tests.support.feed import WINDOW_US, Feed, answer
from tests.support.jobs import WAIT_S, with_limits
from tests.support.live import Watch, finish

if TYPE_CHECKING:
    from pathlib import Path

    from jobmanager import JobConfig
    from rvertex.vertex.spec import Strategy
    from tests.support.brokers import Broker

pytestmark = pytest.mark.slow
QUICK = with_limits(checkpoint_interval_s=0.05, lease_s=0.5, verify=True)
ROWS = 150
#: A successor computes everything again.
NEVER = with_limits(checkpoint_interval_s=None, lease_s=0.5, verify=True)


def interrupted(job: jobmanager.Job) -> None:
    job.cancel()
    assert job.wait(WAIT_S)["state"] == "cancelled"


@pytest.mark.parametrize(
    ("had", "config"), [(3, QUICK), (1, NEVER)], ids=["checkpoints", "from the start"]
)
def test_added_partitions_are_read_from_their_start_after_a_resume(
    broker: Broker, tmp_path: Path, had: int, config: JobConfig
) -> None:
    feed, watch, root = Feed(broker, had), Watch(), str(tmp_path)
    for partition in range(had):
        for second in (0, 1, 2):
            feed.write(partition, second)
    delivered = broker.create_topic(f"{feed.topic}-answer", 2)
    windows = feed.stream().group_by("key").window(tumbling(WINDOW_US))
    place = sinks.kafka(delivered, servers=broker.servers)
    query = windows.agg(n=agg.count()).deliver(place)
    job = jobmanager.run(query, root=root, executor="local", config=config, on_status=watch)
    watch.until(feed.was_read)
    watch.until(lambda status: sum(row["rows"] for row in status["deliveries"]) > 0)
    interrupted(job)
    broker.add_partitions(feed.topic, had + 2)
    for partition in range(had + 2):
        feed.write(partition, 3)
    for second in (4, 5):
        job = jobmanager.resume(root, on_status=watch, config=config)
        watch.until(feed.was_read)
        interrupted(job)
        for partition in range(had + 2):
            feed.write(partition, second)
    job = jobmanager.resume(root, on_status=watch, config=config)
    watch.until(feed.was_read)
    ends_exact(job, feed, broker, delivered)


@pytest.mark.parametrize(
    ("recovery", "config"),
    [("checkpoint", QUICK), ("replay", NEVER), ("replication", QUICK)],
    ids=["checkpoint", "from the start", "replication"],
)
def test_added_partitions_are_read_from_their_start_while_the_job_runs(
    broker: Broker, tmp_path: Path, recovery: Strategy, config: JobConfig
) -> None:
    """Run it twice; a successor emits the same items, or the delivery would fail."""
    had, feed, watch, root = 2, Feed(broker, 2), Watch(), str(tmp_path)
    for second in (0, 1, 2):
        for partition in range(had):
            feed.write(partition, second)
    delivered = broker.create_topic(f"{feed.topic}-answer", 2)
    windows = feed.stream(idle="wait").group_by("key").window(tumbling(WINDOW_US))
    query = windows.agg(n=agg.count()).deliver(sinks.kafka(delivered, servers=broker.servers))
    replicas = 2 if recovery == "replication" else None
    job = jobmanager.run(
        query,
        root=root,
        executor="local",
        hosts=2,
        config=config,
        on_status=watch,
        recovery=recovery,
        replicas=replicas,
    )
    watch.until(feed.was_read)
    watch.until(lambda status: sum(row["rows"] for row in status["deliveries"]) > 0)
    for count, second in ((had + 1, 3), (had + 3, 4)):
        broker.add_partitions(feed.topic, count)
        # otherwise old partitions may be ahead of the new ones
        for partition in reversed(range(count)):
            feed.write(partition, second)
            if partition >= had:
                watch.until(feed.was_read)
        watch.until(feed.was_read)
        assert partitions_of(job) == [*range(count)]
    assert job.status()["state"] == "running"
    interrupted(job)
    for partition in range(had + 3):
        feed.write(partition, 5)
    job = jobmanager.resume(root, on_status=watch, config=config)
    watch.until(feed.was_read)
    ends_exact(job, feed, broker, delivered)


def ends_exact(job: jobmanager.Job, feed: Feed, broker: Broker, delivered: str) -> None:
    """Check that it ends with the right result, no late event, and each row delivered once."""
    status = finish(job)
    assert (status["state"], status["late_events"]) == ("finished", 0)
    assert answer(job) == feed.expected()
    rows = [json.loads(record.value or b"") for record in broker.read_committed(delivered)]
    assert len(rows) == len(feed.expected())


def partitions_of(job: jobmanager.Job) -> list[int]:
    """The partitions in the stored plan of a job."""
    plans = job.plan, JobRoot(job.root).read_plan()
    mine, there = (
        sorted(u.stream for v in plan.vertices if v.source for u in v.source.log_units)
        for plan in plans
        if plan is not None
    )
    assert mine == there
    return mine


def test_each_of_two_topics_gets_its_own_partitions(broker: Broker, tmp_path: Path) -> None:
    feeds, watch = (Feed(broker, 2), Feed(broker, 1)), Watch()
    streams = [feed.stream(idle="wait", partitions=1) for feed in feeds]
    windows = streams[0].union(streams[1]).group_by("key").window(tumbling(WINDOW_US))
    query = windows.agg(n=agg.count()).to_parquet()

    def were_read(status: dict[str, Any]) -> bool:
        return was_read(status, *feeds)

    for feed, count in zip(feeds, (2, 1), strict=True):
        for partition in range(count):
            feed.write(partition, 0)
    job = jobmanager.run(query, root=str(tmp_path), executor="local", config=QUICK, on_status=watch)
    watch.until(were_read)
    for feed, had, count in zip(feeds, (2, 1), (4, 2), strict=True):
        broker.add_partitions(feed.topic, count)
        for partition in (*range(had, count), *range(had)):
            feed.write(partition, 1)
            if partition >= had:
                watch.until(were_read)
    watch.until(were_read)
    status = finish(job)
    assert (status["state"], status["late_events"]) == ("finished", 0)
    counts: Counter[tuple[int, int]] = Counter()
    for feed in feeds:
        counts.update({(window, key): n for window, key, n in feed.expected()})
    assert answer(job) == sorted((window, key, n) for (window, key), n in counts.items())


def test_a_driver_that_dies_after_writing_the_plan_has_a_successor_that_uses_it(
    broker: Broker, tmp_path: Path
) -> None:
    feed, watch, root = Feed(broker, 2), Watch(), tmp_path / "job"
    feed.write(0, 0)
    feed.write(1, 0)
    command = [sys.executable, "-m", "tests.support.killed_growth"]
    with subprocess.Popen([*command, broker.servers, feed.topic, str(root)], cwd=ROOT) as process:
        try:
            while not was_read(JobRoot(str(root)).read_status(), feed):  # until the test's limit
                assert process.poll() is None
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.1)
            broker.add_partitions(feed.topic, 3)
            assert process.wait(WAIT_S) == -signal.SIGKILL
        finally:
            process.kill()
    plan = JobRoot(str(root)).read_plan()
    assert plan is not None
    assert [len(v.source.added) for v in plan.vertices if v.source is not None] == [1, 0]
    job = jobmanager.resume(str(root), on_status=watch, config=QUICK)
    for partition in (2, 1, 0):
        feed.write(partition, 1)
        watch.until(feed.was_read)
    status = finish(job)
    assert (status["state"], status["late_events"]) == ("finished", 0)
    assert answer(job) == feed.expected()


def was_read(status: dict[str, Any], *feeds: Feed) -> bool:
    """Whether the sources have reached the ends of all feeds."""
    logs = [log for vertex in status.get("vertices", ()) for log in vertex["logs"]]
    return sum(log["position"] for log in logs) >= sum(feed.sent for feed in feeds)


@pytest.mark.parametrize("is_live", [True, False], ids=["while it runs", "resumed"])
def test_rows_older_than_the_emitted_ones_are_late_and_counted(
    broker: Broker, tmp_path: Path, is_live: bool
) -> None:
    feed, watch, root = Feed(broker, 2), Watch(), str(tmp_path)
    for partition in (0, 1):
        feed.write(partition, 0)
        feed.write(partition, 1)
    job = jobmanager.run(feed.query(), root=root, executor="local", config=QUICK, on_status=watch)
    watch.until(feed.was_read)
    watch.until(lambda status: status["events_out"] > 0)
    if not is_live:
        interrupted(job)
    broker.add_partitions(feed.topic, 3)
    broker.produce(feed.topic, [json.dumps({"t": 7, "key": 1}).encode()], partition=2)
    if not is_live:
        job = jobmanager.resume(root, on_status=watch, config=QUICK)
    watch.until(lambda status: "added to its topic: 2" in str(status["notes"]))
    watch.until(lambda status: status["late_events"] == 1)
    assert finish(job)["state"] == "finished"
    assert answer(job) == feed.expected()
    (stage,) = {v.stage for v in job.plan.vertices if v.source is not None}
    assert jobmanager.read_late(root, stage)["_vs"].to_pylist() == [7]


def test_the_plan_with_added_partitions_is_written_before_it_is_used(
    own_broker: Broker, tmp_path: Path
) -> None:
    """Unreachable brokers do not prevent a resume.

    They were unreachable at the job's last end, too, so the end of the topic is read again.
    """
    feed, watch, root = Feed(own_broker, 2), Watch(), str(tmp_path)
    feed.write(0, 0, ROWS)
    feed.write(1, 0, ROWS)
    job = jobmanager.run(feed.query(), root=root, executor="local", config=QUICK, on_status=watch)
    watch.until(feed.was_read)
    interrupted(job)
    own_broker.add_partitions(feed.topic, 4)
    with own_broker.frozen():
        job = jobmanager.resume(root, on_status=watch, config=QUICK)
        interrupted(job)
    assert [len(v.source.added) for v in job.plan.vertices if v.source is not None] == [0, 0]
    job = jobmanager.resume(root, on_status=watch, config=QUICK)
    plan = JobRoot(root).read_plan()
    assert plan is not None
    read = [v.source.log_units for v in plan.vertices if v.source is not None]
    assert [[unit.stream for unit in units] for units in read] == [[0, 2], [1, 3]]
    assert {unit.settles_at for units in read for unit in units[:1]} == {ROWS}
    assert plan.plan_hash == job.plan.plan_hash
    interrupted(job)

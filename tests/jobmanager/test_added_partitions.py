"""Partitions that a topic gets while a job reads it: they are taken in when the job is resumed.

What was put out before stays as it is (a delivery would refuse another past), what is new is read
from its beginning, and what comes too late for the windows that were put out is counted.
Cannot catch: brokers that give topics ids.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import jobmanager
from jobmanager.storage.root import JobRoot
from planner import agg, sinks, tumbling
from tests.support.feed import WINDOW_US, Feed, answer
from tests.support.jobs import with_limits
from tests.support.live import Watch, finish

if TYPE_CHECKING:
    from pathlib import Path

    from jobmanager import JobConfig
    from tests.support.brokers import Broker

pytestmark = pytest.mark.slow
QUICK = with_limits(checkpoint_interval_s=0.05, lease_s=0.5, verify=True)
ROWS = 150
#: Whoever goes on computes all of it again.
NEVER = with_limits(checkpoint_interval_s=None, lease_s=0.5, verify=True)


def interrupted(job: jobmanager.Job) -> None:
    job.cancel()
    assert job.wait(30)["state"] == "cancelled"


@pytest.mark.parametrize("config", [QUICK, NEVER], ids=["checkpoints", "from the start"])
@pytest.mark.parametrize("had", [1, 3])
def test_they_are_read_from_their_beginning_when_the_job_is_resumed(
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
    broker.add_partitions(feed.topic, had + 2)
    watch.until(lambda status: "stop the job and resume it" in str(status["vertices"]))
    interrupted(job)
    for partition in range(had + 2):
        feed.write(partition, 3)
    for second in (4, 5):
        job = jobmanager.resume(root, on_status=watch, config=config)
        watch.until(feed.was_read)
        assert "stop the job and resume it" not in str(job.status()["vertices"])
        interrupted(job)
        for partition in range(had + 2):
            feed.write(partition, second)
    job = jobmanager.resume(root, on_status=watch, config=config)
    watch.until(feed.was_read)
    status = finish(job)
    assert (status["state"], status["late_events"]) == ("finished", 0)
    assert answer(job) == feed.expected()
    rows = [json.loads(record.value or b"") for record in broker.read_committed(delivered)]
    assert len(rows) == len(feed.expected())


def test_what_is_older_than_what_was_put_out_is_late_and_counted(
    broker: Broker, tmp_path: Path
) -> None:
    feed, watch, root = Feed(broker, 2), Watch(), str(tmp_path)
    for partition in (0, 1):
        feed.write(partition, 0)
        feed.write(partition, 1)
    job = jobmanager.run(feed.query(), root=root, executor="local", config=QUICK, on_status=watch)
    watch.until(feed.was_read)
    watch.until(lambda status: status["events_out"] > 0)
    broker.add_partitions(feed.topic, 3)
    broker.produce(feed.topic, [json.dumps({"t": 7, "key": 1}).encode()], partition=2)
    interrupted(job)
    job = jobmanager.resume(root, on_status=watch, config=QUICK)
    assert "added to its topic: 2" in str(job.status()["notes"])
    watch.until(lambda status: status["late_events"] == 1)
    assert finish(job)["state"] == "finished"
    assert answer(job) == feed.expected()
    (stage,) = {v.stage for v in job.plan.vertices if v.source is not None}
    assert jobmanager.read_late(root, stage)["_vs"].to_pylist() == [7]


def test_a_plan_with_them_is_written_before_anything_follows_from_it(
    own_broker: Broker, tmp_path: Path
) -> None:
    """And brokers that are away keep nobody from going on.

    They were away when the job ended last, too, so it is looked anew where the topic ends.
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

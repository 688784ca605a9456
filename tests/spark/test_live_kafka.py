"""A job on Spark over a growing topic; a worker is killed while it runs."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

import jobmanager
from planner import agg, tumbling
from tests.support.feed import Feed, answer
from tests.support.jobs import with_limits
from tests.support.live import Watch, finish

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.brokers import Broker

pytestmark = pytest.mark.spark
CONFIG = with_limits(checkpoint_interval_s=0.2, lease_s=1.0)


def test_a_killed_worker_loses_and_repeats_no_row(broker: Broker, tmp_path: Path) -> None:
    feed, watch = Feed(broker, 3), Watch()
    for partition in range(3):
        feed.write(partition, 0)
    options = {"executor": "spark", "config": CONFIG, "on_status": watch}
    job = jobmanager.run(feed.query(idle_after="2s"), root=str(tmp_path), **options)  # type: ignore[arg-type]
    for second in (1, 2, 3):
        status = watch.until(feed.was_read)
        source = next(v for v in status["vertices"] if v["stage"].startswith("s01"))
        if second < 3:
            os.kill(source["pid"], signal.SIGKILL)
        for partition in range(2):
            feed.write(partition, second)
    watch.until(feed.was_read)
    status = finish(job)
    assert status["state"] == "finished"
    assert status["restarts"] >= 2
    assert answer(job) == feed.expected()


def test_a_killed_worker_reads_added_partitions_again(broker: Broker, tmp_path: Path) -> None:
    """Hosts that Spark starts later have the plan with which the job started."""
    feed, watch = Feed(broker, 2), Watch()
    for partition in range(2):
        feed.write(partition, 0)
    options = {"executor": "spark", "config": CONFIG, "on_status": watch}
    job = jobmanager.run(feed.query(idle="wait"), root=str(tmp_path), **options)  # type: ignore[arg-type]
    watch.until(feed.was_read)
    broker.add_partitions(feed.topic, 3)
    for partition in (2, 1, 0):
        feed.write(partition, 1)
        status = watch.until(feed.was_read)
    (source,) = (v for v in status["vertices"] if len(v["logs"]) == 2)
    os.kill(source["pid"], signal.SIGKILL)
    for partition in range(3):
        feed.write(partition, 2)
    watch.until(feed.was_read)
    status = finish(job)
    assert (status["state"], status["late_events"]) == ("finished", 0)
    assert answer(job) == feed.expected()


def test_a_bounded_read_equals_a_batch_read(broker: Broker) -> None:
    feed = Feed(broker, 2)
    for second in (1, 0):  # the second one is late
        for partition in range(2):
            feed.write(partition, second)
    found = feed.stream(until="latest").group_by("key").window(tumbling("200ms")).agg(n=agg.count())
    with pytest.warns(jobmanager.LateRowsWarning, match="400 of 800 rows"):
        live = jobmanager.collect(found, executor="local").to_pylist()
    batch = jobmanager.collect_batch(found).to_pylist()
    assert sorted(live, key=str) == sorted(batch, key=str)

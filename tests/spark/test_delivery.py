"""A job on Spark delivers from the memory of its hosts while a worker is killed."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

import jobmanager
from planner import Stream, agg, tumbling
from rstream import read_events
from tests.support.jobs import ROWS, WAIT_S, with_limits, write_events

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.brokers import Broker

pytestmark = pytest.mark.spark
#: Late flushes show that the delivery did not wait for them.
CONFIG = with_limits(checkpoint_interval_s=0.2)


def test_a_topic_contains_the_rows_of_the_output(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    events = Stream.from_parquet(str(write_events(tmp_path / "e.parquet")), vs="t", delay="1s")
    windows = events.group_by("key").window(tumbling("100ms")).agg(n=agg.count())
    killed: list[int] = []

    def kill_one(status: dict[str, Any]) -> None:
        if not killed and status["state"] == "running" and status["events_in"] > ROWS // 2:
            killed.append(status["vertices"][-1]["pid"])
            os.kill(killed[0], signal.SIGKILL)

    job = jobmanager.run(
        windows.to_kafka(topic, servers=broker.servers),
        root=str(tmp_path / "job"),
        master="local[4]",
        paced=8.0,
        config=CONFIG,
        on_status=kill_one,
    )
    status = job.wait(3 * WAIT_S)
    assert killed
    assert status["restarts"] > 0
    assert {row["state"] for row in status["deliveries"]} == {"finished"}
    for partition, (_, uri) in enumerate(job.plan.sink_streams()):
        records = [r for r in broker.read_committed(topic) if r.partition == partition]
        found = [(row["key"], row["n"]) for row in (json.loads(r.value or b"") for r in records)]
        table = read_events(uri)
        assert found == list(zip(table["key"].to_pylist(), table["n"].to_pylist(), strict=True))

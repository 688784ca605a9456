"""Jobs over topics with deleted records, uneven partitions, or a clock that is set back.

For bad records, recreated topics and unreachable brokers see test_live_kafka, for truncated files
test_live_folder, for repeating producers the intake tests.

Not covered: retention that removes records while they are fetched (the reader's own tests).
"""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import jobmanager
from planner import Query, sql
from tests.support.feed import WINDOW_US, Feed, answer
from tests.support.jobs import WAIT_S, with_limits
from tests.support.live import Watch, finish

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.brokers import Broker

QUICK = with_limits(checkpoint_interval_s=0.05, lease_s=0.5)
HOUR_NS = 3_600 * 1_000_000_000
#: How long an idle job is watched.
WATCHED_S = 1.0

pytestmark = pytest.mark.slow


def start(query: Query, root: Path, watch: Watch, **limits: Any) -> jobmanager.Job:
    config = with_limits(QUICK, **limits)
    return jobmanager.run(query, root=str(root), executor="local", config=config, on_status=watch)


def counts(rows: list[dict[str, int]]) -> list[tuple[int, int, int]]:
    found = Counter((row["t"] // WINDOW_US, row["key"]) for row in rows)
    return sorted((w * WINDOW_US, key, n) for (w, key), n in found.items())


def test_deleted_records_end_the_job_or_are_counted(broker: Broker, tmp_path: Path) -> None:
    """Rows 0 to 199 are read; while no job runs, those before 300 are removed.

    A stop leaves a checkpoint, so also a job that recovers by replay needs no earlier rows.
    """
    feed = Feed(broker, 1)
    feed.write(0, 0)
    for name, recovery in (("fail", "checkpoint"), ("skip", "checkpoint"), ("skip2", "replay")):
        watch = Watch()
        query = feed.query(on_lost=name[:4], idle="wait").recover_with(recovery)
        job = start(query, tmp_path / name, watch)
        watch.until(feed.was_read)
        job.stop()
        assert job.wait(WAIT_S)["state"] == "stopped"
    feed.write(0, 1)
    rows = [json.loads(record.value or b"") for record in broker.read_committed(feed.topic)]
    broker.delete_below(feed.topic, [300])
    job = jobmanager.resume(str(tmp_path / "fail"), config=QUICK)
    with pytest.raises(jobmanager.JobFailedError, match=r"partition 0: the rows from position 200"):
        job.wait(WAIT_S)
    for name in ("skip", "skip2"):
        watch = Watch()
        job = jobmanager.resume(str(tmp_path / name), config=QUICK, on_status=watch)
        watch.until(feed.was_read)
        status = finish(job)
        assert answer(job) == counts(rows[:200] + rows[300:]), name
        (partition,) = status["vertices"][0]["logs"]
        assert (partition["position"], partition["lost"]) == (400, 100), name


def test_a_partition_that_is_ahead_by_more_than_skew_is_paused(
    broker: Broker, tmp_path: Path
) -> None:
    """Partition 0 has eight seconds of events; partition 1 has one, and gets the rest later."""
    feed, watch = Feed(broker, 2), Watch()
    for second in range(8):
        feed.write(0, second)
    feed.write(1, 0)
    query = feed.query(partitions=1, skew="2s", idle="wait")
    job = start(query, tmp_path, watch, step_rows_max=50)
    watch.until(lambda status: positions(status) >= [600, 200])
    seen_s = watch.status["elapsed_s"]
    watch.until(lambda status: status["elapsed_s"] > seen_s + WATCHED_S)
    ahead, behind = positions(watch.status)
    assert behind == 200
    assert 600 <= ahead <= 700
    for second in range(1, 8):
        feed.write(1, second)
    watch.until(feed.was_read)
    assert finish(job)["late_events"] == 0
    assert answer(job) == feed.expected()


def positions(status: dict[str, Any]) -> list[int]:
    """Positions of the partitions of the first vertex."""
    return [partition["position"] for partition in status["vertices"][0]["logs"]]


def test_setting_the_clock_back_an_hour_does_not_move_watermarks_back(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier CTIs from the clock stay valid: rows of the repeated hour are late and counted."""
    feed, watch = Feed(broker, 2), Watch()
    now_s = time.time_ns() // 1_000_000_000
    for partition in (0, 1):
        feed.write(partition, now_s)
    job = start(feed.query(idle="clock", idle_after="200ms"), tmp_path, watch)
    watch.until(feed.was_read)
    watch.until(lambda status: frontier(status) > (now_s + 1) * 1_000_000)
    read_time, expected = time.time_ns, feed.expected()
    monkeypatch.setattr(time, "time_ns", lambda: read_time() - HOUR_NS)
    before = frontier(watch.status)
    feed.write(0, now_s - 3_000)
    watch.until(feed.was_read)
    watch.until(lambda status: status["late_events"] == 200)
    feed.write(1, now_s + 60)
    watch.until(feed.was_read)
    assert frontier(watch.status) >= before
    status = finish(job)
    assert (status["state"], status["late_events"]) == ("finished", 200)
    assert status["restarts"] == 0
    late = [row for row in feed.expected() if row[0] < (now_s - 2_000) * 1_000_000]
    assert [row for row in answer(job) if row[0] < (now_s + 50) * 1_000_000] == expected
    assert set(answer(job)) == set(feed.expected()) - set(late)


def frontier(status: dict[str, Any]) -> int:
    """The lowest frontier of the sources."""
    logs = [log for row in status["vertices"] for log in row["logs"]]
    return min((log["frontier_us"] for log in logs), default=0)


SQL = """
CREATE SOURCE events (
    t BIGINT, key BIGINT, `at` AS TO_TIMESTAMP_LTZ(CAST(t / 1000 AS BIGINT), 3),
    WATERMARK FOR `at` AS `at` - INTERVAL '1' SECOND
) WITH ('connector' = 'kafka', 'topic' = '{topic}', 'servers' = '{servers}', 'format' = 'json');
CREATE SINK counted (key BIGINT, n BIGINT)
WITH ('connector' = 'kafka', 'topic' = '{answers}', 'servers' = '{servers}', 'format' = 'json');
INSERT INTO counted
SELECT key, count(*) AS n FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(`at`), INTERVAL '0.5' SECOND))
GROUP BY key, window_start, window_end
"""


def test_a_live_sql_job_from_topic_to_topic(broker: Broker, topic: str, tmp_path: Path) -> None:
    """Rows arrive while it runs; it is stopped and resumed in between."""
    feed, watch = Feed(broker, 2), Watch()
    feed.write(0, 0)
    feed.write(1, 0)
    query = sql(SQL.format(topic=feed.topic, answers=topic, servers=broker.servers))
    assert isinstance(query, Query)
    job = start(query, tmp_path, watch)
    watch.until(feed.was_read)
    job.stop()
    job.wait(WAIT_S)
    feed.write(0, 1)
    feed.write(1, 1)
    job = jobmanager.resume(str(tmp_path), config=QUICK, on_status=watch)
    watch.until(feed.was_read)
    assert finish(job)["state"] == "finished"
    rows = [json.loads(record.value or b"") for record in broker.read_committed(topic)]
    assert sorted((row["key"], row["n"]) for row in rows) == sorted(
        (key, n) for _, key, n in feed.expected()
    )

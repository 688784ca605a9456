"""Jobs over topics of a real broker while they grow: the result equals that of a batch.

Not covered: losses of a killed broker, and brokers that give topics ids.
"""

from __future__ import annotations

import io
import json
import uuid
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import jobmanager
from planner import Stream, col
from rvertex.sources.logs.kafka import buffers, reader
from tests.support.feed import SCHEMA, Feed, answer
from tests.support.jobs import WAIT_S, with_limits
from tests.support.live import Watch, finish

if TYPE_CHECKING:
    from pathlib import Path

    from planner import Query
    from tests.support.brokers import Broker

QUICK = with_limits(checkpoint_interval_s=0.05, lease_s=0.5)
#: How long a broker stays frozen.
AWAY_S = 5.0


def start(query: Query, root: Path, watch: Watch | None = None) -> jobmanager.Job:
    return jobmanager.run(query, root=str(root), executor="local", config=QUICK, on_status=watch)


def test_a_bounded_read_ends_where_the_topic_ended_at_planning(
    broker: Broker, tmp_path: Path
) -> None:
    feed = Feed(broker, 3)
    for second in (0, 1):
        for partition in (0, 1):
            feed.write(partition, second)
    job = start(feed.query(until="latest"), tmp_path)
    expected, sent = feed.expected(), feed.sent
    feed.write(0, 0)
    status = job.wait(WAIT_S)
    assert (status["state"], status["events_in"]) == ("finished", sent)
    assert answer(job) == expected


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_sequence_does_not_depend_on_the_sizes_of_fetches(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    feed = Feed(broker, 3)
    for second in (0, 1):
        for partition in (2, 0):
            feed.write(partition, second, rows=100)
    query = feed.query(until="latest", partitions=partitions)
    digests = set()
    for rows_max in (7, 64, 10_000):
        monkeypatch.setattr(reader, "FETCH_ROWS_MAX", rows_max)
        monkeypatch.setattr(buffers, "BUFFERED_ROWS_MAX", 3 * rows_max)
        status = start(query, tmp_path / f"{rows_max}").wait(WAIT_S)
        digests.add((status["events_out"], status["output_digest"]))
    assert len(digests) == 1


def test_a_job_follows_a_topic_and_a_silent_partition_delays_nothing(
    broker: Broker, tmp_path: Path
) -> None:
    feed, watch = Feed(broker, 3), Watch()
    feed.write(0, 0)
    feed.write(2, 0)
    job = start(feed.query(), tmp_path, watch)
    for second in range(1, 6):
        watch.until(feed.was_read)
        feed.write(0, second)
        if second < 3:
            feed.write(2, second)
    watch.until(feed.was_read)
    watch.until(lambda status: status["events_out"] >= 8 * 5)
    assert finish(job)["state"] == "finished"
    assert answer(job) == feed.expected()


def test_a_resumed_job_continues_at_its_offsets(broker: Broker, tmp_path: Path) -> None:
    feed, watch = Feed(broker, 2), Watch()
    feed.write(0, 0)
    feed.write(1, 0)
    job = start(feed.query(), tmp_path, watch)
    watch.until(feed.was_read)
    job.cancel()
    assert job.wait(WAIT_S)["state"] == "cancelled"
    feed.write(0, 1)
    feed.write(1, 1)
    job = jobmanager.resume(str(tmp_path), on_status=watch, config=QUICK)
    watch.until(feed.was_read)
    assert finish(job)["events_in"] == feed.sent
    assert answer(job) == feed.expected()


@pytest.mark.slow
def test_finish_ends_a_job_at_the_end_of_the_topic_and_not_at_its_position(
    own_broker: Broker, tmp_path: Path
) -> None:
    """The finish request reaches the successor, which has read less than its predecessor."""
    feed, watch = Feed(own_broker, 2), Watch()
    feed.write(0, 0)
    feed.write(1, 0)
    never = with_limits(checkpoint_interval_s=None, lease_s=0.5)
    job = jobmanager.run(
        feed.query(), root=str(tmp_path), executor="local", config=never, on_status=watch
    )
    watch.until(feed.was_read)
    job.cancel()
    job.wait(WAIT_S)
    with own_broker.frozen():
        job = jobmanager.resume(str(tmp_path), config=never, on_status=watch)
        watch.until(lambda status: status["state"] == "running")
        resumed_s = watch.status["elapsed_s"]
        assert job._run.driver is not None
        job._run.driver.finish()
        watch.until(lambda status: status["elapsed_s"] > resumed_s + 2)
    assert job.wait(WAIT_S)["events_in"] == feed.sent
    assert answer(job) == feed.expected()


@pytest.mark.slow
def test_a_job_waits_for_a_frozen_or_restarted_broker(own_broker: Broker, tmp_path: Path) -> None:
    feed, watch = Feed(own_broker, 2), Watch()
    feed.write(0, 0)
    feed.write(1, 0)
    job = start(feed.query(), tmp_path, watch)
    watch.until(feed.was_read)
    frozen_s = watch.status["elapsed_s"]
    with own_broker.frozen():
        watch.until(lambda status: status["elapsed_s"] > frozen_s + AWAY_S)
    feed.write(0, 1)
    feed.write(1, 1)
    watch.until(feed.was_read)
    own_broker.stop()
    watch.until(lambda status: any("no answer for" in v["waiting"] for v in status["vertices"]))
    own_broker.start()
    feed.write(0, 2)
    feed.write(1, 2)
    watch.until(feed.was_read)
    assert finish(job)["state"] == "finished"
    assert answer(job) == feed.expected()


def test_bad_records_end_the_job_or_become_dead_letters(broker: Broker, tmp_path: Path) -> None:
    feed = Feed(broker, 1)
    feed.write(0, 0, rows=20)
    broker.produce(feed.topic, [b"{", b'{"t": "noon"}'])
    feed.write(0, 1, rows=20)
    job = start(feed.query(until="latest"), tmp_path / "fail")
    with pytest.raises(jobmanager.JobFailedError, match="partition 0, position 20: not a JSON ob"):
        job.wait(WAIT_S)
    job = start(feed.query(until="latest", on_bad_row="dead_letter"), tmp_path / "dead")
    assert job.wait(WAIT_S)["state"] == "finished"
    assert answer(job) == feed.expected()
    letters = jobmanager.read_dead_letters(str(tmp_path / "dead"))
    assert [row["position"] for row in letters.to_pylist()] == [20, 21]
    assert [row["raw"] for row in letters.to_pylist()] == [b"{", b'{"t": "noon"}']
    job = start(feed.query(until="latest", on_bad_row="skip"), tmp_path / "skip")
    assert job.wait(WAIT_S)["state"] == "finished"
    assert answer(job) == feed.expected()


def test_a_topic_that_is_deleted_and_created_again_fails_the_job(
    broker: Broker, tmp_path: Path
) -> None:
    feed, watch = Feed(broker, 1), Watch()
    feed.write(0, 0)
    job = start(feed.query(), tmp_path, watch)
    watch.until(feed.was_read)
    broker.delete_topic(feed.topic)
    broker.create_topic(feed.topic)
    feed.write(0, 0, rows=3)
    with pytest.raises(jobmanager.JobFailedError, match="was deleted and created again"):
        job.wait(WAIT_S)


AVRO = {
    "type": "record",
    "name": "Event",
    "fields": [{"name": "t", "type": "long"}, {"name": "key", "type": ["null", "long"]}],
}
EVENTS = [{"t": 1_000 * i, "key": i % 3} for i in range(100)]


def test_every_format_gives_the_same_rows(broker: Broker) -> None:
    found = {}
    for format, schema, values in (
        ("json", SCHEMA, [json.dumps(event).encode() for event in EVENTS]),
        ("avro", AVRO, [avro_bytes(event) for event in EVENTS]),
        ("arrow", SCHEMA, [arrow_bytes(EVENTS[lo : lo + 30]) for lo in range(0, 100, 30)]),
    ):
        topic = broker.create_topic(f"{format}-{uuid.uuid4().hex[:8]}")
        broker.produce(topic, values)
        stream = Stream.from_kafka(
            topic,
            servers=broker.servers,
            schema=schema,
            format=format,  # type: ignore[arg-type]
            vs="t",
            delay=0,
            until="latest",
        )
        found[format] = jobmanager.collect(stream.filter(col("key") > 0)).to_pylist()
    assert len(found["json"]) == 66
    assert found["json"] == found["avro"] == found["arrow"]


def avro_bytes(event: dict[str, int]) -> bytes:
    fastavro = pytest.importorskip("fastavro", reason="Avro is an extra")
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(dict(AVRO)), event)
    return stream.getvalue()


def arrow_bytes(events: list[dict[str, int]]) -> bytes:
    sink, batch = io.BytesIO(), pa.RecordBatch.from_pylist(events)
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()

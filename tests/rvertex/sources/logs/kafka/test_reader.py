"""The reader of topics: order, gaps, ends, bounds, unreachable brokers.

If possible, a test also runs on the mock broker in the client library, which is fast. Not covered:
brokers that give topics ids; this one does not.
"""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from rvertex.sources.logs.decode.choose import message_decoder
from rvertex.sources.logs.errors import (
    LogNotFoundError,
    LogReplacedError,
    LogRowError,
    LogUnreachableError,
    LostInputError,
)
from rvertex.sources.logs.kafka import buffers, reader, state
from rvertex.sources.logs.kafka.positions import topic_units
from rvertex.sources.spec import SourceSpec, Unit
from tests.support.brokers import QUIET, Broker, Record, send
from tests.support.mock_cluster import MockCluster
from tests.support.topics import Reading, reading, topic_spec, value

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from rstream.errors import StreamEngineError
    from rvertex.sources.logs.decode.messages import MessageDecoder, Messages
    from rvertex.sources.logs.protocol import LogRows


class Kafka:
    """A topic with two partitions on some broker."""

    def __init__(self, broker: Broker | MockCluster, topic: str) -> None:
        self.broker, self.topic = broker, topic

    def produce(self, values: Iterable[bytes | None], partition: int = 0) -> None:
        if isinstance(self.broker, MockCluster):
            self.broker.produce(self.topic, values, partition=partition)
        else:
            records = [Record(data, partition=partition) for data in values]
            self.broker.produce(self.topic, records)

    def spec(self, **options: Any) -> SourceSpec:
        return topic_spec(self.broker, self.topic, **options)

    def reading(
        self, positions: list[int] | None = None, *, until: int | None = None, **options: Any
    ) -> AbstractContextManager[Reading]:
        """Read both partitions; ``until``: the end of the first one."""
        spec = self.spec(**options)
        units = Unit(spec.path, until=until), Unit(spec.path, stream=1)
        return reading(spec, positions, units=units)


@pytest.fixture(scope="module")
def mock() -> MockCluster:
    return MockCluster()


@pytest.fixture(params=["inside", pytest.param("process", marks=pytest.mark.slow)])
def kafka(request: pytest.FixtureRequest) -> Kafka:
    if request.param == "process":
        return Kafka(request.getfixturevalue("broker"), request.getfixturevalue("topic"))
    made = Kafka(request.getfixturevalue("mock"), f"topic-{uuid.uuid4().hex[:8]}")
    assert isinstance(made.broker, MockCluster)
    made.broker.create(made.topic)
    return made


def test_partitions_are_read_in_order_up_to_their_ends(kafka: Kafka) -> None:
    for p in (0, 1):
        kafka.produce([value(10 * i + p) for i in range(5)], p)
    with kafka.reading() as found:
        for p in (0, 1):
            found.until(5, p, rows_max=2)
            assert found.rows[p] == [(i, 10 * i + p) for i in range(5)]
        found.wait(lambda: found.log.end(0) is not None)
        assert found.log.lag(0) == 0
        kafka.produce([value(99)])
        found.until(6)
        end = found.log.end(0)
        assert end is None or end.position == 6
        found.wait(lambda: found.log.end(0) is not None)
        assert found.log.waiting == ""


def test_only_committed_records_are_read_and_markers_are_gaps(broker: Broker, topic: str) -> None:
    """Two producers: this broker keeps reporting an abort, and the client skips what follows."""
    producer = broker.producer(transactional_id=f"id-{topic}")
    producer.init_transactions(60)
    for t, ends in ((1, producer.commit_transaction), (2, producer.abort_transaction)):
        producer.begin_transaction()
        send(producer, topic, Record(value(t)))
        producer.flush(60)
        ends(60)
    broker.produce(topic, [value(3)])
    producer = broker.producer(transactional_id=f"other-{topic}")
    producer.init_transactions(60)
    producer.begin_transaction()
    send(producer, topic, Record(value(4)))
    producer.flush(60)
    with reading(topic_spec(broker, topic)) as found:
        found.until(5)
        assert found.rows[0] == [(0, 1), (4, 3)]
        found.wait(lambda: found.log.end(1) is not None)
        assert found.next[0] == 5, "the open transaction begins there"
        assert found.log.lag(0) == 0
        assert found.log.end(0) is None, "its rows are to come"
        producer.commit_transaction(60)
        found.until(7)
        found.wait(lambda: found.log.end(0) is not None)
        assert found.rows[0][2:] == [(5, 4)]


def test_a_partition_is_not_at_its_end_while_rows_wait_or_are_uncommitted(kafka: Kafka) -> None:
    kafka.produce([value(i) for i in range(9)])
    with kafka.reading() as found:
        found.until(4, rows_max=4)
        found.wait(lambda: found.log._buffers[0].fetched == 9 and 0 in found.log._state.ends)
        assert found.log.end(0) is None, "the others are still to be given"
        assert found.log.lag(0) == 5
        found.until(9)
        found.wait(lambda: found.log.end(0))
        found.log.close()  # so no process queries any more
        found.log._state.open = {0}
        assert found.log.end(0) is None


@dataclass(frozen=True)
class Told:
    """A message as the client returns it; without a value it marks the end of the partition."""

    partition_number: int
    at: int
    data: bytes | None = None

    def error(self) -> Any:
        from confluent_kafka import KafkaError

        return None if self.data is not None else KafkaError(KafkaError._PARTITION_EOF)

    def partition(self) -> int:
        return self.partition_number

    def offset(self) -> int:
        return self.at

    def value(self) -> bytes | None:
        return self.data

    def timestamp(self) -> tuple[int, int]:
        return 0, 0


def test_offsets_without_records_before_the_end_are_skipped(kafka: Kafka) -> None:
    """Positions of transaction markers and compacted records, also without any other record."""
    with kafka.reading() as found:
        # until then, received messages are from earlier positions
        found.wait(lambda: not found.log._moved)
        told = [Told(0, 0, value(7)), Told(1, 6), Told(0, 1, value(8)), Told(0, 5)]
        found.log._take(told)
        for partition, end in ((0, 5), (1, 6)):
            found.until(end, partition)
        assert (found.next, found.rows) == ([5, 6], [[(0, 7), (1, 8)], []])
        found.log._take([Told(1, 6, value(9)), Told(0, 5), Told(1, 7), Told(1, 9)])
        found.until(9, 1)
        assert (found.next, found.rows[1]) == ([5, 9], [(6, 9)])


@pytest.mark.parametrize("beyond", [1, 9])
def test_a_topic_that_ends_before_the_position_of_the_job_is_another_topic(
    kafka: Kafka, beyond: int
) -> None:
    """A start at the partition's end is allowed: the next record will have that position."""
    kafka.produce([value(i) for i in range(3)])
    with kafka.reading([3, 0]) as found:
        kafka.produce([value(3)])
        found.until(4)
        assert found.rows[0] == [(3, 3)]
    told = rf"partition 0 ends at offset 4, but the job continues at offset {4 + beyond}"
    with kafka.reading([4 + beyond, 0]) as found, pytest.raises(LogReplacedError, match=told):
        found.until(20)


def test_at_the_end_of_a_partition_nothing_is_lost(kafka: Kafka) -> None:
    """A broker may answer that a position does not exist before it knows its newest record."""
    kafka.produce([value(i) for i in range(3)])
    with kafka.reading([3, 0]) as found:
        (buffer, _) = found.log._buffers
        assert found.log._out_of_range(buffer, "no such offset") is None
        assert found.log._client.trouble == "no such offset"
        kafka.produce([value(3)])
        found.until(4)


@pytest.mark.parametrize(("first", "is_lost"), [(2, False), (3, False), (4, True)])
def test_only_records_before_the_first_kept_one_are_lost(
    kafka: Kafka, first: int, is_lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.produce([value(i) for i in range(5)])
    with kafka.reading([3, 0], until=3) as found:
        (buffer, _) = found.log._buffers
        bounds = iter([first, 5])
        answer = SimpleNamespace(answers=lambda _: {0: SimpleNamespace(offset=next(bounds))})
        monkeypatch.setattr(found.log._client, "request_offsets", lambda *_: answer)
        error = found.log._out_of_range(buffer, "no such offset")
        assert isinstance(error, LostInputError) == is_lost


def test_a_reader_continues_and_ends_at_the_given_offsets(kafka: Kafka) -> None:
    kafka.produce([value(i) for i in range(20)])
    with kafka.reading([5, 0], until=20) as found:
        kafka.produce([value(i) for i in range(20, 30)])
        found.until(20)
        assert [at for at, _ in found.rows[0]] == [*range(5, 20)]
        found.log.skip_to(0, 18)
        found.next[0] = 18
        found.until(20)
        assert [at for at, _ in found.rows[0]][-2:] == [18, 19]
        assert found.log.read(0, 10) is None


def test_bad_messages_end_the_reader_or_become_dead_letters(kafka: Kafka) -> None:
    kafka.produce([value(1), b"?", None, value(2), b'{"t": "x"}', value(3)])
    with kafka.reading() as found:
        named = f"topic {kafka.topic}, partition 0, position 1: not a JSO"
        with pytest.raises(LogRowError, match=named):
            found.until(6)
        assert found.rows[0] == [(0, 1)]
    with kafka.reading(on_bad_row="skip") as found:
        found.until(6)
        assert found.rows[0] == [(0, 1), (3, 2), (5, 3)]
        assert found.dead == [1, 2, 4]


def test_fetching_pauses_while_the_buffer_is_full(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffers, "BUFFERED_ROWS_MAX", 50)
    monkeypatch.setattr(reader, "FETCH_ROWS_MAX", 20)
    rows = 500
    for p in (0, 1):
        kafka.produce([value(i) for i in range(rows)], p)
    with kafka.reading() as found:
        first, second = found.log._buffers
        found.wait(lambda: first.is_full and second.is_full)
        found.wait(lambda: found.step(rows_max=13) and second.is_paused)
        found.log.skip_to(0, 5)
        found.next[0], found.rows[0] = 5, []
        found.wait(lambda: first.is_full and second.is_full)
        found.until(200, rows_max=13)
        assert second.fetched <= 50 + 20, "it stays paused while the other one is read on"
        first_had = first.fetched
        found.until(rows, partition=1, rows_max=7)  # while the other partition stays full
        assert first.fetched <= first_had + 50 + 20
        assert [at for at, _ in found.rows[1]] == [*range(rows)]
        found.until(rows, rows_max=13)
        assert [at for at, _ in found.rows[0]] == [*range(5, rows)]


class Gate:
    """A decoder that waits before messages from an offset on."""

    def __init__(self, decoder: MessageDecoder, offset: int) -> None:
        self._decoder, self._offset = decoder, offset
        self.reached, self.opened = threading.Event(), threading.Event()

    def decode(self, messages: Messages) -> tuple[LogRows, StreamEngineError | None]:
        if len(messages.offsets) and messages.offsets[-1] >= self._offset:
            self.reached.set()
            assert self.opened.wait(60)
        return self._decoder.decode(messages)


def test_a_seek_during_a_fetch_leaves_no_gap(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "FETCH_ROWS_MAX", 10)
    kafka.produce([value(i) for i in range(30)])
    gates = []

    def gate_of(spec: SourceSpec, config: dict[str, str]) -> Gate:
        gates.append(Gate(message_decoder(spec, config), 15))
        return gates[0]

    monkeypatch.setattr(reader, "message_decoder", gate_of)
    with kafka.reading() as found:
        (gate,) = gates
        assert gate.reached.wait(60)
        found.log.skip_to(0, 5)
        found.next[0] = 5
        gate.opened.set()
        found.until(30)
        assert [at for at, _ in found.rows[0]] == [*range(5, 30)]


def test_the_end_of_a_closing_reader_needs_a_recent_response(kafka: Kafka) -> None:
    kafka.produce([value(i) for i in range(5)])
    with kafka.reading() as found:
        found.wait(lambda: found.log.closing_position(0, 0.0))
        kafka.produce([value(5)])
        now_s = time.monotonic()
        assert found.log.closing_position(0, now_s + 1e6) is None
        found.wait(lambda: found.log.closing_position(0, now_s))
        assert found.log.closing_position(0, now_s) == 6


@pytest.mark.slow
def test_the_reader_waits_for_an_unreachable_broker(
    own_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "AWAY_S_MIN", 0.5)
    own_broker.create_topic("t")
    own_broker.produce("t", [value(1)])
    with reading(topic_spec(own_broker, "t")) as found:
        found.until(1)
        with own_broker.frozen():
            found.wait(lambda: found.log.waiting)
            assert own_broker.servers in found.log.waiting
        found.wait(lambda: not found.log.waiting)
        own_broker.stop()
        found.wait(lambda: found.log.waiting)
        own_broker.start()
        own_broker.produce("t", [value(2)])
        found.until(2)
        assert found.rows[0] == [(0, 1), (1, 2)]
        found.wait(lambda: not found.log.waiting)


def test_a_broker_may_be_unreachable_up_to_the_limit(own_broker: Broker) -> None:
    own_broker.create_topic("t")
    own_broker.produce("t", [value(1)])
    with reading(topic_spec(own_broker, "t", away_max_us=400_000)) as found:
        found.until(1)
        with own_broker.frozen(), pytest.raises(LogUnreachableError, match=r"away_max\) is 0\.4 s"):
            found.wait(lambda: found.step() and False)


def test_a_topic_that_is_created_again_is_another_topic(broker: Broker, topic: str) -> None:
    broker.produce(topic, [value(i) for i in range(9)])
    spec = topic_spec(broker, topic)
    with reading(spec) as found:
        found.until(9)
        broker.delete_topic(topic)
        broker.create_topic(topic, 2)
        broker.produce(topic, [value(i) for i in range(3)])
        with pytest.raises(LogReplacedError, match=f"topic {topic} was deleted and created again"):
            found.wait(lambda: found.step() and False)
    with (
        reading(spec, [7, 0]) as found,
        pytest.raises(LogReplacedError, match="ends at offset 3, but the job"),
    ):
        found.until(8)


def test_added_partitions_are_counted(broker: Broker, topic: str) -> None:
    spec = topic_spec(broker, topic)
    with reading(spec, units=topic_units(spec)) as found:
        broker.produce(topic, [value(1)])
        found.until(1)
        found.wait(lambda: found.log.log_partitions == 2)
        broker.add_partitions(topic, 5)
        found.wait(lambda: found.log.log_partitions == 5)
        broker.produce(topic, [value(2)])
        found.until(2)  # the reader goes on with the other partitions


@pytest.mark.parametrize("partitions", [1, 2])
def test_deleted_records_are_lost_input_and_can_be_skipped(partitions: int) -> None:
    mock, rows, pad = MockCluster(), 8_000, "x" * 1_000
    mock.produce("t", [value(i, pad) for i in range(rows)])
    spec = topic_spec(mock, "t")
    units = Unit(spec.path, until=rows), Unit(spec.path, stream=1)
    with reading(spec, units=units[:partitions]) as found:
        if partitions == 2:  # so that the thread continues and the failing partition is paused
            found.wait(lambda: found.log._buffers[0].is_paused)
        with pytest.raises(LostInputError, match=r"position 0 on are gone .*set on_lost=") as lost:
            found.until(rows)
        first = lost.value.first
        assert 0 < first < rows
        found.log.skip_to(0, first)
        found.next[0] = first
        found.until(rows)
        assert found.rows[0] == [(i, i) for i in range(first, rows)]


def test_a_stopped_broker_does_not_mean_missing_topics(
    own_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client reports no topics if the broker is stopped.

    Only a broker's answer means that a topic is gone.
    """
    monkeypatch.setattr(state, "MISSING_S_MAX", 0.0)
    monkeypatch.setattr(state, "AWAY_S_MIN", 1.0)
    own_broker.create_topic("t")
    own_broker.produce("t", [value(1)])
    with reading(topic_spec(own_broker, "t")) as found:
        found.until(1)
        own_broker.stop()
        found.wait(lambda: found.step() and "no answer for 2 s" in found.log.waiting)
        own_broker.start()
        own_broker.produce("t", [value(2)])
        found.until(2)


def test_the_reader_waits_for_a_missing_topic(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "MISSING_S_MAX", 1.5)
    with reading(topic_spec(broker, topic)) as found:
        broker.delete_topic(topic)
        found.wait(lambda: found.log.waiting)
        assert found.log.waiting == f"topic {topic}: the broker does not know it at present"
        with pytest.raises(LogNotFoundError, match="it has been missing for"):
            found.wait(lambda: found.step() and False)


def test_offsets_are_committed_for_monitoring(kafka: Kafka) -> None:
    from confluent_kafka import Consumer, TopicPartition

    group = {"group.id": f"g-{kafka.topic}"}
    kafka.produce([value(i) for i in range(9)])
    with kafka.reading(config=group) as found:
        found.wait(lambda: found.log._buffers[0].fetched == 9)
        found.until(4, rows_max=4)
    consumer = Consumer({"bootstrap.servers": kafka.broker.servers, **group, **QUIET})
    (place,) = consumer.committed([TopicPartition(kafka.topic, 0)], timeout=60)
    consumer.close()
    assert place.offset == 4, "the others were fetched, and nobody has them"


def test_a_closed_reader_stays_closed(kafka: Kafka) -> None:
    with kafka.reading() as found:
        found.log.close()
        assert not found.log._thread.is_alive()

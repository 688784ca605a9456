"""The destination suite on a simulated broker, for the logic of Kafka deliveries.

Not covered: behaviour of a real broker and its library, for which test_transactions.py and
test_headers.py run the same suite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from confluent_kafka import KafkaError

from rstream.errors import StreamEngineError
from rvertex.sinks.errors import (
    DeliveryFencedError,
    DeliveryUnknownError,
    DestinationError,
    DestinationRefusedError,
    InvalidSinkError,
    RowsRefusedError,
)
from rvertex.sinks.kafka import client
from rvertex.sinks.spec import KafkaMode, KafkaSink
from tests.rvertex.sinks.conformance import Conformance
from tests.rvertex.sinks.kafka.places import BROKERS, KafkaPlace
from tests.rvertex.sinks.places import expected, items, progress
from tests.support.brokers import Record
from tests.support.kafka_inside import Broker, Consumer, Producer, failure

if TYPE_CHECKING:
    from rvertex.sinks.protocol import Destination

SERVERS = "inside"
MODES = pytest.mark.parametrize("mode", ["transactions", "headers"])


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker("t")

    def new(kind: Any) -> Any:
        return lambda config, logger: kind(made, config)

    monkeypatch.setattr(client, "Producer", new(Producer))
    monkeypatch.setattr(client, "Consumer", new(Consumer))
    monkeypatch.setitem(BROKERS, SERVERS, made)
    return made


def place_of(mode: KafkaMode, **given: Any) -> KafkaPlace:
    return KafkaPlace(KafkaSink("t", SERVERS, mode=mode, **given))


def deliver(destination: Destination, first: int, *ends: int) -> None:
    """Write up to each of the ends, and commit."""
    for end in ends:
        destination.write(items(0, first, end))
        first = end
    destination.commit(progress(0, first))


class _Here(Conformance):
    """Tests that need no second process and few rows."""

    test_killed_between_any_two_calls: ClassVar[None] = None  # type: ignore[assignment]
    test_killed_within_a_call: ClassVar[None] = None  # type: ignore[assignment]
    test_frozen_between_calls: ClassVar[None] = None  # type: ignore[assignment]
    test_frozen_within_a_commit: ClassVar[None] = None  # type: ignore[assignment]
    test_large_and_many: ClassVar[None] = None  # type: ignore[assignment]


class TestTransactions(_Here):
    @pytest.fixture
    def place(self, inside: Broker) -> KafkaPlace:
        return place_of("transactions")


class TestHeaders(_Here):
    @pytest.fixture
    def place(self, inside: Broker) -> KafkaPlace:
        return place_of("headers")


@MODES
def test_an_older_epoch_is_rejected_before_it_changes_anything(
    mode: KafkaMode, inside: Broker
) -> None:
    """A writer is also fenced by a successor that has only opened, with an epoch higher by one."""
    place = place_of(mode)
    newer, older = place.destination(0), place.destination(0)
    newer.open(2)
    before = len(inside.calls)
    with pytest.raises(DeliveryFencedError):
        older.open(1)
    assert inside.calls[before:] == []
    newer.write(items(0, 0, 4))
    newer.commit(progress(0, 4))
    with pytest.raises(DeliveryFencedError):
        older.open(1)
    assert place.destination(0).open(3) == progress(0, 4)
    assert place.destination(0).open(4) == progress(0, 4), "opening keeps the progress"
    with pytest.raises(DeliveryFencedError):
        place.destination(0).open(3)
    assert place.rows() == expected(0, 4)


def test_a_writer_in_headers_mode_checks_for_a_successor_before_it_sends(inside: Broker) -> None:
    place = place_of("headers")
    older, newer = place.destination(0), place.destination(0)
    older.open(1)
    older.write(items(0, 0, 4))
    newer.open(2)
    with pytest.raises(DeliveryFencedError):
        older.commit(progress(0, 4))
    assert place.rows() == []


@pytest.mark.parametrize("happens", [False, True])
def test_a_commit_without_a_response(happens: bool, inside: Broker) -> None:
    """``open`` reports whether it took effect; without it the writer does not continue."""
    place = place_of("transactions")
    lost = place.destination(0)
    lost.open(1)
    lost.write(items(0, 0, 4))
    inside.fails["commit"] = failure(KafkaError._TIMED_OUT), happens
    with pytest.raises(DeliveryUnknownError):
        lost.commit(progress(0, 4))
    assert lost.open(1) == (progress(0, 4) if happens else None)
    done = 4 if happens else 0
    lost.write(items(0, done, 9))
    lost.commit(progress(0, 9))
    assert place.rows() == expected(0, 9)


@pytest.mark.parametrize(
    ("code", "requires_abort", "meaning"),
    [
        (KafkaError._FENCED, False, DeliveryFencedError),
        (KafkaError.INVALID_PRODUCER_EPOCH, False, DeliveryFencedError),
        (KafkaError.COORDINATOR_NOT_AVAILABLE, True, DestinationError),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, True, DestinationRefusedError),
    ],
)
def test_a_commit_that_certainly_failed(
    code: int, requires_abort: bool, meaning: type[Exception], inside: Broker
) -> None:
    place = place_of("transactions")
    failed = place.destination(0)
    failed.open(1)
    failed.write(items(0, 0, 4))
    inside.fails["commit"] = failure(code, requires_abort=requires_abort), False
    with pytest.raises(meaning) as found:
        failed.commit(progress(0, 4))
    assert not isinstance(found.value, DeliveryUnknownError)
    assert failed.open(1) is None
    assert place.rows() == []


def test_an_abandoned_transaction_is_aborted_at_once(inside: Broker) -> None:
    """An abandoned transaction is aborted, so that readers of the topic do not wait for it."""
    left = place_of("transactions").destination(0)
    left.open(1)
    inside.calls.clear()
    left.write(items(0, 0, 4))
    left.commit(progress(0, 4))
    left.close()
    assert inside.calls == ["send_offsets", "commit"]
    left.open(1)
    inside.calls.clear()
    left.write(items(0, 4, 5))
    left.close()
    assert inside.calls == ["abort"]


@MODES
def test_a_rejected_record_names_the_items_since_the_last_commit(
    mode: KafkaMode, inside: Broker
) -> None:
    refusing = place_of(mode).destination(0)
    refusing.open(1)
    refusing.write(items(0, 0, 4))
    refusing.commit(progress(0, 4))
    too_large = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    inside.refuses = lambda record: too_large if b"w7" in (record.value or b"") else None
    with pytest.raises(RowsRefusedError, match=r"\[4, 9\)"):
        deliver(refusing, 4, 5, 9)
    inside.refuses = lambda _: None
    assert refusing.open(1) == progress(0, 4)
    refusing.write(items(0, 4, 9))
    refusing.commit(progress(0, 9))
    assert place_of(mode).rows() == expected(0, 9)


@MODES
def test_a_user_without_permission_on_the_topic_ends_the_delivery(
    mode: KafkaMode, inside: Broker
) -> None:
    denied = place_of(mode).destination(0)
    denied.open(1)
    inside.refuses = lambda _: KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(DestinationRefusedError, match="grant the user WRITE"):
        deliver(denied, 0, 4)
    inside.refuses = lambda _: None
    assert denied.open(1) is None, "what went wrong before is over"
    denied.write(items(0, 0, 4))
    inside.fails["keep"] = inside.fails["send_offsets"] = failure(KafkaError._TRANSPORT), False
    with pytest.raises(StreamEngineError) as found:
        denied.commit(progress(0, 4))
    assert type(found.value) is DestinationError


@MODES
def test_a_full_client_waits_for_room(mode: KafkaMode, inside: Broker) -> None:
    place, inside.room = place_of(mode), 2
    waiting = place.destination(0)
    waiting.open(1)
    waiting.write(items(0, 0, 14))
    waiting.commit(progress(0, 14))
    assert place.rows() == expected(0, 14)


def test_records_that_the_client_drops_are_not_committed(inside: Broker) -> None:
    place = place_of("headers")
    silent = place.destination(0)
    silent.open(1)
    silent.write(items(0, 0, 4))
    inside.is_silent = True
    with pytest.raises(DestinationError, match="did not accept records in time"):
        silent.commit(progress(0, 4))
    inside.is_silent = False
    assert silent.open(1) is None


def test_lost_progress_of_headers_mode_repeats_no_record(inside: Broker) -> None:
    """If the progress in headers is lost, no record is repeated."""
    place = place_of("headers")
    other, lost = place.destination(2), place.destination(0)  # both write to partition 0
    for partition, writer in ((2, other), (0, lost)):
        writer.open(1)
        writer.write(items(partition, 0, 4))
        inside.fails["keep"] = failure(KafkaError._TIMED_OUT), False
        with pytest.raises(DestinationError):
            writer.commit(progress(partition, 4))
    assert lost.open(1) is None
    lost.write(items(0, 0, 2))
    lost.commit(progress(0, 2))
    lost.write(items(0, 2, 9))
    lost.commit(progress(0, 9))
    assert other.open(1) is None
    other.write(items(2, 0, 5))
    other.commit(progress(2, 5))
    seqs: dict[bytes, list[int]] = {}
    for record in inside.read_committed("t"):
        headers = dict(record.headers)
        seqs.setdefault(headers["stream"], []).append(int(headers["seq"]))
    assert sorted(seqs.values()) == [[1, 2, 4], [1, 2, 4, 5, 7, 8]]


def test_records_before_the_stored_progress_are_not_read_again(
    inside: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An open reads the records after the recorded ends: none, after an acknowledged commit."""
    read = client.ProgressGroup.records
    found: list[int] = []

    def counted(group: client.ProgressGroup, starts: dict[int, int]) -> Any:
        messages = list(read(group, starts))
        found.append(len(messages))
        return iter(messages)

    monkeypatch.setattr(client.ProgressGroup, "records", counted)
    writer = place_of("headers").destination(0)
    writer.open(1)
    writer.write(items(0, 0, 9))
    writer.commit(progress(0, 9))
    writer.open(1)
    inside.partitions[0] += inside.partitions[0][:2]  # records of others
    writer.open(1)
    assert found == [0, 0, 2]


def test_an_added_partition_is_read_from_its_start(inside: Broker) -> None:
    """A former writer may have used the partition. A new delivery skips records of others."""
    place = place_of("headers")
    delivered = place.destination(2)
    delivered.open(1)
    delivered.write(items(2, 0, 3))
    delivered.commit(progress(2, 3))
    (stream, *_) = (dict(record.headers)["stream"] for record in inside.read_committed("t"))
    inside.partitions.append([])
    there = Record(b"{}", partition=2, headers=(("stream", stream), ("seq", b"4")))
    producer = Producer(inside, {})
    producer.produce("t", there.value, partition=2, headers=there.headers)
    producer.flush(0)
    assert delivered.open(1) == progress(2, 3)
    delivered.write(items(2, 3, 6))
    delivered.commit(progress(2, 6))
    seqs = [int(dict(record.headers)["seq"]) for record in inside.read_committed("t")]
    assert sorted(seqs) == [1, 2, 4, 5]


@MODES
def test_partitions_of_the_output_go_to_partitions_of_the_topic(
    mode: KafkaMode, inside: Broker
) -> None:
    place = place_of(mode)
    for partition in (0, 1, 2, 3):
        writer = place.destination(partition)
        writer.open(1)
        writer.write(items(partition, 0, 3))
        writer.commit(progress(partition, 3))
        writer.close()
    parts = [row["part"] for row in place.rows()]
    assert parts == [0, 0, 2, 2, 1, 1, 3, 3]


@MODES
def test_a_missing_topic_is_named(mode: KafkaMode, inside: Broker) -> None:
    place = KafkaPlace(KafkaSink("other", SERVERS, mode=mode))
    with pytest.raises(InvalidSinkError, match="there is no such topic: create it"):
        place.destination(0).open(1)


def test_headers_mode_reads_records_of_open_transactions(inside: Broker) -> None:
    """The offsets after which it searches are those of all records."""
    open_one = Producer(inside, {"transactional.id": "x"})
    open_one.init_transactions(0)
    open_one.begin_transaction()
    place = place_of("headers")
    lost = place.destination(0)
    lost.open(1)
    open_one.produce("t", b"of another", partition=0)
    open_one.flush(0)
    lost.write(items(0, 0, 4))
    inside.fails["keep"] = failure(KafkaError._TIMED_OUT), False
    with pytest.raises(DestinationError):
        lost.commit(progress(0, 4))
    assert lost.open(1) is None
    lost.write(items(0, 0, 4))
    lost.commit(progress(0, 4))
    assert len(inside.partitions[0]) == 1 + len(expected(0, 4))

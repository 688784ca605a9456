"""The destination suite on a real Kafka broker with headers instead of transactions.

Not covered: a reader that ignores the headers and sees the rows of a commit one by one.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

from rvertex.sinks.errors import DestinationError
from rvertex.sinks.kafka import client
from rvertex.sinks.spec import KafkaSink
from tests.rvertex.sinks.conformance import CALL_MS_MAX, END, KILLS, Conformance, finish
from tests.rvertex.sinks.kafka.places import BROKERS, KafkaPlace
from tests.rvertex.sinks.places import expected, items, progress
from tests.rvertex.sinks.writers import Writer
from tests.support.brokers import Record

if TYPE_CHECKING:
    from tests.rvertex.sinks.places import Place
    from tests.support.brokers import Broker


@pytest.fixture
def place(broker: Broker, topic: str) -> Place:
    BROKERS[broker.servers] = broker
    return KafkaPlace(KafkaSink(topic, broker.servers, mode="headers"))


@pytest.mark.slow
class TestHeaders(Conformance):
    """Rows of a commit become visible one by one, so a reader may be ahead of the progress."""

    def test_killed_within_a_call(self, place: Place) -> None:
        dice = random.Random(1)
        for epoch in range(1, KILLS):
            writer = Writer(place, 0)
            found = writer.open(epoch)
            next_seq = 0 if found is None else found.next_seq
            assert expected(0, next_seq) == place.rows()[: len(expected(0, next_seq))]
            writer.write(next_seq, next_seq + 5)
            writer.begin("commit", next_seq + 5)
            time.sleep(dice.random() * CALL_MS_MAX / 1000)  # the moment of the kill
            writer.kill()
        finish(place, KILLS)

    def test_frozen_within_a_commit(self, place: Place) -> None:
        """The records that it sends after waking up are repeats."""
        dice = random.Random(2)
        for epoch in range(1, KILLS, 2):
            zombie = Writer(place, 0)
            found = zombie.open(epoch)
            next_seq = 0 if found is None else found.next_seq
            zombie.write(next_seq, next_seq + 6)
            zombie.begin("commit", next_seq + 6)
            time.sleep(dice.random() * CALL_MS_MAX / 1000)  # the moment of the freeze
            zombie.freeze()
            finish(place, epoch + 1)
            zombie.thaw()
            zombie.kill()
            assert len(place.rows()) >= len(expected(0, END))
        finish(place, KILLS + 1)


def test_existing_records_are_not_written_again(
    place: Place, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer's rows arrived, but not its progress; any number of opens follow."""
    other, lost = place.destination(2), place.destination(0)  # both write to partition 0

    def fail(*_: object) -> None:
        raise DestinationError("topic", "nobody answers")

    for destination in (other, lost):
        assert destination.open(1) is None
    with monkeypatch.context() as patch:
        patch.setattr(client.ProgressGroup, "keep", fail)
        for partition, destination in ((2, other), (0, lost)):
            destination.write(items(partition, 0, 6))
            with pytest.raises(DestinationError):
                destination.commit(progress(partition, 6))
    for epoch in (1, 2, 3):
        assert lost.open(epoch) is None
        if epoch < 3:
            lost.write(items(0, 0, 9))  # this handle is abandoned
    for first, end in ((0, 2), (2, 9)):
        lost.write(items(0, first, end))
        lost.commit(progress(0, end))
    assert other.open(1) is None
    for first, end in ((0, 9), (9, 12)):
        other.write(items(2, first, end))
        other.commit(progress(2, end))
    lost.close()
    other.close()
    seqs: dict[bytes, list[int]] = {}
    for record in broker.read_committed(topic):
        headers = dict(record.headers)
        seqs.setdefault(headers["stream"], []).append(int(headers["seq"]))
    assert sorted(map(len, seqs.values())) == sorted(
        len(expected(k, n)) for k, n in ((0, 9), (2, 12))
    )
    assert all(found == sorted(set(found)) for found in seqs.values())


def test_existing_records_in_an_added_partition_are_found(
    place: Place, broker: Broker, topic: str
) -> None:
    """A writer that died may have used a new partition before its successor knew it."""
    delivered = place.destination(5)
    assert delivered.open(1) is None
    delivered.write(items(5, 0, 3))
    delivered.commit(progress(5, 3))
    (stream, *_) = (dict(record.headers)["stream"] for record in broker.read_committed(topic))
    broker.add_partitions(topic, 3)
    seq = int(items(5, 3, 9).seqs[0])
    there = (("stream", stream), ("seq", b"%d" % seq))
    broker.produce(topic, [Record(b"{}", partition=2, headers=there)])
    assert delivered.open(1) == progress(5, 3)
    delivered.write(items(5, 3, 9))
    delivered.commit(progress(5, 9))
    delivered.close()
    found = [int(dict(record.headers)["seq"]) for record in broker.read_committed(topic)]
    assert found.count(seq) == 1


def test_a_failure_ends_when_the_delivery_opens_again(
    own_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    BROKERS[own_broker.servers] = own_broker
    limit = ("message.timeout.ms", "8000")
    sink = KafkaSink(
        own_broker.create_topic("t", 2), own_broker.servers, mode="headers", config=(limit,)
    )
    place = KafkaPlace(sink)
    failing = place.destination(0)
    failing.open(1)
    failing.write(items(0, 0, 5))
    read = client.ProgressGroup.read

    def read_and_freeze(group: client.ProgressGroup) -> client.KeptProgress:
        found = read(group)
        own_broker.freeze()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(client.ProgressGroup, "read", read_and_freeze)
        with pytest.raises(DestinationError):
            failing.commit(progress(0, 5))
    own_broker.thaw()
    read_ends = client.ProgressGroup.read_ends

    def read_ends_and_freeze(group: client.ProgressGroup, partitions: int) -> dict[int, int]:
        found = read_ends(group, partitions)
        own_broker.freeze()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(client, "ANSWER_WAIT_S", 1.0)
        patch.setattr(client.ProgressGroup, "read_ends", read_ends_and_freeze)
        with pytest.raises(DestinationError):
            failing.open(1)
    own_broker.thaw()
    assert failing.open(1) is None
    failing.write(items(0, 0, 5))
    failing.commit(progress(0, 5))
    failing.close()
    assert place.rows() == expected(0, 5)

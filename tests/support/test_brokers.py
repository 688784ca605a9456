"""The tests' broker has the features that tests need: transactions, ends, freezing, restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.brokers import Broker, Record, send

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_records_are_read_as_sent(broker: Broker, topic: str) -> None:
    sent = Record(b"v", b"k", 0, 1_500, (("h", b"1"), ("h", b"2")))
    broker.produce(topic, [sent, Record(None, b"k", 0, 1_501)])
    broker.produce(topic, [b"x"], partition=1)
    found = broker.read_committed(topic)
    assert found[0] == Record(b"v", b"k", 0, 1_500, (("h", b"1"), ("h", b"2")), offset=0)
    assert found[1].value is None
    assert (found[2].value, found[2].partition, found[2].offset) == (b"x", 1, 0)


def test_aborted_and_open_records_are_hidden(broker: Broker, topic: str) -> None:
    producer = broker.producer(transactional_id=f"id-{topic}")
    producer.init_transactions(10)
    for value, ends in ((b"a", producer.abort_transaction), (b"b", producer.commit_transaction)):
        producer.begin_transaction()
        send(producer, topic, Record(value))
        producer.flush(10)
        ends(10)
    producer.begin_transaction()
    send(producer, topic, Record(b"c"))
    producer.flush(10)
    assert [r.value for r in broker.read_committed(topic)] == [b"b"]
    producer.abort_transaction(10)


def test_a_fetch_waits_until_rows_arrive(broker: Broker, topic: str) -> None:
    """A fetch at the end of a partition waits for rows; a new row ends the wait."""
    from confluent_kafka import TopicPartition

    config = {
        "enable_partition_eof": True,
        "fetch_wait_max_ms": 60_000,
        "socket_timeout_ms": 90_000,
    }
    with broker.consumer(**config) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert consumer.poll(0.3) is None
        broker.produce(topic, [b"a"])
        found = consumer.poll(30)
        assert found is not None
        assert found.value() == b"a"


def test_records_after_an_abort_are_visible_to_every_reader(broker: Broker, topic: str) -> None:
    """Items after an aborted transaction are delivered, although the abort is still reported."""
    from confluent_kafka import TopicPartition

    producer = broker.producer(transactional_id=f"id-{topic}")
    producer.init_transactions(10)

    def written(value: bytes, ends: Callable[[float], None]) -> None:
        producer.begin_transaction()
        send(producer, topic, Record(value))
        producer.flush(10)
        ends(10)

    written(b"a", producer.abort_transaction)
    with broker.consumer() as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        for value in (b"b", b"c", b"d"):
            written(value, producer.commit_transaction)
            found = consumer.poll(30)
            assert found is not None
            assert found.value() == value
    with broker.consumer() as consumer:
        consumer.assign([TopicPartition(topic, 0, 4)])
        found = consumer.poll(30)
        assert found is not None
        assert found.value() == b"c"


def test_a_stopped_broker_keeps_its_data_and_address(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.start()
    try:
        broker.create_topic("t")
        broker.produce("t", [b"a"])
        servers = broker.servers
        broker.stop()
        broker.start()
        assert broker.servers == servers
        with broker.frozen():
            pass
        assert [r.value for r in broker.read_committed("t")] == [b"a"]
        broker.freeze()
    finally:
        broker.stop()

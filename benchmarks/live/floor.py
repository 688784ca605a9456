"""The floor: consume, produce the same messages in a transaction, commit; without a query.

No system that delivers exactly once with as many transactions can be faster. It copies the events
that the filter keeps, which it recognises by one byte, so it writes as many rows.
"""

from __future__ import annotations

import json
import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition

from live.ending import at_end

COMMIT_S = 0.005
_CONSUME_MAX = 10_000
_CONSUME_S = 0.002
_TRANSACTION_S = 30
_AMOUNT = b'"amount":'
_EVEN = frozenset(b"02468")


def main(order: dict[str, str]) -> None:
    """Copy messages in transactions, with the offsets that were read."""
    consumer = Consumer(
        {
            "bootstrap.servers": order["servers"],
            "group.id": "floor",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 5,
            "log_level": 0,
        }
    )
    topic, out = order["topic"], order["out"]
    partitions = consumer.list_topics(topic, 10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, k, 0) for k in partitions])
    producer = Producer(
        {
            "bootstrap.servers": order["servers"],
            "transactional.id": f"floor-{out}",
            "linger.ms": 0,
            "queue.buffering.max.messages": 2_000_000,
            "log_level": 0,
        }
    )
    producer.init_transactions(_TRANSACTION_S)
    ended = at_end()
    while not ended.is_set():
        began = time.monotonic()
        offsets: dict[int, int] = {}
        while time.monotonic() - began < COMMIT_S:
            for message in consumer.consume(_CONSUME_MAX, _CONSUME_S):
                if message.error() is not None:
                    continue
                if not offsets:
                    producer.begin_transaction()
                value = message.value()
                if value[value.index(b",", value.index(_AMOUNT)) - 1] in _EVEN:
                    producer.produce(out, value)
                offsets[message.partition()] = message.offset() + 1
        if offsets:
            places = [TopicPartition(topic, k, offset) for k, offset in offsets.items()]
            producer.send_offsets_to_transaction(
                places, consumer.consumer_group_metadata(), _TRANSACTION_S
            )
            producer.commit_transaction(_TRANSACTION_S)
    consumer.close()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

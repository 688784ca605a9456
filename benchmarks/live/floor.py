"""The floor: consume, produce what was read in a transaction, commit. No query, no state.

No system that delivers exactly once through transactions of the same rhythm can be faster.
``python -m live.floor SERVERS IN OUT COMMIT_MS`` runs until its standard input is closed.
"""

from __future__ import annotations

import sys
import threading
import time

from confluent_kafka import Consumer, Producer, TopicPartition

_CONSUME_MAX = 10_000
_CONSUME_S = 0.002
_TRANSACTION_S = 30


def main(servers: str, topic: str, out: str, commit_s: float) -> None:
    """Copy messages, with their offsets, in transactions of ``commit_s``."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "floor",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 5,
            "log_level": 0,
        }
    )
    partitions = consumer.list_topics(topic, 10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, k, 0) for k in partitions])
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "transactional.id": f"floor-{out}",
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    producer.init_transactions(_TRANSACTION_S)
    stopped = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stopped.set()), daemon=True).start()
    print("ready", flush=True)
    while not stopped.is_set():
        began = time.monotonic()
        offsets: dict[int, int] = {}
        while time.monotonic() - began < commit_s:
            for message in consumer.consume(_CONSUME_MAX, _CONSUME_S):
                if message.error() is not None:
                    continue
                if not offsets:
                    producer.begin_transaction()
                producer.produce(out, message.value())
                offsets[message.partition()] = message.offset() + 1
        if offsets:
            places = [TopicPartition(topic, k, offset) for k, offset in offsets.items()]
            producer.send_offsets_to_transaction(
                places, consumer.consumer_group_metadata(), _TRANSACTION_S
            )
            producer.commit_transaction(_TRANSACTION_S)
    consumer.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]) / 1000)

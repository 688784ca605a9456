"""Reads the committed messages of the output topic, and records when each could be read.

``python -m live.reading SERVERS TOPIC`` reads one command per line: ``count`` prints the number of
messages; ``save PATH`` writes a NumPy file with the time at which each was read, in microseconds,
and a second file ``PATH.values`` with one message per line. It ends when its standard input is
closed.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from confluent_kafka import Consumer, TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Message

_CONSUME_MAX = 10_000
_CONSUME_S = 0.02


class Reading:
    """The messages that were read."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.at_us: list[np.ndarray] = []
        self.values: list[bytes] = []

    def add(self, messages: list[Message]) -> None:
        """Add messages that were read now."""
        now_us = time.time_ns() // 1000
        values = [m.value() for m in messages if m.error() is None]
        with self.lock:
            self.at_us.append(np.full(len(values), now_us))
            self.values += values

    def save(self, path: Path) -> None:
        """Write both files, the second one first."""
        with self.lock:
            at_us, values = np.concatenate([np.empty(0, np.int64), *self.at_us]), self.values[:]
        Path(f"{path}.values").write_bytes(b"\n".join(values))
        np.save(path, at_us)


def main(servers: str, topic: str) -> None:
    """Read until the input ends."""
    consumer = consumer_of(servers, topic)
    reading, stopped = Reading(), threading.Event()

    def read() -> None:
        while not stopped.is_set():  # ends with the input
            reading.add(next_messages(consumer, _CONSUME_S))

    thread = threading.Thread(target=read)
    thread.start()
    for line in sys.stdin:
        word, _, path = line.strip().partition(" ")
        if word == "save":
            reading.save(Path(path))
        print(len(reading.values), flush=True)
    stopped.set()
    thread.join()
    consumer.close()


def next_messages(consumer: Consumer, wait_s: float) -> list[Message]:
    """Return the available messages, at least one; a call for many would wait for all."""
    found = consumer.consume(1, wait_s)
    return found + consumer.consume(_CONSUME_MAX, 0) if found else found


def consumer_of(
    servers: str, topic: str, partitions: list[int] | None = None, **config: object
) -> Consumer:
    """Return a consumer of partitions of a topic, by default all, from their beginning."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"reading-{topic}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 5,
            "log_level": 0,
            **config,
        }
    )
    there = consumer.list_topics(topic, 10).topics[topic].partitions
    consumer.assign(
        [TopicPartition(topic, k, 0) for k in there if partitions is None or k in partitions]
    )
    return consumer


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

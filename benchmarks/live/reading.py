"""Reads the output topic, committed messages only, and notes when each was read.

``python -m live.reading SERVERS TOPIC SECONDS FIELD OUT`` writes a NumPy file with two columns:
when a row was read and the wall time that its ``FIELD`` names, both in microseconds. It ends
``SECONDS`` after it was started, or when its standard input is closed.
"""

from __future__ import annotations

import json
import sys
import threading
import time

import numpy as np
from confluent_kafka import Consumer, TopicPartition

_CONSUME_MAX = 10_000
_CONSUME_S = 0.02


def main(servers: str, topic: str, seconds: float, field: str, out: str) -> None:
    """Read until the time is over."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"reading-{topic}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 5,
            "log_level": 0,
        }
    )
    partitions = consumer.list_topics(topic, 10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, k, 0) for k in partitions])
    stopped = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stopped.set()), daemon=True).start()
    print("ready", flush=True)
    until = time.monotonic() + seconds
    read: list[tuple[int, bytes]] = []
    while time.monotonic() < until and not stopped.is_set():
        messages = consumer.consume(_CONSUME_MAX, _CONSUME_S)
        now_us = time.time_ns() // 1000
        read += [(now_us, m.value()) for m in messages if m.error() is None]
    consumer.close()
    rows = [(at, moment_of(json.loads(value)[field])) for at, value in read]
    np.save(out, np.array(rows, dtype=np.int64).reshape(-1, 2))


def moment_of(value: object) -> int:
    """Microseconds since 1970 of a field: a number, or a time as text."""
    if isinstance(value, int):
        return value
    text = str(value).removesuffix("Z").removesuffix("+00:00").replace(" ", "T")
    return int(np.datetime64(text, "us").astype(np.int64))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4], sys.argv[5])

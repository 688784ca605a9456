"""The load of the live benchmark: one process that produces events when they are due.

Event ``i`` is due ``i / rate`` seconds after the start, and says so: its field ``at`` is that wall
time in microseconds, and its event time too. So a row's latency is when it was read less the ``at``
that it has, whatever the generator, the broker and the system did in between.
``python -m live.load SERVERS TOPIC PARTITIONS RATE SECONDS KEYS`` prints one JSON line.
"""

from __future__ import annotations

import json
import resource
import sys
import time

import numpy as np
from confluent_kafka import Producer

TOPIC, SIDE_TOPIC = "events", "sides"
SEED = 20_261_122
FLUSH_WAIT_S = 60.0
_TICK_S = 0.001
#: Fills a value up to 90 bytes or so.
_PAD = "x" * 20


def value_of(at_us: int, key: int, amount: int) -> bytes:
    """One message: about 90 bytes of JSON."""
    return b'{"at":%d,"key":%d,"amount":%d,"pad":"%s"}' % (at_us, key, amount, _PAD.encode())


def main(servers: str, topic: str, partitions: int, rate: int, seconds: float, keys: int) -> None:
    """Produce ``rate * seconds`` events; partition ``i % partitions`` gets event ``i``."""
    rows = int(rate * seconds)
    random = np.random.default_rng(SEED)
    key = random.integers(0, keys, rows).tolist()
    amount = random.integers(0, 10_000, rows).tolist()
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 1,
            "queue.buffering.max.messages": 2_000_000,
            "log_level": 0,
        }
    )
    started = time.time()
    sent = 0
    behind_s = 0.0
    while sent < rows:
        due = min(rows, int((time.time() - started) * rate) + 1)
        for i in range(sent, due):
            at_us = int((started + i / rate) * 1_000_000)
            producer.produce(topic, value_of(at_us, key[i], amount[i]), partition=i % partitions)
        sent = due
        producer.poll(0)
        behind_s = max(behind_s, time.time() - started - sent / rate)
        time.sleep(_TICK_S)
    left = producer.flush(FLUSH_WAIT_S)
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(
        json.dumps(
            {
                "rows": rows,
                "left": left,
                "started_us": int(started * 1_000_000),
                "behind_ms": round(behind_s * 1000, 1),
                "cpu_s": round(used.ru_utime + used.ru_stime, 2),
            }
        )
    )


if __name__ == "__main__":
    main(
        sys.argv[1],
        sys.argv[2],
        int(sys.argv[3]),
        int(sys.argv[4]),
        float(sys.argv[5]),
        int(sys.argv[6]),
    )

"""The events of a soak run and their answer, which are computed from event numbers only.

Partition ``PARTITIONS - 1`` is silent half of the time, so that the job often decides whether it is
idle. ``python -m soak.events SERVERS TOPIC RATE SECONDS`` produces them when they are due. It
prints its start time as one JSON line, and its greatest delay as another.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from confluent_kafka import Producer

TOPIC, OUT = "events", "windows"
PARTITIONS, KEYS = 3, 100
WINDOW_US = 1_000_000
#: The last partition gets events in every second period of this length, us.
SILENT_US = 10_000_000
FLUSH_WAIT_S = 60.0
_TICK_S = 0.005


def keys_of(numbers: np.ndarray) -> np.ndarray:
    """Return the key of each event."""
    return numbers * 7_919 % 104_729 % KEYS


def amounts_of(numbers: np.ndarray) -> np.ndarray:
    """Return the amount of each event."""
    return numbers * 31 % 10_007


def times_of(numbers: np.ndarray, began_us: int, rate: int) -> np.ndarray:
    """Return the time of each event, which is also its due time."""
    return began_us + numbers * 1_000_000 // rate


def answer(began_us: int, rows: int, rate: int) -> dict[tuple[int, int], tuple[int, int]]:
    """Return the number of events and the sum of their amounts by window end and key."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    step = rate * 60
    for lo in range(0, rows, step):
        numbers = np.arange(lo, min(lo + step, rows), dtype=np.int64)
        ends = times_of(numbers, began_us, rate) // WINDOW_US + 1
        cells, inverse = np.unique(ends * KEYS + keys_of(numbers), return_inverse=True)
        counts = np.bincount(inverse)
        totals = np.zeros(len(cells), np.int64)
        np.add.at(totals, inverse, amounts_of(numbers))
        for cell, count, total in zip(
            cells.tolist(), counts.tolist(), totals.tolist(), strict=True
        ):
            place = cell // KEYS * WINDOW_US, cell % KEYS
            before = found.get(place, (0, 0))
            found[place] = before[0] + count, before[1] + total
    return found


def main(servers: str, topic: str, rate: int, seconds: float) -> None:
    """Produce ``rate * seconds`` events."""
    rows = int(rate * seconds)
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 2,
            "queue.buffering.max.messages": 5_000_000,
            "enable.idempotence": True,
            "log_level": 0,
        }
    )
    began_us = time.time_ns() // 1000
    print(json.dumps({"began_us": began_us, "rows": rows}), flush=True)
    sent, behind_s = 0, 0.0
    while sent < rows:
        due = min(rows, (time.time_ns() // 1000 - began_us) * rate // 1_000_000 + 1)
        due = min(due, sent + rate)  # after a pause, send the due events in parts
        numbers = np.arange(sent, due, dtype=np.int64)
        at_us = times_of(numbers, began_us, rate)
        is_silent = at_us // SILENT_US % 2 == 1
        places = numbers % np.where(is_silent, PARTITIONS - 1, PARTITIONS)
        rows_of = zip(
            at_us.tolist(),
            keys_of(numbers).tolist(),
            amounts_of(numbers).tolist(),
            places.tolist(),
            strict=True,
        )
        for at, key, amount, place in rows_of:
            _send(producer, topic, b'{"at":%d,"key":%d,"amount":%d}' % (at, key, amount), place)
        sent = due
        producer.poll(0)
        behind_s = max(behind_s, time.time_ns() / 1e9 - began_us / 1e6 - sent / rate)
        time.sleep(_TICK_S)
    left = producer.flush(FLUSH_WAIT_S)
    print(json.dumps({"left": left, "behind_s": round(behind_s, 2)}), flush=True)


def _send(producer: Producer, topic: str, value: bytes, partition: int) -> None:
    while True:  # ends when the broker takes messages again
        try:
            producer.produce(topic, value, partition=partition)
        except BufferError:
            producer.poll(0.1)
        else:
            return


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))

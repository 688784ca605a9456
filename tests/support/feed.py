"""Writes events into a topic while a job reads it, and computes the expected result."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from planner import Query, Stream, agg, tumbling
from tests.support.live import answer_rows

if TYPE_CHECKING:
    import jobmanager
    from tests.support.brokers import Broker

WINDOW_US, DELAY_US = 500_000, 300_000
SCHEMA = {"t": "int64", "key": "int64"}


class Feed:
    """Writes events into the partitions of a topic, out of order within the delay."""

    def __init__(self, broker: Broker, partitions: int) -> None:
        self.broker = broker
        self.topic = broker.create_topic(f"feed-{uuid.uuid4().hex[:8]}", partitions)
        self.sent = 0
        self._counts: Counter[tuple[int, int]] = Counter()

    def write(self, partition: int, second: int, rows: int = 200) -> None:
        """Write events of this second of event time."""
        rng = np.random.default_rng([partition, second])
        times = np.sort(rng.integers(0, 1_000_000, rows)) + second * 1_000_000
        shown = times[np.argsort(times + rng.integers(0, DELAY_US, rows), kind="stable")]
        events = [{"t": int(t), "key": int(t) % 5} for t in shown]
        self.broker.produce(self.topic, [json.dumps(e).encode() for e in events], partition)
        self._counts.update((e["t"] // WINDOW_US, e["key"]) for e in events)
        self.sent += rows

    def stream(self, **options: Any) -> Stream:
        given = {"idle_after": "1s", "partitions": 2, **options}
        return Stream.from_kafka(
            self.topic,
            servers=self.broker.servers,
            schema=SCHEMA,
            vs="t",
            delay=DELAY_US,
            **given,
        )

    def query(self, **options: Any) -> Query:
        """The number of events by key and half second."""
        windows = self.stream(**options).group_by("key").window(tumbling(WINDOW_US))
        return windows.agg(n=agg.count()).to_parquet()

    def expected(self) -> list[tuple[int, int, int]]:
        """(start of window, key, count) of all written events."""
        return sorted((w * WINDOW_US, k, n) for (w, k), n in self._counts.items())

    def was_read(self, status: dict[str, Any]) -> bool:
        """Whether the sources have read all written events."""
        sources = [v["inputs"] for v in status["vertices"] if v["stage"].startswith("s01")]
        return sum(sum(inputs[: len(inputs) // 2]) for inputs in sources) >= self.sent


def answer(job: jobmanager.Job) -> list[tuple[int, int, int]]:
    return sorted((row["_vs"], row["key"], row["n"]) for row in answer_rows(job))

"""Deletes records that the job has read: the broker keeps topics in memory, 20 GB per hour.

The broker accepts the option ``retention.ms`` of a topic, but ignores it.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

if TYPE_CHECKING:
    from tests.support.brokers import Broker

EVERY_S = 60.0
#: Records are kept for this multiple of the interval.
KEPT = 5


class Trimming:
    """Deletes in a separate thread; if the broker does not answer, it is asked again later."""

    def __init__(self, broker: Broker, topic: str, partitions: int) -> None:
        self._broker, self._topic = broker, topic
        self._partitions = range(partitions)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trimming", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop deleting."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        ends: deque[list[int]] = deque()
        while not self._over.wait(EVERY_S):
            try:
                ends.append([self._broker.end_of(self._topic, p) for p in self._partitions])
                if len(ends) > KEPT:
                    self._broker.delete_below(self._topic, ends.popleft())
            except KafkaException:
                continue

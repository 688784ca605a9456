"""The mock broker of the client library, in this process: it deletes old records.

It keeps a few megabytes per partition in memory and deletes older records, as retention would. A
topic exists from its first record on. It has no transactions, and cannot list topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.brokers import ANSWER_S_MAX, QUIET

if TYPE_CHECKING:
    from collections.abc import Iterable


class MockCluster:
    """Lives as long as this object."""

    def __init__(self) -> None:
        pytest.importorskip("confluent_kafka", reason="Kafka is an extra")
        from confluent_kafka import Producer

        options: dict[str, Any] = {"test.mock.num.brokers": 1, "bootstrap.servers": "-", **QUIET}
        self._producer = Producer(options)
        (broker,) = self._producer.list_topics(timeout=ANSWER_S_MAX).brokers.values()
        self.servers = f"{broker.host}:{broker.port}"

    def produce(self, topic: str, values: Iterable[bytes | None], *, partition: int = 0) -> None:
        """Send to one of the topic's four partitions, in many small requests."""
        for number, value in enumerate(values):
            self._producer.produce(topic, value, partition=partition)
            if number % 500 == 0:
                assert self._producer.flush(ANSWER_S_MAX) == 0
        assert self._producer.flush(ANSWER_S_MAX) == 0

    def create(self, topic: str) -> None:
        """Create the topic, which a consumer does not do."""
        self._producer.list_topics(topic, timeout=ANSWER_S_MAX)

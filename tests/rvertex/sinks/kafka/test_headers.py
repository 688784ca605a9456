"""The suite of destinations on a real Kafka broker without transactions, read by the headers.

Cannot catch: a reader that does not look at the headers, who sees rows of a commit one by one.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

from rvertex.sinks.spec import KafkaSink
from tests.rvertex.sinks.conformance import CALL_MS_MAX, END, KILLS, Conformance, finish
from tests.rvertex.sinks.kafka.places import BROKERS, KafkaPlace
from tests.rvertex.sinks.places import expected
from tests.rvertex.sinks.writers import Writer

if TYPE_CHECKING:
    from tests.rvertex.sinks.places import Place
    from tests.support.brokers import Broker


@pytest.fixture
def place(broker: Broker, topic: str) -> Place:
    BROKERS[broker.servers] = broker
    return KafkaPlace(KafkaSink(topic, broker.servers, mode="headers"))


@pytest.mark.slow
class TestHeaders(Conformance):
    """A commit shows its rows one by one, so what is seen may be ahead of the progress."""

    def test_killed_within_a_call(self, place: Place) -> None:
        dice = random.Random(1)
        for epoch in range(1, KILLS):
            writer = Writer(place, 0)
            found = writer.open(epoch)
            next_seq = 0 if found is None else found.next_seq
            assert expected(0, next_seq) == place.rows()[: len(expected(0, next_seq))]
            writer.write(next_seq, next_seq + 5)
            writer.begin("commit", next_seq + 5)
            time.sleep(dice.random() * CALL_MS_MAX / 1000)  # where it is killed
            writer.kill()
        finish(place, KILLS)

    def test_frozen_within_a_commit(self, place: Place) -> None:
        """What it still sends when it wakes up are repeats."""
        dice = random.Random(2)
        for epoch in range(1, KILLS, 2):
            zombie = Writer(place, 0)
            found = zombie.open(epoch)
            next_seq = 0 if found is None else found.next_seq
            zombie.write(next_seq, next_seq + 6)
            zombie.begin("commit", next_seq + 6)
            time.sleep(dice.random() * CALL_MS_MAX / 1000)  # where it is frozen
            zombie.freeze()
            finish(place, epoch + 1)
            zombie.thaw()
            zombie.kill()
            assert len(place.rows()) >= len(expected(0, END))
        finish(place, KILLS + 1)

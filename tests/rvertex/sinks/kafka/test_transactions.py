"""The suite of destinations on a real Kafka broker, in transactions.

Not covered: a broker that loses acknowledged records (the one here does not survive a kill).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rstream.errors import StreamEngineError
from rvertex.sinks.errors import DeliveryFencedError
from rvertex.sinks.kafka import client
from rvertex.sinks.spec import KafkaSink
from tests.rvertex.sinks.conformance import Conformance
from tests.rvertex.sinks.kafka.places import BROKERS, KafkaPlace
from tests.rvertex.sinks.places import expected, items, progress

if TYPE_CHECKING:
    from tests.rvertex.sinks.places import Place
    from tests.support.brokers import Broker


@pytest.fixture
def place(broker: Broker, topic: str) -> Place:
    BROKERS[broker.servers] = broker
    return KafkaPlace(KafkaSink(topic, broker.servers))


@pytest.mark.slow
class TestTransactions(Conformance):
    """Rows and progress are one transaction."""


def test_a_replaced_writer_is_rejected_even_if_it_could_not_check_before(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replaced writer is rejected, even if it could not read the newest epoch before."""
    successor, old = place.destination(0), place.destination(0)
    assert successor.open(2) is None
    successor.write(items(0, 0, 5))
    monkeypatch.setattr(client, "LOOK_WAIT_S", 1e-6)
    with pytest.raises(DeliveryFencedError):
        old.open(1)
    with pytest.raises(StreamEngineError):
        successor.commit(progress(0, 5))
    assert successor.open(2) is None
    successor.write(items(0, 0, 5))
    successor.commit(progress(0, 5))
    old.close()
    successor.close()
    assert place.rows() == expected(0, 5)

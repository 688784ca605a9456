"""The suite of destinations on a real Kafka broker, in transactions.

Cannot catch: a broker that loses what it acknowledged (the one here does not survive a kill).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rvertex.sinks.spec import KafkaSink
from tests.rvertex.sinks.conformance import Conformance
from tests.rvertex.sinks.kafka.places import BROKERS, KafkaPlace

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

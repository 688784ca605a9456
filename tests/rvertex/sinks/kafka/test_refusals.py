"""Which errors of a real broker end a delivery, and which are retried.

This broker has no users: a wrong password is simulated by an unknown mechanism, and denials are
written into its answers by a proxy. Not covered: an error that a broker with permissions reports
elsewhere.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError

from rvertex.sinks.errors import (
    DestinationError,
    DestinationRefusedError,
    InvalidSinkError,
    RowsRefusedError,
)
from rvertex.sinks.kafka import client
from rvertex.sinks.kafka.refusals import REFUSALS, refusal_of
from rvertex.sinks.protocol import DeliveredRows, DeliveryProgress
from rvertex.sinks.spec import DeliveryPlace, KafkaSink, destination
from tests.support.brokers import free_port
from tests.support.denying_proxy import (
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    NO_GROUP,
    NO_TOPIC,
    NO_TRANSACTION,
    PRODUCE,
    DenyingProxy,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rvertex.sinks.protocol import Destination
    from tests.support.brokers import Broker

TEXT = pa.schema([("text", pa.string())])
MODES = pytest.mark.parametrize("mode", ["transactions", "headers"])
TOO_LARGE = 2_000_000
SOME_DIGEST = b"digest"
#: A refusal may show only after this wait.
SHORT_WAIT_S = 5.0
#: A busy broker may answer later; then the call is repeated, as deliveries do.
TRIES = 20


def opened(topic: str, servers: str, mode: Any, **config: str) -> Destination:
    settings = tuple((name.replace("_", "."), value) for name, value in config.items())
    sink = KafkaSink(topic, servers, mode=mode, config=settings)
    return destination(sink, DeliveryPlace(topic, "d", 0, 1, TEXT))


def texts(first_seq: int, *sizes: int) -> DeliveredRows:
    batch = pa.RecordBatch.from_pydict({"text": ["x" * size for size in sizes]}, TEXT)
    seqs = np.arange(first_seq, first_seq + len(sizes))
    return DeliveredRows(first_seq, first_seq + len(sizes), seqs, batch)


def write_and_commit(place: Destination, rows: DeliveredRows) -> None:
    place.write(rows)
    place.commit(DeliveryProgress(rows.next_seq, SOME_DIGEST))


def until_answered(call: Callable[[], object]) -> None:
    """Repeat a call as long as the broker does not answer in time."""
    for _ in range(TRIES):
        try:
            call()
        except DestinationError:
            continue
        return


def test_every_error_name_in_the_table_exists_in_the_client() -> None:
    codes = [code for code in vars(KafkaError).values() if isinstance(code, int)]
    assert {*REFUSALS} <= {KafkaError(code).name() for code in codes}


@pytest.mark.parametrize(
    "code",
    ["_TRANSPORT", "_TIMED_OUT", "NOT_ENOUGH_REPLICAS", "COORDINATOR_LOAD_IN_PROGRESS"],
)
def test_temporary_errors_are_retried(code: str) -> None:
    assert refusal_of(KafkaError(getattr(KafkaError, code))) is None


@pytest.mark.slow
@MODES
def test_a_row_that_the_client_rejects(broker: Broker, topic: str, mode: str) -> None:
    """The client does not send a row that is larger than ``message.max.bytes``."""
    place = opened(topic, broker.servers, mode)
    place.open(1)
    with pytest.raises(RowsRefusedError, match=r"(?s)size too large.*raise max\.message\.bytes"):
        write_and_commit(place, texts(0, 5, TOO_LARGE, 5))
    place.close()
    assert broker.read_committed(topic) == [] or mode == "headers"


@pytest.mark.slow
@MODES
def test_a_row_that_the_broker_rejects(broker: Broker, topic: str, mode: str) -> None:
    """The error names its items, also in a later transaction."""
    place = opened(topic, broker.servers, mode, message_max_bytes="9000000")
    place.open(1)
    place.write(texts(0, 5, 6))
    place.commit(DeliveryProgress(2, SOME_DIGEST))
    with pytest.raises(RowsRefusedError, match=r"items \[2, 4\).*size too large"):
        write_and_commit(place, texts(2, 7, TOO_LARGE))
    assert place.open(1) == DeliveryProgress(2, SOME_DIGEST)
    place.write(texts(2, 7))
    place.commit(DeliveryProgress(3, SOME_DIGEST))
    place.close()


@pytest.mark.slow
def test_rows_after_a_rejected_one_are_not_in_the_topic(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers of the headers would drop the rejected row if it were delivered after them."""
    alone = {"message_max_bytes": "9000000", "batch_num_messages": "1", "linger_ms": "0"}
    place = opened(topic, broker.servers, "headers", **alone)
    place.open(1)
    with monkeypatch.context() as patch:
        patch.setattr(client, "ANSWER_WAIT_S", SHORT_WAIT_S)
        with pytest.raises(RowsRefusedError, match=r"items \[0, 4\).*size too large"):
            write_and_commit(place, texts(0, 5, TOO_LARGE, 6, 7))
    assert place.open(1) is None
    write_and_commit(place, texts(0, 5, 8, 6, 7))
    place.close()
    records = broker.read_committed(topic)
    assert [int(dict(record.headers)["seq"]) for record in records] == [0, 1, 2, 3]


@pytest.mark.slow
@MODES
def test_a_user_that_the_broker_rejects(
    broker: Broker, topic: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ANSWER_WAIT_S", SHORT_WAIT_S)
    place = opened(
        topic,
        broker.servers,
        mode,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_username="me",
        sasl_password="hush",
    )
    with pytest.raises(DestinationRefusedError, match=r"authentication.*correct the user") as found:
        until_answered(lambda: place.open(1))
    assert "hush" not in str(found.value)
    place.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "key", "code"),
    [
        ("transactions", PRODUCE, NO_TOPIC),
        ("headers", PRODUCE, NO_TOPIC),
        ("headers", FIND_COORDINATOR, NO_GROUP),
        ("transactions", FIND_COORDINATOR, NO_TRANSACTION),
        ("transactions", INIT_PRODUCER_ID, NO_TRANSACTION),
    ],
)
def test_a_missing_permission_ends_the_delivery(
    mode: str, key: int, code: int, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the permission is granted, the same delivery continues."""
    with DenyingProxy(broker.servers) as proxy:
        proxy.denied = {key: code}
        place = opened(topic, proxy.servers, mode)
        refused = r"authorization failed.*grant the user"
        with monkeypatch.context() as patch:
            patch.setattr(client, "ANSWER_WAIT_S", SHORT_WAIT_S)
            with pytest.raises(DestinationRefusedError, match=refused):
                until_answered(lambda: open_and_deliver(place))
        proxy.denied = {}
        open_and_deliver(place)
        place.close()
    records = broker.read_committed(topic)
    assert [json.loads(record.value or b"")["text"] for record in records] == ["xxxxx"]


def open_and_deliver(place: Destination) -> None:
    place.open(1)
    write_and_commit(place, texts(0, 5))


@pytest.mark.slow
@MODES
def test_an_unreachable_broker_is_tried_again(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ANSWER_WAIT_S", 0.5)
    monkeypatch.setattr(client, "LOOK_WAIT_S", 0.5)
    place = opened("t", f"127.0.0.1:{free_port()}", mode)
    with pytest.raises(DestinationError):
        place.open(1)
    place.close()


@pytest.mark.slow
@MODES
def test_a_topic_name_that_a_broker_rejects(broker: Broker, mode: str) -> None:
    """A broker rejects an invalid topic name, which the planner would already have rejected."""
    place = opened("a/b", broker.servers, mode)
    with pytest.raises(DestinationRefusedError, match=r"[Ii]nvalid topic.*correct the name"):
        place.open(1)
    place.close()


@pytest.mark.parametrize("topic", ["", "a/b", "a b", "ä", ".", "..", "x" * 250])
def test_a_topic_name_that_every_broker_rejects(topic: str) -> None:
    with pytest.raises(InvalidSinkError, match="is not the name of a topic"):
        KafkaSink(topic, "localhost:9092").check(TEXT)
    KafkaSink("x" * 249, "localhost:9092").check(TEXT)

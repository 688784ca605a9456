"""The start and end of a job in a topic of a real broker, and the errors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rstream.errors import MissingSecretError
from rvertex.sources.logs.errors import (
    InvalidPositionsError,
    LogNotFoundError,
    LogRefusedError,
    LogUnreachableError,
)
from rvertex.sources.logs.kafka import positions
from rvertex.sources.logs.kafka.positions import added_units, topic_units
from rvertex.sources.spec import Topic, TopicPlace
from tests.support.brokers import Broker, Record, free_port
from tests.support.topics import topic_spec, value


@pytest.fixture
def filled(broker: Broker, topic: str) -> str:
    """Two partitions: one with five records, a second apart, and an empty one."""
    broker.produce(topic, [Record(value(i), timestamp_ms=1_000 * (i + 1)) for i in range(5)])
    return topic


@pytest.mark.parametrize(
    ("start", "until", "expected"),
    [
        ("earliest", None, (0, None)),
        ("latest", None, (5, None)),
        ("earliest", "latest", (0, 5)),
        (2000000, 4000001, (1, 4)),
        (9000000, "latest", (5, 5)),
        (-1, 0, (0, 0)),
        (((0, 2), (1, 0)), ((0, 9), (1, 3)), (2, 9)),
        ("latest", 2000000, (5, 5)),
    ],
)
def test_positions_become_offsets(
    broker: Broker,
    filled: str,
    start: TopicPlace,
    until: TopicPlace | None,
    expected: tuple[int, int | None],
) -> None:
    first, second = topic_units(topic_spec(broker, filled, start=start, until=until))
    assert (first.stream, second.stream) == (0, 1)
    assert (first.first_seq, first.until) == expected
    assert second.first_seq == 0


@pytest.mark.parametrize(
    ("start", "until", "message"),
    [
        (((0, 6), (1, 0)), None, "start= is offset 6 of partition 0, which has .* 0 to 5"),
        (((0, 0),), None, r"start= names offsets of the partitions \[0\], but .* \[0, 1\]"),
        ("earliest", ((0, 0), (1, 0), (2, 0)), r"until= names .* \[0, 1, 2\], but"),
    ],
)
def test_invalid_positions_are_named(
    broker: Broker, filled: str, start: TopicPlace, until: TopicPlace | None, message: str
) -> None:
    with pytest.raises(InvalidPositionsError, match=message):
        topic_units(topic_spec(broker, filled, start=start, until=until))


def test_a_missing_topic_is_not_created(broker: Broker) -> None:
    with pytest.raises(LogNotFoundError, match="topic nowhere: there is no such topic"):
        topic_units(topic_spec(broker, "nowhere"))
    with pytest.raises(LogNotFoundError):
        topic_units(topic_spec(broker, "nowhere"))


def test_partitions_of_another_topic_with_that_name_are_not_added(
    broker: Broker, filled: str
) -> None:
    spec = topic_spec(broker, filled)
    known = topic_units(spec)
    assert added_units(spec, known) == ()
    (added,) = added_units(spec, known[:1])
    assert (added.stream, added.first_seq, added.until) == (1, 0, None)
    assert added_units(spec, [replace(known[0], log_id="of the one before")]) == ()


def test_an_unreachable_broker_is_named(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "PLAN_S_MAX", 0.5)
    nobody = f"127.0.0.1:{free_port()}"
    spec = topic_spec(broker, "t", config={"bootstrap.servers": nobody})
    with pytest.raises(LogUnreachableError, match=f"Kafka at {nobody}: no answer within 0.5 s"):
        topic_units(spec)


def test_environment_values_are_read_when_used(
    broker: Broker, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = topic_spec(broker, filled, config={"bootstrap.servers": "env:SOME_BROKER"})
    with pytest.raises(MissingSecretError, match="no environment variable SOME_BROKER"):
        topic_units(spec)
    monkeypatch.setenv("SOME_BROKER", broker.servers)
    assert len(topic_units(replace(spec))) == 2


@pytest.mark.slow
def test_a_user_that_the_broker_rejects_is_a_distinct_error(broker: Broker, filled: str) -> None:
    spec = topic_spec(broker, filled)
    assert isinstance(spec.kind, Topic)
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "me",
        "sasl.password": "hush",
    }
    kind = replace(spec.kind, config=(*spec.kind.config, *login.items()))
    with pytest.raises(LogRefusedError, match="authentication"):
        topic_units(replace(spec, kind=kind))

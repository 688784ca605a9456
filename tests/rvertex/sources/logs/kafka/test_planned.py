"""Units of a topic, planned from the answers of a broker in this process.

Its library cannot list topics, so the test lists them. Not covered: a real broker's answers about
times (test_positions.py).
"""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from rvertex.sources.logs.kafka import positions
from rvertex.sources.logs.kafka.client import NO_ID, Client, Pending
from rvertex.sources.logs.kafka.positions import added_units, topic_units
from tests.support.mock_cluster import MockCluster
from tests.support.topics import topic_spec, value

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 5


@pytest.fixture(scope="module")
def mock() -> MockCluster:
    made = MockCluster()
    made.produce("t", [value(i) for i in range(ROWS)])
    return made


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set the topic's partitions and id."""

    def say(*partitions: int, topic_id: str = "one") -> None:
        def ask(_: Client) -> Pending:
            future: Future[Any] = Future()
            numbers = [SimpleNamespace(id=p) for p in partitions]
            future.set_result(SimpleNamespace(partitions=numbers, topic_id=topic_id))
            return Pending({0: future})

        monkeypatch.setattr(Client, "request_topic", ask)

    return say


def test_each_partition_is_a_unit_with_its_bounds(mock: MockCluster, topic: Any) -> None:
    """A partition whose end is before its start has no rows to read."""
    topic(1, 0)
    early = ((0, 2), (1, 0))
    first, second = topic_units(topic_spec(mock, "t", start="latest", until=early))
    assert (first.stream, first.first_seq, first.until) == (0, ROWS, ROWS)
    assert (second.stream, second.first_seq, second.until) == (1, 0, 0)
    assert {(u.log_id, u.log_partitions) for u in (first, second)} == {("one", 2)}
    topic(0, 1, topic_id=NO_ID)
    assert {unit.log_id for unit in topic_units(topic_spec(mock, "t"))} == {""}


def test_unplanned_partitions_are_added_from_their_start(mock: MockCluster, topic: Any) -> None:
    topic(0, 1)
    spec = topic_spec(mock, "t", start="latest")
    known = topic_units(spec)
    assert added_units(spec, known) == ()
    topic(2, 0, 1)
    (added,) = added_units(spec, known)
    assert (added.stream, added.first_seq, added.until, added.log_partitions) == (2, 0, None, 3)
    topic(2, 0, 1, topic_id="another")
    assert added_units(spec, known) == ()


@pytest.mark.parametrize(("us", "ms"), [(1_000, 1), (1_001, 2), (-1, 0), (-1_001, 0), (0, 0)])
def test_a_time_between_milliseconds_is_rounded_up(
    us: int, ms: int, mock: MockCluster, topic: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It starts at the later millisecond; without a record from then on, at the partition's end."""
    asked: list[object] = []
    ask = Client.request_offsets

    def noted(client: Client, partitions: Any, at: Any, **given: Any) -> Pending:
        asked.append(at)
        return ask(client, partitions, at, **given)

    monkeypatch.setattr(Client, "request_offsets", noted)
    topic(0)
    (unit,) = topic_units(topic_spec(mock, "t", start=us))
    assert [at for at in asked if isinstance(at, int)] == [ms]
    assert unit.first_seq == ROWS, "this broker has no record of a time"


def test_times_before_the_first_and_after_the_last_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker answers -1 for a partition without a record from that time on."""
    answers = {"latest": {0: 5, 1: 5, 2: 0}, 7: {0: 0, 1: -1, 2: -1}}
    monkeypatch.setattr(positions._Planner, "_offsets", lambda _, __, at: answers[at])
    planner = positions._Planner.__new__(positions._Planner)
    assert planner._at_time([0, 1, 2], 7) == {0: 0, 1: 5, 2: 0}

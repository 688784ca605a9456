"""The brokers' answers about a topic and their times, on a manual clock.

Not covered: behaviour of a real broker (test_reader.py).
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

from rstream.clock import ManualClock
from rvertex.sources.logs.errors import LogNotFoundError, LogReplacedError
from rvertex.sources.logs.kafka.client import NO_ID, Client, Failure
from rvertex.sources.logs.kafka.state import MISSING_S_MAX, SHRUNK_TIMES, TopicState
from rvertex.sources.logs.protocol import LogEnd
from tests.support.mock_cluster import MockCluster
from tests.support.topics import POLL_S, WAIT_S, value

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 3


class Asking:
    """The state of a topic with a few rows, queried from one minute after the clock's start."""

    def __init__(self) -> None:
        self.mock, self.clock = MockCluster(), ManualClock()
        self.mock.produce("t", [value(i) for i in range(ROWS)])
        self.clock.advance(60_000_000)
        client = Client("t", {"bootstrap.servers": self.mock.servers})
        self.state = TopicState(client, [0], "", None, self.clock)

    def until(self, fetched: int, holds: Callable[[], object]) -> None:
        deadline_s = time.monotonic() + WAIT_S
        self.state.poll({0: fetched})
        while not holds():
            assert time.monotonic() < deadline_s, self.state.waiting
            time.sleep(POLL_S / 10)  # brokers answer after some time
            self.state.poll({0: fetched})

    def answer(self, fetched: int) -> None:
        """Request the ends once more, and use the response."""
        self.clock.advance(1_000_000)
        now_s = self.clock.monotonic_s()
        self.until(fetched, lambda: self.state.ends[0].reported_s == now_s)


def test_an_end_is_as_old_as_its_request() -> None:
    """A row written after the request may be missing in the response."""
    asking = Asking()
    asked_s = asking.clock.monotonic_s()
    asking.state.poll({0: 0})
    asking.clock.advance(5_000_000)
    asking.until(0, lambda: asking.state.ends)
    assert asking.state.ends[0] == LogEnd(ROWS, asked_s)


def test_an_end_before_the_position_is_believed_after_several_responses() -> None:
    asking = Asking()
    asking.until(ROWS, lambda: asking.state.ends)
    for _ in range(2):
        for _ in range(SHRUNK_TIMES - 1):
            asking.answer(ROWS + 1)
        asking.answer(ROWS)  # this answer restarts the count of the others
        assert asking.state.error is None
    for _ in range(SHRUNK_TIMES):
        assert asking.state.error is None
        asking.answer(ROWS + 1)
    assert isinstance(asking.state.error, LogReplacedError)
    assert f"ends at offset {ROWS}" in str(asking.state.error)


def test_partitions_with_uncommitted_records_are_open() -> None:
    asking = Asking()
    asking.state.poll({0: 0})
    committed, written = ({0: SimpleNamespace(offset=end)} for end in (ROWS, ROWS + 2))
    asking.state._take_ends(committed, written, 61.0)
    assert asking.state.open == {0}
    asking.state._take_ends(written, written, 62.0)
    assert asking.state.open == set()


def identity(topic_id: str, partitions: int = 2) -> dict[int, SimpleNamespace]:
    return {0: SimpleNamespace(topic_id=topic_id, partitions=[None] * partitions)}


def test_a_topic_that_is_found_again_is_not_missing() -> None:
    """If a topic is known again, the time until it counts as deleted starts again."""
    asking = Asking()
    missing = Failure("unknown", is_missing=True)
    for _ in range(2):
        asking.state._take_identity(missing, asking.clock.monotonic_s())
        assert "does not know it at present" in asking.state.waiting
        asking.clock.advance(int(0.7e6 * MISSING_S_MAX))
        asking.state._take_identity(identity(NO_ID), asking.clock.monotonic_s())
        assert asking.state.waiting == ""
        asking.state._check_limits(asking.clock.monotonic_s())
    assert (asking.state.error, asking.state.log_partitions) == (None, 2)
    asking.state._take_identity(missing, asking.clock.monotonic_s())
    asking.state._check_limits(asking.clock.monotonic_s() + MISSING_S_MAX + 1)
    assert isinstance(asking.state.error, LogNotFoundError)


def test_a_topic_with_another_id_is_another_topic() -> None:
    """A broker without topic ids does not show this, nor does a plan without one."""
    for planned, now, is_other in (("", "b", False), ("a", NO_ID, False), ("a", "a", False)):
        state = Asking().state
        state._topic_id = planned
        state._take_identity(identity(now), 61.0)
        assert (state.error is not None) is is_other
    state._take_identity(identity("b"), 62.0)
    assert isinstance(state.error, LogReplacedError)


def test_a_rejection_ends_with_the_next_response() -> None:
    asking = Asking()
    asking.state._client._errors.refusal = Failure("no", is_refused=True)
    asking.until(0, lambda: asking.state.ends)
    assert asking.state._client.refusal is None
    assert asking.state.error is None

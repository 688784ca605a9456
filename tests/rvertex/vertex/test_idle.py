"""Promises of an idle partition follow from facts; no row in step with the others is late.

Not covered: a host that reports wrong facts (tests/sim).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from rstream.types import INF_TIME, MIN_TIME
from rvertex.sources.logs.protocol import LogEnd
from rvertex.sources.spec import Live
from rvertex.vertex.idle import (
    CONFIRMED_S,
    GRANT_MIN_US,
    LOOKS_KEPT,
    Look,
    Looks,
    PartitionFacts,
    promises,
)

if TYPE_CHECKING:
    from rvertex.sources.spec import Idle

S = 1_000_000
NOW_S, NOW_US = 100.0, 5_000 * S


def facts(
    frontier_s: float, *, silent_s: float = 10.0, told_s: float = 0.0, more: int = 0
) -> PartitionFacts:
    """A partition at position 7, silent for ``silent_s``; ``more`` unread rows follow."""
    return PartitionFacts(
        position=7,
        frontier=int(frontier_s * S),
        rows_frontier=int(frontier_s * S),
        last_row_s=NOW_S - silent_s,
        end=LogEnd(7 + more, NOW_S - told_s),
        is_ended=False,
    )


def asked(
    *partitions: PartitionFacts,
    policy: Idle = "follow",
    delay_us: int = 4 * S,
    others_us: int | None = None,
    looks: Looks | None = None,
) -> dict[int, int]:
    """Decide which partitions are idle. Default of ``looks``: all have long been at their ends."""
    if looks is None:
        looks = Looks()
        for at_s in (NOW_S - 20, NOW_S):
            at_us = NOW_US - int((NOW_S - at_s) * S)
            looks.note(Look(at_s, at_us, tuple(p.rows_frontier for p in partitions), others_us))
    rules = Live(idle=policy, idle_after_us=2 * S)
    return promises(rules, partitions, looks, delay_us)


def test_an_idle_partition_follows_the_slowest_active_one() -> None:
    active = facts(50, silent_s=0.1), facts(40, silent_s=0.1)
    assert asked(facts(10), *active) == {0: 40.5 * S}


def test_an_idle_partition_requests_again_when_half_of_its_grant_is_used() -> None:
    assert asked(facts(40.3), facts(40, silent_s=0.1)) == {}
    assert asked(facts(40.2), facts(40, silent_s=0.1)) == {0: 40.5 * S}


@pytest.mark.parametrize("delay_us", [0, 50_000, 100_000, 4 * S])
def test_a_row_at_the_pace_of_the_others_is_never_late(delay_us: int) -> None:
    """The other partitions have rows up to their frontier plus the delay."""
    (promised,) = asked(facts(10), facts(40, silent_s=0.1), delay_us=delay_us).values()
    assert promised <= 40 * S + delay_us
    assert promised >= 40 * S + min(delay_us, GRANT_MIN_US)


@pytest.mark.parametrize(
    "partition",
    [
        facts(10, silent_s=1.9),
        facts(10, more=1),
        facts(10, silent_s=3.0, told_s=1.5),
        facts(10, told_s=2.5),
    ],
    ids=["a row has just come", "rows are left", "the log said it too early", "too long ago"],
)
def test_an_active_partition_promises_nothing(partition: PartitionFacts) -> None:
    assert asked(partition, facts(40, silent_s=0.1)) == {}


def test_a_response_that_takes_longer_than_idle_after_is_recent_enough() -> None:
    late = facts(10, told_s=CONFIRMED_S - 0.1)
    assert late.is_idle(NOW_S, idle_after_s=0.05)
    assert not facts(10, told_s=CONFIRMED_S + 0.1).is_idle(NOW_S, idle_after_s=0.05)


def test_if_all_partitions_are_idle_time_stops_unless_other_vertices_are_active() -> None:
    assert asked(facts(10), facts(40)) == {}
    assert asked(facts(10), facts(40), others_us=60 * S) == {0: 60.5 * S, 1: 60.5 * S}


def test_the_slowest_sibling_here_or_elsewhere_is_followed() -> None:
    active = facts(40, silent_s=0.1)
    assert asked(facts(10), active, others_us=30 * S) == {0: 30.5 * S}
    assert asked(facts(10), active, others_us=60 * S) == {0: 40.5 * S}


def test_an_ended_partition_is_not_followed_and_promises_nothing() -> None:
    ended = replace(facts(0), frontier=INF_TIME, rows_frontier=INF_TIME, is_ended=True)
    assert asked(facts(10), ended) == {}
    assert asked(facts(10), ended, facts(40, silent_s=0.1)) == {0: 40.5 * S}
    assert asked(ended, facts(40, silent_s=0.1), policy="clock") == {}


def test_a_partition_that_has_read_nothing_delays_all() -> None:
    beginning = replace(facts(0, silent_s=0.1), frontier=MIN_TIME, rows_frontier=MIN_TIME)
    idle = replace(facts(0), frontier=MIN_TIME)
    assert asked(idle, beginning, facts(40, silent_s=0.1)) == {}


def test_time_advances_by_the_clock_or_not_at_all() -> None:
    active = facts(40, silent_s=0.1)
    assert asked(facts(10), active, policy="clock") == {0: 4_996 * S}
    assert asked(facts(4_996), active, policy="clock") == {}
    assert asked(facts(10), active, policy="wait") == {}


def test_rows_read_by_others_after_the_response_are_not_promised() -> None:
    """An idle partition follows the time that others had reached when its end was requested."""
    looks = Looks()
    for at_s, reached in [(NOW_S - 3, 39), (NOW_S - 1.5, 40), (NOW_S - 1.4, 42), (NOW_S, 60)]:
        looks.note(Look(at_s, NOW_US, (10 * S, reached * S), None))
    silent = facts(10, silent_s=10, told_s=1.5)
    assert asked(silent, facts(60, silent_s=0.1), looks=looks) == {0: 40.5 * S}
    assert asked(silent, facts(60, silent_s=0.1), looks=Looks()) == {}


@given(
    read=st.lists(st.tuples(st.integers(1, 3_000), st.integers(0, 5_000)), min_size=1, max_size=40),
    told_ms=st.integers(0, 2_000),
    delay_ms=st.integers(0, 9_000),
    policy=st.sampled_from(["follow", "clock"]),
)
def test_producers_at_equal_pace_are_never_late_for_a_slow_reader(
    read: list[tuple[int, int]], told_ms: int, delay_ms: int, policy: Idle
) -> None:
    """The time of a row is when it is written.

    ``read``: ms between polls, and the lag of the reader.
    """
    looks, at_ms = Looks(), int(NOW_S * 1_000) - sum(step for step, _ in read)
    reached = 0
    for step, behind in read:
        at_ms += step
        reached = max(reached, (at_ms - behind - delay_ms) * 1_000)
        looks.note(Look(at_ms / 1_000, at_ms * 1_000, (MIN_TIME, reached), None))
    others = replace(facts(0, silent_s=0.0), frontier=reached, rows_frontier=reached)
    silent = replace(facts(0, told_s=told_ms / 1_000), frontier=MIN_TIME)
    found = asked(silent, others, policy=policy, delay_us=delay_ms * 1_000, looks=looks)
    first_row_us = int(NOW_S * S) - told_ms * 1_000  # a later row is written after the answer
    grant_us = max(delay_ms * 1_000 // 8, GRANT_MIN_US)
    disorder_us = max(0, delay_ms * 1_000 - grant_us)
    assert all(time <= max(0, first_row_us - disorder_us) for time in found.values())


def test_alternately_silent_partitions_do_not_push_each_other_ahead() -> None:
    """The two partitions are active by turns, 2.5 s each; no row is behind the other one."""
    delay_us, idle_after_s = 60 * S, 2.0
    looks, rows, promised, spoke_s = Looks(), [0, 0], [0, 0], [0.0, 0.0]
    for tick in range(1, 600):
        now_s, speaker = tick / 10, tick // 25 % 2
        assert promised[speaker] <= NOW_US + now_s * S, f"the row of {now_s} s is late"
        rows[speaker], spoke_s[speaker] = NOW_US + int(now_s * S) - delay_us, now_s
        partitions = [
            PartitionFacts(
                7, max(rows[k], promised[k]), rows[k], spoke_s[k], LogEnd(7, now_s), False
            )
            for k in range(2)
        ]
        looks.note(Look(now_s, 0, tuple(rows), None))
        rules = Live(idle="follow", idle_after_us=int(idle_after_s * S))
        for k, time in promises(rules, partitions, looks, delay_us).items():
            promised[k] = time
    assert min(promised) > NOW_US - delay_us


def test_the_number_of_polls_is_limited() -> None:
    looks = Looks()
    for at in range(LOOKS_KEPT + 1):
        looks.note(Look(float(at), 0, (), None))
    assert looks.at(0.5) is None
    assert looks.at(1.5) == Look(1.0, 0, (), None)

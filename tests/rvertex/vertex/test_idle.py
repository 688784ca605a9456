"""What a silent partition promises: only facts decide, and no row in step with the others is late.

Cannot catch: a host that states wrong facts (tests/sim).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rvertex.sources.logs.protocol import LogEnd
from rvertex.vertex.idle import GRANT_MIN_US, Moment, PartitionFacts, promises

if TYPE_CHECKING:
    from rvertex.sources.spec import Idle

S = 1_000_000
NOW = Moment(now_s=100.0, now_us=5_000 * S, others_us=None)


def facts(
    frontier_s: float, *, silent_s: float = 10.0, told_s: float = 0.0, more: int = 0
) -> PartitionFacts:
    """A partition at position 7 whose last row came ``silent_s`` ago; the log has ``more`` rows."""
    return PartitionFacts(
        position=7,
        frontier=int(frontier_s * S),
        last_row_s=NOW.now_s - silent_s,
        end=LogEnd(7 + more, NOW.now_s - told_s),
        is_ended=False,
    )


def asked(
    *partitions: PartitionFacts,
    policy: Idle = "follow",
    delay_us: int = 4 * S,
    moment: Moment = NOW,
) -> dict[int, int]:
    return promises(policy, partitions, moment, idle_after_us=2 * S, delay_us=delay_us)


def test_an_idle_partition_follows_the_slowest_that_is_not() -> None:
    active = facts(50, silent_s=0.1), facts(40, silent_s=0.1)
    assert asked(facts(10), *active) == {0: 40.5 * S}


def test_it_promises_again_when_half_of_its_grant_is_used() -> None:
    assert asked(facts(40.3), facts(40, silent_s=0.1)) == {}
    assert asked(facts(40.2), facts(40, silent_s=0.1)) == {0: 40.5 * S}


@pytest.mark.parametrize("delay_us", [0, 50_000, 100_000, 4 * S])
def test_a_row_in_step_with_the_others_is_never_late(delay_us: int) -> None:
    """The others have rows up to their frontier and the delay."""
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
def test_who_is_not_idle_promises_nothing(partition: PartitionFacts) -> None:
    assert asked(partition, facts(40, silent_s=0.1)) == {}


def test_if_all_are_idle_time_stands_unless_others_of_the_stage_are_not() -> None:
    assert asked(facts(10), facts(40)) == {}
    elsewhere = Moment(NOW.now_s, NOW.now_us, others_us=60 * S)
    assert asked(facts(10), facts(40), moment=elsewhere) == {0: 60.5 * S, 1: 60.5 * S}


def test_by_the_clock_or_not_at_all() -> None:
    active = facts(40, silent_s=0.1)
    assert asked(facts(10), active, policy="clock") == {0: 4_996 * S}
    assert asked(facts(4_996), active, policy="clock") == {}
    assert asked(facts(10), active, policy="wait") == {}

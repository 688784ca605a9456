"""What a silent log partition promises: a function of facts that the host states. Pure.

A partition is idle if the log itself has said that nothing follows what was read, at a time when no
row had come for ``idle_after``, and has said so lately. ``follow``: it promises what the partitions
that are not idle have reached, and a *grant* ahead of it, so that it need not promise again at
once. The grant is an eighth of the delay, at least ``GRANT_MIN_US``, but never more than the delay:
a row of an idle partition that comes back in step with the others is not late. ``clock``: it
promises the wall clock less the delay. ``wait``: it promises nothing. Source: ADR 32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rstream.types import MIN_TIME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.sources.logs.protocol import LogEnd
    from rvertex.sources.spec import Idle

#: What an idle partition promises at least at a time, us.
GRANT_MIN_US = 100_000
#: The part of the delay that is promised ahead. A row that comes back may be out of order by the
#: rest of the delay; the smaller the part, the more often something is written down.
GRANT_SHARE = 8


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """One partition as the host sees it; times of the monotonic clock in seconds."""

    #: Next position to read.
    position: int
    #: No later row is below it.
    frontier: int
    #: The last row came then, or the instance began.
    last_row_s: float
    end: LogEnd | None
    is_ended: bool

    def is_idle(self, now_s: float, idle_after_s: float) -> bool:
        """Whether the log has said that it is silent."""
        end = self.end
        if self.is_ended or end is None or end.position > self.position:
            return False
        return end.seen_s - self.last_row_s >= idle_after_s and now_s - end.seen_s <= idle_after_s


@dataclass(frozen=True, slots=True)
class Moment:
    """When a decision is made."""

    now_s: float
    #: Wall clock, us UTC.
    now_us: int
    #: What the stage's partitions in other vertices have reached that are not idle; None: all are.
    others_us: int | None


def promises(
    policy: Idle,
    partitions: Sequence[PartitionFacts],
    moment: Moment,
    *,
    idle_after_us: int,
    delay_us: int,
) -> dict[int, int]:
    """By number, the time below which an idle partition is to promise that no row follows."""
    if policy == "wait":
        return {}
    idle_after_s = idle_after_us / 1e6
    idle = [k for k, p in enumerate(partitions) if p.is_idle(moment.now_s, idle_after_s)]
    if not idle:
        return {}
    if policy == "clock":
        time, step = moment.now_us - delay_us, GRANT_MIN_US
    else:
        active = [p.frontier for k, p in enumerate(partitions) if not p.is_ended and k not in idle]
        if moment.others_us is not None:
            active.append(moment.others_us)
        if not active or min(active) == MIN_TIME:
            return {}
        grant_us = min(max(delay_us // GRANT_SHARE, GRANT_MIN_US), delay_us)
        time, step = min(active) + grant_us, grant_us // 2
    return {k: time for k in idle if time - partitions[k].frontier > step}

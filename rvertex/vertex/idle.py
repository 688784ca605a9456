"""What a silent log partition promises: a function of facts that the host states. Pure.

A partition is idle if the log itself has said that nothing follows what was read, at a time when no
row had come for ``idle_after``, and has said so lately. ``follow``: it promises what the rows of
the partitions that are not idle say (not what was promised for those: promises would climb on each
other), and a *grant* ahead of it, so that it need not promise again at once. The grant is an eighth
of the delay, at least ``GRANT_MIN_US``, but never more than the delay: a row of an idle partition
that comes back in step with the others is not late. ``clock``: it
promises the wall clock less the delay. ``wait``: it promises nothing. Source: ADR 32.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rstream.types import MIN_TIME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.sources.logs.protocol import LogEnd
    from rvertex.sources.spec import LogSpec

#: What an idle partition promises at least at a time, us.
GRANT_MIN_US = 100_000
#: The part of the delay that is promised ahead. A row that comes back may be out of order by the
#: rest of the delay; the smaller the part, the more often something is written down.
GRANT_SHARE = 8
#: So many looks at the partitions are remembered. A log that takes longer to answer makes nobody
#: promise anything.
LOOKS_KEPT = 256


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """One partition as the host sees it; times of the monotonic clock in seconds."""

    #: Next position to read.
    position: int
    #: No later row is below it.
    frontier: int
    #: What its rows alone say of that: not what was promised for it. MIN_TIME: it had none.
    rows_frontier: int
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

    def state(self, now_s: float, idle_after_s: float) -> str:
        """A word for people."""
        if self.is_ended:
            return "ended"
        return "idle" if self.is_idle(now_s, idle_after_s) else "active"


@dataclass(frozen=True, slots=True)
class Look:
    """How far the partitions were at a time."""

    #: Monotonic clock, s.
    at_s: float
    #: Wall clock, us UTC.
    at_us: int
    #: By partition, what its rows alone say.
    rows_frontiers: tuple[int, ...]
    #: What the stage's partitions in other vertices have reached that are not idle; None: all are.
    others_us: int | None


class Looks:
    """The last looks, in the order of their times."""

    def __init__(self) -> None:
        self._looks: deque[Look] = deque(maxlen=LOOKS_KEPT)

    def note(self, look: Look) -> None:
        """Remember a look that is later than all others."""
        self._looks.append(look)

    @property
    def last_s(self) -> float | None:
        """When the last one was; None: there was none."""
        return self._looks[-1].at_s if self._looks else None

    def at(self, time_s: float) -> Look | None:
        """The last one that is not later; None: none is remembered."""
        return next((look for look in reversed(self._looks) if look.at_s <= time_s), None)


def promises(
    rules: LogSpec, partitions: Sequence[PartitionFacts], looks: Looks, delay_us: int
) -> dict[int, int]:
    """By number, the time below which an idle partition is to promise that no row follows.

    ``partitions``: at the last look.
    """
    policy, now_s = rules.idle, looks.last_s
    if policy == "wait" or now_s is None:
        return {}
    idle = [k for k, p in enumerate(partitions) if p.is_idle(now_s, rules.idle_after_us / 1e6)]
    grant_us = min(max(delay_us // GRANT_SHARE, GRANT_MIN_US), delay_us)
    step = GRANT_MIN_US if policy == "clock" else grant_us // 2
    found = {}
    for k in idle:
        end = partitions[k].end
        look = None if end is None else looks.at(end.seen_s)
        if look is None:
            continue
        time = look.at_us - delay_us
        if policy == "follow":
            active = _active(partitions, idle, look)
            if not active or min(active) == MIN_TIME:
                continue
            time = min(active) + grant_us
        if time - partitions[k].frontier > step:
            found[k] = time
    return found


def _active(partitions: Sequence[PartitionFacts], idle: list[int], look: Look) -> list[int]:
    """What those had reached at a look that are active now."""
    active = [
        frontier
        for k, (partition, frontier) in enumerate(zip(partitions, look.rows_frontiers, strict=True))
        if not partition.is_ended and k not in idle
    ]
    return active if look.others_us is None else [*active, look.others_us]

"""Promises for idle log partitions, so that the watermark does not wait for them. Pure.

A promise is a time: no later row of the partition starts before it. A partition is idle if no row
arrived for ``idle_after`` and the log has recently confirmed that no row follows the last one read.
The policy decides which time an idle partition promises:

- ``follow``: the least time of the active partitions plus a *grant*. It follows their rows, not
  their promises, else partitions would raise each other without end. The grant is an eighth of the
  delay, at least ``GRANT_MIN_US`` and at most the delay. So fewer promises are journaled, and when
  the partition resumes in step with the others, its rows are not late.
- ``clock``: the wall clock minus the delay.
- ``wait``: no promise.

Source: ADR 32.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rstream.types import MIN_TIME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.sources.logs.protocol import LogEnd
    from rvertex.sources.spec import Live

#: Least advance of the promised time in one step, us.
GRANT_MIN_US = 100_000
#: The grant is the delay divided by this. When a partition resumes, its rows may be out of order by
#: the rest of the delay. A larger divisor leaves more of it, and journals promises more often.
GRANT_SHARE = 8
#: An end that the log reported within this time, s, counts as recent, even if ``idle_after`` is
#: shorter. A busy machine may need longer than ``idle_after`` to answer, and then no partition
#: would ever be idle.
CONFIRMED_S = 2.0
#: Number of frontiers kept. If the log answers a query for its end too late, the frontier at the
#: query was dropped, and the partition promises nothing.
LOOKS_KEPT = 256


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """Progress of one partition as the host observes it. Seconds are of the monotonic clock."""

    #: Next position to read.
    position: int
    #: No later row has a smaller event time than this, us.
    frontier: int
    #: The frontier from the partition's rows alone, without promises, us. MIN_TIME: it had no row.
    rows_frontier: int
    #: When the last row arrived, or if there was none, when the instance started.
    last_row_s: float
    end: LogEnd | None
    is_ended: bool

    def is_idle(self, now_s: float, idle_after_s: float) -> bool:
        """Return whether no row arrived for long enough and the log has confirmed it."""
        end = self.end
        if self.is_ended or end is None or end.position > self.position:
            return False
        is_recent = now_s - end.reported_s <= max(idle_after_s, CONFIRMED_S)
        return is_recent and end.reported_s - self.last_row_s >= idle_after_s

    def state(self, now_s: float, idle_after_s: float) -> str:
        """Return "active", "idle" or "ended"."""
        if self.is_ended:
            return "ended"
        return "idle" if self.is_idle(now_s, idle_after_s) else "active"


@dataclass(frozen=True, slots=True)
class Look:
    """The frontiers of all partitions at one moment."""

    #: The moment by the monotonic clock, s.
    at_s: float
    #: The moment by the wall clock, us UTC.
    at_us: int
    #: The frontier of each partition from its rows alone, us.
    rows_frontiers: tuple[int, ...]
    #: Least frontier of the stage's active partitions in other vertices, us; None: all are idle.
    others_us: int | None


class Looks:
    """The last :data:`LOOKS_KEPT` looks, in the order of time."""

    def __init__(self) -> None:
        self._looks: deque[Look] = deque(maxlen=LOOKS_KEPT)

    def note(self, look: Look) -> None:
        """Append a look. It must be later than the others."""
        self._looks.append(look)

    @property
    def last_s(self) -> float | None:
        """Return the time of the last look; None: no look yet."""
        return self._looks[-1].at_s if self._looks else None

    def at(self, time_s: float) -> Look | None:
        """Return the last look at or before ``time_s``; None: there is none or it was dropped."""
        return next((look for look in reversed(self._looks) if look.at_s <= time_s), None)


def promises(
    rules: Live, partitions: Sequence[PartitionFacts], looks: Looks, delay_us: int
) -> dict[int, int]:
    """Return, by index, the new promise of each idle partition, us: no row before it follows.

    ``partitions``: the facts at the last look.
    """
    policy, now_s = rules.idle, looks.last_s
    if policy == "wait" or now_s is None:
        return {}
    idle = [k for k, p in enumerate(partitions) if p.is_idle(now_s, rules.idle_after_us / 1e6)]
    grant_us = min(max(delay_us // GRANT_SHARE, GRANT_MIN_US), delay_us)
    step = GRANT_MIN_US if policy == "clock" else grant_us // 2
    promised = {}
    for k in idle:
        end = partitions[k].end
        look = None if end is None else looks.at(end.reported_s)
        if look is None:
            continue
        time = look.at_us - delay_us
        if policy == "follow":
            active = _active(partitions, idle, look)
            if not active or min(active) == MIN_TIME:
                continue
            time = min(active) + grant_us
        if time - partitions[k].frontier > step:
            promised[k] = time
    return promised


def _active(partitions: Sequence[PartitionFacts], idle: list[int], look: Look) -> list[int]:
    """Return the frontiers, at ``look``, of the partitions that are active now."""
    active = [
        frontier
        for k, (partition, frontier) in enumerate(zip(partitions, look.rows_frontiers, strict=True))
        if not partition.is_ended and k not in idle
    ]
    return active if look.others_us is None else [*active, look.others_us]

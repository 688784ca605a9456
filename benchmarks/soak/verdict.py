"""Whether a number has grown over a run, by its tenths.

The first tenth is the start and does not count. What is left has grown if its last third lies above
its first third by more than a share and by more than what is noise for such a number, and still
rises: a step that is followed by a level, or by less, is not growth (a fault moves work to another
process, which has more from then on).
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

TENTHS = 10
SHARE = 1.3
#: What grows without an end is higher by this in the last third than in the middle of the run.
RISING = 1.02
#: By the end of a name: growth below this is noise. The log of notices grows to a limit
#: (``log_notices_max``) and is begun anew.
SLACK = {
    "notices_files": 1_000.0,
    "_disk_mb": 10.0,
    "_mb": 40.0,
    "_handles": 20.0,
    "_threads": 8.0,
    "checkpoints_files": 15.0,
    "_files": 60.0,
    "processes": 2.0,
}
#: Seconds and milliseconds are noisy where other work runs beside.
TIME_SHARE, TIME_SLACK = 2.0, {"_s": 5.0, "_ms": 300.0}


def tenths(
    values: Sequence[tuple[float, float]], began_s: float, ended_s: float
) -> list[float | None]:
    """The median of each tenth of the run; None where there is no number."""
    parts: list[list[float]] = [[] for _ in range(TENTHS)]
    for at_s, value in values:
        place = int((at_s - began_s) / (ended_s - began_s) * TENTHS)
        if 0 <= place < TENTHS:
            parts[place].append(value)
    return [statistics.median(part) if part else None for part in parts]


def has_grown(name: str, by_tenth: Sequence[float | None]) -> bool:
    """Whether it did."""
    known = [value for value in by_tenth[1:] if value is not None]
    third = len(known) // 3
    if third == 0:
        return False
    before, after = statistics.median(known[:third]), statistics.median(known[-third:])
    between = statistics.median(known[third:-third])
    is_time = name.endswith(tuple(TIME_SLACK))
    slack = {**SLACK, **TIME_SLACK}
    room = next((value for end, value in slack.items() if name.endswith(end)), 0.0)
    is_more = after > before * (TIME_SHARE if is_time else SHARE) and after > before + room
    return is_more and after > between * RISING

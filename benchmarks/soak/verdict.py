"""Decides whether a number has grown over a run, from the medians of its tenths.

The first tenth is the start and does not count. The rest has grown if its last third is above its
first third by more than a share and by more than the noise of such a number, and if it still rises.
A single step is not growth: a fault may move work to another process, which then has more.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

TENTHS = 10
SHARE = 1.3
#: An unbounded number is higher by this factor in the last third than in the middle of the run.
RISING = 1.02
#: By the last part of a name: growth below this is noise. The log of notices grows to a limit
#: (``log_notices_max``) and then starts again.
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
#: Measures in seconds and milliseconds are noisy on a shared machine.
TIME_SHARE, TIME_SLACK = 2.0, {"_s": 5.0, "_ms": 300.0}


def tenths(
    values: Sequence[tuple[float, float]], began_s: float, ended_s: float
) -> list[float | None]:
    """Return the median of each tenth of the run; None for a tenth without a number."""
    parts: list[list[float]] = [[] for _ in range(TENTHS)]
    for at_s, value in values:
        place = int((at_s - began_s) / (ended_s - began_s) * TENTHS)
        if 0 <= place < TENTHS:
            parts[place].append(value)
    return [statistics.median(part) if part else None for part in parts]


def has_grown(name: str, by_tenth: Sequence[float | None]) -> bool:
    """Return whether the number has grown."""
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

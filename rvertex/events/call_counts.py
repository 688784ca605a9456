"""Counts and times of calls of the outside, as an instance reports them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallCounts:
    """What an instance has called so far; times in microseconds."""

    function: str
    calls: int
    #: Attempts that were made again, and calls that failed at last.
    retries: int
    failures: int
    #: Of the last calls: the median and the 99th percentile.
    median_us: int
    p99_us: int
    #: Calls in progress, and since when the oldest of them is.
    running: int
    oldest_us: int

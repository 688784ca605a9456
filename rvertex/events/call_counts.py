"""Counts and durations of asynchronous calls, as an instance reports them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallCounts:
    """The calls of an instance so far; times in microseconds."""

    function: str
    calls: int
    #: Number of retries, and of calls that failed after all retries.
    retries: int
    failures: int
    #: Median and 99th percentile of the durations of the latest calls.
    median_us: int
    p99_us: int
    #: Number of calls in progress, and the age of the oldest.
    running: int
    oldest_us: int

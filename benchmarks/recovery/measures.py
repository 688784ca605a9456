"""The measures of a recovery run: gaps, latencies around the kill, the cost of normal operation."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from open_loop import START_US, Load, quantiles_ms, window_latencies

if TYPE_CHECKING:
    from processes import Usage

#: Latencies are grouped by the due times of events, in buckets of this length, us.
BUCKET_US = 100_000
#: Latency has recovered if it stays low for this time, us.
STEADY_US = 1_000_000
#: Latencies "during the failure" are those of events that were not visible at the kill, or were due
#: up to this long after it.
FAILURE_US = 5_000_000
LATE_US = 1_000_000


@dataclass(frozen=True)
class Run:
    """The observations of one run: times in us; ``vs``, ``seen_us`` and others per output row."""

    load: Load
    started_us: int
    killed_us: int
    #: Events due earlier do not count as normal operation.
    warm_us: int
    seen_us: np.ndarray
    vs: np.ndarray
    key: np.ndarray
    total: np.ndarray
    #: Time at which each batch became visible, and its partition of the output (ours) or subtask of
    #: the sink (Flink); Spark has a single sink.
    batches: tuple[list[int], list[int]]
    usage: Usage | None
    digest: str
    recomputed: Any

    def latencies_us(self) -> np.ndarray:
        """Return, for each event, the time from its due time until its window was visible."""
        return window_latencies(self.load, self.started_us, self.seen_us, self.vs, self.key)

    @property
    def kill_us(self) -> int:
        """Return the time of the kill after the start."""
        return self.killed_us - self.started_us


@dataclass(frozen=True)
class Timeline:
    """Latencies by the due times of events, relative to the kill."""

    at_s: np.ndarray
    median_ms: np.ndarray
    worst_ms: np.ndarray


def timeline(run: Run) -> Timeline:
    """Return median and maximum of each bucket."""
    latency, due = run.latencies_us(), run.load.times_us()
    bucket = due // BUCKET_US
    cuts = np.searchsorted(bucket, np.arange(bucket[-1] + 2))
    parts = [latency[lo:hi] for lo, hi in itertools.pairwise(cuts)]
    at_s = (np.arange(len(parts)) * BUCKET_US - run.kill_us) / 1e6
    medians = np.array([np.median(p) / 1e3 if len(p) else np.nan for p in parts])
    worst = np.array([p.max() / 1e3 if len(p) else np.nan for p in parts])
    return Timeline(at_s, medians, worst)


def measure(run: Run, expected_digest: str | None) -> dict[str, Any]:
    """Return the measures of one run; ``None`` for a measure that cannot be computed."""
    latency, due = run.latencies_us(), run.load.times_us()
    is_hit = due + latency > run.kill_us
    normal = latency[~is_hit & (due >= run.warm_us)]
    failure = latency[is_hit & (due < run.kill_us + FAILURE_US)]
    p50, p99, most = quantiles_ms(failure, 0.5, 0.99, 1)
    normal_p50, normal_p99 = quantiles_ms(normal, 0.5, 0.99)
    row: dict[str, Any] = {
        "gap_ms": _gap_ms(run),
        "normal_gap_ms": _normal_gap_ms(run),
        "recovered_ms": _recovered_ms(run),
        "p50_ms": p50,
        "p99_ms": p99,
        "max_ms": most,
        "late_share": round(float((failure > LATE_US).mean()), 4),
        "normal_p50_ms": normal_p50,
        "normal_p99_ms": normal_p99,
        "recomputed_items": getattr(run.recomputed, "items", None),
        "reread_bytes": getattr(run.recomputed, "bytes", None),
        "equal": is_right(run) and expected_digest in (None, run.digest),
    }
    if run.usage is not None:
        millions = run.load.rate * (run.kill_us - run.warm_us) / 1e12
        row["cpu_s_per_million"] = round(run.usage.cpu_s / millions, 2)
        row["written_bytes_per_million"] = round(run.usage.written_bytes / millions)
    return row


def is_right(run: Run) -> bool:
    """Return whether every window of every key appeared exactly once, with the right sum."""
    cell = (run.vs - START_US) // run.load.window_us * run.load.keys + run.key
    answer = run.load.answer().ravel()
    is_once = np.array_equal(np.sort(cell), np.flatnonzero(answer))
    return bool(is_once and np.array_equal(answer[cell], run.total))


def _gaps_us(run: Run) -> list[tuple[int, int]]:
    """Return the pauses between two batches of a partition: the end of each, and its length."""
    at, partition = np.array(run.batches[0]), np.array(run.batches[1])
    gaps: list[tuple[int, int]] = []
    for k in np.unique(partition):
        seen = at[partition == k]
        gaps += zip(seen[1:].tolist(), np.diff(seen).tolist(), strict=True)
    return gaps


def _gap_ms(run: Run) -> float:
    """Return the longest pause of any output partition that ended soon after the kill."""
    until = run.killed_us + FAILURE_US * 4
    return (
        max((gap for end, gap in _gaps_us(run) if run.killed_us <= end <= until), default=0) / 1e3
    )


def _normal_gap_ms(run: Run) -> float:
    """Return the longest such pause in normal operation."""
    start = run.started_us + run.warm_us
    return max((gap for end, gap in _gaps_us(run) if start <= end < run.killed_us), default=0) / 1e3


def _recovered_ms(run: Run) -> float | None:
    """Return the time from the kill until latency stays within 10 % of its baseline; None if never.

    Baseline: the median of the medians of the buckets before the kill. If the greatest of these is
    more than 10 % above the baseline, it is the bound.
    """
    line = timeline(run)
    seen_us = (line.at_s + BUCKET_US / 1e6) * 1e6 + line.worst_ms * 1e3
    before = line.median_ms[(line.at_s * 1e6 >= run.warm_us - run.kill_us) & (seen_us < 0)]
    if len(before) == 0:
        return None
    bound = max(1.1 * float(np.median(before)), float(before.max()))
    after = np.flatnonzero(line.at_s >= 0)
    need = STEADY_US // BUCKET_US
    is_low = line.median_ms <= bound
    for at in after:
        if is_low[at : at + need].all() and at + need <= len(is_low):
            return max(0.0, round(float(line.at_s[at]) * 1e3, 1))
    return None

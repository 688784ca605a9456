"""Every limit of a stream, with its unit and default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: When items are written to Parquet. "async": in the background. "sync": before readers see them.
#: "volatile": only when the reader stalls.
Durability = Literal["async", "sync", "volatile"]

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """The limits of one rStream."""

    #: A write blocks while the volatile tail has this many bytes; one batch may exceed it.
    tail_bytes_max: int = 64 * MIB
    #: A segment ends when there are this many unflushed bytes.
    segment_bytes_max: int = 32 * MIB
    #: A segment ends when there are this many unflushed items.
    segment_rows_max: int = 1 << 20
    #: A smaller segment ends when its oldest item is this old, ms.
    flush_interval_ms: int = 500
    #: How long a write waits for room before it raises BackPressureError, s.
    write_wait_s: float = 60.0
    #: A volatile tail that stays full for this long, s, while no item is consumed, spills to
    #: Parquet.
    spill_after_s: float = 1.0
    #: How long ``close`` waits for the last flush, s.
    close_wait_s: float = 60.0
    #: Number of adjacent small segments that are merged into one; 0: segments are never merged.
    compact_segments_min: int = 0
    #: Most file bytes of a merged segment, which also limits the bytes read for it.
    compact_bytes_max: int = 8 * MIB

    def __post_init__(self) -> None:
        assert self.compact_segments_min == 0 or self.compact_segments_min > 1
        assert self.tail_bytes_max > 0, self.tail_bytes_max
        assert self.segment_bytes_max > 0, self.segment_bytes_max
        assert self.segment_rows_max > 0, self.segment_rows_max
        assert self.flush_interval_ms >= 0, self.flush_interval_ms


@dataclass(frozen=True, slots=True)
class AppendLimits:
    """The limits of one :class:`~rstream.intake.appender.Appender`."""

    #: How long the first append of a commit waits for others to share its flush, ms.
    commit_wait_ms: float = 2.0
    #: Most rows of a commit with several appends.
    commit_rows_max: int = 1 << 16
    #: A commit is made at once when this many bytes wait. A single append may exceed it.
    commit_bytes_max: int = 8 * MIB
    #: Most appends that wait to become durable. With more, AppenderBusyError is raised.
    waiting_appends_max: int = 1 << 14
    #: Most bytes of waiting appends. A single append may exceed it.
    waiting_bytes_max: int = 64 * MIB
    #: Commits become a Parquet segment when there are this many, ...
    segment_commits_max: int = 256
    #: ... or when they have this many rows, ...
    segment_rows_max: int = 1 << 20
    #: ... or this many bytes, ...
    segment_bytes_max: int = 32 * MIB
    #: ... or when the oldest commit is this old, s.
    segment_interval_s: float = 60.0
    #: Most segments that wait to be written. With more, appends wait, too.
    segments_waiting_max: int = 2
    #: Pause before a failed segment write is retried, s.
    segment_retry_s: float = 1.0
    #: When a segment ends, producers that have been silent for this long, s, are forgotten.
    producer_silence_s: float = 7 * 86_400.0
    #: Most producers that are remembered. With more, TooManyProducersError is raised.
    producers_max: int = 100_000
    #: A segment is deleted when all its rows arrived before this many seconds, unless a job that
    #: reads the log still needs them. None: segments are never deleted.
    retention_s: float | None = None
    #: Seconds between two checks of retention for deletable segments.
    retention_look_s: float = 10.0
    #: Retention ignores a job that has not reported its position for this long, s.
    reader_wait_s: float = 7 * 86_400.0
    #: How long ``append`` waits until its rows are durable, s.
    append_wait_s: float = 60.0
    #: How long ``close`` waits for running commits and segment writes, s.
    close_wait_s: float = 60.0

    def __post_init__(self) -> None:
        assert self.commit_wait_ms >= 0, self.commit_wait_ms
        assert self.commit_rows_max > 0, self.commit_rows_max
        assert self.segment_commits_max > 0, self.segment_commits_max
        assert self.segments_waiting_max > 0, self.segments_waiting_max
        assert self.retention_s is None or self.retention_s >= 0, self.retention_s

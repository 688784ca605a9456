"""Every limit of a stream, with its unit and default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: "async": flushed off the critical path. "sync": durable before visible. "volatile": memory only.
Durability = Literal["async", "sync", "volatile"]

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """The bounds of one rStream."""

    #: A write blocks while the volatile tail holds this much; one batch may overshoot it.
    tail_bytes_max: int = 64 * MIB
    #: A segment is cut when this much is unflushed.
    segment_bytes_max: int = 32 * MIB
    #: A segment is cut when this many items are unflushed.
    segment_rows_max: int = 1 << 20
    #: A smaller segment is cut when its oldest item is this old.
    flush_interval_ms: int = 500
    #: How long a write waits for room before BackPressureError.
    write_wait_s: float = 60.0
    #: A volatile tail that stays full this long, with nothing consumed, spills to Parquet.
    spill_after_s: float = 1.0
    #: How long ``close`` waits for the last flush.
    close_wait_s: float = 60.0
    #: So many adjacent small segments are merged into one; 0: none are.
    compact_segments_min: int = 0
    #: File bytes of a segment that is made so, which limits what is read for it, too.
    compact_bytes_max: int = 8 * MIB

    def __post_init__(self) -> None:
        assert self.compact_segments_min == 0 or self.compact_segments_min > 1
        assert self.tail_bytes_max > 0, self.tail_bytes_max
        assert self.segment_bytes_max > 0, self.segment_bytes_max
        assert self.segment_rows_max > 0, self.segment_rows_max
        assert self.flush_interval_ms >= 0, self.flush_interval_ms


@dataclass(frozen=True, slots=True)
class AppendLimits:
    """The bounds of one :class:`~rstream.intake.appender.Appender`."""

    #: How long the first append of a commit waits for others that share its flush.
    commit_wait_ms: float = 2.0
    #: A commit has at most so many rows, or those of one append.
    commit_rows_max: int = 1 << 16
    #: A commit is made at once when this much waits for it; one append may overshoot it.
    commit_bytes_max: int = 8 * MIB
    #: Appends that wait to become durable; another one is refused.
    waiting_appends_max: int = 1 << 14
    #: What they may hold together; one append may overshoot it.
    waiting_bytes_max: int = 64 * MIB
    #: Commits become a Parquet segment when there are this many, ...
    segment_commits_max: int = 256
    #: ... or they hold this many rows, ...
    segment_rows_max: int = 1 << 20
    #: ... or this much, ...
    segment_bytes_max: int = 32 * MIB
    #: ... or the oldest one is this old.
    segment_interval_s: float = 60.0
    #: Segments that wait to be written; until then appends wait, too.
    segments_waiting_max: int = 2
    #: How long a segment that could not be written waits for the next attempt.
    segment_retry_s: float = 1.0
    #: A producer that has been silent for so long is forgotten when a segment is cut.
    producer_silence_s: float = 7 * 86_400.0
    #: Producers that are remembered; another one is refused.
    producers_max: int = 100_000
    #: Whole segments are deleted when all their rows came so long ago, unless a job that reads the
    #: log has told that it needs them; None: all rows are kept.
    retention_s: float | None = None
    #: How often it is looked what of them may go.
    retention_look_s: float = 10.0
    #: A job that has told no position for so long is not waited for.
    reader_wait_s: float = 7 * 86_400.0
    #: How long ``append`` waits to become durable.
    append_wait_s: float = 60.0
    #: How long ``close`` waits for what is under way.
    close_wait_s: float = 60.0

    def __post_init__(self) -> None:
        assert self.commit_wait_ms >= 0, self.commit_wait_ms
        assert self.commit_rows_max > 0, self.commit_rows_max
        assert self.segment_commits_max > 0, self.segment_commits_max
        assert self.segments_waiting_max > 0, self.segments_waiting_max
        assert self.retention_s is None or self.retention_s >= 0, self.retention_s

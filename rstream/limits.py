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

    def __post_init__(self) -> None:
        assert self.tail_bytes_max > 0, self.tail_bytes_max
        assert self.segment_bytes_max > 0, self.segment_bytes_max
        assert self.segment_rows_max > 0, self.segment_rows_max
        assert self.flush_interval_ms >= 0, self.flush_interval_ms

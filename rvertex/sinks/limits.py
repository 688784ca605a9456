"""The limits of deliveries, each with its unit and default."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeliveryLimits:
    """The limits of each partition of a delivery."""

    #: Least milliseconds from the start of one commit to the next. The first row after a pause is
    #: committed at once; under load, rows are collected for this time.
    commit_interval_ms: float = 5.0
    #: Most rows per commit. A delivery reaches this limit while it catches up.
    commit_rows_max: int = 20_000
    #: Least seconds between two commits of progress over items without rows (CTIs).
    progress_interval_s: float = 5.0
    #: Seconds after which unchanged progress is committed again, because Kafka deletes old offsets.
    reminder_interval_s: float = 43_200.0
    #: Pause after the first failure of a destination, s. Doubled after each further failure.
    retry_pause_s: float = 0.1
    retry_pause_max_s: float = 10.0
    #: Most rows of one partition that become dead letters. With more, the delivery ends with an
    #: error.
    refused_rows_max: int = 10_000
    #: Longest wait for a delivery's thread to end when the job is cancelled, s.
    stop_wait_s: float = 30.0

    def __post_init__(self) -> None:
        assert self.commit_interval_ms >= 0, self.commit_interval_ms
        assert self.commit_rows_max > 0, self.commit_rows_max
        assert 0 < self.retry_pause_s <= self.retry_pause_max_s, self.retry_pause_s

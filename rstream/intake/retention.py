"""Retention of a log of pushed rows: deletes old segments whose rows no reader needs.

Theory of operation. The writer's segment thread checks the oldest segments periodically. A segment
may be deleted when its newest row arrived before the retention period, by the log's own
``received_at``. Rows that a job still needs by its reported position
(:mod:`rstream.intake.readers`) are kept. The low-water mark is durable before the first deletion.
So segments that remain after a crash do not look like a hole, and the next check deletes them.

Invariants: (1) no row that arrived within the retention period is deleted; (2) nor any row at or
above a position reported within ``reader_wait_s``; (3) the newest segment and all commits are kept,
so the deleted rows are below every base from which a writer or a reader may start.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from rstream.intake.readers import needed_seq
from rstream.items.batch import VS

if TYPE_CHECKING:
    from rstream.limits import AppendLimits
    from rstream.log.durable import DurableLog
    from rstream.types import SeqRange


class LogRetention:
    """The retention of one log; used by the thread that writes its segments."""

    def __init__(self, segments: DurableLog, limits: AppendLimits) -> None:
        assert limits.retention_s is not None, limits
        self._segments = segments
        self._retention_us = int(limits.retention_s * 1e6)
        self._reader_wait_us = int(limits.reader_wait_s * 1e6)
        #: Arrival time of the newest row of each segment that was checked and still exists, us.
        self._newest_us: dict[SeqRange, int] = {}

    def mark(self, now_us: int) -> int:
        """Return the seq below which no row is needed.

        It is at least the current low-water mark.
        """
        self._segments.refresh()
        chain, _ = self._segments.layout()
        mark = self._segments.mark
        for seqs in chain[:-1]:
            newest_us = self._newest(seqs)
            if newest_us is None or newest_us > now_us - self._retention_us:
                break
            mark = max(mark, seqs.hi)
        needed = needed_seq(self._segments.store, now_us - self._reader_wait_us)
        return mark if needed is None else min(mark, needed)

    def collect(self, mark: int) -> int:
        """Delete the segments that are completely below the mark; return their number.

        Raises:
            StoreError: a deletion failed; the next call deletes the remaining segments.
        """
        self._newest_us = {s: us for s, us in self._newest_us.items() if s.hi > mark}
        return self._segments.collect(self._segments.boundary(mark))

    def _newest(self, seqs: SeqRange) -> int | None:
        """Return the arrival time of a segment's last row, the latest.

        None: it was just deleted.
        """
        if seqs not in self._newest_us:
            try:
                file = self._segments.open(seqs, columns=())
            except FileNotFoundError:  # another writer has opened the log, and also deletes
                return None
            with contextlib.closing(file):
                last = file.read_group(seqs.hi - 1, verify=False)
            self._newest_us[seqs] = last.batch.column(VS)[-1].as_py()
        return self._newest_us[seqs]

"""Retention of a log of pushed rows: deletes whole segments that are old and that nobody needs.

Theory of operation. The writer's thread for segments looks at the oldest ones now and then. One may
go when its newest row came long enough ago, by the log's own ``received_at``. What a job still
needs stays, as far as it has told its position (:mod:`rstream.intake.readers`). The low-water mark
is durable before the first deletion, so what a crash leaves is no hole, and goes with the next
look.

Invariants: (1) no row goes that came within the retention; (2) nor one at or above a position that
a reader has told within ``reader_wait_s``; (3) the newest segment stays, and so do commits: so what
goes is below every base that a writer or a reader may begin from.
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
    """Of one log; owned by the thread that writes its segments."""

    def __init__(self, segments: DurableLog, limits: AppendLimits) -> None:
        assert limits.retention_s is not None, limits
        self._segments = segments
        self._retention_us = int(limits.retention_s * 1e6)
        self._reader_wait_us = int(limits.reader_wait_s * 1e6)
        #: When the newest rows of segments came, us; of those that were looked at and are there.
        self._newest_us: dict[SeqRange, int] = {}

    def mark(self, now_us: int) -> int:
        """The seq below which no row is needed; never below the collected rows."""
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
        """Delete the segments that lie wholly below the mark; how many.

        Raises:
            StoreError: the rest is deleted by the next call.
        """
        self._newest_us = {s: us for s, us in self._newest_us.items() if s.hi > mark}
        return self._segments.collect(self._segments.boundary(mark))

    def _newest(self, seqs: SeqRange) -> int | None:
        """When its last row came, which is no earlier than any before; None: it has just gone."""
        if seqs not in self._newest_us:
            try:
                file = self._segments.open(seqs, columns=())
            except FileNotFoundError:  # another writer has opened the log, and deletes, too
                return None
            with contextlib.closing(file):
                last = file.read_group(seqs.hi - 1, verify=False)
            self._newest_us[seqs] = last.batch.column(VS)[-1].as_py()
        return self._newest_us[seqs]

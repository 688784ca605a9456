"""Compaction: makes one segment of many small ones, in the background, while the stream is used.

Theory of operation. A merged segment is written beside those it replaces; then they are deleted.
Numbers and contents stay, and readers tolerate overlap, so a reader sees no difference, and a crash
in between leaves overlap, which the next step clears up. Segments are merged by size classes of
rows: a row is written again once for each class that it passes, a logarithm of the rows of the
stream. :func:`next_run` is pure.

A stream of which people read the *files* is not compacted while it grows (:mod:`rvertex.host`): a
plain reader of the folder would see rows twice for a moment, and one that takes new files as new
rows would take them twice for good.

Invariants: (1) a segment is deleted only if a longer one that covers it is durable and whole; (2)
nothing is deleted once somebody has begun to seal the stream
(:func:`rstream.log.durable.is_closing`): who seals lists the segments after that, so it sees the
longer one. A writer that counted as dead may therefore still compact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rstream.errors import CorruptSegmentError, StoreError
from rstream.log.durable import SegmentCursor
from rstream.log.tail import Cut
from rstream.store.segment_names import segment_name
from rstream.types import SeqRange

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rstream.items.batch import Items
    from rstream.limits import StreamLimits
    from rstream.log.background import Background
    from rstream.log.durable import DurableLog


class Compactor:
    """Compacts one stream for one of its writers, a step at a time."""

    def __init__(
        self,
        log: DurableLog,
        limits: StreamLimits,
        background: Background,
        is_closed: Callable[[], bool],
    ) -> None:
        self._log, self._limits, self._background = log, limits, background
        self._is_closed = is_closed
        self._is_running = False
        #: File bytes of segments that were looked at.
        self._sizes: dict[SeqRange, int] = {}
        #: Segments that could not be read: left to readers, who know what to do.
        self._unreadable: set[SeqRange] = set()
        log.finish_collecting(background)

    def kick(self) -> None:
        """A segment was written: see whether there are many small ones, soon."""
        if self._limits.compact_segments_min and not self._is_running:
            self._is_running = True
            self._background.submit(self._run)

    def _run(self) -> None:
        try:
            has_more = not self._is_closed() and self.step()
        except (StoreError, CorruptSegmentError, FileNotFoundError):
            has_more = False  # tried again after the next segment
        self._is_running = False
        if has_more:
            self.kick()

    def step(self) -> bool:
        """Delete what is covered, or merge one run of segments; whether there was anything to do.

        Raises:
            StoreError, CorruptSegmentError, FileNotFoundError: it is to be tried again later.
        """
        chain, covered = self._log.layout()
        if covered:
            self._log.delete_covered(covered)
        run = next_run(self._candidates(chain), self._limits, self._size)
        if run is None:
            return False
        self._merge(run)
        return True

    def _candidates(self, chain: Sequence[SeqRange]) -> list[SeqRange]:
        found = [seqs for seqs in chain if seqs.lo >= self._log.mark]
        known = set(found)
        self._sizes = {seqs: size for seqs, size in self._sizes.items() if seqs in known}
        return found

    def _size(self, seqs: SeqRange) -> int:
        if seqs in self._unreadable:
            return self._limits.compact_bytes_max
        if seqs not in self._sizes:
            self._sizes[seqs] = self._log.size(seqs)
        return self._sizes[seqs]

    def _merge(self, run: Sequence[SeqRange]) -> None:
        lo, hi = run[0].lo, run[-1].hi
        parts: list[Items] = []
        cursor, seq = SegmentCursor(self._log), lo
        try:
            while seq < hi:
                found = cursor.read(seq, hi - seq)
                if found is None:  # collected meanwhile
                    raise FileNotFoundError(segment_name(SeqRange(seq, hi)))
                if parts and found.batch.schema.names != parts[0].batch.schema.names:
                    self._unreadable.update(run)  # the stream got columns in between
                    return
                parts.append(found)
                seq = found.next_seq
        except CorruptSegmentError:
            self._unreadable.update(run)
            raise
        finally:
            cursor.close()
        self._log.write(Cut.of(parts))
        self._log.delete_covered(run)


def next_run(
    chain: Sequence[SeqRange], limits: StreamLimits, size: Callable[[SeqRange], int]
) -> list[SeqRange] | None:
    """The adjacent segments to merge next: at least ``compact_segments_min``, of one size class.

    Of a class are those of its rows and smaller ones between them. What is as large as a merged
    segment may be is left alone.
    """
    least = limits.compact_segments_min
    classes = sorted({_size_class(seqs, least) for seqs in chain})
    for size_class in classes:
        run: list[SeqRange] = []
        for seqs in chain:
            if _size_class(seqs, least) > size_class or (run and seqs.lo > run[-1].hi):
                run = []
            if _size_class(seqs, least) > size_class:
                continue
            run.append(seqs)
            if len(run) == least:
                fitting = _fitting(run, limits, size)
                if len(fitting) == least:
                    return fitting
                run = run[max(len(fitting), 1) :]
    return None


def _fitting(
    run: Sequence[SeqRange], limits: StreamLimits, size: Callable[[SeqRange], int]
) -> list[SeqRange]:
    """As many of the first as one merged segment may hold."""
    rows = total = 0
    fitting: list[SeqRange] = []
    for seqs in run:
        rows, total = rows + len(seqs), total + size(seqs)
        if rows > limits.segment_rows_max or total > limits.compact_bytes_max:
            break
        fitting.append(seqs)
    return fitting


def _size_class(seqs: SeqRange, base: int) -> int:
    """How often ``base`` segments of one row would have been merged to get so many rows."""
    size_class, rows = 0, len(seqs)
    while rows >= base:
        rows //= base
        size_class += 1
    return size_class

"""Compaction: merges small segments into one, in the background, while the stream is used.

Theory of operation. A merged segment is written beside the segments it replaces, then these are
deleted. Seqs and contents do not change, and readers tolerate overlap, so they are not affected. A
crash in between leaves overlap, which the next step removes. Segments are merged by size classes of
rows: a row is rewritten once per class, which is a logarithm of the rows of the stream.
:func:`next_run` is pure.

A growing stream whose *files* other programs read is not compacted (:mod:`rvertex.host`). A plain
reader of the folder would briefly see rows twice, and a reader that takes new files for new rows
would process them twice.

Invariants: (1) a segment is deleted only if a longer segment that covers it is durable and intact;
(2) no segment is deleted after sealing has started (:func:`rstream.log.durable.is_closing`).
Sealing lists the segments after that, so the list includes the longer segment. So a writer that was
considered dead may still compact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rstream.errors import CorruptSegmentError, StoreError
from rstream.log.reader import SegmentCursor
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
    """Compacts one stream for one of its writers, step by step."""

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
        #: File bytes of the segments measured so far.
        self._sizes: dict[SeqRange, int] = {}
        #: Segments that could not be read. Readers handle the damage.
        self._unreadable: set[SeqRange] = set()
        log.finish_collecting(background)

    def kick(self) -> None:
        """Check soon whether there are many small segments. Called after a segment was written."""
        if self._limits.compact_segments_min and not self._is_running:
            self._is_running = True
            self._background.submit(self._run)

    def _run(self) -> None:
        try:
            has_more = not self._is_closed() and self.step()
        except (StoreError, CorruptSegmentError, FileNotFoundError):
            has_more = False  # a failed step is retried after the next segment
        self._is_running = False
        if has_more:
            self.kick()

    def step(self) -> bool:
        """Delete covered segments, or merge one run of segments; return whether there were any.

        Raises:
            StoreError, CorruptSegmentError, FileNotFoundError: retry the step later.
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
        mark, own = self._log.mark, self._log.generation
        candidates = [seqs for seqs in chain if seqs.lo >= mark and seqs.generation <= own]
        known = set(candidates)
        self._sizes = {seqs: size for seqs, size in self._sizes.items() if seqs in known}
        return candidates

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
                items = cursor.read(seq, hi - seq)
                if items is None:  # retention has deleted them meanwhile
                    raise FileNotFoundError(segment_name(SeqRange(seq, hi)))
                if parts and items.batch.schema.names != parts[0].batch.schema.names:
                    # The stream got new columns between these segments
                    self._unreadable.update(run)
                    return
                parts.append(items)
                seq = items.next_seq
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
    """Return the adjacent segments to merge next: ``compact_segments_min`` or more of a size class.

    A run of a class may include smaller segments between those of the class. Segments as large as
    the largest merged segment are not merged.
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
    """Return the longest prefix of the run that fits into one merged segment."""
    rows = total = 0
    fitting: list[SeqRange] = []
    for seqs in run:
        rows, total = rows + len(seqs), total + size(seqs)
        if rows > limits.segment_rows_max or total > limits.compact_bytes_max:
            break
        fitting.append(seqs)
    return fitting


def _size_class(seqs: SeqRange, base: int) -> int:
    """Return how many rounds of merging ``base`` segments lead from one row to this many rows."""
    size_class, rows = 0, len(seqs)
    while rows >= base:
        rows //= base
        size_class += 1
    return size_class

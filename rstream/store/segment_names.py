"""Segment names, and an index of which segments contain which sequence numbers.

A segment is an immutable file ``<lo>-<hi>.parquet`` (20 digits each) with the items ``[lo, hi)``.
Replicas may end segments at different seqs, so segments may overlap; overlapping items are equal.
After a change of the job the names end in ``-g<generation>.parquet`` (:mod:`rstream.store.fences`).

Invariants: (1) ``_chain`` is sorted, both its ``lo`` and its ``hi`` strictly increase; (2) every
other known segment is within a segment of the chain. Pure: does no I/O.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

from rstream.types import SeqRange

if TYPE_CHECKING:
    from collections.abc import Iterable

_DIGITS = 20
#: Pattern of a segment's name: its range, and the generation of its job, if not 0.
NAME = rf"(\d{{{_DIGITS}}})-(\d{{{_DIGITS}}})(?:-g(\d{{6}}))?\.parquet"
_NAME = re.compile(NAME)


def segment_name(seqs: SeqRange) -> str:
    """Return the file name of a segment."""
    end = f"-g{seqs.generation:06d}" if seqs.generation else ""
    return f"{seqs.lo:0{_DIGITS}d}-{seqs.hi:0{_DIGITS}d}{end}.parquet"


def parse_segment_name(name: str) -> SeqRange | None:
    """Return the range in a file name; None if it is not the name of a segment."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    lo, hi = int(match[1]), int(match[2])
    return SeqRange(lo, hi, int(match[3] or 0)) if lo < hi else None


class SegmentIndex:
    """The known segments of one stream."""

    def __init__(self, segments: Iterable[SeqRange] = ()) -> None:
        self._chain: list[SeqRange] = []
        self._covered: set[SeqRange] = set()
        self.refresh(segments)

    def __len__(self) -> int:
        return len(self._chain) + len(self._covered)

    @property
    def first_seq(self) -> int | None:
        """The lowest seq in any segment."""
        return self._chain[0].lo if self._chain else None

    def segments(self) -> list[SeqRange]:
        """Return all segments, sorted."""
        return sorted([*self._chain, *self._covered])

    def chain(self) -> list[SeqRange]:
        """Return the segments that reach beyond all earlier segments, in order."""
        return list(self._chain)

    def covered(self) -> list[SeqRange]:
        """Return the segments that a segment of the chain covers completely, sorted."""
        return sorted(self._covered)

    def cover_of(self, seqs: SeqRange) -> SeqRange | None:
        """Return a longer segment that covers ``seqs`` completely."""
        cover = self.lookup(seqs.lo)
        return cover if cover is not None and cover != seqs and cover.hi >= seqs.hi else None

    def refresh(self, segments: Iterable[SeqRange]) -> None:
        """Replace all known segments."""
        self._chain = []
        self._covered = set()
        for seqs in sorted(segments, key=lambda s: (s.lo, -s.hi)):
            if self._chain and seqs.hi <= self._chain[-1].hi:
                if seqs != self._chain[-1]:
                    self._covered.add(seqs)
            else:
                self._chain.append(seqs)

    def add(self, seqs: SeqRange) -> None:
        """Add a segment."""
        assert len(seqs) > 0, seqs
        if not self._chain or (seqs.lo > self._chain[-1].lo and seqs.hi > self._chain[-1].hi):
            self._chain.append(seqs)
        else:
            self.refresh([*self._chain, *self._covered, seqs])

    def remove(self, seqs: SeqRange) -> None:
        """Remove a segment."""
        self.refresh([s for s in self.segments() if s != seqs])

    def lookup(self, seq: int) -> SeqRange | None:
        """Return the segment with ``seq`` that has the greatest end."""
        at = bisect_right(self._chain, seq, key=lambda s: s.lo) - 1
        if at >= 0 and seq in self._chain[at]:
            return self._chain[at]
        return None

    def contiguous_end(self, seq: int) -> int:
        """Return the end of the range from ``seq`` on without a hole; ``seq`` if not covered."""
        end = seq
        at = max(bisect_right(self._chain, seq, key=lambda s: s.lo) - 1, 0)
        for seqs in self._chain[at:]:
            if seqs.lo > end:
                break
            end = max(end, seqs.hi)
        return end

    def holes(self) -> list[SeqRange]:
        """Return the ranges between lowest and highest seq that no segment covers."""
        return [SeqRange(a.hi, b.lo) for a, b in pairwise(self._chain) if a.hi < b.lo]

    def wholly_below(self, mark: int) -> list[SeqRange]:
        """Return the segments completely below ``mark``, in the order in which to delete them.

        If a deletion fails and the rest is kept, there is no hole.
        """
        return sorted((s for s in self.segments() if s.hi <= mark), key=lambda s: (s.hi, s.lo))

    def check(self) -> None:
        """Assert the invariants; for tests."""
        for a, b in zip(self._chain[:-1], self._chain[1:], strict=True):
            assert a.lo < b.lo, (a, b)
            assert a.hi < b.hi, (a, b)
        for seqs in self._covered:
            assert any(c.lo <= seqs.lo and seqs.hi <= c.hi for c in self._chain), seqs

"""Checks whether a stream is complete and intact on its store, and lists its lost items.

A stream is intact if its segments have no hole from the low-water mark to its end, and each matches
its footer. On a local store, the bytes of each are also compared with their checksum. On request,
the items are compared with their digests. A damaged segment is no loss if others cover it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from rstream.errors import CorruptSegmentError
from rstream.log.durable import DurableLog
from rstream.store.blobs import is_near
from rstream.store.part_files import place_of
from rstream.store.seals import break_seal, sealed_names
from rstream.store.segment_names import SegmentIndex, parse_segment_name, segment_name
from rstream.types import SeqRange

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rstream.store.protocol import BlobStore

#: Number of segments that are checked concurrently.
CHECKERS_MAX = 4
#: Most listings. Damage counts only if a second listing is the same, because writers merge and
#: delete segments.
LISTINGS_MAX = 10
MISSING = "it is missing"


@dataclass(frozen=True, slots=True)
class Damage:
    """A loss: the items from ``seqs.lo`` on, because this file is damaged or missing."""

    seqs: SeqRange
    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def find_damage(
    store: BlobStore, stream: str, end: int | None, *, contents: bool, set_aside: bool = False
) -> list[Damage]:
    """Return the losses of a durable stream, in order.

    ``end``: expected end (None: end of the last segment). ``contents``: also compare digests.
    ``set_aside``: rename damaged segments and delete the seal, so that a writer of the stream
    writes their items again.
    """
    log, reasons = DurableLog(store, stream), dict[SeqRange, str]()
    for _ in range(LISTINGS_MAX):
        there = log.segments()
        reasons |= _reasons(log, [s for s in there if s not in reasons], contents=contents)
        broken = {seqs: reasons[seqs] for seqs in there if reasons[seqs]}
        whole = SegmentIndex(seqs for seqs in there if seqs not in broken)
        named = [*there, *_sealed(store)]
        last = max((seqs.hi for seqs in named), default=0) if end is None else end
        damages = [_damage_at(store, hole, broken, named) for hole in _holes(whole, log.mark, last)]
        if not damages:
            break
        log = DurableLog(store, stream)
        if log.segments() == there:  # otherwise a writer has merged segments meanwhile
            break
    for seqs in broken if set_aside else ():
        log.set_aside(seqs)
    if damages and set_aside:
        break_seal(store)
    return damages


def _reasons(
    log: DurableLog, segments: Sequence[SeqRange], *, contents: bool
) -> dict[SeqRange, str]:
    """Return, per segment, why it is damaged, or ""."""
    with ThreadPoolExecutor(CHECKERS_MAX, "segment-check") as checkers:
        reasons = checkers.map(lambda seqs: why_broken(log, seqs, contents=contents), segments)
        return dict(zip(segments, reasons, strict=True))


def first_hole(store: BlobStore, stream: str, end: int) -> Damage | None:
    """Return the first range below ``end`` that no segment covers, by file names only."""
    there: Sequence[SeqRange] | None = None
    damage = None
    for _ in range(LISTINGS_MAX):
        log = DurableLog(store, stream)
        before, there = there, log.segments()
        hole = next(_holes(SegmentIndex(there), log.mark, end), None)
        damage = None if hole is None else _damage_at(store, hole, {}, [])
        if damage is None or there == before:
            break
    return damage


def set_aside_damaged(store: BlobStore, stream: str, seq: int) -> None:
    """Rename the segment that contains ``seq``, if damaged, to remove it from the stream."""
    log = DurableLog(store, stream)
    seqs = log.lookup(seq)
    if seqs is not None and why_broken(log, seqs, contents=True):
        log.set_aside(seqs)


def why_broken(log: DurableLog, seqs: SeqRange, *, contents: bool) -> str:
    """Return why a segment is damaged; "" if it is not. A failed read is retried first."""
    reason = ""
    near = is_near(log.store)
    first_look = log.open_whole if contents and not near else partial(log.open, checked=near)
    for open_file in (first_look, log.open_whole):
        try:
            file = open_file(seqs)
            try:
                seq = seqs.lo
                while contents and seq < seqs.hi:
                    seq = file.read_group(seq, verify=True).next_seq
            finally:
                file.close()
        except FileNotFoundError:
            return MISSING
        except CorruptSegmentError as error:
            reason = error.reason
        else:
            return ""
    return reason


def _holes(whole: SegmentIndex, start: int, end: int) -> Iterator[SeqRange]:
    seq = start
    while (lo := whole.contiguous_end(seq)) < end:
        following = [seqs.lo for seqs in whole.segments() if seqs.lo > lo]
        seq = min([*following, end])
        yield SeqRange(lo, seq)


def _sealed(store: BlobStore) -> list[SeqRange]:
    names = sealed_names(store) or ()
    return [seqs for name in names if (seqs := parse_segment_name(name)) is not None]


def _damage_at(
    store: BlobStore, hole: SeqRange, broken: dict[SeqRange, str], named: list[SeqRange]
) -> Damage:
    """Return a hole with its file: a damaged, deleted or missing one."""
    for seqs, reason in broken.items():
        if seqs.lo < hole.hi and hole.lo < seqs.hi:
            return Damage(hole, place_of(store, segment_name(seqs)), reason)
    lost = [seqs for seqs in named if seqs.lo < hole.hi and hole.lo < seqs.hi]
    return Damage(hole, place_of(store, segment_name(lost[0] if lost else hole)), MISSING)

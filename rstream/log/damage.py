"""Checks whether a stream is complete and intact on its store, and lists the items lost if not.

A stream is intact if its segments leave no hole from the low-water mark to its end and each agrees
with its footer. Where that costs no network, the bytes of each are compared with their checksum,
too; on request its items with their digest. A damaged segment that others cover is no loss.
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
    from collections.abc import Iterator

    from rstream.store.protocol import BlobStore

#: Segments that are looked at at a time.
CHECKERS_MAX = 4
MISSING = "it is not there"


@dataclass(frozen=True, slots=True)
class Damage:
    """The items from ``seqs.lo`` on are lost, because of this file."""

    seqs: SeqRange
    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def find_damage(
    store: BlobStore, stream: str, end: int | None, *, contents: bool, set_aside: bool = False
) -> list[Damage]:
    """What is lost of a durable stream, in order.

    ``end``: where it ends (None: where its last segment does). ``contents``: compare digests,
    too. ``set_aside``: damaged segments are taken out of the stream, and the seal with
    them, so that who writes it goes on where they were.
    """
    log = DurableLog(store, stream)
    there = log.segments()
    with ThreadPoolExecutor(CHECKERS_MAX, "segment-check") as checkers:
        reasons = checkers.map(lambda seqs: why_broken(log, seqs, contents=contents), there)
        broken = {seqs: why for seqs, why in zip(there, reasons, strict=True) if why}
    whole = SegmentIndex(seqs for seqs in there if seqs not in broken)
    named = [*there, *_sealed(store)]
    end = max((seqs.hi for seqs in named), default=0) if end is None else end
    found = [_damage_at(store, hole, broken, named) for hole in _holes(whole, log.mark, end)]
    for seqs in broken if set_aside else ():
        log.set_aside(seqs)
    if found and set_aside:
        break_seal(store)
    return found


def first_hole(store: BlobStore, stream: str, end: int) -> Damage | None:
    """The first items below ``end`` that no segment has, by the names alone."""
    log = DurableLog(store, stream)
    whole = SegmentIndex(log.segments())
    for hole in _holes(whole, log.mark, end):
        return _damage_at(store, hole, {}, [])
    return None


def set_aside_damaged(store: BlobStore, stream: str, seq: int) -> None:
    """Take the segment that holds ``seq`` out of the stream if it is damaged."""
    log = DurableLog(store, stream)
    seqs = log.lookup(seq)
    if seqs is not None and why_broken(log, seqs, contents=True):
        log.set_aside(seqs)


def why_broken(log: DurableLog, seqs: SeqRange, *, contents: bool) -> str:
    """What is wrong with a segment; empty if nothing is. A bad read is not taken for a bad file."""
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
    """A hole and its file: a damaged one, one that is gone, or the one that would fill it."""
    for seqs, reason in broken.items():
        if seqs.lo < hole.hi and hole.lo < seqs.hi:
            return Damage(hole, place_of(store, segment_name(seqs)), reason)
    lost = [seqs for seqs in named if seqs.lo < hole.hi and hole.lo < seqs.hi]
    return Damage(hole, place_of(store, segment_name(lost[0] if lost else hole)), MISSING)

"""The end of a stream: rewrites overlapping segments and seals the list of segments.

Writers that do not know of each other (an instance that lived on for a moment after it was
replaced) may cut segments at different places. Readers of this project tolerate that, but a plain
Parquet reader of the folder would see items twice. The new segment exists before the old ones are
deleted, so a crash in between leaves overlap, never a hole. A writer that counted as dead may still
wake up and flush. Therefore :func:`seal` names the segments of a complete stream, and readers of
the folder ignore all others from then on. Before it lists them it says that it seals, and from
then on no writer deletes what it has merged (:mod:`rstream.log.compaction`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa

from rstream.errors import SequenceLostError
from rstream.items.batch import Items
from rstream.log.durable import DurableLog, SegmentCursor
from rstream.store.blobs import open_store
from rstream.store.seals import CLOSING_NAME, SEAL_NAME, sealed_names
from rstream.store.segment_names import parse_segment_name, segment_name
from rstream.types import SeqRange

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rstream.store.protocol import BlobStore


def remove_overlap(uri_or_store: str | BlobStore) -> int:
    """Make the segments of a folder disjoint; gives how many files were deleted.

    Only while nobody writes to the stream. One listing where there is nothing to do.
    """
    store = open_store(uri_or_store) if isinstance(uri_or_store, str) else uri_or_store
    return _disjoint(store)[1]


def seal(uri_or_store: str | BlobStore) -> tuple[str, ...]:
    """Say that the stream is complete; gives the names of its segments, in order.

    What was collected is not named, be it there again (after a power loss) or still. Done again, it
    keeps to what was said first, if that can be read.

    Raises:
        SequenceLostError: there is a hole between its segments, or before the first.
    """
    store = open_store(uri_or_store) if isinstance(uri_or_store, str) else uri_or_store
    names = sealed_names(store)
    if names is None:
        store.put(CLOSING_NAME, b"")
        there = _disjoint(store)[0]
        end = DurableLog(store, store.uri).mark
        ranges = [seqs for seqs in there if seqs.hi > end]
        for seqs in ranges:
            if seqs.lo > end:
                raise SequenceLostError(store.uri, end)
            end = seqs.hi
        names = tuple(segment_name(seqs) for seqs in ranges)
        store.put(SEAL_NAME, json.dumps({"segments": names}, indent=1).encode())
    return names


def _disjoint(store: BlobStore) -> tuple[list[SeqRange], int]:
    """Which segments stay, of those that are there now, in order; and how many were deleted.

    What a writer that is not gone adds meanwhile is neither looked at nor named.
    """
    names = [parse_segment_name(name) for name in store.list()]
    deleted = 0
    end = 0
    kept: dict[SeqRange, None] = {}
    for seqs in _by_start(seqs for seqs in names if seqs is not None):
        if seqs in kept:
            continue
        if seqs.lo >= end:
            kept[seqs] = None
        else:
            if seqs.hi > end:
                rest = SeqRange(end, seqs.hi)
                _copy(store, rest)
                kept[rest] = None
            store.delete(segment_name(seqs))
            deleted += 1
        end = max(end, seqs.hi)
    return list(kept), deleted


def _by_start(segments: Iterable[SeqRange]) -> list[SeqRange]:
    """By first seq, of several the longest first."""
    return sorted(segments, key=lambda seqs: (seqs.lo, -seqs.hi))


def _copy(store: BlobStore, seqs: SeqRange) -> None:
    """Write the items of ``seqs`` as a segment of their own."""
    found = DurableLog(store, store.uri)
    log = DurableLog(store, store.uri, form=found.read_form())
    cursor = SegmentCursor(log)
    batches: list[pa.RecordBatch] = []
    seq = seqs.lo
    while seq < seqs.hi:
        items = cursor.read(seq, seqs.hi - seq)
        assert items is not None, f"{store.uri}: seq {seq} vanished"
        batches.append(items.batch)
        seq = items.next_seq
    cursor.close()
    log.write(Items(seqs.lo, pa.concat_batches(batches)))

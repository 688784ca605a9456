"""Completes a stream: rewrites overlapping segments and seals the list of segments.

Writers that do not know of each other may end segments at different seqs, such as an instance that
continued for a moment after it was replaced. Readers of this project tolerate overlap, but a plain
Parquet reader of the folder would see items twice. The new segment exists before the old ones are
deleted, so a crash in between leaves overlap, never a hole. A writer that was considered dead may
still flush. Therefore :func:`seal` lists the segments of a complete stream, and readers of the
folder ignore all others. Before :func:`seal` lists them, it records that it has started; after that
no writer deletes segments that it has merged (:mod:`rstream.log.compaction`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa

from rstream.errors import SequenceLostError
from rstream.items.batch import Items
from rstream.log.durable import DurableLog
from rstream.log.reader import SegmentCursor
from rstream.store.blobs import open_store
from rstream.store.fences import remove_invalid, valid_segments
from rstream.store.seals import CLOSING_NAME, SEAL_NAME, sealed_names
from rstream.store.segment_names import segment_name
from rstream.types import SeqRange

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rstream.store.protocol import BlobStore


def remove_overlap(uri_or_store: str | BlobStore) -> int:
    """Make the segments of a folder disjoint; return the number of deleted files.

    No process may write to the stream meanwhile. If there is no overlap, a single listing is read.
    """
    store = open_store(uri_or_store) if isinstance(uri_or_store, str) else uri_or_store
    return _disjoint(store)[1]


def seal(uri_or_store: str | BlobStore) -> tuple[str, ...]:
    """Record that the stream is complete; return the names of its segments, in order.

    Deleted segments are not included, even if a power failure has restored them. If the stream has
    a readable seal already, the seal does not change.

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
    """Make the segments disjoint; return those that remain in order, and the number deleted.

    Segments that a live writer adds meanwhile are neither checked nor included.
    """
    names = store.list()
    files, deleted = valid_segments(names), remove_invalid(store, names)
    end = 0
    kept: dict[SeqRange, None] = {}
    for seqs in _by_start(files):
        if seqs in kept:
            continue
        if seqs.lo >= end and seqs == files[seqs]:
            kept[seqs] = None
        else:
            if seqs.hi > end:
                rest = SeqRange(max(end, seqs.lo), seqs.hi, seqs.generation)
                copy_range(store, rest)
                kept[rest] = None
            store.delete(segment_name(files[seqs]))
            deleted += 1
        end = max(end, seqs.hi)
    return list(kept), deleted


def _by_start(segments: Iterable[SeqRange]) -> list[SeqRange]:
    """Sort by first seq; of equal first seqs, the longest segment first."""
    return sorted(segments, key=lambda seqs: (seqs.lo, -seqs.hi))


def copy_range(store: BlobStore, seqs: SeqRange) -> None:
    """Write the items of ``seqs`` as a separate segment of their generation."""
    source = DurableLog(store, store.uri)
    log = DurableLog(store, store.uri, form=source.read_form(), generation=seqs.generation)
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

"""Truncates a stream that has no writer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rstream.log.durable import DurableLog, SegmentCursor
from rstream.log.tail import Cut
from rstream.store.segment_names import segment_name

if TYPE_CHECKING:
    from rstream.store.protocol import BlobStore
    from rstream.types import SeqRange


def truncate(store: BlobStore, end: int) -> None:
    """Delete all items from seq ``end`` on. A segment that contains ``end`` is rewritten.

    A second call with the same ``end`` changes nothing.
    """
    plain = DurableLog(store, store.uri)
    beyond = [seqs for seqs in plain.segments() if seqs.hi > end]
    for seqs in beyond:
        if seqs.lo < end:
            _keep_head(store, seqs, end)
    for seqs in beyond:
        store.delete(segment_name(seqs))


def _keep_head(store: BlobStore, seqs: SeqRange, end: int) -> None:
    plain = DurableLog(store, store.uri)
    cursor, found, seq = SegmentCursor(plain), [], seqs.lo
    try:
        while seq < end:
            items = cursor.read(seq, end - seq)
            assert items is not None, (store.uri, seq)
            found.append(items)
            seq = items.next_seq
    finally:
        cursor.close()
    log = DurableLog(store, store.uri, schema=found[0].batch.schema, form=plain.read_form())
    log.write(Cut.of(found))

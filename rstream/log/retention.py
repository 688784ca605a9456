"""Deletes the oldest items of an output, and keeps their digest.

Only whole segments of an output are deleted, and its newest segment is kept. The digest of all
deleted items is durable before the first deletion. So a delivery can still compare the whole output
with the rows it has delivered, and so can :func:`jobmanager.storage.output_check.verify_output`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rstream.errors import StoreError
from rstream.log.prefix_digest import PrefixDigest
from rstream.store.marks import drop_beginnings, put_beginning

if TYPE_CHECKING:
    from rstream.log.durable import DurableLog


def mark_below(log: DurableLog, mark: int, durable_seq: int) -> int:
    """Return the seq below which items may be deleted; for an output, the end of a segment."""
    return log.boundary(min(mark, durable_seq)) if log.keeps_digest else mark


def collect(log: DurableLog, mark: int, *, is_final: bool = True) -> None:
    """Delete the segments completely below ``mark``; see :meth:`DurableLog.collect`.

    Raises:
        StoreError, CorruptSegmentError: not everything was deleted; a later call continues.
    """
    if not log.keeps_digest:
        log.collect(mark, is_final=is_final)
        return
    boundary = log.boundary(mark)
    if boundary > log.mark:
        past = PrefixDigest(log.store)
        if past.reach(boundary):
            put_beginning(log.store, boundary, past.digest.to_bytes())
        elif past.seq < boundary:
            raise StoreError(log.uri, f"its items from {past.seq} on are missing")
        else:  # another writer has deleted more
            log.refresh()
    log.collect(boundary, is_final=False)
    drop_beginnings(log.store, boundary)

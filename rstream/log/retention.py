"""Collects the first items of an output, and keeps the digest of what is gone.

An output is collected in whole segments, and its newest segment stays. The digest of all that goes
is noted durably before anything is deleted: a delivery still compares the whole past of the output
with what it has delivered, and :func:`jobmanager.storage.output_check.verify_output` too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rstream.errors import StoreError
from rstream.log.prefix_digest import PrefixDigest
from rstream.store.marks import drop_beginnings, put_beginning

if TYPE_CHECKING:
    from rstream.log.durable import DurableLog


def mark_below(log: DurableLog, mark: int, durable_seq: int) -> int:
    """How much of what lies below ``mark`` may go: of an output whole segments."""
    return log.boundary(min(mark, durable_seq)) if log.keeps_digest else mark


def collect(log: DurableLog, mark: int, *, is_final: bool = True) -> None:
    """Delete the segments wholly below ``mark``; see :meth:`DurableLog.collect`.

    Raises:
        StoreError, CorruptSegmentError: nothing or not all was deleted; a later call goes on.
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
            raise StoreError(log.uri, f"its items from {past.seq} on are not there")
        else:  # another writer has collected more
            log.refresh()
    log.collect(boundary, is_final=False)
    drop_beginnings(log.store, boundary)

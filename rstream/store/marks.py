"""Where a stream begins whose first items were collected: its low-water mark, or its beginning.

A channel has ``_low_water_mark``, which is written anew. A stream whose past is compared by digest
(an output, which was delivered) has ``_begins-<seq>``: its name says where it begins, its content
is the digest of all that lay below. Such a file states a fact that never changes, so it does not
matter which of several writers put it, or when; the greatest counts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rstream.store.protocol import BlobStore
    from rstream.types import SeqRange

MARK_NAME = "_low_water_mark"
_DIGITS = 20
_BEGINS = re.compile(rf"_begins-(\d{{{_DIGITS}}})")
_END = b"\n"
#: Where a stream begins of which nothing was collected; an empty digest: that of no item.
FROM_THE_START = (0, b"")


def read_mark(store: BlobStore, ranges: Sequence[SeqRange]) -> int:
    """The persisted mark; if its file is cut, the lowest segment that is left says it.

    Without an end of line it is cut, or an earlier version wrote it: then it is not too high.
    """
    data = store.get(MARK_NAME)
    digits = data.removesuffix(_END)
    found = int(digits) if digits.isdigit() else 0
    if found and data.endswith(_END):
        return found
    return max(found, min((seqs.lo for seqs in ranges), default=0))


def raise_mark(store: BlobStore, mark: int, doomed: Sequence[SeqRange]) -> int:
    """Persist the mark, or the higher one that is there: a replaced writer may be behind.

    ``doomed``: the segments that are to go; gives the mark.
    """
    if store.exists(MARK_NAME):
        mark = max(mark, read_mark(store, doomed))
    store.put(MARK_NAME, b"%d\n" % mark)
    return mark


def beginnings(names: Iterable[str]) -> list[int]:
    """The beginnings that are noted, sorted."""
    return sorted(int(match[1]) for name in names if (match := _BEGINS.fullmatch(name)))


def read_beginning(store: BlobStore, seqs: Sequence[int]) -> tuple[int, bytes]:
    """The greatest of these that can be read, with the digest of what lay below.

    One that is cut is passed over: what it stands for was not deleted yet.
    """
    for seq in reversed(seqs):
        try:
            digits = store.get(_begins_name(seq))
        except FileNotFoundError:  # a greater one took its place
            continue
        if digits.endswith(_END):
            return seq, bytes.fromhex(digits.decode())
    return FROM_THE_START


def put_beginning(store: BlobStore, seq: int, digest: bytes) -> None:
    """Say that the stream begins at ``seq``."""
    store.put(_begins_name(seq), digest.hex().encode() + _END)


def drop_beginnings(store: BlobStore, below: int) -> None:
    """Delete those that a greater one has replaced."""
    for seq in beginnings(store.list()):
        if seq < below:
            store.delete(_begins_name(seq))


def _begins_name(seq: int) -> str:
    return f"_begins-{seq:0{_DIGITS}d}"

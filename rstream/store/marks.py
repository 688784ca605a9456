"""The start of a stream whose oldest items were deleted: a low-water mark, or a beginning.

A channel has a file ``_low_water_mark``, which is overwritten. A stream whose past is compared by
digest (a delivered output) has files ``_begins-<seq>``: the name contains the first remaining seq,
the content is the digest of all items below. Such a file never changes, so any writer may create it
at any time; the greatest seq is valid.
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
#: Start of a stream without deleted items. An empty digest stands for no items.
FROM_THE_START = (0, b"")


def read_mark(store: BlobStore, ranges: Sequence[SeqRange]) -> int:
    """Return the persisted mark; if its file is incomplete, the start of the lowest segment.

    A file without a newline is incomplete or has an earlier format. Such a mark is not too high.
    """
    data = store.get(MARK_NAME)
    digits = data.removesuffix(_END)
    seq = int(digits) if digits.isdigit() else 0
    if seq and data.endswith(_END):
        return seq
    return max(seq, min((seqs.lo for seqs in ranges), default=0))


def raise_mark(store: BlobStore, mark: int, doomed: Sequence[SeqRange]) -> int:
    """Persist the mark, unless a higher one exists, since a replaced writer may lag behind.

    ``doomed``: the segments to be deleted. Returns the valid mark.
    """
    if store.exists(MARK_NAME):
        mark = max(mark, read_mark(store, doomed))
    store.put(MARK_NAME, b"%d\n" % mark)
    return mark


def beginnings(names: Iterable[str]) -> list[int]:
    """Return the seqs of all beginnings, sorted."""
    return sorted(int(match[1]) for name in names if (match := _BEGINS.fullmatch(name)))


def read_beginning(store: BlobStore, seqs: Sequence[int]) -> tuple[int, bytes]:
    """Return the greatest readable beginning, with the digest of all items below it.

    An incomplete file is skipped: the items below its seq have not been deleted yet.
    """
    for seq in reversed(seqs):
        try:
            digits = store.get(_begins_name(seq))
        except FileNotFoundError:  # replaced by a greater beginning
            continue
        if digits.endswith(_END):
            return seq, bytes.fromhex(digits.decode())
    return FROM_THE_START


def put_beginning(store: BlobStore, seq: int, digest: bytes) -> None:
    """Record that the stream starts at ``seq``."""
    store.put(_begins_name(seq), digest.hex().encode() + _END)


def drop_beginnings(store: BlobStore, below: int) -> None:
    """Delete the beginnings that a greater one has replaced."""
    for seq in beginnings(store.list()):
        if seq < below:
            store.delete(_begins_name(seq))


def _begins_name(seq: int) -> str:
    return f"_begins-{seq:0{_DIGITS}d}"

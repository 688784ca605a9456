"""Verify mode: checks that two writers of a stream wrote the same items."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rstream.errors import (
    CorruptSegmentError,
    SequenceConflictError,
    SequenceDiscardedError,
    SequenceLostError,
)
from rstream.items.batch import CTI, KIND, VE, VS, Items
from rstream.items.digest import content_hashes

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa


def check_same(stream: str, read: Callable[[int, int], Items | None], given: Items) -> None:
    """Compare ``given`` with the stored items, which ``read(seq, items_max)`` returns.

    Items that ``read`` does not return, or that are lost, damaged or deleted, are not compared.

    Raises:
        SequenceConflictError: an item differs.
    """
    while given.batch.num_rows:
        try:
            kept = read(given.first_seq, given.batch.num_rows)
        except (SequenceLostError, SequenceDiscardedError, CorruptSegmentError):
            return
        if kept is None:
            return
        hashes = content_hashes(given.head(kept.batch.num_rows).batch)
        differs = hashes != content_hashes(kept.batch)
        if differs.any():
            at = int(differs.argmax())
            old, new = _row(kept.batch, at), _row(given.batch, at)
            raise SequenceConflictError(stream, given.first_seq + at, old, new)
        given = given.from_seq(kept.next_seq)


def _row(batch: pa.RecordBatch, at: int) -> str:
    """Return an item as text: kind, lifetime, payload."""
    (row,) = batch.slice(at, 1).to_pylist()
    kind, vs, ve = row.pop(KIND), row.pop(VS), row.pop(VE)
    if kind == CTI:
        return f"CTI({vs})"
    payload = ", ".join(f"{name}={value!r}" for name, value in row.items())
    return f"[{vs}, {ve}) {payload}"

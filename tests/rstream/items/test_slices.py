"""Slices of batches: parts of given lengths, and the batches again while all slices are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from hypothesis import given, strategies as st

from rstream.items.slices import Slices

if TYPE_CHECKING:
    from collections.abc import Sequence

LENGTHS = st.lists(st.integers(1, 6), max_size=6)


@given(LENGTHS, LENGTHS, st.integers(0, 6))
def test_parts_become_batches_again(rows: list[int], lengths: list[int], gone: int) -> None:
    values = iter(range(100))
    batches = [pa.record_batch({"x": [next(values) for _ in range(n)]}) for n in rows]
    lengths = [n for k, n in enumerate(lengths) if sum(lengths[: k + 1]) <= sum(rows)]
    slices = Slices()
    parts = slices.cut(batches, lengths)
    assert [sum(b.num_rows for b in part) for part in parts] == [
        *lengths, sum(rows) - sum(lengths),
    ]  # fmt: skip
    for _ in range(2):  # checkpoints
        joined = slices.joined([batch for part in parts for batch in part])
        assert all(a is b for a, b in zip(joined, batches, strict=True))
    kept = [batch for k, part in enumerate(parts) if k != gone for batch in part]
    for _ in range(2):
        joined = slices.joined(kept)
        assert values_of(joined) == values_of(kept)
    assert all(any(whole is b for b in joined) for whole, _ in slices._whole.values())


def values_of(batches: Sequence[pa.RecordBatch]) -> list[int]:
    return [value for batch in batches for value in batch["x"].to_pylist()]

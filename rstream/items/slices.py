"""Divides the batches of a restored table among parts, and joins them again for a checkpoint.

A checkpoint joins short batches, so parts may share a batch after a restore. If the next checkpoint
had slices of it, these would be new to it, and uploaded.
"""

from __future__ import annotations

import itertools
import operator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa


class Slices:
    """Slices that are the original batches again if all of them are still consecutive.

    The first column of the batches is of numbers.
    """

    def __init__(self) -> None:
        #: By the place of its first slice: a batch, and its slices.
        self._whole: dict[tuple[int, int], tuple[pa.RecordBatch, list[pa.RecordBatch]]] = {}

    def cut(
        self, batches: Sequence[pa.RecordBatch], lengths: Sequence[int]
    ) -> list[list[pa.RecordBatch]]:
        """Divide the rows into parts of these positive lengths, and one part with the rest."""
        parts: list[list[pa.RecordBatch]] = [[] for _ in range(len(lengths) + 1)]
        ends = np.cumsum(lengths)
        first = 0
        for batch in batches:
            part = int(ends.searchsorted(first, side="right"))
            inside = ends[part : ends.searchsorted(first + batch.num_rows)] - first
            bounds = itertools.pairwise([0, *inside.tolist(), batch.num_rows])
            slices = [batch.slice(lo, hi - lo) for lo, hi in bounds] if len(inside) else [batch]
            if len(inside):
                self._whole[_place(slices[0])] = batch, slices
            for k, some in enumerate(slices):
                parts[part + k].append(some)
            first += batch.num_rows
        assert first >= sum(lengths), "the index is of other rows"
        return parts

    def joined(self, batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Return the same rows, with a batch instead of all of its slices.

        Batches of which slices are missing are forgotten, since their files would stay.
        """
        joined: list[pa.RecordBatch] = []
        before, self._whole = self._whole, {}
        at = 0
        while at < len(batches):
            alone = batches[at], [batches[at]]
            whole, slices = before.get(_place(batches[at]), alone)
            there = batches[at : at + len(slices)]
            if len(there) < len(slices) or any(map(operator.is_not, there, slices)):
                whole, slices = alone
            elif whole is not alone[0]:
                self._whole[_place(slices[0])] = whole, slices
            joined.append(whole)
            at += len(slices)
        return joined


def _place(batch: pa.RecordBatch) -> tuple[int, int]:
    """Return a number that no other existing slice has: its address, and its first row there."""
    column = batch.column(0)
    return column.buffers()[1].address, column.offset

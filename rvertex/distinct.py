"""Distinct values of groups: what ``count_distinct`` keeps, in eight bytes a value and group.

Values get codes; what is kept is pairs of group and value code, packed into 64 bits, in sorted runs
of growing length: rows cost a sort of their own few, and runs are merged when they are about as
long as what came after them, so a pair is moved a logarithmic number of times.

Invariants: (1) exact: 0.0 equals -0.0, NaN equals NaN; (2) a run has each pair once, ascending, and
is never changed; (3) a column depends on the set of values alone: the lists are ascending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rvertex.accumulators import numbers
from rvertex.by_key import group_starts
from rvertex.key_table import KeyTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.accumulators import Rows, Saved

_CODE_BITS = np.int64(32)
_VALUE_MASK = np.int64(2**32 - 1)
#: What becomes of so many rows at a time is all that an update holds beside the runs.
_PIECE_MAX_ROWS = 1 << 18


class Distinct:
    """The different values of each group as lists; of lists of them (``merges``) their number."""

    def __init__(self, column: str, kind: pa.DataType, *, merges: bool) -> None:
        """``kind``: of the values."""
        self._column = column
        self._merges = merges
        self._values = KeyTable([kind])
        self._groups = 0
        self._runs: list[np.ndarray] = []

    def update(self, rows: Rows) -> None:
        self._groups = rows.groups
        read = rows.elements if self._merges else rows.valid
        codes, values = read(self._column)
        for at in range(0, len(codes), _PIECE_MAX_ROWS):
            piece = values.slice(at, _PIECE_MAX_ROWS)
            pairs = codes[at : at + len(piece)] << _CODE_BITS
            pairs |= self._values.codes([piece], len(piece))
            self._push(_unique(pairs))

    def columns(self) -> list[pa.Array]:
        pairs = self._whole()
        counts = np.bincount(pairs >> _CODE_BITS, minlength=self._groups)
        if self._merges:
            return [pa.array(counts.astype(np.int64, copy=False))]
        (values,) = self._values.keys()
        order = _ascending(values)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        ranked = rank[pairs & _VALUE_MASK]
        ranked |= pairs & ~_VALUE_MASK
        ranked.sort()
        ranked &= _VALUE_MASK
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        elements = values.take(pa.array(order)).take(pa.array(ranked))
        return [pa.ListArray.from_arrays(pa.array(offsets), elements)]

    def save(self) -> list[Saved]:
        pairs = pa.chunked_array([pa.array(run) for run in self._runs], pa.int64())
        return [pairs, self._values.save()["key0"].column(0), pa.array([self._groups])]

    def restore(self, state: Sequence[pa.ChunkedArray]) -> None:
        pairs, values, groups = state
        table = {"groups": pa.table({"code": pa.nulls(len(values))})}
        self._values.restore({**table, "key0": pa.table({"key": values})})
        self._runs = [numbers(chunk) for chunk in pairs.chunks]
        # Chunks need not be the runs that were saved.
        self._runs = [_unique(np.concatenate(self._runs))] if self._runs else []
        self._groups = groups[0].as_py()

    def _push(self, run: np.ndarray) -> None:
        merged, rows = [run], len(run)
        while self._runs and len(self._runs[-1]) <= 2 * rows:
            merged.append(self._runs.pop())
            rows += len(merged[-1])
        self._runs.append(run if len(merged) == 1 else _unique(np.concatenate(merged)))

    def _whole(self) -> np.ndarray:
        if len(self._runs) > 1:
            self._runs = [_unique(np.concatenate(self._runs))]
        return self._runs[0] if self._runs else np.empty(0, np.int64)


def _unique(pairs: np.ndarray) -> np.ndarray:
    """Each pair once, ascending; sorts ``pairs`` in place."""
    pairs.sort()
    first = group_starts(pairs)
    return pairs if first.all() else pairs[first]


def _ascending(values: pa.Array) -> np.ndarray:
    """The order of different values by size: int64[n]."""
    if pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    try:
        return pc.sort_indices(values).to_numpy().astype(np.int64)  # type: ignore[no-any-return]
    except pa.ArrowNotImplementedError:  # Arrow has no order for the type, Python has.
        plain = values.to_pylist()
        return np.array(sorted(range(len(plain)), key=plain.__getitem__), np.int64)

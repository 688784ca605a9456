"""The value of the row with the greatest or least rank: ``max_by`` and ``min_by``.

Their input is one column of structs ``(rank, vs, value)``, so that an aggregate still has one
column and its partial results are again such structs. Values may come as dictionaries; those kept
are plain. Rows without a rank do not count; of equal ranks the earliest row is taken, by ``vs``,
then in sequence order. NaN is greater than every number.

Invariants: those of :mod:`rvertex.accumulators`; the result does not depend on the order in which
partial results are merged, as long as equal (rank, vs) come in sequence order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rstream.dictionaries import is_dictionary, plain_array, plain_type
from rvertex.accumulators import is_numpy_ordered, numbers, whole
from rvertex.group_arrays import ArrowStore, GroupArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.accumulators import Rows, Saved

FIELDS = ("rank", "vs", "value")
_LEAST = np.iinfo(np.int64).min
_SIGN = np.int64(2**63 - 1)


def ranked_type(rank: pa.DataType, value: pa.DataType) -> pa.DataType:
    """The type of a value with its rank."""
    return pa.struct(list(zip(FIELDS, (rank, pa.int64(), value), strict=True)))


def is_ranked_type(kind: pa.DataType) -> bool:
    """Whether it is such a type, with a rank that can be compared."""
    return (
        pa.types.is_struct(kind)
        and tuple(field.name for field in kind) == FIELDS
        and is_numpy_ordered(kind.field(0).type)
    )


def plain_ranked(kind: pa.DataType) -> pa.DataType:
    """The type with plain values, if it is such a type; else the type itself."""
    if not is_ranked_type(kind) or not is_dictionary(value_type(kind)):
        return kind
    return ranked_type(kind.field(0).type, plain_type(value_type(kind)))


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type of the value."""
    return kind.field(2).type


def values_of(column: pa.Array) -> pa.Array:
    """The values; null where there is no struct."""
    return pc.struct_field(column, 2)


class Ranked:
    """The struct with the greatest (``is_max``) or least rank per group."""

    def __init__(self, column: str, kind: pa.DataType, *, is_max: bool) -> None:
        self._column = column
        self._kind = kind
        self._is_max = is_max
        self._store = ArrowStore(kind)
        self._keys = GroupArray(np.int64, _LEAST)
        self._times = GroupArray(np.int64, 0)
        self._seen = GroupArray(np.bool_, False)

    def update(self, rows: Rows) -> None:
        """Fold rows in."""
        self._store.grow(rows.groups)
        best, times = self._keys.writable(rows.groups), self._times.writable(rows.groups)
        seen = self._seen.writable(rows.groups)
        codes, column = _with_rank(*rows.valid(self._column))
        if len(codes) == 0:
            return
        keys, vs = self._order(column), numbers(pc.struct_field(column, 1))
        hits, is_better = _best_rows(best, codes, keys)
        # The carried row stays, unless it is worse, or as good and later.
        code = codes[hits]
        hits = hits[~seen[code] | is_better | (vs[hits] < times[code])]
        hits = hits[np.argsort(vs[hits], kind="stable")]
        picked = hits[np.sort(np.unique(codes[hits], return_index=True)[1])]
        if len(picked) == 0:
            return
        code = codes[picked]
        times[code], seen[code] = vs[picked], True
        self._store.put(code, _decoded(column.take(pa.array(picked)), self._kind))

    def columns(self) -> list[pa.Array]:
        """The structs, null where there is none."""
        return [self._store.values()]

    def save(self) -> list[Saved]:
        """The structs by reference; keys and times follow from them."""
        return [*self._store.save()]

    def restore(self, state: Sequence[pa.ChunkedArray]) -> None:
        """Continue from what ``save`` returned."""
        self._store.restore(state[0], numbers(whole(state[1])))
        column = self._store.values()
        seen = column.is_valid().to_numpy(zero_copy_only=False)
        known = column.drop_null()
        for array, fill, values in (
            (self._keys, _LEAST, self._order(known)),
            (self._times, 0, numbers(pc.struct_field(known, 1))),
        ):
            whole_array = np.full(len(seen), fill, np.int64)
            whole_array[seen] = values
            array.adopt(whole_array)
        self._seen.adopt(seen)

    def _order(self, column: pa.Array) -> np.ndarray:
        """The ranks as int64 whose greatest is the best."""
        keys = _sortable(pc.struct_field(column, 0))
        return keys if self._is_max else ~keys


def _best_rows(
    best: np.ndarray, codes: np.ndarray, keys: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Raise ``best``, by group, to the greatest keys.

    Returns: the rows that have these, and which of them exceed what was best before.
    """
    if len(best) == 1:  # a reduction takes a fraction of the time
        before = int(best[0])
        best[0] = max(before, int(keys.max()))
        hits = np.flatnonzero(keys == best[0])
        return hits, keys[hits] > before
    exceeded = best[codes]
    np.maximum.at(best, codes, keys)
    hits = np.flatnonzero(keys == best[codes])
    return hits, keys[hits] > exceeded[hits]


def _decoded(column: pa.StructArray, kind: pa.DataType) -> pa.StructArray:
    """Structs, none of them null, with plain values."""
    if column.type.equals(kind):
        return column
    fields = [plain_array(pc.struct_field(column, i)) for i in range(len(FIELDS))]
    return pa.StructArray.from_arrays(fields, fields=list(kind))


def _with_rank(codes: np.ndarray, column: pa.Array) -> tuple[np.ndarray, pa.Array]:
    ranks = pc.struct_field(column, 0)
    if not ranks.null_count:
        return codes, column
    has_rank = ranks.is_valid()
    return codes[has_rank.to_numpy(zero_copy_only=False)], column.filter(has_rank)


def _sortable(ranks: pa.Array) -> np.ndarray:
    """Numbers, times or booleans as int64 in the same order; NaN comes last."""
    values = numbers(ranks)
    if values.dtype == np.uint64:
        return values.view(np.int64) ^ np.int64(_LEAST)
    if values.dtype.kind != "f":
        return values.astype(np.int64, copy=False)
    doubles = values.astype(np.float64) + 0.0
    doubles[np.isnan(doubles)] = np.nan
    bits = doubles.view(np.int64)
    ordered: np.ndarray = np.where(bits < 0, bits ^ _SIGN, bits)
    return ordered

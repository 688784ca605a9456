"""The value of the row with the greatest or smallest rank: ``max_by`` and ``min_by``.

The input is one column of structs ``(rank, vs, value)``. So an aggregate still has one column, and
its partial results are structs of the same type. Input values may be dictionary-encoded; stored
values are plain. Rows without a rank are skipped. Ties return the row with the smallest ``vs``,
then the first in row order. NaN is greater than every number.

If aggregates of two columns have the same rank, the row is searched once. Two columns have the same
ranks and times if they share their buffers. Two accumulators have the same ranks and times if they
have had the same updates so far, which their versions show.

Invariants: as in :mod:`rvertex.aggregates.accumulators`; and the result does not depend on the
order in which partial results are merged, if rows with equal (rank, vs) arrive in row order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rstream.items.dictionaries import is_dictionary, plain_array, plain_type
from rvertex.aggregates.accumulators import is_numpy_ordered
from rvertex.events.arrays import as_one_array, numbers
from rvertex.events.group_arrays import ArrowStore, GroupArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.aggregates.accumulators import Rows, Saved

FIELDS = ("rank", "vs", "value")
_LEAST = np.iinfo(np.int64).min
_SIGN = np.int64(2**63 - 1)


def ranked_type(rank: pa.DataType, value: pa.DataType) -> pa.DataType:
    """Return the struct type of a value with its rank."""
    return pa.struct(list(zip(FIELDS, (rank, pa.int64(), value), strict=True)))


def is_ranked_type(kind: pa.DataType) -> bool:
    """Return whether the type is a :func:`ranked_type` whose rank can be compared."""
    return (
        pa.types.is_struct(kind)
        and tuple(field.name for field in kind) == FIELDS
        and not pa.types.is_nested(kind.field(0).type)
        and not pa.types.is_null(kind.field(0).type)
    )


def has_numbers(kind: pa.DataType) -> bool:
    """Return whether the ranks are numbers, times or booleans, which :class:`Ranked` needs."""
    return is_numpy_ordered(kind.field(0).type)


def plain_ranked(kind: pa.DataType) -> pa.DataType:
    """Return a :func:`ranked_type` without dictionary encoding of the value.

    Any other type is returned unchanged.
    """
    if not is_ranked_type(kind) or not is_dictionary(value_type(kind)):
        return kind
    return ranked_type(kind.field(0).type, plain_type(value_type(kind)))


def value_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the value of a :func:`ranked_type`."""
    return kind.field(2).type


def values_of(column: pa.Array) -> pa.Array:
    """Return the values of the structs; null where the struct is null."""
    return pc.struct_field(column, 2)


class Ranked:
    """Keeps, per group, the struct with the greatest (``is_max``) or smallest rank."""

    def __init__(self, column: str, kind: pa.DataType, *, is_max: bool) -> None:
        self._column = column
        self._kind = kind
        self._is_max = is_max
        self._store = ArrowStore(kind)
        self._keys = GroupArray(np.int64, _LEAST)
        self._times = GroupArray(np.int64, 0)
        self._has_value = GroupArray(np.bool_, False)
        #: Accumulators of equal version have the same ranks and times, so they select the same
        #: rows.
        self._version: object = None

    def update(self, rows: Rows) -> None:
        """Add rows to the groups."""
        self._store.grow(rows.groups)
        best, times = self._keys.writable(rows.groups), self._times.writable(rows.groups)
        has_value = self._has_value.writable(rows.groups)
        codes, column = with_rank(*rows.valid(self._column))
        if len(codes) == 0:
            return
        same = (*_place(column.field(0)), *_place(column.field(1)), self._is_max)
        winners = rows.found.get(same)
        if not isinstance(winners, _Winners) or winners.before is not self._version:
            winners = self._winners(codes, column, best, times, has_value)
            rows.found[same] = winners
        self._version = winners
        code = winners.codes
        if len(code) == 0:
            return
        best[code], times[code], has_value[code] = winners.keys, winners.times, True
        values = plain_array(column.field(2).take(winners.at))
        kept = pa.StructArray.from_arrays([*winners.ranks, values], fields=list(self._kind))
        self._store.put(code, kept)

    def columns(self) -> list[pa.Array]:
        """Return the structs, null for groups without one."""
        return [self._store.values()]

    def save(self) -> list[Saved]:
        """Return the structs by reference. ``restore`` recomputes keys and times from them."""
        return [*self._store.save()]

    def restore(self, state: Sequence[pa.ChunkedArray]) -> None:
        """Restore the state that ``save`` returned."""
        self._version = object()
        self._store.restore(state[0], numbers(as_one_array(state[1])))
        column = self._store.values()
        has_value = column.is_valid().to_numpy(zero_copy_only=False)
        known = column.drop_null()
        for array, fill, values in (
            (self._keys, _LEAST, self._order(known)),
            (self._times, 0, numbers(pc.struct_field(known, 1))),
        ):
            filled = np.full(len(has_value), fill, np.int64)
            filled[has_value] = values
            array.adopt(filled)
        self._has_value.adopt(has_value)

    def _winners(
        self,
        codes: np.ndarray,
        column: pa.StructArray,
        best: np.ndarray,
        times: np.ndarray,
        has_value: np.ndarray,
    ) -> _Winners:
        """Find the rows that replace a stored row, at most one per group."""
        keys, vs = self._order(column), numbers(column.field(1))
        hits, is_better = _best_rows(best, codes, keys)
        # The stored row stays if its rank is better, or equal with an earlier or equal start.
        code = codes[hits]
        hits = hits[~has_value[code] | is_better | (vs[hits] < times[code])]
        if len(hits) > 1:
            hits = hits[np.argsort(vs[hits], kind="stable")]
            hits = hits[np.sort(np.unique(codes[hits], return_index=True)[1])]
        at = pa.array(hits)
        ranks = (column.field(0).take(at), column.field(1).take(at))
        return _Winners(self._version, column, at, codes[hits], keys[hits], vs[hits], ranks)

    def _order(self, column: pa.Array) -> np.ndarray:
        """Convert ranks to int64 so that the greatest is the best."""
        keys = _sortable(column.field(0))
        return keys if self._is_max else ~keys


@dataclass(frozen=True, slots=True, eq=False)
class _Winners:
    """The replacements of one update; also the new version, of which ``before`` is the predecessor.

    Rows ``at`` int64[m] replace the rows of the groups ``codes``. ``keys`` are their ranks as
    comparable int64, and ``times`` their starts. ``ranks`` has both as columns. ``column`` is
    referenced so that its buffers are not reused for other data.
    """

    before: object
    column: pa.StructArray
    at: pa.Int64Array
    codes: np.ndarray
    keys: np.ndarray
    times: np.ndarray
    ranks: tuple[pa.Array, pa.Array]


def _place(column: pa.Array) -> tuple[pa.DataType, int, int, int]:
    """Return a key of a column's buffers.

    If two such keys are equal while both columns exist and have no nulls, the columns are equal.
    """
    return (column.type, column.buffers()[1].address, column.offset, len(column))


def _best_rows(
    best: np.ndarray, codes: np.ndarray, keys: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Find the rows with the greatest keys of their groups; ``best``: the greatest so far.

    Returns the rows, and which of them exceed the previous ``best`` of their group. Overwrites
    ``best`` where a row exceeds it.
    """
    if len(best) == 1:  # a reduction is much faster than ``ufunc.at``
        before, greatest = int(best[0]), int(keys.max())
        if greatest < before:
            return np.empty(0, np.int64), np.empty(0, bool)
        hits = np.flatnonzero(keys == greatest)
        return hits, np.full(len(hits), greatest > before)
    exceeded = best[codes]
    np.maximum.at(best, codes, keys)
    hits = np.flatnonzero(keys == best[codes])
    return hits, keys[hits] > exceeded[hits]


def with_rank(codes: np.ndarray, column: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Return the rows that have a rank, and their codes."""
    ranks = pc.struct_field(column, 0)
    if not ranks.null_count:
        return codes, column
    has_rank = ranks.is_valid()
    return codes[has_rank.to_numpy(zero_copy_only=False)], column.filter(has_rank)


def _sortable(ranks: pa.Array) -> np.ndarray:
    """Convert numbers, times or booleans to int64 in the same order; NaN is the greatest."""
    values = numbers(ranks)
    if values.dtype == np.uint64:
        return values.view(np.int64) ^ np.int64(_LEAST)
    if values.dtype.kind != "f":
        return values.astype(np.int64, copy=False)
    doubles = values.astype(np.float64) + 0.0
    doubles[np.isnan(doubles)] = np.nan
    bits = doubles.view(np.int64)
    ordered: np.ndarray = np.where(np.signbit(doubles), bits ^ _SIGN, bits)
    return ordered

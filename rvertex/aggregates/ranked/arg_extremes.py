"""The value of the row with the greatest or least rank: ``max_by`` and ``min_by``.

Their input is one column of structs ``(rank, vs, value)``, so that an aggregate still has one
column and its partial results are again such structs. Values may come as dictionaries; those kept
are plain. Rows without a rank do not count; of equal ranks the earliest row is taken, by ``vs``,
then in sequence order. NaN is greater than every number.

Several values by one rank are looked for once: columns are known to have the same ranks and times
by the place of their buffers, accumulators to hold the same ones by what they have taken so far.

Invariants: those of :mod:`rvertex.aggregates.accumulators`; the result does not depend on the order
in which partial results are merged, as long as equal (rank, vs) come in sequence order.
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
    """The type of a value with its rank."""
    return pa.struct(list(zip(FIELDS, (rank, pa.int64(), value), strict=True)))


def is_ranked_type(kind: pa.DataType) -> bool:
    """Whether it is such a type, with a rank that can be compared."""
    return (
        pa.types.is_struct(kind)
        and tuple(field.name for field in kind) == FIELDS
        and not pa.types.is_nested(kind.field(0).type)
        and not pa.types.is_null(kind.field(0).type)
    )


def has_numbers(kind: pa.DataType) -> bool:
    """Whether its ranks are numbers, times or booleans, as :class:`Ranked` takes them."""
    return is_numpy_ordered(kind.field(0).type)


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
        #: Those with the same one hold the same ranks and times, and so take the same rows.
        self._version: object = None

    def update(self, rows: Rows) -> None:
        """Fold rows in."""
        self._store.grow(rows.groups)
        best, times = self._keys.writable(rows.groups), self._times.writable(rows.groups)
        seen = self._seen.writable(rows.groups)
        codes, column = with_rank(*rows.valid(self._column))
        if len(codes) == 0:
            return
        same = (*_place(column.field(0)), *_place(column.field(1)), self._is_max)
        winners = rows.found.get(same)
        if not isinstance(winners, _Winners) or winners.before is not self._version:
            winners = self._winners(codes, column, best, times, seen)
            rows.found[same] = winners
        self._version = winners
        code = winners.codes
        if len(code) == 0:
            return
        best[code], times[code], seen[code] = winners.keys, winners.times, True
        values = plain_array(column.field(2).take(winners.at))
        kept = pa.StructArray.from_arrays([*winners.ranks, values], fields=list(self._kind))
        self._store.put(code, kept)

    def columns(self) -> list[pa.Array]:
        """The structs, null where there is none."""
        return [self._store.values()]

    def save(self) -> list[Saved]:
        """The structs by reference; keys and times follow from them."""
        return [*self._store.save()]

    def restore(self, state: Sequence[pa.ChunkedArray]) -> None:
        """Continue from what ``save`` returned."""
        self._version = object()
        self._store.restore(state[0], numbers(as_one_array(state[1])))
        column = self._store.values()
        seen = column.is_valid().to_numpy(zero_copy_only=False)
        known = column.drop_null()
        for array, fill, values in (
            (self._keys, _LEAST, self._order(known)),
            (self._times, 0, numbers(pc.struct_field(known, 1))),
        ):
            filled = np.full(len(seen), fill, np.int64)
            filled[seen] = values
            array.adopt(filled)
        self._seen.adopt(seen)

    def _winners(
        self,
        codes: np.ndarray,
        column: pa.StructArray,
        best: np.ndarray,
        times: np.ndarray,
        seen: np.ndarray,
    ) -> _Winners:
        """The rows to be taken in place of what is carried: at most one of a group."""
        keys, vs = self._order(column), numbers(column.field(1))
        hits, is_better = _best_rows(best, codes, keys)
        # The carried row stays, unless it is worse, or as good and later.
        code = codes[hits]
        hits = hits[~seen[code] | is_better | (vs[hits] < times[code])]
        if len(hits) > 1:
            hits = hits[np.argsort(vs[hits], kind="stable")]
            hits = hits[np.sort(np.unique(codes[hits], return_index=True)[1])]
        at = pa.array(hits)
        ranks = (column.field(0).take(at), column.field(1).take(at))
        return _Winners(self._version, column, at, codes[hits], keys[hits], vs[hits], ranks)

    def _order(self, column: pa.Array) -> np.ndarray:
        """The ranks as int64 whose greatest is the best."""
        keys = _sortable(column.field(0))
        return keys if self._is_max else ~keys


@dataclass(frozen=True, slots=True, eq=False)
class _Winners:
    """What some rows change where the version was ``before``; it is the version after them.

    The rows ``at`` int64[m] are taken for the groups ``codes``; of them ``keys`` are the ranks in
    the order that counts, ``times`` the starts, ``ranks`` both as columns. ``column`` keeps the
    place of its buffers.
    """

    before: object
    column: pa.StructArray
    at: pa.Int64Array
    codes: np.ndarray
    keys: np.ndarray
    times: np.ndarray
    ranks: tuple[pa.Array, pa.Array]


def _place(column: pa.Array) -> tuple[pa.DataType, int, int, int]:
    """Two columns that are alive and have no nulls are one and the same if this is the same."""
    return (column.type, column.buffers()[1].address, column.offset, len(column))


def _best_rows(
    best: np.ndarray, codes: np.ndarray, keys: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows with the greatest keys of their groups, counting ``best``, which is by group.

    Returns: these rows, and which of them exceed what was best before. ``best`` may be changed
    where such a row is.
    """
    if len(best) == 1:  # a reduction takes a fraction of the time
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
    """The rows that have a rank."""
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
    ordered: np.ndarray = np.where(np.signbit(doubles), bits ^ _SIGN, bits)
    return ordered

"""Order-preserving key numbers: groups are made in one pass and sorted by number.

Integer and time columns become one number by arithmetic, without an index and without comparisons
of columns. Columns of any type may follow if their values depend on the integer columns, as a name
depends on an id: they do not affect the order. Other keys go through an index.

Invariant: ``number(a) < number(b)`` if and only if key a precedes key b: columns from left to
right, each ascending, NaN after numbers and nulls last.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rvertex.events.arrays import numbers
from rvertex.events.group_scan import heads_of
from rvertex.events.ordering import stable_order, stable_sorted
from rvertex.keys.key_index import KeyIndex

if TYPE_CHECKING:
    from collections.abc import Sequence

#: An upper bound of key numbers. A number and a window then fit into one int64.
SPAN_MAX = 2**62
#: Values are ranked by counting, without a sort, if their span (greatest minus least value) is at
#: most 12 times their number, or at most 2**16.
_DENSE_PER_VALUE, _DENSE_CELLS_MIN = 12, 1 << 16
#: The factor that replaces 12 if there are more than 2**18 values, too many for the processor's
#: caches.
_DENSE_PER_MANY, _MANY_VALUES = 1, 1 << 18
_INT32_MAX = 2**31 - 1
#: Number of rows that are checked first: most columns that do not depend on the others already
#: differ in these rows.
_LOOK_ROWS = 1024


class NumberedKeys(Protocol):
    """The keys of a batch of rows, numbered in key order."""

    @property
    def codes(self) -> np.ndarray:
        """The number of each row's key, int64[n]."""

    @property
    def span(self) -> int:
        """An upper bound (exclusive) of the numbers; at least 1."""

    def keys(self, codes: np.ndarray) -> list[pa.Array]:
        """Return the key columns for numbers that occur in ``codes``."""


@dataclass(frozen=True, slots=True)
class PackedKeys:
    """The numbers of keys of integers or times: the mixed-radix number of their offsets."""

    codes: np.ndarray
    span: int
    types: tuple[pa.DataType, ...]
    #: Per column: the least value, and the number of integers from it to the greatest value.
    lows: tuple[int, ...]
    spans: tuple[int, ...]

    def keys(self, codes: np.ndarray) -> list[pa.Array]:
        out: list[pa.Array] = []
        for i in reversed(range(len(self.types))):
            values = codes
            if i:
                codes, values = np.divmod(codes, self.spans[i])
            out.append(typed(values + np.int64(self.lows[i]), self.types[i]))
        return out[::-1]


@dataclass(frozen=True, slots=True)
class ListedKeys:
    """The numbers of keys of any types: their ranks. ``first[rank]`` is a row with that key."""

    codes: np.ndarray
    first: np.ndarray
    columns: list[pa.Array]

    @property
    def span(self) -> int:
        return max(len(self.first), 1)

    def keys(self, codes: np.ndarray) -> list[pa.Array]:
        at = pa.array(self.first[codes])
        return [column.take(at) for column in self.columns]


def numbered_keys(
    types: Sequence[pa.DataType], columns: Sequence[pa.Array], rows: int
) -> NumberedKeys:
    """Number the keys of ``rows`` rows; the columns have ``types``, maybe dictionary-encoded."""
    packed = packed_keys(columns, rows)
    if packed is not None:
        return packed
    return _leading(types, columns, rows) or _indexed(types, columns, rows)


def packed_keys(columns: Sequence[pa.Array], rows: int) -> PackedKeys | None:
    """Number keys by arithmetic.

    Returns None unless all key columns are integers or times without nulls, and the numbers fit
    into int64.
    """
    types = tuple(column.type for column in columns)
    if not all(is_packable(column) for column in columns):
        return None
    values = [numbers(column).astype(np.int64, copy=False) for column in columns]
    lows, spans, span = [], [], 1
    for column in values:
        low, high = (int(column.min()), int(column.max())) if rows else (0, 0)
        lows.append(low)
        spans.append(high - low + 1)
        span *= spans[-1]
    if span > SPAN_MAX:
        return None
    codes = values[0] - np.int64(lows[0]) if values else np.zeros(rows, np.int64)
    for column, low, width in zip(values[1:], lows[1:], spans[1:], strict=True):
        codes *= width
        codes += column
        codes -= np.int64(low)
    return PackedKeys(codes, span, types, tuple(lows), tuple(spans))


def sorted_keys(keys: Sequence[pa.Array], groups: int) -> np.ndarray:
    """Return the order of ``groups`` different keys, int64[groups]."""
    packed = packed_keys(keys, groups)
    if packed is not None:
        order = stable_order(packed.codes)
        return np.arange(groups) if order is None else order
    plain = [k.dictionary_decode() if pa.types.is_dictionary(k.type) else k for k in keys]
    # Arrow does not sort float16.
    plain = [k.cast(pa.float32()) if pa.types.is_float16(k.type) else k for k in plain]
    names = [f"k{i}" for i in range(len(plain))]
    table = pa.table(plain, names=names)
    found = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names])
    return found.to_numpy().astype(np.int64)  # type: ignore[no-any-return]


def is_packable(column: pa.Array) -> bool:
    """Return whether all values are integers or times that fit into int64, and none is null."""
    types, kind = pa.types, column.type
    is_number = types.is_integer(kind) and kind != pa.uint64()
    is_time = types.is_temporal(kind) and not types.is_interval(kind)
    return bool(is_number or is_time or types.is_boolean(kind)) and not column.null_count


def typed(values: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Convert int64[n] to a column of ``kind``, a type of integers or times."""
    if pa.types.is_boolean(kind):
        return pa.array(values.astype(bool))
    if pa.types.is_temporal(kind):
        return pa.array(values.astype(f"i{kind.bit_width // 8}", copy=False)).view(kind)
    return pa.array(values.astype(kind.to_pandas_dtype(), copy=False))


def is_dense(span: int, values: int) -> bool:
    """Return whether to rank ``values`` values within ``span`` by counting instead of sorting."""
    per_value = _DENSE_PER_MANY if values > _MANY_VALUES else _DENSE_PER_VALUE
    return span <= max(per_value * values, _DENSE_CELLS_MIN)


def ranks(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return distinct values int64[m], ascending, and the rank of each of ``values``, int64[n]."""
    if len(values) == 0:
        return values.astype(np.int64), values.astype(np.int64)
    low = int(values.min())
    span = int(values.max()) - low + 1
    if not is_dense(span, len(values)):
        return _sorted_ranks(values.astype(np.int64, copy=False))
    local = values - low if low else values
    present = np.zeros(span, bool)
    present[local] = True
    distinct = np.flatnonzero(present)
    if len(distinct) == span:
        return distinct + low, local.astype(np.int64, copy=False)
    rank_of = np.empty(span, np.int64)
    rank_of[distinct] = np.arange(len(distinct))
    return distinct + low, rank_of[local]


def narrowed(values: np.ndarray, span: int) -> np.ndarray:
    """Convert values below ``span`` to the narrowest integer type that holds them."""
    return values.astype(np.int32, copy=False) if span <= _INT32_MAX else values


def _sorted_ranks(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    in_order, order = stable_sorted(values)
    heads = heads_of(in_order)
    rank = np.cumsum(heads)
    rank -= 1
    if order is None:
        return in_order[heads], rank
    of_row = np.empty(len(values), np.int64)
    of_row[order] = rank
    return in_order[heads], of_row


def _leading(
    types: Sequence[pa.DataType], columns: Sequence[pa.Array], rows: int
) -> ListedKeys | None:
    """Number keys by their first columns. Return None unless the other columns depend on these."""
    leading = list(itertools.takewhile(is_packable, columns))
    rest = columns[len(leading) :]
    if not leading or any(pa.types.is_floating(column.type) for column in rest):
        return None
    packed = packed_keys(leading, rows)
    if packed is None:
        return None
    distinct, rank = ranks(packed.codes)
    first = np.empty(len(distinct), np.int64)
    first[rank[::-1]] = np.arange(rows)[::-1]
    if len(distinct) < rows:
        at = first[rank]
        if not all(_equals(column, at, n) for n in (_LOOK_ROWS, rows) for column in rest):
            return None
    plain = [_as(column, kind) for column, kind in zip(columns, types, strict=True)]
    return ListedKeys(rank, first, plain)


def _equals(column: pa.Array, at: np.ndarray, rows: int) -> bool:
    """Return, for the first ``rows`` rows, whether row i equals row ``at[i]``; null equals null."""
    own, other = column.slice(0, rows), column.take(pa.array(at[:rows]))
    if pa.types.is_dictionary(column.type):
        # a dictionary may contain a value twice; then the rows differ here, and the keys are
        # indexed
        own, other = own.indices, other.indices
    return bool(own.equals(other))


def _indexed(types: Sequence[pa.DataType], columns: Sequence[pa.Array], rows: int) -> ListedKeys:
    """Number keys of any types through an index and a sort of the distinct keys."""
    index = KeyIndex(types)
    codes = index.codes_of_rows(columns, rows)
    keys = index.keys()
    order = sorted_keys(keys, len(index))
    rank = np.empty(len(index), np.int64)
    rank[order] = np.arange(len(index))
    return ListedKeys(rank[codes], order, keys)


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)

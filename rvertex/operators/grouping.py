"""Groups of one window or of many: key codes, accumulators, and rows in (window, key) order.

:class:`OpenGroups` is state: it takes rows call by call and can be saved. :func:`closed_groups`
aggregates rows that are all there at once, over many windows in one pass.

Invariant: rows come out by window start, then keys ascending, NaN after numbers and nulls last.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rstream.dictionaries import has_dictionaries, join_batches
from rvertex.accumulators import Rows
from rvertex.errors import OperatorTypeError, UnknownColumnError
from rvertex.key_table import KeyTable
from rvertex.keys import KeyIndex
from rvertex.ranked import plain_ranked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rvertex.accumulators import Accumulator

#: Values within a span of so many times their number, or so many, are ranked without a sort.
_DENSE_PER_VALUE, _DENSE_CELLS_MIN = 12, 1 << 16
_INT32_MAX = 2**31 - 1
#: Fewer rows wait for others: to fold them in costs as much.
_TOGETHER_ROWS = 1024
#: Integer keys within a span of so many times the rows, or so many, are ranked by their value.
_SPARSE_MAX = 2
_SPAN_MIN = 1 << 12


@dataclass(frozen=True, slots=True)
class Grouping:
    """How rows are grouped: key columns, and a maker of accumulators."""

    names: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    accumulators: Callable[[], list[Accumulator]]

    def key_columns(self, events: pa.RecordBatch) -> list[pa.Array]:
        """The key columns of ``events``."""
        return [events.column(name) for name in self.names]


def key_types(keys: Sequence[str], payload: pa.Schema) -> tuple[pa.DataType, ...]:
    """Types of the key columns.

    Raises:
        UnknownColumnError: a key that is not a column.
        OperatorTypeError: a key of a type that has no order.
    """
    types = []
    for key in keys:
        if key not in payload.names:
            raise UnknownColumnError("group_by", key, tuple(payload.names))
        kind = payload.field(key).type
        if pa.types.is_nested(kind) or pa.types.is_null(kind):
            raise OperatorTypeError("group_by", f"column {key!r} is {kind}, which has no order")
        types.append(kind)
    return tuple(types)


class OpenGroups:
    """The groups of one open window, in order of their codes."""

    def __init__(self, grouping: Grouping) -> None:
        self._grouping = grouping
        self._table = KeyTable(grouping.types)
        self._accumulators = grouping.accumulators()
        #: Few events, which are folded in together with those that follow.
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0

    def __len__(self) -> int:
        self._settle()
        return len(self._table)

    def update(self, events: pa.RecordBatch) -> None:
        """Fold events in, now or later."""
        if events.num_rows >= _TOGETHER_ROWS or not _can_be_joined(events.schema):
            self._settle()
            self._fold(events)
            return
        self._waiting_rows += events.num_rows
        self._waiting.append(events)
        if self._waiting_rows >= _TOGETHER_ROWS:
            self._settle()

    def _settle(self) -> None:
        """Fold in what waits."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._waiting_rows = 0
            self._fold(join_batches(waiting))

    def _fold(self, events: pa.RecordBatch) -> None:
        columns = self._grouping.key_columns(events)
        codes = self._table.codes(columns, events.num_rows)
        rows = Rows(codes, len(self._table), events)
        for accumulator in self._accumulators:
            accumulator.update(rows)

    def result(self) -> tuple[list[pa.Array], list[pa.Array]]:
        """Key columns and lane columns, by key. The end: each accumulator is freed in turn."""
        self._settle()
        keys = self._table.keys()
        order = pa.array(sorted_keys(keys, len(self)))
        lanes: list[pa.Array] = []
        left, self._accumulators = self._accumulators[::-1], []
        while left:
            lanes += [lane.take(order) for lane in left.pop().columns()]
        return [k.take(order) for k in keys], lanes

    def save(self) -> dict[str, pa.Table]:
        """Keys and accumulators in code order, by reference, each column a table of its own."""
        self._settle()
        tables = self._table.save()
        for i, accumulator in enumerate(self._accumulators):
            for j, column in enumerate(accumulator.save()):
                tables[f"lane{i}.{j}"] = pa.table({"lane": column})
        return tables

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Take over what ``save`` returned; only called on new groups."""
        self._table.restore(tables)
        for i, accumulator in enumerate(self._accumulators):
            width = len(accumulator.save())
            accumulator.restore([tables[f"lane{i}.{j}"].column(0) for j in range(width)])


def closed_groups(
    grouping: Grouping, events: pa.RecordBatch, windows: np.ndarray, at: np.ndarray | None
) -> tuple[np.ndarray, list[pa.Array], list[pa.Array]]:
    """Aggregate rows of many windows at once.

    ``windows`` int64[m] is the window of each of m rows, ``at`` int64[m] its row in ``events``
    (None: row i is event i). Rows of one window must be in sequence order.

    Returns: windows int64[g], key columns and lane columns, sorted by (window, key).
    """
    key_rank, keys = _ranked_keys(grouping, events)
    if at is not None:
        key_rank = key_rank[at]
    span = max(len(keys[0]) if keys else 1, 1)
    distinct, window_rank = _numbered(windows, span)
    cells, cell_of_row = _ranks(_cells(window_rank, span, len(distinct), key_rank))
    rows = Rows(cell_of_row, len(cells), events, at)
    lanes: list[pa.Array] = []
    for accumulator in grouping.accumulators():
        accumulator.update(rows)
        lanes += accumulator.columns()
    ranks = pa.array(cells % span)
    return distinct[cells // span], [k.take(ranks) for k in keys], lanes


def _ranked_keys(grouping: Grouping, events: pa.RecordBatch) -> tuple[np.ndarray, list[pa.Array]]:
    """The rank of each row's key, int64[n], and the key columns by rank.

    Integers that lie close together need no index: the keys are all from the least to the greatest.
    """
    columns = grouping.key_columns(events)
    if len(columns) == 1 and columns[0].type == pa.int64() and not columns[0].null_count:
        values = columns[0].to_numpy(zero_copy_only=True)
        low, high = (int(values.min()), int(values.max())) if len(values) else (0, -1)
        if high - low < max(_SPARSE_MAX * len(values), _SPAN_MIN):
            return values - np.int64(low), [pa.array(np.int64(low) + np.arange(high - low + 1))]
    index = KeyIndex(grouping.types)
    codes = index.codes_of_rows(columns, events.num_rows)
    keys = index.keys()
    order = sorted_keys(keys, len(index))
    rank = np.empty(len(index), np.int64)
    rank[order] = np.arange(len(index))
    by = pa.array(order)
    return rank[codes], [key.take(by) for key in keys]


def numbered_groups(
    grouping: Grouping, rows: Rows, starts: np.ndarray
) -> tuple[np.ndarray, list[pa.Array], list[pa.Array]]:
    """Aggregate groups whose rows are told by number: ``rows.codes``, every number present.

    ``starts`` int64[groups] orders the groups before their keys, their numbers after.

    Returns: the numbers in that order, and in the same order key columns and lane columns.
    """
    first = np.zeros(rows.groups, np.int64)
    first[rows.codes[::-1]] = np.arange(len(rows.codes))[::-1]
    at = pa.array(first if rows.at is None else rows.at[first])
    keys = [column.take(at) for column in grouping.key_columns(rows.events)]
    lanes: list[pa.Array] = []
    for accumulator in grouping.accumulators():
        accumulator.update(rows)
        lanes += accumulator.columns()
    order = sorted_keys([pa.array(starts), *keys, pa.array(np.arange(rows.groups))], rows.groups)
    by = pa.array(order)
    return order, [key.take(by) for key in keys], [lane.take(by) for lane in lanes]


@functools.lru_cache(maxsize=64)
def _can_be_joined(schema: pa.Schema) -> bool:
    """Whether no column is, or holds, a dictionary: two of them are not joined for nothing."""
    plain = all(plain_ranked(kind) == kind for kind in schema.types)
    return plain and not has_dictionaries(schema)


def sorted_keys(keys: Sequence[pa.Array], groups: int) -> np.ndarray:
    """Codes of groups by key: ascending, NaN after numbers, nulls last. int64[groups]."""
    if not keys:
        return np.arange(groups)
    plain = [k.dictionary_decode() if pa.types.is_dictionary(k.type) else k for k in keys]
    names = [f"k{i}" for i in range(len(plain))]
    table = pa.table(plain, names=names)
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names])
    return order.to_numpy().astype(np.int64)  # type: ignore[no-any-return]


def _numbered(windows: np.ndarray, keys: int) -> tuple[np.ndarray, np.ndarray]:
    """Windows, ascending, and for each row which of them it is.

    Those between the first and the last are among them, rows or not, where few enough cells follow.
    """
    if len(windows):
        low, high = int(windows.min()), int(windows.max())
        if (high - low + 1) * keys <= _dense_span(len(windows)):
            return np.arange(low, high + 1), windows - low
    return _ranks(windows)


def _cells(window: np.ndarray, keys: int, windows: int, key: np.ndarray) -> np.ndarray:
    """The number of each row's pair of window and key; narrow integers where they do."""
    if windows * keys <= _INT32_MAX:
        window, key = window.astype(np.int32), key.astype(np.int32, copy=False)
    cells: np.ndarray = window * window.dtype.type(keys)
    cells += key
    return cells


def _dense_span(rows: int) -> int:
    return max(_DENSE_PER_VALUE * rows, _DENSE_CELLS_MIN)


def _ranks(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct values, ascending, and the rank of each value. Dense values need no sort."""
    if len(values) == 0:
        return values.astype(np.int64), values.astype(np.int64)
    low = int(values.min())
    span = int(values.max()) - low + 1
    if span > _dense_span(len(values)):
        distinct, rank = np.unique(values, return_inverse=True)
        return distinct.astype(np.int64), rank
    local = values - low if low else values
    present = np.zeros(span, bool)
    present[local] = True
    found = np.flatnonzero(present)
    rank_of = np.empty(span, np.int64)
    rank_of[found] = np.arange(len(found))
    return found + low, rank_of[local]

"""Groups of one window or many: key codes, accumulators, and rows in (window, key) order.

:class:`OpenGroups` is state: it is updated call by call and can be saved. :func:`closed_groups`
aggregates rows that are all available at once, over many windows in one pass.

Invariant: results come by window start, then keys ascending, NaN after numbers and nulls last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.dictionaries import has_dictionaries, join_batches, remembered_by_schema
from rvertex.aggregates.accumulators import Rows, takes_gaps
from rvertex.aggregates.ranked.arg_extremes import plain_ranked
from rvertex.errors import OperatorTypeError, UnknownColumnError
from rvertex.keys.direct_keys import OffsetKeys
from rvertex.keys.key_table import KeyTable
from rvertex.keys.sort_keys import SPAN_MAX, narrowed, numbered_keys, ranks, sorted_keys
from rvertex.operators.windows.arithmetic import floor_divided
from rvertex.state.key_runs import KeyRuns, SortedColumns
from rvertex.state.memory import UNLIMITED, held_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rvertex.aggregates.accumulators import Accumulator
    from rvertex.state.memory import Holder

#: Smaller batches are joined before aggregation, since each call has a fixed cost.
_TOGETHER_ROWS = 1024
#: Name prefixes of saved tables.
NEAR, OVERFLOW = "near.", "overflow."
#: Rows between two memory measurements: this number, or one per 256 bytes of groups if more.
_MEASURE_ROWS, _MEASURE_SHIFT = 1 << 18, 8


@dataclass(frozen=True, slots=True)
class Grouping:
    """The key columns of a grouping, and a factory of its accumulators."""

    names: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    accumulators: Callable[[], list[Accumulator]]
    #: The event columns that keys and accumulators read; None: all.
    columns: tuple[str, ...] | None = None

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
    """The groups of one open window, in order of their codes.

    Once they exceed the memory budget of ``holder``, no group is added. Rows of further keys are
    stored on scratch, sorted by key, and aggregated when the window closes. So each key is
    aggregated in one place, in row order, and its result has the same bits in either place.
    """

    def __init__(self, grouping: Grouping, holder: Holder | None = None) -> None:
        self._grouping = grouping
        self._holder = holder
        #: Groups of keys in a narrow range; all other groups are in ``_table``.
        self._near: _NearGroups | None = None
        self._table = KeyTable(grouping.types)
        self._accumulators = grouping.accumulators()
        #: Small batches that have not been aggregated yet.
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        #: Rows of keys without a group, on scratch; None: there are none.
        self._overflow: KeyRuns | None = None
        self._rows_unmeasured = self._groups_bytes = 0

    def __len__(self) -> int:
        """The number of groups in memory."""
        self._flush_pending()
        return len(self._table) + (0 if self._near is None else len(self._near))

    @property
    def memory_bytes(self) -> int:
        """Estimated bytes in memory, measured now and then."""
        beside = 0 if self._overflow is None else self._overflow.memory_bytes
        return self._groups_bytes + beside

    @property
    def has_overflow(self) -> bool:
        """Whether it has rows of keys without a group."""
        return self._overflow is not None

    def spill(self) -> None:
        """Add no more groups from now on."""
        if self._overflow is None and self._holder is not None and self._grouping.names:
            self._overflow = KeyRuns(self._grouping.names, self._holder)

    def update(self, events: pa.RecordBatch) -> None:
        """Add events; small batches are aggregated later."""
        if events.num_rows >= _TOGETHER_ROWS or not _can_be_joined(events.schema):
            self._flush_pending()
            self._fold(events)
            return
        self._waiting_rows += events.num_rows
        self._waiting.append(events)
        if self._waiting_rows >= _TOGETHER_ROWS:
            self._flush_pending()

    def _flush_pending(self) -> None:
        """Aggregate the small batches."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._waiting_rows = 0
            self._fold(join_batches(waiting))

    def _fold(self, events: pa.RecordBatch) -> None:
        is_new = len(self._table) == 0 and self._overflow is None
        if self._near is None and is_new:
            self._near = _NearGroups.beginning(self._grouping, events)
        rest = events if self._near is None else self._near.update(events, grows=is_new)
        if rest.num_rows:
            columns = self._grouping.key_columns(rest)
            if self._overflow is None:
                codes = self._table.codes(columns, rest.num_rows)
            else:
                codes, rest = self._known(columns, rest, self._overflow)
            if rest.num_rows:
                _update(self._accumulators, Rows(codes, len(self._table), rest))
        if self._holder is not None and self._holder.may_spill:
            self._measure(events.num_rows)

    def _known(
        self, columns: Sequence[pa.Array], rows: pa.RecordBatch, overflow: KeyRuns
    ) -> tuple[np.ndarray, pa.RecordBatch]:
        """The rows whose keys have a group, and their codes; other rows go to ``overflow``."""
        codes = self._table.find(columns, rows.num_rows)
        is_known = codes >= 0
        if is_known.all():
            return codes, rows
        others = rows.filter(pa.array(~is_known))
        names = self._grouping.columns
        overflow.add(others if names is None else others.select(names))
        return codes[is_known], rows.filter(pa.array(is_known))

    def _measure(self, rows: int) -> None:
        """Measure the memory of the groups, if ``rows`` more rows make it necessary."""
        self._rows_unmeasured += rows
        if self._rows_unmeasured >= max(_MEASURE_ROWS, self._groups_bytes >> _MEASURE_SHIFT):
            self._rows_unmeasured = 0
            self._groups_bytes = held_bytes(self._near, self._table, self._accumulators)

    def result(self) -> tuple[list[pa.Array], list[pa.Array]]:
        """Keys and lanes of the groups in memory, by key. Call it last: it frees the groups."""
        self._flush_pending()
        near, self._near = self._near, None
        if near is not None and len(self._table) == 0:
            return near.result()
        keys = self._table.keys()
        order = pa.array(sorted_keys(keys, len(self._table)))
        lanes = _lanes_at(self._accumulators, order)
        self._accumulators = []
        keys = [k.take(order) for k in keys]
        return (keys, lanes) if near is None else _merged((keys, lanes), near.result())

    def results(self) -> Iterator[tuple[list[pa.Array], list[pa.Array]]]:
        """Yield keys and lanes of all groups, by key. Call it last: it frees the groups."""
        self._flush_pending()
        overflow, self._overflow = self._overflow, None
        keys, lanes = self.result()
        if overflow is None:
            yield keys, lanes
            return
        inside = SortedColumns(len(self._grouping.names), [*keys, *lanes])
        begin = 0
        for rows, end in overflow.pieces():
            windows = np.zeros(rows.num_rows, np.int64)
            _, keys, lanes = closed_groups(self._grouping, rows, windows, None)
            upto = len(inside) if end is None else inside.first_at(end)
            yield _merged(inside.rows(begin, upto), (keys, lanes))
            begin = upto
        if begin < len(inside):
            yield inside.rows(begin, len(inside))

    def save(self) -> dict[str, pa.Table]:
        """Keys and accumulators in code order, by reference; one table per column."""
        self._flush_pending()
        tables = self._table.save() | _saved(self._accumulators)
        if self._near is not None:
            tables |= _named(NEAR, self._near.save())
        if self._overflow is not None:
            tables |= _named(OVERFLOW, self._overflow.save())
        return tables

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Restore what ``save`` returned; only on a new object."""
        self._table.restore(tables)
        _restore(self._accumulators, tables)
        near = _those_named(NEAR, tables)
        self._near = _NearGroups.restored(self._grouping, near) if near else None
        overflow = _those_named(OVERFLOW, tables)
        if overflow:
            self._overflow = KeyRuns(self._grouping.names, self._holder or UNLIMITED.holder())
            self._overflow.restore(overflow)


class _NearGroups:
    """The groups of keys in a narrow range; the code is the distance from its start."""

    def __init__(self, grouping: Grouping, keys: OffsetKeys) -> None:
        self._grouping = grouping
        self._keys = keys
        self._accumulators = grouping.accumulators()

    @classmethod
    def beginning(cls, grouping: Grouping, events: pa.RecordBatch) -> _NearGroups | None:
        """A range for keys near the keys of ``events``; None: an index is better."""
        if len(grouping.names) != 1 or not all(map(takes_gaps, grouping.accumulators())):
            return None
        keys = OffsetKeys.beginning(*grouping.key_columns(events))
        return None if keys is None else cls(grouping, keys)

    def __len__(self) -> int:
        return int(np.count_nonzero(self._keys.occupied()))

    def update(self, events: pa.RecordBatch, *, grows: bool) -> pa.RecordBatch:
        """Add events; return those whose keys are outside of the range."""
        (column,) = self._grouping.key_columns(events)
        codes, mask = self._keys.codes(column, grows=grows)
        mine = events if mask is None else events.filter(pa.array(mask))
        if len(codes):
            rows = Rows(codes, self._keys.groups, mine, occupied=self._keys.occupied())
            _update(self._accumulators, rows)
            self._keys.add(codes)
        return events.slice(0, 0) if mask is None else events.filter(pa.array(~mask))

    def result(self) -> tuple[list[pa.Array], list[pa.Array]]:
        """As :meth:`OpenGroups.result`."""
        found = self._keys.found()
        lanes = _lanes_at(self._accumulators, pa.array(found))
        self._accumulators = []
        return [self._keys.keys(found)], lanes

    def save(self) -> dict[str, pa.Table]:
        """As :meth:`OpenGroups.save`."""
        return self._keys.save() | _saved(self._accumulators)

    @classmethod
    def restored(cls, grouping: Grouping, tables: Mapping[str, pa.Table]) -> _NearGroups:
        """Restore what :meth:`save` returned."""
        made = cls(grouping, OffsetKeys.restore(grouping.types[0], tables))
        _restore(made._accumulators, tables)
        return made


def _update(accumulators: Sequence[Accumulator], rows: Rows) -> None:
    for accumulator in accumulators:
        accumulator.update(rows)


def _lanes_at(accumulators: list[Accumulator], order: pa.Array) -> list[pa.Array]:
    """The lane columns at the codes ``order``; frees one accumulator after another."""
    lanes: list[pa.Array] = []
    left = accumulators[::-1]
    accumulators.clear()
    while left:
        lanes += [lane.take(order) for lane in left.pop().columns()]
    return lanes


def _merged(
    some: tuple[list[pa.Array], list[pa.Array]], others: tuple[list[pa.Array], list[pa.Array]]
) -> tuple[list[pa.Array], list[pa.Array]]:
    """Merge two sets of groups by key; they have no common key."""
    keys, lanes = (
        [pa.concat_arrays(pair) for pair in zip(*columns, strict=True)]
        for columns in zip(some, others, strict=True)
    )
    order = pa.array(sorted_keys(keys, len(keys[0])))
    return [key.take(order) for key in keys], [lane.take(order) for lane in lanes]


def _named(prefix: str, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    return {f"{prefix}{name}": table for name, table in tables.items()}


def _those_named(prefix: str, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    return {k.removeprefix(prefix): t for k, t in tables.items() if k.startswith(prefix)}


def _saved(accumulators: Sequence[Accumulator]) -> dict[str, pa.Table]:
    return {
        f"lane{i}.{j}": pa.table({"lane": column})
        for i, accumulator in enumerate(accumulators)
        for j, column in enumerate(accumulator.save())
    }


def _restore(accumulators: Sequence[Accumulator], tables: Mapping[str, pa.Table]) -> None:
    for i, accumulator in enumerate(accumulators):
        width = len(accumulator.save())
        accumulator.restore([tables[f"lane{i}.{j}"].column(0) for j in range(width)])


def closed_groups(
    grouping: Grouping, events: pa.RecordBatch, windows: np.ndarray, at: np.ndarray | None
) -> tuple[np.ndarray, list[pa.Array], list[pa.Array]]:
    """Aggregate rows of many windows at once.

    ``windows`` int64[m]: the window of each of m rows. ``at`` int64[m]: its row in ``events``
    (None: row i is event i). Rows of one window must be in row order.

    Returns: windows int64[g], key columns and lane columns, sorted by (window, key).
    """
    keys = numbered_keys(grouping.types, grouping.key_columns(events), events.num_rows)
    key, span = keys.codes if at is None else keys.codes[at], keys.span
    window, number, row_group = window_groups(windows, key, span)
    rows = Rows(row_group, len(window), events, at)
    lanes: list[pa.Array] = []
    for accumulator in grouping.accumulators():
        accumulator.update(rows)
        lanes += accumulator.columns()
    return window, keys.keys(number), lanes


def window_groups(
    windows: np.ndarray, key: np.ndarray, span: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct pairs of window and key (below ``span``), ascending, and each row's pair."""
    if len(windows) == 0:
        return windows, key, key
    low, high = int(windows.min()), int(windows.max())
    if low == high:
        found, row = ranks(key)
        return np.full(len(found), low), found, row
    if high - low >= len(windows):
        distinct, windows = ranks(windows)
        window, number, row = window_groups(windows, key, span)
        return distinct[window], number, row
    if (high - low + 1) * span > SPAN_MAX:
        distinct, key = ranks(key)
        window, number, row = window_groups(windows, key, len(distinct))
        return window, distinct[number], row
    total = (high - low + 1) * span
    cells = narrowed(windows - low, total)
    cells *= cells.dtype.type(span)
    cells += narrowed(key, total)
    cells, row = ranks(cells)
    cells = cells.astype(np.int64, copy=False)
    place = floor_divided(cells, span)
    return place + low, cells - place * span, row


def numbered_groups(
    grouping: Grouping, rows: Rows, starts: np.ndarray
) -> tuple[np.ndarray, list[pa.Array], list[pa.Array]]:
    """Aggregate rows whose groups are numbered in ``rows.codes``; every number occurs.

    The groups are sorted by ``starts`` int64[groups], then by key, then by number.

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


@remembered_by_schema
def _can_be_joined(schema: pa.Schema) -> bool:
    """Whether no column is or contains a dictionary, which is slow to concatenate."""
    plain = all(plain_ranked(kind) == kind for kind in schema.types)
    return plain and not has_dictionaries(schema)

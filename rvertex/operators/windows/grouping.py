"""Groups of one window or many: key codes, accumulators, and rows in (window, key) order.

:class:`OpenGroups` is state: it is updated call by call and can be saved. :func:`closed_groups`
aggregates rows that are all available at once, over many windows in one pass.

Invariant: results are sorted by window start, then keys ascending, NaN after numbers and nulls
last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.dictionaries import has_dictionaries, join_batches, remembered_by_schema
from rvertex.aggregates.accumulators import Rows
from rvertex.aggregates.ranked.arg_extremes import plain_ranked
from rvertex.errors import OperatorTypeError, UnknownColumnError
from rvertex.keys.key_table import KeyTable
from rvertex.keys.sort_keys import SPAN_MAX, narrowed, numbered_keys, ranks, sorted_keys
from rvertex.operators.windows.arithmetic import floor_divided
from rvertex.operators.windows.panes.near_groups import (
    Grouping as Grouping,
    NearColumns,
    NearGroups,
    lane_columns,
    restore_lanes,
    saved_lanes,
    update_all,
)
from rvertex.state import memory
from rvertex.state.key_runs import RUNS, KeyRuns, SortedColumns, in_key_order
from rvertex.state.memory import UNLIMITED, held_bytes
from rvertex.state.unverified import EndOfName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rvertex.state.memory import Holder

#: Batches with fewer rows are joined before aggregation, since each call has a fixed cost.
_TOGETHER_ROWS = 1024
#: Name prefixes of saved tables.
NEAR, OVERFLOW = "near.", "overflow."
#: Tables of open groups that are verified when they are read.
VERIFIED_WHEN_READ = EndOfName(f"{OVERFLOW}{RUNS}")
#: Bytes per group that sorting the keys of a closing window takes: copies of the key, the order.
_CLOSING_BYTES = 48
#: Rows between two memory measurements: this number, or one per 1024 bytes of groups if that is
#: more.
_MEASURE_ROWS, _MEASURE_SHIFT = 1 << 15, 10


def key_types(keys: Sequence[str], payload: pa.Schema) -> tuple[pa.DataType, ...]:
    """Return the types of the key columns.

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

    Once they exceed the memory budget of ``holder``, no group is added. Rows of other keys are
    stored on scratch, sorted by key, and aggregated when the window closes. So each key is
    aggregated in one place, in row order, and its result has the same bits in either place.
    """

    def __init__(self, grouping: Grouping, holder: Holder | None = None) -> None:
        self._grouping = grouping
        self._holder = holder
        #: Groups of keys in a narrow range. All other groups are in ``_table``.
        self._near: NearGroups | None = None
        self._table = KeyTable(grouping.types)
        self._accumulators = grouping.accumulators()
        #: Small batches that have not been aggregated yet.
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        #: Rows of keys without a group, on scratch; None: there are none.
        self._overflow: KeyRuns | None = None
        self._rows_unmeasured = self._groups_bytes = 0
        #: Number of groups in memory when they were last measured.
        self.groups = 0

    def __len__(self) -> int:
        """Return the number of groups in memory."""
        self._flush_pending()
        return len(self._table) + (0 if self._near is None else len(self._near))

    @property
    def memory_bytes(self) -> int:
        """Estimated bytes in memory, measured from time to time, plus the bytes to close it."""
        beside = 0 if self._overflow is None else self._overflow.memory_bytes
        return self._groups_bytes + beside + _CLOSING_BYTES * len(self._table)

    @property
    def is_large(self) -> bool:
        """Whether the results are emitted in several pieces."""
        return self._overflow is not None or self._groups_bytes > memory.PIECE_BYTES_MAX

    def spill(self) -> None:
        """Stop adding groups."""
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
            self._near = NearGroups.beginning(self._grouping, events)
        rest = events if self._near is None else self._near.update(events, grows=is_new)
        if rest.num_rows:
            columns = self._grouping.key_columns(rest)
            if self._overflow is None:
                codes = self._table.codes(columns, rest.num_rows)
            else:
                codes, rest = self._known(columns, rest, self._overflow)
            if rest.num_rows:
                update_all(self._accumulators, Rows(codes, len(self._table), rest))
        if self._holder is not None and self._holder.may_spill:
            self._measure(events.num_rows)

    def _known(
        self, columns: Sequence[pa.Array], rows: pa.RecordBatch, overflow: KeyRuns
    ) -> tuple[np.ndarray, pa.RecordBatch]:
        """Return the rows whose keys have a group, and their codes.

        Other rows go to ``overflow``.
        """
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
            is_near = self._near is not None and not len(self._table)
            others = () if is_near else (self._table, self._accumulators)
            self._groups_bytes = held_bytes(self._near, *others)
            self.groups = len(self._table) + (0 if self._near is None else len(self._near))

    def results(self) -> Iterator[tuple[list[pa.Array], list[pa.Array]]]:
        """Yield keys and lanes of all groups, by key. Call it last: it frees the groups."""
        parts = self._in_memory()
        overflow, self._overflow = self._overflow, None
        rows = [part.piece_rows(memory.PIECE_BYTES_MAX) for part in parts]
        if overflow is None and all(map(_is_one_piece, parts, rows)):
            yield _merged([part.rows(0, len(part)) for part in parts])
            return
        cuts = sorted({c for part, some in zip(parts, rows, strict=True) for c in part.cuts(some)})
        ranges = (([], cut) for cut in (*cuts, None)) if overflow is None else overflow.pieces(cuts)
        begins = [0] * len(parts)
        for batches, end in ranges:
            ends = [len(part) if end is None else part.first_at(end) for part in parts]
            spans = zip(parts, begins, ends, strict=True)
            pieces = [part.rows(lo, hi) for part, lo, hi in spans if lo < hi]
            begins = ends
            # The length of an overflow is unknown once it is being read
            if batches and overflow is not None:
                pieces.append(self._aggregated(batches, is_large=overflow.is_large(batches)))
            if pieces:
                yield _merged(pieces)

    def _in_memory(self) -> list[SortedColumns | NearColumns]:
        """Return the groups in memory in a form that can be read by key; frees them here."""
        self._flush_pending()
        near, self._near = self._near, None
        table, self._table = self._table, KeyTable(self._grouping.types)
        accumulators, self._accumulators = self._accumulators, []
        parts: list[SortedColumns | NearColumns] = []
        if near is not None:
            parts.append(near.sorted_columns())
        if near is None or len(table):
            keys, groups = table.keys(), len(table)
            del table  # free the table before computing the order, which takes as much memory
            order = sorted_keys(keys, groups)
            by_key = pa.array(order)
            for i in range(len(keys)):  # free each column before the next one is copied
                keys[i] = keys[i].take(by_key)
            parts.append(SortedColumns(keys, lane_columns(accumulators), order))
        return parts

    def _aggregated(
        self, batches: list[pa.RecordBatch], *, is_large: bool
    ) -> tuple[list[pa.Array], list[pa.Array]]:
        """Return keys and lanes of rows that arrive in runs sorted by key."""
        if not is_large:
            holder = self._holder or UNLIMITED.holder()
            rows = in_key_order(batches, self._grouping.names, holder)
            _, keys, lanes = closed_groups(
                self._grouping, rows, np.zeros(rows.num_rows, np.int64), None
            )
            return keys, lanes
        groups = OpenGroups(self._grouping)
        for batch in batches:
            groups.update(batch)
        return _merged([part.rows(0, len(part)) for part in groups._in_memory()])

    def save(self) -> dict[str, pa.Table]:
        """Return keys and accumulators in code order, by reference; one table per column."""
        self._flush_pending()
        tables = self._table.save() | saved_lanes(self._accumulators)
        if self._near is not None:
            tables |= _named(NEAR, self._near.save())
        if self._overflow is not None:
            tables |= _named(OVERFLOW, self._overflow.save())
        return tables

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Restore the state that ``save`` returned. Call it only on a new object."""
        self._table.restore(tables)
        restore_lanes(self._accumulators, tables)
        near = _those_named(NEAR, tables)
        self._near = NearGroups.restored(self._grouping, near) if near else None
        overflow = _those_named(OVERFLOW, tables)
        if overflow:
            self._overflow = KeyRuns(self._grouping.names, self._holder or UNLIMITED.holder())
            self._overflow.restore(overflow)


def _is_one_piece(part: SortedColumns | NearColumns, rows: int) -> bool:
    return len(part) <= rows


def _merged(
    parts: Sequence[tuple[list[pa.Array], list[pa.Array]]],
) -> tuple[list[pa.Array], list[pa.Array]]:
    """Merge sets of groups by key. They have no common key, and each is sorted."""
    if len(parts) == 1:
        return parts[0]
    keys, lanes = (
        [pa.concat_arrays(same) for same in zip(*columns, strict=True)]
        for columns in zip(*parts, strict=True)
    )
    order = pa.array(sorted_keys(keys, len(keys[0])))
    return [key.take(order) for key in keys], [lane.take(order) for lane in lanes]


def _named(prefix: str, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    return {f"{prefix}{name}": table for name, table in tables.items()}


def _those_named(prefix: str, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    return {k.removeprefix(prefix): t for k, t in tables.items() if k.startswith(prefix)}


def closed_groups(
    grouping: Grouping, events: pa.RecordBatch, windows: np.ndarray, at: np.ndarray | None
) -> tuple[np.ndarray, list[pa.Array], list[pa.Array]]:
    """Aggregate rows of many windows at once.

    ``windows`` int64[m]: the window of each of m rows. ``at`` int64[m]: its row in ``events``
    (None: row i is event i). Rows of one window must be in row order. Returns windows int64[g], key
    columns and lane columns, sorted by (window, key).
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
    """Return the distinct pairs of window and key (below ``span``), sorted, and each row's pair."""
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

    The groups are sorted by ``starts`` int64[groups], then by key, then by number. Returns the
    numbers in that order, and in the same order key columns and lane columns.
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
    """Return whether no column is or contains a dictionary, which is slow to concatenate."""
    plain = all(plain_ranked(kind) == kind for kind in schema.types)
    return plain and not has_dictionaries(schema)

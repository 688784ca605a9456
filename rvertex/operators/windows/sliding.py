"""Sliding windows of many panes: a window takes time in the rows that enter and leave, not in all.

Used for functions whose results do not depend on the order of merging: counts, sums of integers,
and extremes of integers and times. The results are bit for bit as if all rows of a window were
gathered. So the groups here are a cache over the live rows, which may be dropped at any time.

Theory: two stacks. When a window starts at or after the bound, the bound moves to the window's end,
and the window's rows are aggregated from the newest step to the oldest (a step is ``every`` long).
Each row stores its group's value over the later steps. So removing a step that leaves the window is
one assignment per row. Rows after the bound are aggregated as they enter. The result of a window
combines both parts.

Invariants: (1) ``held`` is the rows, among those passed to :meth:`SlidingWindows.close`, that are
in an open window; (2) ``_left`` has the groups of the window's rows before ``_bound``, and
``_right`` has the groups of its rows after it.
"""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, int64_column
from rstream.items.dictionaries import join_batches
from rstream.types import MIN_TIME
from rvertex.events.arrays import numbers
from rvertex.keys.key_table import KeyTable
from rvertex.keys.sort_keys import sorted_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rvertex.aggregates.function import Lane
    from rvertex.operators.windows.arithmetic import Windows
    from rvertex.operators.windows.grouping import Grouping

#: Windows of fewer steps than this are computed by gathering their rows instead.
STEPS_MIN = 4
#: If a window has fewer rows than this, gathering them is faster than sliding.
_ROWS_MIN = 2048
_INT64_ABOVE = 2**63
#: Keys without rows are dropped once they outnumber the other keys by at least this number.
_KEYS_MIN = 1024

#: A closed window: its number, key columns and lane columns.
Closed = tuple[int, list[pa.Array], list[pa.Array]]


@dataclass(frozen=True, slots=True)
class SlidingLane:
    """A column of partial rows; ``fold`` merges two values, and ``fill`` is its neutral element."""

    name: str
    type: pa.DataType
    fold: np.ufunc
    fill: int
    #: The name of the carry column. Windows slide only while all carries are zero.
    carry: str | None = None
    #: Whether nulls have occurred; then a group that has only nulls is null.
    is_nullable: bool = False

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy type of the values."""
        return numbers(pa.array([], self.type)).dtype

    def typed(self, values: np.ndarray, empty: np.ndarray | None) -> pa.Array:
        """Convert ``values`` to the column's type, null where ``empty``."""
        column = pa.array(values, mask=empty)
        if pa.types.is_boolean(self.type):
            return column.cast(pa.bool_())
        return column if column.type == self.type else column.view(self.type)


def sliding_lanes(lanes: Sequence[Lane], windows: Windows) -> tuple[SlidingLane, ...] | None:
    """Return the sliding lanes if all ``lanes`` can slide and sliding is faster; else None."""
    if windows.size < STEPS_MIN * windows.every:
        return None
    sliding = [_sliding(lane) for lane in lanes]
    return None if None in sliding else tuple(lane for lane in sliding if lane is not None)


def _sliding(lane: Lane) -> SlidingLane | None:
    kind = lane.type
    fold = lane.kind.fold(kind)
    if fold is None:
        return None
    if fold is np.add:
        return SlidingLane(lane.name, kind, fold, 0, next(iter(lane.side_names), None))
    none = SlidingLane(lane.name, kind, fold, 0)
    limits = np.iinfo(none.dtype)
    return replace(none, fill=int(limits.min if fold is np.maximum else limits.max))


class _Rows(NamedTuple):
    """Partial rows in row order. ``values``: one column per array of a group."""

    vs: np.ndarray
    codes: np.ndarray
    values: list[np.ndarray]

    def part(self, lo: int, hi: int) -> _Rows:
        return _Rows(self.vs[lo:hi], self.codes[lo:hi], [v[lo:hi] for v in self.values])

    def before(self, time: int) -> int:
        """Return the number of rows that start before ``time``."""
        return int(np.searchsorted(self.vs, np.int64(time)))


class SlidingWindows:
    """Closes windows of partial rows, one after another. The lifetime of a row is a pane."""

    def __init__(
        self, windows: Windows, grouping: Grouping, lanes: tuple[SlidingLane, ...]
    ) -> None:
        self._windows = windows
        self._grouping = grouping
        self._lanes = lanes
        self._overlap = windows.size // windows.every
        self._held: deque[pa.RecordBatch] = deque()
        self._reset()

    def _reset(self) -> None:
        """Drop all rows and groups."""
        self._table = KeyTable(self._grouping.types)
        #: Folds and fills of a group's arrays. The arrays are the row count, the lanes, and the
        #: counts of non-null values.
        nullable = [lane for lane in self._lanes if lane.is_nullable]
        self._folds = [np.add, *(lane.fold for lane in self._lanes), *(np.add for _ in nullable)]
        self._fills = [0, *(lane.fill for lane in self._lanes), *(0 for _ in nullable)]
        counts: list[Any] = [np.int64] * len(nullable)
        self._dtypes = [np.int64, *(lane.dtype for lane in self._lanes), *counts]
        self._bound: int = MIN_TIME
        self._block: _Rows | None = None
        self._left, self._right = self._nothing(), self._nothing()
        self._entered: list[_Rows] = []
        self._ahead: deque[_Rows] = deque()
        self._largest = 0
        self._order: np.ndarray | None = None
        self._keys: list[pa.Array] = []
        self._living = 0

    def held(self) -> list[pa.RecordBatch]:
        """Return the live rows, in row order."""
        return list(self._held)

    def release(self) -> list[pa.RecordBatch]:
        """Return the live rows, and reset."""
        rows = list(self._held)
        self._held.clear()
        self._reset()
        return rows

    def close(self, fresh: list[pa.RecordBatch], first: int, end: int) -> Iterable[Closed] | None:
        """Add ``fresh`` rows, all in windows below ``end``; close the windows from ``first`` on.

        The caller takes all closed windows before it calls any other method. None: the caller must
        gather the rows instead, since that is faster, or sums may overflow here. The rows have been
        added; see :meth:`release`.
        """
        self._held.extend(fresh)
        rows = sum(batch.num_rows for batch in self._held)
        if rows == 0:
            return []
        begun, ended = self._span()
        begun, ended = max(first, begun), min(end, ended)
        count = ended - begun
        if count > 0 and rows * min(count, self._overlap) < count * _ROWS_MIN:
            return None
        self._take(fresh)
        if self._largest * rows >= _INT64_ABOVE:
            return None
        return self._closed(begun, ended, end)

    def _closed(self, begun: int, ended: int, end: int) -> Iterator[Closed]:
        """Close the windows ``[begun, ended)``, then drop the rows in no window from ``end`` on."""
        for window in range(begun, ended):
            yield from self._window(window)
        self._leave_behind(end * self._windows.every)

    def _span(self) -> tuple[int, int]:
        """Return the bounds of the windows with rows: the first, and the one after the last."""
        low = int64_column(self._held[0], VS)[:1]
        high = int64_column(self._held[-1], VE)[-1:]
        first, last = self._windows.first_window(low), self._windows.last_window(high)
        return int(first[0]), int(last[0]) + 1

    # ---- rows

    def _take(self, fresh: list[pa.RecordBatch]) -> None:
        """Convert ``fresh`` rows to arrays; convert all rows again if a lane has its first null."""
        nulls = {
            lane.name
            for lane in self._lanes
            if not lane.is_nullable and any(batch.column(lane.name).null_count for batch in fresh)
        }
        if nulls:
            self._lanes = tuple(
                replace(lane, is_nullable=lane.is_nullable or lane.name in nulls)
                for lane in self._lanes
            )
        if nulls or self._block is None or len(self._table) > 2 * self._living + self._spare():
            self._reset()
            fresh = list(self._held)
        if fresh:
            self._ahead.append(self._converted(join_batches(fresh)))

    def _spare(self) -> int:
        """Return how many keys without rows cost less than converting all rows again."""
        rows: int = sum(batch.num_rows for batch in self._held)
        return _KEYS_MIN + rows // self._overlap

    def _converted(self, events: pa.RecordBatch) -> _Rows:
        """Convert rows to codes and numpy values.

        Also note the greatest value, from which the caller sees that a sum may overflow int64.
        """
        rows = events.num_rows
        codes = self._table.codes(self._grouping.key_columns(events), rows)
        values, valid = [np.ones(rows, np.int64)], []
        for lane in self._lanes:
            column = events.column(lane.name)
            found = numbers(column)
            if lane.is_nullable:
                some = column.is_valid().to_numpy(zero_copy_only=False)
                valid.append(some.astype(np.int64))
                found = np.where(some, found, found.dtype.type(lane.fill))
            values.append(found)
            if lane.carry is not None and numbers(events.column(lane.carry)).any():
                self._largest = _INT64_ABOVE
            if lane.fold is np.add and rows:
                largest = max(abs(int(found.min())), abs(int(found.max())))
                self._largest = max(self._largest, largest)
        return _Rows(int64_column(events, VS), codes, [*values, *valid])

    def _leave_behind(self, time: int) -> None:
        """Drop the rows before ``time``, which are in no open window."""
        while self._held:
            vs = int64_column(self._held[0], VS)
            gone = int(np.searchsorted(vs, np.int64(time)))
            if gone < len(vs):
                self._held[0] = self._held[0].slice(gone)
                return
            self._held.popleft()

    # ---- groups

    def _window(self, window: int) -> list[Closed]:
        """Close the next window; empty if it has no row."""
        start, groups = window * self._windows.every, len(self._table)
        if start >= self._bound:
            self._begin(start)
        self._grow(groups)
        self._leave(start)
        self._enter(start + self._windows.size)
        counts = self._left[0] + self._right[0]
        keys, by = self._by_key(counts[:groups] > 0)
        if len(by) == 0:
            return []
        arrays = [
            fold(left[by], right[by])
            for fold, left, right in zip(self._folds, self._left, self._right, strict=True)
        ]
        valid = iter(arrays[1 + len(self._lanes) :])
        lanes = []
        for lane, array in zip(self._lanes, arrays[1:], strict=False):
            lanes.append(lane.typed(array, next(valid) == 0 if lane.is_nullable else None))
            if lane.carry is not None:
                lanes.append(pa.array(np.zeros(len(array), np.int64)))
        return [(window, keys, lanes)]

    def _by_key(self, present: np.ndarray) -> tuple[list[pa.Array], np.ndarray]:
        """Return the key columns of the ``present`` groups, and their codes, sorted by key."""
        if self._order is None or len(self._order) < len(present):
            keys = self._table.keys()
            self._order = sorted_keys(keys, len(present))
            by = pa.array(self._order)
            self._keys = [key.take(by) for key in keys]
        some = present[self._order]
        self._living = int(some.sum())
        if self._living == len(some):
            return self._keys, self._order
        return [key.filter(pa.array(some)) for key in self._keys], self._order[some]

    def _begin(self, start: int) -> None:
        """Start a new bound at the window's end, and aggregate its rows backwards."""
        self._bound = start + self._windows.size
        parts = []
        ahead = [*self._entered, *self._ahead]
        self._entered, self._ahead = [], deque()
        for rows in ahead:
            lo, hi = rows.before(start), rows.before(self._bound)
            if lo < hi:
                parts.append(rows.part(lo, hi))
            if hi < len(rows.vs):
                self._ahead.append(rows.part(hi, len(rows.vs)))
        self._left, self._right = self._nothing(), self._nothing()
        self._grow(len(self._table))
        self._block = _backwards(_joined(parts, self._dtypes), self._windows, self._fold_left)

    def _fold_left(self, rows: _Rows) -> list[np.ndarray]:
        """Add rows to the left groups; return the previous values of each row's group."""
        before = []
        for fold, array, values in zip(self._folds, self._left, rows.values, strict=True):
            before.append(array[rows.codes])
            fold.at(array, rows.codes, values)
        return before

    def _leave(self, start: int) -> None:
        """Remove the rows before ``start`` from the left groups."""
        assert self._block is not None
        gone = self._block.before(start)
        if gone:
            codes = self._block.codes[:gone]
            for array, after in zip(self._left, self._block.values, strict=True):
                # On repeated indices the last assignment wins, so each group gets the value after
                # its last removed step.
                array[codes] = after[:gone]
            self._block = self._block.part(gone, len(self._block.vs))

    def _enter(self, end: int) -> None:
        """Add the rows that start before ``end``, and were not added yet, to their groups."""
        while self._ahead:
            rows = self._ahead[0]
            count = rows.before(end)
            if count == 0:
                return
            entering = rows.part(0, count)
            for fold, array, values in zip(self._folds, self._right, entering.values, strict=True):
                fold.at(array, entering.codes, values)
            self._entered.append(entering)
            self._ahead.popleft()
            if count < len(rows.vs):
                self._ahead.appendleft(rows.part(count, len(rows.vs)))
                return

    def _nothing(self) -> list[np.ndarray]:
        return [np.empty(0, dtype) for dtype in self._dtypes]

    def _grow(self, groups: int) -> None:
        """Grow all arrays to ``groups`` entries."""
        for arrays in (self._left, self._right):
            for i, array in enumerate(arrays):
                if len(array) < groups:
                    room = np.full(max(groups, 2 * len(array)), self._fills[i], array.dtype)
                    room[: len(array)] = array
                    arrays[i] = room


def _joined(parts: list[_Rows], dtypes: list[Any]) -> _Rows:
    if len(parts) == 1:
        return parts[0]
    none = np.empty(0, np.int64)
    columns = [
        np.concatenate([np.empty(0, dtype), *(rows.values[i] for rows in parts)])
        for i, dtype in enumerate(dtypes)
    ]
    return _Rows(
        np.concatenate([none, *(rows.vs for rows in parts)]),
        np.concatenate([none, *(rows.codes for rows in parts)]),
        columns,
    )


def _backwards(rows: _Rows, windows: Windows, fold: Any) -> _Rows:
    """Aggregate step by step from the last step back; each row gets the values of later steps."""
    steps = rows.vs // windows.every
    bounds = [0, *(np.flatnonzero(np.diff(steps)) + 1).tolist(), len(steps)]
    after = [np.empty_like(values) for values in rows.values]
    for lo, hi in reversed(list(itertools.pairwise(bounds))):
        for column, values in zip(after, fold(rows.part(lo, hi)), strict=True):
            column[lo:hi] = values
    return rows._replace(values=after)

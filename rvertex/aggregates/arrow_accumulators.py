"""Accumulators for values of any Arrow type: ``first``, ``last``, ``min`` and ``max``.

Values of types that numpy lacks are stored in an :class:`~rvertex.events.group_arrays.ArrowStore`.
The invariants are as in :mod:`rvertex.aggregates.accumulators`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.types import INF_TIME, MIN_TIME
from rvertex.aggregates.accumulators import Extreme, is_numpy_ordered
from rvertex.aggregates.function import AN_ORDER, AggregateFunction, LaneKind, has_order
from rvertex.events.arrays import as_one_array, numbers
from rvertex.events.group_arrays import ArrowStore, GroupArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.aggregates.accumulators import Accumulator, Rows, Saved
    from rvertex.aggregates.function import Lane


class ArrowFold:
    """Minimum or maximum per group, by Arrow, for types that numpy lacks (text, decimals)."""

    def __init__(self, column: str, kind: pa.DataType, function: str) -> None:
        self._column = column
        self._kind = kind
        self._function = function
        self._store = ArrowStore(kind)

    def update(self, rows: Rows) -> None:
        codes, column = rows.valid(self._column)
        self._store.grow(rows.groups)
        if len(codes) == 0:
            return
        touched, folded = self._folded(codes, column)
        carried = self._store.values(touched)
        if carried.null_count < len(carried):
            both = pa.concat_arrays([carried, folded])
            touched, folded = self._folded(np.concatenate([touched, touched]), both)
        self._store.put(touched, folded)

    def columns(self) -> list[pa.Array]:
        return [self._store.values()]

    def save(self) -> list[Saved]:
        return self._store.save()

    def restore(self, state: Sequence[pa.ChunkedArray]) -> None:
        self._store.restore(state[0], numbers(as_one_array(state[1])))

    def _folded(self, codes: np.ndarray, values: pa.Array) -> tuple[np.ndarray, pa.Array]:
        table = pa.table({"code": codes, "value": values})
        groups = table.group_by("code", use_threads=False).aggregate([("value", self._function)])
        folded = groups.column(f"value_{self._function}").combine_chunks()
        return groups.column("code").to_numpy(), folded.cast(self._kind)


class Pick:
    """The first or last value of a group, null or not, and its time.

    Events arrive in time order, so the first row is the first in time. Partial rows arrive in any
    order: for them ``by`` names their time column, and all of them must be in one update. If an
    aggregate is added to a running job, older groups have no row for it. Their value is null, with
    a time after the times of all rows.
    """

    def __init__(self, column: str, kind: pa.DataType, *, is_last: bool, by: str | None) -> None:
        self._column = column
        self._is_last = is_last
        self._by = by
        self._store = ArrowStore(kind)
        self._times = GroupArray(np.int64, MIN_TIME if is_last else INF_TIME)
        #: Whether some groups have no rows.
        self._has_gaps = False

    def update(self, rows: Rows) -> None:
        codes, column, times = rows.codes, rows.column(self._column), rows.times()
        if self._by is not None:
            assert len(self._store) == 0, "partial rows of a window must be merged in one update"
            times = numbers(rows.column(self._by))
            order = np.argsort(times, kind="stable")
            codes, column, times = codes[order], column.take(pa.array(order)), times[order]
        known = self._store.grow(rows.groups)
        self._has_gaps |= len(codes) == 0
        if self._is_last:
            picked = _last_rows(codes, rows.groups)
        elif self._has_gaps:
            lacking = np.flatnonzero(self._store.lacks(codes))
            picked = lacking[np.unique(codes[lacking], return_index=True)[1]]
        else:
            picked = _first_rows(codes, known)
        if len(picked) == 0:
            self._times.writable(rows.groups)
            return
        if len(picked) < len(codes):
            codes, column, times = codes[picked], column.take(pa.array(picked)), times[picked]
        self._times.writable(rows.groups)[codes] = times
        self._store.put(codes, column)

    def columns(self) -> list[pa.Array]:
        return [self._store.values(), pa.array(self._times.shared())]

    def save(self) -> list[Saved]:
        return [*self._store.save(), pa.array(self._times.shared())]

    def restore(self, state: Sequence[pa.ChunkedArray]) -> None:
        at = numbers(as_one_array(state[1]))
        self._store.restore(state[0], at)
        self._has_gaps = bool((at < 0).any())
        self._times.adopt(numbers(as_one_array(state[2])))


def _first_rows(codes: np.ndarray, known: int) -> np.ndarray:
    """Return the first row of each code from ``known`` on.

    Codes are numbered by first appearance.
    """
    if len(codes) == 0 or int(codes.max()) < known:
        return np.empty(0, np.int64)
    rows = np.flatnonzero(codes >= known)
    fresh = codes[rows]
    first = np.empty(int(fresh.max()) - known + 1, np.int64)
    first[:] = -1
    first[fresh[::-1] - known] = rows[::-1]
    picked: np.ndarray = first[first >= 0]
    return picked


def _last_rows(codes: np.ndarray, groups: int) -> np.ndarray:
    """Return the last row of each code."""
    if groups <= 4 * len(codes):
        rows = np.full(groups, -1)
        # On repeated indices the last assignment wins.
        rows[codes] = np.arange(len(codes))
        picked: np.ndarray = rows[rows >= 0]
        return picked
    reversed_last = np.unique(codes[::-1], return_index=True)[1]
    last: np.ndarray = len(codes) - 1 - reversed_last
    return last


def _extreme(name: str, *, is_max: bool) -> AggregateFunction:
    def opened(column: str, kind: pa.DataType) -> Accumulator:
        if is_numpy_ordered(kind):
            return Extreme(column, kind, is_max=is_max)
        return ArrowFold(column, kind, name)

    def fold(kind: pa.DataType) -> np.ufunc | None:
        # 0.0 and -0.0 are equal, so row order decides which one is kept: not order-free.
        if not is_numpy_ordered(kind) or pa.types.is_floating(kind):
            return None
        return np.maximum if is_max else np.minimum

    lane = LaneKind(
        name,
        lane_type=lambda kind, _: kind,
        accumulator=lambda lane: opened(lane.only_column, lane.type),
        merger=lambda lane: opened(lane.name, lane.type),
        fold=fold,
    )
    return AggregateFunction(name, (lane,), takes=has_order, needs=AN_ORDER)


def _picked(name: str, *, is_last: bool) -> AggregateFunction:
    def merger(lane: Lane) -> Accumulator:
        (times,) = lane.side_names
        return Pick(lane.name, lane.type, is_last=is_last, by=times)

    lane = LaneKind(
        name,
        lane_type=lambda kind, _: kind,
        accumulator=lambda lane: Pick(lane.only_column, lane.type, is_last=is_last, by=None),
        merger=merger,
        suffixes=lambda _: ("vs",),
    )
    return AggregateFunction(name, (lane,), needs_sequence=True)


FUNCTIONS = (
    _extreme("min", is_max=False),
    _extreme("max", is_max=True),
    _picked("first", is_last=False),
    _picked("last", is_last=True),
)

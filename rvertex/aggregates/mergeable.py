"""``variance``, ``stddev`` and ``top_k``: functions of many values whose partial results merge.

A lane buffers the values of its groups and computes its column on request. The column is a struct
of count, mean and squared deviations for ``variance`` and ``stddev``, and the list of the ``k``
greatest values for ``top_k``. Long buffers are shrunk to the values that can influence the result.
So these functions can run in two phases and over shared panes.

``variance`` and ``stddev`` compute in float64. Within a pane they make two passes: the mean, then
squared deviations, corrected by the sum of deviations. All panes of a window are merged at once by
the rule of Chan, Golub and LeVeque. The result is divided by ``n - ddof``, and null if ``n <=
ddof``. ``top_k`` sorts descending, NaN first.

Invariant: a column depends only on the values and their row order. Equal values of ``top_k`` stay
in row order, also when the buffer shrinks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rvertex.aggregates.function import (
    A_NUMBER,
    AN_ORDER,
    AggregateFunction,
    LaneKind,
    has_order,
    is_number,
)
from rvertex.events.arrays import doubles, numbers, one_nan
from rvertex.events.timeline import sorting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.aggregates.accumulators import Accumulator, Rows, Saved
    from rvertex.aggregates.function import Lane, Merged

#: The lane type of ``variance`` and ``stddev``; ``squares``: sum of squared deviations.
MOMENTS = pa.struct([("n", pa.int64()), ("mean", pa.float64()), ("squares", pa.float64())])
_SHRINK_MIN = 1 << 16


class Values:
    """Buffers the values of groups in row order; subclasses compute columns from them."""

    def __init__(self, column: str, kind: pa.DataType) -> None:
        """Buffer the values of ``column``, which have the type ``kind``."""
        self._column = column
        self._kind = kind
        self._groups = 0
        self._codes: list[np.ndarray] = []
        self._values: list[pa.Array] = []
        self._rows = 0
        self._shrink_at = _SHRINK_MIN

    def update(self, rows: Rows) -> None:
        self._groups = rows.groups
        codes, values = self._taken(rows)
        if len(codes) == 0:
            return
        self._codes.append(codes)
        self._values.append(values)
        self._rows += len(codes)
        if self._rows > self._shrink_at:
            self._hold(*self.shrink(*self._in_one_piece()))
            self._shrink_at = max(_SHRINK_MIN, 2 * self._rows)

    def columns(self) -> list[pa.Array]:
        return [self.made(*self._in_one_piece(), self._groups)]

    def save(self) -> list[Saved]:
        codes = pa.chunked_array([pa.array(c) for c in self._codes], pa.int64())
        values = pa.chunked_array(self._values, self._kind)
        return [codes, values, pa.array([self._groups])]

    def restore(self, state: Sequence[pa.ChunkedArray]) -> None:
        codes, values, groups = state
        self._codes = [numbers(chunk) for chunk in codes.chunks]
        self._values, self._rows = list(values.chunks), len(values)
        self._groups = groups[0].as_py()

    def shrink(self, codes: np.ndarray, values: pa.Array) -> tuple[np.ndarray, pa.Array]:
        """Drop values that cannot influence the column. The default drops none."""
        return codes, values

    def made(self, codes: np.ndarray, values: pa.Array, groups: int) -> pa.Array:
        """Compute the column, one value per group."""
        raise NotImplementedError

    def _taken(self, rows: Rows) -> tuple[np.ndarray, pa.Array]:
        return rows.valid(self._column)

    def _in_one_piece(self) -> tuple[np.ndarray, pa.Array]:
        if not self._codes:
            return np.empty(0, np.int64), pa.nulls(0, self._kind)
        if len(self._codes) > 1:
            self._hold(np.concatenate(self._codes), pa.concat_arrays(self._values))
        return self._codes[0], self._values[0]

    def _hold(self, codes: np.ndarray, values: pa.Array) -> None:
        self._codes, self._values, self._rows = [codes], [values], len(codes)


class Moments(Values):
    """Count, mean and squared deviations of each group; values are buffered as doubles."""

    def made(self, codes: np.ndarray, values: pa.Array, groups: int) -> pa.Array:
        doubled = doubles(values)
        count = np.bincount(codes, minlength=groups)
        some = np.maximum(count, 1)
        with np.errstate(all="ignore"):
            # Sum differences from the first value: the sum of large values may overflow to
            # infinity.
            first = first_values(codes, doubled, groups)
            apart = np.bincount(codes, doubled - first[codes], minlength=groups)
            mean = first + apart / some
            deviation = doubled - mean[codes]
            square = np.bincount(codes, deviation * deviation, minlength=groups)
            drift = np.bincount(codes, deviation, minlength=groups)
            corrected = np.maximum(square - drift * (drift / some), 0.0)
            squares = np.where(np.isinf(square), square, corrected)
        return _moments(count, mean, squares)

    def _taken(self, rows: Rows) -> tuple[np.ndarray, pa.Array]:
        codes, values = rows.valid(self._column)
        return codes, pa.array(doubles(values))


class MergedMoments(Values):
    """Merges moments of partial results; a single partial result is unchanged."""

    def made(self, codes: np.ndarray, values: pa.Array, groups: int) -> pa.Array:
        counts, means, squares = (numbers(pc.struct_field(values, i)) for i in range(3))
        some = counts > 0
        codes, counts, means, squares = codes[some], counts[some], means[some], squares[some]
        count = np.bincount(codes, counts, minlength=groups).astype(np.int64)
        with np.errstate(all="ignore"):
            first = first_values(codes, means, groups)
            apart = np.bincount(codes, counts * (means - first[codes]), minlength=groups)
            mean = first + apart / np.maximum(count, 1)
            deviation = means - mean[codes]
            between = np.bincount(codes, counts * deviation * deviation, minlength=groups)
            within = np.bincount(codes, squares, minlength=groups)
            total = np.where(np.isinf(within), within, within + between)
        return _moments(count, mean, total)


class Top(Values):
    """The ``k`` greatest values of each group, greatest first; null if there is none."""

    def __init__(self, column: str, kind: pa.DataType, k: int, *, merges: bool) -> None:
        super().__init__(column, kind)
        self._k = k
        self._merges = merges

    def shrink(self, codes: np.ndarray, values: pa.Array) -> tuple[np.ndarray, pa.Array]:
        columns = {"code": pa.array(codes), "value": values}
        keys = [("code", "ascending"), ("value", "descending")]
        if pa.types.is_floating(self._kind):
            columns["is_nan"] = pc.is_nan(values).cast(pa.int8())
            keys.insert(1, ("is_nan", "descending"))
        order = pc.sort_indices(pa.table(columns), sort_keys=keys).to_numpy()
        ranked = codes[order]
        count = np.bincount(codes)
        rank = np.arange(len(ranked)) - (np.cumsum(count) - count)[ranked]
        kept = order[rank < self._k]
        return codes[kept], values.take(pa.array(kept))

    def made(self, codes: np.ndarray, values: pa.Array, groups: int) -> pa.Array:
        lists = _lists(*self.shrink(codes, values), groups)
        return pc.if_else(pc.equal(pc.list_value_length(lists), 0), None, lists)

    def _taken(self, rows: Rows) -> tuple[np.ndarray, pa.Array]:
        return rows.elements(self._column) if self._merges else rows.valid(self._column)


def first_values(codes: np.ndarray, values: np.ndarray, groups: int) -> np.ndarray:
    """Return the first value of each group; 0 for an empty group."""
    first = np.zeros(groups)
    first[codes[::-1]] = values[::-1]
    return first


def _moments(count: np.ndarray, mean: np.ndarray, squares: np.ndarray) -> pa.Array:
    # numpy returns integers if there is no value at all.
    doubled = (one_nan(values.astype(np.float64)) for values in (mean, squares))
    columns = [pa.array(count.astype(np.int64)), *(pa.array(values) for values in doubled)]
    return pa.StructArray.from_arrays(columns, fields=list(MOMENTS))


def _lists(codes: np.ndarray, values: pa.Array, groups: int) -> pa.Array:
    """Return the values of each group as a list, in the order given."""
    order = sorting(codes)
    counts = np.bincount(codes, minlength=groups)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values.take(pa.array(order)))


def _variance(merged: Merged) -> pa.Array:
    ddof = merged.argument
    assert isinstance(ddof, int), merged
    count, squares = (numbers(pc.struct_field(merged.value, i)) for i in (0, 2))
    with np.errstate(all="ignore"):
        variance = squares / np.maximum(count - ddof, 1)
    return pa.array(one_nan(variance), mask=count <= ddof)


def _top(lane: Lane, column: str, *, merges: bool) -> Accumulator:
    assert isinstance(lane.argument, int), lane
    return Top(column, lane.type.value_type, lane.argument, merges=merges)


_MOMENT_LANES = LaneKind(
    "moments",
    lane_type=lambda *_: MOMENTS,
    accumulator=lambda lane: Moments(lane.only_column, pa.float64()),
    merger=lambda lane: MergedMoments(lane.name, MOMENTS),
    # ``ddof`` only affects the result, so aggregates that differ in it share the lane
    keeps_argument=False,
)
_TOP_LANES = LaneKind(
    "top_k",
    lane_type=lambda kind, _: pa.list_(kind),
    accumulator=lambda lane: _top(lane, lane.only_column, merges=False),
    merger=lambda lane: _top(lane, lane.name, merges=True),
)
FUNCTIONS = (
    AggregateFunction(
        "variance",
        (_MOMENT_LANES,),
        takes=is_number,
        needs=A_NUMBER,
        result_type=lambda *_: pa.float64(),
        finish=_variance,
    ),
    AggregateFunction(
        "stddev",
        (_MOMENT_LANES,),
        takes=is_number,
        needs=A_NUMBER,
        result_type=lambda *_: pa.float64(),
        finish=lambda merged: pc.sqrt(_variance(merged)),
    ),
    AggregateFunction("top_k", (_TOP_LANES,), takes=has_order, needs=AN_ORDER),
)

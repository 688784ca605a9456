"""Statistics: ``corr``, ``covariance``, ``mode``, ``quantile_disc``, ``skewness``, ``kurtosis``.

All of them need all values of a window at once. All except ``mode`` compute in float64.

``corr`` and ``covariance`` take structs of two doubles, and skip rows in which either is null. They
make two passes: means, then products of deviations, in row order. ``covariance`` divides by ``n -
ddof`` and is null if ``n <= ddof``. ``corr`` is null if one of the columns is constant.
``skewness`` and ``kurtosis`` use powers of deviations, treat the values as a whole population, and
are null if all values are equal. The kurtosis of a normal distribution is 0.

``mode`` is the most frequent value. Ties return the smallest value, so row order is ignored. NaN
counts as one value, greater than every number. ``quantile_disc`` returns one of the values; its
argument is a text such as ``0.25 asc`` or ``0.25 desc``.
"""

from __future__ import annotations

from functools import partial
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
from rvertex.aggregates.holistic import Holistic, no_partial_rows
from rvertex.aggregates.mergeable import first_values
from rvertex.events.arrays import doubles, one_nan

if TYPE_CHECKING:
    from rvertex.aggregates.accumulators import Accumulator, Rows
    from rvertex.aggregates.function import Lane

#: The input type of ``corr`` and ``covariance``.
PAIR = pa.struct([("x", pa.float64()), ("y", pa.float64())])
#: By function: the power of the deviations, and the value of a normal distribution to subtract.
_POWERS = {"skewness": (3, 0.0), "kurtosis": (4, 3.0)}


class Together(Holistic):
    """Correlation (``ddof`` None) or covariance."""

    def __init__(self, column: str, ddof: int | None) -> None:
        super().__init__(column, pa.float64())
        self._ddof = ddof

    def made(self, rows: Rows) -> pa.Array:
        codes, pairs = rows.valid(self._column)
        x, y = (pc.struct_field(pairs, at) for at in (0, 1))
        both = pc.and_(x.is_valid(), y.is_valid()).to_numpy(zero_copy_only=False)
        codes = codes[both]
        values = [side.filter(pa.array(both)).to_numpy() for side in (x, y)]
        count = np.bincount(codes, minlength=rows.groups)
        with np.errstate(all="ignore"):
            apart = [v - (_sums(v, codes, rows.groups) / count)[codes] for v in values]
            products = _sums(apart[0] * apart[1], codes, rows.groups)
            if self._ddof is not None:
                covariances = products / (count - self._ddof)
                return pa.array(one_nan(covariances), mask=count <= self._ddof)
            squares = [_sums(a * a, codes, rows.groups) for a in apart]
            covariances = products / (np.sqrt(squares[0]) * np.sqrt(squares[1]))
        one = _is_one(values[0], codes, rows.groups) | _is_one(values[1], codes, rows.groups)
        return pa.array(one_nan(np.clip(covariances, -1.0, 1.0)), mask=one)


def _sums(values: np.ndarray, codes: np.ndarray, groups: int) -> np.ndarray:
    return np.bincount(codes, weights=values, minlength=groups)


def _is_one(values: np.ndarray, codes: np.ndarray, groups: int) -> np.ndarray:
    """Return which groups have at most one distinct value."""
    low, high = np.full(groups, np.inf), np.full(groups, -np.inf)
    np.minimum.at(low, codes, values)
    np.maximum.at(high, codes, values)
    is_equal: np.ndarray = low >= high
    return is_equal


def _opened(lane: Lane) -> Accumulator:
    ddof = lane.argument
    assert ddof is None or isinstance(ddof, int), lane
    return Together(lane.only_column, ddof)


class DiscreteQuantile(Holistic):
    """The smallest value such that at least a share ``q`` of all values is less or equal."""

    def __init__(self, column: str, kind: pa.DataType, q: float, *, is_descending: bool) -> None:
        super().__init__(column, kind)
        self._q, self._is_descending = q, is_descending

    def made(self, rows: Rows) -> pa.Array:
        codes, values = rows.valid(self._column)
        by_value = np.lexsort((_ranks(values), codes))
        count = np.bincount(codes, minlength=rows.groups)
        # As in DuckDB: rounding may make n * q slightly larger than the exact whole number.
        place = np.maximum(count - np.floor(count - count * self._q), 1).astype(np.int64) - 1
        if self._is_descending:
            place = count - 1 - place
        at = np.clip(np.cumsum(count) - count + place, 0, max(len(by_value) - 1, 0))
        if len(by_value) == 0:
            return pa.nulls(rows.groups, values.type)
        return values.take(pa.array(by_value[at], mask=count == 0))


class Mode(Holistic):
    """The most frequent value."""

    def made(self, rows: Rows) -> pa.Array:
        codes, values = rows.valid(self._column)
        rank = _ranks(values)
        # Take the first row of each distinct value of a group. So of 0.0 and -0.0 the first is
        # kept.
        by_value = np.lexsort((rank, codes))
        sorted_codes, sorted_rank = codes[by_value], rank[by_value]
        is_head = np.ones(len(by_value), bool)
        is_head[1:] = (sorted_codes[1:] != sorted_codes[:-1]) | (
            sorted_rank[1:] != sorted_rank[:-1]
        )
        heads = np.flatnonzero(is_head)
        counts = np.diff(np.append(heads, len(by_value)))
        best = np.lexsort((-counts, sorted_codes[heads]))
        groups, at = np.unique(sorted_codes[heads][best], return_index=True)
        results = np.zeros(rows.groups, np.int64)
        results[groups] = by_value[heads[best[at]]]
        mask = np.ones(rows.groups, bool)
        mask[groups] = False
        return values.take(pa.array(results, mask=mask))


def _ranks(values: pa.Array) -> np.ndarray:
    """Return the dense ranks of values (int64[n]); NaN has the greatest rank."""
    ordered = values.cast(pa.float32()) if pa.types.is_float16(values.type) else values
    ranks: np.ndarray = pc.rank(ordered, tiebreaker="dense").to_numpy().astype(np.int64)
    return ranks


class Shape(Holistic):
    """Skewness or kurtosis."""

    def __init__(self, column: str, power: int, normal: float) -> None:
        super().__init__(column, pa.float64())
        self._power, self._normal = power, normal

    def made(self, rows: Rows) -> pa.Array:
        codes, column = rows.valid(self._column)
        values, groups = doubles(column), rows.groups
        count = np.bincount(codes, minlength=groups)
        some = np.maximum(count, 1)
        with np.errstate(all="ignore"):
            first = first_values(codes, values, groups)
            apart = values - first[codes]
            mean = np.bincount(codes, apart, minlength=groups) / some
            deviation = apart - mean[codes]
            spread = np.bincount(codes, deviation**2, minlength=groups) / some
            shape = np.bincount(codes, deviation**self._power, minlength=groups) / some
            results = shape / spread ** (self._power / 2) - self._normal
        varies = np.zeros(groups, bool)
        varies[codes[~(apart == 0)]] = True
        return pa.array(one_nan(results), mask=~varies)


def _of_pairs(name: str) -> AggregateFunction:
    lane = LaneKind(
        name,
        lane_type=lambda *_: pa.float64(),
        accumulator=_opened,
        merger=no_partial_rows,
    )
    return AggregateFunction(
        name,
        (lane,),
        takes=lambda kind: bool(kind == PAIR),
        needs="pairs of doubles",
        is_holistic=lambda _: True,
    )


def _of_values(name: str, lane: LaneKind, *, is_numeric: bool) -> AggregateFunction:
    takes = is_number if is_numeric else has_order
    needs = A_NUMBER if is_numeric else AN_ORDER
    return AggregateFunction(name, (lane,), takes=takes, needs=needs, is_holistic=lambda _: True)


def _shape(power: int, normal: float, lane: Lane) -> Accumulator:
    return Shape(lane.only_column, power, normal)


_MODES = LaneKind(
    "mode",
    lane_type=lambda kind, _: kind,
    accumulator=lambda lane: Mode(lane.only_column, lane.type),
    merger=no_partial_rows,
)


def _opened_discrete(lane: Lane) -> Accumulator:
    q, way = str(lane.argument).split(" ")
    descending = way == "desc"
    return DiscreteQuantile(lane.only_column, lane.type, float(q), is_descending=descending)


_DISCRETE = LaneKind(
    "quantile_disc",
    lane_type=lambda kind, _: kind,
    accumulator=_opened_discrete,
    merger=no_partial_rows,
)
FUNCTIONS = (
    _of_pairs("corr"),
    _of_pairs("covariance"),
    _of_values("mode", _MODES, is_numeric=False),
    _of_values("quantile_disc", _DISCRETE, is_numeric=False),
    *(
        _of_values(
            name,
            LaneKind(
                name,
                lane_type=lambda *_: pa.float64(),
                accumulator=partial(_shape, power, normal),
                merger=no_partial_rows,
            ),
            is_numeric=True,
        )
        for name, (power, normal) in _POWERS.items()
    ),
)

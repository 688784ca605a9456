"""The functions ``corr`` and ``covariance`` of two columns, in float64, over all rows of a window.

Values are structs of two doubles; a row in which either is null does not count. Two passes: means,
then products of deviations, in sequence order. ``covariance`` is over ``n - ddof``, and null for
``n <= ddof``; ``corr`` is null where one of the columns does not vary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rvertex.aggregates.function import AggregateFunction, LaneKind
from rvertex.aggregates.holistic import Holistic, no_partial_rows
from rvertex.events.arrays import one_nan

if TYPE_CHECKING:
    from rvertex.aggregates.accumulators import Accumulator, Rows
    from rvertex.aggregates.function import Lane

#: What the values are.
PAIR = pa.struct([("x", pa.float64()), ("y", pa.float64())])


class Together(Holistic):
    """``ddof`` None: the correlation, else the covariance."""

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
                found = products / (count - self._ddof)
                return pa.array(one_nan(found), mask=count <= self._ddof)
            squares = [_sums(a * a, codes, rows.groups) for a in apart]
            found = products / (np.sqrt(squares[0]) * np.sqrt(squares[1]))
        one = _is_one(values[0], codes, rows.groups) | _is_one(values[1], codes, rows.groups)
        return pa.array(one_nan(np.clip(found, -1.0, 1.0)), mask=one)


def _sums(values: np.ndarray, codes: np.ndarray, groups: int) -> np.ndarray:
    return np.bincount(codes, weights=values, minlength=groups)


def _is_one(values: np.ndarray, codes: np.ndarray, groups: int) -> np.ndarray:
    """Which groups have one value at most."""
    low, high = np.full(groups, np.inf), np.full(groups, -np.inf)
    np.minimum.at(low, codes, values)
    np.maximum.at(high, codes, values)
    found: np.ndarray = low >= high
    return found


def _opened(lane: Lane) -> Accumulator:
    ddof = lane.argument
    assert ddof is None or isinstance(ddof, int), lane
    return Together(lane.only_column, ddof)


def _function(name: str) -> AggregateFunction:
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


FUNCTIONS = (_function("corr"), _function("covariance"))

"""Aggregates that need all values of a window at once, and those that users write.

A :class:`Gathered` lane gets the rows of closed windows in one update, in sequence order, and keeps
no state between updates. So its result cannot depend on how the input was cut, and sums within it
run over the whole window in sequence order.

``quantile``: exact; the value at place ``q * (n - 1)`` of the sorted values, between two
places by linear interpolation (type 7 of Hyndman and Fan). ``user``: see :class:`UserAggregate`.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa

from rvertex.aggregates.user_defined import Custom, UserAggregate, result_column
from rvertex.events.arrays import doubles, one_nan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.aggregates.accumulators import Rows

GATHERED = ("quantile", "user")


def gathered_type(function: str, kind: pa.DataType, argument: object) -> pa.DataType | None:
    """Type of the result over values of ``kind``; None if the function does not take them."""
    types = pa.types
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    if function == "user":
        assert isinstance(argument, Custom), argument
        return argument.target.type
    if function in ("variance", "stddev", "quantile"):
        return pa.float64() if is_number else None
    if types.is_nested(kind) or types.is_null(kind):
        return None
    return pa.int64() if function == "count_distinct" else pa.list_(kind)


class Gathered:
    """One gathered function; an accumulator that is updated once."""

    def __init__(self, function: str, column: str, kind: pa.DataType, argument: Any) -> None:
        self._function = function
        self._column = column
        self._kind = kind
        self._argument = argument
        self._result: pa.Array | None = None

    def update(self, rows: Rows) -> None:
        assert self._result is None, "a gathered lane gets all rows of its windows at once"
        if self._function == "user":
            self._result = self._user(rows)
            return
        codes, values = rows.valid(self._column)
        match self._function:
            case "quantile":
                self._result = _quantile(codes, values, rows.groups, self._argument)
            case other:
                raise AssertionError(other)

    def columns(self) -> list[pa.Array]:
        return [pa.nulls(0, self._kind) if self._result is None else self._result]

    def save(self) -> NoReturn:
        raise AssertionError("a gathered lane has no state; its rows have")

    def restore(self, state: Sequence[pa.ChunkedArray]) -> None:
        raise AssertionError("a gathered lane has no state; its rows have")

    def _user(self, rows: Rows) -> pa.Array:
        """One call per group, over its values in sequence order."""
        target: UserAggregate = self._argument.target
        order = np.argsort(rows.codes, kind="stable")
        values = rows.column(self._column).take(pa.array(order))
        bounds = np.searchsorted(rows.codes[order], np.arange(rows.groups + 1)).tolist()
        found = [
            target.result(target.add(target.init(), values.slice(lo, hi - lo)))
            for lo, hi in itertools.pairwise(bounds)
        ]
        return result_column(self._argument, found)


def _quantile(codes: np.ndarray, column: pa.Array, groups: int, q: float) -> pa.Array:
    values = doubles(column)
    # NaN sorts last in numpy: above every number.
    ordered = values[np.lexsort((values, codes))]
    count = np.bincount(codes, minlength=groups)
    if len(values) == 0:
        return pa.nulls(groups, pa.float64())
    place = q * np.maximum(count - 1, 0)
    low = np.floor(place).astype(np.int64)
    first = np.minimum(np.cumsum(count) - count + low, len(ordered) - 1)
    share = place - low
    below = ordered[first]
    above = ordered[np.where(share > 0, np.minimum(first + 1, len(ordered) - 1), first)]
    with np.errstate(all="ignore"):
        between = below * (1.0 - share) + above * share
    exact = (share == 0) | (below == above)
    return pa.array(one_nan(np.where(exact, below, between)), mask=count == 0)

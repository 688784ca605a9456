"""Functions that need all values of a window at once: ``quantile``, lists, and ``user``.

A :class:`Holistic` lane gets all rows of a closed window in one update, in row order, and keeps no
state between updates. So its result does not depend on batch boundaries.

``quantile`` is exact: the value at position ``q * (n - 1)`` of the sorted values, with linear
interpolation between positions (type 7 of Hyndman and Fan). ``array_agg`` keeps nulls. ``collect``
and ``string_agg`` skip nulls, and are null if no value remains; the argument of ``string_agg`` is
the separator. ``user``: see :class:`rvertex.aggregates.user_defined.UserAggregate`; a user
aggregate with ``merge`` is not holistic.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rvertex.aggregates.function import A_NUMBER, AggregateFunction, LaneKind, is_number
from rvertex.aggregates.user_defined import Custom, UserFold, result_column, user_results
from rvertex.events.arrays import doubles, one_nan
from rvertex.state.doing import calling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.aggregates.accumulators import Accumulator, Rows
    from rvertex.aggregates.function import Argument, Lane, Merged


class Holistic:
    """Base of accumulators that are updated once, with all values of their windows."""

    def __init__(self, column: str, kind: pa.DataType) -> None:
        self._column = column
        self._kind = kind
        self._result: pa.Array | None = None

    def update(self, rows: Rows) -> None:
        assert self._result is None, "a holistic aggregate gets all rows of its windows at once"
        self._result = self.made(rows)

    def made(self, rows: Rows) -> pa.Array:
        """Compute the result column, one value per group."""
        raise NotImplementedError

    def columns(self) -> list[pa.Array]:
        return [pa.nulls(0, self._kind) if self._result is None else self._result]

    def save(self) -> NoReturn:
        raise AssertionError("a holistic aggregate has no state; its rows have")

    def restore(self, state: Sequence[pa.ChunkedArray]) -> None:
        raise AssertionError("a holistic aggregate has no state; its rows have")


class Quantile(Holistic):
    """Computes the quantile ``q`` of each group."""

    def __init__(self, column: str, kind: pa.DataType, q: float) -> None:
        super().__init__(column, kind)
        self._q = q

    def made(self, rows: Rows) -> pa.Array:
        codes, values = rows.valid(self._column)
        return _quantile(codes, values, rows.groups, self._q)


class UserAtOnce(Holistic):
    """Calls a user's aggregate without ``merge`` once per group, with all values in row order."""

    def __init__(self, column: str, custom: Custom) -> None:
        super().__init__(column, custom.target.type)
        self._custom = custom

    def made(self, rows: Rows) -> pa.Array:
        target = self._custom.target
        order = np.argsort(rows.codes, kind="stable")
        values = rows.column(self._column).take(pa.array(order))
        bounds = np.searchsorted(rows.codes[order], np.arange(rows.groups + 1)).tolist()
        with calling(target.add):
            results = [
                target.result(target.add(target.init(), values.slice(lo, hi - lo)))
                for lo, hi in itertools.pairwise(bounds)
            ]
        return result_column(self._custom, results)


class Listed(Holistic):
    """Lists the values in row order. Without ``keeps_nulls``, null if no value remains."""

    def __init__(self, column: str, kind: pa.DataType, *, keeps_nulls: bool) -> None:
        super().__init__(column, kind)
        self._keeps_nulls = keeps_nulls

    def made(self, rows: Rows) -> pa.Array:
        if self._keeps_nulls:
            codes, values = rows.codes, rows.column(self._column)
        else:
            codes, values = rows.valid(self._column)
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(rows.groups + 1))
        empty = pa.array(np.diff(ends) == 0)
        taken = values.take(pa.array(order)).cast(self._kind.value_type)
        lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), taken, type=self._kind)
        return pc.if_else(empty, pa.scalar(None, self._kind), lists)


def _quantile(codes: np.ndarray, column: pa.Array, groups: int, q: float) -> pa.Array:
    values = doubles(column)
    # numpy sorts NaN last, which makes it greater than every number.
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


def _opened_quantile(lane: Lane) -> Accumulator:
    assert isinstance(lane.argument, int | float), lane
    return Quantile(lane.only_column, lane.type, lane.argument)


def no_partial_rows(lane: Lane) -> NoReturn:
    """Raise: this is the merger of holistic lanes, which have no partial rows."""
    raise AssertionError(f"{lane.name} is not merged: it needs all values at once")


def _custom(argument: Argument) -> Custom:
    assert isinstance(argument, Custom), argument
    return argument


def _user_type(_: pa.DataType, argument: Argument) -> pa.DataType:
    custom = _custom(argument)
    return custom.state_type if custom.merges else custom.target.type


def _opened_user(lane: Lane) -> Accumulator:
    custom = _custom(lane.argument)
    if custom.merges:
        return UserFold(lane.only_column, custom, merges=False)
    return UserAtOnce(lane.only_column, custom)


def _user_result(merged: Merged) -> pa.Array:
    custom = _custom(merged.argument)
    return user_results(custom, merged.value) if custom.merges else merged.value


def _list_lane(name: str, *, keeps_nulls: bool) -> LaneKind:
    def opened(lane: Lane) -> Accumulator:
        return Listed(lane.only_column, lane.type, keeps_nulls=keeps_nulls)

    return LaneKind(
        name,
        lane_type=lambda kind, _: pa.list_(kind),
        accumulator=opened,
        merger=no_partial_rows,
        keeps_argument=False,
    )


def _joined(merged: Merged) -> pa.Array:
    separator = merged.argument
    assert isinstance(separator, str), merged
    return pc.binary_join(merged.value, separator)


def _always(_: Argument) -> bool:
    return True


_QUANTILE = LaneKind(
    "quantile",
    lane_type=lambda *_: pa.float64(),
    accumulator=_opened_quantile,
    merger=no_partial_rows,
)
_USER = LaneKind(
    "user",
    lane_type=_user_type,
    accumulator=_opened_user,
    merger=lambda lane: UserFold(lane.name, _custom(lane.argument), merges=True),
)
_VALUES = _list_lane("values", keeps_nulls=False)
FUNCTIONS = (
    AggregateFunction(
        "quantile", (_QUANTILE,), takes=is_number, needs=A_NUMBER, is_holistic=lambda _: True
    ),
    AggregateFunction(
        "user",
        (_USER,),
        result_type=lambda _, argument: _custom(argument).target.type,
        finish=_user_result,
        is_holistic=lambda argument: not _custom(argument).merges,
        shows_order=True,
    ),
    AggregateFunction(
        "array_agg",
        (_list_lane("list", keeps_nulls=True),),
        is_holistic=_always,
        shows_order=True,
    ),
    AggregateFunction("collect", (_VALUES,), is_holistic=_always, shows_order=True),
    AggregateFunction(
        "string_agg",
        (_VALUES,),
        takes=lambda kind: bool(pa.types.is_string(kind) or pa.types.is_large_string(kind)),
        needs="text: cast it",
        result_type=lambda *_: pa.string(),
        finish=_joined,
        is_holistic=_always,
        shows_order=True,
    ),
)

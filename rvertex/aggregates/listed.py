"""The functions ``array_agg``, ``collect`` and ``string_agg``: all values of a window in a list.

They need all values at once (:mod:`rvertex.aggregates.holistic`), and keep their sequence.
``array_agg`` keeps nulls; ``collect`` leaves them out, and is null where nothing is left, as is
``string_agg``, whose argument is what stands between two texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rvertex.aggregates.function import AggregateFunction, LaneKind
from rvertex.aggregates.holistic import Holistic

if TYPE_CHECKING:
    from rvertex.aggregates.accumulators import Accumulator, Rows
    from rvertex.aggregates.function import Argument, Lane, Merged


class Listed(Holistic):
    """The values as a list, in sequence order; ``keeps_nulls``, or null where none is left."""

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


def _lane(name: str, *, keeps_nulls: bool) -> LaneKind:
    def opened(lane: Lane) -> Accumulator:
        return Listed(lane.only_column, lane.type, keeps_nulls=keeps_nulls)

    return LaneKind(
        name,
        lane_type=lambda kind, _: pa.list_(kind),
        accumulator=opened,
        merger=_no_partial_rows,
        keeps_argument=False,
    )


def _no_partial_rows(lane: Lane) -> NoReturn:
    raise AssertionError(f"{lane.name} is not merged: it needs all values at once")


def _joined(merged: Merged) -> pa.Array:
    separator = merged.argument
    assert isinstance(separator, str), merged
    return pc.binary_join(merged.value, separator)


def _always(_: Argument) -> bool:
    return True


_VALUES = _lane("values", keeps_nulls=False)
FUNCTIONS = (
    AggregateFunction("array_agg", (_lane("list", keeps_nulls=True),), is_holistic=_always),
    AggregateFunction("collect", (_VALUES,), is_holistic=_always),
    AggregateFunction(
        "string_agg",
        (_VALUES,),
        takes=lambda kind: bool(pa.types.is_string(kind) or pa.types.is_large_string(kind)),
        needs="text",
        result_type=lambda *_: pa.string(),
        finish=_joined,
        is_holistic=_always,
    ),
)

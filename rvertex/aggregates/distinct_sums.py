"""The functions ``sum_distinct`` and ``mean_distinct``: of each different value of a window once.

-0.0 is 0.0 and NaN is NaN. The different values are summed as those of ``sum`` are: integers and
decimals exactly, doubles in the order in which they first came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rstream.items.batch import VS
from rvertex.aggregates import sums
from rvertex.aggregates.accumulators import Rows
from rvertex.aggregates.function import AggregateFunction, Lane, LaneKind, Merged, is_number
from rvertex.aggregates.holistic import Holistic, no_partial_rows
from rvertex.events.group_scan import heads_of
from rvertex.keys.sort_keys import numbered_keys

if TYPE_CHECKING:
    from rvertex.aggregates.function import Argument

_PLAIN = {function.name: function for function in sums.FUNCTIONS}


class OfDistinct(Holistic):
    """The plain function ``name`` over each different value once."""

    def __init__(self, column: str, kind: pa.DataType, name: str) -> None:
        super().__init__(column, kind)
        self._function = _PLAIN[name]

    def made(self, rows: Rows) -> pa.Array:
        codes, values = rows.valid(self._column)
        number = numbered_keys((values.type,), [values], len(values)).codes
        order = np.lexsort((number, codes))
        first = np.sort(order[heads_of(codes[order], number[order])])
        codes, values = codes[first], values.take(pa.array(first))
        times = pa.array(np.zeros(len(codes), np.int64))
        once = Rows(codes, rows.groups, pa.record_batch([times, values], [VS, self._column]))
        lanes = []
        for kind in self._function.lanes:
            lane = Lane(kind, self._column, kind.lane_type(values.type, None))
            accumulator = lane.accumulator()
            accumulator.update(once)
            lanes.append(tuple(accumulator.columns()))
        merged = Merged(tuple(lanes), self._column, self._column, None)
        empty = pa.array(np.bincount(codes, minlength=rows.groups) == 0)
        found = self._function.finish(merged)
        return pc.if_else(empty, pa.scalar(None, found.type), found)


def _function_of(name: str) -> AggregateFunction:
    plain = _PLAIN[name]

    def result_type(kind: pa.DataType, argument: Argument) -> pa.DataType:
        return plain.result_type(plain.lanes[0].lane_type(kind, argument), argument)

    lane = LaneKind(
        f"{name}_distinct",
        lane_type=result_type,
        accumulator=lambda lane: OfDistinct(lane.only_column, lane.type, name),
        merger=no_partial_rows,
    )
    return AggregateFunction(
        f"{name}_distinct",
        (lane,),
        takes=is_number,
        needs=plain.needs,
        is_holistic=lambda _: True,
        adds_booleans=True,
    )


FUNCTIONS = (_function_of("sum"), _function_of("mean"))

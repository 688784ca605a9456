"""The functions ``listed`` and ``top_value``: values sorted by other values.

``listed`` returns a list of values, or their texts joined. Its input is a column of structs with
the sort columns ``by0``, ``by1``, ... and ``value``. A null struct is a row to skip, so a null
``value`` can be an element. Ties are in row order. In a list of distinct values, each value has the
place of its first occurrence. The argument is a :class:`ListOrder`.

``top_value`` returns the value of the first row; input and argument are as in ``top_rows``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rvertex.aggregates.function import AggregateFunction, LaneKind, has_order
from rvertex.aggregates.holistic import Holistic, no_partial_rows
from rvertex.aggregates.ranked.top_rows import (
    FUNCTIONS as TOP_ROWS,
    Ways,
    read_ways,
    sort_columns,
    sort_keys,
    written_ways,
)
from rvertex.events.group_scan import heads_of
from rvertex.keys.sort_keys import numbered_keys

if TYPE_CHECKING:
    from rvertex.aggregates.accumulators import Accumulator, Rows
    from rvertex.aggregates.function import Argument, Lane, Merged

#: The name of the struct field with the value.
VALUE = "value"


@dataclass(frozen=True, slots=True)
class ListOrder:
    """The argument of ``listed``, as JSON."""

    ways: Ways = ()
    is_distinct: bool = False
    #: The separator of the joined texts; None: the result is a list.
    separator: str | None = None

    def __str__(self) -> str:
        return json.dumps([written_ways(self.ways), self.is_distinct, self.separator])

    @staticmethod
    def read(argument: Argument) -> ListOrder:
        """Parse the argument of an aggregate."""
        assert isinstance(argument, str), argument
        ways, is_distinct, separator = json.loads(argument)
        return ListOrder(read_ways(ways), is_distinct, separator)


class ListedByOrder(Holistic):
    """Lists the values of each group in sorted order; null if there is none."""

    def __init__(self, column: str, kind: pa.DataType, order: ListOrder) -> None:
        super().__init__(column, kind)
        self._order = order

    def made(self, rows: Rows) -> pa.Array:
        codes, structs = rows.valid(self._column)
        at = self._sorted(codes, structs)
        values = pc.struct_field(structs, structs.type.num_fields - 1)
        if self._order.separator is not None:
            at = at[values.is_valid().to_numpy(zero_copy_only=False)[at]]
        if self._order.is_distinct:
            number = numbered_keys((values.type,), [values], len(values)).codes[at]
            again = np.lexsort((np.arange(len(at)), number, codes[at]))
            heads = heads_of(codes[at][again], number[again])
            at = at[np.sort(again[heads])]
        ends = np.searchsorted(codes[at], np.arange(rows.groups + 1))
        empty = pa.array(np.diff(ends) == 0)
        taken = values.take(pa.array(at)).cast(self._kind.value_type)
        lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), taken, type=self._kind)
        return pc.if_else(empty, pa.scalar(None, self._kind), lists)

    def _sorted(self, codes: np.ndarray, structs: pa.Array) -> np.ndarray:
        """Return the row numbers (int64[n]), sorted by group, order columns and row number."""
        ways = self._order.ways
        by = sort_columns([pc.struct_field(structs, i) for i in range(len(ways))], ways)
        place = pa.array(np.arange(len(codes)))
        columns = {"code": pa.array(codes), **by, "at": place}
        order = pc.sort_indices(pa.table(columns), sort_keys=sort_keys(columns, ways))
        positions: np.ndarray = order.to_numpy().astype(np.int64)
        return positions


def _takes(kind: pa.DataType) -> bool:
    if not pa.types.is_struct(kind) or kind.num_fields < 1 or kind.field(-1).name != VALUE:
        return False
    return all(has_order(kind.field(i).type) for i in range(kind.num_fields - 1))


def _opened(lane: Lane) -> Accumulator:
    return ListedByOrder(lane.only_column, lane.type, ListOrder.read(lane.argument))


def _result_type(kind: pa.DataType, argument: Argument) -> pa.DataType:
    return kind if ListOrder.read(argument).separator is None else pa.string()


def _finish(merged: Merged) -> pa.Array:
    separator = ListOrder.read(merged.argument).separator
    return merged.value if separator is None else pc.binary_join(merged.value, separator)


_LISTED = LaneKind(
    "listed",
    lane_type=lambda kind, _: pa.list_(kind.field(-1).type),
    accumulator=_opened,
    merger=no_partial_rows,
)
_TOP = TOP_ROWS[0]


def _top_type(kind: pa.DataType, argument: Argument) -> pa.DataType:
    return _TOP.result_type(kind, argument).value_type.field(-1).type


def _top_value(merged: Merged) -> pa.Array:
    """Return the last struct field (the value) of the only row of each list."""
    lists = _TOP.finish(merged)
    rows = pc.list_element(pc.if_else(lists.is_null(), _one_null(lists.type), lists), 0)
    return pc.struct_field(rows, rows.type.num_fields - 1)


def _one_null(kind: pa.DataType) -> pa.Scalar:
    return pa.scalar([None], kind)


FUNCTIONS = (
    AggregateFunction(
        "listed",
        (_LISTED,),
        takes=_takes,
        needs="values with the values that order them",
        result_type=_result_type,
        finish=_finish,
        is_holistic=lambda _: True,
        shows_order=True,
    ),
    AggregateFunction(
        "top_value",
        _TOP.lanes,
        takes=_TOP.takes,
        needs=_TOP.needs,
        result_type=_top_type,
        finish=_top_value,
        needs_sequence=True,
    ),
)

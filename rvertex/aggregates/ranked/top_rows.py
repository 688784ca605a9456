"""The function ``top_rows``: the first rows of a group by an order, each with its rank number.

The input is one column of structs: the sort columns, ``_vs``, and the row. The argument, such as
``"rank 10 desc, asc nulls first"``, has the method, the limit, and the direction of each sort
column:

- ``row_number``: at most that many rows. Ties return the earliest by ``_vs``, then in row order; or
  the latest if the argument has ``latest``.
- ``rank``: all rows with fewer rows before them than the limit.
- ``dense_rank``: all rows that have one of the first distinct sort values, as many as the limit.

NaN is greater than every number. A result row has its ``place`` (the rank number), its ``position``
in the list and, if the argument has ``copies``, its number among equal rows (``copy``). Such a
column is renamed to ``place_`` and so on if the rows have a column of that name.

Invariant: the first rows of a union are among the first rows of its parts, so partial results
merge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rstream.items.dictionaries import plain_array
from rvertex.aggregates.function import AggregateFunction, LaneKind, has_order
from rvertex.aggregates.mergeable import Values
from rvertex.events.group_scan import group_start, heads_of
from rvertex.keys.sort_keys import numbered_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rvertex.aggregates.accumulators import Accumulator, Rows
    from rvertex.aggregates.function import Argument, Lane, Merged

#: Per sort column: whether it is descending, and whether nulls are first.
Ways = tuple[tuple[bool, bool], ...]
KINDS = ("row_number", "rank", "dense_rank")
#: Result columns in front of the row's own columns; ``copy`` only if requested.
_PLACES = ("place", "position", "copy")
_LATEST, _COPIES = ", latest", ", copies"
_VS, _ROW = "vs", "row"


@dataclass(frozen=True, slots=True)
class TopOrder:
    """The argument of ``top_rows``, parsed."""

    kind: str
    rows: int
    ways: Ways
    #: Whether the result numbers equal rows.
    copies: bool = False
    #: Whether ties put the latest row first.
    latest: bool = False

    def __str__(self) -> str:
        more = f"{_LATEST if self.latest else ''}{_COPIES if self.copies else ''}"
        return f"{self.kind} {self.rows} {written_ways(self.ways)}{more}"

    @staticmethod
    def read(argument: Argument) -> TopOrder:
        """Parse the argument of an aggregate."""
        assert isinstance(argument, str), argument
        plain = argument.removesuffix(_COPIES)
        kind, rows, ways = plain.removesuffix(_LATEST).split(" ", 2)
        copies, latest = argument.endswith(_COPIES), plain.endswith(_LATEST)
        return TopOrder(kind, int(rows), read_ways(ways), copies, latest)

    def place_names(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the place columns.

        ``_`` is appended to a name that ``columns`` has.
        """
        made: list[str] = []
        for name in _PLACES[: 3 if self.copies else 2]:
            while name in columns:  # ends: ``columns`` is finite
                name += "_"
            made.append(name)
        return tuple(made)


def written_ways(ways: Ways) -> str:
    """Format sort directions as text, such as ``desc, asc nulls first``."""
    return ", ".join(
        f"{'desc' if down else 'asc'}{' nulls first' if first else ''}" for down, first in ways
    )


def read_ways(text: str) -> Ways:
    """Parse a text of :func:`written_ways`."""
    return tuple(
        (way.startswith("desc"), way.endswith("nulls first"))
        for way in (text.split(", ") if text else ())
    )


class TopRows(Values):
    """The first rows of each group, in order."""

    def __init__(self, column: str, kind: pa.DataType, order: TopOrder, *, merges: bool) -> None:
        super().__init__(column, kind)
        self._order = order
        self._merges = merges

    def shrink(self, codes: np.ndarray, values: pa.Array) -> tuple[np.ndarray, pa.Array]:
        at, places = self._placed(codes, values)
        kept = at[places <= self._order.rows]
        if self._order.latest:  # keep the buffer in row order, which decides ties
            kept = kept[np.lexsort((kept, codes[kept]))]
        return codes[kept], values.take(pa.array(kept))

    def made(self, codes: np.ndarray, values: pa.Array, groups: int) -> pa.Array:
        codes, values = self.shrink(codes, values)
        ends = np.searchsorted(codes, np.arange(groups + 1))
        empty = pa.array(np.diff(ends) == 0)
        lists = pa.ListArray.from_arrays(
            pa.array(ends, pa.int32()), values, type=pa.list_(self._kind)
        )
        return pc.if_else(empty, pa.scalar(None, lists.type), lists)

    def _placed(self, codes: np.ndarray, values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Sort all rows by group and order; return their positions and places, int64[n] each."""
        ways = self._order.ways
        by = sort_columns([pc.struct_field(values, i) for i in range(len(ways))], ways)
        columns = {"code": pa.array(codes), **by, _VS: pc.struct_field(values, len(ways))}
        columns["at"] = pa.array(np.arange(len(codes)))
        keys = sort_keys(columns, ways)
        if self._order.latest:
            keys = [*keys[:-2], (_VS, "descending"), ("at", "descending")]
        order = pc.sort_indices(pa.table(columns), sort_keys=keys)
        at = order.to_numpy()
        codes = codes[at]
        heads = heads_of(codes)
        first = group_start(heads)
        number = np.arange(len(codes)) - first
        if self._order.kind != "row_number":
            begins = heads | _changes([column.take(order) for column in by.values()])
            if self._order.kind == "rank":
                number = number[group_start(begins)]
            else:
                count = np.cumsum(begins)
                number = count - count[first]
        return at, number + 1

    def _taken(self, rows: Rows) -> tuple[np.ndarray, pa.Array]:
        return rows.elements(self._column) if self._merges else rows.valid(self._column)


def sort_keys(columns: Iterable[str], ways: Ways) -> list[tuple[str, str]]:
    """Return the sort keys for Arrow: all ``columns``.

    Columns of values have the direction of ``ways``, columns of flags ascend.
    """
    down = {f"value{i}" for i, (is_down, _) in enumerate(ways) if is_down}
    return [(name, "descending" if name in down else "ascending") for name in columns]


def sort_columns(values: Sequence[pa.Array], ways: Ways) -> dict[str, pa.Array]:
    """Return the columns for Arrow to sort by: flags for nulls and NaN, and the other values."""
    columns: dict[str, pa.Array] = {}
    for i, (value, (down, nulls_first)) in enumerate(zip(values, ways, strict=True)):
        value = plain_array(value)
        none = value.is_null()
        columns[f"null{i}"] = (pc.invert(none) if nulls_first else none).cast(pa.int8())
        if pa.types.is_float16(value.type):  # Arrow can neither add nor sort float16
            value = value.cast(pa.float32())
        if pa.types.is_floating(value.type):
            nan = pc.fill_null(pc.is_nan(value), False)
            columns[f"nan{i}"] = (pc.invert(nan) if down else nan).cast(pa.int8())
            value = pc.if_else(nan, pa.scalar(0, value.type), value)
            value = pc.add(value, pa.scalar(0, value.type))  # turns -0.0 into 0.0
        if pa.types.is_boolean(value.type):
            value = value.cast(pa.int8())
        columns[f"value{i}"] = value
    return columns


def _changes(columns: list[pa.Array]) -> np.ndarray:
    """Return whether each row differs from the row before it."""
    rows = len(columns[0])
    changed = np.zeros(rows, bool)
    if rows == 0:
        return changed
    for column in columns:
        before, after = column.slice(0, rows - 1), column.slice(1)
        differs = pc.fill_null(pc.not_equal(before, after), False)
        # The flag column already distinguishes nulls, so the value behind a null is ignored.
        changed[1:] |= differs.to_numpy(zero_copy_only=False)
    return changed


def _result_type(kind: pa.DataType, argument: Argument) -> pa.DataType:
    row = kind.value_type.field(_ROW).type
    names = TopOrder.read(argument).place_names([f.name for f in row])
    places = [(name, pa.int64()) for name in names]
    return pa.list_(pa.struct([*places, *((f.name, f.type) for f in row)]))


def _finish(merged: Merged) -> pa.Array:
    """Build the result: lists of rows with their places."""
    lists, order = merged.value, TopOrder.read(merged.argument)
    kind = _result_type(lists.type, merged.argument)
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    codes = np.repeat(np.arange(len(lists)), counts)
    values = lists.flatten()
    top = TopRows("", values.type, order, merges=False)
    at, places = top._placed(codes, values)
    codes, values = codes[at], values.take(pa.array(at))
    rows = pc.struct_field(values, values.type.get_field_index(_ROW))
    position = np.arange(len(codes)) - group_start(heads_of(codes)) + 1
    columns = [pa.array(places), pa.array(position)]
    if order.copies:
        columns.append(pa.array(_copies(codes, rows.flatten())))
    columns += rows.flatten()
    made = pa.StructArray.from_arrays(columns, fields=list(kind.value_type))
    ends = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
    whole = pa.ListArray.from_arrays(ends, made, type=kind)
    return pc.if_else(lists.is_null(), pa.scalar(None, kind), whole)


def _copies(codes: np.ndarray, columns: Sequence[pa.Array]) -> np.ndarray:
    """Return the number of each row among the equal rows of its list, from 1."""
    keys = [pa.array(codes), *map(plain_array, columns)]
    same = numbered_keys([key.type for key in keys], keys, len(codes)).codes
    order = np.argsort(same, kind="stable")
    number = np.empty(len(codes), np.int64)
    number[order] = np.arange(len(codes)) - group_start(heads_of(same[order])) + 1
    return number


def _takes(kind: pa.DataType) -> bool:
    """Return whether the type is a struct of comparable sort columns, a time and a row."""
    if not pa.types.is_struct(kind) or kind.num_fields < 2 or kind.field(-1).name != _ROW:
        return False
    return all(has_order(kind.field(i).type) for i in range(kind.num_fields - 2))


def _opened(lane: Lane, column: str, *, merges: bool) -> Accumulator:
    order = TopOrder.read(lane.argument)
    return TopRows(column, lane.type.value_type, order, merges=merges)


_LANES = LaneKind(
    "top_rows",
    lane_type=lambda kind, _: pa.list_(kind),
    accumulator=lambda lane: _opened(lane, lane.only_column, merges=False),
    merger=lambda lane: _opened(lane, lane.name, merges=True),
)
FUNCTIONS = (
    AggregateFunction(
        "top_rows",
        (_LANES,),
        takes=_takes,
        needs="rows with the values that order them",
        result_type=_result_type,
        finish=_finish,
        needs_sequence=True,
    ),
)

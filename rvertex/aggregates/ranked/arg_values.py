"""The functions ``max_by`` and ``min_by``, and accumulators for ranks of text, bytes or decimals.

:class:`RankedByValue` supports any rank that Arrow can sort. Its results are as in
:class:`rvertex.aggregates.ranked.arg_extremes.Ranked`, whose ranks are numbers. Ties return the row
with the smallest ``vs``, then the first in row order.

Invariants: as in :mod:`rvertex.aggregates.accumulators`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rstream.items.dictionaries import plain_array
from rvertex.aggregates.function import AggregateFunction, LaneKind
from rvertex.aggregates.ranked.arg_extremes import (
    Ranked,
    has_numbers,
    is_ranked_type,
    value_type,
    values_of,
    with_rank,
)
from rvertex.events.arrays import as_one_array, numbers
from rvertex.events.group_arrays import ArrowStore
from rvertex.events.group_scan import heads_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.aggregates.accumulators import Accumulator, Rows, Saved


class RankedByValue:
    """Keeps, per group, the struct with the greatest (``is_max``) or smallest rank."""

    def __init__(self, column: str, kind: pa.DataType, *, is_max: bool) -> None:
        self._column = column
        self._kind = kind
        self._order = "descending" if is_max else "ascending"
        self._store = ArrowStore(kind)

    def update(self, rows: Rows) -> None:
        """Add rows to the groups."""
        self._store.grow(rows.groups)
        codes, column = with_rank(*rows.valid(self._column))
        if len(codes) == 0:
            return
        touched = np.unique(codes)
        carried = self._store.values(touched)
        is_there = carried.is_valid()
        carried, kept = carried.filter(is_there), touched[is_there.to_numpy(zero_copy_only=False)]
        parts = [plain_array(column.field(k)) for k in range(3)]
        fields = [pa.concat_arrays([carried.field(k), parts[k]]) for k in range(3)]
        code = np.concatenate([kept, codes])
        table = pa.table({"code": code, "rank": fields[0], "vs": fields[1]})
        # The sort is stable and stored rows are first, so ties keep the earlier row.
        keys = [("code", "ascending"), ("rank", self._order), ("vs", "ascending")]
        order = pc.sort_indices(table, sort_keys=keys)
        first = order.filter(pa.array(heads_of(code[order.to_numpy()])))
        best = pa.StructArray.from_arrays(
            [field.take(first) for field in fields], fields=list(self._kind)
        )
        self._store.put(touched, best)

    def columns(self) -> list[pa.Array]:
        """Return the structs, null for groups without one."""
        return [self._store.values()]

    def save(self) -> list[Saved]:
        """Return the structs by reference."""
        return [*self._store.save()]

    def restore(self, state: Sequence[pa.ChunkedArray]) -> None:
        """Restore the state that ``save`` returned."""
        self._store.restore(state[0], numbers(as_one_array(state[1])))


def _by_rank(name: str, *, is_max: bool) -> AggregateFunction:
    def opened(column: str, kind: pa.DataType) -> Accumulator:
        ranked = Ranked if has_numbers(kind) else RankedByValue
        return ranked(column, kind, is_max=is_max)

    lane = LaneKind(
        name,
        lane_type=lambda kind, _: kind,
        accumulator=lambda lane: opened(lane.only_column, lane.type),
        merger=lambda lane: opened(lane.name, lane.type),
        is_order_free=True,
    )
    return AggregateFunction(
        name,
        (lane,),
        takes=is_ranked_type,
        needs="a value with its rank",
        result_type=lambda kind, _: value_type(kind),
        finish=lambda merged: values_of(merged.value),
        takes_ranks=True,
        needs_sequence=True,
    )


FUNCTIONS = (_by_rank("max_by", is_max=True), _by_rank("min_by", is_max=False))

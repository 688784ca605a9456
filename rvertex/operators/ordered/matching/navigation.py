"""Values that conditions and measures read from the rows of a match, for many matches at once.

A *leaf* is one such value: a column of the first or last row of some variables, or of a row near
that row; an aggregate over the rows of some variables; the variable of a row; or the match number.
Expressions are evaluated over rows whose columns are leaves.

The rows of many matches are concatenated, each with its variable. A leaf is computed for a *span*
of them: from the first row of a match up to and including one of its rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from rvertex.aggregates.accumulators import Rows
from rvertex.aggregates.spec import AggregateSpec
from rvertex.events.arrays import as_one_array
from rvertex.operators.windows.hopping import gathering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.aggregates.function import Argument
    from rvertex.operators.ordered.matching.store import RowStore

#: Most pairs (span, row in it) that are aggregated in one pass.
_PAIRS_MAX = 1 << 20
#: Functions that are 0 without rows; all others are null.
_COUNTS = ("count", "count_distinct")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value that is read from a span. ``variables``: whose rows it reads; None: any rows."""

    kind: Literal["row", "aggregate", "classifier", "match_number"]
    type: pa.DataType
    variables: tuple[int, ...] | None = None
    column: str | None = None
    #: For kind "row": whether ``offset`` counts forward from the first row of the variables
    #: (FIRST). If not, it counts back from the last row (LAST).
    from_first: bool = False
    offset: int = 0
    #: For kind "row": after that, move this many rows of the key forward (NEXT); negative: back
    #: (PREV).
    move: int = 0
    #: Whether it reads the whole match (FINAL), even if the span ends earlier.
    is_final: bool = False
    function: str = ""
    argument: Argument = None

    def is_of_row(self, variable: int) -> bool:
        """Return whether it reads only the last row of ``variable``, and that row's neighbours."""
        is_last = self.kind == "row" and not self.from_first and self.offset == 0
        return is_last and (self.variables is None or variable in self.variables)


@dataclass(frozen=True, slots=True)
class Spans:
    """The rows of many matches, and the spans to compute.

    ``numbers`` int64[n]: the rows. ``labels`` int64[n]: their variables, -1 for rows before or
    after a match. ``low``, ``high``, ``end`` int64[m]: a span is ``[low, high)``, and its match is
    ``[low, end)``.
    """

    numbers: np.ndarray
    labels: np.ndarray
    low: np.ndarray
    high: np.ndarray
    end: np.ndarray
    match: np.ndarray


class Reader:
    """Computes leaves (see the module) of spans, as columns."""

    def __init__(self, leaves: Sequence[Leaf], names: tuple[str, ...], payload: pa.Schema) -> None:
        """Read ``leaves`` from rows of schema ``payload``; ``names`` are the variables' names."""
        self.leaves = tuple(leaves)
        self._names = pa.array(names, pa.string())
        self._payload = payload
        self.schema = pa.schema([(f"leaf{i}", leaf.type) for i, leaf in enumerate(leaves)])

    def columns(self, spans: Spans, store: RowStore) -> pa.RecordBatch:
        """Return one row per span, one column per leaf."""
        reading = _Reading(spans, store, self._names, self._payload)
        columns = [reading.column(leaf) for leaf in self.leaves]
        count = pa.nulls(len(spans.low))
        schema = self.schema.append(pa.field("count", pa.null()))
        return pa.RecordBatch.from_arrays([*columns, count], schema=schema)


class _Reading:
    """Computes the leaves of one set of spans."""

    def __init__(self, spans: Spans, store: RowStore, names: pa.Array, payload: pa.Schema) -> None:
        self._spans, self._store, self._names, self._payload = spans, store, names, payload
        self._table = store.table()
        self._of: dict[tuple[int, ...] | None, tuple[np.ndarray, np.ndarray]] = {}

    def column(self, leaf: Leaf) -> pa.Array:
        """Return the values of one leaf (see the module), one per span."""
        spans = self._spans
        if leaf.kind == "match_number":
            return pa.array(spans.match)
        high = spans.end if leaf.is_final else spans.high
        places, before = self._rows_of(leaf.variables)
        lo, hi = before[spans.low], before[high]
        if leaf.kind == "aggregate":
            return self._aggregated(leaf, places, lo, hi)
        at = lo + leaf.offset if leaf.from_first else hi - 1 - leaf.offset
        is_there = (at >= lo) & (at < hi)
        row = np.where(is_there, places[np.where(is_there, at, 0)] if len(places) else 0, 0)
        if leaf.kind == "classifier":
            labels = spans.labels[row] if len(spans.labels) else row
            return self._names.take(pa.array(labels, mask=~is_there))
        moved = row + leaf.move
        is_there &= (moved >= 0) & (moved < len(spans.numbers))
        moved = np.where(is_there, moved, 0)
        numbers = np.where(is_there, spans.numbers[moved] if len(spans.numbers) else -1, -1)
        positions = self._store.places(numbers)
        assert leaf.column is not None, leaf
        column = self._table.column(leaf.column).take(pa.array(positions, mask=positions < 0))
        return as_one_array(column)

    def _rows_of(self, variables: tuple[int, ...] | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of the rows of ``variables``.

        Also the number of such rows before each position.
        """
        known = self._of.get(variables)
        if known is None:
            labels = self._spans.labels
            mask = labels >= 0 if variables is None else np.isin(labels, variables)
            before = np.zeros(len(labels) + 1, np.int64)
            np.cumsum(mask, out=before[1:])
            known = self._of[variables] = np.flatnonzero(mask), before
        return known

    def _aggregated(
        self, leaf: Leaf, places: np.ndarray, lo: np.ndarray, hi: np.ndarray
    ) -> pa.Array:
        """Aggregate the rows ``places[lo:hi]`` of each span, in several passes."""
        size = hi - lo
        upto = np.cumsum(size)
        pieces: list[pa.Array] = []
        at = 0
        while at < len(size):  # ends: at grows
            before = int(upto[at] - size[at])
            to = max(at + 1, int(np.searchsorted(upto, before + _PAIRS_MAX, side="right")))
            pieces.append(self._piece(leaf, places, lo[at:to], size[at:to]))
            at = to
        return pa.concat_arrays(pieces) if pieces else pa.nulls(0, leaf.type)

    def _piece(self, leaf: Leaf, places: np.ndarray, lo: np.ndarray, size: np.ndarray) -> pa.Array:
        """Aggregate the spans of one pass."""
        spec = AggregateSpec(leaf.function, leaf.column, "made", leaf.argument)
        grouping, needed, _, finish = gathering((), (spec,), self._payload)
        filled = np.flatnonzero(size)
        count = size[filled]
        code = np.repeat(np.arange(len(filled)), count)
        offset = np.arange(len(code)) - np.repeat(np.cumsum(count) - count, count)
        rows = places[np.repeat(lo[filled], count) + offset]
        positions = self._store.places(self._spans.numbers[rows])
        taken = self._table.select(needed.names).take(pa.array(positions))
        batches = taken.combine_chunks().to_batches()
        if not batches:
            made = pa.nulls(0, leaf.type)
        else:
            given = Rows(code, len(filled), batches[0])
            lanes: list[pa.Array] = []
            for accumulator in grouping.accumulators():
                accumulator.update(given)
                lanes += accumulator.columns()
            (made,) = finish(lanes)
        index = np.cumsum(size > 0) - 1
        column = made.take(pa.array(index, mask=size == 0))
        return column.fill_null(0) if leaf.function in _COUNTS else column

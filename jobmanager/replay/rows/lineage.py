"""Finds the source rows of an output row, by running ever smaller slices of the input.

Theory of operation. The output up to a row depends only on input rows that were read before it, so
later rows are left out first. Of the earlier ones, the last n suffice for some n. Values that the
output row shares with columns of a source, and columns that two sources share, suggest which
further rows to leave out. At the end, rows are left out in halves, quarters and so on down to
single rows. A step is kept only if a run of the smaller slice still emits the row. So a wrong guess
costs time, but never makes a wrong result.

Invariants: (1) a run of the result emits the output row; (2) if ``is_smallest``, leaving out any
one row of the result removes the output row.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobmanager.replay.errors import CannotReplayError, NoSuchRowError
from rstream.items.batch import KIND, VE, VS, only_events
from rstream.items.dictionaries import plain_array
from rstream.items.digest import content_hashes

if TYPE_CHECKING:
    from jobmanager.replay.rows.slices import Rows, Slice, SliceRuns

#: The search for a sufficient number of last rows begins with this number, and multiplies it by
#: this factor per step.
_FIRST_ROWS, _GROWTH = 256, 8
#: The most runs of one search.
RUNS_MAX = 5_000


@dataclass(frozen=True, slots=True)
class Lineage:
    """The rows that make an output row."""

    rows: Slice
    #: Whether every row is necessary. False: ``runs_max`` was reached before this was known.
    is_smallest: bool
    #: The number of runs.
    runs: int


class Shrinking:
    """Shrinks a slice of the input while a run of it still emits one output row."""

    def __init__(self, runs: SliceRuns, row: pa.RecordBatch, runs_max: int = RUNS_MAX) -> None:
        """Search the input of one output row.

        ``row``: one event with ``_vs``, ``_ve`` and the payload.
        """
        assert row.num_rows == 1, row
        self._runs, self._row, self._runs_max = runs, row, runs_max
        self._target = int(content_hashes(row)[0])

    def lineage(self) -> Lineage:
        """Search the smallest slice and return it."""
        rows = self._last_rows(self._read_until_emitted())
        for smaller in (self._by_values, self._by_shared_columns, self._by_time):
            rows = smaller(rows)
        rows, is_smallest = self._one_by_one(rows)
        return Lineage(rows, is_smallest, self._runs.count)

    def _is_enough(self, rows: Slice) -> bool:
        return self._runs.gives(rows, self._target)

    def _read_until_emitted(self) -> dict[str, int]:
        """Return the number of rows read from each source when the output row was emitted."""
        for step in self._runs.steps(None):
            for _, items in step.sink_items():
                if (content_hashes(only_events(items.batch)) == np.uint64(self._target)).any():
                    return step.read(self._runs.sources)
        raise NoSuchRowError("a run over all recorded input does not compute it again")

    def _last_rows(self, ends: dict[str, int]) -> Slice:
        """Return the last n rows before ``ends`` of each source, for an n that suffices."""
        count = _FIRST_ROWS
        while True:
            rows = self._runs.load({v: (max(0, end - count), end) for v, end in ends.items()})
            if self._is_enough(rows):
                return rows
            if count >= max(ends.values()):
                what = "the row from the rows that were read before it"
                reason = "they do not give it again"
                raise CannotReplayError(what, reason, "`jobmanager replay` shows the difference")
            count *= _GROWTH

    def _by_values(self, rows: Slice) -> Slice:
        """Keep only rows that have the output row's values in columns of the same names."""
        for name in self._row.schema.names[2:]:
            value = self._row.column(name)[0]
            for vertex, source_rows in list(rows.items()):
                mask = _equal(source_rows, name, value)
                if mask is not None:
                    rows = self._if_enough(rows, vertex, mask)
        return rows

    def _by_shared_columns(self, rows: Slice) -> Slice:
        """Keep only rows whose value of a column also occurs in another source."""
        for vertex, source_rows in list(rows.items()):
            for other in [v for v in rows if v != vertex]:
                for name in source_rows.batch.schema.names:
                    mask = _occurs(rows[vertex], rows[other], name)
                    if mask is not None:
                        rows = self._if_enough(rows, vertex, mask)
        return rows

    def _by_time(self, rows: Slice) -> Slice:
        """Keep only rows whose lifetime overlaps the output row's, or that begin during it."""
        start, end = (self._row.column(name)[0].as_py() for name in (VS, VE))
        for vertex, source_rows in list(rows.items()):
            vs, ve = (rows[vertex].batch.column(name).to_numpy() for name in (VS, VE))
            rows = self._if_enough(rows, vertex, (vs < end) & (ve > start))
            del source_rows
        return rows

    def _if_enough(self, rows: Slice, vertex: str, mask: np.ndarray) -> Slice:
        if mask.all():
            return rows
        smaller = {**rows, vertex: rows[vertex].take(mask)}
        return smaller if self._is_enough(smaller) else rows

    def _one_by_one(self, rows: Slice) -> tuple[Slice, bool]:
        """Leave out chunks of rows, from halves down to single rows."""
        kept = np.ones(sum(map(len, rows.values())), np.bool_)
        size = max(1, len(kept) // 2)
        while size > 1:
            places = np.flatnonzero(kept)
            for at in range(0, len(places), size):
                if not self._leave_out(rows, kept, places[at : at + size]):
                    return _chosen(rows, kept), False
            size = max(1, min(size // 2, int(kept.sum()) // 2))
        # Try single rows in turn, until each was tried after the last one that was left out.
        waiting = deque(np.flatnonzero(kept).tolist())
        tried = 0
        while tried < len(waiting):
            place = waiting.popleft()
            if not self._leave_out(rows, kept, np.array([place])):
                return _chosen(rows, kept), False
            tried = tried + 1 if kept[place] else 0
            if kept[place]:
                waiting.append(place)
        return _chosen(rows, kept), True

    def _leave_out(self, rows: Slice, kept: np.ndarray, chunk: np.ndarray) -> bool:
        """Leave out a chunk if the other rows suffice. Return False if ``runs_max`` is reached."""
        if self._runs.count >= self._runs_max:
            return False
        kept[chunk] = False
        kept[chunk] = not self._is_enough(_chosen(rows, kept))
        return True


def _chosen(rows: Slice, kept: np.ndarray) -> Slice:
    chosen, at = {}, 0
    for vertex, source_rows in rows.items():
        chosen[vertex] = source_rows.take(kept[at : at + len(source_rows)])
        at += len(source_rows)
    return chosen


def _equal(rows: Rows, name: str, value: pa.Scalar) -> np.ndarray | None:
    """Return which rows have ``value`` in a column; None: no such column, or another type."""
    column = _column(rows, name)
    if column is None or column.type != value.type or not value.is_valid:
        return None
    if pa.types.is_nested(column.type):
        return None
    return _mask(pc.equal(column, value))


def _occurs(rows: Rows, other: Rows, name: str) -> np.ndarray | None:
    """Return which rows have a value in column ``name`` that ``other`` has there too."""
    columns = _column(rows, name), _column(other, name)
    if columns[0] is None or columns[1] is None or columns[0].type != columns[1].type:
        return None
    if pa.types.is_nested(columns[0].type):
        return None
    return _mask(pc.is_in(columns[0], value_set=columns[1]))


def _column(rows: Rows, name: str) -> Any:
    if name in (KIND, VS, VE) or name not in rows.batch.schema.names:
        return None
    return plain_array(rows.batch.column(name))


def _mask(is_kept: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(is_kept, False).to_numpy(zero_copy_only=False), np.bool_)

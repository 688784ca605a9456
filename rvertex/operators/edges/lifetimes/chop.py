"""CHOP of rows whose ends are not known yet: a piece is emitted when its cell is over.

**Rule.** As :mod:`rvertex.operators.lifetimes.chop`. A cell is the time between two cuts. When it
is over, its rows and their times in it are known. So its pieces are intervals with both times, and
a reader waits for one period at most, however long the rows live.

    chop(10)     start 3 a                after 10: [3, 10) a
                 end 15 (of 3) a          after 20: [10, 15) a

Invariants: (1) all pieces of the cells below ``_open`` have been emitted, by (start, row order);
(2) the state is the live rows, and the ends in cells that are not over; (3) ``CTI(t)`` (a
watermark) becomes the cut at or before t.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rstream.items.batch import event_schema
from rstream.types import INF_TIME, MIN_TIME
from rvertex.errors import EndlessChopError
from rvertex.events.lifetime import with_times
from rvertex.events.reorder_buffer import empty_batch
from rvertex.events.run import Run
from rvertex.operators.edges.living_rows import ClosingRows
from rvertex.operators.horizon import Unbounded
from rvertex.operators.lifetimes.chop import PIECES_PER_EVENT_MAX
from rvertex.operators.protocol import SameColumns

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from rvertex.operators.horizon import Durations
    from rvertex.operators.protocol import OperatorState


@dataclass(frozen=True, slots=True)
class EdgeChop(SameColumns, Unbounded):
    """Divides rows at ``offset_us + k * period_us``."""

    period_us: int
    offset_us: int = 0

    def output_duration(self, durations: Durations) -> int | None:
        """Return the period, in us."""
        return self.period_us

    def open(self, inputs: Sequence[pa.Schema]) -> EdgeChopOperator:
        """Return a new operator with empty state."""
        (payload,) = inputs
        return EdgeChopOperator(self, payload)


class EdgeChopOperator:
    """The running operator of :class:`EdgeChop`."""

    def __init__(self, spec: EdgeChop, payload: pa.Schema) -> None:
        self._period, self._offset = spec.period_us, spec.offset_us % spec.period_us
        self._schema = event_schema(payload)
        #: Live rows, and the ends that are buffered until their cell is over.
        self._closing = ClosingRows(self._schema)
        self._rows = self._closing.living
        #: The first cell that is not over; None: no cell has begun.
        self._open: int | None = None

    def process(self, ports: Sequence[Run]) -> Run:
        """Emit the pieces of the cells that are over."""
        (run,) = ports
        self._closing.take(run)
        pieces = self._close_before(self._closing.frontier)
        return Run(pieces, self._closing.passed(self._cuts_before(run.ctis)))

    def snapshot(self) -> OperatorState:
        """Return live rows, buffered ends and buffered rows, by reference."""
        return self._closing.snapshot(self._open)

    def load(self, state: OperatorState) -> None:
        """Restore ``state``."""
        self._open = self._closing.load(state)

    def _cell(self, time: int) -> int:
        return (time - self._offset) // self._period

    def _cells(self, times: np.ndarray) -> np.ndarray:
        """Return the cell of each time; no intermediate value overflows."""
        cell = times // self._period
        cell -= times - cell * self._period < self._offset
        return cell

    def _cuts_before(self, ctis: np.ndarray) -> np.ndarray:
        cuts = [self._cell(int(t)) * self._period + self._offset for t in ctis if t != INF_TIME]
        cuts = [max(cut, MIN_TIME) for cut in cuts]
        return np.array([*cuts, *ctis[len(cuts) :]], np.int64)

    def _close_before(self, frontier: int) -> pa.RecordBatch:
        """Return the pieces of all cells that end at or before ``frontier``."""
        is_over = frontier == INF_TIME
        upto = self._cell(frontier)
        if not is_over and self._open is not None and upto <= self._open:
            return empty_batch(self._schema)
        cut = INF_TIME if is_over else max(upto * self._period + self._offset, MIN_TIME)
        lived = self._rows.living()
        self._closing.end_before(cut)
        starts, ends = self._rows.starts(lived), self._rows.ends(lived)
        if is_over and (ends == INF_TIME).any():
            vs = int(starts[ends == INF_TIME][0])
            raise EndlessChopError(vs, int(INF_TIME), PIECES_PER_EVENT_MAX)
        first = self._cells(starts)
        first = first if self._open is None else np.maximum(first, self._open)
        last = self._cells(np.maximum(np.minimum(ends, cut), MIN_TIME + 1) - 1)
        counts = np.maximum(last - first + 1, 0)
        if (counts > PIECES_PER_EVENT_MAX).any():
            row = int(counts.argmax())
            raise EndlessChopError(int(starts[row]), int(ends[row]), PIECES_PER_EVENT_MAX)
        self._open = upto
        return self._pieces(lived, first, counts)

    def _pieces(self, rows: np.ndarray, first: np.ndarray, counts: np.ndarray) -> pa.RecordBatch:
        """Return ``counts`` pieces of each row from cell ``first`` on, in output order."""
        if counts.sum() == 0:
            return empty_batch(self._schema)
        row = np.repeat(np.arange(len(rows)), counts)
        nth = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        starts, ends = self._rows.starts(rows)[row], self._rows.ends(rows)[row]
        cell = first[row] + nth
        begins = cell * self._period + self._offset
        # A cell bound is used only where it is within the lifetime.
        starts = np.where(cell == self._cells(starts), starts, begins)
        ends = np.where(cell == self._cells(ends - 1), ends, begins + self._period)
        order = np.lexsort((row, starts))
        made = self._rows.take(rows[row[order]])
        return with_times(made, vs=starts[order], ve=ends[order])

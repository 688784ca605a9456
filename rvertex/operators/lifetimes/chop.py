"""CHOP: events are split at every multiple of a period.

``[vs, ve)`` is split at ``offset + k * period``, for all integers k. So the rows alive at an
instant stay the same. Pieces are emitted in order of (start, input order). A piece is emitted when
the watermark reaches its start, not when its event begins. So ``CTI(t)`` (a watermark) is
unchanged: all pieces that start before ``t`` have been emitted. ``ve = INF_TIME`` is an error,
since it has infinitely many pieces, as are more than ``PIECES_PER_EVENT_MAX`` pieces of one event.

    chop(10)      in              out
                  [3, 25) a       [3, 10) a
                  [12, 14) b      [10, 20) a, [12, 14) b
                  CTI(20)         CTI(20)
                  CTI(21)         [20, 25) a, CTI(21)

Invariants: (1) all pieces that start at or before ``_reached`` have been emitted; (2) the state is
the rows that end after the next split, in input order. Each of them yields a piece when that split
is reached, so a step takes time in its new rows and the pieces it emits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, event_schema, int64_column
from rstream.types import INF_TIME, MIN_TIME
from rvertex.errors import EndlessChopError
from rvertex.events.lifetime import with_times
from rvertex.events.ordering import in_time_order
from rvertex.events.reorder_buffer import empty_batch
from rvertex.events.run import Run
from rvertex.operators.horizon import least_us
from rvertex.operators.protocol import OperatorState, SameColumns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.operators.horizon import Durations

PIECES_PER_EVENT_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Chop(SameColumns):
    """Splits events at ``offset_us + k * period_us``; the period is at least 1 us."""

    period_us: int
    offset_us: int = 0

    def __post_init__(self) -> None:
        assert self.period_us >= 1, self.period_us

    def horizon_us(self, durations: Durations) -> int | None:
        """Return the greatest input lifetime: the state keeps rows until they end."""
        return durations[0]

    def output_duration(self, durations: Durations) -> int | None:
        """Return the smaller of the period and the input's greatest lifetime."""
        return least_us((durations[0], self.period_us))

    def open(self, inputs: Sequence[pa.Schema]) -> ChopOperator:
        """Return a new operator with empty state."""
        return ChopOperator(self, event_schema(self.output_schema(inputs)))


class ChopOperator:
    """The running operator of :class:`Chop`. Cell k is the time from split k to split k + 1."""

    def __init__(self, spec: Chop, schema: pa.Schema) -> None:
        self._period = spec.period_us
        self._offset = spec.offset_us % spec.period_us
        self._schema = schema
        self._live: list[pa.RecordBatch] = []
        self._reached: int = MIN_TIME

    def process(self, ports: Sequence[Run]) -> Run:
        """Emit the pieces whose starts have been reached."""
        (run,) = ports
        before, self._reached = self._reached, max(self._reached, _reached_by(run))
        events = run.events
        self._require_bounded(events)
        now, was = self._cell_at(self._reached), self._cell_at(before)
        if now == was or not self._live:
            old = None
        else:
            old = pa.concat_batches(self._live)
            self._live = []
        rows = events if old is None else pa.concat_batches([old, events])
        if rows.num_rows == 0:
            return Run(empty_batch(self._schema), run.ctis)
        vs, ve = int64_column(rows, VS), int64_column(rows, VE)
        first, last = self._cell(vs), self._cell(ve - 1)
        if old is not None:
            first[: old.num_rows] = was + 1
        outlives = last > now
        if outlives.any():
            self._live.append(rows if outlives.all() else rows.filter(pa.array(outlives)))
        return Run(self._pieces(rows, first, last, np.minimum(last, now)), run.ctis)

    def snapshot(self) -> OperatorState:
        """Return the live rows, by reference."""
        tables = {"live": pa.Table.from_batches(self._live, self._schema)}
        return OperatorState({"reached": self._reached}, tables)

    def load(self, state: OperatorState) -> None:
        """Restore the live rows of ``state``."""
        self._reached = state.header["reached"]
        self._live = state.tables["live"].to_batches()

    def _cell_at(self, time: int) -> int:
        return (time - self._offset) // self._period

    def _cell(self, times: np.ndarray) -> np.ndarray:
        """Return the cell of each time; no intermediate value overflows."""
        cell = times // self._period
        cell -= times - cell * self._period < self._offset
        return cell

    def _require_bounded(self, events: pa.RecordBatch) -> None:
        """Raise an error for an event with too many pieces, or without an end."""
        vs, ve = int64_column(events, VS), int64_column(events, VE)
        counts = self._cell(ve - 1) - self._cell(vs) + 1
        bad = (ve == INF_TIME) | (counts > PIECES_PER_EVENT_MAX) | (counts < 1)
        if bad.any():
            row = int(bad.argmax())
            raise EndlessChopError(int(vs[row]), int(ve[row]), PIECES_PER_EVENT_MAX)

    def _pieces(
        self, rows: pa.RecordBatch, first: np.ndarray, last: np.ndarray, upto: np.ndarray
    ) -> pa.RecordBatch:
        """Build the pieces of ``rows`` in cells ``first`` to ``upto``, in output order."""
        counts = upto - first + 1
        vs, ve = int64_column(rows, VS), int64_column(rows, VE)
        row = np.repeat(np.arange(len(counts)), counts)
        cell = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        begins = cell * self._period + self._offset
        # A cell bound is used only where it is within the lifetime.
        starts = np.where(cell == self._cell(vs)[row], vs[row], begins)
        ends = np.where(cell == last[row], ve[row], begins + self._period)
        is_plain = bool((counts == 1).all())
        pieces = rows if is_plain else rows.take(pa.array(row))
        return in_time_order(with_times(pieces, vs=starts, ve=ends))[0]


def _reached_by(run: Run) -> int:
    """Return the last start that may be emitted: ``CTI(t)`` completes all starts before ``t``."""
    reached = int(run.ctis[-1]) - 1 if len(run.ctis) else int(MIN_TIME)
    if run.events.num_rows:
        reached = max(reached, int(int64_column(run.events, VS)[-1]))
    return reached

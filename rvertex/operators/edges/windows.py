"""Hopping windows over rows whose ends are not known yet: a window has the rows alive in it.

**Rule.** As :mod:`rvertex.operators.windows.hopping` over intervals: a row is in each window that
its lifetime overlaps. A window is emitted when its end has passed. By then it is known which rows
began before its end and which ended before its start. So no result waits for the end of a row.

    tumbling 10, count     start 3 a                     after 10: [0, 10) 1
                           start 12 b, end 15 (of 3) a   after 20: [10, 20) 2
                           CTI(30)                       after 30: [20, 30) 1

Invariants: (1) each window is emitted once, in order; (2) the state is the live rows, and the rows
that ended in an open window; (3) a window takes time in its rows.

If the stream ends while rows are alive, infinitely many windows would follow. That is an error, as
for intervals without an end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from rstream.types import INF_TIME
from rvertex.errors import UnboundedLifetimeError
from rvertex.events.reorder_buffer import concatenated
from rvertex.events.run import Run
from rvertex.operators.edges.living_rows import ClosingRows
from rvertex.operators.horizon import Unbounded
from rvertex.operators.windows.arithmetic import Windows
from rvertex.operators.windows.grouping import closed_groups
from rvertex.operators.windows.hopping import Aggregates, gathering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.aggregates.spec import AggregateSpec
    from rvertex.operators.horizon import Durations
    from rvertex.operators.protocol import OperatorState


@dataclass(frozen=True, slots=True)
class EdgeWindows(Aggregates, Unbounded):
    """Aggregates per key and window ``[k * every_us, k * every_us + size_us)``."""

    holds_ctis: ClassVar[bool] = False

    keys: tuple[str, ...]
    size_us: int
    every_us: int
    aggregates: tuple[AggregateSpec, ...]

    def output_duration(self, durations: Durations) -> int | None:
        """Return the window size, in us."""
        return self.size_us

    def open(self, inputs: Sequence[pa.Schema]) -> EdgeWindowsOperator:
        """Return a new operator with empty state."""
        (payload,) = inputs
        return EdgeWindowsOperator(self, payload)


class EdgeWindowsOperator:
    """The running operator of :class:`EdgeWindows`."""

    def __init__(self, spec: EdgeWindows, payload: pa.Schema) -> None:
        made = gathering(spec.keys, spec.aggregates, payload)
        self._grouping, self._needed, self._schema, self._finish = made
        self._windows = Windows(spec.size_us, spec.every_us)
        #: Live rows, and the ends that are buffered until the windows of their rows are closed.
        self._closing = ClosingRows(self._needed)
        self._rows = self._closing.living
        self._open = self._windows.lowest

    def process(self, ports: Sequence[Run]) -> Run:
        """Emit the windows whose ends have passed."""
        (run,) = ports
        self._closing.take(Run(run.events.select(self._needed.names), run.ctis))
        out: list[pa.RecordBatch] = []
        self._close_before(self._windows.open_at(self._closing.frontier), out)
        ctis = self._closing.passed(self._windows.earliest_open(run.ctis))
        return Run(concatenated(out, self._schema), ctis)

    def snapshot(self) -> OperatorState:
        """Return living and buffered rows, by reference."""
        return self._closing.snapshot(self._open)

    def load(self, state: OperatorState) -> None:
        """Restore ``state``."""
        self._open = self._closing.load(state)

    def _close_before(self, window: int, out: list[pa.RecordBatch]) -> None:
        """Emit the windows below ``window``."""
        window = min(window, self._windows.highest + 1)
        # ends: each round closes a window, and after the end of the stream every row has an end
        while self._open < window:
            start = self._open * self._windows.every
            # Rows that have ended by then are in no open window
            self._closing.end_before(start + 1)
            alive = self._rows.living()
            starts = self._rows.starts(alive)
            if len(alive) == 0 or starts[0] >= start + self._windows.size:
                self._open = self._next_with(starts[:1], window)
                continue
            self._require_ends(alive)
            members = alive[starts < start + self._windows.size]
            rows = self._rows.take(members)
            windows = np.full(len(members), self._open)
            _, keys, lanes = closed_groups(self._grouping, rows, windows, None)
            columns = [*keys, *self._finish(lanes)]
            groups = len(columns[0])
            times = [np.full(groups, t) for t in (start, start + self._windows.size)]
            arrays = [*map(pa.array, times), *columns]
            out.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
            self._open += 1

    def _next_with(self, starts: np.ndarray, window: int) -> int:
        """Return the first window, at most ``window``, that has the row with the earliest start."""
        if len(starts) == 0:
            return window
        return min(window, max(self._open + 1, int(self._windows.first_window(starts)[0])))

    def _require_ends(self, alive: np.ndarray) -> None:
        """Raise UnboundedLifetimeError if the stream has ended and a row has no end."""
        if self._closing.frontier == INF_TIME and len(alive) > self._closing.waiting_ends:
            vs = int(self._rows.starts(alive)[0])
            count = self._windows.highest - int(self._windows.first_window(np.array([vs]))[0])
            raise UnboundedLifetimeError(vs, int(INF_TIME), count)

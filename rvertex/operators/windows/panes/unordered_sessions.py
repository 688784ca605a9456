"""The first phase of sessions over events that come in any order above the CTIs.

Behind a source whose rows would be sorted for nothing but aggregates that do not depend on order.
Events are folded as they come, those of all panes in one pass; what that makes of a pane that is
not over is merged with what the pane has. The output is, item for item, that of
:class:`~rvertex.operators.windows.panes.sessions.SessionPanes` on the sorted events.

Invariants: (1) state is the panes that no CTI has closed, which are few as long as a pane is not
much shorter than what lies between the source's frontier and its latest row; (2) few events wait to
be folded together, until a pane closes or somebody asks for the state; (3) into which pieces events
were folded changes nothing: lanes are merged exactly, and a piece whose sums leave int64 is halved.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import VS, int64_column
from rstream.items.dictionaries import join_batches
from rstream.types import INF_TIME
from rvertex.events.group_scan import heads_of
from rvertex.events.reorder_buffer import concatenated
from rvertex.events.run import Run, growing
from rvertex.operators.windows.grouping import Grouping, closed_groups
from rvertex.operators.windows.panes.open_pane import OpenPanes
from rvertex.operators.windows.panes.sessions import LAST_PANE, by_start, living, starts_of_panes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.operators.protocol import OperatorState

#: Fewer events wait for others: to fold them costs as much.
_TOGETHER_ROWS = 4096


class UnorderedSessionPanes:
    """Aggregates events by pane and key; ``schema`` is that of partial events.

    ``events``: how events are grouped; ``partial``: how their partial rows are merged.
    """

    def __init__(
        self, unit_us: int, *, events: Grouping, partial: Grouping, schema: pa.Schema
    ) -> None:
        self._unit = unit_us
        self._events = events
        self._schema = schema
        #: The merged partial rows of each open pane.
        self._open = OpenPanes(partial)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        #: No event held is in a pane before this one.
        self._first = LAST_PANE
        self._last_cti: int | None = None

    def process(self, ports: Sequence[Run]) -> Run:
        """Fold the events in and emit the panes that the CTIs close."""
        (run,) = ports
        if run.events.num_rows:
            self._first = min(self._first, int(int64_column(run.events, VS).min()) // self._unit)
            self._waiting.append(run.events)
            self._waiting_rows += run.events.num_rows
        out: list[pa.RecordBatch] = []
        closing = self._first
        if len(run.ctis):
            last = int(run.ctis[-1])
            closing = LAST_PANE if last == INF_TIME else last // self._unit
        if self._first < closing or self._waiting_rows >= _TOGETHER_ROWS:
            self._settle(closing, out)
            self._close_before(closing, out)
        ctis = growing(starts_of_panes(run.ctis, self._unit), self._last_cti)
        if len(ctis):
            self._last_cti = int(ctis[-1])
        # Each pane is whole in one of the batches, by key.
        return Run(by_start(concatenated(out, self._schema)), ctis)

    def snapshot(self) -> OperatorState:
        """The open panes, by reference."""
        self._settle(self._first, [])
        return self._open.snapshot(self._last_cti)

    def load(self, state: OperatorState) -> None:
        """Continue with the open panes of ``state``."""
        self._last_cti = self._open.load(state)
        self._first = min(self._open.numbers(), default=LAST_PANE)

    def _settle(self, closing: int, out: list[pa.RecordBatch]) -> None:
        """Fold what waits; panes before ``closing`` of which nothing is held yet go to ``out``."""
        waiting, self._waiting, self._waiting_rows = self._waiting, [], 0
        if not waiting:
            return
        # What came last may be much more than what waited for it.
        if len(waiting) > 1 and waiting[-1].num_rows >= _TOGETHER_ROWS:
            self._fold(join_batches(waiting[:-1]), self._first, out)
            waiting = waiting[-1:]
        self._fold(join_batches(waiting), closing, out)

    def _fold(self, events: pa.RecordBatch, closing: int, out: list[pa.RecordBatch]) -> None:
        numbers = int64_column(events, VS) // self._unit
        panes, keys, lanes = closed_groups(self._events, events, numbers, at=None)
        rows = living(keys, lanes, self._schema)
        is_whole = panes < closing
        is_whole &= ~np.isin(panes, self._open.numbers())
        if is_whole.any():
            out.append(rows.filter(pa.array(is_whole)))
            rows, panes = rows.filter(pa.array(~is_whole)), panes[~is_whole]
        firsts = np.flatnonzero(heads_of(panes)).tolist()
        for lo, hi in itertools.pairwise([*firsts, len(panes)]):
            self._open.update(int(panes[lo]), rows.slice(lo, hi - lo))

    def _close_before(self, pane: int, out: list[pa.RecordBatch]) -> None:
        for _, keys, lanes in self._open.close_before(pane):
            out.append(living(keys, lanes, self._schema))
        self._first = min(self._open.numbers(), default=LAST_PANE)

"""Sorts the rows of a source and decides which are late; the output is in normal form.

The rows of a source partition are numbered from 0. The frontier after row i is the greatest ``vs``
of rows 0..i minus the delay, and never decreases. (:mod:`rvertex.events.delay_estimate` estimates a
delay that changes.) A row is late if its ``vs`` is below the frontier after the previous row.
Events up to the frontier are released in the order (vs, row); a later row at the frontier sorts
after them. When the frontier, rounded down to the plan's grid, reaches ``f``, ``CTI(f)`` leaves
before the events of its time: at most one CTI per event. If no operator needs the order
(``planner/physical/rules/skip_sort.py``), events are released at once in arrival order. A source of
items (column ``_kind``) contains CTIs: these are the frontier and are emitted unchanged. If the
plan knows times of later rows (:class:`rvertex.events.frontier.KnownFrontier`), it raises the
frontier from the row at which it knows them.

Invariants: (1) lateness is decided row by row, so it does not depend on batch boundaries; (2) the
buffer is part of the state, hence ``consumed`` counts every offered row; (3) at the end all events
are released, then ``CTI(INF_TIME)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rstream.items.batch import (
    EVENT,
    KIND,
    VE,
    VS,
    event_schema,
    int64_column,
    kinds,
    only_events,
    payload_schema,
)
from rstream.items.dictionaries import join_batches
from rstream.types import INF_TIME, MIN_TIME
from rvertex.errors import LateRowError
from rvertex.events.delay_estimate import UNKNOWN, DelayEstimate, lateness
from rvertex.events.frontier import advance
from rvertex.events.reorder_buffer import ArrivalOrder, SortedRuns
from rvertex.events.run import NO_CTIS, Run, growing
from rvertex.operators.protocol import OperatorState
from rvertex.vertex.lateness_counts import LatenessCounts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rvertex.events.frontier import KnownFrontier
    from rvertex.operators.protocol import Evaluator
    from rvertex.sources.spec import LatePolicy


#: Column of late rows: the frontier at their arrival, us. The output is complete below it.
FRONTIER = "_frontier"
#: With at least this many rows per grid time, a binary search is faster than rounding every row.
_ROWS_PER_GRID_TIME = 16
_BUFFER, _CTIS = "buffer", "ctis"


def late_payload(payload: pa.Schema) -> pa.Schema:
    """Return the schema of late rows: the payload and :data:`FRONTIER`."""
    return pa.schema([*payload, pa.field(FRONTIER, pa.int64())])


class Reorder:
    """Sorts one source partition within ``delay_us`` and computes how far it is complete."""

    def __init__(
        self,
        payload: pa.Schema,
        *,
        delay_us: int | DelayEstimate,
        late: LatePolicy,
        cti_every_us: int,
        sorts: bool = True,
        is_stream: bool = False,
        keep: Evaluator | None = None,
        known: KnownFrontier | None = None,
    ) -> None:
        """Start without rows. ``sorts``: release events in time order; otherwise in arrival order.

        ``is_stream``: the items are already sorted, so an event is a promise like a CTI. ``keep``:
        filter of the buffered rows. A late row is filtered after it was adjusted; a dropped row is
        not filtered. ``known``: raises the frontier beyond the frontier of the rows.
        """
        assert isinstance(delay_us, DelayEstimate) or delay_us >= 0, delay_us
        assert cti_every_us > 0, cti_every_us
        self._delay_us = delay_us
        #: From row ``_known[0][k]`` on the frontier is at least ``_known[1][k]``.
        self._known = None if known is None else known.entries()
        self._late: LatePolicy = late
        self._cti_every_us = cti_every_us
        self._keep = keep
        #: Number of events that were not late and that ``keep`` dropped.
        self.passed_over = 0
        self._schema = event_schema(payload)
        self._sorts, self._is_stream = sorts, is_stream
        self._buffer = self._empty_buffer()
        self._row = 0
        #: Greatest ``vs`` of all events offered; MIN_TIME before the first event.
        self.max_vs: int = MIN_TIME
        #: No later released event has a smaller ``vs``.
        self._frontier: int = MIN_TIME
        #: The frontier from rows alone since this object was made or loaded; MIN_TIME before them.
        self.rows_frontier: int = MIN_TIME
        #: The last CTI that was released or will be released next.
        self.last_cti: int = MIN_TIME
        #: CTIs to release, all later than the released CTIs.
        self._ctis: list[np.ndarray] = []
        self.late_dropped = 0
        self.late_adjusted = 0
        #: Lateness of the late rows; with an estimated delay, of all rows.
        self.lateness = LatenessCounts()

    @property
    def consumed(self) -> int:
        """Number of the next row to offer."""
        return self._row

    @property
    def is_ended(self) -> bool:
        return self.last_cti == INF_TIME

    def offer(self, first_row: int, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Accept the next rows: ``_vs, _ve, payload``, or items with ``_kind`` and explicit CTIs.

        Rows may have more columns than the payload; only late rows keep them. Returns the late
        events unchanged, each with the frontier at its arrival (:func:`late_payload`); None if
        there are none.

        Raises:
            LateRowError: an event is late and the policy is "error"; no row was accepted.
        """
        assert first_row == self._row, (first_row, self._row)
        if batch.num_rows == 0:
            return None
        if batch.schema.names[0] == KIND:
            return self._offer_items(batch)
        if self._known is None:
            return self._offer_events(batch)
        late = [self._offer_events(piece) for piece in self._pieces(batch)]
        return _joined([events for events in late if events is not None])

    def skip(self, rows_max: int) -> int:
        """Skip rows without an event, up to the next rise of a known frontier; return how many.

        They advance the row number, but not the frontier of the rows.
        """
        rows, time = rows_max, int(MIN_TIME)
        if self._known is not None:
            places, times = self._known
            k = int(places.searchsorted(self._row, side="right"))
            if k < len(places) and places[k] <= self._row + rows_max:
                rows, time = int(places[k]) - self._row, int(times[k])
        self._row += rows
        self._reach(time)
        return rows

    def end(self) -> None:
        """End the input: release all events, then ``CTI(INF_TIME)``. Idempotent."""
        self._frontier = INF_TIME
        self._emit_ctis(np.array([INF_TIME]))

    @property
    def frontier(self) -> int:
        """The time before which no later event is released."""
        return self._frontier

    @property
    def rows_held(self) -> int:
        """Number of buffered events."""
        return self._buffer.rows

    def advance(self, time: int) -> None:
        """Raise the frontier to ``time``. Rows below it that arrive later are late."""
        self._reach(time)

    def release(self) -> Run | None:
        """Return the events and CTIs that are final, or None if there are none."""
        run = self.release_below(min(self._frontier + 1, int(INF_TIME)), INF_TIME)
        return None if run.is_empty else run

    def release_below(self, time: int, last_cti: int) -> Run:
        """Return the events below ``time`` and the CTIs up to ``last_cti``. Both must be final.

        Without sorting, return all events.
        """
        ctis = NO_CTIS if not self._ctis else np.concatenate(self._ctis)
        left = int(np.searchsorted(ctis, last_cti, side="right"))
        self._ctis = [ctis[left:]] if left < len(ctis) else []
        return Run(self._buffer.take_below(time), ctis[:left])

    def scalars(self) -> OperatorState:
        """Return the state without the buffered events."""
        header: dict[str, Any] = {
            "row": self._row,
            "max_vs": self.max_vs,
            "frontier": self._frontier,
            "last_cti": self.last_cti,
            "late_dropped": self.late_dropped,
            "late_adjusted": self.late_adjusted,
            "passed_over": self.passed_over,
            "lateness": self.lateness.to_bytes(),
        }
        if isinstance(self._delay_us, DelayEstimate):
            header["delay"] = self._delay_us.header()
        return OperatorState(header)

    def snapshot(self) -> OperatorState:
        tables = {_BUFFER: self._buffer.table()}
        if self._ctis:
            tables[_CTIS] = pa.table({VS: np.concatenate(self._ctis)})
        return OperatorState(self.scalars().header, tables)

    def load(self, state: OperatorState) -> None:
        """Continue from ``state``, which has :attr:`consumed`; scalars have no buffered rows."""
        header = state.header
        self._row, self.max_vs = header["row"], header["max_vs"]
        self._frontier, self.last_cti = header["frontier"], header["last_cti"]
        self.rows_frontier = MIN_TIME
        self.late_dropped, self.late_adjusted = header["late_dropped"], header["late_adjusted"]
        self.passed_over = header["passed_over"]
        self.lateness = LatenessCounts.from_bytes(header["lateness"])
        if isinstance(self._delay_us, DelayEstimate):
            self._delay_us = self._delay_us.restored(header["delay"])
        self._ctis = [state.tables[_CTIS].column(VS).to_numpy()] if _CTIS in state.tables else []
        self._buffer = self._empty_buffer()
        if _BUFFER in state.tables:
            buffered: Sequence[pa.RecordBatch] = state.tables[_BUFFER].combine_chunks().to_batches()
            for events in buffered:
                self._buffer.push(events)

    def check(self) -> None:
        """Assert the invariants, in linear time. For tests."""
        self._buffer.check()
        assert self.last_cti <= self._frontier, (self.last_cti, self._frontier)

    def _empty_buffer(self) -> SortedRuns | ArrivalOrder:
        return SortedRuns(self._schema) if self._sorts else ArrivalOrder(self._schema)

    def _offer_events(self, events: pa.RecordBatch) -> pa.RecordBatch | None:
        vs = int64_column(events, VS)
        if isinstance(self._delay_us, int) and not self._is_below(vs):
            way = advance(vs, self.max_vs, delay_us=self._delay_us, every_us=self._cti_every_us)
            if way is not None:
                self._push(events)
                self._row += events.num_rows
                self.max_vs = way.max_vs
                self.rows_frontier = way.max_vs - self._delay_us
                self._frontier = max(self._frontier, self.rows_frontier)
                self._emit_ctis(way.grid_times)
                return None
        greatest = np.maximum.accumulate(vs)
        np.maximum(greatest, self.max_vs, out=greatest)
        frontier, delay_us = self._frontiers(vs, greatest)
        self.rows_frontier = max(self.rows_frontier, int(frontier[-1]))
        np.maximum(frontier, self._frontier, out=frontier)
        before = np.empty(len(frontier), np.int64)
        before[0], before[1:] = self._frontier, frontier[:-1]
        late = self._accept(events, before, None)
        if isinstance(delay_us, DelayEstimate):
            self.lateness = self.lateness.adding(lateness(vs, greatest))
        elif late is not None:
            is_late = vs < before
            self.lateness = self.lateness.adding(lateness(vs[is_late], greatest[is_late]))
        self._row += events.num_rows
        self._delay_us = delay_us
        self.max_vs, self._frontier = int(greatest[-1]), int(frontier[-1])
        self._emit_ctis(_on_grid(frontier, self._cti_every_us))
        return late

    def _pieces(self, events: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Split the events after each row at which the known frontier rises, and raise it there."""
        assert self._known is not None
        rows, times = self._known
        while events.num_rows:  # ends: every piece has a row
            k = int(rows.searchsorted(self._row, side="right"))
            if k:
                self._reach(int(times[k - 1]))
            left = events.num_rows if k == len(rows) else int(rows[k]) - self._row
            yield events.slice(0, left)
            events = events.slice(left)
        k = int(rows.searchsorted(self._row, side="right"))
        if k:
            self._reach(int(times[k - 1]))

    def _reach(self, time: int) -> None:
        """Raise the frontier to at least ``time``."""
        if time > self._frontier:
            self._frontier = time
            self._emit_ctis(_on_grid(np.array([time]), self._cti_every_us))

    def _is_below(self, vs: np.ndarray) -> bool:
        """Return whether rows are late because the frontier was raised beyond the delay."""
        assert isinstance(self._delay_us, int)
        is_raised = self._frontier > self.max_vs - self._delay_us
        return is_raised and int(vs.min()) < self._frontier

    def _frontiers(
        self, vs: np.ndarray, greatest: np.ndarray
    ) -> tuple[np.ndarray, int | DelayEstimate]:
        """Return the frontier of rows alone after each row, and the delay for later rows."""
        if not isinstance(self._delay_us, DelayEstimate):
            frontier = np.maximum(greatest, MIN_TIME + self._delay_us) - self._delay_us
            return frontier, self._delay_us
        ahead = np.concatenate([[np.int64(self.max_vs)], greatest[:-1]])
        delays, estimate = self._delay_us.observe(lateness(vs, ahead))
        frontier = np.maximum(greatest, MIN_TIME + delays) - delays
        frontier[delays == UNKNOWN] = MIN_TIME
        np.maximum.accumulate(frontier, out=frontier)
        return frontier, estimate

    def _offer_items(self, items: pa.RecordBatch) -> pa.RecordBatch | None:
        is_event = kinds(items) == EVENT
        times = int64_column(items, VS)
        frontier = times.copy() if self._is_stream else np.where(is_event, MIN_TIME, times)
        np.maximum.accumulate(frontier, out=frontier)
        np.maximum(frontier, self._frontier, out=frontier)
        late = self._accept(only_events(items), frontier[is_event], np.flatnonzero(is_event))
        self._row += items.num_rows
        self.max_vs = max(self.max_vs, int(times[is_event].max(initial=MIN_TIME)))
        self._frontier = int(frontier[-1])
        self._emit_ctis(frontier[~is_event])
        return late

    def _accept(
        self, events: pa.RecordBatch, before: np.ndarray, rows: np.ndarray | None
    ) -> pa.RecordBatch | None:
        """Buffer ``events``; the policy decides about late ones. ``before``: frontiers at arrival.

        ``rows``: their row numbers relative to the batch; None: they are the whole batch.
        """
        is_late = int64_column(events, VS) < before
        if not is_late.any():
            self._push(events)
            return None
        late = events.filter(pa.array(is_late))
        if self._late == "error":
            at = int(is_late.argmax())
            row = self._row + (at if rows is None else int(rows[at]))
            raise LateRowError(row, int(late.column(VS)[0].as_py()), int(before[at]))
        if self._late == "drop":
            self.late_dropped += late.num_rows
            self._push(events.filter(pa.array(~is_late)))
        else:
            self.late_adjusted += late.num_rows
            self._push(_adjusted(events, before))
        columns = [*late.columns, pa.array(before[is_late])]
        return pa.RecordBatch.from_arrays(
            columns, schema=event_schema(late_payload(payload_schema(late.schema)))
        )

    def _push(self, events: pa.RecordBatch) -> None:
        """Buffer the events that pass ``keep``, without the columns that only late rows have."""
        if events.num_columns > len(self._schema):
            events = events.select(self._schema.names)
        if self._keep is not None:
            kept = events.filter(self._keep.evaluate(events))
            self.passed_over += events.num_rows - kept.num_rows
            events = kept
        self._buffer.push(events)

    def _emit_ctis(self, times: np.ndarray) -> None:
        """Queue the distinct ``times`` (non-decreasing) that are later than the last CTI."""
        times = growing(times, self.last_cti)
        if len(times):
            self._ctis.append(times)
            self.last_cti = int(times[-1])


def _on_grid(frontier: np.ndarray, every: int) -> np.ndarray:
    """Return the grid times that a growing frontier has reached, rounded down, each at least once.

    With many rows per grid time, a search for the grid times is faster than dividing each row.
    """
    frontier = frontier[np.searchsorted(frontier, MIN_TIME + every) :]
    if len(frontier) == 0:
        return frontier
    first, last = int(frontier[0]) // every, int(frontier[-1]) // every
    if last - first <= len(frontier) // _ROWS_PER_GRID_TIME:
        times = np.arange(first + 1, last + 1, dtype=np.int64) * every
        frontier = frontier[np.append(0, np.searchsorted(frontier, times))]
    rounded: np.ndarray = frontier // every * every
    return rounded


def _adjusted(events: pa.RecordBatch, before: np.ndarray) -> pa.RecordBatch:
    """Return the events with lifetimes raised: no start below ``before``, and no empty lifetime."""
    vs = np.maximum(int64_column(events, VS), before)
    ve = np.maximum(int64_column(events, VE), vs + 1)
    columns = [pa.array(vs), pa.array(ve), *events.columns[2:]]
    return pa.RecordBatch.from_arrays(columns, schema=events.schema)


def _joined(late: list[pa.RecordBatch]) -> pa.RecordBatch | None:
    return join_batches(late) if late else None

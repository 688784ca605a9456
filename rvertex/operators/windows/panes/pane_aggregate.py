"""Partial aggregation of events by pane: the part of a window aggregate that reads every row.

An event is in the pane that contains its start. Either events arrive sorted; then an event closes
all earlier panes, as a CTI (watermark) does. Or they arrive in any order, but not below the last
CTI; a source then need not sort them, if no aggregate depends on the order. In both cases rows are
added to open panes as they arrive, and none is buffered or sorted. Panes that begin and end within
a batch are aggregated in one pass. The output is the same, item for item.

Invariants: (1) the state is the groups of the open panes. If events close panes, at most one is
open. Otherwise few are open, unless a pane is much shorter than the time from the source's frontier
to its latest row; (2) partial rows are emitted once their pane is closed, sorted by (pane, start,
key); (3) ``CTI(t)`` becomes the start of the pane that contains ``t``; (4) rows of equal ``vs`` are
added in input order.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
import pyarrow as pa

from rstream.items.batch import VS, int64_column
from rstream.types import MIN_TIME
from rvertex.events.group_scan import heads_of
from rvertex.events.ordering import in_time_order, stable_order
from rvertex.events.reorder_buffer import concatenated
from rvertex.events.run import Run, concat, growing, pieces_of
from rvertex.operators.protocol import OperatorState
from rvertex.operators.windows.arithmetic import floor_divided
from rvertex.operators.windows.grouping import (
    VERIFIED_WHEN_READ,
    Grouping,
    OpenGroups,
    closed_groups,
)
from rvertex.state.memory import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rvertex.state.memory import StateMemory

#: A batch that spans at most this many panes is divided at their bounds.
_CUT_PANES_MAX = 4


class RowLifetimes(Protocol):
    """Defines the panes, and the lifetimes of their partial rows."""

    unit_us: int
    #: Whether the rows of a pane start at the pane's start. Then rows in pane order are in time
    #: order.
    rows_last_as_panes: ClassVar[bool]
    #: The schema of partial events.
    schema: pa.Schema

    def inside(self, events: pa.RecordBatch, *, in_order: bool) -> pa.RecordBatch: ...
    def open_at(self, cti: int) -> int: ...
    def ctis(self, times: np.ndarray) -> np.ndarray: ...
    def rows(
        self, panes: np.ndarray, keys: list[pa.Array], lanes: list[pa.Array]
    ) -> pa.RecordBatch: ...


class PaneAggregate:
    """Aggregates events by pane and key.

    ``events_close_panes``: events arrive in order of ``vs``, so an event closes all earlier panes.
    """

    #: See :mod:`rvertex.state.unverified`.
    verified_when_read: ClassVar = VERIFIED_WHEN_READ

    def __init__(
        self, lifetimes: RowLifetimes, grouping: Grouping, *, events_close_panes: bool
    ) -> None:
        self._lifetimes = lifetimes
        self._grouping = grouping
        self._events_close_panes = events_close_panes
        self._open: dict[int, OpenGroups] = {}
        self._last_cti: int | None = None
        self._holder = UNLIMITED.holder()

    def use_memory(self, memory: StateMemory) -> None:
        """Implement :class:`rvertex.state.memory.SpillsState`."""
        self._holder = memory.holder()

    def process(self, ports: Sequence[Run]) -> Run:
        """Add the events, and emit the panes that events or CTIs close."""
        return concat([*self.process_in_pieces(ports)])

    def process_in_pieces(self, ports: Sequence[Run]) -> Iterator[Run]:
        """See :class:`EmitsInPieces`. Panes with rows on scratch are emitted by ranges of keys."""
        (run,) = ports
        is_large = any(groups.is_large for groups in self._open.values())
        lifetimes = self._lifetimes
        closing = lifetimes.open_at(int(run.ctis[-1])) if len(run.ctis) else MIN_TIME
        events = lifetimes.inside(run.events, in_order=self._events_close_panes)
        out: list[pa.RecordBatch] = []
        if events.num_rows and self._events_close_panes:
            closing = self._fold_in_order(events, closing, out)
        elif events.num_rows:
            self._fold_any_order(events, closing, out)
        ctis = growing(lifetimes.ctis(run.ctis), self._last_cti)
        if len(ctis):
            self._last_cti = int(ctis[-1])
        closed = self._closed(closing)
        if is_large and lifetimes.rows_last_as_panes and not out:
            yield from pieces_of(closed, ctis, lifetimes.schema)
        else:
            rows = concatenated([*out, *closed], lifetimes.schema)
            # Each batch has complete panes, with rows sorted by key.
            yield Run(in_time_order(rows)[0] if rows.num_rows else rows, ctis)
        self._keep_to_memory()

    def held_tables(self) -> dict[str, pa.Table]:
        """Return the groups so far; see :class:`rvertex.operators.protocol.ShowsState`."""
        rows: list[pa.RecordBatch] = []
        for pane, groups in sorted(self._open.items()):
            copy = self._new_groups()
            copy.restore(groups.save())
            rows += self._rows(pane, copy)
        return {"open_groups": pa.Table.from_batches(rows, self._lifetimes.schema)}

    def snapshot(self) -> OperatorState:
        """Return the open panes, by reference."""
        panes = sorted(self._open)
        tables = {
            f"{i}.{name}": table
            for i, pane in enumerate(panes)
            for name, table in self._open[pane].save().items()
        }
        return OperatorState({"panes": panes, "last_cti": self._last_cti}, tables)

    def load(self, state: OperatorState) -> None:
        """Restore the open panes of ``state``."""
        self._last_cti = state.header["last_cti"]
        self._open = {pane: self._new_groups() for pane in state.header["panes"]}
        for i, groups in enumerate(self._open.values()):
            names = (name for name in state.tables if name.partition(".")[0] == str(i))
            groups.restore({name.partition(".")[2]: state.tables[name] for name in names})

    def _fold_in_order(
        self, events: pa.RecordBatch, closing: int, out: list[pa.RecordBatch]
    ) -> int:
        """Add sorted events; return the first pane that stays open."""
        vs, unit = int64_column(events, VS), self._lifetimes.unit_us
        low, high = int(vs[0]) // unit, int(vs[-1]) // unit
        closing = max(closing, high)
        if low == high:
            self._update(high, events)
            return closing
        # At most one pane is open, and it is the first. So all panes between it and the last are
        # complete.
        lo = int(np.searchsorted(vs, np.int64((low + 1) * unit))) if low in self._open else 0
        hi = int(np.searchsorted(vs, np.int64(high * unit)))
        if lo:
            self._update(low, events.slice(0, lo))
        out += self._closed(high) if lo < hi else ()
        if lo < hi:
            self._emit_whole(events.slice(lo, hi - lo), floor_divided(vs[lo:hi], unit), out)
        self._update(high, events.slice(hi))
        return closing

    def _fold_any_order(
        self, events: pa.RecordBatch, closing: int, out: list[pa.RecordBatch]
    ) -> None:
        """Add events.

        Panes before ``closing`` of which the batch has all events may go to ``out``.
        """
        vs, unit = int64_column(events, VS), self._lifetimes.unit_us
        low, high = int(vs.min()) // unit, int(vs.max()) // unit
        if high - low < _CUT_PANES_MAX:
            rest = [events]
            for pane in range(low, high):
                below, rest = _cut(rest, (pane + 1) * unit)
                self._update(pane, *below)
            self._update(high, *rest)
            return
        panes = vs // unit
        is_whole = panes < closing
        is_whole &= ~np.isin(panes, list(self._open))
        if is_whole.any():
            self._emit_whole(events.filter(pa.array(is_whole)), panes[is_whole], out)
            events, panes = events.filter(pa.array(~is_whole)), panes[~is_whole]
        order = stable_order(panes)
        if order is not None:
            events, panes = events.take(pa.array(order)), panes[order]
        firsts = np.flatnonzero(heads_of(panes)).tolist()
        for lo, hi in itertools.pairwise([*firsts, len(panes)]):
            self._update(int(panes[lo]), events.slice(lo, hi - lo))

    def _emit_whole(
        self, events: pa.RecordBatch, panes: np.ndarray, out: list[pa.RecordBatch]
    ) -> None:
        """Aggregate events that are complete for their panes (int64[n]) in one pass."""
        groups = closed_groups(self._grouping, events, panes, at=None)
        out.append(self._lifetimes.rows(*groups))

    def _closed(self, closing: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the panes before ``closing``, which are removed."""
        for pane in sorted(pane for pane in self._open if pane < closing):
            yield from self._rows(pane, self._open.pop(pane))

    def _rows(self, pane: int, groups: OpenGroups) -> Iterator[pa.RecordBatch]:
        """Yield the partial rows of a pane, and free its groups."""
        for keys, lanes in groups.results():
            count = len((keys or lanes)[0])
            yield self._lifetimes.rows(np.full(count, pane), keys, lanes)

    def _new_groups(self) -> OpenGroups:
        return OpenGroups(self._grouping, self._holder)

    def _keep_to_memory(self) -> None:
        """Report the bytes of the open panes.

        If they exceed the budget, stop adding groups to them.
        """
        self._holder.used_bytes = sum(groups.memory_bytes for groups in self._open.values())
        self._holder.keys = sum(groups.groups for groups in self._open.values())
        if self._holder.must_spill:
            for groups in self._open.values():
                groups.spill()

    def _update(self, pane: int, *pieces: pa.RecordBatch) -> None:
        for events in pieces:
            if events.num_rows:
                if pane not in self._open:
                    self._open[pane] = self._new_groups()
                self._open[pane].update(events)


def _cut(
    pieces: Sequence[pa.RecordBatch], time: int
) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
    """Return the rows before ``time`` and the other rows, each in input order.

    Rows are nearly sorted. So only the rows from the first row at or after ``time`` to the last row
    before it are copied.
    """
    below: list[pa.RecordBatch] = []
    above: list[pa.RecordBatch] = []
    for events in pieces:
        is_above = int64_column(events, VS) >= time
        first = int(is_above.argmax()) if is_above.any() else len(is_above)
        last = len(is_above) - int((~is_above[::-1]).argmax()) if not is_above.all() else 0
        if first >= last:
            below.append(events.slice(0, first))
            above.append(events.slice(first))
            continue
        mixed, mask = events.slice(first, last - first), is_above[first:last]
        below += [events.slice(0, first), mixed.filter(pa.array(~mask))]
        above += [mixed.filter(pa.array(mask)), events.slice(last)]
    return below, above

"""STITCH: events of one key whose lifetimes touch or overlap become one event.

Touching and overlapping lifetimes of a key form an *island*: ``[1, 3)`` and ``[3, 5)`` touch, so
they form ``[1, 5)``. Each island becomes one event, from its first start to its last end, with the
payload of its first event. So at each instant a key that has live rows in the input has exactly one
live row in the output. Null is a key like any other. Islands are emitted in order of (start, order
of their first events).

An island is complete at the first CTI (watermark) *after* its end, since an event that starts at
its end still belongs to it. Until then it holds back later islands, and ``CTI(t)`` becomes the
start of the earliest island that is not complete at ``t``.

    stitch("k")   in                  out
                  [1, 3) k=1 x=a
                  [3, 5) k=1 x=b
                  [4, 6) k=2 x=c
                  CTI(5)              CTI(1)                 [1, 5) may still grow
                  CTI(6)              [1, 5) k=1 x=a, CTI(4)
                  [8, 9) k=1 x=d      [4, 6) k=2 x=c
                  CTI(INF)            [8, 9) k=1 x=d, CTI(INF)

Invariants: (1) buffered islands are numbered by order of start; (2) only the newest island of a key
can grow; (3) a step takes time in its new events and the islands it emits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, event_schema, int64_column
from rstream.types import MIN_TIME
from rvertex.errors import UnknownColumnError
from rvertex.events.group_scan import heads_of, running_max
from rvertex.events.lifetime import after, frontier_after, with_times
from rvertex.events.timeline import before_each, sorting
from rvertex.keys.code_map import CodeMap
from rvertex.keys.key_index import KeyIndex
from rvertex.operators.lifetimes.pending import Pending
from rvertex.operators.protocol import OperatorState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.events.run import Run

_CODES_SLACK = 1 << 17
_NONE = -1


@dataclass(frozen=True, slots=True)
class Stitch:
    """Merges lifetimes per key ``on``; without key columns all events have one key."""

    holds_ctis: ClassVar[bool] = True

    on: tuple[str, ...]

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return the input's schema.

        Raises:
            UnknownColumnError: there is no such key column.
        """
        (payload,) = inputs
        for name in self.on:
            if name not in payload.names:
                raise UnknownColumnError("stitch", name, tuple(payload.names))
        return payload

    def open(self, inputs: Sequence[pa.Schema]) -> StitchOperator:
        """Return a new operator with empty state."""
        return StitchOperator(self.on, self.output_schema(inputs))


class StitchOperator:
    """The running operator of :class:`Stitch`."""

    def __init__(self, on: tuple[str, ...], payload: pa.Schema) -> None:
        self._on = on
        self._payload = payload
        self._reset()

    def _reset(self) -> None:
        self._keys = KeyIndex([self._payload.field(name).type for name in self._on])
        self._islands = Pending(event_schema(self._payload))
        #: Number of the newest island of each key.
        self._newest = CodeMap(np.int64, _NONE)
        self._frontier: int = MIN_TIME

    def process(self, ports: Sequence[Run]) -> Run:
        """Grow islands, begin new ones, and emit complete ones."""
        (run,) = ports
        if run.events.num_rows:
            self._add(run.events)
        self._frontier = frontier_after(self._frontier, ports)
        out = self._islands.release(self._frontier, run.ctis)
        if len(self._keys) > 2 * len(self._islands) + _CODES_SLACK:
            self.load(self.snapshot())
        return out

    def first_held(self) -> tuple[int, dict[str, Any]] | None:
        """Return start and columns of the row that holds back the output; None: there is none."""
        return self._islands.first_held(self._on)

    def snapshot(self) -> OperatorState:
        """Return the buffered islands, by reference."""
        header = {"frontier": self._frontier, "last_cti": self._islands.last_cti}
        return OperatorState(header, {"islands": self._islands.table()})

    def load(self, state: OperatorState) -> None:
        """Restore the islands of ``state``."""
        self._reset()
        self._frontier = state.header["frontier"]
        self._islands.last_cti = state.header["last_cti"]
        first = 0
        for events in self._islands.load(state.tables["islands"]):
            numbers = np.arange(first, first + events.num_rows)
            self._newest.put(self._codes(events), numbers)
            first += events.num_rows

    def _codes(self, events: pa.RecordBatch) -> np.ndarray:
        columns = [events.column(name) for name in self._on]
        return self._keys.codes_of_rows(columns, events.num_rows)

    def _add(self, events: pa.RecordBatch) -> None:
        """Add events: each grows the newest island of its key, or begins one."""
        codes = self._codes(events)
        order = sorting(codes)
        codes = codes[order]
        vs, ve = int64_column(events, VS)[order], int64_column(events, VE)[order]
        newest = self._newest.get(codes)
        is_held = newest >= self._islands.first
        ends = np.full(len(codes), MIN_TIME, np.int64)
        ends[is_held] = self._islands.ends(newest[is_held])
        first = heads_of(codes)
        running = np.maximum(running_max(ve, first), ends)
        begins = vs > before_each(first, running, ends)
        begins |= first & ~is_held
        # Adjacent rows of one island are a segment, whose end is the running end at its last row.
        at = np.flatnonzero(begins | first)
        last = np.append(at[1:], len(codes)) - 1
        number = newest[at]
        is_new = begins[at]
        number[is_new] = self._begin(events, order[at[is_new]], running[last[is_new]])
        grown = np.flatnonzero(~is_new)
        self._islands.complete(number[grown], running[last[grown]], after(running[last[grown]]))
        self._newest.put(codes[at], number)

    def _begin(self, events: pa.RecordBatch, rows: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Begin an island at each of ``rows``; return their numbers, in order of ``rows``."""
        by_row = np.argsort(rows, kind="stable")
        rank = np.empty(len(rows), np.int64)
        rank[by_row] = np.arange(len(rows))
        ends = ends[by_row]
        islands = with_times(events.take(pa.array(rows[by_row])), ve=ends)
        return self._islands.push(islands, after(ends)) + rank

"""ANTI JOIN: left events, alive only while no right event with equal keys is alive.

The result has the pieces of each left event's lifetime that are outside the lifetimes of all its
matches; no piece if the matches cover it. So at each instant the live result rows are the live left
rows without a live match. Null keys match nothing, so such a left event stays whole. Two pieces of
an event never touch. Pieces come by (start, order of the left events).

A piece's end is final at the CTI (watermark) at the event's end, or after the match that ended it.
Until then the piece holds back later pieces, and ``CTI(t)`` becomes the start of the first piece
whose end is not final at ``t``.

    left                right                    out
    [100, 110) k=1      [101, 103) k=1
    CTI(102)            CTI(102)                 [100, 101) k=1, CTI(102)
                        [106, 108) k=1
                        [106, 109) k=1
    CTI(107)            CTI(107)                 [103, 106) k=1, CTI(107)
    CTI(110)            CTI(110)                 [109, 110) k=1, CTI(110)

Invariants: (1) a piece is created once its start is certain: at its event's start if no match
covers the key there, and wherever the cover of the key ends. Its end is then found by clipping it
at the next match (:mod:`rvertex.operators.lifetimes.clipping`); (2) a step takes time in its new
rows and the pieces that begin or end in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, event_schema, int64_column
from rstream.items.dictionaries import join_batches
from rstream.types import MIN_TIME
from rvertex.events.run import Run
from rvertex.events.settled_rows import SettledRows
from rvertex.events.timeline import Timeline, sorting
from rvertex.keys.key_index import KeyIndex, null_keys
from rvertex.operators.horizon import SameLifetimes, greatest_us, sum_us
from rvertex.operators.joins.coverage import Coverage, Ended, Rights
from rvertex.operators.joins.max_tree import MaxTree
from rvertex.operators.joins.side_index import JoinSide, Rows
from rvertex.operators.joins.stored_rows import Probes
from rvertex.operators.lifetimes.clipping import Clipping
from rvertex.operators.protocol import OperatorState
from rvertex.state.memory import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.operators.horizon import Durations
    from rvertex.state.memory import StateMemory

_CODES_SLACK = 1 << 17


@dataclass(frozen=True, slots=True)
class AntiJoin(SameLifetimes):
    """Port 0 is left, port 1 is right. ``output``: pairs of left column and output name."""

    holds_ctis: ClassVar[bool] = True

    left_on: tuple[str, ...]
    right_on: tuple[str, ...]
    output: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        assert len(self.left_on) == len(self.right_on) > 0, (self.left_on, self.right_on)

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return the left columns of ``output``."""
        left, _right = inputs
        return pa.schema([(name, left.field(column).type) for column, name in self.output])

    def horizon_us(self, durations: Durations) -> int | None:
        """Return the greatest left lifetime plus the greatest lifetime of either side.

        A piece is buffered until its event ends. The match whose end began the piece started up to
        its own lifetime earlier.
        """
        return sum_us(durations[0], greatest_us(durations))

    def open(self, inputs: Sequence[pa.Schema]) -> AntiJoinOperator:
        """Return a new operator with empty state."""
        return AntiJoinOperator(self, inputs)


class AntiJoinOperator:
    """The running operator of :class:`AntiJoin`."""

    #: See :mod:`rvertex.state.unverified`.
    verified_when_read: ClassVar = frozenset({"alive"})

    def __init__(self, spec: AntiJoin, inputs: Sequence[pa.Schema]) -> None:
        self._spec = spec
        self._output = event_schema(spec.output_schema(inputs))
        left, right = inputs
        columns = dict.fromkeys([*spec.left_on, *(column for column, _ in spec.output)])
        self._stored = pa.schema([left.field(name) for name in columns])
        self._right_keys = pa.schema([right.field(n) for n in dict.fromkeys(spec.right_on)])
        self._key_types = [left.field(name).type for name in spec.left_on]
        #: Every piece that starts before this has been emitted; set at the end of a step.
        self.released_before: int = MIN_TIME
        self._memory = UNLIMITED
        self._reset()

    def use_memory(self, memory: StateMemory) -> None:
        """Implement :class:`rvertex.state.memory.SpillsState`."""
        self._memory = memory
        self._reset()

    def _reset(self) -> None:
        self._keys = KeyIndex(self._key_types)
        self._settled = SettledRows([event_schema(self._stored), event_schema(self._right_keys)])
        self._coverage = Coverage(self._right_keys, self._right_codes)
        self._lefts = JoinSide(self._stored, self._spec.left_on, self._memory)
        self._clipping = Clipping(event_schema(self._stored), self._memory)

    def process(self, ports: Sequence[Run], advancing: Sequence[Run] = ()) -> Run:
        """Begin and end pieces, and emit those whose ends are final.

        ``advancing``: runs that advance time, but whose events are ignored.
        """
        before = self._settled.frontier
        names = (self._stored.names, self._right_keys.names)
        runs = [
            Run(run.events.select([VS, VE, *columns]), run.ctis)
            for run, columns in zip(ports, names, strict=True)
        ]
        left, right = self._settled.take(runs, advancing)
        frontier = self._settled.frontier
        if frontier > before:
            self._advance(left, right, before, frontier)
        out = self._clipping.pending.release(frontier, ports[0].ctis)
        self.released_before = self._clipping.pending.released_before
        waste = max(len(self._keys), self._clipping.chained)
        lefts = self._lefts
        held = lefts.rows_in_memory + len(self._clipping.pending) + self._coverage.keys_held
        if waste > 2 * held + _CODES_SLACK:
            self._restore(self.snapshot(), lefts)
        return Run(self._named(out.events), out.ctis)

    def first_held(self) -> tuple[int, dict[str, Any]] | None:
        """Return start and columns of the row that holds back the output; None: there is none."""
        return self._clipping.pending.first_held(self._spec.left_on)

    def snapshot(self) -> OperatorState:
        """Return the buffered rows, by reference."""
        left, right = self._settled.tables()
        header = {
            "frontier": self._settled.frontier,
            "next_ordinal": self._lefts.next_ordinal,
            "last_cti": self._clipping.pending.last_cti,
        }
        tables = {
            "left": left,
            "right": right,
            **self._lefts.tables("alive"),
            "ends": self._coverage.table(),
            "pieces": self._clipping.pending.table(),
        }
        return OperatorState(header, tables)

    def load(self, state: OperatorState) -> None:
        """Restore ``state``."""
        self._restore(state)

    def _restore(self, state: OperatorState, lefts: JoinSide | None = None) -> None:
        """Restore ``state``.

        If ``lefts`` is given, the left rows are in it and have other codes.
        """
        self._reset()
        header, tables = state.header, state.tables
        frontier = header["frontier"]
        self._settled.load(frontier, [tables["left"], tables["right"]])
        self._coverage.load(tables["ends"])
        self._clipping.load(tables["pieces"], self._left_codes)
        self._clipping.pending.last_cti = header["last_cti"]
        if lefts is not None:
            self._lefts = lefts
            lefts.renumber(self._keys, frontier)
            return
        self._lefts.next_ordinal = header["next_ordinal"]
        self._lefts.load("alive", tables, frontier, self._keys)

    def _advance(
        self, left: pa.RecordBatch, right: pa.RecordBatch, before: int, frontier: int
    ) -> None:
        """Add the new events of both sides, and create the pieces up to ``frontier``."""
        nulls = null_keys([right.column(name) for name in self._spec.right_on])
        if nulls is not None:
            right = right.filter(pa.array(~nulls))
        rights = self._coverage.rights(right)
        new = _Lefts(left, self._left_codes(left), self._stored, self._lefts.next_ordinal)
        own = self._uncovered(new, rights)
        ended = self._coverage.advance(rights, before, frontier)
        parts = [own, *self._resumed(ended), *_resumed_within(new, ended)]
        pieces, codes = _joined(parts, event_schema(self._stored))
        empty = np.empty(0, np.int64)
        marks = (empty, empty) if rights is None else (rights.codes, rights.vs)
        self._clipping.advance(pieces, codes, *marks)
        self._remember(new, frontier)

    def _uncovered(self, new: _Lefts, rights: Rights | None) -> _Begun:
        """Return the pieces that begin at the start of their event."""
        known = np.flatnonzero(new.codes >= 0)
        covered = np.zeros(len(new.codes), bool)
        vs = new.vs[known]
        covered[known] = self._coverage.covered_until(new.codes[known], vs, rights) > vs
        return new.begun(np.flatnonzero(~covered), None)

    def _resumed(self, ended: Ended) -> list[_Begun]:
        """Return the pieces of older events that begin where a cover ends."""
        if self._lefts.runs == 0 or len(ended.codes) == 0:
            return []
        probes = Probes(ended.codes, ended.times, lambda: self._keys.keys(ended.codes))
        return [
            _Begun(
                found.stored.take(pa.array(found.place)).select(self._stored.names),
                ended.codes[found.probe], ended.times[found.probe], found.ve, found.ordinal,
            )
            for found in self._lefts.find(probes)
        ]  # fmt: skip

    def _remember(self, new: _Lefts, frontier: int) -> None:
        """Store the new left rows that outlive the frontier, for pieces that begin later."""
        self._lefts.next_ordinal += len(new.codes)
        alive = np.flatnonzero((new.ve > frontier) & (new.codes >= 0))
        stored = new.stored.take(pa.array(alive))
        rows = Rows(new.codes[alive], new.ve[alive], new.first_ordinal + alive, stored)
        self._lefts.insert(rows, frontier)
        self._lefts.expire(frontier)

    def _left_codes(self, events: pa.RecordBatch) -> np.ndarray:
        """Return the codes of left rows, -1 if a key is null."""
        columns = [events.column(name) for name in self._spec.left_on]
        return self._keys.matching_codes(columns)

    def _right_codes(self, events: pa.RecordBatch) -> np.ndarray:
        return self._keys.codes([events.column(name) for name in self._spec.right_on])

    def _named(self, pieces: pa.RecordBatch) -> pa.RecordBatch:
        columns = [pieces.column(name) for name in (VS, VE)]
        columns += [pieces.column(column) for column, _ in self._spec.output]
        return pa.RecordBatch.from_arrays(columns, schema=self._output)


@dataclass(frozen=True, slots=True)
class _Begun:
    """Pieces that begin in this step and are not yet clipped at matches."""

    stored: pa.RecordBatch
    codes: np.ndarray
    vs: np.ndarray
    ve: np.ndarray
    ordinal: np.ndarray


class _Lefts:
    """The left rows of one step."""

    def __init__(
        self, events: pa.RecordBatch, codes: np.ndarray, stored: pa.Schema, first_ordinal: int
    ) -> None:
        self.codes = codes
        self.vs, self.ve = int64_column(events, VS), int64_column(events, VE)
        self.stored = events.select(stored.names)
        self.first_ordinal = first_ordinal

    def begun(self, rows: np.ndarray, times: np.ndarray | None) -> _Begun:
        """Return pieces of ``rows`` that begin at ``times``; None: at the start of their events."""
        is_all = times is None and len(rows) == len(self.codes)
        stored = self.stored if is_all else self.stored.take(pa.array(rows))
        starts = self.vs[rows] if times is None else times
        return _Begun(stored, self.codes[rows], starts, self.ve[rows], self.first_ordinal + rows)


def _resumed_within(new: _Lefts, ended: Ended) -> list[_Begun]:
    """Return the pieces of new events that begin where a cover ends."""
    if len(new.codes) == 0 or len(ended.codes) == 0:
        return []
    timeline = Timeline(ended.codes, ended.times, new.codes, new.vs)
    rows, marks, lo, hi = timeline.rows_before_marks()
    mark, place = MaxTree(new.ve[rows]).above(lo, hi, ended.times[marks])
    return [new.begun(rows[place], ended.times[marks[mark]])] if len(mark) else []


def _joined(parts: list[_Begun], schema: pa.Schema) -> tuple[pa.RecordBatch, np.ndarray]:
    """Concatenate pieces by (start, ordinal); return them as events, and their codes."""
    vs, ve, ordinal, codes = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("vs", "ve", "ordinal", "codes")
    )
    stored = join_batches([part.stored for part in parts])
    order = sorting(ordinal)
    order = order[sorting(vs[order])]
    if not np.array_equal(order, np.arange(len(order))):
        stored = stored.take(pa.array(order))
    columns = [pa.array(vs[order]), pa.array(ve[order]), *stored.columns]
    return pa.RecordBatch.from_arrays(columns, schema=schema), codes[order]

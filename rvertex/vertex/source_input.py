"""The input side of a source vertex that reads one partition: releases its rows in final order.

It wraps :class:`rvertex.vertex.reorder.Reorder` in the interface of MERGE, so a vertex handles both
the same way. Rows are numbered from 0. A row counts as consumed as soon as it was offered, because
the reorder buffer is part of the state.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from rstream.items.batch import KIND, empty_events, event_schema
from rstream.items.dictionaries import as_declared, join_batches, plain_schema
from rvertex.errors import LateRowError, SourceOrderChangedError
from rvertex.events.delay_estimate import DelayEstimate
from rvertex.events.side_output import DEAD_LETTERS, LATE, SideOutput
from rvertex.sources.formats.rows.bad_rows import bad_of, dead_rows, pieces
from rvertex.vertex.dead_letters import dead_letter_payload, dead_letters
from rvertex.vertex.reorder import Reorder, late_payload
from rvertex.vertex.spec import Position

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rstream.items.batch import Items
    from rvertex.events.run import Run
    from rvertex.operators.protocol import OperatorState
    from rvertex.sources.spec import SourcePartition, SourceSpec
    from rvertex.vertex.spec import VertexSpec

_LATE, _DEAD = "late", "bad_rows"


def source_sides(spec: SourceSpec, stage: str) -> list[SideOutput]:
    """Return the side outputs of a stage's source: for dropped late rows, and for bad rows."""
    sides = []
    if spec.keeps_late_rows:
        sides.append(SideOutput(f"{LATE}/{stage}", late_payload(plain_schema(spec.row_schema))))
    if spec.checks.on_bad_row == "dead_letter":
        sides.append(SideOutput(f"{DEAD_LETTERS}/{stage}", dead_letter_payload()))
    return sides


def own_sides(vertex: VertexSpec) -> list[str]:
    """Return the names of a vertex's side outputs that its source writes."""
    if vertex.source is None:
        return []
    names = {side.name for side in source_sides(vertex.source.spec, vertex.stage)}
    return [edge.side for edge in vertex.outputs if edge.side in names]


def _joined(rows: list[pa.RecordBatch], payload: pa.Schema) -> pa.RecordBatch:
    if not rows:
        return empty_events(payload)
    return as_declared(join_batches(rows), event_schema(payload))


def _delay(spec: SourceSpec) -> int | DelayEstimate:
    if spec.delay_quantile is None:
        return spec.delay_us
    return DelayEstimate(spec.delay_quantile)


class SourceInput:
    """One source partition as the only input of a vertex."""

    def __init__(self, partition: SourcePartition, *, sides: Sequence[str]) -> None:
        spec = partition.spec
        assert spec.delay_origin != "auto", spec.path
        self._spec = spec
        self._keeps_late = any(name.startswith(LATE) for name in sides)
        self._keeps_dead = any(name.startswith(DEAD_LETTERS) for name in sides)
        #: Late rows since the last ``drain_side_outputs``.
        self._late: list[pa.RecordBatch] = []
        #: Bad rows since then; and the number of all bad rows so far.
        self._dead: list[pa.RecordBatch] = []
        self.dead_rows = 0
        self.payload: pa.Schema = spec.schema
        self._reorder = Reorder(
            spec.schema,
            delay_us=_delay(spec),
            late="error" if spec.delay_origin == "found" else spec.late,
            cti_every_us=spec.cti_every_us,
            keep=spec.keep,
            sorts=spec.sorts,
            known=partition.known,
            is_stream=spec.format == "rstream",
        )
        self._stop_row: int | None = None

    @property
    def consumed(self) -> tuple[int, ...]:
        """Number of the next row to consume."""
        return (self._reorder.consumed,)

    @property
    def read_positions(self) -> tuple[int, ...]:
        """Equals :attr:`consumed`, since no rows are read ahead."""
        return self.consumed

    @property
    def late_events(self) -> int:
        """Number of late rows so far, dropped or adjusted."""
        return self._reorder.late_dropped + self._reorder.late_adjusted

    @property
    def late_dropped(self) -> int:
        """Number of late rows so far that were dropped."""
        return self._reorder.late_dropped

    @property
    def lateness(self) -> bytes:
        """Histogram of lateness (:class:`rvertex.vertex.lateness_counts.LatenessCounts`)."""
        return self._reorder.lateness.to_bytes()

    @property
    def passed_over(self) -> int:
        """Number of events so far that the source's filter dropped."""
        return self._reorder.passed_over

    @property
    def max_vs(self) -> int:
        """Greatest ``vs`` offered so far, us."""
        return self._reorder.max_vs

    def wants(self, channel: int) -> bool:
        """Return whether to offer more rows: always, unless a replay has reached its end."""
        assert channel == 0, channel
        return self._reorder.consumed != self._stop_row

    def offer(self, channel: int, items: Items) -> None:
        """Process the next rows of the partition, in arrival order."""
        assert channel == 0, channel
        assert self._stop_row is None or items.next_seq <= self._stop_row, (items, self._stop_row)
        batch, width = items.batch, len(self._spec.row_schema) + 2
        bad = None if batch.schema.names[0] == KIND else bad_of(batch, width)
        if bad is None:
            self._take(items.first_seq, batch)
            return
        events = batch.select(range(width))
        for lo, hi, is_bad in pieces(bad):
            if is_bad:
                self._take_bad(dead_rows(bad.slice(lo, hi - lo)))
            else:
                self._take(items.first_seq + lo, events.slice(lo, hi - lo))

    def _take_bad(self, dead: pa.RecordBatch) -> None:
        self.dead_rows += dead.num_rows
        while dead.num_rows:  # ends: each round removes a row
            frontier = self._reorder.frontier
            taken = self._reorder.skip(dead.num_rows)
            if self._keeps_dead:
                self._dead.append(dead_letters(dead.slice(0, taken), frontier))
            dead = dead.slice(taken)

    def _take(self, first_row: int, batch: pa.RecordBatch) -> None:
        late = self._offer(first_row, batch)
        if late is not None and self._keeps_late:
            self._late.append(late)

    def _offer(self, first_row: int, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        try:
            return self._reorder.offer(first_row, batch)
        except LateRowError as error:
            if self._spec.delay_origin != "found":
                raise
            raise SourceOrderChangedError(self._spec.path, error.row, error.vs) from error

    def end(self) -> None:
        """End the partition."""
        self._reorder.end()

    def release(self) -> list[Run] | None:
        """Return the rows whose order is final, as the run of the only port."""
        run = self._reorder.release()
        return None if run is None else [run]

    def drain_side_outputs(self) -> list[pa.RecordBatch]:
        """Return the late and the bad rows since the last call, in row order."""
        late, dead = self._late, self._dead
        self._late, self._dead = [], []
        sides = []
        if self._keeps_late:
            sides.append(_joined(late, late_payload(plain_schema(self._spec.row_schema))))
        if self._keeps_dead:
            sides.append(_joined(dead, dead_letter_payload()))
        return sides

    def snapshot(self) -> OperatorState:
        """Return the reorder buffer, its frontier, and side rows that were not drained yet."""
        state = self._counted(self._reorder.snapshot())
        waiting = {_LATE: self._late, _DEAD: self._dead}
        tables = {name: pa.Table.from_batches(rows) for name, rows in waiting.items() if rows}
        return replace(state, tables={**state.tables, **tables}) if tables else state

    def _counted(self, state: OperatorState) -> OperatorState:
        """Return the state with the number of bad rows added, if there are any."""
        if not self.dead_rows:
            return state
        return replace(state, header={**state.header, _DEAD: self.dead_rows})

    def load(self, state: OperatorState, consumed: tuple[int, ...]) -> None:
        """Continue from a snapshot."""
        self._late = state.tables[_LATE].to_batches() if _LATE in state.tables else []
        self._dead = state.tables[_DEAD].to_batches() if _DEAD in state.tables else []
        self.dead_rows = state.header.get(_DEAD, 0)
        self._reorder.load(state)
        assert self.consumed == consumed, (self.consumed, consumed)

    @property
    def position(self) -> Position:
        """Next row, greatest time and last CTI after a release."""
        reorder = self._reorder
        return Position(self.consumed, max(reorder.max_vs, reorder.last_cti), reorder.last_cti)

    def scalars(self) -> OperatorState:
        """Return the state at :attr:`position` without buffered rows; a replay reads them again."""
        return self._counted(self._reorder.scalars())

    def replay(self, state: OperatorState, inputs: tuple[int, ...], until: tuple[int, ...]) -> None:
        """Continue at ``inputs`` and read exactly the rows before ``until``."""
        self.load(state, inputs)
        (self._stop_row,) = until

    @property
    def stops(self) -> tuple[int | None, ...]:
        """The row at which a replay ends; None: no limit."""
        return (self._stop_row,)

    def resume(self) -> None:
        """End the replay, and read without a limit."""
        self._stop_row = None

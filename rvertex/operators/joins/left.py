"""LEFT JOIN: the rows of the inner join, and left rows with nulls while they have no match.

A left event yields one row per match, alive while both are (as in
:mod:`rvertex.operators.joins.inner`). It also yields the pieces of its lifetime outside all its
matches, with null in the right columns (as in :mod:`rvertex.operators.joins.anti`). So at each
instant every live left row is in the result. Rows come by start; at equal starts matches precede
pieces, each in the order of their operator. CTIs (watermarks) are as in the anti join.

    left                right                    out
    [100, 110) k=1      [101, 103) k=1 x=a
    CTI(102)            CTI(102)                 [100, 101) k=1 x=null, [101, 103) k=1 x=a, CTI(102)
                        [106, 112) k=1 x=b
    CTI(107)            CTI(107)                 [103, 106) k=1 x=null, [106, 110) k=1 x=b, CTI(107)

Invariant: a match is buffered until every piece that starts before it has been emitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from rstream.items.batch import VE, VS, event_schema
from rstream.items.dictionaries import join_batches
from rvertex.events.ordering import in_time_order
from rvertex.events.reorder_buffer import SortedRuns
from rvertex.events.run import Run
from rvertex.operators.composite_state import joined_states, part_state
from rvertex.operators.horizon import SameLifetimes
from rvertex.operators.joins.anti import AntiJoin, AntiJoinOperator
from rvertex.operators.joins.inner import Join, Side, TemporalJoin
from rvertex.state.memory import give_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.operators.horizon import Durations
    from rvertex.operators.protocol import Operator, OperatorState
    from rvertex.state.memory import StateMemory

_MATCHES, _ALONE = "matches", "alone"


@dataclass(frozen=True, slots=True)
class LeftJoin(SameLifetimes):
    """As :class:`~rvertex.operators.joins.inner.TemporalJoin`, plus left events without a match."""

    holds_ctis: ClassVar[bool] = True

    left_on: tuple[str, ...]
    right_on: tuple[str, ...]
    output: tuple[tuple[Side, str, str], ...]

    @property
    def matches(self) -> TemporalJoin:
        """The inner join, which yields rows with a match."""
        return TemporalJoin(self.left_on, self.right_on, self.output)

    @property
    def alone(self) -> AntiJoin:
        """The anti join, which yields rows without a match."""
        output = tuple((column, name) for side, column, name in self.output if side == "left")
        return AntiJoin(self.left_on, self.right_on, output)

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return the schema of the inner join."""
        return self.matches.output_schema(inputs)

    def horizon_us(self, durations: Durations) -> int | None:
        """Return the horizon of the anti join, since matches are buffered for its pieces."""
        return self.alone.horizon_us(durations)

    def open(self, inputs: Sequence[pa.Schema]) -> LeftJoinOperator:
        """Return a new operator with empty state."""
        schema = event_schema(self.output_schema(inputs))
        return LeftJoinOperator(self.matches.open(inputs), self.alone.open(inputs), schema)


class LeftJoinOperator:
    """The running operator of :class:`LeftJoin`."""

    #: See :mod:`rvertex.state.unverified`.
    verified_when_read: ClassVar = frozenset(
        f"{part}.{name}"
        for part, operator in ((_MATCHES, Join), (_ALONE, AntiJoinOperator))
        for name in operator.verified_when_read
    )

    def __init__(self, matches: Operator, alone: AntiJoinOperator, schema: pa.Schema) -> None:
        self._matches, self._alone = matches, alone
        self._schema = schema
        self._held = SortedRuns(schema)

    def use_memory(self, memory: StateMemory) -> None:
        """Implement :class:`rvertex.state.memory.SpillsState`."""
        give_memory(self._matches, memory)
        give_memory(self._alone, memory)

    def process(self, ports: Sequence[Run]) -> Run:
        """Run both joins and interleave their output."""
        self._held.push(self._matches.process(ports).events)
        alone = self._alone.process(ports)
        return interleaved(self._held, alone, self._alone.released_before, self._schema)

    def first_held(self) -> tuple[int, dict[str, Any]] | None:
        """Return start and columns of the row that holds back the output; None: there is none."""
        return self._alone.first_held()

    def snapshot(self) -> OperatorState:
        """Return the states of both joins and the buffered matches, by reference."""
        parts = {_MATCHES: self._matches.snapshot(), _ALONE: self._alone.snapshot()}
        return joined_states(parts, {}, {"held": self._held.table()})

    def load(self, state: OperatorState) -> None:
        """Restore ``state``."""
        self._matches.load(part_state(state, _MATCHES))
        self._alone.load(part_state(state, _ALONE))
        self._held = SortedRuns(self._schema)
        for batch in state.tables["held"].to_batches():
            self._held.push(batch)


def interleaved(held: SortedRuns, alone: Run, before: int, schema: pa.Schema) -> Run:
    """Merge the buffered matches that start before ``before`` with the pieces ``alone``."""
    matches = held.take_below(before)
    if alone.events.num_rows == 0:
        return Run(matches, alone.ctis)
    both = join_batches([matches, _widened(alone.events, schema)])
    return Run(in_time_order(both)[0], alone.ctis)


def _widened(pieces: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Add the columns of the right side to pieces, filled with null."""
    there = set(pieces.schema.names)
    columns = [pieces.column(VS), pieces.column(VE)]
    columns += [
        pieces.column(f.name) if f.name in there else pa.nulls(pieces.num_rows, f.type)
        for f in list(schema)[2:]
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)

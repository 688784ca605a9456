"""LEFT and ANTI JOIN with a condition over both events, in addition to equal keys.

A pair is a match if its keys are equal, its lifetimes overlap and ``where`` is true of it (null is
not true). Everything else is as in :mod:`rvertex.operators.joins.left` and
:mod:`rvertex.operators.joins.anti`: order, CTIs (watermarks), and buffering. An inner join with a
condition needs no operator: it is an inner join and a filter.

    left                   right                   where left.x < right.y: anti
    [100, 110) k=1 x=5     [101, 103) k=1 y=9      [100, 101) k=1 x=5
                           [104, 108) k=1 y=2      no match: 5 < 2 is false
    CTI(110)               CTI(110)                [103, 110) k=1 x=5, CTI(110)

Theory: left events are numbered. The filtered inner join yields, per number, the lifetimes of the
matches. Outside of these lifetimes the event has no match, so an anti join by number finds the
remaining pieces. Invariant: numbers follow the merged order of the left events, from 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, empty_events, event_schema
from rvertex.errors import OperatorTypeError
from rvertex.events.reorder_buffer import SortedRuns
from rvertex.events.run import Run
from rvertex.operators.composite_state import joined_states, part_state
from rvertex.operators.horizon import SameLifetimes, greatest_us, sum_us
from rvertex.operators.joins.anti import AntiJoin, AntiJoinOperator
from rvertex.operators.joins.inner import Side, TemporalJoin
from rvertex.operators.joins.left import interleaved
from rvertex.state.memory import give_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.operators.horizon import Durations
    from rvertex.operators.protocol import Evaluator, Operator, OperatorState
    from rvertex.state.memory import StateMemory

Columns = tuple[tuple[Side, str, str], ...]
PAIRS, ALONE = "pairs", "alone"


@dataclass(frozen=True, slots=True)
class ConditionalJoin(SameLifetimes):
    """Port 0 is left, port 1 is right. ``output``: triples of side, column, output name.

    ``reads``: the same for the columns of ``where``. Equal names in both mean the same column.
    """

    holds_ctis: ClassVar[bool] = True

    left_on: tuple[str, ...]
    right_on: tuple[str, ...]
    output: Columns
    where: Evaluator
    reads: Columns
    how: Literal["left", "anti"]

    def __post_init__(self) -> None:
        assert self.how == "left" or all(side == "left" for side, _, _ in self.output), self

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return the columns of ``output``.

        Raises:
            OperatorTypeError: the condition is not boolean.
        """
        pairs = self.pairs("").output_schema(inputs)
        kind = self.where.evaluate(empty_events(pairs)).type
        if not pa.types.is_boolean(kind):
            raise OperatorTypeError("join", f"needs a boolean condition, got {kind}")
        return pa.schema([pairs.field(name) for _, _, name in self.output])

    def pairs(self, number: str) -> TemporalJoin:
        """Return the inner join with all columns that a pair needs; ``number``: the left number."""
        named = {name: (side, column) for side, column, name in (*self.output, *self.reads)}
        columns: list[tuple[Side, str, str]] = [(*named[name], name) for name in named]
        if number:
            columns.append(("left", number, number))
        return TemporalJoin(self.left_on, self.right_on, tuple(columns))

    def horizon_us(self, durations: Durations) -> int | None:
        """Return the horizon of the anti join: a match lives no longer than its events."""
        return sum_us(durations[0], greatest_us(durations))

    def open(self, inputs: Sequence[pa.Schema]) -> ConditionalJoinOperator:
        """Return a new operator with empty state."""
        return ConditionalJoinOperator(self, inputs)


class ConditionalJoinOperator:
    """The running operator of :class:`ConditionalJoin`."""

    def __init__(self, spec: ConditionalJoin, inputs: Sequence[pa.Schema]) -> None:
        left, right = inputs
        self._spec = spec
        self._schema = event_schema(spec.output_schema(inputs))
        names = {*left.names, *right.names, *(name for _, _, name in (*spec.output, *spec.reads))}
        #: The name of the column with the number of a left event.
        self.number = "_number"
        while self.number in names:
            self.number += "_"
        field = pa.field(self.number, pa.int64())
        numbered, marks = pa.schema([*left, field]), pa.schema([field])
        self._numbered = event_schema(numbered)
        self._pairs: Operator = spec.pairs(self.number).open([numbered, right])
        on = (self.number,)
        output = tuple((column, name) for side, column, name in spec.output if side == "left")
        self._alone: AntiJoinOperator = AntiJoin(on, on, output).open([numbered, marks])
        #: Buffered matches, which wait for earlier rows without a match whose end is not known yet.
        self._held = SortedRuns(self._schema)
        self._next = 0

    def use_memory(self, memory: StateMemory) -> None:
        """Implement :class:`rvertex.state.memory.SpillsState`."""
        give_memory(self._pairs, memory)
        give_memory(self._alone, memory)

    def process(self, ports: Sequence[Run]) -> Run:
        """Find the matches, then the pieces of left events without a match."""
        left, right = ports
        numbers = np.arange(self._next, self._next + left.events.num_rows)
        self._next += len(numbers)
        columns = [*left.events.columns, pa.array(numbers)]
        lefts = Run(pa.RecordBatch.from_arrays(columns, schema=self._numbered), left.ctis)
        matches = self._pairs.process([lefts, right]).events
        if matches.num_rows:
            matches = matches.filter(self._spec.where.evaluate(matches))
        marks = Run(matches.select([VS, VE, self.number]), left.ctis)
        alone = self._alone.process([lefts, marks], advancing=[right])
        if self._spec.how == "anti":
            return alone
        self._held.push(matches.select(self._schema.names))
        return interleaved(self._held, alone, self._alone.released_before, self._schema)

    def snapshot(self) -> OperatorState:
        """Return the states of both parts and the buffered matches, by reference."""
        parts = {PAIRS: self._pairs.snapshot(), ALONE: self._alone.snapshot()}
        return joined_states(parts, {"next": self._next}, {"held": self._held.table()})

    def load(self, state: OperatorState) -> None:
        """Restore ``state``."""
        self._pairs.load(part_state(state, PAIRS))
        self._alone.load(part_state(state, ALONE))
        self._next = state.header["next"]
        self._held = SortedRuns(self._schema)
        for batch in state.tables["held"].to_batches():
            self._held.push(batch)

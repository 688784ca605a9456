"""INTERVAL JOIN: pairs with equal keys whose starts differ by an amount within given bounds.

Left event ``a`` and right event ``b`` match if their keys are equal, ``b.vs - a.vs`` is within
``[lo, hi]``, and ``where`` is true of the pair. The ends of events are ignored. Null keys match
nothing. Every output row is a point at the time at which it becomes known:

- a pair, and the row of a semi join with its first match, at the later of the two starts;
- a row without a match, at the last instant at which a match could start: ``a.vs + hi`` on the
  left, ``b.vs - lo`` on the right, and never before its own start.

So each row of an outer, anti or semi join is emitted once, and CTIs (watermarks) pass unchanged. At
equal times pairs come first, then left rows without a match, then right rows without a match.

    left within [0, 5]     left             right            out
                           [1, 2) k=1       [3, 4) k=1       [3, 4) k=1 with its match
                           [2, 3) k=2
                           CTI(7)           CTI(7)           CTI(7)
                           CTI(8)           CTI(8)           [7, 8) k=2 with nulls, CTI(8)

Theory: ``lo <= b.vs - a.vs <= hi`` is equivalent to the overlap of two lifetimes:
``[a.vs + early, a.vs + hi]`` with ``early = max(lo, 0)``, and ``[b.vs + late, b.vs - lo]`` with
``late = max(-hi, 0)``. At most one of ``early`` and ``late`` is positive. So a temporal inner join
over these lifetimes finds the pairs; rows whose starts move are buffered before it.

Invariants: (1) rows of the moved side precede rows of the other side at equal times; (2) rows that
may be emitted without a match are numbered by order of start, and a pair marks the numbers of its
rows; (3) a step takes time in its new rows and their pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, empty_events, event_schema, int64_column
from rstream.items.dictionaries import join_batches
from rstream.types import INF_TIME, MIN_TIME
from rvertex.errors import OperatorTypeError
from rvertex.events.lifetime import after, frontier_after, lasting, moved, with_times
from rvertex.events.ordering import in_time_order
from rvertex.events.reorder_buffer import SortedRuns, empty_batch
from rvertex.events.run import NO_CTIS, Run
from rvertex.operators.composite_state import joined_states, part_state
from rvertex.operators.joins.inner import Side, TemporalJoin
from rvertex.operators.lifetimes.pending import Pending
from rvertex.state.memory import UNLIMITED, give_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.operators.horizon import Durations
    from rvertex.operators.protocol import Evaluator, Operator, OperatorState
    from rvertex.state.memory import StateMemory

How = Literal["inner", "left", "right", "full", "semi", "anti"]
Columns = tuple[tuple[Side, str, str], ...]
_SIDES: tuple[Side, Side] = ("left", "right")
_PAIRS, _EARLY = "pairs", "early"
#: Stored as the end of a buffered row that has a match.
_MATCHED = MIN_TIME


@dataclass(frozen=True, slots=True)
class IntervalJoin:
    """Port 0 is left, port 1 is right. Keys are compared pairwise and have equal types.

    ``output``: (side, its column, output name). ``reads``: the same for the columns of ``where``;
    equal names in both mean the same column. ``lo_us``, ``hi_us``: the bounds of ``b.vs - a.vs``.
    """

    holds_ctis: ClassVar[bool] = False

    left_on: tuple[str, ...]
    right_on: tuple[str, ...]
    output: Columns
    lo_us: int
    hi_us: int
    how: How = "inner"
    where: Evaluator | None = None
    reads: Columns = ()

    def __post_init__(self) -> None:
        assert len(self.left_on) == len(self.right_on) > 0, (self.left_on, self.right_on)
        assert -INF_TIME <= self.lo_us <= self.hi_us <= INF_TIME, (self.lo_us, self.hi_us)
        only_left = self.how in ("semi", "anti")
        assert not only_left or all(side == "left" for side, _, _ in self.output), self

    @property
    def single(self) -> tuple[Side, ...]:
        """The sides whose rows are tracked: they are emitted without a match, or only once."""
        if self.how == "full":
            return _SIDES
        return {"inner": (), "right": ("right",)}.get(self.how, ("left",))  # type: ignore[return-value]

    def wait_us(self, side: Side) -> int:
        """Return the longest time from a row's start to the start of its last match, us, or 0."""
        return max(self.hi_us if side == "left" else -self.lo_us, 0)

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return the columns of ``output``.

        Raises:
            OperatorTypeError: the condition is not boolean.
        """
        ordered = inputs if self.hi_us >= 0 else inputs[::-1]
        pairs = self.pairs({}).output_schema(ordered)
        if self.where is not None:
            kind = self.where.evaluate(empty_events(pairs)).type
            if not pa.types.is_boolean(kind):
                raise OperatorTypeError("join", f"needs a boolean condition, got {kind}")
        return pa.schema([pairs.field(name) for _, _, name in self.output])

    def pairs(self, numbers: dict[Side, str]) -> TemporalJoin:
        """Return the inner join with all columns that a pair needs and its rows' ``numbers``.

        If the right side's starts move, the sides are swapped.
        """
        named = {name: (side, column) for side, column, name in (*self.output, *self.reads)}
        columns: list[tuple[Side, str, str]] = [(*named[name], name) for name in named]
        columns += [(side, name, name) for side, name in numbers.items()]
        if self.hi_us >= 0:
            return TemporalJoin(self.left_on, self.right_on, tuple(columns))
        turned = {"left": "right", "right": "left"}
        flipped = tuple((turned[side], column, name) for side, column, name in columns)
        return TemporalJoin(self.right_on, self.left_on, flipped)  # type: ignore[arg-type]

    def horizon_us(self, durations: Durations) -> int | None:
        """Return the greatest age of rows that matter, us.

        It is the sum of both sides' waits if a side is tracked (``single``), otherwise their
        maximum. A tracked row is buffered for the wait of its side. Its match may have started
        earlier than the row, by up to the wait of the other side.
        """
        del durations
        ways = (self.wait_us("left"), self.wait_us("right"))
        return sum(ways) if self.single else max(ways)

    def output_duration(self, durations: Durations) -> int | None:
        """Return 1 us: every output row is a point."""
        del durations
        return 1

    def open(self, inputs: Sequence[pa.Schema]) -> IntervalJoinOperator:
        """Return a new operator with empty state."""
        return IntervalJoinOperator(self, inputs)


class IntervalJoinOperator:
    """The running operator of :class:`IntervalJoin`."""

    def __init__(self, spec: IntervalJoin, inputs: Sequence[pa.Schema]) -> None:
        self._spec = spec
        self._schema = event_schema(spec.output_schema(inputs))
        names = {name for schema in inputs for name in schema.names}
        names |= {name for _, _, name in (*spec.output, *spec.reads)}
        #: By side: the name of the column of pairs that has the row's number.
        self.numbers: dict[Side, str] = {}
        schemas = list(inputs)
        for side in spec.single:
            name = f"_number_{side}"
            while name in names:  # ends: ``names`` is finite
                name += "_"
            self.numbers[side] = name
            at = _SIDES.index(side)
            schemas[at] = schemas[at].append(pa.field(name, pa.int64()))
        self._numbered = [event_schema(schema) for schema in schemas]
        #: The port whose starts are moved, if any are.
        self._first = 1 if spec.hi_us < 0 else 0
        self._kept = {side: self._columns_of(side, inputs) for side in spec.single}
        ordered = schemas if self._first == 0 else schemas[::-1]
        self._pairs: Operator = spec.pairs(self.numbers).open(ordered)
        self._memory = UNLIMITED
        self._reset()

    def use_memory(self, memory: StateMemory) -> None:
        """Implement :class:`rvertex.state.memory.SpillsState`."""
        self._memory = memory
        give_memory(self._pairs, memory)
        self._reset()

    def _columns_of(self, side: Side, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return the columns of an output row without a match."""
        names = dict.fromkeys(column for of, column, _ in self._spec.output if of == side)
        payload = inputs[_SIDES.index(side)]
        kept = names if self._spec.how != "semi" else {}
        return event_schema(pa.schema([payload.field(name) for name in kept]))

    def _reset(self) -> None:
        self._frontier: int = MIN_TIME
        #: Buffered rows of the side whose starts move, with the moved starts.
        self._early = SortedRuns(self._numbered[self._first])
        self._waiting = {side: Pending(schema, self._memory) for side, schema in self._kept.items()}

    def process(self, ports: Sequence[Run]) -> Run:
        """Find the pairs; emit them, and the rows that can have no match any more."""
        ctis = ports[0].ctis
        self._frontier = frontier_after(self._frontier, ports)
        lives = [self._living(at, run.events) for at, run in enumerate(ports)]
        if self._spec.lo_us > 0 or self._spec.hi_us < 0:
            self._early.push(lives[self._first])
            until = self._frontier if self._frontier == INF_TIME else self._frontier + 1
            lives[self._first] = self._early.take_below(until)
        if self._first:
            lives.reverse()
        pairs = self._pairs.process([Run(events, ctis) for events in lives]).events
        if self._spec.where is not None and pairs.num_rows:
            pairs = pairs.filter(self._spec.where.evaluate(pairs))
        parts = [self._emitted(pairs)]
        if self._spec.how != "semi":
            parts += [self._alone(side) for side in self._waiting]
        else:
            self._released("left")
        return Run(in_time_order(join_batches(parts))[0], ctis)

    def snapshot(self) -> OperatorState:
        """Return the buffered rows, by reference."""
        header = {
            "frontier": self._frontier,
            "first": {side: waiting.first for side, waiting in self._waiting.items()},
        }
        tables = {_EARLY: self._early.table()}
        for side, waiting in self._waiting.items():
            tables[side] = waiting.table()
        return joined_states({_PAIRS: self._pairs.snapshot()}, header, tables)

    def load(self, state: OperatorState) -> None:
        """Restore ``state``."""
        self._reset()
        self._frontier = state.header["frontier"]
        self._pairs.load(part_state(state, _PAIRS))
        for batch in state.tables[_EARLY].to_batches():
            self._early.push(batch)
        for side, waiting in self._waiting.items():
            waiting.load(state.tables[side])
            waiting.first = state.header["first"][side]

    def _living(self, at: int, events: pa.RecordBatch) -> pa.RecordBatch:
        """Return a port's rows with the lifetimes in which they can match.

        Rows of a tracked side are numbered.
        """
        spec, side = self._spec, _SIDES[at]
        starts = int64_column(events, VS)
        columns = list(events.columns)[2:]
        if side in self._waiting:
            first = self._wait(side, events, starts)
            columns.append(pa.array(np.arange(first, first + len(starts))))
        reach = (spec.lo_us, spec.hi_us) if side == "left" else (-spec.hi_us, -spec.lo_us)
        begins = moved(starts, max(reach[0], 0))
        ends = after(lasting(starts, max(reach[1], 0)))
        times = [pa.array(begins), pa.array(ends)]
        made = pa.RecordBatch.from_arrays([*times, *columns], schema=self._numbered[at])
        if reach[0] > 0 and bool((begins == INF_TIME).any()):
            return made.filter(pa.array(begins < INF_TIME))
        return made

    def _wait(self, side: Side, events: pa.RecordBatch, starts: np.ndarray) -> int:
        """Buffer rows until no match can follow; return the number of the first row."""
        kept = events.select(self._kept[side].names)
        last = _last_instant(starts, self._spec.wait_us(side))
        return self._waiting[side].push(kept, after(last))

    def _emitted(self, pairs: pa.RecordBatch) -> pa.RecordBatch:
        """Mark the rows of pairs as matched; return the output rows of the pairs."""
        is_first = None
        for side, name in self.numbers.items():
            numbers = int64_column(pairs, name)
            waiting = self._waiting[side]
            if self._spec.how == "semi":
                at = np.sort(np.unique(numbers, return_index=True)[1])
                is_first = at[waiting.ends(numbers[at]) != _MATCHED]
            waiting.complete(numbers, np.full(len(numbers), _MATCHED))
        if self._spec.how == "anti":
            return empty_batch(self._schema)
        if is_first is not None and len(is_first) < pairs.num_rows:
            pairs = pairs.take(pa.array(is_first))
        points = with_times(pairs, ve=after(int64_column(pairs, VS)))
        return points.select(self._schema.names)

    def _released(self, side: Side) -> pa.RecordBatch:
        """Return the buffered rows for which no match can follow."""
        return self._waiting[side].release(self._frontier, NO_CTIS).events

    def _alone(self, side: Side) -> pa.RecordBatch:
        """Return the released rows without a match, with nulls in the columns of the other side."""
        rows = self._released(side)
        rows = rows.filter(pa.array(int64_column(rows, VE) != _MATCHED))
        last = _last_instant(int64_column(rows, VS), self._spec.wait_us(side))
        columns = [pa.array(last), pa.array(after(last))]
        for (of, column, _), field in zip(self._spec.output, list(self._schema)[2:], strict=True):
            is_there = of == side
            columns.append(rows.column(column) if is_there else pa.nulls(len(last), field.type))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _last_instant(starts: np.ndarray, wait_us: int) -> np.ndarray:
    """Return the last instant at which a match of each row may start."""
    last: np.ndarray = np.minimum(moved(starts, wait_us), INF_TIME - 1)
    return last

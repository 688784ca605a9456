"""AS-OF JOIN: each left event with the right event of its key whose start is nearest to its start.

The join compares starts; the ends of events are ignored, and left lifetimes are unchanged.
``backward`` takes the last right event at or before the left start, ``forward`` the first at or
after it, ``nearest`` the nearest; on ties the latest. No match may be farther than the tolerance.
Null keys match nothing. Without a match the right columns are null, or the event is dropped (unless
``is_outer``).

``forward`` and ``nearest`` need later right events. So an event is buffered until time has reached
its start plus the tolerance, and ``CTI(t)`` (a watermark) becomes ``CTI(t - tolerance)``.
``backward`` emits at once.

    nearest within 3    left              right           out
                        [1, 2) k=1        [2, 3) k=1 a
                        [6, 9) k=1        [8, 9) k=1 b
                        CTI(5)            CTI(5)          [1, 2) k=1 a, CTI(2)
                        CTI(9)            CTI(9)          CTI(6)
                        CTI(10)           CTI(10)         [6, 9) k=1 b, CTI(7)

Invariants: (1) a buffered left event has the store numbers of its last match at or before it, and
of its first match after it once that has arrived; (2) the buffered events of a key that lack a
later match are in one chain, which the next match takes as a whole. So a step takes amortised time
in its new and its emitted events; (3) matches that no event can use any more are dropped when
they are more than half of those in memory. Over the memory budget, matches are on scratch
(:mod:`rvertex.operators.joins.right_rows`); ``backward`` then has codes only for keys in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, event_schema, int64_column
from rstream.types import INF_TIME, MIN_TIME
from rvertex.events.group_scan import heads_of
from rvertex.events.reorder_buffer import empty_batch
from rvertex.events.run import Run
from rvertex.events.settled_rows import SettledRows
from rvertex.events.timeline import Timeline, sorting
from rvertex.keys.key_chains import KeyChains
from rvertex.keys.key_index import KeyIndex, null_keys
from rvertex.operators.horizon import SameLifetimes, sum_us
from rvertex.operators.joins.right_rows import RightRows
from rvertex.operators.joins.waiting_rows import WaitingRows
from rvertex.operators.protocol import OperatorState
from rvertex.state.memory import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.operators.horizon import Durations
    from rvertex.operators.joins.inner import Side
    from rvertex.state.memory import StateMemory

Strategy = Literal["backward", "forward", "nearest"]
_NONE = -1
_SLACK = 1 << 14
_CODES_SLACK = 1 << 17


@dataclass(frozen=True, slots=True)
class AsOfJoin(SameLifetimes):
    """Port 0 is left, port 1 is right. Keys are compared pairwise and have equal types.

    ``output``: (side, its column, output name). ``tolerance_us``: the greatest distance between the
    starts; None: any distance, for ``backward`` only. ``is_outer``: keep left events without a
    match.
    """

    holds_ctis: ClassVar[bool] = False

    left_on: tuple[str, ...]
    right_on: tuple[str, ...]
    output: tuple[tuple[Side, str, str], ...]
    strategy: Strategy
    tolerance_us: int | None
    is_outer: bool

    def __post_init__(self) -> None:
        assert len(self.left_on) == len(self.right_on) > 0, (self.left_on, self.right_on)
        assert self.strategy == "backward" or self.tolerance_us is not None, self
        assert self.tolerance_us is None or self.tolerance_us >= 0, self

    @property
    def wait_us(self) -> int:
        """How long an event is buffered after its start, us: the tolerance, 0 if ``backward``."""
        return 0 if self.strategy == "backward" else self.tolerance_us or 0

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return the columns of ``output``."""
        of_side = {"left": inputs[0], "right": inputs[1]}
        return pa.schema(
            [(name, of_side[side].field(column).type) for side, column, name in self.output]
        )

    def horizon_us(self, durations: Durations) -> int | None:
        """Return the wait for later matches plus the tolerance for earlier ones, us.

        A buffered left event started at most ``wait_us`` before the last CTI. Its match may start
        up to the tolerance before that (not for ``forward``). None: the tolerance has no bound.
        """
        back = 0 if self.strategy == "forward" else self.tolerance_us
        return sum_us(self.wait_us, back)

    def open(self, inputs: Sequence[pa.Schema]) -> AsOfJoinOperator:
        """Return a new operator with empty state."""
        return AsOfJoinOperator(self, inputs)

    def stored(self, side: Side, payload: pa.Schema) -> pa.Schema:
        """Return the columns of a side that are stored: its keys and its output columns."""
        keys = self.left_on if side == "left" else self.right_on
        wanted = [*keys, *(column for s, column, _ in self.output if s == side)]
        return pa.schema([payload.field(name) for name in dict.fromkeys(wanted)])


class AsOfJoinOperator:
    """The running operator of :class:`AsOfJoin`."""

    def __init__(self, spec: AsOfJoin, inputs: Sequence[pa.Schema]) -> None:
        self._spec = spec
        self._output = event_schema(spec.output_schema(inputs))
        left, right = inputs
        self._left = event_schema(spec.stored("left", left))
        self._right = event_schema(spec.stored("right", right))
        self._key_types = [left.field(name).type for name in spec.left_on]
        #: Input CTIs below this time would become CTIs before ``MIN_TIME``, so they are dropped.
        self._low = MIN_TIME + spec.wait_us
        self._memory = UNLIMITED
        self._reset()

    def use_memory(self, memory: StateMemory) -> None:
        """Implement :class:`rvertex.state.memory.SpillsState`."""
        self._memory = memory
        self._reset()

    def _reset(self) -> None:
        self._keys = KeyIndex(self._key_types)
        self._settled = SettledRows([self._left, self._right])
        self._waiting = WaitingRows(self._left, self._memory)
        spec = self._spec
        moves = spec.strategy == "backward"
        self._rights = RightRows(
            self._right, spec.right_on, spec.tolerance_us, self._memory, moves=moves
        )
        self._rights_max = _SLACK
        self._chains = KeyChains()

    def process(self, ports: Sequence[Run]) -> Run:
        """Match new events, and emit events that have waited long enough."""
        runs = [
            Run(run.events.select(schema.names), run.ctis)
            for run, schema in zip(ports, (self._left, self._right), strict=True)
        ]
        left, right = self._settled.take(runs)
        if left.num_rows or right.num_rows:
            self._match(left, right)
        events = self._released()
        waste = max(len(self._keys), self._chains.size)
        if waste > 2 * (len(self._waiting) + len(self._rights)) + _CODES_SLACK:
            self.load(self.snapshot())
        elif len(self._rights) > self._rights_max:
            self._forget()
        if self._rights.has_log:
            self._rights.expire(self._settled.frontier)
        if self._rights.must_spill:
            self._spill()
        ctis = ports[0].ctis
        kept = ctis[ctis >= self._low]
        moved = np.where(kept == INF_TIME, kept, kept - self._spec.wait_us)
        return Run(events, moved)

    def held_tables(self) -> dict[str, pa.Table]:
        """Return the buffered rows, and the matches that they or later events may have."""
        self._forget()

        def codes_of(rows: pa.RecordBatch) -> np.ndarray:
            return self._keys.codes([rows.column(n) for n in self._spec.right_on], insert=False)

        left, right = self._settled.tables()
        tables = {"left": left, "right": right, "waiting": self._waiting.table()}
        return tables | {"matches": self._rights.all_rows(self._settled.frontier, codes_of)}

    def snapshot(self) -> OperatorState:
        """Return the buffered rows, by reference."""
        left, right = self._settled.tables()
        tables = {"left": left, "right": right, "waiting": self._waiting.table()}
        tables |= self._rights.tables()
        return OperatorState({"frontier": self._settled.frontier}, tables)

    def load(self, state: OperatorState) -> None:
        """Restore ``state``."""
        self._reset()
        tables = state.tables
        self._settled.load(state.header["frontier"], [tables["left"], tables["right"]])
        for batch in tables["matches"].to_batches():
            self._remember(batch)
        self._rights.load_log(tables)
        batches, after = self._waiting.load(tables["waiting"])
        codes = [np.empty(0, np.int64), *map(self._left_codes, batches)]
        self._chain(np.concatenate(codes), after, 0)
        self._forget()
        self._rights.measure()

    def _match(self, left: pa.RecordBatch, right: pa.RecordBatch) -> None:
        """Find the matches of new left events, and add the new right events."""
        strategy = self._spec.strategy
        right, right_codes, order = self._marks(right)
        codes = self._left_codes(left)
        before = self._newest(left, codes)
        after = np.full(len(codes), _NONE, np.int64)
        if len(right_codes):
            marks = int64_column(right, VS)
            numbers = self._remember(right, right_codes)
            if strategy != "backward":
                self._follow(right_codes, order, numbers)
            if len(codes):
                vs = int64_column(left, VS)
                timeline = Timeline(right_codes, marks, codes, vs)
                earlier = timeline.mark_at_or_before()
                if strategy != "forward":
                    before = np.where(earlier >= 0, numbers[earlier], before)
                if strategy != "backward":
                    at_once = (earlier >= 0) & (marks[earlier] == vs)
                    later = np.where(at_once, earlier, timeline.mark_after())
                    after = np.where(later >= 0, numbers[later], after)
        first = self._waiting.push(left, before, after)
        self._chain(codes, after, first)

    def _newest(self, left: pa.RecordBatch, codes: np.ndarray) -> np.ndarray:
        """Return the number of the newest earlier match of each left event; -1: none."""
        before = np.full(len(codes), _NONE, np.int64)
        if self._spec.strategy == "forward":
            return before
        known = np.flatnonzero(codes >= 0)
        before[known] = self._rights.newest(codes[known])
        if self._rights.has_log:
            missing = known[before[known] < 0]
            first = np.unique(codes[missing], return_index=True)[1]
            some = pa.array(missing[first])
            keys = [left.column(name).take(some) for name in self._spec.left_on]
            self._rights.recall(keys, self._right_codes)
            before[missing] = self._rights.newest(codes[missing])
        return before

    def _follow(self, codes: np.ndarray, order: np.ndarray, numbers: np.ndarray) -> None:
        """Set the first later match of the buffered events of ``codes``, which ``order`` sorts."""
        earliest = order[heads_of(codes[order])]
        which, waiting = self._chains.take(codes[earliest])
        held = waiting >= self._waiting.first
        self._waiting.follow(waiting[held], numbers[earliest[which[held]]])

    def _chain(self, codes: np.ndarray, after: np.ndarray, first: int) -> None:
        """Add new left events without a later match to the chains of their keys."""
        if self._spec.strategy == "backward":
            return
        waits = np.flatnonzero((after < 0) & (codes >= 0))
        self._chains.add(codes[waits], first + waits)

    def _marks(self, right: pa.RecordBatch) -> tuple[pa.RecordBatch, np.ndarray, np.ndarray]:
        """Return the right events that can match: per key and start the first, or else the last.

        Also return their codes, and the order that sorts these.
        """
        columns = [right.column(name) for name in self._spec.right_on]
        nulls = null_keys(columns)
        if nulls is not None:
            right = right.filter(pa.array(~nulls))
            columns = [right.column(name) for name in self._spec.right_on]
        codes, vs = self._keys.codes(columns), int64_column(right, VS)
        order = sorting(codes)
        changes = (np.diff(codes[order]) != 0) | (np.diff(vs[order]) != 0)
        edge = np.ones(min(1, len(order)), bool)
        is_first = self._spec.strategy == "forward"
        kept = np.concatenate([edge, changes] if is_first else [changes, edge])
        if kept.all():
            return right, codes, order
        is_kept = np.zeros(len(codes), bool)
        is_kept[order[kept]] = True
        rows, places = np.flatnonzero(is_kept), np.cumsum(is_kept) - 1
        return right.take(pa.array(rows)), codes[rows], places[order[kept]]

    def _remember(self, right: pa.RecordBatch, codes: np.ndarray | None = None) -> np.ndarray:
        """Store matches and return their numbers; later events use the last match of their key."""
        return self._rights.add(right, self._right_codes(right) if codes is None else codes)

    def _right_codes(self, right: pa.RecordBatch) -> np.ndarray:
        return self._keys.codes([right.column(name) for name in self._spec.right_on])

    def _left_codes(self, left: pa.RecordBatch) -> np.ndarray:
        columns = [left.column(name) for name in self._spec.left_on]
        return self._keys.matching_codes(columns)

    def _released(self) -> pa.RecordBatch:
        """Return the events that have waited long enough, with their matches."""
        frontier = self._settled.frontier
        until = frontier if frontier == INF_TIME else frontier - self._spec.wait_us
        left, before, after = self._waiting.release(until)
        if left.num_rows == 0:
            return empty_batch(self._output)
        chosen = self._chosen(int64_column(left, VS), before, after)
        if not self._spec.is_outer:
            has_match = chosen >= 0
            left, chosen = left.filter(pa.array(has_match)), chosen[has_match]
        sides = {"left": left, "right": self._rights.take(chosen)}
        columns = [left.column(name) for name in (VS, VE)]
        columns += [sides[side].column(column) for side, column, _ in self._spec.output]
        return pa.RecordBatch.from_arrays(columns, schema=self._output)

    def _chosen(self, vs: np.ndarray, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Return the number of the match of each event; negative: none."""
        strategy = self._spec.strategy
        if strategy == "backward" and self._spec.tolerance_us is None:
            return before
        if strategy == "forward":
            return np.where(self._distance(vs, after, -1)[1], after, _NONE)
        behind, is_behind = self._distance(vs, before, 1)
        if strategy == "backward":
            return np.where(is_behind, before, _NONE)
        ahead, is_ahead = self._distance(vs, after, -1)
        takes_after = is_ahead & (~is_behind | (ahead <= behind))
        return np.where(takes_after, after, np.where(is_behind, before, _NONE))

    def _distance(
        self, vs: np.ndarray, numbers: np.ndarray, sign: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the distances of matches, uint64[n], and which are within the tolerance."""
        is_there = numbers >= 0
        far = np.zeros(len(vs), np.uint64)
        times = self._rights.times(numbers[is_there])
        apart = vs[is_there] - times if sign > 0 else times - vs[is_there]
        # As uint64 the difference is correct even if it exceeds int64
        far[is_there] = apart.view(np.uint64)
        if self._spec.tolerance_us is not None:
            is_there = is_there & (far <= np.uint64(self._spec.tolerance_us))
        return far, is_there

    def _forget(self) -> None:
        """Drop matches that no event can use any more."""
        is_forward = self._spec.strategy == "forward"
        frontier = None if is_forward else self._settled.frontier
        numbers = self._rights.keep(self._waiting.matches(), len(self._keys), frontier)
        self._waiting.renumber(numbers)
        self._rights_max = 2 * len(self._rights) + _SLACK

    def _spill(self) -> None:
        """Move all matches to scratch, and drop the codes of their keys."""
        assert not len(self._waiting), len(self._waiting)
        self._rights.spill(len(self._keys), self._settled.frontier)
        self._rights.measure()
        self._keys, self._chains = KeyIndex(self._key_types), KeyChains()
        self._rights_max = _SLACK

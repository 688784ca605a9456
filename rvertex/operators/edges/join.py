"""Temporal joins of rows whose ends are not known yet: inner, left and anti.

**Rule.** As :mod:`rvertex.operators.joins.inner`, ``left`` and ``anti``: a pair lives while both of
its rows do, and a left row is alone while no right row of its key lives. Here a result is emitted
when it begins, once both sides have passed that instant, and its end edge when it ends. So the join
never waits for the end of a row. If the end is known at the start, the result is an interval: a
pair of two intervals, and any pair that lasts 1 us. So an event joined with a live dimension is an
event. With ``where`` a pair is a match only if that is true of it (null is not true).

    left join     left             right              out
                  start 1 k=1                         after 1: start 1 k=1 x=null
                                   start 5 k=1 x=a    after 5: end 5 (of 1) x=null, start 5 x=a
                  end 9 (of 1)                        after 9: end 9 (of 5) x=a

Invariants: (1) events are handled by instant, once it has passed (see
:mod:`rvertex.operators.edges.instants`); (2) output order is (time, ends first, matches before left
rows that are alone). Matches are ordered as in the inner join, by their later and then their
earlier row; (3) a step takes time in the rows that begin or end in it and their pairs; (4) the
state is the live rows of both sides. Outer joins also store since when there is no match: per key,
or per left row if there is a condition. Null keys match nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import pyarrow as pa

from rstream.items.batch import VS, event_schema, int64_column
from rstream.items.dictionaries import plain_type
from rstream.types import INF_TIME, MIN_TIME
from rvertex.events.lifetime import after
from rvertex.events.run import Run
from rvertex.keys.key_index import KeyIndex, null_keys
from rvertex.operators.edges.emitted import Edges, Lives, in_order
from rvertex.operators.edges.instants import Instants
from rvertex.operators.edges.living_rows import LivingRows
from rvertex.operators.edges.presence import Presence
from rvertex.operators.protocol import OperatorState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rvertex.operators.edges.instants import Settled
    from rvertex.operators.joins.inner import Side
    from rvertex.operators.protocol import Evaluator

How = Literal["inner", "left", "anti"]
Columns = tuple[tuple["Side", str, str], ...]
_SIDES: tuple[Side, Side] = ("left", "right")
_CODES_SLACK = 1 << 17
#: Stands for the number of the right row if a left row has no match.
_ALONE = -1
#: The first sort key of results at one instant: matches whose left row is the later row, matches
#: whose right row is the later row, and left rows without a match.
_OF_LEFT, _OF_RIGHT, _OF_NONE = 0, 1, 2
#: The index of the left row's number in the sort keys of a result; the right row's number is next.
_LEFT = 3


@dataclass(frozen=True, slots=True)
class EdgeJoin:
    """Joins rows that are alive at the same time. Port 0 is the left input, port 1 the right.

    ``output`` has, per output column, the side (port), its name in that input, and its own name.
    ``reads`` has the same for each column that the condition ``where`` reads.
    """

    holds_ctis: ClassVar[bool] = False

    left_on: tuple[str, ...]
    right_on: tuple[str, ...]
    output: Columns
    how: How = "inner"
    where: Evaluator | None = None
    reads: Columns = ()

    def __post_init__(self) -> None:
        assert len(self.left_on) == len(self.right_on) > 0, (self.left_on, self.right_on)

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return the columns of ``output``."""
        of_side = dict(zip(_SIDES, inputs, strict=True))
        return pa.schema(
            [(name, of_side[side].field(column).type) for side, column, name in self.output]
        )

    def open(self, inputs: Sequence[pa.Schema]) -> EdgeJoinOperator:
        """Return a new operator with empty state."""
        return EdgeJoinOperator(self, inputs)

    def stored(self, i: int, payload: pa.Schema) -> pa.Schema:
        """Return the columns of port ``i`` that are stored: its keys and its output columns."""
        columns = (*self.output, *self.reads)
        wanted = [*self.on(i), *(column for s, column, _ in columns if s == _SIDES[i])]
        return pa.schema([payload.field(name) for name in dict.fromkeys(wanted)])

    def on(self, i: int) -> tuple[str, ...]:
        """Return the key columns of port ``i``."""
        return (self.left_on, self.right_on)[i]


@dataclass(frozen=True, slots=True)
class _Step:
    """The rows of a side that begin or end in a step, and how these change the counts."""

    active: np.ndarray
    codes: np.ndarray
    times: np.ndarray
    deltas: np.ndarray


class EdgeJoinOperator:
    """The running operator of :class:`EdgeJoin`."""

    def __init__(self, spec: EdgeJoin, inputs: Sequence[pa.Schema]) -> None:
        self._spec = spec
        self._schema = event_schema(spec.output_schema(inputs))
        self._stored = [spec.stored(i, payload) for i, payload in enumerate(inputs)]
        self._key_types = [plain_type(inputs[0].field(name).type) for name in spec.left_on]
        self._reset()

    def _reset(self) -> None:
        # A point matches no later row, so its end only changes the counts of right rows.
        self._points_end = (False, self._spec.how != "inner")
        self._instants = Instants(self._stored, points_end=self._points_end)
        self._keys = KeyIndex(self._key_types)
        self._sides = [LivingRows(event_schema(stored)) for stored in self._stored]
        #: Counts right rows by key, or with a condition, matches by left row.
        self._matched = Presence()

    def process(self, ports: Sequence[Run]) -> Run:
        """Emit the events at all instants before the frontier."""
        lo = self._instants.frontier
        columns = [event_schema(stored).names for stored in self._stored]
        given = [Run(run.events.select(c), run.ctis) for run, c in zip(ports, columns, strict=True)]
        left, right = (self._step(i, of) for i, of in enumerate(self._instants.take(given)))
        pairs = None
        if self._spec.how != "anti" or self._spec.where is not None:
            pairs = self._pairs(left, right)
        parts: list[tuple[Edges, pa.RecordBatch]] = []
        if pairs is not None and self._spec.how != "anti":
            parts.append(self._events(pairs, lo))
        if self._spec.how != "inner":
            changes = right if self._spec.where is None else self._matches(pairs, lo)
            parts.append(self._alone(left, changes, lo))
        out = in_order(parts, self._schema)
        self._forget()
        return Run(out, ports[0].ctis)

    def snapshot(self) -> OperatorState:
        """Return living and buffered rows, by reference."""
        frontier, tables = self._instants.save()
        for name, side in zip(_SIDES, self._sides, strict=True):
            tables[name] = side.table()
        if self._spec.how != "inner":
            tables["since"] = self._absence()
        return OperatorState({"frontier": frontier}, tables)

    def load(self, state: OperatorState) -> None:
        """Restore ``state``."""
        self._reset()
        self._instants.restore(state.header["frontier"], state.tables)
        for i, name in enumerate(_SIDES):
            self._sides[i].load(state.tables[name], partial(self._codes, i))
        if self._spec.how != "inner":
            self._restore_absence(state.tables)

    def check(self) -> None:
        """Assert the invariants (linear)."""
        for side in self._sides:
            side.check()

    def _step(self, i: int, settled: Settled) -> _Step:
        """Add the births and deaths of port ``i``."""
        side = self._sides[i]
        births, born, _ = self._keyed(i, settled.births)
        deaths, died, kept = self._keyed(i, settled.deaths)
        new = side.add(births, born, points_end=self._points_end[i])
        active = np.union1d(new, side.end(deaths, died, settled.known[kept]))
        times = np.concatenate([int64_column(births, VS), int64_column(deaths, VS)])
        deltas = np.repeat([1, -1], [len(born), len(died)])
        return _Step(active, np.concatenate([born, died]), times, deltas)

    def _keyed(self, i: int, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, np.ndarray, np.ndarray]:
        """Return the rows that can be in a result, their key codes, and positions in ``rows``."""
        kept = np.arange(rows.num_rows)
        if i == 1 or self._spec.how == "inner":
            nulls = null_keys([rows.column(name) for name in self._spec.on(i)])
            if nulls is not None:
                kept = np.flatnonzero(~nulls)
                rows = rows.take(pa.array(kept))
        return rows, self._codes(i, rows), kept

    def _codes(self, i: int, rows: pa.RecordBatch) -> np.ndarray:
        return self._keys.codes([rows.column(name) for name in self._spec.on(i)])

    def _pairs(self, left: _Step, right: _Step) -> Lives:
        """Return the pairs with a row that begins or ends in the step."""
        lefts, rights = self._sides
        probe, of_left = rights.find(lefts.codes(left.active))
        other, of_right = lefts.find(rights.codes(right.active))
        fresh = ~np.isin(of_right, left.active)
        a = np.concatenate([left.active[probe], of_right[fresh]])
        b = np.concatenate([of_left, right.active[other[fresh]]])
        if self._spec.where is not None:
            lives = np.maximum(lefts.starts(a), rights.starts(b)) < np.minimum(
                lefts.ends(a), rights.ends(b)
            )
            a, b = self._true(a[lives], b[lives])
        starts = np.maximum(lefts.starts(a), rights.starts(b))
        ends = np.minimum(lefts.ends(a), rights.ends(b))
        known = np.stack([lefts.known_ends(a), rights.known_ends(b)])
        least = known.min(axis=0)
        is_known = (known.max(axis=0) != INF_TIME) | (least == after(starts))
        # If both begin together, the right row is the later one: port 0 precedes port 1.
        is_right = rights.starts(b) >= lefts.starts(a)
        later, earlier = np.where(is_right, (b, a), (a, b))
        ranks = (np.where(is_right, _OF_RIGHT, _OF_LEFT), later, earlier, a, b)
        return Lives(starts, ends, np.where(is_known, least, INF_TIME), ranks)

    def _true(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the pairs for which the condition is true."""
        assert self._spec.where is not None
        if len(a) == 0:
            return a, b
        columns = self._columns(self._spec.reads, (a, b))
        starts = pa.array(np.zeros(len(a), np.int64))  # a batch without columns has length 0
        names = [VS, *(name for _, _, name in self._spec.reads)]
        pairs = pa.RecordBatch.from_arrays([starts, *columns], names=names)
        is_true = self._spec.where.evaluate(pairs).fill_null(False)
        is_match = is_true.to_numpy(zero_copy_only=False)
        return a[is_match], b[is_match]

    def _matches(self, pairs: Lives | None, lo: int) -> _Step:
        """Return the starts and ends of matches in the step, by left row."""
        assert pairs is not None
        hi = self._instants.frontier
        of = pairs.ranks[_LEFT]
        begins = (lo <= pairs.starts) & (pairs.starts < hi)
        ending = (lo <= pairs.ends) & (pairs.ends < hi)
        times = np.concatenate([pairs.starts[begins], pairs.ends[ending]])
        deltas = np.repeat([1, -1], [int(begins.sum()), int(ending.sum())])
        return _Step(of, np.concatenate([of[begins], of[ending]]), times, deltas)

    def _alone(self, left: _Step, changes: _Step, lo: int) -> tuple[Edges, pa.RecordBatch]:
        """Return left rows without a match, if that state begins or ends in the step."""
        lefts = self._sides[0]
        self._cover()
        spans = self._matched.change(changes.codes, changes.times, changes.deltas)
        codes = self._matched_by(left.active)
        is_present, since = self._matched.now(codes)
        here = ~is_present & ~np.isin(codes, changes.codes)
        span, row = np.arange(len(spans.codes)), spans.codes
        if self._spec.where is None:
            span, row = lefts.find(spans.codes)
        a = np.concatenate([left.active[here], row])
        first = np.concatenate([since[here], spans.starts[span]])
        last = np.concatenate([np.full(int(here.sum()), INF_TIME), spans.ends[span]])
        starts, known = np.maximum(lefts.starts(a), first), lefts.known_ends(a)
        ends = np.minimum(lefts.ends(a), last)
        known = np.where(known == after(starts), known, INF_TIME)
        zero = np.zeros(len(a), np.int64)
        ranks = (zero + _OF_NONE, a, zero, a, zero + _ALONE)
        return self._events(Lives(starts, ends, known, ranks), lo)

    def _matched_by(self, rows: np.ndarray) -> np.ndarray:
        """Return the codes by which the matches of left ``rows`` are counted."""
        return rows if self._spec.where is not None else self._sides[0].codes(rows)

    def _cover(self) -> None:
        """Grow the counts to all codes."""
        by_row = self._spec.where is not None
        self._matched.cover(len(self._sides[0]) if by_row else len(self._keys))

    def _events(self, lives: Lives, lo: int) -> tuple[Edges, pa.RecordBatch]:
        """Return the edges of results from ``lo`` on, and their payloads."""
        edges = lives.events(lo, self._instants.frontier)
        columns = self._columns(self._spec.output, edges.ranks[_LEFT:])
        names = [name for _, _, name in self._spec.output]
        return edges, pa.RecordBatch.from_arrays(columns, names=names)

    def _columns(self, wanted: Columns, numbers: Sequence[np.ndarray]) -> list[pa.Array]:
        """Take the ``wanted`` columns of the left and right rows with these ``numbers``."""
        rows = {
            name: side.take(at) for name, side, at in zip(_SIDES, self._sides, numbers, strict=True)
        }
        return [rows[side].column(column) for side, column, _ in wanted]

    def _forget(self) -> None:
        """Drop rows that have ended, once there are many."""
        lefts, rights = self._sides
        rights.forget()
        kept = lefts.forget()
        if kept is not None and self._spec.where is not None:
            self._cover()
            self._matched.keep(kept)
        if len(self._keys) > 2 * sum(side.alive for side in self._sides) + _CODES_SLACK:
            self.load(self.snapshot())

    def _absence(self) -> pa.Table:
        """Return, per left row, the number of its matches, and since when it is 0 or is not."""
        self._cover()
        count, since = self._matched.of(self._matched_by(np.arange(len(self._sides[0]))))
        return pa.table({"since": since, "count": count})

    def _restore_absence(self, tables: Mapping[str, pa.Table]) -> None:
        """Restore since when each left row has no match. Other keys have no entry."""
        lefts, rights = self._sides
        alive = lefts.is_alive(tables["left"])
        was = tables["since"].column("since").to_numpy()[alive]
        if self._spec.where is not None:
            self._matched.adopt(tables["since"].column("count").to_numpy()[alive], was)
            return
        since = np.full(len(self._keys), MIN_TIME)
        since[lefts.codes(np.arange(len(lefts)))] = was
        of_right = rights.codes(np.arange(len(rights)))
        self._matched.adopt(np.bincount(of_right, minlength=len(since)).astype(np.int64), since)

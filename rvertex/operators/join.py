"""Temporal join: a row for every pair with equal keys whose lifetimes overlap, on the overlap.

Null keys never match; NaN equals NaN and -0.0 equals 0.0. CTIs pass unchanged.

Invariants: (1) the output is ordered by (merged order of the later item of the pair, ordinal of
the earlier one), hence by ``vs``, and does not depend on cutting; (2) with the frontier the greater
of the last merged ``vs`` and the last CTI, a row with ``ve <= frontier`` can match nothing any more
and is not remembered; (3) a step costs time in its new rows and the pairs it emits.
Theory: every new row probes what is remembered of the other side, all of which precedes it. Pairs
of two new rows are found by sorting both sides together by (key, merged order): the rows of the
other side that precede a row are then a range, of which a tree of maxima finds those still alive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from rstream.batch import VE, VS, event_schema, int64_column
from rstream.dictionaries import join_batches
from rstream.types import MIN_TIME
from rvertex.horizon import greatest_us, least_us
from rvertex.int_index import UNKNOWN
from rvertex.join_side import CodeMap, JoinSide, Rows, living_rows
from rvertex.keys import KeyIndex, null_keys
from rvertex.max_tree import MaxTree
from rvertex.operators.protocol import OperatorState
from rvertex.ordering import stable_order
from rvertex.run import Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.horizon import Durations

Side = Literal["left", "right"]
#: The others hold rows back until nothing can match them: see left_join.py and anti_join.py.
How = Literal["inner"]

_SIDES: tuple[Side, Side] = ("left", "right")
_CODES_SLACK = 1 << 17


@dataclass(frozen=True, slots=True)
class TemporalJoin:
    """Port 0 is left, port 1 is right.

    ``output`` lists the columns of the result: (side, its column, output name).
    """

    left_on: tuple[str, ...]
    right_on: tuple[str, ...]
    output: tuple[tuple[Side, str, str], ...]
    how: How = "inner"

    def __post_init__(self) -> None:
        assert len(self.left_on) == len(self.right_on) > 0, (self.left_on, self.right_on)
        names = [name for _, _, name in self.output]
        assert len(set(names)) == len(names), names
        assert self.how == "inner", self.how

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        of_side = dict(zip(_SIDES, inputs, strict=True))
        return pa.schema(
            [(name, of_side[side].field(column).type) for side, column, name in self.output]
        )

    def horizon_us(self, durations: Durations) -> int | None:
        """Rows are kept while they are alive."""
        return greatest_us(durations)

    def output_duration(self, durations: Durations) -> int | None:
        """Rows live while both sides do."""
        return least_us(durations)

    def open(self, inputs: Sequence[pa.Schema]) -> Join:
        return Join(self, inputs)

    def on(self, side: Side) -> tuple[str, ...]:
        return self.left_on if side == "left" else self.right_on

    def stored(self, side: Side, payload: pa.Schema) -> pa.Schema:
        """The columns of a side that are remembered: its keys and what is put out."""
        wanted = [*self.on(side), *(column for s, column, _ in self.output if s == side)]
        return pa.schema([payload.field(name) for name in dict.fromkeys(wanted)])


class Join:
    """A running temporal inner join."""

    def __init__(self, spec: TemporalJoin, inputs: Sequence[pa.Schema]) -> None:
        self._spec = spec
        self._schema = event_schema(spec.output_schema(inputs))
        self._stored = [
            spec.stored(side, payload) for side, payload in zip(_SIDES, inputs, strict=True)
        ]
        left, right = (
            [_value_type(payload.field(name).type) for name in spec.on(side)]
            for side, payload in zip(_SIDES, inputs, strict=True)
        )
        assert left == right, f"keys of different types: {left}, {right}"
        self._key_types = left
        self._in_batch = CodeMap()
        self._reset()

    def _reset(self) -> None:
        self._sides = [JoinSide(stored) for stored in self._stored]
        self._keys = KeyIndex(self._key_types)
        self._frontier: int = MIN_TIME

    def process(self, ports: Sequence[Run]) -> Run:
        left, right = (self._new_rows(i, run) for i, run in enumerate(ports))
        ctis = ports[0].ctis
        if len(left) + len(right) == 0:
            self._advance([left, right], ctis)
            return Run(_no_events(self._schema), ctis)
        self._give_codes(left, right)
        left.rank = np.arange(len(left)) + right.vs.searchsorted(left.vs, side="left")
        right.rank = np.arange(len(right)) + left.vs.searchsorted(right.vs, side="right")
        pairs = [*self._with_remembered(left, 1), *self._with_remembered(right, 0)]
        if len(left) and len(right):
            pairs += _within_batch(left, right, self._in_batch)
        self._advance([left, right], ctis)
        return Run(self._emit(pairs), ctis)

    def snapshot(self) -> OperatorState:
        header = {
            "frontier": self._frontier,
            "next_ordinals": [side.next_ordinal for side in self._sides],
        }
        return OperatorState(header, {name: side.table() for name, side in self._named_sides()})

    def load(self, state: OperatorState) -> None:
        self._reset()
        self._frontier = state.header["frontier"]
        for side, ordinal in zip(self._sides, state.header["next_ordinals"], strict=True):
            side.next_ordinal = ordinal
        self._remember_all([state.tables[name] for name in _SIDES])

    def check(self) -> None:
        """Assert the invariants (linear)."""
        for side in self._sides:
            side.check(self._frontier)
        assert len(self._keys) <= 2 * self._remembered() + _CODES_SLACK

    def _named_sides(self) -> list[tuple[str, JoinSide]]:
        return list(zip(_SIDES, self._sides, strict=True))

    def _remembered(self) -> int:
        return sum(len(side) for side in self._sides)

    # A step.

    def _new_rows(self, i: int, run: Run) -> _NewRows:
        on = self._spec.on(_SIDES[i])
        return _NewRows(run.events, on, self._stored[i], self._sides[i].next_ordinal)

    def _give_codes(self, left: _NewRows, right: _NewRows) -> None:
        """Codes of all new rows; -1 where a key is null, or can match nothing in this step.

        Keys of the smaller side are made known first. A key of the larger side that is unknown then
        has no partner yet; it becomes known only if its row is remembered.
        """
        small, large = (left, right) if len(left) <= len(right) else (right, left)
        for rows, insert in ((small, True), (large, False)):
            rows.codes = self._keys.codes(rows.keys, insert=insert)
            if rows.null_keys is not None:
                rows.codes[rows.null_keys] = UNKNOWN

    def _with_remembered(self, new: _NewRows, other: int) -> list[_Pairs]:
        """Pairs of a new row and an older one of side ``other``."""
        side = self._sides[other]
        if side.runs == 0 or len(new) == 0:
            return []
        known = new.known_rows()
        vs, codes = new.vs, new.codes
        if len(known) < len(new):
            vs, codes = vs.take(known), codes.take(known)
        pairs = []
        for run, probe, place in side.find(codes, vs):
            later = known.take(probe) if len(known) < len(new) else probe
            old = _Source(run.rows.stored, place)
            ends = np.minimum(new.ve.take(later), run.rows.ve.take(place))
            pairs.append(_pairs(new, later, old, run.rows.ordinal.take(place), ends, other))
        return pairs

    def _advance(self, news: list[_NewRows], ctis: np.ndarray) -> None:
        """Move the frontier, remember the new rows that outlive it, forget the old that do not."""
        for new in news:
            if len(new):
                self._frontier = max(self._frontier, int(new.vs[-1]))
        if len(ctis):
            self._frontier = max(self._frontier, int(ctis[-1]))
        for side, new in zip(self._sides, news, strict=True):
            side.next_ordinal += len(new)
            if len(new):
                side.insert(self._surviving(new), self._frontier)
            side.expire(self._frontier)
        if len(self._keys) > 2 * self._remembered() + _CODES_SLACK:
            self._forget_keys()

    def _surviving(self, new: _NewRows) -> Rows:
        alive = new.ve > self._frontier
        if new.null_keys is not None:
            alive &= ~new.null_keys
        at = np.flatnonzero(alive)
        stored = new.stored if len(at) == len(new) else new.stored.take(pa.array(at))
        codes = new.codes[at]
        if codes.min(initial=0) < 0:
            codes = self._keys.codes([stored.column(name) for name in new.on])
        return Rows(codes, new.ve[at], new.first_ordinal + at, stored)

    def _forget_keys(self) -> None:
        """Begin the key index again with the keys that are still remembered."""
        tables = [side.table() for side in self._sides]
        ordinals = [side.next_ordinal for side in self._sides]
        self._keys = KeyIndex(self._key_types)
        self._sides = [JoinSide(stored) for stored in self._stored]
        for side, ordinal in zip(self._sides, ordinals, strict=True):
            side.next_ordinal = ordinal
        self._remember_all(tables)

    def _remember_all(self, tables: list[pa.Table]) -> None:
        for name, side, table in zip(_SIDES, self._sides, tables, strict=True):
            ve, ordinal, stored = living_rows(table, self._frontier)
            if len(ve):
                codes = self._keys.codes([stored.column(c) for c in self._spec.on(name)])
                side.insert(Rows(codes, ve, ordinal, stored), self._frontier)

    # The output.

    def _emit(self, pairs: list[_Pairs]) -> pa.RecordBatch:
        if not pairs:
            return _no_events(self._schema)
        order = _pair_order(pairs)
        times = [
            _joined([p.vs for p in pairs], order),
            _joined([p.ve for p in pairs], order),
        ]
        columns: dict[tuple[str, str], pa.Array] = {}
        for i, side in enumerate(_SIDES):
            names = list(dict.fromkeys(c for s, c, _ in self._spec.output if s == side))
            if names:
                rows = _gather([p.sources[i] for p in pairs], names, order)
                columns |= {(side, name): rows.column(name) for name in names}
        payload = [columns[side, name] for side, name, _ in self._spec.output]
        arrays = [*(pa.array(t) for t in times), *payload]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


class _NewRows:
    """The rows of one port in this step."""

    def __init__(
        self, events: pa.RecordBatch, on: tuple[str, ...], stored: pa.Schema, first_ordinal: int
    ) -> None:
        self.on = on
        self.vs, self.ve = int64_column(events, VS), int64_column(events, VE)
        self.stored = events.select(stored.names)
        self.keys = [events.column(name) for name in on]
        self.null_keys = null_keys(self.keys)
        self.first_ordinal = first_ordinal
        self.codes = np.empty(0, np.int64)
        #: Place in the merged order of this step.
        self.rank = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self.vs)

    def known_rows(self) -> np.ndarray:
        return np.flatnonzero(self.codes >= 0)


@dataclass(frozen=True, slots=True)
class _Source:
    """Rows of a batch, by place."""

    rows: pa.RecordBatch
    at: np.ndarray


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Matches of new rows with one batch of earlier rows."""

    sources: tuple[_Source, _Source]
    rank: np.ndarray
    ordinal: np.ndarray
    vs: np.ndarray
    ve: np.ndarray


def _pairs(
    new: _NewRows,
    later: np.ndarray,
    old: _Source,
    ordinal: np.ndarray,
    ends: np.ndarray,
    other: int,
) -> _Pairs:
    """``later`` rows of ``new`` with ``old`` rows of side ``other``."""
    recent = _Source(new.stored, later)
    sources = (old, recent) if other == 0 else (recent, old)
    return _Pairs(sources, new.rank.take(later), ordinal, new.vs.take(later), ends)


def _within_batch(left: _NewRows, right: _NewRows, scratch: CodeMap) -> list[_Pairs]:
    """Pairs of two new rows."""
    at = _common_rows(left, right, scratch)
    if len(at[0]) == 0 or len(at[1]) == 0:
        return []
    news = (left, right)
    codes = np.concatenate([left.codes[at[0]], right.codes[at[1]]])
    rank = np.concatenate([left.rank[at[0]], right.rank[at[1]]])
    order = np.argsort(rank, kind="stable")
    by_code = stable_order(codes[order])
    order = order if by_code is None else order[by_code]
    codes, is_right = codes[order], order >= len(at[0])
    first = np.ones(len(codes), bool)
    first[1:] = codes[1:] != codes[:-1]
    group = np.maximum.accumulate(np.where(first, np.arange(len(codes)), 0))
    pairs = []
    for other, is_other in ((1, is_right), (0, ~is_right)):
        # Of the other side's rows in this order, [lo, hi) share the key and come before.
        before = np.cumsum(is_other) - is_other
        probes = np.flatnonzero(~is_other)
        lo, hi = before[group[probes]], before[probes]
        new, old = news[1 - other], news[other]
        later = _rows_of(at, order[probes], 1 - other)
        earlier = _rows_of(at, order[np.flatnonzero(is_other)], other)
        probe, place = MaxTree(old.ve[earlier]).above(lo, hi, new.vs[later])
        if len(probe) == 0:
            continue
        later, earlier = later[probe], earlier[place]
        ends = np.minimum(new.ve[later], old.ve[earlier])
        source = _Source(old.stored, earlier)
        pairs.append(_pairs(new, later, source, old.first_ordinal + earlier, ends, other))
    return pairs


def _rows_of(at: tuple[np.ndarray, np.ndarray], places: np.ndarray, side: int) -> np.ndarray:
    """Row numbers of one side for places in the concatenation of both."""
    rows: np.ndarray = at[0][places] if side == 0 else at[1][places - len(at[0])]
    return rows


def _common_rows(
    left: _NewRows, right: _NewRows, scratch: CodeMap
) -> tuple[np.ndarray, np.ndarray]:
    """The rows of each side whose key the other side has too."""
    rows = [left.known_rows(), right.known_rows()]
    for i, new in ((0, left), (1, right)):
        other = (right, left)[i].codes[rows[1 - i]]
        scratch.put(other, np.zeros(len(other), np.int32))
        rows[i] = rows[i][scratch.get(new.codes[rows[i]]) >= 0]
        scratch.clear(other)
    return rows[0], rows[1]


def _pair_order(pairs: list[_Pairs]) -> np.ndarray | None:
    """By (rank of the later row, ordinal of the earlier one); None if that is the order."""
    rank = _joined([p.rank for p in pairs], None)
    ordinal = _joined([p.ordinal for p in pairs], None)
    if bool((rank[1:] > rank[:-1]).all()):
        return None
    low = int(ordinal.min())
    bits = (int(ordinal.max()) - low).bit_length()
    assert int(rank.max()).bit_length() + bits < 64, (rank.max(), bits)
    return stable_order((rank << bits) | (ordinal - low))


def _joined(parts: list[np.ndarray], order: np.ndarray | None) -> np.ndarray:
    whole: np.ndarray = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return whole if order is None else whole.take(order)


def _gather(sources: list[_Source], columns: list[str], order: np.ndarray | None) -> pa.RecordBatch:
    """The columns of the sources one after the other, put into ``order``."""
    rows = sources[0].rows
    if all(source.rows is rows for source in sources):
        at = _joined([source.at for source in sources], order)
        return rows.select(columns).take(pa.array(at))
    parts = [s.rows.select(columns).take(pa.array(s.at)) for s in sources]
    whole = join_batches(parts)
    return whole if order is None else whole.take(pa.array(order))


def _value_type(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def _no_events(schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.nulls(0, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)

"""INNER JOIN: a row per pair with equal keys and overlapping lifetimes, alive on the overlap.

Null keys never match; NaN equals NaN and -0.0 equals 0.0. CTIs (watermarks) pass unchanged.

Invariants: (1) output order is (merged order of the later row of the pair, ordinal of the earlier
row). So it is in ``vs`` order, and does not depend on how the input was cut; (2) the frontier is
the greater of the last merged ``vs`` and the last CTI. A row with ``ve <= frontier`` can match no
later row and is dropped; (3) a step takes time in its new rows and the pairs it emits.

Theory: every new row probes the stored rows of the other side, all of which precede it. For pairs
of two new rows see :mod:`rvertex.operators.joins.new_pairs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import pyarrow as pa

from rstream.items.batch import event_schema
from rstream.items.dictionaries import join_batches
from rstream.types import MIN_TIME
from rvertex.events.ordering import stable_order
from rvertex.events.run import Run
from rvertex.keys.code_map import CodeMap
from rvertex.keys.int_index import UNKNOWN
from rvertex.keys.key_index import KeyIndex
from rvertex.operators.horizon import greatest_us, least_us
from rvertex.operators.joins.new_pairs import NewRows, Pairs, Source, pairs_of, within_batch
from rvertex.operators.joins.side_index import JoinSide, Rows
from rvertex.operators.joins.stored_rows import Probes
from rvertex.operators.protocol import OperatorState
from rvertex.state.memory import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.operators.horizon import Durations
    from rvertex.state.memory import StateMemory

Side = Literal["left", "right"]
#: Left and anti joins are in other modules, because they buffer rows until no match can follow.
How = Literal["inner"]

_SIDES: tuple[Side, Side] = ("left", "right")
_CODES_SLACK = 1 << 17


@dataclass(frozen=True, slots=True)
class TemporalJoin:
    """Port 0 is left, port 1 is right.

    ``output`` lists the columns of the result as triples of side, column, output name.
    """

    holds_ctis: ClassVar[bool] = False

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
        """Return the greatest input lifetime: the state keeps rows until they end."""
        return greatest_us(durations)

    def output_duration(self, durations: Durations) -> int | None:
        """Return the smaller of both sides' greatest lifetimes."""
        return least_us(durations)

    def open(self, inputs: Sequence[pa.Schema]) -> Join:
        return Join(self, inputs)

    def on(self, side: Side) -> tuple[str, ...]:
        return self.left_on if side == "left" else self.right_on

    def stored(self, side: Side, payload: pa.Schema) -> pa.Schema:
        """Return the columns of a side that are stored: its keys and its output columns."""
        wanted = [*self.on(side), *(column for s, column, _ in self.output if s == side)]
        return pa.schema([payload.field(name) for name in dict.fromkeys(wanted)])


class Join:
    """A running temporal inner join."""

    #: See :mod:`rvertex.state.unverified`.
    verified_when_read: ClassVar = frozenset(_SIDES)

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
        self._in_batch = CodeMap(np.int32, -1)
        self._memory = UNLIMITED
        self._reset()

    def use_memory(self, memory: StateMemory) -> None:
        """Implement :class:`rvertex.state.memory.SpillsState`."""
        self._memory = memory
        self._reset()

    def _reset(self) -> None:
        self._sides = [
            JoinSide(stored, self._spec.on(name), self._memory)
            for name, stored in zip(_SIDES, self._stored, strict=True)
        ]
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
            pairs += within_batch(left, right, self._in_batch)
        self._advance([left, right], ctis)
        return Run(self._emit(pairs), ctis)

    def snapshot(self) -> OperatorState:
        header = {
            "frontier": self._frontier,
            "next_ordinals": [side.next_ordinal for side in self._sides],
        }
        tables: dict[str, pa.Table] = {}
        for name, side in self._named_sides():
            tables |= side.tables(name)
        return OperatorState(header, tables)

    def load(self, state: OperatorState) -> None:
        self._reset()
        self._frontier = state.header["frontier"]
        for side, ordinal in zip(self._sides, state.header["next_ordinals"], strict=True):
            side.next_ordinal = ordinal
        for name, side in self._named_sides():
            side.load(name, state.tables, self._frontier, self._keys)

    def check(self) -> None:
        """Assert the invariants (linear)."""
        for side in self._sides:
            side.check(self._frontier)
        assert len(self._keys) <= 2 * self._rows_in_memory() + _CODES_SLACK

    def _named_sides(self) -> list[tuple[str, JoinSide]]:
        return list(zip(_SIDES, self._sides, strict=True))

    def _rows_in_memory(self) -> int:
        return sum(side.rows_in_memory for side in self._sides)

    # ---- a step

    def _new_rows(self, i: int, run: Run) -> NewRows:
        on = self._spec.on(_SIDES[i])
        return NewRows(run.events, on, self._stored[i], self._sides[i].next_ordinal)

    def _give_codes(self, left: NewRows, right: NewRows) -> None:
        """Set the key codes of all new rows; -1 if a key is null or has no partner in memory.

        The keys of the smaller side are added to the index first. An unknown key of the larger side
        has no partner then, except on scratch; it is added only when its row is stored.
        """
        small, large = (left, right) if len(left) <= len(right) else (right, left)
        for rows, insert in ((small, True), (large, False)):
            rows.codes = self._keys.codes(rows.keys, insert=insert)
            if rows.null_keys is not None:
                rows.codes[rows.null_keys] = UNKNOWN

    def _with_remembered(self, new: NewRows, other: int) -> list[Pairs]:
        """Return the pairs of a new row and a stored row of side ``other``."""
        side = self._sides[other]
        if side.runs == 0 or len(new) == 0:
            return []
        pairs = []
        for found in side.find(Probes(new.codes, new.vs, lambda: new.keys, new.null_keys)):
            old = Source(found.stored, found.place)
            ends = np.minimum(new.ve.take(found.probe), found.ve)
            pairs.append(pairs_of(new, found.probe, old, found.ordinal, ends, other))
        return pairs

    def _advance(self, news: list[NewRows], ctis: np.ndarray) -> None:
        """Move the frontier, store the new rows that outlive it, and drop the rows that do not."""
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
        if len(self._keys) > 2 * self._rows_in_memory() + _CODES_SLACK:
            self._keys = KeyIndex(self._key_types)
            for side in self._sides:
                side.renumber(self._keys, self._frontier)

    def _surviving(self, new: NewRows) -> Rows:
        """Return the new rows that are still alive at the frontier."""
        alive = new.ve > self._frontier
        if new.null_keys is not None:
            alive &= ~new.null_keys
        at = np.flatnonzero(alive)
        stored = new.stored if len(at) == len(new) else new.stored.take(pa.array(at))
        codes = new.codes[at]
        if codes.min(initial=0) < 0:
            codes = self._keys.codes([stored.column(name) for name in new.on])
        return Rows(codes, new.ve[at], new.first_ordinal + at, stored)

    # ---- the output

    def _emit(self, pairs: list[Pairs]) -> pa.RecordBatch:
        """Build the output rows of ``pairs``, in output order."""
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
                sources = [p.sources[i] for p in pairs]
                rows = _gather(sources, names, order)
                columns |= {(side, name): rows.column(name) for name in names}
        payload = [columns[side, name] for side, name, _ in self._spec.output]
        arrays = [*(pa.array(t) for t in times), *payload]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _pair_order(pairs: list[Pairs]) -> np.ndarray | None:
    """Return the order by (rank of the later row, ordinal of the earlier row); None: sorted."""
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


def _gather(sources: list[Source], columns: list[str], order: np.ndarray | None) -> pa.RecordBatch:
    """Concatenate ``columns`` of the sources, in ``order``."""
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

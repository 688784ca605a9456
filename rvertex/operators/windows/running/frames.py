"""Window functions over frames: each row gets aggregates of the rows before it in its key.

**Rule.** The rows of a key are sorted by start, ties in row order. Ends are ignored. A frame of
``rows`` has the rows from ``first`` rows before the current row to ``last`` rows before it. A frame
of time has the rows whose starts are from ``first`` us to ``last`` us before the current start.
With ``last`` 0 it includes all rows with the same start (its *peers*), also later ones. ``first``
None means: from the first row of the key. Only then ``peers`` may name columns; rows with one start
are sorted by them, and only rows that are equal in them are peers. Each row is emitted with its
columns, followed by the aggregates. An empty frame yields null; counts are 0.

Example: one key, ``sum(x)``:

    row           rows, first 1    time, first 2
    [1, 2) x=1    1                1
    [3, 9) x=2    3                6     1, 2 and its peer 3
    [3, 4) x=3    5                6
    [6, 7) x=4    7                4

Invariants: (1) order, lifetimes and CTIs (watermarks) are unchanged; (2) a frame of rows is known
at once, a frame of time when no peer can follow. So only rows of the greatest time so far are
buffered; (3) an aggregate is computed from the rows of its frame in row order. With ``first`` None
it is carried from row to row. So no result depends on batch boundaries; (4) a step takes time in
its rows times the rows of a frame; with ``first`` None as in
:mod:`rvertex.operators.windows.running.carried`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from rstream.items.batch import VS, event_schema, int64_column
from rstream.items.dictionaries import join_batches
from rvertex.aggregates.accumulators import Rows
from rvertex.aggregates.spec import AggregateSpec, lanes_of
from rvertex.errors import OperatorTypeError
from rvertex.events.group_scan import group_start, heads_of
from rvertex.events.lifetime import moved
from rvertex.events.reorder_buffer import empty_batch
from rvertex.events.run import Run
from rvertex.events.settled_rows import parted
from rvertex.keys.key_table import KeyTable
from rvertex.keys.sort_keys import numbered_keys
from rvertex.operators.horizon import SameLifetimes
from rvertex.operators.protocol import OperatorState
from rvertex.operators.windows.hopping import aggregated_schema, gathering
from rvertex.operators.windows.running.carried import CarriedLanes, NewValues
from rvertex.operators.windows.running.history import History

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.operators.horizon import Durations
    from rvertex.operators.protocol import Operator

#: Most pairs (row, row of its frame) that are aggregated in one pass.
_PAIRS_MAX = 1 << 20
#: Functions that are 0 on an empty frame; all others are null.
_COUNTS = ("count", "count_distinct")


@dataclass(frozen=True, slots=True)
class FrameAggregate(SameLifetimes):
    """Aggregates per row over a frame.

    ``rows``: ``first`` and ``last`` are numbers of rows, else us.

    ``first`` and ``last`` are the distances from the current row back to the frame's first and last
    row. ``first`` None: from the first row of the key. ``peers``: see the module.
    """

    holds_ctis: ClassVar[bool] = False

    keys: tuple[str, ...]
    rows: bool
    first: int | None
    last: int
    aggregates: tuple[AggregateSpec, ...]
    peers: tuple[str, ...] = ()

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return the input's columns, then aggregates.

        Raises:
            OperatorTypeError: an output name exists, or a holistic function has a frame with
                ``first`` None.
        """
        (payload,) = inputs
        assert not self.peers or (self.first is None and not self.rows), self
        made = aggregated_schema(self.keys, self.aggregates, inputs)
        fields = [made.field(a.output) for a in self.aggregates]
        for field in fields:
            if field.name in payload.names:
                raise OperatorTypeError("over", f"the input has a column {field.name!r} already")
        if self.first is None:
            for aggregate in self.aggregates:
                if self.last or not aggregate.can_run:
                    reason = f"{aggregate.function} needs a frame that has a beginning"
                    raise OperatorTypeError("over", reason)
        return pa.schema([*payload, *fields])

    def horizon_us(self, durations: Durations) -> int | None:
        """Return ``first`` for a frame of time; None for a frame of rows."""
        return None if self.rows else self.first

    def open(self, inputs: Sequence[pa.Schema]) -> Operator:
        """Return a new operator with empty state."""
        (payload,) = inputs
        self.output_schema(inputs)
        return _OfAll(self, payload) if self.first is None else _OfFrames(self, payload)


class _Framed:
    """Base of all kinds of frames: keys, and rows that are buffered until their peers arrived."""

    def __init__(self, spec: FrameAggregate, payload: pa.Schema) -> None:
        self._spec = spec
        self._in = event_schema(payload)
        self._out = event_schema(spec.output_schema([payload]))
        self._waiting = empty_batch(self._in)
        self._keys: KeyTable

    def process(self, ports: Sequence[Run]) -> Run:
        """Emit each row whose frame is known, with its aggregates."""
        (run,) = ports
        rows = run.events
        if not self._spec.rows:
            rows, self._waiting, _ = parted(self._waiting, run, self._in.names)
        if rows.num_rows == 0:
            return Run(empty_batch(self._out), run.ctis)
        columns = [rows.column(name) for name in self._spec.keys]
        rows_of_frames = self._found(rows, self._keys.codes(columns, rows.num_rows))
        return Run(
            pa.RecordBatch.from_arrays([*rows.columns, *rows_of_frames], schema=self._out), run.ctis
        )

    def _found(self, rows: pa.RecordBatch, codes: np.ndarray) -> list[pa.Array]:
        """Compute the aggregates of each row."""
        raise NotImplementedError

    def _saved(self) -> dict[str, pa.Table]:
        return {**self._keys.save(), "waiting": pa.Table.from_batches([self._waiting])}

    def _restore(self, state: OperatorState) -> None:
        self._keys.restore(state.tables)
        batches = state.tables["waiting"].to_batches()
        self._waiting = join_batches(batches) if batches else empty_batch(self._in)


class _OfAll(_Framed):
    """Frames with ``first`` None: from the first row of the key."""

    def __init__(self, spec: FrameAggregate, payload: pa.Schema) -> None:
        super().__init__(spec, payload)
        self._new_values = NewValues(spec.aggregates, payload)
        aggregates, payload = self._new_values.aggregates, self._new_values.payload
        self._grouping, *_, self._finish = gathering(spec.keys, aggregates, payload)
        self._keys = KeyTable(self._grouping.types)
        self._carried = CarriedLanes(lanes_of(aggregates, payload))

    def snapshot(self) -> OperatorState:
        """Return keys, carried lanes and buffered rows, by reference."""
        return OperatorState(
            {}, {**self._saved(), **self._carried.save(), **self._new_values.save()}
        )

    def load(self, state: OperatorState) -> None:
        """Restore ``state``."""
        self._restore(state)
        self._carried.restore(state.tables)
        self._new_values.restore(state.tables)

    def _found(self, rows: pa.RecordBatch, codes: np.ndarray) -> list[pa.Array]:
        times = int64_column(rows, VS)
        # A step is one row, or all peers of a key.
        step_of = first = np.arange(len(codes))
        if not self._spec.rows:
            order = np.lexsort((codes, times))
            peers = [rows.column(name) for name in self._spec.peers]
            peer_codes = numbered_keys([p.type for p in peers], peers, rows.num_rows).codes[order]
            heads = heads_of(times[order], codes[order], peer_codes)
            step_of = np.empty(len(codes), np.int64)
            step_of[order] = np.cumsum(heads) - 1
            first = order[heads]
        given = Rows(step_of, len(first), self._new_values.marked(rows, codes))
        partial: list[pa.Array] = []
        for accumulator in self._grouping.accumulators():
            accumulator.update(given)
            partial += accumulator.columns()
        lanes = self._carried.merged(codes[first], times[first], partial, len(self._keys))
        made = self._finish(lanes)
        return made if self._spec.rows else [column.take(pa.array(step_of)) for column in made]


class _OfFrames(_Framed):
    """Frames with a bounded ``first``."""

    def __init__(self, spec: FrameAggregate, payload: pa.Schema) -> None:
        super().__init__(spec, payload)
        assert spec.first is not None, spec
        made = gathering(spec.keys, spec.aggregates, payload)
        self._grouping, self._needed, _, self._finish = made
        self._keys = KeyTable(self._grouping.types)
        self._reach = spec.first
        self._history = History(self._needed, rows=spec.rows, reach=spec.first)

    def snapshot(self) -> OperatorState:
        """Return keys, rows that later frames may have, and buffered rows, by reference."""
        return OperatorState({}, {**self._saved(), **self._history.save()})

    def load(self, state: OperatorState) -> None:
        """Restore ``state``."""
        self._restore(state)
        self._history.restore(state.tables)

    def _found(self, rows: pa.RecordBatch, codes: np.ndarray) -> list[pa.Array]:
        new = rows.select(self._needed.names)
        old, old_codes = self._history.before(codes, int(int64_column(rows, VS)[0]))
        work = join_batches([old, new]) if old.num_rows else new
        key = np.concatenate([old_codes, codes])
        by_key = np.argsort(key, kind="stable")
        place = np.empty(len(key), np.int64)
        place[by_key] = np.arange(len(key))
        times = int64_column(work, VS)[by_key]
        low, high = self._bounds(key[by_key], times, place[old.num_rows :])
        made = self._aggregated(work, by_key, low, np.maximum(high, low))
        self._history.add(new, codes, len(self._keys))
        kept = self._history.forget(self._keys.is_crowded(len(self._history)))
        if kept is not None:
            self._keys.keep(kept)
        return made

    def _bounds(
        self, key: np.ndarray, times: np.ndarray, at: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the bounds of the frames of rows ``at``, in rows sorted by key and time."""
        first, last = self._reach, self._spec.last
        heads = heads_of(key)
        if self._spec.rows:
            return np.maximum(group_start(heads)[at], at - first), at - last + 1
        start, end = moved(times[at], -first), moved(times[at], -last)
        distinct, rank = np.unique(np.concatenate([times, start, end]), return_inverse=True)
        number = np.cumsum(heads) * np.int64(len(distinct))
        cells = number + rank[: len(times)]
        starts, ends = np.split(rank[len(times) :], 2)
        low = np.searchsorted(cells, number[at] + starts)
        return low, np.searchsorted(cells, number[at] + ends, side="right")

    def _aggregated(
        self, work: pa.RecordBatch, by_key: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> list[pa.Array]:
        """Aggregate the rows ``by_key[low:high]`` of each frame."""
        size = high - low
        upto = np.cumsum(size)
        pieces: list[list[pa.Array]] = []
        lo = 0
        while lo < len(size):  # ends: lo grows
            before = int(upto[lo] - size[lo])
            hi = max(lo + 1, int(np.searchsorted(upto, before + _PAIRS_MAX, side="right")))
            pieces.append(self._piece(work, by_key, low[lo:hi], size[lo:hi]))
            lo = hi
        if len(pieces) == 1:
            return pieces[0]
        return [pa.concat_arrays(parts) for parts in zip(*pieces, strict=True)]

    def _piece(
        self, work: pa.RecordBatch, by_key: np.ndarray, low: np.ndarray, size: np.ndarray
    ) -> list[pa.Array]:
        """Aggregate the frames of some rows in one pass."""
        filled = np.flatnonzero(size)
        groups, count = len(filled), size[filled]
        code = np.repeat(np.arange(groups), count)
        offset = np.arange(len(code)) - np.repeat(np.cumsum(count) - count, count)
        at = by_key[np.repeat(low[filled], count) + offset]
        rows = Rows(code, groups, work, at)
        lanes: list[pa.Array] = []
        for accumulator in self._grouping.accumulators():
            accumulator.update(rows)
            lanes += accumulator.columns()
        made = self._finish(lanes)
        if groups == len(size):
            return made
        index = np.cumsum(size > 0) - 1
        spread = pa.array(index, mask=size == 0)
        return [
            column.take(spread).fill_null(0) if a.function in _COUNTS else column.take(spread)
            for column, a in zip(made, self._spec.aggregates, strict=True)
        ]

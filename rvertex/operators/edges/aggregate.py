"""Aggregates of live rows: one result per key, with the net change of every instant.

**Rule.** At each instant a key with live rows has one result, that of
:mod:`rvertex.operators.windows.snapshots.window`: the aggregates of its live rows, in the order of
their starts. A result is emitted when the watermark has passed its start, and its end edge when it
changes. An equal new value does not change the result, unless ``renews`` is set.

    count, sum(x)    start 1 x=3     after 1: start 1 (1, 3)
                     start 4 x=1     after 4: end 4 (of 1) (1, 3), start 4 (2, 4)
                     end 6 (of 1)    after 6: end 6 (of 4) (2, 4), start 6 (1, 1)

There are three algorithms. Rows that never end are merged into the key's accumulators
(:mod:`rvertex.operators.windows.running.carried`). Counts, and sums and means of integers, are
exact, so a row that ends is subtracted. For all other functions each change of a key aggregates all
live rows of that key again, so a step takes time in these rows.

Invariant: the plan determines the algorithm, which changes no result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
import pyarrow as pa

from rstream.items.batch import VS, event_schema, int64_column
from rstream.items.dictionaries import plain_array, plain_schema, plain_type
from rvertex.aggregates.accumulators import Rows
from rvertex.aggregates.spec import lanes_of
from rvertex.events.group_scan import heads_of
from rvertex.events.reorder_buffer import empty_batch
from rvertex.events.run import Run
from rvertex.keys.key_table import KeyTable
from rvertex.operators.edges.instants import Instants
from rvertex.operators.edges.living_rows import LivingRows
from rvertex.operators.edges.results import Results
from rvertex.operators.edges.signed_sums import SignedSums, can_be_signed
from rvertex.operators.protocol import OperatorState
from rvertex.operators.windows.hopping import Aggregates, gathering
from rvertex.operators.windows.running.carried import CarriedLanes, NewValues

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rvertex.aggregates.spec import AggregateSpec


@dataclass(frozen=True, slots=True)
class EdgeAggregate(Aggregates):
    """Aggregates per key over live rows. ``endless``: no row of the input ever ends.

    ``renews``: each change of a key ends its result and begins a new one, even if both are equal,
    as :class:`rvertex.operators.windows.snapshots.window.SnapshotAggregate` does.
    """

    holds_ctis: ClassVar[bool] = False

    keys: tuple[str, ...]
    aggregates: tuple[AggregateSpec, ...]
    endless: bool = False
    renews: bool = False
    #: Whether results at one instant have the order of the rows that caused them, as the results of
    #: a stitch. If not, they are sorted by key.
    by_arrival: bool = False

    def open(self, inputs: Sequence[pa.Schema]) -> EdgeAggregateOperator:
        """Return a new operator with empty state."""
        (payload,) = inputs
        return EdgeAggregateOperator(self, payload)


@dataclass(frozen=True, slots=True)
class Steps:
    """The starts and ends of rows, grouped to steps; a step is a key and an instant.

    ``codes``, ``times`` int64[m]: key code and instant of each step, sorted. ``born``, ``died``:
    the step of each row that starts or ends.
    """

    births: pa.RecordBatch
    deaths: pa.RecordBatch
    known: np.ndarray
    codes: np.ndarray
    times: np.ndarray
    born: np.ndarray
    died: np.ndarray


class _Way(Protocol):
    """An algorithm that computes results from steps."""

    def results(self, steps: Steps, keys: int) -> tuple[list[pa.Array], np.ndarray]:
        """Return the aggregates' columns after each step, and whether the key has live rows."""

    def keep(self, codes: np.ndarray) -> None:
        """Renumber key ``codes[i]`` to i and drop all other keys."""

    def save(self) -> dict[str, pa.Table]: ...
    def restore(self, tables: Mapping[str, pa.Table]) -> None: ...


class EdgeAggregateOperator:
    """The running operator of :class:`EdgeAggregate`."""

    def __init__(self, spec: EdgeAggregate, payload: pa.Schema) -> None:
        self._spec = spec
        grouping, needed, schema, _ = gathering(spec.keys, spec.aggregates, payload)
        self._grouping = grouping
        self._needed = pa.schema(list(needed)[2:])
        self._instants = Instants([self._needed])
        self._keys = KeyTable([plain_type(kind) for kind in grouping.types])
        self._results = Results(plain_schema(schema), len(spec.keys), renews=spec.renews)
        self._way = self._chosen()

    def process(self, ports: Sequence[Run]) -> Run:
        """Emit the changes at all instants before the frontier."""
        (run,) = ports
        given = Run(run.events.select(event_schema(self._needed).names), run.ctis)
        (settled,) = self._instants.take([given])
        births, deaths = settled.births, settled.deaths
        born, died = self._codes(births), self._codes(deaths)
        codes, times = np.concatenate([born, died]), _times(births, deaths)
        order = np.lexsort((times, codes))
        heads = heads_of(codes[order], times[order])
        step = np.empty(len(codes), np.int64)
        step[order] = np.cumsum(heads) - 1
        first = order[heads]
        self._results.cover(len(self._keys))
        if len(first) == 0:
            return Run(empty_batch(self._results.schema), run.ctis)
        split = step[: len(born)], step[len(born) :]
        steps = Steps(births, deaths, settled.known, codes[first], times[first], *split)
        made, lives = self._way.results(steps, len(self._keys))
        rows = self._rows(births, deaths, first, made)
        # row numbers as sort keys put starts before ends
        places = first if self._spec.by_arrival else None
        out = self._results.change(steps.codes, steps.times, rows, lives, places)
        self._forget()
        return Run(out, run.ctis)

    def snapshot(self) -> OperatorState:
        """Return keys, results, the algorithm's state and buffered rows, by reference."""
        frontier, tables = self._instants.save()
        tables |= {**self._keys.save(), **self._results.save(), **self._way.save()}
        return OperatorState({"frontier": frontier}, tables)

    def load(self, state: OperatorState) -> None:
        """Restore ``state``."""
        self._instants.restore(state.header["frontier"], state.tables)
        self._keys.restore(state.tables)
        self._results.restore(state.tables)
        self._way.restore(state.tables)

    def _chosen(self) -> _Way:
        """Return the algorithm for these aggregates."""
        spec, payload = self._spec, self._needed
        if spec.endless and all(a.can_run for a in spec.aggregates):
            return _Endless(spec, payload)
        if can_be_signed(spec.aggregates, payload):
            return _Signed(spec, payload)
        return _Living(spec, payload)

    def _codes(self, rows: pa.RecordBatch) -> np.ndarray:
        return self._keys.codes(self._grouping.key_columns(rows), rows.num_rows)

    def _rows(
        self,
        births: pa.RecordBatch,
        deaths: pa.RecordBatch,
        first: np.ndarray,
        made: list[pa.Array],
    ) -> pa.RecordBatch:
        """Build result rows of the aggregates ``made``.

        ``first`` has a row per step, for its key.
        """
        pairs = zip(
            self._grouping.key_columns(births), self._grouping.key_columns(deaths), strict=True
        )
        keys = [pa.concat_arrays([plain_array(a), plain_array(b)]) for a, b in pairs]
        columns = [*(key.take(pa.array(first)) for key in keys), *made]
        return pa.RecordBatch.from_arrays(columns, schema=self._results.payload)

    def _forget(self) -> None:
        """Drop keys without live rows, once there are many."""
        if self._keys.is_crowded():
            kept = self._results.living()
            self._keys.keep(kept)
            self._results.keep(kept)
            self._way.keep(kept)


class _Endless:
    """The algorithm for rows that never end: accumulates the lanes of each key."""

    def __init__(self, spec: EdgeAggregate, payload: pa.Schema) -> None:
        self._new_values = NewValues(spec.aggregates, payload)
        aggregates, payload = self._new_values.aggregates, self._new_values.payload
        self._grouping, *_, self._finish = gathering(spec.keys, aggregates, payload)
        self._carried = CarriedLanes(lanes_of(aggregates, payload))

    def results(self, steps: Steps, keys: int) -> tuple[list[pa.Array], np.ndarray]:
        assert steps.deaths.num_rows == 0, "a row ends in a stream whose rows never end"
        marked = self._new_values.marked(steps.births, steps.codes[steps.born])
        given = Rows(steps.born, len(steps.codes), marked)
        partial: list[pa.Array] = []
        for accumulator in self._grouping.accumulators():
            accumulator.update(given)
            partial += accumulator.columns()
        lanes = self._carried.merged(steps.codes, steps.times, partial, keys)
        return self._finish(lanes), np.ones(len(steps.codes), bool)

    def keep(self, codes: np.ndarray) -> None:
        self._carried.keep(codes)
        self._new_values.keep(codes)

    def save(self) -> dict[str, pa.Table]:
        return {**self._carried.save(), **self._new_values.save()}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        self._carried.restore(tables)
        self._new_values.restore(tables)


class _Signed:
    """The algorithm for counts and integer sums: subtracts a row that ends from its key's sums."""

    def __init__(self, spec: EdgeAggregate, payload: pa.Schema) -> None:
        self._sums = SignedSums(spec.aggregates, payload)
        self._finish = gathering(spec.keys, spec.aggregates, payload)[3]
        self.keep, self.save, self.restore = self._sums.keep, self._sums.save, self._sums.restore

    def results(self, steps: Steps, keys: int) -> tuple[list[pa.Array], np.ndarray]:
        at = np.concatenate([steps.born, steps.died])
        lanes, count = self._sums.after(steps.births, steps.deaths, at, steps.codes, keys)
        return self._finish(lanes), count > 0


class _Living:
    """The algorithm for all other functions: aggregates all live rows of a key at each change."""

    def __init__(self, spec: EdgeAggregate, payload: pa.Schema) -> None:
        self._grouping, *_, self._finish = gathering(spec.keys, spec.aggregates, payload)
        self._key_types = [plain_type(kind) for kind in self._grouping.types]
        self._rows = LivingRows(event_schema(payload))

    def results(self, steps: Steps, keys: int) -> tuple[list[pa.Array], np.ndarray]:
        del keys
        held = self._rows
        held.add(steps.births, steps.codes[steps.born])
        held.end(steps.deaths, steps.codes[steps.died], steps.known)
        step, row = held.find(steps.codes)
        time = steps.times[step]
        lives = (held.starts(row) <= time) & (time < held.ends(row))
        order = np.lexsort((row[lives], step[lives]))
        step, row = step[lives][order], row[lives][order]
        count = np.bincount(step, minlength=len(steps.codes))
        events, at = np.unique(row, return_inverse=True)
        given = Rows(step, len(steps.codes), held.take(events), at)
        lanes: list[pa.Array] = []
        for accumulator in self._grouping.accumulators():
            accumulator.update(given)
            lanes += accumulator.columns()
        made = self._finish(lanes)
        held.forget()
        return made, count > 0

    def keep(self, codes: np.ndarray) -> None:
        new_codes = np.full(int(codes.max(initial=-1)) + 1, -1)
        new_codes[codes] = np.arange(len(codes))
        self._rows.recode(new_codes)

    def save(self) -> dict[str, pa.Table]:
        codes = self._rows.codes(np.arange(len(self._rows)))
        return {"rows": self._rows.table(), "codes": pa.table({"code": codes})}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        alive = LivingRows.is_alive(tables["rows"])
        codes = tables["codes"].column(0).to_numpy()[alive]
        self._rows.load(tables["rows"], lambda _: codes)


def _times(births: pa.RecordBatch, deaths: pa.RecordBatch) -> np.ndarray:
    return np.concatenate([int64_column(births, VS), int64_column(deaths, VS)])

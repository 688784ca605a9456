"""A run: a piece of a stream in normal form, as it passes through the operators of a vertex.

A stream in normal form has all events with ``vs < t`` before ``CTI(t)`` (a watermark). So the
position of a CTI among the events follows from its time, and a piece of the stream is determined by
its events, sorted by ``vs``, and its CTI times. Operators process this pair instead of the
sequence, so they handle many CTIs of a batch in one pass.

Invariants: (1) ``events`` is sorted by ``_vs``; (2) ``ctis`` int64[m] strictly increases; (3) the
items of a run are its events and CTIs with ``CTI(t)`` after every event with ``vs < t`` and before
all others; (4) the concatenation of a stream's runs is again in normal form. Exception: if the
source of a vertex does not sort (``planner/physical/rules/skip_sort.py``), events are unordered up
to the aggregate that needs no order. Still, no event is below an earlier CTI.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import CTI, EVENT, KIND, VE, VS, int64_column, item_schema_of
from rstream.items.dictionaries import batch_bytes, is_dictionary, join_batches
from rstream.types import INF_TIME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NO_CTIS = np.empty(0, np.int64)
#: With at least this many events per CTI, copying whole slices between CTIs is faster.
_SLICE_ROWS = 1024
#: Up to this number of CTIs, the rows between them are joined as slices.
_SLICES_MIN = 2
_ROWS_PER_SLICE = 4096


@dataclass(frozen=True, slots=True)
class Run:
    """Events ``_vs, _ve, payload`` sorted by ``_vs``, and CTI times int64[m], increasing."""

    events: pa.RecordBatch
    ctis: np.ndarray

    def check(self) -> None:
        """Assert the invariants (linear; tests and verify mode call it)."""
        vs = int64_column(self.events, VS)
        assert (vs[1:] >= vs[:-1]).all(), "events are not sorted by _vs"
        assert (self.ctis[1:] > self.ctis[:-1]).all(), "CTIs do not increase"

    @property
    def is_empty(self) -> bool:
        return self.events.num_rows == 0 and len(self.ctis) == 0


class Chunk:
    """A batch of items with its times and kinds as arrays."""

    __slots__ = ("batch", "kind", "nbytes", "vs")

    def __init__(self, batch: pa.RecordBatch, vs: np.ndarray, kind: np.ndarray) -> None:
        self.batch, self.vs, self.kind = batch, vs, kind
        self.nbytes = batch_bytes(batch)

    def __len__(self) -> int:
        return len(self.vs)

    def part(self, lo: int, hi: int) -> Chunk:
        return Chunk(self.batch.slice(lo, hi - lo), self.vs[lo:hi], self.kind[lo:hi])

    def rows_released(self, bound: int, *, with_events: bool) -> int:
        """Return the number of events with ``vs < bound`` and CTIs with ``t <= bound``: a prefix.

        ``with_events``: also count events at ``bound``.
        """
        if bound == INF_TIME:
            return len(self)
        if with_events:
            return int(self.vs.searchsorted(bound, side="right"))
        lo, hi = self.vs.searchsorted([bound, bound + 1])
        return int(lo) + int(np.count_nonzero(self.kind[lo:hi]))

    def cti_times(self) -> np.ndarray:
        return growing(self.vs[self.kind == CTI], None)

    def events(self) -> list[pa.RecordBatch]:
        """Return the events as slices between the CTIs, or as one copy if there are many CTIs."""
        rows = self.batch.drop_columns([KIND])
        ctis = np.flatnonzero(self.kind == CTI)
        if len(ctis) > _SLICES_MIN + len(self) // _ROWS_PER_SLICE:
            kept = rows.filter(pa.array(self.kind == EVENT))
            return [kept] if kept.num_rows else []
        bounds = [-1, *ctis.tolist(), len(self)]
        return [
            rows.slice(before + 1, after - before - 1)
            for before, after in itertools.pairwise(bounds)
            if after - before > 1
        ]


def to_items(run: Run) -> pa.RecordBatch:
    """Return the run as a batch of items, with each CTI at its place in time order."""
    events, ctis = run.events, run.ctis
    n, m = events.num_rows, len(ctis)
    schema = item_schema_of(events.schema)
    if m == 0:
        columns = [pa.array(np.zeros(n, np.int8)), *events.columns]
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    at = np.searchsorted(int64_column(events, VS), ctis, side="left")
    cti_rows = at + np.arange(m)
    if n >= m * _SLICE_ROWS:
        return _spliced(events, ctis, at, schema)
    is_cti = np.zeros(n + m, bool)
    is_cti[cti_rows] = True
    kind = is_cti.astype(np.int8)
    vs = np.empty(n + m, np.int64)
    ve = np.empty(n + m, np.int64)
    vs[is_cti] = ve[is_cti] = ctis
    vs[~is_cti] = int64_column(events, VS)
    ve[~is_cti] = int64_column(events, VE)
    source = np.zeros(n + m, np.int64)
    source[~is_cti] = np.arange(n)
    take = pa.array(source, mask=is_cti)
    columns = [pa.array(kind), pa.array(vs), pa.array(ve), *events.take(take).columns[2:]]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _spliced(
    events: pa.RecordBatch, ctis: np.ndarray, at: np.ndarray, schema: pa.Schema
) -> pa.RecordBatch:
    """Insert few CTIs: copy the slices of events between them instead of gathering each row."""
    cuts = [0, *at.tolist(), events.num_rows]
    kind = np.full(events.num_rows + len(ctis), EVENT, np.int8)
    kind[at + np.arange(len(ctis))] = CTI
    times = [_with_times(int64_column(events, name), ctis, cuts) for name in (VS, VE)]
    payload = [_with_nulls(column, cuts) for column in events.columns[2:]]
    columns = [pa.array(kind), *map(pa.array, times), *payload]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _with_times(values: np.ndarray, ctis: np.ndarray, cuts: list[int]) -> np.ndarray:
    out = np.empty(len(values) + len(ctis), np.int64)
    for k, (lo, hi) in enumerate(itertools.pairwise(cuts)):
        out[lo + k : hi + k] = values[lo:hi]
    out[np.array(cuts[1:-1], np.int64) + np.arange(len(ctis))] = ctis
    return out


def _with_nulls(column: pa.Array, cuts: list[int]) -> pa.Array:
    """Return the column with a null at each cut except the first and the last."""
    if is_dictionary(column.type):
        indices = _with_nulls(column.indices, cuts)
        return pa.DictionaryArray.from_arrays(indices, column.dictionary)
    null = pa.nulls(1, column.type)
    pieces = [column.slice(0, cuts[1])]
    for lo, hi in itertools.pairwise(cuts[1:]):
        pieces += [null, column.slice(lo, hi - lo)]
    return pa.concat_arrays(pieces)


def pieces_of(
    batches: Iterable[pa.RecordBatch], ctis: np.ndarray, schema: pa.Schema
) -> Iterator[Run]:
    """Yield consecutive runs, at least one, of CTIs and the events of ``batches``.

    ``batches`` are sorted by ``_vs``.
    """
    given = 0
    last = pa.RecordBatch.from_pylist([], schema=schema)
    for events in batches:
        if last.num_rows:
            upto = int(ctis.searchsorted(int64_column(last, VS)[-1], side="right"))
            yield Run(last, ctis[given:upto])
            given = upto
        last = events
    yield Run(last, ctis[given:])


def growing(times: np.ndarray, last: int | None) -> np.ndarray:
    """Return the values of ``times`` int64[n] that are greater than all before them and ``last``.

    ``times`` are non-decreasing.
    """
    if len(times) == 0:
        return times
    keep = np.ones(len(times), bool)
    keep[1:] = times[1:] > times[:-1]
    if last is not None:
        keep &= times > last
    return times[keep]


def concat(runs: list[Run]) -> Run:
    """Join consecutive runs."""
    assert runs
    if len(runs) == 1:
        return runs[0]
    return Run(join_batches([r.events for r in runs]), np.concatenate([r.ctis for r in runs]))

"""A run: a piece of a stream in normal form, as it moves through the operators of a vertex.

The merged sequence has one normal form: all events with ``vs < t``, then ``CTI(t)``. So a piece
of it is fully told by its events, sorted by ``vs``, and its CTI times: where a CTI stands among the
events follows from its time. Operators work on that pair and never see an interleaving, which is
how many CTIs in one batch are handled in one pass.

Invariants: (1) ``events`` is sorted by ``_vs``; (2) ``ctis`` int64[m] strictly increases; (3) the
items of a run are its events and CTIs with ``CTI(t)`` after every event with ``vs < t`` and before
every other; (4) the concatenation of a stream's runs is again in normal form.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rstream.batch import CTI, EVENT, KIND, VE, VS, int64_column, item_schema_of, kinds
from rstream.dictionaries import join_batches, nulls

NO_CTIS = np.empty(0, np.int64)


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


def to_items(run: Run) -> pa.RecordBatch:
    """The run as a batch of items, each CTI at the place its time gives it."""
    events, ctis = run.events, run.ctis
    n, m = events.num_rows, len(ctis)
    schema = item_schema_of(events.schema)
    if m == 0:
        columns = [pa.array(np.zeros(n, np.int8)), *events.columns]
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    at = np.searchsorted(int64_column(events, VS), ctis, side="left")
    cti_rows = at + np.arange(m)
    is_cti = np.zeros(n + m, bool)
    is_cti[cti_rows] = True
    if m <= _SLICES_MAX and n > _GATHERED_ROWS_MAX:
        return _spliced(events, ctis, at, schema)
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


_SLICES_MAX = 8
#: So few rows are gathered one by one at less cost than any slice has.
_GATHERED_ROWS_MAX = 2048


def _spliced(
    events: pa.RecordBatch, ctis: np.ndarray, at: np.ndarray, schema: pa.Schema
) -> pa.RecordBatch:
    """Few CTIs: copy the slices between them instead of gathering row by row."""
    cuts = [0, *at.tolist(), events.num_rows]
    pieces: list[pa.RecordBatch] = []
    for k, (lo, hi) in enumerate(itertools.pairwise(cuts)):
        piece = events.slice(lo, hi - lo)
        kind = pa.array(np.full(hi - lo, EVENT, np.int8))
        pieces.append(pa.RecordBatch.from_arrays([kind, *piece.columns], schema=schema))
        if k < len(ctis):
            time = pa.array(ctis[k : k + 1])
            row = [
                pa.array([CTI], pa.int8()),
                time,
                time,
                *(nulls(c, 1) for c in events.columns[2:]),
            ]
            pieces.append(pa.RecordBatch.from_arrays(row, schema=schema))
    return join_batches(pieces)


def from_items(batch: pa.RecordBatch) -> Run:
    """The run of a batch of items in normal form (zero copy if it has no CTI)."""
    kind = kinds(batch)
    is_event = kind == EVENT
    if is_event.all():
        return Run(batch.drop_columns([KIND]), NO_CTIS)
    ctis = int64_column(batch, VS)[~is_event]
    keep = np.ones(len(ctis), bool)
    keep[1:] = ctis[1:] > ctis[:-1]
    events = batch.drop_columns([KIND]).filter(pa.array(is_event))
    return Run(events, ctis[keep])


def concat(runs: list[Run]) -> Run:
    """Consecutive runs as one."""
    assert runs
    if len(runs) == 1:
        return runs[0]
    return Run(join_batches([r.events for r in runs]), np.concatenate([r.ctis for r in runs]))

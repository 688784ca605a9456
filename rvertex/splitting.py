"""An output run becomes items of the streams of an edge: events by key, CTIs to all.

Invariants: (1) each stream gets its events in the order of the run, and each CTI at the place its
time gives it; (2) a row is copied once, by one gather per stream that also leaves the places of the
CTIs, so what one stream's reader keeps does not keep the rows of another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.batch import CTI, VE, VS, int64_column, item_schema, payload_schema
from rstream.hashing import partition_of
from rvertex.run import to_items

if TYPE_CHECKING:
    from rvertex.run import Run
    from rvertex.types import OutputEdge

#: So few streams are looked through one by one, which is quicker than sorting.
_SCANNED_MAX = 4


def split(run: Run, edge: OutputEdge) -> list[pa.RecordBatch | None]:
    """A batch of items for each stream of the edge, None where there is nothing."""
    n = len(edge.streams)
    if run.is_empty:
        return [None] * n
    if n == 1 or run.events.num_rows == 0:
        return [to_items(run)] * n
    rows = _rows_of_each([run.events.column(key) for key in edge.keys], n)
    vs, ve = int64_column(run.events, VS), int64_column(run.events, VE)
    schema = item_schema(payload_schema(run.events.schema))
    return [
        None if len(at) + len(run.ctis) == 0 else _items(run, at, vs.take(at), ve.take(at), schema)
        for at in rows
    ]


def _rows_of_each(keys: list[pa.Array], n: int) -> list[np.ndarray]:
    """For each of ``n`` partitions the numbers of its rows, increasing."""
    part = partition_of(keys, n)
    if n <= _SCANNED_MAX:
        return [np.flatnonzero(part == k) for k in range(n)]
    part = part.astype(np.uint8 if n <= 1 << 8 else np.uint16 if n <= 1 << 16 else np.int64)
    order = np.argsort(part, kind="stable")
    return np.split(order, np.searchsorted(part[order], np.arange(1, n)))


def _items(
    run: Run, rows: np.ndarray, vs: np.ndarray, ve: np.ndarray, schema: pa.Schema
) -> pa.RecordBatch:
    """The events at ``rows``, whose times are ``vs`` and ``ve``, and all CTIs."""
    ctis = run.ctis
    kind = np.zeros(len(rows) + len(ctis), np.int8)
    mask = None
    if len(ctis):
        at = vs.searchsorted(ctis)
        kind[at + np.arange(len(ctis))] = CTI
        rows, vs, ve = np.insert(rows, at, 0), np.insert(vs, at, ctis), np.insert(ve, at, ctis)
        mask = kind == CTI
    gather = pa.array(rows, mask=mask)
    payload = (column.take(gather) for column in run.events.columns[2:])
    columns = [pa.array(kind), pa.array(vs), pa.array(ve), *payload]
    return pa.RecordBatch.from_arrays(columns, schema=schema)

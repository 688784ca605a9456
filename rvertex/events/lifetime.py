"""Arithmetic of lifetimes within the time axis ``[MIN_TIME, INF_TIME]``.

Invariants: (1) ``INF_TIME`` is infinite: no duration moves it; (2) results beyond the axis are set
to its end and never overflow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, int64_column
from rstream.items.edges import starts
from rstream.types import INF_TIME, MIN_TIME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.events.run import Run


def moved(times: np.ndarray, duration: int) -> np.ndarray:
    """Move ``times`` int64[n] by ``duration`` microseconds, within the axis."""
    if duration >= 0:
        last = np.int64(INF_TIME - duration)
        return np.where(times > last, INF_TIME, np.minimum(times, last) + np.int64(duration))
    first = np.int64(min(MIN_TIME - duration, INF_TIME))
    out = np.maximum(times, first) + np.int64(duration)
    return np.where(times == INF_TIME, INF_TIME, np.where(times < first, MIN_TIME, out))


def lasting(times: np.ndarray, duration: int) -> np.ndarray:
    """Return the ends of lifetimes of ``duration`` from ``times`` int64[n]; INF_TIME: no end."""
    if duration == INF_TIME:
        return np.full(len(times), INF_TIME, np.int64)
    return moved(times, duration)


def after(times: np.ndarray) -> np.ndarray:
    """Return the instants 1 us after ``times`` int64[n]; INF_TIME is unchanged."""
    return moved(times, 1)


def with_times(
    events: pa.RecordBatch, *, vs: np.ndarray | None = None, ve: np.ndarray | None = None
) -> pa.RecordBatch:
    """Replace the starts or ends of events; other columns are not copied."""
    columns = list(events.columns)
    for name, times in ((VS, vs), (VE, ve)):
        if times is not None:
            columns[events.schema.get_field_index(name)] = pa.array(times)
    return pa.RecordBatch.from_arrays(columns, schema=events.schema)


def begun(events: pa.RecordBatch) -> pa.RecordBatch:
    """Set ``_vs`` of each event, also of end edges, to the start of its row."""
    return with_times(events, vs=starts(int64_column(events, VS), int64_column(events, VE)))


def frontier_after(frontier: int, ports: Sequence[Run]) -> int:
    """Return the greatest time so far: after ``ports``, no earlier event can arrive."""
    for run in ports:
        if run.events.num_rows:
            frontier = max(frontier, int(int64_column(run.events, VS)[-1]))
        if len(run.ctis):
            frontier = max(frontier, int(run.ctis[-1]))
    return frontier

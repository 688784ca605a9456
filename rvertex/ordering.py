"""Stable order of int64 values: the one sort that MERGE, reordering and joining use.

Few presorted runs are left to numpy's stable sort (timsort, which finds the runs). Otherwise value
and row are packed into one integer, whose plain sort is vectorised and stable by construction.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rstream.batch import VS, int64_column

_RUNS_MAX = 8


def stable_order(values: np.ndarray) -> np.ndarray | None:
    """The stable sorting permutation of ``values`` int64[n]; None if they are sorted."""
    descents = int(np.count_nonzero(values[1:] < values[:-1]))
    if descents == 0:
        return None
    if descents >= _RUNS_MAX:
        low, span = int(values.min()), int(values.max()) - int(values.min())
        row_bits = len(values).bit_length()
        if span.bit_length() + row_bits < 64:
            return _packed_order(values - low, row_bits)
    return np.argsort(values, kind="stable")


def in_time_order(events: pa.RecordBatch) -> tuple[pa.RecordBatch, np.ndarray]:
    """``events`` sorted by ``_vs`` (stable) and the sorted times; no copy if they are sorted."""
    vs = int64_column(events, VS)
    order = stable_order(vs)
    if order is None:
        return events, vs
    events = events.take(pa.array(order))
    return events, int64_column(events, VS)


def _packed_order(offsets: np.ndarray, row_bits: int) -> np.ndarray:
    """``offsets`` is ours to overwrite; value and row fit into 63 bits."""
    offsets <<= row_bits
    offsets |= np.arange(len(offsets))
    offsets.sort()
    offsets &= (1 << row_bits) - 1
    return offsets

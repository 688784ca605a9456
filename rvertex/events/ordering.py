"""Stable order of int64 values; MERGE, reordering and joins use this sort.

Values in few sorted runs are sorted by numpy's stable sort (timsort, which detects the runs).
Otherwise each value and its row number are packed into one integer. The plain sort of these
integers is vectorised, and stable because row numbers differ.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rstream.items.batch import VS, int64_column

_RUNS_MAX = 8


def stable_order(values: np.ndarray) -> np.ndarray | None:
    """Return the stable sorting permutation of ``values`` int64[n]; None if they are sorted."""
    descents = _descents(values)
    if descents == 0:
        return None
    packed, row_bits = _packed(values, descents)
    if packed is None:
        return np.argsort(values, kind="stable")
    packed &= (1 << row_bits) - 1
    return packed


def stable_sorted(values: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Return ``values`` int64[n] sorted, and their :func:`stable_order`."""
    descents = _descents(values)
    if descents == 0:
        return values, None
    packed, row_bits = _packed(values, descents)
    if packed is None:
        order = np.argsort(values, kind="stable")
        return values.take(order), order
    in_order = packed >> row_bits
    in_order += values.min()
    packed &= (1 << row_bits) - 1
    return in_order, packed


def in_time_order(events: pa.RecordBatch) -> tuple[pa.RecordBatch, np.ndarray]:
    """Return events sorted by ``_vs`` (stable), and their times. Sorted events are not copied."""
    vs = int64_column(events, VS)
    order = stable_order(vs)
    if order is None:
        return events, vs
    events = events.take(pa.array(order))
    return events, int64_column(events, VS)


def _descents(values: np.ndarray) -> int:
    return int(np.count_nonzero(values[1:] < values[:-1]))


def _packed(values: np.ndarray, descents: int) -> tuple[np.ndarray | None, int]:
    """Return sorted integers that pack (value - least value, row), and the number of row bits.

    Returns None if they do not fit into 63 bits, or if there are only few sorted runs.
    """
    row_bits = len(values).bit_length()
    if descents < _RUNS_MAX:
        return None, row_bits
    low, span = int(values.min()), int(values.max()) - int(values.min())
    if span.bit_length() + row_bits >= 64:
        return None, row_bits
    packed = values - low
    packed <<= row_bits
    packed |= np.arange(len(packed))
    packed.sort()
    return packed, row_bits

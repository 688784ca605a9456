"""Rows whose end is not known when they start: start edges, end edges, and the table they encode.

An event with ``_ve > _vs`` is an *interval*: its whole lifetime is known. An interval that ends at
``INF_TIME`` is also a *start edge*: its end may follow later. An event with ``_ve < _vs`` is an
*end edge*: the row with this payload that started at ``_ve`` ends at ``_vs``. So ``_vs`` is always
the time at which the event takes effect, and streams are sorted by it.

A stream with edges encodes the table in which every start edge has the end of its end edge. Rows
with equal payload and start are interchangeable. Source: Trill's start and end edges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.errors import IntegrityError, error_class
from rstream.items.batch import VE, VS, int64_column
from rstream.items.dictionaries import plain_array

if TYPE_CHECKING:
    from collections.abc import Sequence


@error_class
class UnmatchedEndError(IntegrityError):
    """An end edge has no start edge: the stream lost an item, or has one twice."""

    time: int
    began: int
    row: str

    message = "the row {row} ends at {time}, but no such row began at {began}"


def is_end(vs: np.ndarray, ve: np.ndarray) -> np.ndarray:
    """Return which events are end edges, bool[n], given their times ``vs``, ``ve`` int64[n]."""
    ends: np.ndarray = ve < vs
    return ends


def starts(vs: np.ndarray, ve: np.ndarray) -> np.ndarray:
    """Return the start of each event's row, int64[n]."""
    began: np.ndarray = np.minimum(vs, ve)
    return began


def identities(columns: Sequence[pa.Array], rows: int) -> np.ndarray:
    """Return a number per row, int64[rows]; rows have equal numbers if all ``columns`` are equal.

    Null equals null, and NaN equals NaN.
    """
    codes = np.zeros(rows, np.int64)
    for column in columns:
        plain = plain_array(column)
        if pa.types.is_nested(plain.type):
            plain = pa.array([repr(value) for value in plain.to_pylist()], pa.string())
        encoded = plain.dictionary_encode(null_encoding="encode").indices
        codes = codes * max(len(plain), 1) + encoded.to_numpy(zero_copy_only=False)
        codes = np.unique(codes, return_inverse=True)[1]
    return codes


def occurrences(codes: np.ndarray) -> np.ndarray:
    """Return how many earlier rows have the same code, int64[n]."""
    order = np.argsort(codes, kind="stable")
    sorted_codes = codes[order]
    heads = np.ones(len(codes), bool)
    heads[1:] = sorted_codes[1:] != sorted_codes[:-1]
    first = np.maximum.accumulate(np.where(heads, np.arange(len(codes)), 0))
    out = np.empty(len(codes), np.int64)
    out[order] = np.arange(len(codes)) - first
    return out


def paired(events: pa.Table) -> pa.Table:
    """Return the rows that events with edges encode, with their lifetimes, in order of start.

    ``events``: columns ``_vs, _ve, payload``, in the order of the stream.

    Raises:
        UnmatchedEndError: an end edge without a start edge before it.
    """
    batch = events.combine_chunks().to_batches()
    if not batch:
        return events
    whole = batch[0]
    vs, ve = int64_column(whole, VS), int64_column(whole, VE)
    ends = is_end(vs, ve)
    if not ends.any():
        return events
    began = pa.array(starts(vs, ve))
    # Equal rows with equal starts are paired in their order.
    open_rows = np.flatnonzero(ends | (ve == np.iinfo(np.int64).max))
    some = whole.take(pa.array(open_rows))
    same = identities([began.take(pa.array(open_rows)), *some.columns[2:]], len(open_rows))
    is_last = ends[open_rows]
    number = np.empty(len(open_rows), np.int64)
    for mask in (is_last, ~is_last):
        number[mask] = occurrences(same[mask])
    cell = same * (len(open_rows) + 1) + number
    start_cells = cell[~is_last]
    order = np.argsort(start_cells, kind="stable")
    at = np.searchsorted(start_cells[order], cell[is_last])
    near = np.minimum(at, max(len(order) - 1, 0))
    bad = np.ones(len(at), bool) if len(order) == 0 else start_cells[order][near] != cell[is_last]
    if bad.any():
        row = int(open_rows[is_last][int(bad.argmax())])
        shown = str(whole.slice(row, 1).to_pylist()[0])
        raise UnmatchedEndError(int(vs[row]), int(ve[row]), shown)
    closed = ve.copy()
    closed[open_rows[~is_last][order[near]]] = vs[open_rows[is_last]]
    columns = [whole.column(0), pa.array(closed), *whole.columns[2:]]
    kept = pa.RecordBatch.from_arrays(columns, schema=whole.schema).filter(pa.array(~ends))
    return pa.Table.from_batches([kept])

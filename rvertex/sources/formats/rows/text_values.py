"""Columns of times and decimals in CSV and JSON, which Arrow's parsers would not read exactly.

Times are written with a zone or without one, which is UTC, in any mixture. Arrow's parser of CSV
takes a column with a zone only if every value names one, and a column without only if none does;
its parser of JSON drops the zone of a column, and takes dates as numbers only. Such columns are
read as text and cast here, so that a type of times means the same in both, and of a single row
whatever stands beside it. Both parsers wrap a decimal around that is too large for 128 bits, and
keep one that has too many digits for its type. So decimals are parsed as text or in 256 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rstream.items.exact import decimals_of, narrowed
from rvertex.sources.times import extended, is_zoned

if TYPE_CHECKING:
    from collections.abc import Iterable


def has_times(columns: pa.Schema) -> bool:
    """Whether a column has timestamps."""
    return any(pa.types.is_timestamp(f.type) for f in columns)


def has_dates(columns: pa.Schema) -> bool:
    """Whether a column has dates."""
    return any(pa.types.is_date32(f.type) for f in columns)


def times_as_text(columns: pa.Schema, *, dates: bool = False) -> pa.Schema:
    """The columns to parse: timestamps as text, and dates too if ``dates`` says so."""
    return pa.schema([_as_text(f, dates=dates) for f in columns])


def decimals_as_text(columns: pa.Schema) -> pa.Schema:
    """The columns to parse from CSV: decimals as text."""
    return pa.schema(
        [f.with_type(pa.string()) if pa.types.is_decimal(f.type) else f for f in columns]
    )


def with_values(batch: pa.RecordBatch, columns: Iterable[pa.Field]) -> pa.RecordBatch:
    """What was parsed as text, or as wider numbers, with the types of ``columns``.

    Raises:
        pyarrow.ArrowInvalid: some value is none of its type.
    """
    fields = list(columns)
    arrays = [_cast(array, f.type) for array, f in zip(batch.columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _as_text(f: pa.Field, *, dates: bool) -> pa.Field:
    is_read = pa.types.is_timestamp(f.type) or (dates and pa.types.is_date32(f.type))
    return f.with_type(pa.string()) if is_read else f


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return _times(array, kind)
    if pa.types.is_date32(kind) and pa.types.is_string(array.type):
        return pc.utf8_trim_whitespace(array).cast(kind)
    if pa.types.is_decimal(kind) and pa.types.is_string(array.type):
        return decimals_of(array, kind)
    return array if array.type.equals(kind) else narrowed(array, kind)


def _times(text: pa.Array, kind: pa.TimestampType) -> pa.Array:
    try:
        return _plain_times(text, kind)
    except pa.ArrowInvalid:
        spelled_out = extended(text)
        if spelled_out is text:
            raise
    return _plain_times(spelled_out, kind)


def _plain_times(text: pa.Array, kind: pa.TimestampType) -> pa.Array:
    text = pc.utf8_trim_whitespace(text)
    is_null = text.is_null().to_numpy(zero_copy_only=False)
    zoned = is_zoned(text)
    ticks = np.zeros(len(text), np.int64)
    for rows, zone in ((zoned & ~is_null, "UTC"), (~zoned & ~is_null, None)):
        found = text.filter(pa.array(rows)).cast(pa.timestamp(kind.unit, zone))
        ticks[rows] = found.cast(pa.int64()).to_numpy()
    return pa.array(ticks, mask=is_null).cast(pa.timestamp(kind.unit)).view(kind)

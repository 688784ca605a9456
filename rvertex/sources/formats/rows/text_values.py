"""Exact times and decimals in CSV and JSON: Arrow's parsers read such columns inexactly.

A column may mix times with a zone and times without one (UTC). Arrow's CSV parser accepts a zoned
column only if every value names a zone, and an unzoned column only if none does. Its JSON parser
drops the zone, and reads dates only as numbers. So these columns are parsed as text and cast here.
Then a type means the same in both formats, and a value does not depend on other rows.

Both parsers wrap a decimal that exceeds 128 bits, and accept a decimal with too many digits for its
type. So decimals are parsed as text or in 256 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rstream.items.exact import decimals_of, narrowed
from rvertex.sources.times import extended, is_zoned

if TYPE_CHECKING:
    from collections.abc import Container, Iterable


def has_times(columns: pa.Schema) -> bool:
    """Return whether a column has timestamps."""
    return any(pa.types.is_timestamp(f.type) for f in columns)


def times_as_text(columns: pa.Schema, others: Container[str] = ()) -> pa.Schema:
    """Return the schema to parse with: timestamps, and the columns ``others``, as text."""
    return pa.schema(
        [
            f.with_type(pa.string()) if pa.types.is_timestamp(f.type) or f.name in others else f
            for f in columns
        ]
    )


def decimals_as_text(columns: pa.Schema) -> pa.Schema:
    """Return the schema to parse CSV with: decimals as text."""
    return pa.schema(
        [f.with_type(pa.string()) if pa.types.is_decimal(f.type) else f for f in columns]
    )


def with_values(batch: pa.RecordBatch, columns: Iterable[pa.Field]) -> pa.RecordBatch:
    """Cast columns that were parsed as text or as wider numbers to the types of ``columns``.

    Raises:
        pyarrow.ArrowInvalid: a value does not have its column's type.
    """
    fields = list(columns)
    arrays = [_cast(array, f.type) for array, f in zip(batch.columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


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
        times = text.filter(pa.array(rows)).cast(pa.timestamp(kind.unit, zone))
        ticks[rows] = times.cast(pa.int64()).to_numpy()
    return pa.array(ticks, mask=is_null).cast(pa.timestamp(kind.unit)).view(kind)

"""Columns of timestamps in CSV: values with a zone and without one, which are UTC, in any mixture.

Arrow's parser takes a column with a zone only if every value names one, and a column without only
if none does. What it refuses is read as text and cast here, so that a type of times means what it
means in JSON, and of a single row whatever stands beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rvertex.sources.times import is_zoned

if TYPE_CHECKING:
    from collections.abc import Iterable


def has_times(columns: pa.Schema) -> bool:
    """Whether a column has timestamps."""
    return any(pa.types.is_timestamp(f.type) for f in columns)


def times_as_text(columns: pa.Schema) -> pa.Schema:
    """The columns to parse: timestamps as text."""
    return pa.schema([_as_text(f) for f in columns])


def with_times(batch: pa.RecordBatch, columns: Iterable[pa.Field]) -> pa.RecordBatch:
    """What was parsed as :func:`times_as_text`, with the types of ``columns``.

    Raises:
        pyarrow.ArrowInvalid: some text is no time.
    """
    fields = list(columns)
    arrays = [
        _times(array, f.type) if pa.types.is_timestamp(f.type) else array
        for array, f in zip(batch.columns, fields, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _as_text(f: pa.Field) -> pa.Field:
    return f.with_type(pa.string()) if pa.types.is_timestamp(f.type) else f


def _times(text: pa.Array, kind: pa.TimestampType) -> pa.Array:
    text = pc.utf8_trim_whitespace(text)
    is_null = text.is_null().to_numpy(zero_copy_only=False)
    zoned = is_zoned(text)
    ticks = np.zeros(len(text), np.int64)
    for rows, zone in ((zoned & ~is_null, "UTC"), (~zoned & ~is_null, None)):
        found = text.filter(pa.array(rows)).cast(pa.timestamp(kind.unit, zone))
        ticks[rows] = found.cast(pa.int64()).to_numpy()
    return pa.array(ticks, mask=is_null).cast(pa.timestamp(kind.unit)).view(kind)

"""Arrow columns as numpy arrays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rvertex.events.decimals import nearest_floats


def as_one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return the column as one array; zero copy if it has one chunk."""
    chunks = column.chunks
    if len(chunks) == 1:
        return chunks[0]
    return pa.concat_arrays(chunks) if chunks else pa.nulls(0, column.type)


def numbers(column: pa.Array) -> np.ndarray:
    """Return the values as numpy in their physical type; nulls become zero."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    elif pa.types.is_temporal(column.type):
        column = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(0, column.type))
    return column.to_numpy(zero_copy_only=True)  # type: ignore[no-any-return]


def doubles(column: pa.Array) -> np.ndarray:
    """Convert numbers without nulls to float64[n]."""
    if pa.types.is_decimal(column.type):
        column = nearest_floats(column)
    return column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)  # type: ignore[no-any-return]


def one_nan(values: np.ndarray) -> np.ndarray:
    """Replace every NaN by the same bit pattern, because hardware produces several."""
    if values.dtype.kind != "f":
        return values
    nans = np.isnan(values)
    if not nans.any():
        return values
    values = values.copy()
    values[nans] = np.nan
    return values

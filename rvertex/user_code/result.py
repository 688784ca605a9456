"""Converts the result of a user's function over columns to the declared columns.

A result is a RecordBatch or Table, a dictionary of columns (arrays, lists, numpy), or a data frame
with the Arrow interface (pandas, Polars). Columns are matched by name, and other columns are
ignored. Values are cast with a check. A result of the wrong shape is an error of the code; a value
that cannot be cast is an error of its event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rvertex.user_code.errors import UserResultError
from rvertex.user_code.plain_values import arrow_column
from rvertex.user_code.times import from_column, holds_times, is_time

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Column of the result of ``apply``: the input row of each row, counted from 0.
ROW = "_row"


def result_columns(function: str, result: Any) -> Mapping[str, Any]:
    """Return the columns of a result by name.

    Raises:
        UserResultError: the result has no columns.
    """
    if isinstance(result, dict):
        return result
    if isinstance(result, pa.RecordBatch):
        return dict(zip(result.schema.names, result.columns, strict=True))
    try:
        table = result if isinstance(result, pa.Table) else pa.table(result)
    except MemoryError:
        raise
    except (TypeError, ValueError, pa.ArrowException):
        kind = type(result).__name__
        raise UserResultError(
            function,
            f"it returned {kind}; return a RecordBatch, a Table, a data frame or a dict of columns",
        ) from None
    return dict(zip(table.schema.names, table.columns, strict=True))


def declared_columns(
    function: str, columns: Mapping[str, Any], schema: pa.Schema, rows: int | None
) -> list[pa.Array]:
    """Return the columns of ``schema``, all of the same length (``rows``, if given).

    Raises:
        UserResultError: a column is missing or has another length.
    """
    arrays = []
    for field in schema:
        if field.name not in columns:
            known = ", ".join(columns) or "(none)"
            raise UserResultError(
                function, f"its result has no column {field.name!r}; it has {known}"
            )
        array = as_column(columns[field.name], field.type)
        rows = len(array) if rows is None else rows
        if len(array) != rows:
            raise UserResultError(
                function,
                f"column {field.name!r} of its result has {len(array)} rows, where {rows} "
                "are expected; to return fewer or more rows than it got, add the column "
                f"{ROW!r}",
            )
        arrays.append(array)
    return arrays


def rows_of(function: str, column: Any, rows: int) -> np.ndarray:
    """Return the column ``_row`` as int64[n].

    Raises:
        UserResultError: a number is outside of the input, or the numbers decrease.
    """
    array = as_column(column, pa.int64())
    if array.null_count:
        raise UserResultError(function, f"column {ROW!r} of its result has nulls")
    numbers: np.ndarray = array.to_numpy()
    if len(numbers) and (
        numbers.min() < 0 or numbers.max() >= rows or (np.diff(numbers) < 0).any()
    ):
        raise UserResultError(
            function,
            f"column {ROW!r} of its result must have numbers from 0 to {rows - 1}, ascending",
        )
    return numbers


def as_column(values: Any, kind: pa.DataType) -> pa.Array:
    """Convert to one array of ``kind``. Raises Arrow's errors if a value does not fit."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks)
    if isinstance(values, pa.Array):
        return values if values.type.equals(kind) else _converted(values, kind)
    if isinstance(values, list | tuple):
        return arrow_column(list(values), kind)
    if isinstance(values, np.ndarray) and values.dtype == object and not holds_times(kind):
        return arrow_column(values.tolist(), kind)  # Arrow might infer another type
    array = pa.array(values) if isinstance(values, np.ndarray) or holds_times(kind) else None
    return pa.array(values, kind) if array is None else as_column(array, kind)


def _converted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_dictionary(kind) or not (is_time(column.type) or is_time(kind)):
        return column.cast(kind)
    return from_column(column, kind)

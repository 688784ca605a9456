"""Checks appended rows against the declared columns of a log. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from rstream.errors import InvalidBatchError, RowError
from rstream.items.exact import exact_array

if TYPE_CHECKING:
    from collections.abc import Iterable

#: A ``pa.RecordBatch``, a ``pa.Table``, or a sequence of dicts.
Rows: TypeAlias = Any
_VALUE_CHARS_MAX = 80


def as_rows(log: str, schema: pa.Schema, rows: Rows) -> pa.RecordBatch:
    """Return the rows as one batch of the declared columns, at least one row.

    A missing column is null. Arrow columns must have exactly the declared types.

    Raises:
        InvalidBatchError: other columns or types, or no row.
        RowError: a value cannot be stored in its column.
    """
    if isinstance(rows, pa.RecordBatch):
        batch = _of_columns(log, schema, rows)
    elif isinstance(rows, pa.Table):
        batches = rows.combine_chunks().to_batches()
        batch = _of_columns(log, schema, batches[0]) if batches else None
    else:
        batch = _of_dicts(schema, list(rows))
    if batch is None or batch.num_rows == 0:
        raise InvalidBatchError(log, "an append needs at least one row")
    for field, column in zip(schema, batch.columns, strict=True):
        if not field.nullable and column.null_count:
            at = column.is_null().index(True).as_py()
            raise RowError(at, field.name, "null in a column that is declared not null")
    return batch


def _of_columns(log: str, schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    times = Counter(batch.schema.names)
    for field in batch.schema:
        at = schema.get_field_index(field.name)
        if at < 0 or times[field.name] > 1:
            there = ", ".join(schema.names)
            raise InvalidBatchError(log, f"column {field.name} is not one of {there}")
        if field.type != schema.field(at).type:
            reason = f"column {field.name} is {field.type}, not {schema.field(at).type}"
            raise InvalidBatchError(log, reason)
    given = set(batch.schema.names)
    columns = [
        batch.column(f.name) if f.name in given else pa.nulls(batch.num_rows, f.type)
        for f in schema
    ]
    return _batch(columns, schema)


def _of_dicts(schema: pa.Schema, rows: list[Mapping[str, Any]]) -> pa.RecordBatch:
    known = set(schema.names)
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise RowError(number, "", f"{_shown(row)} is not a dict of columns")
        for name in row:
            if name not in known:
                raise RowError(number, str(name), f"not one of {', '.join(schema.names)}")
    return _batch(
        [_column(field, [row.get(field.name) for row in rows]) for field in schema], schema
    )


def _column(field: pa.Field, values: list[Any]) -> pa.Array:
    try:
        return exact_array(values, field.type)
    except MemoryError:
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        number = _first_refused(values, field.type)
        reason = f"{_shown(values[number])} is not {field.type}"
        raise RowError(number, field.name, reason) from None


def _first_refused(values: Iterable[Any], kind: pa.DataType) -> int:
    for number, value in enumerate(values):
        try:
            exact_array([value], kind)
        except MemoryError:
            raise
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return number
    raise AssertionError(f"each value alone is {kind}, but not all together")


def _batch(columns: list[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _shown(value: object) -> str:
    return repr(value)[:_VALUE_CHARS_MAX]

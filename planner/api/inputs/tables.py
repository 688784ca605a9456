"""Tables: rows without times, valid from the first day of the calendar on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import numpy as np
import pyarrow as pa

from planner.api.expressions import lit
from planner.api.sources import SchemaLike, file_source
from planner.errors import InvalidPlanError, UnknownColumnError
from planner.expressions.types import schema_of
from planner.logical.nodes import Source
from planner.logical.nodes.source import ALWAYS_US
from rstream.items.batch import EVENT, RESERVED, item_schema
from rstream.items.exact import exact_cast
from rstream.types import INF_TIME
from rvertex.sources.discover import plain_type
from rvertex.sources.files import format_of
from rvertex.sources.spec import FileFormat, PlanItems, SourceSpec

if TYPE_CHECKING:
    from planner.api.sources import FileOptions

#: The most bytes of a table that is stored in the plan.
TABLE_BYTES_MAX = 64 << 20


def table_file(path: str, format: FileFormat | None, given: FileOptions) -> Source:
    """Return a source node over files whose rows are always valid."""
    if format is None:
        format = format_of(path)  # type: ignore[assignment]  # refused below
    if format is None or format not in get_args(FileFormat):
        known = " or ".join(f'"{name}"' for name in get_args(FileFormat))
        raise InvalidPlanError(f"table({path!r}): its file type is unknown; set format to {known}")
    return file_source(format, path, always_alive(given))


def always_alive(given: FileOptions) -> FileOptions:
    """Return the options for rows that have no times and are always valid."""
    return replace(given, vs=lit(ALWAYS_US), ve=lit(int(INF_TIME)), delay="0s", late="error")


def table_rows(data: object, schema: SchemaLike | None) -> Source:
    """Return a source node over rows that are stored in the plan."""
    try:
        table = data if isinstance(data, pa.Table) else pa.table(data)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise InvalidPlanError(
            f"table() takes a path or a table of Arrow, pandas or Polars, not {data!r:.80}"
        ) from error
    if table.nbytes > TABLE_BYTES_MAX:
        raise InvalidPlanError(
            f"table(): {table.nbytes:,} bytes would travel with the plan, at most "
            f"{TABLE_BYTES_MAX:,} may; write them to a Parquet file and give its path"
        )
    for field in schema_of(schema) if schema is not None else ():
        at = table.schema.get_field_index(field.name)
        if at < 0:
            raise UnknownColumnError(field.name, tuple(table.schema.names), "schema= of table()")
        try:
            table = table.set_column(at, field, _converted(table.column(at), field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidPlanError(f"table(): column {field.name!r}: {error}") from None
    taken = [name for name in table.schema.names if name in RESERVED]
    if taken:
        raise InvalidPlanError(f"table(): the column name {taken[0]!r} is reserved")
    twice = [name for name in table.schema.names if table.schema.names.count(name) > 1]
    if twice:
        raise InvalidPlanError(f"table(): the table has the column {twice[0]!r} more than once")
    table = table.unify_dictionaries().combine_chunks()
    payload = pa.schema([pa.field(f.name, plain_type(f.type)) for f in table.schema])
    rows = table.num_rows
    times = [np.full(rows, time, np.int64) for time in (ALWAYS_US, INF_TIME)]
    columns = [
        pa.array(np.full(rows, EVENT, np.int8)),
        *map(pa.array, times),
        *(_whole(c.cast(f.type), f.type) for c, f in zip(table.columns, payload, strict=True)),
    ]
    items = pa.RecordBatch.from_arrays(columns, schema=item_schema(payload))
    spec = SourceSpec(PlanItems(items), "", payload, pa.schema([]), vs=None)
    return Source(spec, 1, "table")


def _converted(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([exact_cast(chunk, kind) for chunk in column.chunks], kind)


def _whole(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    return column.combine_chunks() if column.num_chunks else pa.array([], kind)

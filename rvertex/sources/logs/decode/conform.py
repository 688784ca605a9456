"""Columns as the writer of a message had them become the columns that the source declares."""

from __future__ import annotations

import pyarrow as pa

from rstream.items.exact import exact_cast
from rvertex.sources.files import first_line
from rvertex.sources.logs.decode.decoded import Bad
from rvertex.sources.mixed import fits


def conformed(table: pa.Table, schema: pa.Schema) -> pa.RecordBatch | Bad:
    """The columns of ``schema``: null where the table has none, converted if no value is lost."""
    columns = []
    for field in schema:
        found = _column(table, field)
        if isinstance(found, Bad):
            return found
        columns.append(found)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(table: pa.Table, field: pa.Field) -> pa.Array | Bad:
    at = table.schema.get_field_index(field.name)
    if at < 0:
        if field.name in table.schema.names:
            return Bad("the message has this column more than once", field.name)
        return pa.nulls(table.num_rows, field.type)
    found = table.column(at)
    array = found.chunk(0) if found.num_chunks == 1 else found.combine_chunks()
    if array.type == field.type:
        return array
    if pa.types.is_struct(array.type) and pa.types.is_struct(field.type):
        return _struct(array, field)
    refusal = f"it is {array.type} here, but {field.type} in the plan"
    if not fits(array.type, field.type):
        return Bad(refusal, field.name)
    try:
        return exact_cast(array, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        return Bad(f"{refusal}: {first_line(error)}", field.name)


def _struct(array: pa.StructArray, field: pa.Field) -> pa.Array | Bad:
    """Convert the fields of a struct to the declared ones, like columns."""
    inner = pa.Table.from_arrays(array.flatten(), names=[f.name for f in array.type])
    found = conformed(inner, pa.schema(list(field.type))) if len(field.type) else None
    if isinstance(found, Bad):
        return Bad(found.reason, f"{field.name}.{found.column}")
    if found is None or not len(array):
        return pa.nulls(len(array), field.type)
    return pa.StructArray.from_arrays(found.columns, fields=list(field.type), mask=array.is_null())

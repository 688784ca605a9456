"""Selects the columns of Parquet files to read as dictionaries: text with repeated values.

The selection is made once, when a job is planned, and stored in the types of the source's columns.
It affects only speed.

Invariant: the same files give the same selection on every machine.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from rstream.errors import StreamEngineError
from rstream.items.dictionaries import REMEMBERED_BYTES_MAX, is_dictionary
from rvertex.sources.formats.parquet import open_parquet

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import pyarrow.parquet as pq

    from rvertex.sources.spec import SourceSpec, Unit

#: Row groups with fewer rows are not used for the selection.
ROWS_MIN = 1 << 12
#: A dictionary is used if its values occur at least this often on average.
REPEATS_MIN = 4


def columns_that_repeat(spec: SourceSpec, units: Sequence[Unit]) -> tuple[str, ...]:
    """Return the text columns worth reading as dictionaries, by the first large row group.

    Only columns that have a dictionary page, according to the metadata, are read. Errors of the
    source are left to its reader.
    """
    unit = next((u for u in units if (u.rows or 0) >= ROWS_MIN), None)
    if not spec.kind.has_row_groups or unit is None:
        return ()
    times = (spec.vs, spec.ve)
    wanted = [f.name for f in spec.schema if pa.types.is_string(f.type) and f.name not in times]
    try:
        with open_parquet(unit.path) as file:
            names = _with_dictionary(file, unit, wanted)
        if not names:
            return ()
        with open_parquet(unit.path, names) as file:
            table = file.read_row_group(unit.row_group, columns=names, use_threads=False)
    except (StreamEngineError, pa.ArrowException, OSError):
        return ()
    return tuple(name for name in names if _pays(table.column(name).combine_chunks()))


def with_carried(spec: SourceSpec, names: Collection[str]) -> SourceSpec:
    """Return the source with these columns read as dictionaries."""
    if not names:
        return spec
    late = None if spec.late_schema is None else _with_carried(spec.late_schema, names)
    return replace(
        spec,
        schema=_with_carried(spec.schema, names),
        columns=_with_carried(spec.columns, names),
        late_schema=late,
    )


def _with_carried(schema: pa.Schema, names: Collection[str]) -> pa.Schema:
    return pa.schema([_carried(f) if f.name in names else f for f in schema])


def _carried(field: pa.Field) -> pa.Field:
    return field.with_type(pa.dictionary(pa.int32(), field.type))


def _with_dictionary(file: pq.ParquetFile, unit: Unit, wanted: Sequence[str]) -> list[str]:
    """Return the plain string columns that have a dictionary page in that row group."""
    group = file.metadata.row_group(unit.row_group)
    chunks = (group.column(k) for k in range(group.num_columns))
    # Arrow reads all leaves of a path as dictionaries, so the path must have a single leaf.
    paths = [(c.path_in_schema, c.has_dictionary_page) for c in chunks]
    times = Counter(path for path, _ in paths)
    chosen = {path for path, has_page in paths if has_page and times[path] == 1}
    there = file.schema_arrow
    return [
        name for name in wanted if name in chosen and pa.types.is_string(there.field(name).type)
    ]


def _pays(column: pa.Array) -> bool:
    if not is_dictionary(column.type):
        return False
    values = column.dictionary
    return len(values) * REPEATS_MIN <= len(column) and values.nbytes <= REMEMBERED_BYTES_MAX

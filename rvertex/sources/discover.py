"""Discovers the units of a source (files, row groups) and assigns them to partitions.

Discovery happens once, when a job is planned, and the plan stores its result. So a resumed job
reads the same units in the same order, regardless of files that were added to the folder since.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.format.codec import kept_type
from rstream.items.batch import EVENT, kinds
from rvertex.errors import CorruptSourceError, SourceVanishedError
from rvertex.sources.files import list_files
from rvertex.sources.formats.parquet import folder_types
from rvertex.sources.formats.registry import FORMATS
from rvertex.sources.formats.rows.column_names import check_unique_fields
from rvertex.sources.formats.rows.folders import folder_columns
from rvertex.sources.spec import Files, PlanItems, SourcePartition, Unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.sources.spec import SourceKind, SourceSpec


#: Most files that are read to find the type of a column without values in the first file.
_MORE_FILES_MAX = 8


def discover(spec: SourceSpec) -> tuple[Unit, ...]:
    """Return all units: row groups of Parquet, ranges of large CSV and JSON files, or files.

    Raises:
        SourceNotFoundError, CorruptSourceError, SourceVanishedError: naming the file.
    """
    return FORMATS[spec.format].units(spec)


def partition_count(spec: SourceSpec, units: Sequence[Unit], given: int | None, width: int) -> int:
    """Return the number of partitions: ``given`` by the query, else at most ``width``."""
    if spec.format == "kafka":
        return min(given or width, len(units))
    if spec.format == "rstream":
        return 1 + max(unit.stream for unit in units)
    if spec.live is not None:
        return min(given or 1, len(units))
    if spec.format == "log":
        return 1  # with several partitions, the order of its rows would be lost
    return given or max(1, min(width, len(units)))


def assign(spec: SourceSpec, units: Sequence[Unit], n: int) -> tuple[SourcePartition, ...]:
    """Assign unit k to partition k % n; of items, event k to partition k % n, and CTIs to all.

    If units are streams, each stream is one partition.
    """
    assert n > 0, n
    if spec.format == "rstream":
        streams = [tuple(unit for unit in units if unit.stream == i) for i in range(n)]
        return tuple(SourcePartition(spec, own_units, i) for i, own_units in enumerate(streams))
    if isinstance(spec.kind, PlanItems):
        return tuple(_items_partition(spec, n, i) for i in range(n))
    return tuple(SourcePartition(spec, tuple(units[i::n]), i) for i in range(n))


def infer_schema(kind: SourceKind, *paths: str) -> pa.Schema:
    """Return the columns of a source; see :func:`infer_columns`."""
    return infer_columns(kind, *paths)[0]


def infer_columns(kind: SourceKind, *paths: str) -> tuple[pa.Schema, tuple[str, ...]]:
    """Return the columns of a source, and the names of the columns that folders define.

    The columns are the columns of the first file (for CSV and JSON, of its first few MB), then the
    columns of the folders above it (:mod:`rvertex.sources.formats.rows.folders`).

    A column without a value there gets its type from the next files, and is text if they have no
    value either. Types are simplified (no dictionaries, no large strings), and timestamps in
    seconds become microseconds.

    Raises:
        SourceNotFoundError, CorruptSourceError, SourceSchemaError: naming the file.
    """
    format, inferred = kind.format, FORMATS[kind.format]
    if not isinstance(kind, Files):
        return inferred.columns(paths[0], kind), ()
    there = list(list_files(format, *paths))
    files = iter(there)
    schema = _columns(kind, next(files))
    for file in itertools.islice(files, _MORE_FILES_MAX):
        if schema.names and not any(map(pa.types.is_null, schema.types)):
            break
        # The reader of the file reports this error
        with contextlib.suppress(CorruptSourceError, SourceVanishedError):
            schema = _with_types_of(_columns(kind, file), schema)
    folders = folder_columns(format, paths, there)
    written = folder_types(there[0]) if format == "parquet" and folders.names else {}
    named = [
        pa.field(f.name, written.get(f.name, f.type)) for f in folders if f.name not in schema.names
    ]
    columns = pa.schema([pa.field(f.name, plain_type(f.type)) for f in (*schema, *named)])
    return columns, tuple(f.name for f in named)


def _columns(kind: SourceKind, file: str) -> pa.Schema:
    schema = FORMATS[kind.format].columns(file, kind)
    check_unique_fields(file, schema)
    return schema


def _with_types_of(other: pa.Schema, schema: pa.Schema) -> pa.Schema:
    """Return ``schema`` with types of ``other`` for columns without values.

    Return ``other`` if ``schema`` is empty.
    """
    if not schema.names:
        return other
    known = {f.name: f.type for f in other}
    fields = [
        f.with_type(known.get(f.name, f.type)) if pa.types.is_null(f.type) else f for f in schema
    ]
    return pa.schema(fields, metadata=schema.metadata)


def _items_partition(spec: SourceSpec, n: int, index: int) -> SourcePartition:
    assert isinstance(spec.kind, PlanItems), spec.kind
    rows = spec.kind.rows
    is_event = kinds(rows) == EVENT
    is_own = ~is_event | ((np.cumsum(is_event) - 1) % n == index)
    part = rows.filter(pa.array(is_own)) if n > 1 else rows
    units = (Unit("", rows=part.num_rows),)
    return SourcePartition(replace(spec, kind=PlanItems(part)), units, index)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that streams use for a column of this type."""
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_null(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    known = _in_us(kind)
    return kept_type(known) or known


def _in_us(kind: pa.DataType) -> pa.DataType:
    """Return the type with all times in seconds, also nested ones, replaced by microseconds."""
    if pa.types.is_timestamp(kind) and kind.unit == "s":
        return pa.timestamp("us", kind.tz)
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(_in_us(f.type)) for f in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_us(kind.value_type)))
    return kind

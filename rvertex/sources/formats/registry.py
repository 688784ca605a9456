"""The formats of sources by name: how to find columns and units, and how to read a unit.

Options and properties of formats are in :mod:`rvertex.sources.spec`. Kafka's messages are read as
a log, so Kafka is not among these formats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rvertex.sources.files import list_files
from rvertex.sources.formats.delimited import CsvUnits
from rvertex.sources.formats.first_rows.csv_look import infer_csv_schema
from rvertex.sources.formats.json_lines import JsonUnits, infer_json_schema
from rvertex.sources.formats.parquet import ParquetUnits, row_groups, schema_of
from rvertex.sources.formats.ranges import split_units
from rvertex.sources.formats.row_groups import excluded_by_folders
from rvertex.sources.formats.row_log import LogUnits, log_schema, log_units
from rvertex.sources.formats.rstream import (
    ItemUnits,
    RStreamUnits,
    item_units,
    stream_schema,
    stream_units,
)
from rvertex.sources.formats.text import TEXT_SCHEMA, TextUnits, counted_files
from rvertex.sources.spec import (
    Csv,
    Json,
    Parquet,
    PlanItems,
    PushedRows,
    SourceKind,
    Streams,
    Text,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rvertex.sources.formats.rows.unit_reader import UnitReader
    from rvertex.sources.spec import Format, SourceSpec, Unit
    from rvertex.sources.versions import FileVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFormat:
    """How sources of one format are inspected and read. Each function raises a reader's errors."""

    #: The record of its options.
    kind: type[SourceKind]
    #: Returns the columns at a path. If the format has files, the path is a file.
    columns: Callable[[str, Any], pa.Schema]
    #: Returns all units of a source, in the order of its rows.
    units: Callable[[SourceSpec], tuple[Unit, ...]]
    #: Opens a reader: ``reader(spec, batch_rows)``.
    reader: Callable[[SourceSpec, int], UnitReader]
    #: Processor time to decode a row, us.
    row_us: float


def _files(spec: SourceSpec) -> dict[str, FileVersion]:
    """Return the files that folder filters do not exclude; the first file if they exclude all."""
    files = list_files(spec.format, *spec.paths)
    kept = {p: v for p, v in files.items() if not excluded_by_folders(spec, p, spec.files.folders)}
    # The filter after the source drops the rows of that file
    return kept or dict(list(files.items())[:1])


def _row_groups(spec: SourceSpec) -> tuple[Unit, ...]:
    files = _files(spec)
    return tuple(unit for path, version in files.items() for unit in row_groups(path, version))


def _ranges(spec: SourceSpec) -> tuple[Unit, ...]:
    files = _files(spec)
    return tuple(u for path, version in files.items() for u in split_units(spec, path, version))


FORMATS: dict[Format, SourceFormat] = {
    "parquet": SourceFormat(
        kind=Parquet,
        columns=lambda path, _: schema_of(path),
        units=_row_groups,
        reader=ParquetUnits,
        row_us=0.02,
    ),
    "csv": SourceFormat(
        kind=Csv,
        columns=infer_csv_schema,
        units=_ranges,
        reader=lambda spec, _: CsvUnits(spec),
        row_us=0.3,
    ),
    "json": SourceFormat(
        kind=Json,
        columns=lambda path, kind: infer_json_schema(path, kind.encoding),
        units=_ranges,
        reader=lambda spec, _: JsonUnits(spec),
        row_us=1.0,
    ),
    "text": SourceFormat(
        kind=Text,
        columns=lambda *_: TEXT_SCHEMA,
        units=lambda spec: counted_files(list_files(spec.format, *spec.paths)),
        reader=lambda *_: TextUnits(),
        row_us=0.2,
    ),
    "items": SourceFormat(
        kind=PlanItems,
        columns=lambda *_: pa.schema([]),
        units=item_units,
        reader=lambda spec, _: ItemUnits(spec),
        row_us=0.02,
    ),
    "rstream": SourceFormat(
        kind=Streams,
        columns=lambda path, _: stream_schema(path),
        units=lambda spec: stream_units(spec.path),
        reader=lambda spec, _: RStreamUnits(spec),
        row_us=0.02,
    ),
    "log": SourceFormat(
        kind=PushedRows,
        columns=lambda path, _: log_schema(path),
        units=lambda spec: log_units(spec.path),
        reader=lambda spec, _: LogUnits(spec),
        row_us=0.02,
    ),
}

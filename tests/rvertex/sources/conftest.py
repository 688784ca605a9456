"""Builders shared by the tests of sources."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rvertex.sources.discover import assign, discover
from rvertex.sources.formats.registry import FORMATS
from rvertex.sources.readers import open_reader
from rvertex.sources.spec import Checks, SourcePartition, SourceSpec

if TYPE_CHECKING:
    from rvertex.sources.spec import Format

COLUMNS = pa.schema([("time", pa.int64()), ("k", pa.string()), ("x", pa.float64())])


def make_spec(format: Format, path: object, **changes: Any) -> SourceSpec:
    """A source of (time, k, x) rows. ``changes``: of the source, its kind and its checks."""
    given: dict[str, Any] = {"schema": COLUMNS, "columns": COLUMNS, "vs": "time"} | changes
    kind, checks = (
        record(**{f.name: given.pop(f.name) for f in fields(record) if f.name in given})
        for record in (FORMATS[format].kind, Checks)
    )
    return SourceSpec(kind, str(path), checks=checks, **given)


def only_partition(spec: SourceSpec, *, is_watched: bool = True) -> SourcePartition:
    """All units of the source as one partition; unwatched files may change."""
    units = discover(spec)
    if not is_watched:
        units = tuple(replace(unit, version=None) for unit in units)
    return assign(spec, units, 1)[0]


def read_rows(partition: SourcePartition, first_row: int = 0, rows_max: int = 1 << 20) -> pa.Table:
    """All rows from ``first_row`` on."""
    reader = open_reader(partition, first_row)
    batches = []
    while (batch := reader.read_next(rows_max)) is not None:
        assert 1 <= batch.num_rows <= rows_max
        batches.append(batch)
    reader.close()
    return pa.Table.from_batches(batches) if batches else pa.table({})

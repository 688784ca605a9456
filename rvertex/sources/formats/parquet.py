"""Reads Parquet units: row groups, of which only the required columns are read.

Reads are single-threaded (a host's vertices share one core), and memory is bounded: by one row
group's compressed columns and one decoded batch. The footer is read once for consecutive units of
the same file. A unit marked ``only_times`` (:mod:`rvertex.sources.formats.row_groups`) is read
without its payload, unless one of its rows may be late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rstream.items.dictionaries import is_dictionary
from rvertex.errors import (
    CorruptSourceError,
    SourceChangedError,
    SourceVanishedError,
)
from rvertex.sources.files import first_line, open_random
from rvertex.sources.formats.rows.column_names import check_has
from rvertex.sources.formats.rows.folders import recorded_columns
from rvertex.sources.formats.rows.line_rows import Origin
from rvertex.sources.formats.shared_dictionaries import SharedDictionaries
from rvertex.sources.spec import Unit
from rvertex.sources.times import Fault, parse_times

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from rvertex.sources.spec import SourceSpec
    from rvertex.sources.versions import FileVersion

BATCH_ROWS = 131_072


class ParquetUnits:
    """Reads the units of one source; keeps the file of the last unit open."""

    def __init__(self, spec: SourceSpec, batch_rows: int) -> None:
        self._spec = spec
        self._batch_rows = batch_rows
        self._dictionaries = SharedDictionaries()
        self._kept = _without_late_columns(spec)
        #: The greatest time of the rows before the next unit, if this reader knows it.
        self._latest: int | None = None
        self._nulls: dict[pa.DataType, pa.Array] = {}
        self._carried = [f.name for f in spec.columns if is_dictionary(f.type)]
        self._path: str | None = None
        self._file: pq.ParquetFile | None = None

    def batches(self, unit: Unit) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the unit in order, with the columns of the file."""
        assert unit.row_group is not None
        file = self._open(unit.path)
        _check_rows(file, unit)
        names = self._spec.columns.names
        check_has(unit.path, file.schema_arrow.names, names)
        try:
            times = self._only_times(file, unit) if unit.only_times else None
            if times is not None:
                yield from times
                return
            yield from self._rows(file, unit)
        except FileNotFoundError as error:
            raise SourceVanishedError(unit.path, first_line(error)) from error
        except MemoryError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise CorruptSourceError(unit.path, unit.row_group, first_line(error)) from error

    def _rows(self, file: pq.ParquetFile, unit: Unit) -> Iterator[pa.RecordBatch]:
        """Yield all rows.

        Columns that only late rows need are null until the first row that may be late.
        """
        latest = self._latest if unit.before_us is None else unit.before_us
        self._latest = None
        given = 0
        if self._kept is not None and latest is not None:
            for batch in self._read(file, unit, self._kept):
                latest = _latest_in_time(self._spec, batch.column(self._spec.vs), latest)
                if latest is None:
                    break
                given += batch.num_rows
                yield self._filled(file, batch)
            else:
                self._latest = latest
                return
        for batch in self._read(file, unit, self._spec.columns.names):
            skipped = min(given, batch.num_rows)
            given -= skipped
            if skipped < batch.num_rows:
                yield batch.slice(skipped)

    def _read(
        self, file: pq.ParquetFile, unit: Unit, names: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        rows: Iterator[pa.RecordBatch] = file.iter_batches(
            self._batch_rows, row_groups=[unit.row_group], columns=names, use_threads=False
        )
        # For a name with a dot Arrow also reads the field of a struct that has this path, so
        # select.
        return (self._dictionaries.share(batch.select(names)) for batch in rows)

    def _filled(self, file: pq.ParquetFile, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Add nulls for the columns that were not read."""
        there = file.schema_arrow
        names, read = self._spec.columns.names, set(batch.schema.names)
        columns = [
            batch.column(name)
            if name in read
            else self._null(there.field(name).type, batch.num_rows)
            for name in names
        ]
        return pa.RecordBatch.from_arrays(columns, names=names)

    def _null(self, kind: pa.DataType, rows: int) -> pa.Array:
        """Return ``rows`` nulls; all batches share their memory."""
        if kind not in self._nulls or len(self._nulls[kind]) < rows:
            self._nulls[kind] = pa.nulls(rows, kind)
        return self._nulls[kind].slice(0, rows)

    def _only_times(self, file: pq.ParquetFile, unit: Unit) -> list[pa.RecordBatch] | None:
        """Read the unit with a null payload; None if a late row would lose its payload."""
        times = (self._spec.vs, self._spec.ve)
        names = [name for name in self._spec.columns.names if name in times]
        table = file.read_row_group(unit.row_group, columns=names, use_threads=False).select(names)
        if self._spec.drops_late_rows:
            assert unit.before_us is not None, unit
            vs = table.column(self._spec.vs).combine_chunks()
            self._latest = _latest_in_time(self._spec, vs, unit.before_us)
            if self._latest is None:
                return None
        there = file.schema_arrow
        columns = [
            table.column(f.name)
            if f.name in names
            else pa.chunked_array([pa.nulls(table.num_rows, there.field(f.name).type)])
            for f in self._spec.columns
        ]
        whole = pa.table(columns, names=self._spec.columns.names).combine_chunks()
        batches: list[pa.RecordBatch] = whole.to_batches(max_chunksize=self._batch_rows)
        return batches

    def origin(self, unit: Unit, row: int) -> Origin:
        """Return the row number in the file, from 1.

        ``row``: its number in the unit, from 0. No line.
        """
        assert unit.row_group is not None
        metadata = self._open(unit.path).metadata
        before = sum(metadata.row_group(g).num_rows for g in range(unit.row_group))
        return Origin(before + row + 1)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._path = self._file = None

    def _open(self, path: str) -> pq.ParquetFile:
        if self._path != path or self._file is None:
            self.close()
            self._file, self._path = open_parquet(path, self._carried), path
        return self._file


def open_parquet(path: str, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
    """Open a file and read its footer; read the columns ``dictionaries`` as dictionaries.

    Raises:
        SourceVanishedError: the file is gone. CorruptSourceError: the file is not Parquet.
    """
    return _opened(path, dictionaries, "us")


def _opened(path: str, dictionaries: Sequence[str], int96: Literal["us", "ns"]) -> pq.ParquetFile:
    """Open a file. ``int96``: unit of INT96 times (ns overflows outside of 1677 to 2262)."""
    source = open_random(path)
    try:
        return pq.ParquetFile(
            source,
            pre_buffer=False,
            read_dictionary=[*dictionaries],
            coerce_int96_timestamp_unit=int96,
        )
    except MemoryError:
        raise
    except (pa.ArrowException, OSError) as error:
        source.close()
        raise CorruptSourceError(path, None, first_line(error)) from error


def row_groups(path: str, version: FileVersion | None = None) -> list[Unit]:
    """Return the units of a file, without empty row groups."""
    with open_parquet(path) as file:
        metadata = file.metadata
        counts = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
    return [Unit(path, row_group=g, rows=n, version=version) for g, n in enumerate(counts) if n]


def leaf_of(file: pq.ParquetFile, column: str) -> int | None:
    """Return the leaf of a flat column. A field of a struct may have the same path."""
    schema = file.schema
    leaves = (schema.column(k) for k in range(len(schema)))
    positions = (k for k, leaf in enumerate(leaves) if leaf.path == leaf.name == column)
    return next(positions, None)


def folder_types(path: str) -> dict[str, pa.DataType]:
    """Return the types of folder columns that the writer recorded in a file."""
    with open_parquet(path) as file:
        noted = recorded_columns(file.schema_arrow.metadata)
    return dict(zip(noted.names, noted.types, strict=True))


def schema_of(path: str) -> pa.Schema:
    """Return the columns of a file."""
    with open_parquet(path) as file:
        schema: pa.Schema = file.schema_arrow.remove_metadata()
    return schema


def cut_times(path: str, names: Collection[str]) -> list[tuple[str, int]]:
    """Find INT96 columns whose times are truncated to microseconds, with the first such time, ns.

    Only the first row group is read.
    """
    with open_parquet(path) as file:
        columns = [file.schema.column(k) for k in range(len(file.schema))]
        old = [c.path for c in columns if c.physical_type == "INT96" and c.path in names]
        if not old or not file.num_row_groups:
            return []
        in_us = file.read_row_group(0, columns=old, use_threads=False)
    with _opened(path, (), "ns") as file:
        in_ns = file.read_row_group(0, columns=old, use_threads=False)
    cut = []
    for name in old:
        ns = in_ns.column(name).cast(pa.int64()).fill_null(0).to_numpy()
        us = in_us.column(name).cast(pa.int64()).fill_null(0).to_numpy()
        # A time that overflows in ns differs in us
        is_cut = (ns // 1_000 == us) & (ns % 1_000 != 0)
        cut += [(name, int(ns[k])) for k in np.flatnonzero(is_cut)[:1]]
    return cut


def _without_late_columns(spec: SourceSpec) -> list[str] | None:
    """Return the columns needed for rows that are not late; None if these are all columns."""
    if spec.late_schema is None or not isinstance(spec.ve, str | int | None):
        return None
    kept = {*spec.schema.names, *(t for t in (spec.vs, spec.ve) if isinstance(t, str))}
    names = [name for name in spec.columns.names if name in kept]
    return names if len(names) < len(spec.columns) else None


def _latest_in_time(spec: SourceSpec, times: pa.Array, before_us: int) -> int | None:
    """Return the greatest time up to the end of ``times``; None if one of them may be late.

    ``before_us``: the greatest time of earlier rows.
    """
    vs = parse_times(times)
    if isinstance(vs, Fault):
        return None  # a reader of all columns reports the error
    if len(vs) == 0:
        return before_us
    if (vs[1:] >= vs[:-1]).all():  # one pass proves it for most files
        return None if vs[0] < before_us - spec.delay_us else max(int(vs[-1]), before_us)
    latest = np.maximum(np.maximum.accumulate(vs), before_us)
    return None if (vs < latest - spec.delay_us).any() else int(latest[-1])


def _check_rows(file: pq.ParquetFile, unit: Unit) -> None:
    metadata = file.metadata
    assert unit.row_group is not None
    assert unit.rows is not None
    groups = metadata.num_row_groups
    rows = metadata.row_group(unit.row_group).num_rows if unit.row_group < groups else 0
    if rows != unit.rows:
        raise SourceChangedError(unit.path, unit.row_group, f"{unit.rows} rows", f"{rows}")

"""Readers: the rows of a source partition as event batches, from any row on.

A reader is one pass. Rows of the partition are numbered from 0 over its units. A reader opened at
``first_row`` returns exactly the rows that a reader opened at 0 returns from that row on, for any
batch size. Units with a known row count are skipped without being opened. A reader cannot be used
after an error: once the file is repaired, open a new reader at the same row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rstream.errors import StreamEngineError
from rstream.items.batch import empty_events
from rstream.items.json_text import json_rows
from rstream.types import INF_TIME
from rvertex.sources.events import RowFault, faults_of, first_fault, to_events
from rvertex.sources.files import Watched
from rvertex.sources.formats.parquet import BATCH_ROWS
from rvertex.sources.formats.registry import FORMATS
from rvertex.sources.formats.rows.bad_rows import BAD, BadRow, bad_of, with_bad
from rvertex.sources.formats.rows.folders import FolderUnits, without_folders
from rvertex.sources.formats.rows.line_rows import located, row_error
from rvertex.sources.times import shown

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from rvertex.sources.formats.rows.unit_reader import UnitReader
    from rvertex.sources.spec import SourcePartition, SourceSpec, Unit


class SourceReader(Protocol):
    """One pass over a partition."""

    def read_next(self, rows_max: int) -> pa.RecordBatch | None:
        """Return the next 1 to ``rows_max`` rows as ``_vs, _ve, payload``; None at the end.

        A reader of items or of streams returns ``_kind, _vs, _ve, payload``. A batch with bad rows
        has one more column (:mod:`rvertex.sources.formats.rows.bad_rows`), and bad rows have no
        times.

        Raises:
            SourceRowError, SourceSchemaError, CorruptSourceError, SourceChangedError,
            SourceVanishedError: see :mod:`rvertex.errors`; the error names the file.
        """

    def close(self) -> None:
        """Release files; idempotent."""


def open_reader(
    partition: SourcePartition, first_row: int, *, batch_rows: int = BATCH_ROWS
) -> SourceReader:
    """Open a reader at row ``first_row`` of the partition (at most its end).

    ``batch_rows``: rows of Parquet that are decoded at a time.
    """
    assert first_row >= 0, first_row
    return UnitsReader(partition, first_row, batch_rows)


class UnitsReader:
    """Reads the rows of units, one unit after the other."""

    def __init__(self, partition: SourcePartition, first_row: int, batch_rows: int) -> None:
        self._spec = partition.spec
        self._units = _unit_reader(partition.spec, batch_rows)
        self._events = self._all_events(partition.units, first_row)
        self._rest: pa.RecordBatch | None = None

    def read_next(self, rows_max: int) -> pa.RecordBatch | None:
        assert rows_max > 0, rows_max
        batch = self._rest if self._rest is not None else next(self._events, None)
        if batch is None:
            return None
        if batch.num_rows > rows_max:
            self._rest = batch.slice(rows_max)
            return batch.slice(0, rows_max)
        self._rest = None
        return batch

    def close(self) -> None:
        self._units.close()
        self._events.close()  # it refers to this reader and to the last row group
        self._rest = None

    def _all_events(
        self, units: tuple[Unit, ...], skip: int
    ) -> Generator[pa.RecordBatch, None, None]:
        for unit in units:
            if unit.rows is not None and skip >= unit.rows:
                skip -= unit.rows
                continue
            row = 0
            for raw in self._watched(unit):
                dropped = min(skip, raw.num_rows)
                skip -= dropped
                if dropped < raw.num_rows:
                    yield self._to_events(unit, raw.slice(dropped), row + dropped)
                row += raw.num_rows
        self._units.close()

    def _watched(self, unit: Unit) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the unit; raise if the file is no longer the discovered version."""
        file = Watched(unit.path, unit.version)
        file.check()
        try:
            for batch in self._units.batches(unit):
                file.check_often()
                yield batch
        except StreamEngineError:
            file.check()  # if the file has changed, report that error instead
            raise
        file.check()

    def _to_events(self, unit: Unit, raw: pa.RecordBatch, row: int) -> pa.RecordBatch:
        if self._spec.kind.gives_items:
            return raw
        width = len(self._spec.columns)
        bad = bad_of(raw, width)
        if bad is not None:
            return self._beside(unit, raw.select(range(width)), row, bad)
        events = to_events(self._spec, raw, unit.path, unit.rows_before + row)
        if not isinstance(events, RowFault):
            return events
        if self._spec.checks.on_bad_row == "fail":
            k, fault = first_fault(self._spec, raw, unit.path, events)
            at = self._units.origin(unit, row + k)
            bad = BadRow(fault.reason, fault.column, fault.value)
            raise row_error(self._spec, unit, at, bad)
        return self._beside(unit, raw, row, pa.nulls(raw.num_rows, BAD))

    def _beside(
        self, unit: Unit, raw: pa.RecordBatch, row: int, bad: pa.StructArray
    ) -> pa.RecordBatch:
        """Return the events of good rows, and the bad rows with their positions in the file."""
        is_good = bad.is_null().to_numpy(zero_copy_only=False)
        places = np.flatnonzero(is_good)
        events, faults = faults_of(self._spec, raw.filter(pa.array(is_good)), unit.path)
        if events is None:
            events = empty_events(self._spec.row_schema)
        bad_rows = self._located(unit, row, np.flatnonzero(~is_good).tolist(), bad.drop_null())
        for k, fault in faults.items():
            place = int(places[k])
            at = self._units.origin(unit, row + place)
            value = _plain(raw, place, fault)
            if at.raw is None:  # the format has no lines
                at = replace(at, raw=json_rows(raw.slice(place, 1))[0])
            bad_rows[place] = located(BadRow(fault.reason, fault.column, value), unit, at)
        batch = with_bad(events, bad_rows)
        # a null would delay the watermark
        times = (pc.fill_null(batch.column(k), INF_TIME) for k in (0, 1))
        return pa.RecordBatch.from_arrays([*times, *batch.columns[2:]], schema=batch.schema)

    def _located(
        self, unit: Unit, row: int, places: list[int], bad: pa.StructArray
    ) -> dict[int, BadRow]:
        """Return the bad rows with their file positions. ``row``: number of position 0."""
        columns = (bad.field(name).to_pylist() for name in ("reason", "column", "value"))
        bad_rows = {}
        for k, reason, column, value in zip(places, *columns, strict=True):
            at = self._units.origin(unit, row + k)
            bad_rows[k] = BadRow(reason, column, value, at.line, at.raw, unit.path, at.row)
        return bad_rows


def _unit_reader(spec: SourceSpec, batch_rows: int) -> UnitReader:
    format_ = FORMATS[spec.format]
    if not spec.kind.suffixes:
        return format_.reader(spec, batch_rows)
    return FolderUnits(spec, format_.reader(without_folders(spec), batch_rows))


def _plain(raw: pa.RecordBatch, row: int, fault: RowFault) -> str | None:
    """Return the faulty value as text without quotes, as for other bad rows."""
    if fault.column in raw.schema.names:
        value = raw.column(fault.column)[row]
        if not value.is_valid:
            return None
        if pa.types.is_string(value.type) and fault.value == shown(value):
            text: str | None = value.as_py()
            return text
    return fault.value

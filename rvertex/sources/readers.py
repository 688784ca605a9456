"""Readers: the rows of a source partition as event batches, from any row on.

A reader is one pass. Rows of the partition are numbered from 0 over its units; a reader opened at
``first_row`` gives exactly what a reader opened at 0 gives from that row on, whatever the sizes
asked for. Units whose row count is known are skipped without being opened. After an error the
reader is spent: a new one, opened at the same row, goes on once the file is repaired.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rstream.errors import StreamEngineError
from rvertex.errors import SourceRowError
from rvertex.sources.events import RowFault, to_events
from rvertex.sources.formats.delimited import CsvUnits
from rvertex.sources.formats.json_lines import JsonUnits
from rvertex.sources.formats.parquet import BATCH_ROWS, ParquetUnits
from rvertex.sources.formats.row_log import LogUnits
from rvertex.sources.formats.rstream import RStreamUnits
from rvertex.sources.formats.text import TextUnits
from rvertex.sources.watched import Watched

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    import pyarrow as pa

    from rvertex.sources.spec import SourcePartition, SourceSpec, Unit


class SourceReader(Protocol):
    """One pass over a partition."""

    def read_next(self, rows_max: int) -> pa.RecordBatch | None:
        """The next 1 to ``rows_max`` rows as ``_vs, _ve, payload``; None at the end.

        A reader of items or of streams gives ``_kind, _vs, _ve, payload``.

        Raises:
            SourceRowError, SourceSchemaError, CorruptSourceError, SourceChangedError,
            SourceVanishedError: as :mod:`rvertex.errors` says, naming the file.
        """
        ...

    def close(self) -> None:
        """Release files; idempotent."""
        ...


class UnitReader(Protocol):
    """Reads whole units of one format."""

    def batches(self, unit: Unit) -> Iterator[pa.RecordBatch]: ...

    def row_in_file(self, unit: Unit, row: int) -> tuple[int, int | None]: ...

    def close(self) -> None: ...


def open_reader(
    partition: SourcePartition, first_row: int, *, batch_rows: int = BATCH_ROWS
) -> SourceReader:
    """A reader that begins with row ``first_row`` of the partition (at most its end).

    ``batch_rows``: how many rows of Parquet are decoded at a time.
    """
    assert first_row >= 0, first_row
    if partition.spec.format == "items":
        return ItemsReader(partition.spec, first_row)
    return FileReader(partition, first_row, batch_rows)


class ItemsReader:
    """Items that the plan itself carries."""

    def __init__(self, spec: SourceSpec, first_row: int) -> None:
        assert spec.items is not None
        self._items = spec.items
        self._next_row = first_row

    def read_next(self, rows_max: int) -> pa.RecordBatch | None:
        batch = self._items.slice(self._next_row, rows_max)
        self._next_row += batch.num_rows
        return batch if batch.num_rows else None

    def close(self) -> None:
        """Nothing is held."""


class FileReader:
    """The rows of files, unit after unit."""

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
        self._events.close()  # it refers to this reader, and to the last row group
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
        """The rows of the unit, as long as the file is the one that was discovered."""
        file = Watched(unit.path, unit.version)
        file.check()
        try:
            for batch in self._units.batches(unit):
                file.check_often()
                yield batch
        except StreamEngineError:
            file.check()  # a file that changed is what is wrong, whatever it looked like
            raise
        file.check()

    def _to_events(self, unit: Unit, raw: pa.RecordBatch, row: int) -> pa.RecordBatch:
        if self._spec.format == "rstream":
            return raw
        events = to_events(self._spec, raw, unit.path, unit.rows_before + row)
        if isinstance(events, RowFault):
            number, line = self._units.row_in_file(unit, row + events.index)
            raise SourceRowError(
                unit.path, number, line, events.column, events.value, events.reason
            )
        return events


def _unit_reader(spec: SourceSpec, batch_rows: int) -> UnitReader:
    if spec.format == "parquet":
        return ParquetUnits(spec, batch_rows)
    if spec.format == "csv":
        return CsvUnits(spec)
    if spec.format == "json":
        return JsonUnits(spec)
    if spec.format == "rstream":
        return RStreamUnits(spec)
    if spec.format == "log":
        return LogUnits(spec)
    assert spec.format == "text", spec.format
    return TextUnits()

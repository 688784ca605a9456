"""Reads a log of pushed rows as a bounded source: its current rows, in arrival order.

A unit is a range of positions: a segment, or the commits after the last segment. Rows keep their
positions when commits become a segment, so the same units always give the same rows. Each row has
the column ``received_at`` before the log's declared columns.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pyarrow as pa

from rstream.errors import (
    CorruptLogError,
    CorruptSegmentError,
    NoLogError,
    SequenceDiscardedError,
    SequenceLostError,
    StoreError,
)
from rstream.format.table import TIME_TYPE
from rstream.intake.commits import ARRIVAL, declared, table_schema
from rstream.intake.reader import open_log
from rstream.items.batch import VS
from rstream.store.blobs import open_store
from rvertex.errors import CorruptSourceError, SourceNotFoundError, SourceVanishedError
from rvertex.sources.files import first_line
from rvertex.sources.formats.rows.line_rows import Origin
from rvertex.sources.spec import Unit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rvertex.sources.spec import SourceSpec


def holds_log(path: str) -> bool:
    """Return whether there is a log at this path. Errors are left to the log's reader."""
    try:
        return declared(open_store(path)) is not None
    except (OSError, StoreError):
        return False


def log_schema(path: str) -> pa.Schema:
    """Return the columns of the log's rows.

    Raises:
        SourceNotFoundError, CorruptSourceError: there is no log, or its declaration is damaged.
    """
    try:
        declaration = declared(open_store(path))
    except (OSError, StoreError) as error:
        raise SourceNotFoundError(path, first_line(error)) from error
    except CorruptLogError as error:
        raise CorruptSourceError(path, None, error.reason) from error
    if declaration is None:
        raise SourceNotFoundError(path, "there is no log of appended rows")
    return table_schema(declaration)


def log_units(path: str) -> tuple[Unit, ...]:
    """Return units for the log's current rows; at least one unit.

    Raises:
        SourceNotFoundError, CorruptSourceError: as :func:`log_schema`.
    """
    try:
        reader = open_log(path)
        positions = reader.positions()
    except (NoLogError, OSError, StoreError) as error:
        raise SourceNotFoundError(path, first_line(error)) from error
    except CorruptLogError as error:
        raise CorruptSourceError(path, None, error.reason) from error
    if positions is None:
        return (Unit(path, rows=0),)
    ends = {seqs.hi for seqs in reader.segments() if positions.lo < seqs.hi < positions.hi}
    bounds = [positions.lo, *sorted(ends), positions.hi]
    pairs = itertools.pairwise(bounds)
    return tuple(Unit(path, rows=hi - lo, first_seq=lo) for lo, hi in pairs)


class LogUnits:
    """Reads the units of one log."""

    def __init__(self, spec: SourceSpec) -> None:
        self._names = spec.columns.names

    def batches(self, unit: Unit) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the unit, in order."""
        left = unit.rows or 0
        reader = open_log(unit.path, unit.first_seq)
        try:
            while left:
                items = reader.read_next(left)
                if items is None:
                    raise SourceVanishedError(unit.path, f"seq {reader.next_seq} is not there")
                left -= items.batch.num_rows
                yield declared_columns(items.batch, self._names)
        except (CorruptLogError, CorruptSegmentError) as error:
            raise CorruptSourceError(unit.path, None, error.reason) from error
        except (SequenceDiscardedError, SequenceLostError, StoreError) as error:
            raise SourceVanishedError(unit.path, first_line(error)) from error
        finally:
            reader.close()

    def origin(self, unit: Unit, row: int) -> Origin:
        """Return the position of a row in the log."""
        return Origin(unit.first_seq + row)

    def close(self) -> None:
        """Do nothing: no file is open between units."""


def declared_columns(items: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    """Return these columns of items of a log."""
    return pa.RecordBatch.from_arrays([_column(items, name) for name in names], names=names)


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    if name == ARRIVAL:
        return batch.column(VS).view(TIME_TYPE)
    return batch.column(name)

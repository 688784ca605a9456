"""Reads all times of a source once, when a job is planned: one pass over the time columns.

The rows come from the readers of the job, so a row without a time raises the same error. A few
threads read units concurrently, because nothing else of the job runs yet. The results do not depend
on the threads; if several units fail, the error of the first unit is raised.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from rstream.errors import StreamEngineError
from rstream.items.batch import VS, int64_column
from rvertex.sources.disorder import TimesSoFar, UnitTimes
from rvertex.sources.formats.rows.bad_rows import bad_of
from rvertex.sources.readers import open_reader
from rvertex.sources.spec import Parquet, SourcePartition

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rvertex.sources.spec import SourceSpec, Unit


THREADS_MAX = 8
#: Rows of Parquet that are decoded at once.
BATCH_ROWS = 1 << 20
#: Number of rows from which the unit of time is guessed.
FIRST_ROWS = 1_000
#: The years 2000 and 2100, in seconds since 1970; event times are usually between them.
_SECONDS = 946_684_800, 4_102_444_800
#: Units of whole numbers other than us: their number per second, and how to convert them.
_OTHER_UNITS = {
    "seconds": (1, "* 1_000_000"),
    "milliseconds": (10**3, "* 1_000"),
    "nanoseconds": (10**9, "// 1_000"),
}


def survey(
    spec: SourceSpec, units: Sequence[Unit], columns: Collection[str]
) -> tuple[UnitTimes, ...]:
    """Return the times of each unit. ``columns``: the columns that determine an event's start.

    Raises:
        SourceRowError, SourceSchemaError, CorruptSourceError, SourceChangedError,
        SourceVanishedError: as for a reader of the rows, naming the file.
    """
    only_starts = _only_starts(spec, columns)
    try:
        with ThreadPoolExecutor(min(THREADS_MAX, os.cpu_count() or 1)) as threads:
            return tuple(threads.map(partial(_times, only_starts), units))
    finally:
        pa.default_memory_pool().release_unused()


def unit_notes(spec: SourceSpec, times: Sequence[UnitTimes]) -> tuple[str, ...]:
    """Return notes if whole numbers, read as microseconds, look like times of another unit."""
    if not any(unit.rows for unit in times):
        return ()
    first_us = min(unit.first_us for unit in times if unit.rows)
    last_us = max(int(unit.greatest.max()) for unit in times if unit.rows)
    note = unit_note(spec, first_us, last_us)
    return () if note is None else (f"source {spec.path}: {note[0]}: {note[1]}",)


def unit_note(spec: SourceSpec, first_us: int, last_us: int) -> tuple[str, str] | None:
    """Return the note for times in this range, and a fix; None if they look like microseconds."""
    kind = spec.columns.field(spec.vs).type if spec.vs in spec.columns.names else None
    if kind is None or not pa.types.is_integer(kind):
        return None
    for unit, (per_second, in_us) in _OTHER_UNITS.items():
        low, high = (seconds * per_second for seconds in _SECONDS)
        if low <= first_us and last_us <= high:
            return (
                f"column {spec.vs!r} holds whole numbers, which are microseconds since 1970; these "
                f"look like {unit}",
                f'vs=ss.col("{spec.vs}") {in_us} converts them',
            )
    return None


def first_times(spec: SourceSpec, unit: Unit, columns: Collection[str]) -> tuple[UnitTimes, ...]:
    """Return the times of the first rows of a unit; empty if they cannot be read."""
    reader = open_reader(SourcePartition(_only_starts(spec, columns), (unit,), 0), 0)
    times = TimesSoFar()
    try:
        batch = reader.read_next(FIRST_ROWS)
    except StreamEngineError:  # the reader of all rows reports the error
        return ()
    finally:
        reader.close()
    if batch is not None:
        bad = bad_of(batch, 2)
        times.add(int64_column(batch, VS), None if bad is None else bad.is_valid())
    return (times.all(),)


def _only_starts(spec: SourceSpec, columns: Collection[str]) -> SourceSpec:
    """Return the source with only the columns that determine its events' starts."""
    kind = replace(spec.kind, wanted=()) if isinstance(spec.kind, Parquet) else spec.kind
    return replace(
        spec,
        kind=kind,
        schema=pa.schema([]),
        late_schema=None,
        columns=spec.reading(columns),
        ve=None,
        max_duration_us=None,
    )


def _times(spec: SourceSpec, unit: Unit) -> UnitTimes:
    reader = open_reader(SourcePartition(spec, (unit,), 0), 0, batch_rows=BATCH_ROWS)
    times = TimesSoFar()
    try:
        while (batch := reader.read_next(BATCH_ROWS)) is not None:  # ends at the end of the unit
            bad = bad_of(batch, len(spec.schema) + 2)
            times.add(int64_column(batch, VS), None if bad is None else bad.is_valid())
    finally:
        reader.close()
    return times.all()

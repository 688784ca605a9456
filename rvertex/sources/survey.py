"""A look at all times of a source, once, when a job is planned: one pass over the columns of time.

The rows come through the readers of the run, so a row without a time is the same error here. Units
are read by a few threads, because nothing else of the job runs yet; what is found does not depend
on them, and of several errors the one of the first unit is raised.
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
from rvertex.sources.spec import SourcePartition

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rvertex.sources.spec import SourceSpec, Unit


THREADS_MAX = 8
#: Rows of Parquet that are decoded at a time.
BATCH_ROWS = 1 << 20
#: So many rows say in which unit times are.
FIRST_ROWS = 1_000
#: The years 2000 and 2100, in seconds since 1970: times of events lie between them as a rule.
_SECONDS = 946_684_800, 4_102_444_800
#: Other units that whole numbers are found in: how many a second has, and what makes microseconds.
_OTHER_UNITS = {
    "seconds": (1, "* 1_000_000"),
    "milliseconds": (10**3, "* 1_000"),
    "nanoseconds": (10**9, "// 1_000"),
}


def survey(
    spec: SourceSpec, units: Sequence[Unit], columns: Collection[str]
) -> tuple[UnitTimes, ...]:
    """The times of each unit; ``columns``: those that tell when an event starts.

    Raises:
        SourceRowError, SourceSchemaError, CorruptSourceError, SourceChangedError,
        SourceVanishedError: as for whoever reads the rows, naming the file.
    """
    only_starts = _only_starts(spec, columns)
    try:
        with ThreadPoolExecutor(min(THREADS_MAX, os.cpu_count() or 1)) as threads:
            return tuple(threads.map(partial(_times, only_starts), units))
    finally:
        pa.default_memory_pool().release_unused()


def unit_notes(spec: SourceSpec, times: Sequence[UnitTimes]) -> tuple[str, ...]:
    """That whole numbers, which are read as microseconds, look like times of another unit."""
    if not any(unit.rows for unit in times):
        return ()
    first_us = min(unit.first_us for unit in times if unit.rows)
    last_us = max(int(unit.greatest.max()) for unit in times if unit.rows)
    note = unit_note(spec, first_us, last_us)
    return () if note is None else (f"source {spec.path}: {note[0]}: {note[1]}",)


def unit_note(spec: SourceSpec, first_us: int, last_us: int) -> tuple[str, str] | None:
    """The same of times between these, and what to do; None if they look like microseconds."""
    kind = spec.columns.field(spec.vs).type if spec.vs in spec.columns.names else None
    if kind is None or not pa.types.is_integer(kind):
        return None
    for unit, (per_second, in_us) in _OTHER_UNITS.items():
        low, high = (seconds * per_second for seconds in _SECONDS)
        if low <= first_us and last_us <= high:
            return (
                f"column {spec.vs!r} holds whole numbers, which are microseconds since 1970; these "
                f"look like {unit}",
                f'vs=ss.col("{spec.vs}") {in_us} reads them so',
            )
    return None


def first_times(spec: SourceSpec, unit: Unit, columns: Collection[str]) -> tuple[UnitTimes, ...]:
    """The times of the first rows of a unit; nothing if they cannot be read."""
    reader = open_reader(SourcePartition(_only_starts(spec, columns), (unit,), 0), 0)
    times = TimesSoFar()
    try:
        batch = reader.read_next(FIRST_ROWS)
    except StreamEngineError:  # whoever reads all rows says what is wrong
        return ()
    finally:
        reader.close()
    if batch is not None:
        bad = bad_of(batch, 2)
        times.add(int64_column(batch, VS), None if bad is None else bad.is_valid())
    return (times.all(),)


def _only_starts(spec: SourceSpec, columns: Collection[str]) -> SourceSpec:
    """The source with no more than its events' starts."""
    return replace(
        spec,
        schema=pa.schema([]),
        late_schema=None,
        columns=spec.reading(columns),
        ve=None,
        max_duration_us=None,
        wanted=(),
    )


def _times(spec: SourceSpec, unit: Unit) -> UnitTimes:
    reader = open_reader(SourcePartition(spec, (unit,), 0), 0, batch_rows=BATCH_ROWS)
    times = TimesSoFar()
    try:
        while (batch := reader.read_next(BATCH_ROWS)) is not None:  # ends with the unit
            bad = bad_of(batch, len(spec.schema) + 2)
            times.add(int64_column(batch, VS), None if bad is None else bad.is_valid())
    finally:
        reader.close()
    return times.all()

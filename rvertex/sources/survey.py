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


def survey(
    spec: SourceSpec, units: Sequence[Unit], columns: Collection[str]
) -> tuple[UnitTimes, ...]:
    """The times of each unit; ``columns``: those that tell when an event starts.

    Raises:
        SourceRowError, SourceSchemaError, CorruptSourceError, SourceChangedError,
        SourceVanishedError: as for whoever reads the rows, naming the file.
    """
    read = [f for f in spec.columns if f.name in columns] or [spec.columns.field(0)]
    only_starts = replace(
        spec,
        schema=pa.schema([]),
        late_schema=None,
        columns=pa.schema(read),
        ve=None,
        max_duration_us=None,
        wanted=(),
    )
    try:
        with ThreadPoolExecutor(min(THREADS_MAX, os.cpu_count() or 1)) as threads:
            return tuple(threads.map(partial(_times, only_starts), units))
    finally:
        pa.default_memory_pool().release_unused()


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

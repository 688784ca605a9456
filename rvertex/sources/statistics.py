"""Estimates of a source before it is read: rows, bytes, time span, and a sample of its rows.

It reads footers and sizes of a few files, and the first rows of the first and the last unit.
Everything else is extrapolated. Only plans use these estimates; results do not depend on them.

Invariant: the same files give the same statistics, on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from rstream.errors import StreamEngineError
from rstream.items.batch import VE, VS, int64_column, lifetimes, only_events
from rvertex.sources.files import open_random
from rvertex.sources.formats.row_groups import times_of
from rvertex.sources.formats.rows.bad_rows import without_bad
from rvertex.sources.readers import open_reader
from rvertex.sources.spec import SourcePartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.sources.spec import SourceSpec, Unit

SAMPLE_ROWS = 4096
#: Most files that are opened for their size or footer.
FILES_MAX = 16


@dataclass(frozen=True, slots=True)
class ColumnSample:
    """Statistics of a payload column in the sample."""

    bytes_per_row: float
    #: Number of distinct non-null values.
    distinct: int
    #: Number of distinct values that occur once.
    singletons: int


@dataclass(frozen=True, slots=True)
class SourceStatistics:
    """Estimates for a whole source. None: unknown."""

    rows: int | None
    first_us: int | None
    last_us: int | None
    sample_rows: int
    mean_lifetime_us: float
    columns: dict[str, ColumnSample]
    #: The delay with which one partition would have no late row, us; 0 if not measured.
    delay_us: int = 0


def statistics_of(spec: SourceSpec, units: Sequence[Unit]) -> SourceStatistics | None:
    """Return the statistics of a source with these ``units``; None if it cannot be read.

    The reader of the source reports the error.
    """
    try:
        return _found(spec, units)
    except StreamEngineError:
        return None
    finally:
        pa.default_memory_pool().release_unused()  # the sample decodes a whole row group


def _found(spec: SourceSpec, units: Sequence[Unit]) -> SourceStatistics:
    sample = _sample(spec, units[:1])
    rows = _rows(spec, units, sample)
    first_us, last_us = _span(spec, units, sample, rows)
    lived_us = lifetimes(int64_column(sample, VS), int64_column(sample, VE))
    return SourceStatistics(
        rows=rows,
        first_us=first_us,
        last_us=last_us,
        sample_rows=sample.num_rows,
        mean_lifetime_us=float(lived_us.mean()) if len(lived_us) else 1.0,
        columns={name: _column(sample.column(name)) for name in spec.schema.names},
    )


def _sample(spec: SourceSpec, units: Sequence[Unit]) -> pa.RecordBatch:
    """Return the first rows of ``units`` as ``_vs, _ve, payload``."""
    if spec.items is not None:
        return only_events(spec.items).slice(0, SAMPLE_ROWS)
    fields = [pa.field(VS, pa.int64()), pa.field(VE, pa.int64()), *spec.schema]
    spec = spec.without_late_columns
    reader = open_reader(SourcePartition(spec, tuple(units), 0), 0, batch_rows=SAMPLE_ROWS)
    try:
        batch = reader.read_next(SAMPLE_ROWS)
    finally:
        reader.close()
    if batch is not None:
        return only_events(batch) if spec.kind.gives_items else without_bad(batch, len(fields))
    return pa.RecordBatch.from_pylist([], schema=pa.schema(fields))


def _rows(spec: SourceSpec, units: Sequence[Unit], sample: pa.RecordBatch) -> int | None:
    """Estimate the number of rows of all files."""
    if spec.items is not None:
        return int(only_events(spec.items).num_rows)
    if all(unit.rows is not None for unit in units):
        return sum(unit.rows or 0 for unit in units)
    if spec.format == "log" or sample.num_rows < SAMPLE_ROWS:
        return int(sample.num_rows) * len(units)
    lines = _lines(units[0])
    return None if lines is None else round(_file_bytes(units) * lines)


def _file_bytes(units: Sequence[Unit]) -> int:
    paths = list(dict.fromkeys(unit.path for unit in units))
    looked_at = paths[:: max(1, -(-len(paths) // FILES_MAX))]
    total = 0
    for path in looked_at:
        with open_random(path) as file:
            total += file.size()
    return round(total * len(paths) / len(looked_at)) if looked_at else 0


def _lines(unit: Unit) -> float | None:
    """Estimate lines per byte of a file, from its first bytes; None if it is compressed."""
    with open_random(unit.path) as file:
        head = file.read(1 << 16)
    lines = head.count(b"\n")
    is_text = head.isascii() or b"\0" not in head
    return lines / len(head) if lines and is_text else None


def _span(
    spec: SourceSpec, units: Sequence[Unit], sample: pa.RecordBatch, rows: int | None
) -> tuple[int | None, int | None]:
    """Estimate the first and the last start of an event."""
    if spec.items is not None:
        return _ends(only_events(spec.items))
    known = times_of(spec, units, FILES_MAX)
    if known is not None:
        return known
    first, last = _ends(sample)
    if first is None or last is None or rows is None:
        return first, None
    if len(units) > 1:
        _, end = _ends(_sample(spec, units[-1:]))
        return first, max(last, end) if end is not None else last
    return first, first + round((last - first) * max(1.0, rows / sample.num_rows))


def _ends(events: pa.RecordBatch) -> tuple[int | None, int | None]:
    if events.num_rows == 0:
        return None, None
    vs = int64_column(events, VS)
    return int(vs.min()), int(vs.max())


def _column(values: pa.Array) -> ColumnSample:
    rows = max(1, len(values))
    if pa.types.is_nested(values.type) or pa.types.is_null(values.type):
        return ColumnSample(values.nbytes / rows, len(values), len(values))
    if pa.types.is_float16(values.type):  # old releases of Arrow cannot count float16
        values = values.cast(pa.float32())
    counts = values.drop_null().value_counts().field("counts").to_numpy()
    return ColumnSample(values.nbytes / rows, len(counts), int((counts == 1).sum()))

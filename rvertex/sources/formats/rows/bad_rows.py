"""Bad rows: rows of a source that cannot become events.

If the source skips bad rows or keeps them as dead letters, its reader adds one column to a batch:
null for a good row, else a :data:`BAD` record that describes the row. So a row keeps its number
whether or not rows before it are bad.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rvertex.sources.times import NOT_ISO

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rvertex.sources.spec import SourceSpec

#: The columns of a dead letter. ``position``: the row's offset in its log, or its row number in a
#: file. ``raw``: the original line or message.
DEAD = pa.schema(
    [
        ("source", pa.string()),
        ("partition", pa.int32()),
        ("position", pa.int64()),
        ("line", pa.int64()),
        ("column", pa.string()),
        ("value", pa.string()),
        ("reason", pa.string()),
        ("key", pa.binary()),
        ("raw", pa.binary()),
    ]
)
BAD = pa.struct(list(DEAD))
#: Most characters of ``value`` that are kept. ``raw`` is not shortened.
VALUE_CHARS_MAX = 1_000
_COLUMN = "_bad"
#: First words of the reason if a value does not have its column's type.
NOT_OF_TYPE = "not of type"
_WRITTEN = (
    '; if times have another format, set vs=col("{column}").str.to_timestamp("%d.%m.%Y"), '
    "in SQL TO_TIMESTAMP({column}, 'dd.MM.yyyy')"
)
_NUMBERED = (
    "; column {column!r} is text because of another value, and only columns of whole "
    'numbers hold microseconds: set schema={{"{column}": "int64"}}'
)
_TYPED = '; if another type holds all values of {column!r}, set schema={{"{column}": ...}}'
_HEADER_AGAIN = "; the row looks like the header again, as in files that were joined"
_REMEDY = '; set on_bad_row="dead_letter" to keep such rows in a side output, or "skip"'


@dataclass(frozen=True, slots=True)
class BadRow:
    """Why a row is bad. ``column`` and ``value`` are set if one value is the cause."""

    reason: str
    column: str | None = None
    value: str | None = None
    line: int | None = None
    raw: bytes | None = None
    #: The file of the row, and the row's number in the file, from 1.
    source: str | None = None
    position: int | None = None


NO_TEXT = "not text in UTF-8"
ENCODED = '; if the whole file has another encoding, set it, such as encoding="latin-1"'


def remedy(spec: SourceSpec, row: BadRow) -> str:
    """Return what a user can do about a bad row, as the end of a message."""
    if not spec.kind.suffixes:
        return ""
    if row.value is not None and row.value.strip("'") == row.column:
        return f"{_HEADER_AGAIN}{_REMEDY}"
    if row.reason == NO_TEXT:
        return f"{ENCODED}{_REMEDY}"
    if row.column is None:
        return _REMEDY
    if row.reason.startswith(NOT_OF_TYPE):
        return f"{_TYPED.format(column=row.column)}{_REMEDY}"
    if spec.format == "csv" and row.reason == NOT_ISO and _is_whole(row.value):
        return f"{_NUMBERED.format(column=row.column)}{_REMEDY}"
    if row.reason == NOT_ISO:
        return f"{_WRITTEN.format(column=row.column)}{_REMEDY}"
    return _REMEDY


def _is_whole(value: str | None) -> bool:
    """Return whether a text is a whole number, as :func:`~rvertex.sources.times.shown` writes."""
    return value is not None and value.strip("'\" ").removeprefix("-").isdecimal()


def with_bad(good: pa.RecordBatch, bad: Mapping[int, BadRow]) -> pa.RecordBatch:
    """Insert rows of nulls for the bad rows; ``bad``: by row number in the result, from 0."""
    if not bad:
        return good
    rows = good.num_rows + len(bad)
    places = sorted(bad)
    is_good = np.ones(rows, np.bool_)
    is_good[places] = False
    take = pa.array(np.cumsum(is_good) - 1, mask=~is_good)
    columns = [column.take(take) for column in good.columns]
    dead = _records([bad[k] for k in places]).take(pa.array(np.cumsum(~is_good) - 1, mask=is_good))
    fields = [*good.schema, pa.field(_COLUMN, BAD)]
    return pa.RecordBatch.from_arrays([*columns, dead], schema=pa.schema(fields))


def _records(rows: list[BadRow]) -> pa.StructArray:
    columns: dict[str, list[object]] = {
        "source": [row.source for row in rows],
        "position": [row.position for row in rows],
        "line": [row.line for row in rows],
        "column": [row.column for row in rows],
        "value": [None if row.value is None else row.value[:VALUE_CHARS_MAX] for row in rows],
        "reason": [row.reason for row in rows],
        "raw": [row.raw for row in rows],
    }
    nothing = [None] * len(rows)
    arrays = [pa.array(columns.get(field.name, nothing), field.type) for field in DEAD]
    return pa.StructArray.from_arrays(arrays, fields=list(DEAD))


def bad_of(batch: pa.RecordBatch, columns: int) -> pa.StructArray | None:
    """Return the column of bad rows, which follows the first ``columns``; None if there is none."""
    return batch.column(columns) if batch.num_columns > columns else None


def without_bad(batch: pa.RecordBatch, columns: int) -> pa.RecordBatch:
    """Drop the bad rows and their column. ``columns``: how many columns the rows have."""
    bad = bad_of(batch, columns)
    if bad is None:
        return batch
    return batch.select(range(columns)).filter(bad.is_null())


def pieces(bad: pa.StructArray) -> Iterator[tuple[int, int, bool]]:
    """Split rows into maximal ranges that are all good or all bad: ``lo, hi, is_bad``."""
    is_bad = bad.is_valid().to_numpy(zero_copy_only=False)
    cuts = np.flatnonzero(is_bad[1:] != is_bad[:-1]) + 1
    for lo, hi in zip([0, *cuts], [*cuts, len(is_bad)], strict=True):
        yield int(lo), int(hi), bool(is_bad[lo])


def dead_rows(bad: pa.StructArray) -> pa.RecordBatch:
    """Convert bad rows to a batch with the schema :data:`DEAD`."""
    return pa.RecordBatch.from_arrays(bad.drop_null().flatten(), schema=DEAD)

"""Segments as tables for any Parquet reader: only events, lifetimes as timestamps.

A file has a column for the start and one for the end of each event, then the payload. CTIs
(watermarks) are not rows: the file's metadata has their positions and times, and the seq at which
each row group ends. With both, a stream reader restores every item with its seq.

Invariants: (1) the rows of a batch and its CTIs give the same batch again; (2) a null start is
``MIN_TIME``, a null end ``INF_TIME``; (3) a payload column replaces a time column only if the
planner has proved that it equals the lifetime; an omitted end follows from a fixed length. Pure:
does no I/O.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rstream.items.batch import CTI, EVENT, VE, VS, int64_column, item_schema, kinds
from rstream.types import INF_TIME, MIN_TIME

if TYPE_CHECKING:
    from collections.abc import Sequence

TIME_TYPE = pa.timestamp("us", "UTC")
#: Codec of the CTIs, which are stored as deltas. Regular CTIs take almost no space.
_CODEC = "zstd"
_WORD_BYTES = 8
#: If CTIs are at least this many rows apart, the rows between them are written without a copy.
_ROWS_PER_CTI = 512


@dataclass(frozen=True, slots=True)
class TableForm:
    """The time columns of a table."""

    #: Name of an additional column, or of a payload column that always equals the start.
    start: str
    #: The same for the end. None: there is no such column, and all events last ``length_us``.
    end: str | None
    length_us: int | None = None

    def __post_init__(self) -> None:
        assert (self.end is None) == (self.length_us is not None), self
        assert self.start != self.end, self

    def added(self, payload: Sequence[str]) -> list[str]:
        """Return the time columns that are not part of the payload."""
        return [n for n in (self.start, self.end) if n is not None and n not in payload]

    def file_schema(self, items: pa.Schema) -> pa.Schema:
        """Return the schema of a file with these items."""
        payload = list(items)[3:]
        names = [f.name for f in payload]
        return pa.schema([*(pa.field(n, TIME_TYPE) for n in self.added(names)), *payload])

    def columns(self, items: pa.RecordBatch, payload: Sequence[pa.Array]) -> list[pa.Array]:
        """Return a file's columns, CTIs included. ``payload``: payload columns of ``items``."""
        names = items.schema.names[3:]
        vs, ve = int64_column(items, VS), int64_column(items, VE)
        columns = []
        for name, times, never in ((self.start, vs, MIN_TIME), (self.end, ve, INF_TIME)):
            if name is None:
                wrong = ve - vs != self.length_us
                assert not wrong[kinds(items) == EVENT].any(), f"must last {self.length_us} us"
            elif name in names:
                wrong = _int64(items.column(name), 0) != times
                assert not wrong[kinds(items) == EVENT].any(), f"{name} differs from the lifetime"
            else:
                columns.append(_timestamps(times, never))
        return [*columns, *payload]

    def items(
        self, table: pa.RecordBatch, ctis: np.ndarray, times: np.ndarray, payload: pa.Schema
    ) -> pa.RecordBatch:
        """Restore items: the rows of ``table``, with CTIs at the rows ``ctis`` of the result."""
        n = table.num_rows + len(ctis)
        start = _int64(table.column(self.start), MIN_TIME)
        if self.end is not None:
            end = _int64(table.column(self.end), INF_TIME)
        else:
            assert self.length_us is not None
            end = start + self.length_us
        columns = [table.column(f.name) for f in payload]
        schema = item_schema(payload)
        kind = np.full(n, EVENT, np.int8)
        if len(ctis) == 0:
            return pa.RecordBatch.from_arrays([kind, start, end, *columns], schema=schema)
        kind[ctis] = CTI
        is_cti = kind == CTI
        vs, ve = np.empty(n, np.int64), np.empty(n, np.int64)
        vs[~is_cti], ve[~is_cti] = start, end
        vs[is_cti] = ve[is_cti] = times
        at = pa.array(np.cumsum(~is_cti) - 1, mask=is_cti)
        return pa.RecordBatch.from_arrays(
            [kind, vs, ve, *(column.take(at) for column in columns)], schema=schema
        )

    def to_json(self, payload: Sequence[str]) -> dict[str, Any]:
        """Encode for the footer."""
        return {
            "start": self.start,
            "end": self.end,
            "length_us": self.length_us,
            "added": self.added(payload),
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> TableForm:
        """Decode from the footer."""
        length = document["length_us"]
        end = document["end"]
        return cls(
            str(document["start"]),
            None if end is None else str(end),
            None if length is None else int(length),
        )


@dataclass(frozen=True, slots=True)
class PackedCtis:
    """The CTIs of a segment: row numbers from its first item, ascending; and their times."""

    rows: np.ndarray
    times: np.ndarray

    @classmethod
    def of(cls, batches: Sequence[pa.RecordBatch]) -> PackedCtis:
        """Return the CTIs of consecutive batches of items."""
        rows, times, first = [], [], 0
        for batch in batches:
            at = np.flatnonzero(kinds(batch) == CTI)
            if len(at):
                rows.append(at + first)
                times.append(int64_column(batch, VS)[at])
            first += batch.num_rows
        if not rows:
            return cls(np.empty(0, np.int64), np.empty(0, np.int64))
        return cls(np.concatenate(rows), np.concatenate(times))

    def between(self, lo: int, hi: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the CTIs among the rows ``[lo, hi)``: row numbers from ``lo``, and times."""
        first, end = np.searchsorted(self.rows, [lo, hi])
        return self.rows[first:end] - lo, self.times[first:end]

    def dumps(self) -> str:
        """Encode as text for a file's metadata: deltas, bytes grouped by weight, compressed."""
        words = np.empty((2, len(self.rows)), np.uint64)
        for line, values in zip(words, (self.rows, self.times), strict=True):
            line[:] = np.diff(values.astype(np.int64).view(np.uint64), prepend=np.uint64(0))
        planes = words.view(np.uint8).reshape(2, -1, _WORD_BYTES).transpose(0, 2, 1)
        packed = pa.compress(planes.tobytes(), codec=_CODEC, asbytes=True)
        return base64.b64encode(packed).decode()

    @classmethod
    def loads(cls, text: bytes, count: int) -> PackedCtis:
        """Decode the ``count`` CTIs that :meth:`dumps` encoded.

        Raises:
            ValueError, pyarrow.ArrowException: the text is damaged.
        """
        packed = base64.b64decode(text, validate=True)
        data = pa.decompress(packed, 2 * _WORD_BYTES * count, codec=_CODEC, asbytes=True)
        planes = np.frombuffer(data, np.uint8).reshape(2, _WORD_BYTES, count)
        words = np.ascontiguousarray(planes.transpose(0, 2, 1)).view(np.uint64)[..., 0]
        rows, times = (np.cumsum(line, dtype=np.uint64).view(np.int64) for line in words)
        if count and (rows[0] < 0 or (np.diff(rows) <= 0).any()):
            raise ValueError("the positions of CTIs do not ascend")
        return cls(rows, times)


def with_few_ctis(items: pa.RecordBatch) -> pa.RecordBatch:
    """Return the same events, without the CTIs if these are close together."""
    is_event = kinds(items) == EVENT
    ctis = len(is_event) - int(np.count_nonzero(is_event))
    if ctis * _ROWS_PER_CTI <= len(is_event):
        return items
    return items.filter(pa.array(is_event))


def only_rows(items: pa.RecordBatch, columns: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Return the rows of the file's columns that are events (zero copy)."""
    at = np.flatnonzero(kinds(items) == CTI)
    if len(at) == 0:
        return [columns]
    starts, ends = np.append(0, at + 1), np.append(at, items.num_rows)
    runs = zip(starts.tolist(), ends.tolist(), strict=True)
    return [columns.slice(lo, hi - lo) for lo, hi in runs if lo < hi]


def _timestamps(times: np.ndarray, never: int) -> pa.Array:
    is_never = times == never
    if is_never.any():
        return pa.array(times, pa.int64(), mask=is_never).view(TIME_TYPE)
    return pa.array(times).view(TIME_TYPE)


def _int64(column: pa.Array, never: int) -> np.ndarray:
    values = column.view(pa.int64())
    if values.null_count:
        values = values.fill_null(never)
    array: np.ndarray = values.to_numpy(zero_copy_only=True)
    return array

"""The inputs of a joiner: rows of a log with their numbers, their ids and their times."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rstream.items.batch import EVENT, kinds
from rstream.items.hashing import hash_rows
from rstream.types import MIN_TIME
from rvertex.registry.joiner.errors import JoinerInputError
from rvertex.registry.once import id_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rstream.log.reader import StreamReader

UNJOINABLE = "unjoinable"
OnRow = Literal["fail", "skip"]
#: If at most this many rows are not needed, they are read instead of skipped.
_SKIPPED_ROWS_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class JoinSpec:
    """What a joiner does; times in microseconds."""

    #: The column on which both inputs are joined, and the column with the id of a foreign row.
    on: str
    id: str
    #: The columns with the event time, of the primary and of the foreign rows.
    primary_at: str
    foreign_at: str
    #: A foreign row without a partner is emitted when the primary log is ahead of it by this time.
    unjoinable_after_us: int
    #: The joiner tries for this additional time to find the partner.
    retry_us: int
    #: Primary rows are dropped when the newest foreign row is ahead of them by this time.
    keep_us: int
    on_bad_row: OnRow = "fail"
    on_old: OnRow = "fail"
    #: This site's number, and the number of sites that divide the ids among them.
    share: tuple[int, int] = (0, 1)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Payload rows and their increasing numbers in the log."""

    seqs: np.ndarray
    rows: pa.RecordBatch

    def take(self, at: np.ndarray) -> Rows:
        """Return the rows at these positions."""
        return Rows(self.seqs[at], self.rows.take(pa.array(at)))

    @classmethod
    def concat(cls, parts: Sequence[Rows], payload: pa.Schema) -> Rows:
        """Return all rows of the parts."""
        empty = pa.RecordBatch.from_pylist([], schema=payload)
        seqs = np.concatenate([np.empty(0, np.int64), *(part.seqs for part in parts)])
        return cls(seqs, pa.concat_batches([empty, *(part.rows for part in parts)]))


class LogInput:
    """A log of rows that another process appends to."""

    def __init__(
        self,
        name: str,
        payload: pa.Schema,
        at: str,
        open_at: Callable[[int | None], StreamReader],
        report: Callable[[int, int], None] | None = None,
    ) -> None:
        """Read the log ``name``.

        ``report`` is called to record that rows before a number are not needed, at a time in us.
        """
        self.name, self.payload, self._at, self._open_at = name, payload, at, open_at
        self._report = report

    def open(self, seq: int) -> StreamReader:
        """Open a reader of the rows from this number on."""
        return self._open_at(seq)

    def release(self, seq: int, now_us: int) -> None:
        """Allow the log's retention to delete rows before this number."""
        if self._report is not None:
            self._report(seq, now_us)

    def first_seq(self) -> int:
        """Return the number of the first row that was not deleted."""
        return self._open_at(None).next_seq

    def read(self, reader: StreamReader, rows_max: int) -> Rows | None:
        """Return the next rows, which may be empty; None: there are no rows now."""
        items = reader.read_next(rows_max)
        if items is None:
            return None
        at = np.flatnonzero(kinds(items.batch) == EVENT)
        rows = items.batch.select(self.payload.names)
        if len(at) < items.batch.num_rows:
            rows = rows.take(pa.array(at))
        return Rows(items.first_seq + at, rows.cast(self.payload))

    def read_again(self, wanted: np.ndarray) -> Rows:
        """Return the rows with these sorted numbers."""
        parts = []
        reader: StreamReader | None = None
        for lo, hi in _runs(wanted):
            if reader is None or not 0 <= lo - reader.next_seq <= _SKIPPED_ROWS_MAX:
                reader = self.open(lo)
            while reader.next_seq < hi:
                rows = self.read(reader, hi - reader.next_seq)
                if rows is None:
                    break
                near = wanted[wanted.searchsorted(lo) : wanted.searchsorted(reader.next_seq)]
                parts.append(rows.take(np.flatnonzero(np.isin(rows.seqs, near))))
        return Rows.concat(parts, self.payload)

    def times_us(self, rows: pa.RecordBatch) -> np.ndarray:
        """Return event times, int64[rows] in microseconds; MIN_TIME where there is none."""
        times = rows.column(self._at)
        if pa.types.is_timestamp(times.type):
            unit = pa.timestamp("us", times.type.tz)
            times = times.cast(unit, safe=False).cast(pa.int64())
        times_of_rows: np.ndarray = times.fill_null(MIN_TIME).to_numpy(zero_copy_only=False)
        return times_of_rows

    def is_null(self, rows: pa.RecordBatch, column: str) -> np.ndarray:
        """Return which rows are null in a column, bool[rows]."""
        is_missing: np.ndarray = pc.is_null(rows.column(column)).to_numpy(zero_copy_only=False)
        return is_missing

    def is_of(self, rows: pa.RecordBatch, id_: str, share: tuple[int, int]) -> np.ndarray:
        """Return which rows belong to a share of all ids, bool[rows]."""
        number, count = share
        is_own: np.ndarray = hash_rows([rows.column(id_)]) % np.uint64(count) == number
        return is_own

    def keys(self, rows: pa.RecordBatch, id_: str) -> list[bytes]:
        """Return the ids as the registry stores them."""
        return [id_bytes(value) for value in rows.column(id_).to_pylist()]


def joined_schema(spec: JoinSpec, primary: LogInput, foreign: LogInput) -> pa.Schema:
    """Return the output's columns. Raises JoinerInputError if the inputs do not fit the join."""
    wanted = ((primary, (spec.on, spec.primary_at)), (foreign, (spec.on, spec.id, spec.foreign_at)))
    for log, names in wanted:
        for name in names:
            if name not in log.payload.names:
                there = ", ".join(log.payload.names)
                raise JoinerInputError(log.name, f"no column {name!r}, only {there}")
    for log, at in ((primary, spec.primary_at), (foreign, spec.foreign_at)):
        kind = log.payload.field(at).type
        if not pa.types.is_timestamp(kind) and kind != pa.int64():
            reason = f"{at} is {kind}; a time is a timestamp, or int64 microseconds"
            raise JoinerInputError(log.name, reason)
    left, right = primary.payload.field(spec.on).type, foreign.payload.field(spec.on).type
    if left != right:
        raise JoinerInputError(foreign.name, f"{spec.on} is {right}, in {primary.name} {left}")
    id_type = foreign.payload.field(spec.id).type
    if not (pa.types.is_integer(id_type) or pa.types.is_string(id_type)):
        raise JoinerInputError(foreign.name, f"{spec.id} is {id_type}, not a string or an integer")
    rest = [field for field in primary.payload if field.name != spec.on]
    both = {f.name for f in rest} & {*foreign.payload.names, UNJOINABLE}
    both |= {UNJOINABLE} & set(foreign.payload.names)
    if both:
        reason = f"both inputs have {', '.join(sorted(both))}: rename these columns in one of them"
        raise JoinerInputError(primary.name, reason)
    fields = [field.with_nullable(True) for field in (*foreign.payload, *rest)]
    return pa.schema([*fields, pa.field(UNJOINABLE, pa.bool_())])


def _runs(numbers: np.ndarray) -> list[tuple[int, int]]:
    """Return the ranges ``[lo, hi)`` of sorted numbers without gaps."""
    cuts = np.flatnonzero(np.diff(numbers) != 1) + 1
    return [
        (int(numbers[lo]), int(numbers[hi - 1]) + 1)
        for lo, hi in itertools.pairwise([0, *cuts.tolist(), len(numbers)])
        if hi > lo
    ]

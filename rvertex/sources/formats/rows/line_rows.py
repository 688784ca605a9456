"""A piece of a text file with one row per line: row positions, and the search for bad rows.

If the parser rejects a piece, its rows are inspected together. If it then still rejects the rows
that seem good, they are halved repeatedly until each bad row is alone. So whether a row is bad
depends on that row alone, and only pieces with bad rows cost the search.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.dictionaries import join_batches
from rvertex.errors import SourceRowError
from rvertex.sources.formats.rows.bad_rows import BadRow, remedy, with_bad

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rvertex.sources.spec import SourceSpec, Unit

_LF, _CR = 10, 13


@dataclass(frozen=True, slots=True)
class Origin:
    """The position of a row in its file: row number and line number, both from 1, and its bytes."""

    row: int
    line: int | None = None
    raw: bytes | None = None


class Before:
    """Rows and lines in a file before the unit that is read; counted on first use."""

    def __init__(self, count: Callable[[], tuple[int, int]]) -> None:
        self._count = count
        self._found: tuple[int, int] | None = None

    def rows_and_lines(self) -> tuple[int, int]:
        if self._found is None:
            self._found = self._count()
        return self._found


NOTHING_BEFORE = Before(lambda: (0, 0))


class LineRows:
    """Complete, consecutive rows of a file."""

    def __init__(
        self,
        data: bytes,
        starts: np.ndarray,
        ends: np.ndarray,
        *,
        first_row: int,
        first_line: int,
        before: Before = NOTHING_BEFORE,
        is_open: np.ndarray | None = None,
    ) -> None:
        """Make rows such that row k is ``data[starts[k]:ends[k]]``.

        ``first_row``: number of row 0 in its unit, from 0. ``first_line``: number of the first line
        of ``data`` in the unit, from 1. ``before``: rows and lines of the file before the unit.
        ``is_open``: bool[n], whether the row has a quote that is not closed.
        """
        self.data, self.starts, self.ends = data, starts, ends
        self._first_row, self._first_line = first_row, first_line
        self._lines: list[int] | None = None
        self._before = before
        self.is_open = np.zeros(len(starts), np.bool_) if is_open is None else is_open

    def origin(self, row: int) -> Origin:
        """Return the file position of a row. ``row``: its number in the unit, from 0."""
        k = row - self._first_row
        if self._lines is None:
            before = np.searchsorted(_line_ends(self.data), self.starts)
            self._lines = (self._first_line + before).tolist()
        rows, lines = self._before.rows_and_lines()
        return Origin(rows + row + 1, lines + self._lines[k], self.raw(k))

    def raw(self, k: int) -> bytes:
        """Return the bytes of row ``k`` of the piece, without the line end."""
        return self.data[self.starts[k] : self.ends[k]].rstrip(b"\r\n")

    def of(self, rows: np.ndarray) -> bytes:
        """Return the bytes of these rows, with their line ends.

        ``rows`` int64[n] is sorted and not empty.
        """
        first = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
        runs = zip(rows[first], rows[[*(first[1:] - 1), -1]], strict=True)
        return b"".join([self.data[self.starts[lo] : self.ends[hi]] for lo, hi in runs])

    def parsed(
        self,
        parse: Callable[[bytes], pa.RecordBatch],
        inspect: Callable[[LineRows], Iterable[Mapping[int, BadRow]]],
        explain: Callable[[bytes], BadRow],
        *,
        first_only: bool,
    ) -> tuple[list[pa.RecordBatch], dict[int, BadRow]]:
        """Parse the good rows, and explain the bad rows: batches, and bad rows by row number.

        ``inspect`` finds some or all bad rows. If the parser rejects the others, ``inspect``
        continues. ``first_only``: stop at the first bad row.
        """
        bad: dict[int, BadRow] = {}
        left = np.arange(len(self.starts))
        for some in inspect(self):
            if not some:
                continue
            bad |= some
            left = left[np.isin(left, list(some), invert=True)]
            if first_only:
                left = left[left < min(bad)]
            batch = self._batch(parse, left)
            if batch is not None:
                return [batch], bad
        batches: list[pa.RecordBatch] = []
        todo = [left]
        while todo:  # ends: each piece is parsed, or halved until it is one row
            part = todo.pop()
            if not len(part):
                continue
            batch = self._batch(parse, part)
            if batch is not None:
                batches.append(batch)
            elif len(part) > 1:
                half = len(part) // 2
                todo += [part[half:], part[:half]]
            else:
                row = int(part[0])
                bad[row] = explain(self.raw(row))
                if first_only:
                    break
        return batches, bad

    def _batch(
        self, parse: Callable[[bytes], pa.RecordBatch], rows: np.ndarray
    ) -> pa.RecordBatch | None:
        """Return the rows as a batch; None if there are none, or the parser rejects any of them."""
        if not len(rows):
            return None
        try:
            batch = parse(self.of(rows))
        except MemoryError:
            raise
        except pa.ArrowException:
            return None
        return batch if batch.num_rows == len(rows) else None


def rows_of(
    spec: SourceSpec,
    unit: Unit,
    rows: LineRows,
    first_row: int,
    parse: Callable[[bytes], pa.RecordBatch],
    inspect: Callable[[LineRows], Iterable[Mapping[int, BadRow]]],
    explain: Callable[[bytes], BadRow],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a piece that the parser rejected; bad rows keep their positions.

    If the source does not skip bad rows, yield the rows before the first bad row, then raise. So if
    an earlier row has a value that is rejected later, that row is reported instead.

    Raises:
        SourceRowError: a row is bad, and the source does not skip bad rows.
    """
    fails = spec.checks.on_bad_row == "fail"
    batches, bad = rows.parsed(parse, inspect, explain, first_only=fails)
    good = join_batches(batches or [pa.RecordBatch.from_pylist([], schema=spec.columns)])
    if bad and fails:
        yield good
        k = min(bad)
        row = bad[k]
        if spec.format == "csv" and row.value is not None:
            row = replace(row, value=repr(row.value))
        raise row_error(spec, unit, rows.origin(first_row + k), row)
    yield with_bad(good, bad)


def row_error(spec: SourceSpec, unit: Unit, at: Origin, row: BadRow) -> SourceRowError:
    """Return the error that stops the job at a bad row, with its file, line and content."""
    raw = b"" if at.raw is None else at.raw[:80]
    value = raw.decode("utf-8", "backslashreplace") if row.value is None else row.value
    value = "".join(c if c.isprintable() else "?" for c in value)
    return SourceRowError(
        unit.path, at.row, at.line, row.column, value[:80], row.reason, remedy(spec, row)
    )


def located(row: BadRow, unit: Unit, at: Origin) -> BadRow:
    """Return the bad row with its file and row number set."""
    return replace(row, source=unit.path, position=at.row, line=at.line, raw=at.raw)


def _line_ends(data: bytes) -> np.ndarray:
    """Return the offsets of line ends: each LF, and each CR without an LF after it."""
    text = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(text == _LF)
    if b"\r" in data:
        alone = np.flatnonzero(text == _CR)
        ends = np.union1d(ends, alone[np.append(text, 0)[alone + 1] != _LF])
    return ends

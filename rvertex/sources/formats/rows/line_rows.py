"""A piece of a text file with one row per line: row positions, and the search for bad rows.

If the parser refuses a piece, the piece is halved until each bad row is alone. So whether a row is
bad depends on that row alone, and only pieces with bad rows cost the search.
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
    from collections.abc import Callable

    from rvertex.sources.spec import SourceSpec, Unit

_LF, _CR = 10, 13


@dataclass(frozen=True, slots=True)
class Origin:
    """The position of a row in its file: row number and line number, both from 1, and its bytes."""

    row: int
    line: int | None = None
    raw: bytes | None = None


class Before:
    """Rows and lines of a file before the unit that is read; counted on first use."""

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
    ) -> None:
        """Row k is ``data[starts[k]:ends[k]]``.

        ``first_row``: number of row 0 in its unit, from 0. ``first_line``: number of the first line
        of ``data`` in the unit, from 1. ``before``: rows and lines of the file before the unit.
        """
        self.data, self.starts, self.ends = data, starts, ends
        self._first_row, self._first_line = first_row, first_line
        self._line_ends = _line_ends(data)
        self._before = before

    def origin(self, row: int) -> Origin:
        """The file position of a row; ``row``: its number in the unit, from 0."""
        k = row - self._first_row
        line = self._first_line + int(np.searchsorted(self._line_ends, self.starts[k]))
        rows, lines = self._before.rows_and_lines()
        return Origin(rows + row + 1, lines + line, self.raw(k))

    def raw(self, k: int) -> bytes:
        """Bytes of row ``k`` of the piece, without the line end."""
        return self.data[self.starts[k] : self.ends[k]].rstrip(b"\r\n")

    def between(self, lo: int, hi: int) -> bytes:
        """Bytes from row ``lo`` to the end of row ``hi - 1``, skipped lines included."""
        return self.data[self.starts[lo] : self.ends[hi - 1]]

    def parsed(
        self,
        parse: Callable[[bytes], pa.RecordBatch],
        explain: Callable[[bytes], BadRow],
        *,
        first_only: bool,
    ) -> tuple[list[pa.RecordBatch], dict[int, BadRow]]:
        """Parse the good rows, and explain the bad ones: batches, and bad rows by row number.

        ``first_only``: stop at the first bad row.
        """
        found: list[pa.RecordBatch] = []
        bad: dict[int, BadRow] = {}
        todo = [(0, len(self.starts))]
        while todo:  # ends: each piece is parsed, or halved until it is one row
            lo, hi = todo.pop()
            if lo == hi:
                continue
            try:
                batch = parse(self.between(lo, hi))
            except MemoryError:
                raise
            except pa.ArrowException:
                batch = None
            if batch is not None and batch.num_rows == hi - lo:
                found.append(batch)
            elif hi - lo > 1:
                middle = (lo + hi) // 2
                todo += [(middle, hi), (lo, middle)]
            else:
                bad[lo] = explain(self.raw(lo))
                if first_only:
                    break
        return found, bad


def rows_of(
    spec: SourceSpec,
    unit: Unit,
    rows: LineRows,
    first_row: int,
    parse: Callable[[bytes], pa.RecordBatch],
    explain: Callable[[bytes], BadRow],
) -> pa.RecordBatch | None:
    """All rows of a piece that the parser refused as a whole; bad rows keep their positions.

    Raises:
        SourceRowError: a row is bad, and the source does not skip bad rows.
    """
    fails = spec.on_bad_row == "fail"
    found, bad = rows.parsed(parse, explain, first_only=fails)
    if bad and fails:
        k = min(bad)
        row = bad[k]
        if spec.format == "csv" and row.value is not None:
            row = replace(row, value=repr(row.value))
        raise row_error(spec, unit, rows.origin(first_row + k), row)
    good = join_batches(found or [pa.RecordBatch.from_pylist([], schema=spec.columns)])
    return with_bad(good, bad) if good.num_rows or bad else None


def row_error(spec: SourceSpec, unit: Unit, at: Origin, row: BadRow) -> SourceRowError:
    """The error that stops the job at a bad row, with its file, line and content."""
    raw = b"" if at.raw is None else at.raw[:80]
    value = raw.decode("utf-8", "backslashreplace") if row.value is None else row.value
    value = "".join(c if c.isprintable() else "?" for c in value)
    return SourceRowError(
        unit.path, at.row, at.line, row.column, value[:80], row.reason, remedy(spec, row)
    )


def located(row: BadRow, unit: Unit, at: Origin) -> BadRow:
    """The bad row with its file and row number set."""
    return replace(row, source=unit.path, position=at.row, line=at.line, raw=at.raw)


def _line_ends(data: bytes) -> np.ndarray:
    """Offsets of line ends: each LF, and each CR without an LF after it."""
    text = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(text == _LF)
    if b"\r" in data:
        alone = np.flatnonzero(text == _CR)
        ends = np.union1d(ends, alone[np.append(text, 0)[alone + 1] != _LF])
    return ends

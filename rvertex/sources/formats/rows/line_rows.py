"""A piece of a text file whose rows are lines: where each row stands, and the search for bad ones.

A piece that the parser refuses is halved until the bad rows stand alone. So whether a row is bad
depends on that row, and only pieces with bad rows pay for the search.
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
    """Where a row stands in its file: its number and line, both from 1, and its bytes."""

    row: int
    line: int | None = None
    raw: bytes | None = None


class Before:
    """How many rows and lines of a file stand before what is read of it; counted when asked."""

    def __init__(self, count: Callable[[], tuple[int, int]]) -> None:
        self._count = count
        self._found: tuple[int, int] | None = None

    def rows_and_lines(self) -> tuple[int, int]:
        if self._found is None:
            self._found = self._count()
        return self._found


NOTHING_BEFORE = Before(lambda: (0, 0))


class LineRows:
    """Whole rows of a file, one after the other."""

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

        The first one is row ``first_row`` of its unit, counted from 0; ``data`` begins with line
        ``first_line`` of it, counted from 1. ``before``: what its file has before the unit.
        """
        self.data, self.starts, self.ends = data, starts, ends
        self._first_row, self._first_line = first_row, first_line
        self._line_ends = _line_ends(data)
        self._before = before

    def origin(self, row: int) -> Origin:
        """Of the row of that number in its unit, counted from 0."""
        k = row - self._first_row
        line = self._first_line + int(np.searchsorted(self._line_ends, self.starts[k]))
        rows, lines = self._before.rows_and_lines()
        return Origin(rows + row + 1, lines + line, self.raw(k))

    def raw(self, k: int) -> bytes:
        """Row ``k`` of the piece without its line end."""
        return self.data[self.starts[k] : self.ends[k]].rstrip(b"\r\n")

    def between(self, lo: int, hi: int) -> bytes:
        """The rows ``[lo, hi)`` and what stands between them."""
        return self.data[self.starts[lo] : self.ends[hi - 1]]

    def parsed(
        self,
        parse: Callable[[bytes], pa.RecordBatch],
        explain: Callable[[bytes], BadRow],
        *,
        first_only: bool,
    ) -> tuple[list[pa.RecordBatch], dict[int, BadRow]]:
        """What ``parse`` gives of the good rows, and the bad ones by place.

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
    """All rows of a piece that was refused as a whole, the bad ones in their places.

    Raises:
        SourceRowError: there is a bad row, and the source does not pass over it.
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
    """The error that ends the job."""
    raw = b"" if at.raw is None else at.raw[:80]
    value = raw.decode("utf-8", "backslashreplace") if row.value is None else row.value
    value = "".join(c if c.isprintable() else "?" for c in value)
    return SourceRowError(
        unit.path, at.row, at.line, row.column, value[:80], row.reason, remedy(spec, row)
    )


def located(row: BadRow, unit: Unit, at: Origin) -> BadRow:
    """The bad row with its place."""
    return replace(row, source=unit.path, position=at.row, line=at.line, raw=at.raw)


def _line_ends(data: bytes) -> np.ndarray:
    """Where lines end: the places of LF, and of CR without one."""
    text = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(text == _LF)
    if b"\r" in data:
        alone = np.flatnonzero(text == _CR)
        ends = np.union1d(ends, alone[np.append(text, 0)[alone + 1] != _LF])
    return ends

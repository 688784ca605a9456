"""Reads text units: files with a row per line, in the column ``line``, without the line end.

Lines are UTF-8 and end with LF or CRLF. A line's time is its number over all files of the source,
so it does not depend on the assignment of files to partitions. For this, the lines of all files are
counted when the job is planned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from rvertex.errors import SourceChangedError, SourceRowError
from rvertex.sources.formats.json_lines import chunks
from rvertex.sources.formats.rows.line_rows import Origin
from rvertex.sources.spec import Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rvertex.sources.versions import FileVersion

TEXT_SCHEMA = pa.schema([("line", pa.string())])


class TextUnits:
    """Reads the files of one text source."""

    def batches(self, unit: Unit) -> Iterator[pa.RecordBatch]:
        """Yield the lines of the file in order."""
        rows = 0
        for chunk in chunks(unit.path):
            lines = chunk.removesuffix(b"\n").split(b"\n")
            try:
                texts = chunk.removesuffix(b"\n").decode().split("\n")
            except UnicodeDecodeError as error:
                at = rows + chunk.count(b"\n", 0, error.start) + 1
                value = repr(lines[at - rows - 1][:80])
                raise SourceRowError(unit.path, at, at, "line", value, "not UTF-8") from error
            if b"\r" in chunk:
                texts = [t.removesuffix("\r") for t in texts]
            yield pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], schema=TEXT_SCHEMA)
            rows += len(texts)
        if rows != unit.rows:
            raise SourceChangedError(unit.path, None, f"{unit.rows} rows", f"{rows}")

    def origin(self, unit: Unit, row: int) -> Origin:
        """Return the line's number; a row is a line."""
        del unit
        return Origin(row + 1, row + 1)

    def close(self) -> None:
        """Do nothing: no file is open between units."""


def counted_files(files: Mapping[str, FileVersion]) -> tuple[Unit, ...]:
    """Return a unit per file, with the number of lines before it.

    Raises:
        SourceVanishedError, CorruptSourceError: a file cannot be read.
    """
    units: list[Unit] = []
    before = 0
    for path, version in files.items():
        rows = _count_lines(path)
        units.append(Unit(path, rows=rows, rows_before=before, version=version))
        before += rows
    return tuple(units)


def _count_lines(path: str) -> int:
    """Count the lines of a file, including a last line without a line end."""
    lines = 0
    last = b"\n"
    for chunk in chunks(path):
        lines += chunk.count(b"\n")
        last = chunk[-1:]
    return lines + (last != b"\n")

"""Splits large CSV and JSON-lines files into units: ranges of bytes with whole rows.

In JSON lines a row ends with its line, so only the bytes near each boundary are searched. In CSV
the end of a row depends on all quotes before it, so the file is read once, when the job is planned.
The plan stores the ranges. Files that are compressed, or in another encoding, are not split.

Invariant: the rows of the units, in order, are the rows of the file.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pyarrow as pa

from rvertex.errors import CorruptSourceError
from rvertex.sources.files import CODECS, first_line, open_random
from rvertex.sources.formats import delimited, json_lines
from rvertex.sources.formats.rows.csv_rows import whole_rows
from rvertex.sources.formats.rows.text_encoding import UTF_8
from rvertex.sources.spec import Csv, Json, Unit

if TYPE_CHECKING:
    from rvertex.sources.spec import SourceSpec
    from rvertex.sources.versions import FileVersion

#: Approximate bytes of a unit.
UNIT_BYTES = 64 << 20


def split_units(spec: SourceSpec, path: str, version: FileVersion) -> list[Unit]:
    """Split a file into units.

    Raises:
        SourceVanishedError, CorruptSourceError: the file cannot be read.
    """
    size = version.size_bytes
    cuts: list[int] = []
    kind = spec.kind
    assert isinstance(kind, Csv | Json), kind
    is_plain = kind.encoding == UTF_8
    if size >= 2 * UNIT_BYTES and is_plain and PurePosixPath(path).suffix.lower() not in CODECS:
        try:
            if isinstance(kind, Json):
                cuts = _json_cuts(path, size)
            else:
                cuts = _csv_cuts(path, size, kind.delimiter)
        except MemoryError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise CorruptSourceError(path, None, first_line(error)) from error
    bounds = zip([0, *cuts], [*cuts, None], strict=True)
    return [Unit(path, version=version, lo=lo, hi=hi) for lo, hi in bounds]


def _json_cuts(path: str, size: int) -> list[int]:
    """Return the position after the first line end at or after each multiple of UNIT_BYTES."""
    cuts: list[int] = []
    with open_random(path) as file:
        for wanted in range(UNIT_BYTES, size - UNIT_BYTES + 1, UNIT_BYTES):
            at = wanted - 1
            file.seek(at)
            while piece := file.read(json_lines.CHUNK_BYTES):  # ends with the file
                line_end = piece.find(b"\n")
                if line_end >= 0:
                    at += line_end + 1
                    break
                at += len(piece)
            if at < size and at > max([0, *cuts]):
                cuts.append(at)
    return cuts


def _csv_cuts(path: str, size: int, delimiter: str) -> list[int]:
    """Return the end of a row at or after each multiple of UNIT_BYTES."""
    cuts: list[int] = []
    consumed, rest, is_first = 0, b"", True
    with open_random(path) as file:
        while piece := file.read(delimited.BLOCK_BYTES):  # ends with the file
            data = rest + piece
            if is_first and len(data) >= len(delimited.BOM):
                data, is_first = data.removeprefix(delimited.BOM), False
                consumed = file.tell() - len(data)
            cut, _ = whole_rows(data, delimiter, is_last=False)
            consumed, rest = consumed + cut, data[cut:]
            last = cuts[-1] if cuts else 0
            if cut and consumed - last >= UNIT_BYTES and size - consumed >= UNIT_BYTES:
                cuts.append(consumed)
    return cuts

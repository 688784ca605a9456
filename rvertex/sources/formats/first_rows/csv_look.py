"""Infers column types from the first rows of a CSV file, and finds unusual values."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from rvertex.errors import CorruptSourceError
from rvertex.sources.files import first_line
from rvertex.sources.formats.delimited import BLOCK_BYTES, csv_pieces, lines_of
from rvertex.sources.formats.rows.csv_rows import cut_rows
from rvertex.sources.formats.rows.line_rows import LineRows

if TYPE_CHECKING:
    from collections.abc import Collection

    from rvertex.sources.spec import Csv

#: Values of at least this size, in bytes, are text without further checks.
TEXT_BYTES_MIN = 65_536
#: Bytes of the first rows that are searched for unusual quotes.
QUOTES_BYTES_MAX = 1 << 20
#: A column is almost of a kind if at least this share of its values has that kind.
_MOST = 0.5
_KINDS = {
    "double": r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$",
    "timestamp": r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[-+]\d\d(:?\d\d)?)?$",
    "date": r"^\d{4}-\d\d-\d\d$",
    "bool": r"^(?i:true|false)$",
}


def _first_rows(path: str, delimiter: str, encoding: str) -> tuple[list[str], bytes]:
    """Return the header, and about a block of rows after it, or all rows of a shorter file."""
    header: list[str] = []
    rows = b""
    for head, piece, has_open_quote in csv_pieces(path, delimiter, encoding=encoding):
        header = head or header
        rows += _without_open_quotes(piece, delimiter) if has_open_quote else piece
        if len(rows) >= BLOCK_BYTES:
            break
    return header, rows.decode("utf-8", "backslashreplace").encode()


def _without_open_quotes(piece: bytes, delimiter: str) -> bytes:
    """Replace rows that are bad because of an open quote by empty lines."""
    rows = cut_rows(piece, delimiter, is_last=True)
    kept = []
    end = 0
    for lo, hi in zip(rows.starts[rows.is_open], rows.ends[rows.is_open], strict=True):
        kept += [piece[end:lo], b"\n" * lines_of(piece[lo:hi])]
        end = hi
    return b"".join([*kept, piece[end:]])


def infer_csv_schema(path: str, kind: Csv) -> pa.Schema:
    """Infer columns and types from the first rows, ignoring rows with another number of fields.

    Bytes that are not UTF-8 are text, and so are values of TEXT_BYTES_MIN or more.
    """
    header, piece = _first_rows(path, kind.delimiter, kind.encoding)
    piece = _without_long_values(piece, kind.delimiter)
    try:
        table = pacsv.read_csv(
            pa.BufferReader(piece + b"\n"),
            read_options=pacsv.ReadOptions(
                use_threads=False, block_size=len(piece) + 2, column_names=header
            ),
            parse_options=pacsv.ParseOptions(
                delimiter=kind.delimiter,
                newlines_in_values=True,
                invalid_row_handler=lambda row: "skip",
            ),
            convert_options=pacsv.ConvertOptions(null_values=list(kind.null_values)),
        )
    except pa.ArrowException as error:
        raise CorruptSourceError(path, None, first_line(error)) from error
    return table.schema


def _without_long_values(rows: bytes, delimiter: str) -> bytes:
    """Replace long values by a short text: Arrow would try each type on all of their bytes."""
    if max(map(len, rows.split(b"\n"))) < TEXT_BYTES_MIN:
        return rows
    ends = re.escape(delimiter.encode()) + rb'\r\n"'
    long = rb"(?<![^%s])[^%s]{%d,}+" % (ends, ends, TEXT_BYTES_MIN)
    return re.sub(long, b"text", rows)


@dataclass(frozen=True, slots=True)
class AlmostTyped:
    """A text column whose values mostly have another kind, and the first value that has not."""

    column: str
    kind: str
    share: float
    line: int
    value: str


def almost_typed(path: str, source: Csv, columns: Collection[str]) -> list[AlmostTyped]:
    """Find the text columns that are text only because of a few of the first rows."""
    header, piece = _first_rows(path, source.delimiter, source.encoding)
    found = []
    for name, values in _as_written(header, piece, source, columns).items():
        for kind, pattern in _KINDS.items():
            fits = pc.match_substring_regex(values, pattern)
            share = pc.mean(fits.cast(pa.float64())).as_py() or 0.0
            if _MOST <= share < 1:
                value = values[pc.index(fits, False).as_py()].as_py()
                line = _line_of(piece, source.delimiter, header.index(name), value)
                text = value.decode("utf-8", "backslashreplace")
                found.append(AlmostTyped(name, kind, share, line, text))
    return found


def first_values(path: str, kind: Csv, columns: Collection[str]) -> dict[str, pa.BinaryArray]:
    """Return the raw values of these columns in the first rows, without nulls."""
    return _as_written(*_first_rows(path, kind.delimiter, kind.encoding), kind, columns)


def text_after_quote(path: str, delimiter: str, encoding: str) -> tuple[int, str] | None:
    """Return line and content of the first quoted field with text after its closing quote."""
    _, piece = _first_rows(path, delimiter, encoding)
    piece = piece[:QUOTES_BYTES_MAX]
    if b'"' not in piece:
        return None
    ends = re.escape(delimiter.encode()) + rb"\r\n"
    field = re.compile(
        rb'("(?:[^"]|"")*+"(?P<rest>[^%s]*+)|[^%s]*+)(?:[%s]|\Z)' % (ends, ends, ends)
    )
    for match in field.finditer(piece):
        # The field continues after the piece
        if match["rest"] is None and match[1].startswith(b'"'):
            return None
        if match["rest"]:
            line = lines_of(piece[: match.start()]) + 1
            return line, match[1].decode("utf-8", "backslashreplace")
    return None


def _as_written(
    header: list[str], piece: bytes, kind: Csv, columns: Collection[str]
) -> dict[str, pa.BinaryArray]:
    wanted = [name for name in header if name in columns]
    if not wanted or not piece.strip(b"\r\n"):
        return {}
    table = pacsv.read_csv(
        pa.BufferReader(piece),
        read_options=pacsv.ReadOptions(
            use_threads=False, block_size=len(piece) + 1, column_names=header
        ),
        parse_options=pacsv.ParseOptions(
            delimiter=kind.delimiter,
            newlines_in_values=True,
            invalid_row_handler=lambda row: "skip",
        ),
        convert_options=pacsv.ConvertOptions(
            include_columns=wanted,
            column_types=dict.fromkeys(wanted, pa.binary()),
            null_values=list(kind.null_values),
            strings_can_be_null=True,
        ),
    )
    return {name: table.column(name).combine_chunks().drop_null() for name in wanted}


def _line_of(piece: bytes, delimiter: str, at: int, value: bytes) -> int:
    """Return the line of the first row whose field ``at`` has the value."""
    cut = cut_rows(piece, delimiter, is_last=True)
    rows = LineRows(piece, cut.starts, cut.ends, first_row=0, first_line=1)
    wanted = value.decode("utf-8", "backslashreplace")
    for k in range(len(cut.starts)):
        text = rows.raw(k).decode("utf-8", "backslashreplace")
        fields = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
        if len(fields) > at and fields[at] == wanted:
            return rows.origin(k).line or 0
    return 0

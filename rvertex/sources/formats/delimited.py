"""Reads CSV units: files that are divided at row ends into pieces for Arrow's parser.

The columns have the types that were inferred or declared when the job was planned, so later rows
cannot change them. If Arrow rejects a piece, it is halved repeatedly until each bad row is alone.
Pieces without bad rows take no extra time.
"""

from __future__ import annotations

import contextlib
import csv
import io
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from rstream.items.exact import check_infinite, is_bytes
from rstream.items.text_failures import failing, not_utf8
from rvertex.errors import CorruptSourceError, SourceVanishedError, UnreadableTextError
from rvertex.sources.files import bytes_to_read, first_line
from rvertex.sources.formats.rows.bad_rows import NO_TEXT, BadRow
from rvertex.sources.formats.rows.column_names import check_has
from rvertex.sources.formats.rows.csv_rows import UNCLOSED, cut_rows, field_counts, whole_rows
from rvertex.sources.formats.rows.line_rows import NOTHING_BEFORE, Before, LineRows, rows_of
from rvertex.sources.formats.rows.text_encoding import (
    NO_TEXT_IN,
    UTF_8,
    check_text,
    open_text,
)
from rvertex.sources.formats.rows.text_values import (
    decimals_as_text,
    has_times,
    times_as_text,
    with_values,
)
from rvertex.sources.spec import Csv

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rvertex.sources.formats.rows.line_rows import Origin
    from rvertex.sources.spec import SourceSpec, Unit

BLOCK_BYTES = 4 << 20
# A setting of the process; there is no limit, as in Arrow, which reads the rows
csv.field_size_limit(1 << 40)
#: The empty text, and texts that R, pandas and SQL write for a missing value.
_NOT_NULL = ', and null_values= does not name ""'
_WRONG_COUNT = "{} fields where the header has {}"
BOM = b"\xef\xbb\xbf"


class CsvUnits:
    """Reads the files of one CSV source."""

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        assert isinstance(spec.kind, Csv), spec.kind
        self._delimiter, self._encoding = spec.kind.delimiter, spec.kind.encoding
        self._nulls = list(spec.kind.null_values)
        self._convert = self._converted(decimals_as_text(spec.columns))
        #: Whether a piece had times that the parser cannot read as their columns' types.
        self._reads_times_as_text = False
        #: The columns of the current file.
        self._header: list[str] = []
        #: The last piece: its bytes, the number of its first row, and the number of its first line.
        #: Below: its rows, once requested.
        self._piece: tuple[bytes, int, int] = b"", 0, 1
        self._cut: LineRows | None = None
        self._before = NOTHING_BEFORE

    def batches(self, unit: Unit) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the unit in order, with the columns of the specification."""
        rows, lines = 0, 1
        self._before = Before(lambda: self._counted(unit))
        for head, piece, has_open_quote in self._pieces(unit, unit.lo, unit.hi):
            if head:
                self._header = head
                check_has(unit.path, head, self._spec.columns.names)
            self._piece, self._cut = (piece, rows, lines), None
            batch = None
            if not has_open_quote:
                try:
                    batch = self._parse(piece)
                except MemoryError:
                    raise
                except pa.ArrowException:
                    batch = None
            for part in [batch] if batch is not None else self._with_bad_rows(unit, rows):
                if part.num_rows:
                    yield part
                    rows += part.num_rows
            lines += lines_of(piece)

    def _with_bad_rows(self, unit: Unit, first_row: int) -> Iterator[pa.RecordBatch]:
        """Return the rows of the piece, which the parser rejected as a whole."""
        functions = self._parse_whole, self._inspect, self._explain
        return rows_of(self._spec, unit, self._rows(), first_row, *functions)

    def origin(self, unit: Unit, row: int) -> Origin:
        """Return the file position of a row of the last piece.

        ``row``: its number in the unit, from 0.
        """
        del unit
        return self._rows().origin(row)

    def close(self) -> None:
        """Do nothing: no file is open between units."""

    def _pieces(
        self, unit: Unit, lo: int, hi: int | None
    ) -> Iterator[tuple[list[str], bytes, bool]]:
        return csv_pieces(unit.path, self._delimiter, lo, hi, encoding=self._encoding)

    def _counted(self, unit: Unit) -> tuple[int, int]:
        """Count the rows and lines of the file before the unit."""
        rows = lines = 0
        if unit.lo:
            for _, piece, _ in self._pieces(unit, 0, unit.lo):
                rows += len(cut_rows(piece, self._delimiter, is_last=True).starts)
                lines += lines_of(piece)
        return rows, lines

    def _rows(self) -> LineRows:
        if self._cut is None:
            data, first_row, line = self._piece
            rows = cut_rows(data, self._delimiter, is_last=True)
            self._cut = LineRows(
                data,
                rows.starts,
                rows.ends,
                first_row=first_row,
                first_line=line,
                before=self._before,
                is_open=rows.is_open,
            )
        return self._cut

    def _parse(self, rows: bytes) -> pa.RecordBatch | None:
        """Parse these rows; None if there are none."""
        if not self._reads_times_as_text:
            try:
                return self._exact(rows, self._spec.columns, self._convert)
            except MemoryError:
                raise
            except pa.ArrowException:
                if not has_times(self._spec.columns):
                    raise
        parsed = self._with_times(rows, self._spec.columns)
        self._reads_times_as_text = True
        return parsed

    def _with_times(
        self, rows: bytes, columns: pa.Schema, header: list[str] | None = None
    ) -> pa.RecordBatch | None:
        """Parse these columns of the rows; times may have a zone or none."""
        as_text = self._converted(times_as_text(decimals_as_text(columns)))
        return self._exact(rows, columns, as_text, header)

    def _exact(
        self,
        rows: bytes,
        columns: pa.Schema,
        convert: pacsv.ConvertOptions,
        header: list[str] | None = None,
    ) -> pa.RecordBatch | None:
        """Parse these columns of the rows with the options ``convert``.

        Raises:
            pyarrow.ArrowInvalid: a row is bad.
        """
        header = self._header if header is None else header
        batch = parse_csv(rows, header, self._delimiter, convert)
        if batch is None:
            return None
        batch = batch if batch.schema == columns else with_values(batch, columns)
        infinite = [f.name for f in columns if _has_infinite(batch.column(f.name))]
        if infinite:
            as_text = pa.schema([(name, pa.string()) for name in infinite])
            written = parse_csv(rows, header, self._delimiter, self._converted(as_text))
            assert written is not None, "there are rows"
            for name in infinite:
                check_infinite(batch.column(name), written.column(name))
        return batch

    def _converted(self, columns: pa.Schema) -> pacsv.ConvertOptions:
        """Return the options for reading these columns."""
        return pacsv.ConvertOptions(
            include_columns=columns.names,
            column_types=columns,
            null_values=self._nulls,
            strings_can_be_null=True,
        )

    def _parse_whole(self, rows: bytes) -> pa.RecordBatch:
        if whole_rows(rows, self._delimiter, is_last=True)[1]:
            raise pa.ArrowInvalid(UNCLOSED)
        batch = self._parse(rows)
        assert batch is not None, rows[:80]
        return batch

    def _inspect(self, rows: LineRows) -> Iterator[dict[int, BadRow]]:
        """Yield bad rows and their reasons. Checks many rows at once."""
        yield self._bad_rows(rows)

    def _bad_rows(self, rows: LineRows) -> dict[int, BadRow]:
        bad = {k: BadRow(UNCLOSED) for k in np.flatnonzero(rows.is_open).tolist()}
        fields = field_counts(rows, self._delimiter)
        wrong = (fields != len(self._header)) & ~rows.is_open
        for k, count in zip(np.flatnonzero(wrong).tolist(), fields[wrong].tolist(), strict=True):
            bad[k] = BadRow(_WRONG_COUNT.format(count, len(self._header)))
        left = np.flatnonzero(~(wrong | rows.is_open))
        columns = pa.schema([(f.name, pa.binary()) for f in self._spec.columns])
        batch = None
        if len(left):
            with contextlib.suppress(pa.ArrowInvalid):  # on an error, the caller halves the rows
                batch = parse_csv(
                    rows.of(left), self._header, self._delimiter, self._converted(columns)
                )
        if batch is None or batch.num_rows != len(left):
            return bad
        for values, field in zip(batch.columns, self._spec.columns, strict=True):
            for k, row in self._bad_values(values, field).items():
                bad.setdefault(int(left[k]), row)
        return bad

    def _bad_values(self, values: pa.Array, field: pa.Field) -> dict[int, BadRow]:
        """Find the values that do not have their column's type, with reasons. Nulls are valid."""

        def convert(texts: pa.Array) -> None:
            quoted = pc.replace_substring(texts.cast(pa.binary()), b'"', b'""')
            lines = pc.binary_join_element_wise(b'"', quoted, b'"\n', b"").to_pylist()
            self._with_times(b"".join(lines), pa.schema([field]), [field.name])

        as_text = times_as_text(decimals_as_text(pa.schema([field]))).field(0).type
        kind = as_text.value_type if pa.types.is_dictionary(as_text) else as_text
        if is_bytes(kind):
            is_no_text, texts = np.zeros(len(values), np.bool_), values
        else:
            is_no_text = not_utf8(values)
            mask = pa.array(is_no_text)
            texts = pc.if_else(mask, pa.scalar(None, pa.binary()), values).cast(pa.string())
        is_wrong = failing(texts, field.type, convert)
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        places = np.flatnonzero(is_no_text | is_wrong)
        reason = f"not of type {field.type}"
        bad = {}
        for k, value in zip(
            places.tolist(), values.take(pa.array(places)).to_pylist(), strict=True
        ):
            why = NO_TEXT if is_no_text[k] and is_text else reason
            text = value.decode("utf-8", "backslashreplace")
            bad[k] = BadRow(why if value else why + _NOT_NULL, field.name, text)
        return bad

    def _explain(self, row: bytes) -> BadRow:
        """Return why the parser rejects this row alone."""
        if whole_rows(row, self._delimiter, is_last=True)[1]:
            return BadRow(UNCLOSED)
        text = row.decode("utf-8", "backslashreplace")
        fields = next(csv.reader(io.StringIO(text, newline=""), delimiter=self._delimiter), [])
        if len(fields) != len(self._header):
            return BadRow(_WRONG_COUNT.format(len(fields), len(self._header)))
        for field in self._spec.columns:
            try:
                self._with_times(row, pa.schema([field]))
            except MemoryError:
                raise
            except pa.ArrowException as error:
                is_text = "UTF8" not in str(error)
                reason = f"not of type {field.type}" if is_text else NO_TEXT
                value = fields[self._header.index(field.name)]
                if not value and is_text:
                    reason += _NOT_NULL
                return BadRow(reason, field.name, value)
        return BadRow("not a row of CSV")


def _has_infinite(column: pa.Array) -> bool:
    return pa.types.is_floating(column.type) and bool(pc.any(pc.is_inf(column)).as_py())


def csv_pieces(
    path: str, delimiter: str, lo: int = 0, hi: int | None = None, *, encoding: str = UTF_8
) -> Iterator[tuple[list[str], bytes, bool]]:
    """Yield the header, and the rows after it in pieces of whole rows, with a flag.

    ``[lo, hi)`` are the bytes of the file to read. The flag is true if a row of the piece has an
    open quote. The lines of the header count as part of the first piece, which begins with an empty
    line for each of them.

    Raises:
        SourceVanishedError, CorruptSourceError: the file cannot be read to its end.
        UnreadableTextError: it is not text in this encoding.
    """
    header: list[str] = []
    if lo:
        header, *_ = next(csv_pieces(path, delimiter))
        yield header, b"", False
    for piece, has_open_quote in _whole_rows(path, delimiter, lo, hi, encoding):
        if header:
            yield [], piece, has_open_quote
            continue
        rows = cut_rows(piece, delimiter, is_last=True)
        if len(rows.starts) == 0:
            continue
        end = int(rows.ends[0])
        if rows.is_open[0]:
            raise CorruptSourceError(path, None, f"the header has {UNCLOSED}")
        text = piece[:end].decode("utf-8", "backslashreplace")
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        header = next(row for row in reader if row)
        blank = b"\n" * lines_of(piece[:end])
        yield header, blank + piece[end:], has_open_quote
    if not header:
        raise CorruptSourceError(path, None, "Empty CSV file")


def _whole_rows(
    path: str, delimiter: str, lo: int, hi: int | None, encoding: str
) -> Iterator[tuple[bytes, bool]]:
    rest = b""
    is_first = lo == 0
    left = None if hi is None else hi - lo
    try:
        with open_text(path, lo, hi, encoding) as stream:
            while piece := stream.read(bytes_to_read(BLOCK_BYTES, left)):  # ends with the file
                left = None if left is None else left - len(piece)
                data = rest + piece
                if is_first and len(data) >= len(BOM):
                    check_text(path, data)
                    data, is_first = data.removeprefix(BOM), False
                cut, has_open_quote = whole_rows(data, delimiter, is_last=False)
                rest = data[cut:]
                if cut:
                    yield data[:cut], has_open_quote
    except FileNotFoundError as error:
        raise SourceVanishedError(path, first_line(error)) from error
    except UnicodeError as error:
        raise UnreadableTextError(path, NO_TEXT_IN.format(encoding, first_line(error))) from error
    except MemoryError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise CorruptSourceError(path, None, first_line(error)) from error
    if rest:
        yield rest, whole_rows(rest, delimiter, is_last=True)[1]


def parse_csv(
    rows: bytes, header: list[str], delimiter: str, convert: pacsv.ConvertOptions
) -> pa.RecordBatch | None:
    """Parse whole rows to a batch; None if there are none.

    Raises:
        pyarrow.ArrowInvalid: a row is bad.
    """
    if not rows.strip(b"\r\n"):
        return None
    if rows.startswith(BOM):  # the parser would remove it, but only in front of the first row
        rows = b"\n" + rows
    table = pacsv.read_csv(
        pa.BufferReader(rows),
        read_options=pacsv.ReadOptions(
            use_threads=False, block_size=len(rows) + 1, column_names=header
        ),
        parse_options=pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=convert,
    )
    (batch,) = table.combine_chunks().to_batches()
    return batch


def lines_of(piece: bytes) -> int:
    """Count the line ends of a piece."""
    if b"\r" not in piece:
        return piece.count(b"\n")
    return piece.count(b"\n") + piece.count(b"\r") - piece.count(b"\r\n")

"""Reads JSON-lines units: files that are divided at line ends into chunks for Arrow's parser.

Memory is bounded by one chunk (or one line, if a line is longer). A missing field is null, and
fields without a column are ignored. If Arrow rejects a chunk, it is halved repeatedly until each
bad line is alone. Chunks without bad lines take no extra time.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson

from rstream.items.exact import widened
from rstream.items.text_failures import is_utf8
from rvertex.errors import CorruptSourceError, SourceVanishedError, UnreadableTextError
from rvertex.sources.files import bytes_to_read, first_line
from rvertex.sources.formats.rows.bad_rows import ENCODED, NO_TEXT, BadRow
from rvertex.sources.formats.rows.json_values import bad_lines, repeated_key, value_of
from rvertex.sources.formats.rows.line_rows import NOTHING_BEFORE, Before, LineRows, rows_of
from rvertex.sources.formats.rows.nesting import TOO_DEEP, check_levels
from rvertex.sources.formats.rows.text_encoding import (
    NO_TEXT_IN,
    UTF_8,
    check_text,
    open_text,
)
from rvertex.sources.formats.rows.text_values import (
    has_times,
    times_as_text,
    with_values,
)
from rvertex.sources.spec import Json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rvertex.sources.formats.rows.line_rows import Origin
    from rvertex.sources.spec import SourceSpec, Unit

CHUNK_BYTES = 4 << 20
NO_OBJECT = "not a JSON object in one line"
_ONE_PER_LINE = "; write each object in one line, as jq -c '.[]' does with an array"
TWICE = "the key {!r} occurs more than once in an object"
_SPACE = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"
_INFER_LINES = 1_000


class JsonUnits:
    """Reads the files of one JSON-lines source."""

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        assert isinstance(spec.kind, Json), spec.kind
        self._encoding = spec.kind.encoding
        #: The last piece: its bytes, the number of its first row, and the number of its first line.
        self._piece: tuple[bytes, int, int] = b"", 0, 1
        #: The rows of the last piece, once requested.
        self._cut: LineRows | None = None
        self._before = NOTHING_BEFORE

    def batches(self, unit: Unit) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the unit in order."""
        rows, lines = 0, 1
        self._before = Before(lambda: _counted(unit))
        for chunk in json_chunks(unit.path, unit.lo, unit.hi, encoding=self._encoding):
            self._piece, self._cut = (chunk, rows, lines), None
            try:
                parts = iter([_batch(chunk, self._spec.columns)])
            except MemoryError:
                raise
            except pa.ArrowException:
                functions = self._parse, self._inspect, self._explain
                parts = rows_of(self._spec, unit, self._rows(), rows, *functions)
            for batch in parts:
                if batch.num_rows:
                    yield batch
                    rows += batch.num_rows
            lines += chunk.count(b"\n")

    def origin(self, unit: Unit, row: int) -> Origin:
        """Return the file position of a row of the last piece.

        ``row``: its number in the unit, from 0.
        """
        del unit
        return self._rows().origin(row)

    def close(self) -> None:
        """Do nothing: no file is open between units."""

    def _rows(self) -> LineRows:
        if self._cut is None:
            data, first_row, line = self._piece
            starts, ends = _line_places(data)
            self._cut = LineRows(
                data, starts, ends, first_row=first_row, first_line=line, before=self._before
            )
        return self._cut

    def _parse(self, lines: bytes) -> pa.RecordBatch:
        return _batch(lines, self._spec.columns)

    def _inspect(self, rows: LineRows) -> Iterator[dict[int, BadRow]]:
        """Yield bad lines and their reasons. Checks many lines at once, unusual lines first."""
        lines = [rows.raw(k) for k in range(len(rows.starts))]
        for bad_line in bad_lines(lines, self._spec.columns, NO_OBJECT, parse_json):
            yield {k: BadRow(*why) for k, why in bad_line.items()}

    def _explain(self, line: bytes) -> BadRow:
        """Return why the parser rejects this line alone."""
        if not is_utf8(line):
            return BadRow(NO_TEXT)
        if object_lines(line) is None:
            return BadRow(NO_OBJECT)
        try:
            check_levels(line)
        except pa.ArrowInvalid:
            return BadRow(TOO_DEEP)
        field = refused_column(line, self._spec.columns)
        key = repeated_key(line)
        if key is not None:
            return BadRow(TWICE.format(key), None if field is None else field.name)
        if field is None:
            return BadRow(NO_OBJECT)
        return BadRow(f"not of type {field.type}", field.name, value_of(line, field.name))


def _counted(unit: Unit) -> tuple[int, int]:
    """Count the rows and lines of the file before the unit."""
    rows = lines = 0
    if unit.lo:
        for chunk in json_chunks(unit.path, 0, unit.lo):
            rows += len(_line_places(chunk)[0])
            lines += chunk.count(b"\n")
    return rows, lines


def json_chunks(
    path: str, lo: int = 0, hi: int | None = None, *, encoding: str = UTF_8
) -> Iterator[bytes]:
    """Yield the pieces of :func:`chunks` without a byte order mark."""
    for k, chunk in enumerate(chunks(path, lo, hi, encoding=encoding)):
        yield chunk if k or lo else chunk.removeprefix(_BOM)


def chunks(
    path: str, lo: int = 0, hi: int | None = None, *, encoding: str = UTF_8
) -> Iterator[bytes]:
    """Yield the bytes ``[lo, hi)`` of a file in pieces that end at a line end, except the last.

    Raises:
        SourceVanishedError, CorruptSourceError: the file cannot be read to its end.
        UnreadableTextError: it is not text in this encoding.
    """
    rest = b""
    is_first = lo == 0
    left = None if hi is None else hi - lo
    try:
        with open_text(path, lo, hi, encoding) as stream:
            while piece := stream.read(bytes_to_read(CHUNK_BYTES, left)):  # ends with the file
                left = None if left is None else left - len(piece)
                if is_first:
                    check_text(path, piece)
                    is_first = False
                cut = piece.rfind(b"\n") + 1
                if cut:
                    yield rest + piece[:cut]
                    rest = piece[cut:]
                else:
                    rest += piece
    except FileNotFoundError as error:
        raise SourceVanishedError(path, first_line(error)) from error
    except UnicodeError as error:
        raise UnreadableTextError(path, NO_TEXT_IN.format(encoding, first_line(error))) from error
    except MemoryError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise CorruptSourceError(path, None, first_line(error)) from error
    if rest:
        yield rest


def parse_json(chunk: bytes, schema: pa.Schema | None) -> pa.Table:
    """Parse a chunk of whole lines to a table. ``schema`` None: infer columns and types.

    Times and dates are read from text as in CSV; a date may also be a number of days since 1970.
    """
    if schema is None:
        return _parsed(chunk, None)
    wide = pa.schema([f.with_type(widened(f.type)) for f in schema])
    dates = {f.name for f in schema if pa.types.is_date32(f.type)}
    if not (dates or has_times(schema)):
        return _parsed(chunk, schema) if wide == schema else _with_values(chunk, schema, wide)
    try:
        return _with_values(chunk, schema, times_as_text(wide, dates))
    except MemoryError:
        raise
    except pa.ArrowException:
        lines, numbered = _numbered_dates(chunk, sorted(dates))
        if not any(numbered):
            raise
    tables, places = [], []
    for names in sorted(set(numbered), key=sorted):
        own = [k for k, found in enumerate(numbered) if found == names]
        as_text = times_as_text(wide, dates - names)
        tables.append(_with_values(b"\n".join([lines[k] for k in own]), schema, as_text))
        if tables[-1].num_rows != len(own):
            raise pa.ArrowInvalid(NO_OBJECT)
        places += own
    return pa.concat_tables(tables).take(pa.array(np.argsort(places)))


def _numbered_dates(chunk: bytes, dates: Sequence[str]) -> tuple[list[bytes], list[frozenset[str]]]:
    """Return the lines of a chunk, and per line the columns of dates that may be numbers."""
    lines = [line for line in chunk.split(b"\n") if line.strip(_SPACE)]
    texts = pa.array(lines, pa.binary())
    marks = []
    for name in dates:
        key = re.escape(json.dumps(name, ensure_ascii=False))
        has_number = pc.match_substring_regex(texts, rf"{key}[ \t]*:[ \t]*-?\d")
        marks.append([name if is_number else "" for is_number in has_number.to_pylist()])
    if not marks:
        return lines, [frozenset()] * len(lines)
    return lines, [frozenset(names) - {""} for names in zip(*marks, strict=True)]


def _with_values(chunk: bytes, schema: pa.Schema, as_text: pa.Schema) -> pa.Table:
    table = _parsed(chunk, as_text).select(schema.names).combine_chunks()
    batches = [with_values(batch, schema) for batch in table.to_batches()]
    return pa.Table.from_batches(batches, schema=schema)


def _parsed(chunk: bytes, schema: pa.Schema | None) -> pa.Table:
    parse = pajson.ParseOptions(
        explicit_schema=schema,
        newlines_in_values=False,
        unexpected_field_behavior="infer" if schema is None else "ignore",
    )
    if not chunk.strip():
        return (schema or pa.schema([])).empty_table()
    check_levels(chunk)
    _check_nulls(chunk)
    read = pajson.ReadOptions(use_threads=False, block_size=len(chunk) + 1)
    return pajson.read_json(pa.BufferReader(chunk), read_options=read, parse_options=parse)


def _check_nulls(chunk: bytes) -> None:
    """Raise for a row that is null: as the first row it would crash the process (pyarrow 26.0.1).

    Raises:
        pyarrow.ArrowInvalid: a row is null.
    """
    if chunk.lstrip().startswith(b"null") or b"\nnull" in chunk:
        raise pa.ArrowInvalid("a row is null, not an object")


def refused_column(line: bytes, columns: pa.Schema) -> pa.Field | None:
    """Return the column that makes a line bad; None if the line is not an object."""
    refused = [f for f in columns if _refuses(line, pa.schema([f]))]
    if refused and (len(refused) < len(columns) or len(columns) == 1):
        return None if _refuses(line, pa.schema([])) else refused[0]
    return None


def object_lines(chunk: bytes) -> int | None:
    """Count the non-empty lines; None if a line does not begin and end as an object.

    The parser does not end an object at a line end. From lines that begin and end as objects, it
    returns as many rows as there are lines only if each line is one object.
    """
    body = chunk.strip(_SPACE)
    if not body:
        return 0
    newlines = body.count(b"\n")
    if body[:1] == b"{" and body[-1:] == b"}":
        if newlines in (body.count(b"}\n{"), body.count(b"}\r\n{")):
            return newlines + 1
        lines = [text for text in map(_stripped, body.split(b"\n")) if text]
        if all(text[:1] == b"{" and text[-1:] == b"}" for text in lines):
            return len(lines)
    return None


def infer_json_schema(path: str, encoding: str) -> pa.Schema:
    """Infer columns and types from the first lines of the file.

    If some lines cannot be read, or contradict each other, the types follow from the first thousand
    lines, without the lines that contradict earlier ones.
    """
    chunk, more = b"", json_chunks(path, encoding=encoding)
    while len(chunk) < CHUNK_BYTES and (piece := next(more, b"")):  # ends with the file
        chunk += piece
    if not chunk:
        raise CorruptSourceError(path, None, "the file is empty")
    try:
        return _checked_table(chunk, None).schema
    except MemoryError:
        raise
    except pa.ArrowException as error:
        lines = [text for text in chunk.split(b"\n")[:_INFER_LINES] if text.strip(_SPACE)]
        schema = _schema_of_good(lines)
        if schema is None:
            reason = first_line(error)
            reason += {NO_TEXT: ENCODED, NO_OBJECT: _ONE_PER_LINE}.get(reason, "")
            raise CorruptSourceError(path, None, reason) from error
        return schema


def _schema_of_good(lines: list[bytes]) -> pa.Schema | None:
    """Infer from the lines that do not contradict earlier ones; None if there are no such lines."""
    good: list[bytes] = []
    schema: pa.Schema | None = None
    todo = [(0, len(lines))]
    while todo:  # ends: each piece is parsed, or halved until it is one line
        lo, hi = todo.pop()
        try:
            schema = _checked_table(b"\n".join([*good, *lines[lo:hi]]), None).schema
            good += lines[lo:hi]
        except MemoryError:
            raise
        except pa.ArrowException:
            if hi - lo > 1:
                middle = (lo + hi) // 2
                todo += [(middle, hi), (lo, middle)]
    return schema if good else None


def _batch(chunk: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Parse whole lines, each of which is one object in UTF-8.

    Raises:
        pyarrow.ArrowInvalid: a line is not such an object.
    """
    table = _checked_table(chunk, schema)
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=schema)


def _checked_table(chunk: bytes, schema: pa.Schema | None) -> pa.Table:
    rows = object_lines(chunk)
    if rows is None or not is_utf8(chunk):
        raise pa.ArrowInvalid(NO_OBJECT if rows is None else NO_TEXT)
    table = parse_json(chunk, schema)
    if table.num_rows != rows:
        raise pa.ArrowInvalid(NO_OBJECT)
    return table


def _line_places(chunk: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Return the start and end offsets of the lines that are not empty."""
    lines = chunk.split(b"\n")
    ends = np.cumsum([len(text) + 1 for text in lines])
    is_row = np.array([bool(text.strip(_SPACE)) for text in lines])
    ends = np.minimum(ends, len(chunk))
    starts = np.append(0, ends[:-1])
    return starts[is_row], ends[is_row]


def _stripped(text: bytes) -> bytes:
    return text.strip(_SPACE)


def _refuses(chunk: bytes, schema: pa.Schema) -> bool:
    try:
        parse_json(chunk, schema)
    except MemoryError:
        raise
    except pa.ArrowException:
        return True
    return False

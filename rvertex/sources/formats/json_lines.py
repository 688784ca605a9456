"""JSON-lines units: one file each, cut at line ends into chunks that Arrow parses.

Memory is bounded by one chunk (or one line, if a line is longer). A field that is absent is null, a
field that nobody asked for is passed over. A chunk that Arrow refuses is halved until the line is
found, then the column; only errors pay for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.json as pajson

from rvertex.errors import (
    CorruptSourceError,
    SourceRowError,
    SourceVanishedError,
)
from rvertex.sources.files import first_line, open_sequential
from rvertex.sources.formats.nesting import TOO_DEEP, check_levels
from rvertex.sources.times import first_failure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rstream.errors import StreamEngineError
    from rvertex.sources.spec import SourceSpec, Unit

CHUNK_BYTES = 4 << 20


class JsonUnits:
    """Reads the files of one JSON-lines source."""

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec

    def batches(self, unit: Unit) -> Iterator[pa.RecordBatch]:
        """All rows of the file, in order."""
        rows = lines = 0
        for chunk in chunks(unit.path):
            try:
                table = parse_json(chunk, self._spec.columns)
            except pa.ArrowException as error:
                raise self._explain(unit, chunk, rows, lines) from error
            yield from table.to_batches()
            rows += table.num_rows
            lines += chunk.count(b"\n")

    def row_in_file(self, unit: Unit, row: int) -> tuple[int, int | None]:
        """Row ``row`` of the file (from 0) as row and line, both counted from 1."""
        left = row + 1
        line = 0
        for chunk in chunks(unit.path):
            for text in chunk.removesuffix(b"\n").split(b"\n"):
                line += 1
                left -= bool(text.strip())
                if left == 0:
                    return row + 1, line
        return row + 1, None

    def close(self) -> None:
        """Nothing is held between units."""

    def _explain(self, unit: Unit, chunk: bytes, rows: int, lines: int) -> StreamEngineError:
        """The first line of a refused chunk that is refused by itself too."""
        texts = chunk.removesuffix(b"\n").split(b"\n")
        columns = self._spec.columns

        def fails(lo: int, hi: int) -> bool:
            return _refuses(b"\n".join(texts[lo:hi]), columns)

        bad = first_failure(len(texts), fails)
        row = rows + sum(bool(t.strip()) for t in texts[: bad + 1])
        value = texts[bad][:80].decode("utf-8", "replace")
        try:
            check_levels(texts[bad])
        except pa.ArrowInvalid:
            return SourceRowError(unit.path, row, lines + bad + 1, None, value, TOO_DEEP)
        field = refused_column(texts[bad], columns)
        if field is not None:
            reason = f"not of type {field.type}"
            return SourceRowError(unit.path, row, lines + bad + 1, field.name, value, reason)
        return SourceRowError(unit.path, row, lines + bad + 1, None, value, "not a JSON object")


def chunks(path: str) -> Iterator[bytes]:
    """The bytes of a file in pieces that end at a line end (the last one may not).

    Raises:
        SourceVanishedError, CorruptSourceError: the file cannot be read to its end.
    """
    rest = b""
    try:
        with open_sequential(path) as stream:
            while piece := stream.read(CHUNK_BYTES):  # ends with the file
                cut = piece.rfind(b"\n") + 1
                if cut:
                    yield rest + piece[:cut]
                    rest = piece[cut:]
                else:
                    rest += piece
    except FileNotFoundError as error:
        raise SourceVanishedError(path, first_line(error)) from error
    except (pa.ArrowException, OSError) as error:
        raise CorruptSourceError(path, None, first_line(error)) from error
    if rest:
        yield rest


def parse_json(chunk: bytes, schema: pa.Schema | None) -> pa.Table:
    """A chunk of whole lines as a table; ``schema`` None: columns and types are inferred."""
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
    """Refuse a row that is null: at the beginning it would end the process (pyarrow 26.0.1).

    Raises:
        pyarrow.ArrowInvalid: there is one.
    """
    if chunk.lstrip().startswith(b"null") or b"\nnull" in chunk:
        raise pa.ArrowInvalid("a row is null, and no object")


def refused_column(line: bytes, columns: pa.Schema) -> pa.Field | None:
    """The column that is to blame for a refused line; None if the line is no object at all."""
    refused = [f for f in columns if _refuses(line, pa.schema([f]))]
    if refused and (len(refused) < len(columns) or len(columns) == 1):
        return None if _refuses(line, pa.schema([])) else refused[0]
    return None


def infer_json_schema(path: str) -> pa.Schema:
    """Columns and types as the first chunk of the file suggests them."""
    for chunk in chunks(path):
        try:
            return parse_json(chunk, None).schema
        except pa.ArrowException as error:
            raise CorruptSourceError(path, None, first_line(error)) from error
    raise CorruptSourceError(path, None, "the file is empty")


def _refuses(chunk: bytes, schema: pa.Schema) -> bool:
    try:
        parse_json(chunk, schema)
    except pa.ArrowException:
        return True
    return False

"""Decodes JSON: a message is one object. Missing fields are null, undeclared fields are ignored.

Messages are joined as lines and parsed at once. The parser does not end an object at a line end. So
each line must begin and end as an object, and there must be as many rows as lines: then each line
is exactly one object. Messages with another layout are first converted to this form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from rstream.items.text_failures import is_utf8
from rvertex.sources.formats.json_lines import (
    TWICE,
    parse_json,
    refused_column,
)
from rvertex.sources.formats.rows.bad_rows import NO_TEXT
from rvertex.sources.formats.rows.json_values import bad_lines, repeated_key, value_of
from rvertex.sources.formats.rows.nesting import TOO_DEEP, check_levels
from rvertex.sources.logs.decode.decoded import (
    Bad,
    Decoded,
    Refused,
    decode_one_row_each,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NO_OBJECT = "not a JSON object"
_SPACE = b" \t\r\n"
#: Replaces line ends by tabs: both are whitespace between tokens, and not allowed within strings.
_ONE_LINE = bytes.maketrans(b"\r\n", b"\t\t")


class JsonDecoder:
    """Parses objects into the columns of ``schema``."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        return decode_one_row_each(values, self._schema, self._parse, self._inspect, self._explain)

    def _parse(self, values: Sequence[bytes]) -> pa.RecordBatch:
        lines = b"\n".join(values)
        if not _is_object_per_line(lines, len(values)):
            lines = b"\n".join([_as_line(value) for value in values])
            if not _is_object_per_line(lines, len(values)):
                raise Refused
        if not is_utf8(lines):  # the parser does not check it
            raise Refused
        try:
            table = parse_json(lines, self._schema)
        except MemoryError:
            raise
        except pa.ArrowException as error:
            raise Refused from error
        if table.num_rows != len(values):
            raise Refused
        (batch,) = table.combine_chunks().to_batches()
        return batch.select(self._schema.names)

    def _inspect(self, values: Sequence[bytes]) -> Iterator[dict[int, Bad]]:
        for bad in bad_lines([*map(_as_line, values)], self._schema, NO_OBJECT, parse_json):
            yield {k: Bad(*why) for k, why in bad.items()}

    def _explain(self, value: bytes) -> Bad:
        line = _as_line(value)
        if not is_utf8(line):
            return Bad(NO_TEXT)
        if not _is_object_per_line(line, 1):
            return Bad(NO_OBJECT)
        try:
            check_levels(line)
        except pa.ArrowInvalid:
            return Bad(TOO_DEEP)
        field = refused_column(line, self._schema)
        key = repeated_key(line)
        if key is not None:
            return Bad(TWICE.format(key), None if field is None else field.name)
        return Bad(NO_OBJECT) if field is None else _wrong(line, field)


def _is_object_per_line(lines: bytes, count: int) -> bool:
    return (
        lines.startswith(b"{")
        and lines.endswith(b"}")
        and lines.count(b"}\n{") == count - 1 == lines.count(b"\n")
    )


def _wrong(line: bytes, field: pa.Field) -> Bad:
    return Bad(f"not of type {field.type}", field.name, value_of(line, field.name))


def _as_line(value: bytes) -> bytes:
    return value.strip(_SPACE).translate(_ONE_LINE)

"""Encode rows as JSON objects, one text per row, built column by column.

Types that JSON does not have: decimals are exact texts. Times are texts in ISO 8601; those with a
zone are in UTC and end with ``Z``. Durations are integers in the unit of their column. Bytes are
hexadecimal texts. NaN and infinities are null.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from rstream.items.calendar import text_in_any_year
from rstream.items.dictionaries import plain_array
from rstream.items.exact import is_bytes
from rstream.items.json_text import json_texts

if TYPE_CHECKING:
    from collections.abc import Callable

NULL = "null"
#: Characters that must be escaped in JSON strings.
_ESCAPED = r'[\x00-\x1f"\\]'


def json_rows(table: pa.RecordBatch) -> pa.Array:
    """Return an object for each row, as UTF-8 text."""
    parts: list[pa.Array | str] = []
    for number, (name, column) in enumerate(zip(table.schema.names, table.columns, strict=True)):
        opening = "{" if number == 0 else ","
        parts += [f"{opening}{json.dumps(name, ensure_ascii=False)}:", json_values(column)]
    if not parts:
        return pa.array(["{}"] * table.num_rows)
    return pc.binary_join_element_wise(
        *parts, "}", "", null_handling="replace", null_replacement=NULL
    )


def json_values(column: pa.Array) -> pa.Array:
    """Return the JSON text of each value; a null stays a null."""
    column = plain_array(column)
    for fits, convert in _FORMS:
        if fits(column.type):
            return convert(column)
    return json_texts(column)


def _numbers(column: pa.Array) -> pa.Array:
    return column.cast(pa.string())


def _floats(column: pa.Array) -> pa.Array:
    finite = pc.if_else(pc.is_finite(column), column, pa.scalar(None, column.type))
    return finite.cast(pa.string())


def _decimals(column: pa.Array) -> pa.Array:
    return _quoted(column.cast(pa.string()))


def _texts(column: pa.Array) -> pa.Array:
    texts = column.cast(pa.string())
    if not pc.any(pc.match_substring_regex(texts, _ESCAPED)).as_py():
        return _quoted(texts)
    whole = (None if v is None else json.dumps(v, ensure_ascii=False) for v in texts.to_pylist())
    return pa.array(whole, pa.string())


def _bytes(column: pa.Array) -> pa.Array:
    return _quoted(
        pa.array((None if v is None else v.hex() for v in column.to_pylist()), pa.string())
    )


def _timestamps(column: pa.Array) -> pa.Array:
    # Arrow formats times with a zone 50 times slower. The stored values are UTC in any case.
    bare = column.cast(pa.int64()).cast(pa.timestamp(column.type.unit))
    texts = pc.replace_substring(_written(bare), " ", "T", max_replacements=1)
    return _quoted(texts, "" if column.type.tz is None else "Z")


def _as_text(column: pa.Array) -> pa.Array:
    return _quoted(_written(column))


def _written(column: pa.Array) -> pa.Array:
    if pa.types.is_time(column.type) or pa.types.is_date64(column.type):
        return column.cast(pa.string())
    return text_in_any_year(column, lambda times: times.cast(pa.string()))


def _durations(column: pa.Array) -> pa.Array:
    return column.cast(pa.int64()).cast(pa.string())


def _quoted(texts: pa.Array, end: str = "") -> pa.Array:
    return pc.binary_join_element_wise('"', texts, f'{end}"', "")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _is_day_or_clock(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_time(kind))


_Form = tuple["Callable[[pa.DataType], bool]", "Callable[[pa.Array], pa.Array]"]
_FORMS: tuple[_Form, ...] = (
    (_is_number, _numbers),
    (pa.types.is_floating, _floats),
    (_is_text, _texts),
    (pa.types.is_timestamp, _timestamps),
    (pa.types.is_decimal, _decimals),
    (_is_day_or_clock, _as_text),
    (pa.types.is_duration, _durations),
    (is_bytes, _bytes),
)

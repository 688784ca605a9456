"""Finds the bad lines among many JSON objects, at about the cost of parsing them in Python.

Arrow only reports that one of many lines is bad. This module finds the usual kinds of bad lines.
Other lines (deep nesting, a key twice, surrogates, numbers beyond a double) are left to Arrow,
which parses all good lines in any case.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from rstream.items.text_failures import failing, is_utf8
from rvertex.sources.formats.rows.bad_rows import NO_TEXT
from rvertex.sources.formats.rows.json_shapes import unusual_lines
from rvertex.sources.formats.rows.nesting import LEVELS_MAX
from rvertex.sources.formats.rows.text_values import with_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: The verdicts on a value. ``_TEXT``: it depends on the value's text.
_GOOD, _BAD, _TEXT, _UNKNOWN = range(4)
#: Types whose values are read from text.
_READ = (kinds.is_timestamp, kinds.is_date32, kinds.is_decimal)
#: Texts that Python's parser and Arrow's parser read differently.
_SPECIAL = re.compile(rb"Inf|\x00|\\u[dD][89a-fA-F]|\d[eE]\+?\d{3}|\d{300}|-0[^.\d]")


class _Number(str):
    """A number with a fraction or an exponent, as it is written."""

    __slots__ = ()


def bad_lines(
    lines: Sequence[bytes],
    columns: pa.Schema,
    no_object: str,
    parse: Callable[[bytes, pa.Schema], object],
) -> Iterator[dict[int, tuple[str, str | None, str | None]]]:
    """Yield bad lines by line number: the reason, the column and the value. Some may be missing.

    Lines that do not have the form of the others are inspected first, then all others.
    """
    is_unusual = unusual_lines(pa.array(lines, pa.binary()), columns)
    for places in (np.flatnonzero(is_unusual).tolist(), np.flatnonzero(~is_unusual).tolist()):
        bad = _bad_among([lines[k] for k in places], columns, no_object, parse)
        yield {places[k]: why for k, why in bad.items()}


def _bad_among(
    lines: Sequence[bytes],
    columns: pa.Schema,
    no_object: str,
    parse: Callable[[bytes, pa.Schema], object],
) -> dict[int, tuple[str, str | None, str | None]]:
    bad: dict[int, tuple[str, str | None, str | None]] = {}
    places, objects = [], []
    for k, line in enumerate(lines):
        text = line.strip(b" \t\r\n")
        if not is_utf8(line):
            bad[k] = (NO_TEXT, None, None)
        elif text[:1] != b"{" or text[-1:] != b"}":
            bad[k] = (no_object, None, None)
        else:
            places.append(k)
            objects.append(text)
    for k, field in bad_objects(objects, columns, parse).items():
        if field is None:
            bad[places[k]] = (no_object, None, None)
        else:
            value = value_of(objects[k], field.name)
            bad[places[k]] = (f"not of type {field.type}", field.name, value)
    return bad


def bad_objects(
    lines: Sequence[bytes],
    columns: pa.Schema,
    parse: Callable[[bytes, pa.Schema], object],
) -> dict[int, pa.Field | None]:
    """Return bad lines by line number, with the column to blame; None: the line is not an object.

    ``lines`` are UTF-8 and begin and end as objects do. ``parse`` raises an ArrowException if one
    or more of its lines are bad. Bad lines may be missing from the result.
    """
    bad: dict[int, pa.Field | None] = {}
    places: list[int] = []
    rows: list[dict[str, Any]] = []
    number = _Number if any(_has_decimals(f.type) for f in columns) else float
    decode = json.JSONDecoder(parse_float=number).decode
    text = b"\n".join(lines)
    is_special = _SPECIAL.search(text) is not None
    is_deep = text.count(b"{") + text.count(b"[") - len(lines) >= LEVELS_MAX
    for k, line in enumerate(lines):
        if is_special and _SPECIAL.search(line):
            continue
        if is_deep and line.count(b"{") + line.count(b"[") > LEVELS_MAX:
            continue
        try:
            rows.append(decode(line.decode()))
            places.append(k)
        except json.JSONDecodeError:
            bad[k] = None
        except ValueError:  # the line has a number with more digits than Python reads
            continue
    marks = {f.name: _column_marks(rows, f, parse) for f in columns}
    is_bad = np.any([mark == _BAD for mark in marks.values()], axis=0)
    is_known = ~np.any([mark == _UNKNOWN for mark in marks.values()], axis=0)
    for i in np.flatnonzero(is_bad & is_known).tolist():
        line = lines[places[i]]
        if repeated_key(line) is None:
            refused = [f for f in columns if marks[f.name][i] == _BAD]
            is_object = len(refused) < len(columns) or len(columns) == 1
            bad[places[i]] = refused[0] if is_object else None
    return bad


def repeated_key(line: bytes) -> str | None:
    """Return a key that an object in the line has more than once; None if there is none."""
    repeated: list[str] = []

    def look(pairs: list[tuple[str, object]]) -> dict[str, object]:
        repeated.extend(
            name for name, times in Counter(name for name, _ in pairs).items() if times > 1
        )
        return dict(pairs)

    try:
        json.loads(line, object_pairs_hook=look)
    except (ValueError, RecursionError):
        return None
    return repeated[0] if repeated else None


def value_of(line: bytes, name: str) -> str | None:
    """Return the value of a field as it is written, for a message."""
    try:
        document = json.loads(line)
        return json.dumps(document[name], ensure_ascii=False) if name in document else None
    except (ValueError, TypeError, RecursionError):
        return None


def _has_decimals(kind: pa.DataType) -> bool:
    """Return whether values of the type are decimals, or have some in them at any depth."""
    if kinds.is_dictionary(kind):
        return _has_decimals(kind.value_type)
    inner = (kind.field(k).type for k in range(kind.num_fields))
    return bool(kinds.is_decimal(kind)) or any(map(_has_decimals, inner))


def _column_marks(
    rows: Sequence[dict[str, Any]],
    field: pa.Field,
    parse: Callable[[bytes, pa.Schema], object],
) -> np.ndarray:
    """Return whether each row's value has the field's type: ``_GOOD``, ``_BAD`` or ``_UNKNOWN``."""
    values = [row.get(field.name) for row in rows]
    types = set(map(type, values)) - {type(None)}
    if _are_good(values, types, field.type):
        return np.full(len(values), _GOOD)
    is_read = any(is_kind(field.type) for is_kind in _READ)
    if types <= {str} and is_read:
        return np.where(_wrong_texts(values, field, parse), _BAD, _GOOD)
    usual = _TEXT if is_read else _GOOD if kinds.is_string(field.type) else _UNKNOWN
    marks = np.array(
        [
            usual if usual != _UNKNOWN and type(value) is str else _judged(value, field.type)
            for value in values
        ]
    )
    at = np.flatnonzero(marks == _TEXT)
    texts = [str(values[k]) for k in at.tolist()]
    marks[at] = np.where(_wrong_texts(texts, field, parse), _BAD, _GOOD)
    return marks


def _wrong_texts(
    texts: list[Any], field: pa.Field, parse: Callable[[bytes, pa.Schema], object]
) -> np.ndarray:
    """Return which texts, or None, do not have the type of the field."""

    def convert(some: pa.Array) -> None:
        if not kinds.is_decimal(field.type):
            with_values(pa.RecordBatch.from_arrays([some], [field.name]), [field])
            return
        head = f'{{{json.dumps(field.name)}: "'  # texts with the form of a decimal need no escapes
        lines = pc.binary_join_element_wise(head, some, '"}', "").to_pylist()
        parse("\n".join(lines).encode(), pa.schema([field]))

    return failing(pa.array(texts, pa.string()), field.type, convert)


def _are_good(values: list[Any], types: set[type], kind: pa.DataType) -> bool:
    """Return whether all values have a plain type, whose types in Python are ``types``.

    False means unknown.
    """
    if kinds.is_integer(kind):
        present = [value for value in values if value is not None]
        low, high = _bounds(kind)
        return types <= {int} and low <= min(present, default=0) and max(present, default=0) <= high
    if kinds.is_floating(kind):
        return types <= {int, float, _Number}
    if kinds.is_string(kind):
        return types <= {str}
    return bool(kinds.is_boolean(kind)) and types <= {bool}


def _bounds(kind: pa.DataType) -> tuple[int, int]:
    low = -(2 ** (kind.bit_width - 1)) if kinds.is_signed_integer(kind) else 0
    return low, low + 2**kind.bit_width - 1


def _judged(value: Any, kind: pa.DataType) -> int:
    """Return whether a value has the type."""
    if value is None:
        return _GOOD
    is_number = isinstance(value, int | _Number) and not isinstance(value, bool)
    if kinds.is_integer(kind):
        if not isinstance(value, int) or isinstance(value, bool):
            return _UNKNOWN if value == "NaN" else _BAD
        low, high = _bounds(kind)
        return _GOOD if low <= value <= high else _BAD
    if kinds.is_floating(kind):
        return _GOOD if is_number or isinstance(value, float) else _BAD
    if kinds.is_string(kind):
        return _GOOD if _is_text(value) else _BAD
    if kinds.is_boolean(kind):
        return _GOOD if isinstance(value, bool) else _BAD
    if kinds.is_timestamp(kind):
        return _TEXT if _is_text(value) else _BAD
    if kinds.is_date32(kind):
        return _TEXT if _is_text(value) else _UNKNOWN if is_number else _BAD
    if kinds.is_decimal(kind):
        return _TEXT if is_number or _is_text(value) else _BAD
    return _judged_nested(value, kind)


def _judged_nested(value: Any, kind: pa.DataType) -> int:
    if kinds.is_list(kind):
        if not isinstance(value, list):
            return _BAD
        marks = [_judged(one, kind.value_type) for one in value]
    elif kinds.is_struct(kind):
        if not isinstance(value, dict):
            return _BAD
        marks = [_judged(value.get(f.name), f.type) for f in kind]
    else:
        return _UNKNOWN
    if _TEXT in marks or _UNKNOWN in marks:
        return _UNKNOWN
    return _BAD if _BAD in marks else _GOOD


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, _Number)

"""Notes for users about values that are read as other values than the file contains.

The notes are based on the first rows of the first file, which also determine the column types.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from rstream.errors import StreamEngineError
from rvertex.sources.formats.first_rows.csv_look import (
    almost_typed,
    first_values,
    text_after_quote,
)
from rvertex.sources.formats.json_lines import chunks
from rvertex.sources.formats.parquet import cut_times
from rvertex.sources.spec import Csv, Json, Parquet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rvertex.sources.spec import SourceSpec

#: Name of a column or of a field within it, the value in the file, and the value as it is read.
_Changed = tuple[str, str, str]

_PLURAL = {"double": "numbers", "timestamp": "times", "date": "dates", "bool": "truth values"}
#: Numbers with more digits than a double can always represent. Longer texts are not numbers.
_LONG = r"^[ ]*[+-]?[0-9.]{16,300}[ ]*$"
_LONG_MEMBER = re.compile(rb"[:\[,]\s*-?[0-9.]{16,300}\s*[,}\]]")
#: Numbers that may be identifiers, such as postal codes, telephone numbers or part numbers: 00501,
#: 0x1F, +49170, 12E5.
_NAME_LIKE = r"^[ ]*([+-]?0[0-9xX]|\+[0-9]|[0-9]+[eE][0-9])"
_BIT = r"^[ ]*[01][ ]*$"


def value_notes(spec: SourceSpec, path: str) -> list[str]:
    """Return notes on values that lose information; the reader reports errors of the file."""
    try:
        match spec.kind:
            case Csv() as kind:
                return [
                    *_text_columns(spec, kind, path),
                    *_changed_columns(spec, path, _fields),
                    *_odd_quotes(spec, kind, path),
                ]
            case Json():
                return _changed_columns(spec, path, _members)
            case Parquet():
                return _cut_times(spec, path)
            case _:
                return []
    except (StreamEngineError, pa.ArrowException, OSError):
        return []


def _inferred(spec: SourceSpec) -> list[pa.Field]:
    """Return the emitted columns without a declared type."""
    return [f for f in spec.schema if f.name not in (spec.vs, spec.ve, *spec.files.casts)]


def _text_columns(spec: SourceSpec, kind: Csv, path: str) -> list[str]:
    """Report columns that are text because of a few values, with the first of these values."""
    names = {f.name for f in _inferred(spec) if kinds.is_string(f.type)}
    times = {
        f.name
        for f in spec.columns
        if f.name in (spec.vs, spec.ve)
        and f.name not in spec.files.casts
        and kinds.is_string(f.type)
    }
    if not names | times:
        return []
    return [
        f"source {spec.path}: column {a.column!r} is text because of line {a.line} of {path}: "
        f"{a.value!r:.80} ({a.share:.1%} of the first values are {_PLURAL[a.kind]}); set "
        + _how_to_read(a.column, "int64" if a.column in times else a.kind, a.column in times)
        for a in almost_typed(path, kind, names | times)
        if a.column not in times or a.kind == "double"  # times in ISO 8601 may be text
    ]


def _how_to_read(column: str, kind: str, is_time: bool) -> str:
    typed = f'schema={{"{column}": "{kind}"}} with on_bad_row= or null_values= to read them so'
    return typed if is_time else f'{typed}, or schema={{"{column}": "string"}} if text is right'


def _odd_quotes(spec: SourceSpec, kind: Csv, path: str) -> list[str]:
    """Report the first field with text after its closing quote, because its quotes are lost."""
    odd = text_after_quote(path, kind.delimiter, kind.encoding)
    if odd is None:
        return []
    line, field = odd
    return [
        f"source {spec.path}: line {line} of {path} has text after a closing quote: "
        f'{field!r:.80}; a quote within a quoted field is written twice (""), not with a '
        "backslash"
    ]


def _changed_columns(spec: SourceSpec, path: str, changed: Any) -> list[str]:
    """Report per column the first value that is read as another value."""
    first: dict[str, _Changed] = {}
    for change in changed(_inferred(spec), path, spec):
        first.setdefault(change[0], change)
    return [_change(spec, path, *change) for change in first.values()]


def _change(spec: SourceSpec, path: str, name: str, written: str, read: str) -> str:
    root, _, within = name.partition(".") if name not in spec.schema.names else (name, "", "")
    kind = "double" if within else spec.schema.field(root).type
    exact = "string" if spec.format == "csv" else "decimal(38, 0)"
    wanted = f'"{exact}"' if not within else f"its type with {exact} for {within}"
    kept = f'"{kind}"' if not within else "its type as it is"
    return (
        f"source {spec.path}: column {name!r} is {kind}, so {written} of {path} is read "
        f'as {read}; set schema={{"{root}": {wanted}}} to keep the exact value, or '
        f'schema={{"{root}": {kept}}} if that is right'
    )


def _fields(columns: list[pa.Field], path: str, spec: SourceSpec) -> Iterator[_Changed]:
    """Yield changed fields of CSV rows."""
    types = {f.name: f.type for f in columns if _may_change(f.type)}
    assert isinstance(spec.kind, Csv), spec.kind
    if not types:
        return
    for name, values in first_values(path, spec.kind, types).items():
        pattern = _BIT if kinds.is_boolean(types[name]) else _NAME_LIKE
        for written in _matching(values, pattern)[:1]:
            read = bool(int(written)) if pattern == _BIT else _number(written)
            yield name, written, str(read).lower()
        if kinds.is_floating(types[name]):
            for written in filter(_is_rounded, _matching(values, _LONG)):
                yield name, written, _read(written)


def _may_change(kind: pa.DataType) -> bool:
    return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind))


def _matching(values: pa.BinaryArray, pattern: str) -> list[str]:
    matching = values.filter(pc.match_substring_regex(values, pattern))
    return [value.decode().strip() for value in matching.to_pylist()]


def _number(written: str) -> int | float:
    if "x" in written.lower():
        return int(written, 16)
    return int(written) if written.lstrip("-").isdigit() else float(written)


def _members(columns: list[pa.Field], path: str, spec: SourceSpec) -> Iterator[_Changed]:
    """Yield changed fields of JSON objects, at any depth."""
    doubles = {name for f in columns for name in _doubles(f.name, f.type)}
    assert isinstance(spec.kind, Json), spec.kind
    piece = next(chunks(path, encoding=spec.kind.encoding), b"") if doubles else b""
    for line in filter(_LONG_MEMBER.search, piece.splitlines()):
        try:
            row = json.loads(line, parse_int=_Written, parse_float=_Written)
        except (ValueError, RecursionError):  # an incomplete or bad line, which the reader reports
            continue
        for name, member in row.items() if isinstance(row, dict) else ():
            for place, written in _numbers(name, member):
                if place in doubles and _is_rounded(written):
                    yield place, written, _read(written)


class _Written(str):
    """A number together with its text in the file."""

    __slots__ = ()


def _doubles(name: str, kind: pa.DataType) -> Iterator[str]:
    """Yield the paths of doubles in a column; the items of a list have the list's path."""
    if kinds.is_floating(kind):
        yield name
    elif kinds.is_list(kind):
        yield from _doubles(name, kind.value_type)
    elif kinds.is_struct(kind):
        for f in kind:
            yield from _doubles(f"{name}.{f.name}", f.type)


def _numbers(name: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, _Written):
        yield name, str(value)
    elif isinstance(value, list):
        for item in value:
            yield from _numbers(name, item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _numbers(f"{name}.{key}", item)


def _is_rounded(written: str) -> bool:
    """Return whether the double that is read differs from the number in the file."""
    return len(written) < 300 and Decimal(written) != Decimal(_read(written))


def _read(written: str) -> str:
    """Return the text of the double that is read.

    A whole number has all its digits, other numbers their shortest form.
    """
    number = float(written)
    return str(int(number)) if written.lstrip("+-").isdigit() else repr(number)


def _cut_times(spec: SourceSpec, path: str) -> list[str]:
    """Report INT96 times with more digits than the reader keeps."""
    names = {*spec.schema.names} - {spec.vs, spec.ve}
    return [
        f"source {spec.path}: column {name!r} has INT96 times, which are read in microseconds: "
        f"{written} ns of {path} is cut; write it as INT64 to keep nanoseconds"
        for name, written in cut_times(path, names)
    ]

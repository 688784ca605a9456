"""Decodes posted rows: NDJSON, an Arrow IPC stream, or Arrow batches.

A JSON value must have the type of its column: no number in quotes, no fraction for an integer.
Times and dates are ISO-8601 strings, decimals strings or integers, bytes base64. A missing key is
null. A key without a column is an error. The standard library parses the body, because it fails
cleanly on any malicious input; Arrow's JSON reader does not.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from jobmanager.intake.errors import BadRowError, MediaTypeError, PostError
from rstream.errors import InvalidBatchError, RowError
from rstream.intake.rows import as_rows
from rstream.items.exact import decimals_of, exact_array

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

NDJSON, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"
_NDJSON_TOO = ("application/ndjson", "application/jsonl", "application/json")
_VALUE_CHARS_MAX = 80
#: The Arrow type of a column without values.
_NOTHING = type(None)


def decode(name: str, media_type: str, body: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Decode the rows of a post for the stream ``name``.

    Raises:
        MediaTypeError, PostError, BadRowError: the post is invalid; no row of it is appended.
    """
    kind = media_type.partition(";")[0].strip().lower()
    if kind == ARROW:
        return _arrow(name, body, schema)
    if kind == NDJSON or kind in _NDJSON_TOO:
        return _ndjson(body, schema)
    raise MediaTypeError(media_type[:_VALUE_CHARS_MAX] or "(none)", f"{NDJSON} or {ARROW}")


def not_arrow(error: BaseException) -> PostError:
    """Return the error for bytes that the Arrow reader rejects.

    It contains the reader's message.
    """
    first_line = (str(error).splitlines() or [type(error).__name__])[0]
    return PostError(f"the body is not an Arrow IPC stream: {first_line}")


def checked(name: str, given: pa.Table | pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Validate untrusted Arrow rows, and convert them to rows of the stream ``name``.

    Raises:
        PostError, BadRowError: the rows are invalid; none is appended.
    """
    try:
        given.validate(full=True)
    except (pa.ArrowException, ValueError) as error:
        raise not_arrow(error) from error
    try:
        return as_rows(name, schema, given)
    except RowError as error:
        raise BadRowError(error.row + 1, error.column, error.reason) from error
    except InvalidBatchError as error:
        raise PostError(error.reason) from error


def _arrow(name: str, body: bytes, schema: pa.Schema) -> pa.RecordBatch:
    try:
        table = pa.ipc.open_stream(pa.py_buffer(body)).read_all()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise not_arrow(error) from error
    return checked(name, table, schema)


def _ndjson(body: bytes, schema: pa.Schema) -> pa.RecordBatch:
    rows, lines = _objects(body, frozenset(schema.names))
    if not rows:
        raise PostError("the body has no row")
    columns = [_column(field, [row.get(field.name) for row in rows], lines) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _objects(body: bytes, known: frozenset[str]) -> tuple[list[dict[str, Any]], list[int]]:
    """Parse all lines that are not blank. Return their objects and line numbers."""
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    for line, text in enumerate(body.split(b"\n"), start=1):
        if not text.strip():
            continue
        try:
            row = _DECODER.decode(text.decode())
        except UnicodeDecodeError as error:
            raise BadRowError(line, "", f"not UTF-8 at byte {error.start}") from error
        except json.JSONDecodeError as error:
            raise BadRowError(
                line, "", f"not JSON: {error.msg} at character {error.colno}"
            ) from None
        except _TwiceError as error:
            raise BadRowError(line, str(error), "the key occurs more than once") from None
        except (ValueError, RecursionError) as error:
            raise BadRowError(line, "", f"not JSON: {error}") from None
        if not isinstance(row, dict):
            raise BadRowError(line, "", f"{_shown(row)} is not an object")
        if not known.issuperset(row):
            other = next(name for name in row if name not in known)
            reason = f"not a column of the stream, which has {', '.join(sorted(known))}"
            raise BadRowError(line, other[:_VALUE_CHARS_MAX], reason)
        rows.append(row)
        lines.append(line)
    return rows, lines


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")


class _TwiceError(Exception):
    """A JSON object has the same key twice."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of these pairs.

    A duplicate key is an error, but ``json`` would keep the last.
    """
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        raise _TwiceError(next(n for n in names if names.count(n) > 1)[:_VALUE_CHARS_MAX])
    return row


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:_VALUE_CHARS_MAX]} is too large for a number")
    return number


_DECODER = json.JSONDecoder(
    parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_unique
)


def _column(field: pa.Field, values: list[Any], lines: list[int]) -> pa.Array:
    kind = field.type
    types, convert = _expected(kind)
    value_types = set(map(type, values))
    if types is not None and not value_types <= types:
        at = next(k for k, value in enumerate(values) if type(value) not in types)
        raise BadRowError(lines[at], field.name, f"{_shown(values[at])} is not {kind}")
    if not field.nullable and _NOTHING in value_types:
        at = values.index(None)
        raise BadRowError(lines[at], field.name, f"null in a column that is {kind} not null")
    try:
        return convert(values, kind)
    except _REFUSALS:
        at = _first_refused(convert, values, kind)
        raise BadRowError(lines[at], field.name, f"{_shown(values[at])} is not {kind}") from None


_REFUSALS = (pa.ArrowException, TypeError, ValueError, OverflowError)


def _expected(kind: pa.DataType) -> tuple[frozenset[type] | None, Callable[..., pa.Array]]:
    """Return the allowed JSON types of a column (None: any), and the conversion to its array."""
    for is_kind, types, convert in _KINDS:
        if is_kind(kind):
            return types, convert
    return None, _as_nested


def _as_given(values: list[Any], kind: pa.DataType) -> pa.Array:
    return exact_array(values, kind)


def _as_nested(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Convert nested values after a check, because Arrow drops unknown keys and reads true as 1."""
    for value in values:
        _check_within(value, kind)
    return exact_array([_with_bytes(value, kind) for value in values], kind)


def _with_bytes(value: Any, kind: pa.DataType) -> Any:
    """Return the value with all nested base64 texts of binary fields decoded."""
    if isinstance(value, list) and _is_list(kind):
        return [_with_bytes(item, kind.value_type) for item in value]
    if isinstance(value, dict) and pa.types.is_struct(kind):
        types = {f.name: f.type for f in kind}
        return {k: _with_bytes(v, types[k]) for k, v in value.items()}
    if isinstance(value, str) and _is_binary(kind):
        return base64.b64decode(value, validate=True)
    return value


def _check_within(value: Any, kind: pa.DataType) -> None:
    """Check values in lists and structs by the same rules as values of columns.

    Raises:
        ValueError: a value has another type, or a struct has an unknown key.
    """
    types, _ = _expected(kind)
    if types is not None and type(value) not in types:
        raise ValueError(f"{_shown(value)} is not {kind}")
    if _is_list(kind):
        for inner in value or ():
            _check_within(inner, kind.value_type)
    elif pa.types.is_struct(kind) and value is not None:
        if not isinstance(value, dict) or not {f.name for f in kind}.issuperset(value):
            raise ValueError(f"{_shown(value)} is not {kind}")
        for field in kind:
            _check_within(value.get(field.name), field.type)


def _as_text(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array(values, pa.string()).cast(kind)


def _as_decimal(values: list[Any], kind: pa.DataType) -> pa.Array:
    return decimals_of(pa.array([None if v is None else str(v) for v in values], pa.string()), kind)


def _as_bytes(values: list[Any], kind: pa.DataType) -> pa.Array:
    try:
        contents = [None if v is None else base64.b64decode(v, validate=True) for v in values]
    except binascii.Error as error:
        raise ValueError(str(error)) from error
    return pa.array(contents, kind)


def _types(*types: type) -> frozenset[type]:
    return frozenset((*types, _NOTHING))


def _is_from_text(kind: pa.DataType) -> bool:
    return any(
        is_kind(kind) for is_kind in (pa.types.is_timestamp, pa.types.is_date, pa.types.is_time)
    )


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


_KINDS: tuple[tuple[Callable[[pa.DataType], bool], frozenset[type], Any], ...] = (
    (pa.types.is_integer, _types(int), _as_given),
    (pa.types.is_floating, _types(int, float), _as_given),
    (pa.types.is_boolean, _types(bool), _as_given),
    (_is_text, _types(str), _as_given),
    (_is_from_text, _types(str), _as_text),
    (pa.types.is_decimal, _types(str, int), _as_decimal),
    (_is_binary, _types(str), _as_bytes),
    (_is_list, _types(list), _as_nested),  # Arrow would read a text as a list of characters
)


def _first_refused(convert: Callable[..., pa.Array], values: Iterable[Any], kind: Any) -> int:
    for at, value in enumerate(values):
        try:
            convert([value], kind)
        except _REFUSALS:
            return at
    raise AssertionError(f"each value alone is {kind}, but not all together")


def _shown(value: object) -> str:
    return json.dumps(value)[:_VALUE_CHARS_MAX]

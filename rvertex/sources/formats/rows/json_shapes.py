r"""Finds the few JSON objects that do not have the form of the others, by regular expressions.

The form is taken from a long line among the first lines: its keys in order, with values of the
types of the columns. Most bad lines do not have it, and almost all good lines do. So only a few
lines must be parsed in Python. A wrong guess costs only time, because Arrow parses all good lines.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from rstream.items.text_failures import CLOCK, DATE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Most forms to try. Each is the form of the longest of some lines that match no earlier form.
FORMS_MAX = 4
_SAMPLES = 16
_LEVELS_MAX = 8
_FORM_CHARS_MAX = 20_000
_SPACE = r"[ \t\r\n]*"
#: Escapes except halves of surrogate pairs.
_ESCAPE = r'\\(?:["\\/bfnrt]|u(?:[0-9a-cefA-CEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}))'
_TEXT = rf'"(?:[^"\\\x00-\x1f]|{_ESCAPE})*"'
_NUMBER = r"-?(?:0|[1-9]\d{0,17})(?:\.\d{1,30})?(?:[eE][+-]?\d\d?)?"
_ANY = f"{_TEXT}|{_NUMBER}|true|false"
_TIME = rf'"{DATE}(?:[T ]{CLOCK}(?:Z|[+-]\d\d:?\d\d)?)?"'


def unusual_lines(lines: pa.BinaryArray, columns: pa.Schema) -> np.ndarray:
    """Return which lines do not have the form of the others, bool[n]."""
    types = {f.name: f.type for f in columns}
    left = np.arange(len(lines))
    for _ in range(FORMS_MAX):
        samples = lines.take(pa.array(left[:_SAMPLES])).to_pylist()
        forms = (_form_of(line, types) for line in sorted(samples, key=len, reverse=True))
        form = next((form for form in forms if form is not None), None)
        if form is None:
            break
        try:
            has_form = pc.match_substring_regex(lines.take(pa.array(left)), form)
        except pa.ArrowInvalid:  # the expression is too large
            break
        left = left[~has_form.to_numpy(zero_copy_only=False)]
    is_unusual = np.zeros(len(lines), np.bool_)
    is_unusual[left] = True
    return is_unusual


def _form_of(line: bytes, types: Mapping[str, pa.DataType]) -> str | None:
    """Return a pattern of lines that have some of the keys of this line in the same order."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    form = _object(document, types.get, 0)
    if len(form) > _FORM_CHARS_MAX:
        return None
    return f"^{_SPACE}{form}{_SPACE}$"


def _object(
    sample: Mapping[str, Any], type_of: Callable[[str], pa.DataType | None], level: int
) -> str:
    """Return a pattern of objects like ``sample``: keys may be missing, commas are not checked."""
    members = [
        rf"(?:{re.escape(json.dumps(name, ensure_ascii=False))}{_SPACE}:{_SPACE}"
        rf"(?:{_value(value, type_of(name), level + 1)}|null){_SPACE}(?:,{_SPACE})?)?"
        for name, value in sample.items()
    ]
    return rf"\{{{_SPACE}{''.join(members)}\}}"


def _value(sample: Any, kind: pa.DataType | None, level: int) -> str:
    """Return a pattern of the values of a type. ``kind`` None: no column reads the value."""
    if level > _LEVELS_MAX:
        return "null"
    if isinstance(sample, dict):
        if kind is not None and not kinds.is_struct(kind):
            return "null"
        inner = {} if kind is None else {f.name: f.type for f in kind}
        return _object(sample, inner.get, level)
    if isinstance(sample, list):
        if kind is not None and not kinds.is_list(kind):
            return "null"
        one = _value(sample[0] if sample else None, kind and kind.value_type, level + 1)
        more = f"(?:{_SPACE},{_SPACE}(?:{one}|null))*"
        return rf"\[{_SPACE}(?:(?:{one}|null){more})?{_SPACE}\]"
    return _ANY if kind is None else _plain(kind)


def _plain(kind: pa.DataType) -> str:
    if kinds.is_integer(kind):
        high = str(2 ** (kind.bit_width - kinds.is_signed_integer(kind)) - 1)
        fewer = rf"[1-9]\d{{0,{len(high) - 2}}}"
        most = rf"[1-{int(high[0]) - 1}]\d{{{len(high) - 1}}}" if high[0] > "1" else fewer
        sign = "-?" if kinds.is_signed_integer(kind) else ""
        return f"0|{sign}(?:{fewer}|{most})"
    if kinds.is_floating(kind):
        return _NUMBER
    if kinds.is_boolean(kind):
        return "true|false"
    if kinds.is_string(kind):
        return _TEXT
    if kinds.is_date32(kind):
        return rf'"{DATE}"|-?\d{{1,7}}'
    if kinds.is_timestamp(kind):
        return _TIME
    if kinds.is_decimal(kind):
        whole, scale = max(kind.precision - kind.scale, 1), max(kind.scale, 1)
        number = rf"-?(?:0|[1-9]\d{{0,{whole - 1}}})(?:\.\d{{1,{scale}}})?"
        return f'{number}|"{number}"'
    return _ANY

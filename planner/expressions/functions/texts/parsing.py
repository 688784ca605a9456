"""Texts taken apart by a pattern: times that are written by a format, and the parts of a URL.

A format is one regular expression, in the syntax that RE2 and Java share, so the batch reads with
the same one. No locale and no platform has a say: names of months and days are English. A time
without a zone is UTC. What cannot be read is an error, or null where that was asked for.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner.errors import InvalidPlanError
from planner.expressions.functions.signature import method, text_of, typed
from planner.expressions.functions.texts.words import named_groups
from planner.expressions.nodes import Function
from planner.expressions.types import TIMESTAMP_UTC

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.expressions.nodes import Call, Node, Value

_INTEGER, _TEXT = pa.int64(), pa.string()
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September",
           "October", "November", "December")  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
#: How many letters short names have.
_SHORT = 3


def _one_of(names: Sequence[str]) -> str:
    return f"((?i:{'|'.join(names)}))"


_CODES = {
    "Y": "([0-9]{4})",
    "y": "([0-9]{2})",
    "m": "(1[0-2]|0[1-9]|[1-9])",
    "d": "(3[01]|[12][0-9]|0[1-9]|[1-9])",
    "H": "(2[0-3]|[01][0-9]|[0-9])",
    "I": "(1[0-2]|0[1-9]|[1-9])",
    "p": "((?i:am|pm))",
    "M": "([0-5][0-9]|[0-9])",
    "S": "([0-5][0-9]|[0-9])",
    "f": "([0-9]{1,6})",
    "b": _one_of([name[:_SHORT] for name in _MONTHS]),
    "B": _one_of(_MONTHS),
    "a": _one_of([name[:_SHORT] for name in _DAYS]),
    "A": _one_of(_DAYS),
    "z": "(Z|[+-][0-9]{2}:?[0-9]{2})",
}
#: Codes of which a format has one at most.
_ALTERNATIVES = ("Yy", "mbB", "HI")
_FORMAT_PART = re.compile(r"%(.?)|([ \t\r\n]+)|(.)", re.DOTALL)
#: Two digits of a year below this are of the years after 2000.
_CENTURY = 69
_SPACE = r" \t\r\n\f\x0B"
_URL = (
    r"\A(?:([A-Za-z][A-Za-z0-9+.-]*):)?"
    rf"(?://((?:([^/?#@{_SPACE}]*)@)?(\[[^\]/?#{_SPACE}]*\]|[^:/?#{_SPACE}]*)(?::[^/?#{_SPACE}]*)?))?"
    rf"(([^?#{_SPACE}]*)(?:\?([^#{_SPACE}]*))?)"
    rf"(?:#([^{_SPACE}]*))?\z"
)
#: The groups of :data:`_URL`.
URL_PARTS = {
    "protocol": 1, "authority": 2, "userinfo": 3, "host": 4, "file": 5, "path": 6, "query": 7,
    "ref": 8,
}  # fmt: skip


def time_pattern(format: str) -> tuple[str, tuple[str, ...]]:
    """The regular expression of a format, and the letters of its groups in their order.

    Raises:
        InvalidPlanError: the format has an unknown code, one twice, or no year.
    """
    codes: list[str] = []

    def one(found: re.Match[str]) -> str:
        if found[1] is None:
            return "[ \\t]+" if found[2] else re.escape(found[3])
        if found[1] == "%":
            return "%"
        if found[1] not in _CODES:
            known = " ".join(f"%{letter}" for letter in _CODES)
            raise InvalidPlanError(f"no %{found[1]} in the format {format!r}; there are {known}")
        codes.append(found[1])
        return _CODES[found[1]]

    pattern = _FORMAT_PART.sub(one, format)
    for group in (*_ALTERNATIVES, *_CODES):
        if sum(code in group for code in codes) > 1:
            said = " or ".join(f"%{letter}" for letter in group)
            raise InvalidPlanError(f"the format {format!r} has {said} more than once")
    if not {"Y", "y"} & set(codes):
        raise InvalidPlanError(f"the format {format!r} has no year: %Y, or %y of two digits")
    if ("I" in codes) != ("p" in codes):
        raise InvalidPlanError(f"the format {format!r}: %I and %p, AM or PM, stand together")
    return rf"\A{pattern}\z", tuple(codes)


def month_names(code: str) -> tuple[str, ...]:
    """The names of ``%b`` or ``%B``, in lower case."""
    return tuple(name.lower()[: _SHORT if code == "b" else None] for name in _MONTHS)


def _on_arrays(
    evaluate: Callable[[pa.Array, Call], pa.Array],
) -> Callable[[Sequence[Value], Call], Value]:
    def evaluated(values: Sequence[Value], call: Call) -> Value:
        (value,) = values
        if isinstance(value, pa.Scalar):
            return evaluate(pa.array([value.as_py()], _TEXT), call)[0]
        return evaluate(value, call)

    return evaluated


def _resolve_time(call: Call) -> Node | None:
    time_pattern(str(call.option("format")))
    return typed(call, TIMESTAMP_UTC, _TEXT) if text_of(call.args[0]) else None


def _parsed(texts: pa.Array, call: Call) -> pa.Array:
    """The times; null of what does not fit."""
    pattern, codes = time_pattern(str(call.option("format")))
    found = pc.extract_regex(texts, named_groups(pattern))
    fits = found.is_valid().to_numpy(zero_copy_only=False)
    groups = {code: pc.struct_field(found, f"g{at}") for at, code in enumerate(codes, 1)}
    months = (_year(groups) - 1970) * 12 + _month(groups) - 1
    first = months.astype("M8[M]").astype("M8[D]")
    days = first.astype(np.int64) + _whole(groups.get("d"), 1) - 1
    fits &= days < (months + 1).astype("M8[M]").astype("M8[D]").astype(np.int64)
    fits &= _year(groups) > 0
    seconds = days * 86_400 + _hour(groups) * 3_600 + _whole(groups.get("M")) * 60
    seconds += _whole(groups.get("S")) - _offset(groups.get("z"), len(texts))
    fraction = groups.get("f")
    micros = seconds * 1_000_000
    if fraction is not None:
        micros += _whole(pc.utf8_rpad(fraction, 6, "0"))
    return pa.array(micros, _INTEGER, mask=~fits).cast(TIMESTAMP_UTC)


def _whole(texts: pa.Array | None, default: int = 0) -> np.ndarray:
    """Digits as numbers; ``default`` for a group that is not there."""
    if texts is None:
        return np.full(1, default, np.int64)
    found: np.ndarray = pc.fill_null(texts.cast(_INTEGER), default).to_numpy()
    return found


def _year(groups: dict[str, pa.Array]) -> np.ndarray:
    if "Y" in groups:
        return _whole(groups["Y"], 1970)
    short = _whole(groups["y"], 70)
    found: np.ndarray = short + np.where(short < _CENTURY, 2000, 1900)
    return found


def _month(groups: dict[str, pa.Array]) -> np.ndarray:
    for code in "bB":
        if code in groups:
            names = pa.array(month_names(code))
            place = pc.index_in(pc.utf8_lower(groups[code]), names)
            return _whole(place) + 1
    return _whole(groups.get("m"), 1)


def _hour(groups: dict[str, pa.Array]) -> np.ndarray:
    if "I" not in groups:
        return _whole(groups.get("H"))
    is_later = pc.fill_null(pc.equal(pc.utf8_lower(groups["p"]), "pm"), False)
    found: np.ndarray = _whole(groups["I"]) % 12 + 12 * is_later.to_numpy(zero_copy_only=False)
    return found


def _offset(zones: pa.Array | None, rows: int) -> np.ndarray:
    """Seconds east of UTC."""
    if zones is None:
        return np.zeros(rows, np.int64)
    plain = pc.if_else(pc.equal(zones, "Z"), "+0000", pc.replace_substring(zones, ":", ""))
    hours, minutes = (_whole(pc.utf8_slice_codeunits(plain, at, at + 2)) for at in (1, 3))
    is_west = pc.fill_null(pc.starts_with(plain, "-"), False).to_numpy(zero_copy_only=False)
    east: np.ndarray = np.where(is_west, -1, 1) * (hours * 3_600 + minutes * 60)
    return east


def _parsed_or_error(texts: pa.Array, call: Call) -> pa.Array:
    found = _parsed(texts, call)
    if found.null_count > texts.null_count:
        remedy = "strict=False, in SQL TRY_TO_TIMESTAMP, makes it null"
        raise pa.ArrowInvalid(f"a text is no time as {call.option('format')!r} has it ({remedy})")
    return found


def url_pattern(key: str | None) -> str:
    """The regular expression of a URL, or of a value of its query."""
    return _URL if key is None else rf"(?:\A|&){re.escape(key)}=([^&]*)"


def _resolve_url(call: Call) -> Node | None:
    return typed(call, _TEXT, _TEXT) if text_of(call.args[0]) else None


def _url(texts: pa.Array, call: Call) -> pa.Array:
    """A part as it is written; null where there is none, and of what is no URL."""
    part, key = str(call.option("part")), call.option("key")
    found = pc.extract_regex(texts, named_groups(_URL))
    made = pc.struct_field(found, f"g{URL_PARTS[part]}").cast(_TEXT)
    if part not in ("path", "file"):
        made = pc.if_else(pc.equal(made, ""), None, made)
    if key is None:
        return made
    values = pc.extract_regex(made, named_groups(url_pattern(str(key))))
    return pc.struct_field(values, "g1").cast(_TEXT)


FUNCTIONS = {
    "parse_time": Function(
        "str.to_timestamp",
        _resolve_time,
        _on_arrays(_parsed_or_error),
        method("str.to_timestamp", "format"),
    ),
    "try_parse_time": Function(
        "str.to_timestamp",
        _resolve_time,
        _on_arrays(_parsed),
        lambda call: f"{method('str.to_timestamp', 'format')(call)[:-1]}, strict=False)",
    ),
    "url": Function("str.url", _resolve_url, _on_arrays(_url), method("str.url", "part", "key")),
}

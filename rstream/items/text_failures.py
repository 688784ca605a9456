"""Finds which texts do not convert to a type, at about the cost of converting them.

Arrow only reports that one of many texts does not convert. Each distinct text is tried once. Texts
that no conversion to the type accepts are found by a pattern, the others by halving.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

if TYPE_CHECKING:
    from collections.abc import Callable

_LEAP_YEAR = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
#: Pattern of a day of the calendar.
DATE = (
    r"(?:\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
    rf"|02-(?:0[1-9]|1\d|2[0-8]))|{_LEAP_YEAR}-02-29)"
)
CLOCK = r"(?:[01]\d|2[0-3])(?::?[0-5]\d(?::?[0-5]\d(?:\.\d*)?)?)?"
_ZONE = r"\s*(?:Z|[+-]\d{2}(?::?\d{2})?)?"
#: Times in ISO's basic form and in weeks, which are rewritten before they are converted.
_OTHER_TIME = r"\d{8}T(?s:.*)|\d{4}-?W\d\d(?s:.*)"
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_INFINITE = r"[+-]?(?i:inf(?:inity)?|nan(?:\([a-z0-9_]*\))?)"
#: Whitespace that is removed around numbers and times before they are converted.
_SPACE = r"(?:\s|\p{Z}|[\x0b\x1c-\x1f\x{85}])*"
_LOGICAL = "(?i:true|false|[a-z]{1,3}|[01])"


def failing(
    texts: pa.Array, kind: pa.DataType, convert: Callable[[pa.Array], object]
) -> np.ndarray:
    """Return which of the texts fail to convert to ``kind``, bool[n]; nulls do not fail.

    ``convert`` raises an ArrowException or OverflowError if one or more texts fail. Whether a text
    fails must depend on that text only.
    """
    encoded = texts if kinds.is_dictionary(texts.type) else texts.dictionary_encode()
    values = encoded.dictionary
    is_bad = hopeless(values, kind)
    for place in alone(np.flatnonzero(~is_bad), values, convert):
        is_bad[place] = True
    at = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    if not len(values):
        return np.zeros(len(texts), np.bool_)
    bad: np.ndarray = is_bad[at]
    if encoded.indices.null_count:
        bad &= encoded.indices.is_valid().to_numpy(zero_copy_only=False)
    return bad


def alone(places: np.ndarray, values: pa.Array, convert: Callable[[pa.Array], object]) -> list[int]:
    """Return the ``places`` of values that fail, found by halving."""
    bad: list[int] = []
    todo = [places]
    while todo:  # ends: each part converts, or is halved until it is one value
        part = todo.pop()
        if not len(part):
            continue
        try:
            convert(values.take(pa.array(part)))
        except MemoryError:
            raise
        except (pa.ArrowException, OverflowError):
            if len(part) == 1:
                bad.append(int(part[0]))
            else:
                half = len(part) // 2
                todo += [part[half:], part[:half]]
    return bad


def not_utf8(values: pa.BinaryArray) -> np.ndarray:
    """Return which values are not UTF-8, bool[n]."""
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return np.array([v is not None and not is_utf8(v) for v in values.to_pylist()], np.bool_)
    return np.zeros(len(values), np.bool_)


def is_utf8(data: bytes) -> bool:
    """Return whether the bytes are UTF-8."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def hopeless(texts: pa.Array, kind: pa.DataType) -> np.ndarray:
    """Return which texts no conversion to ``kind`` accepts, bool[n]. False may mean unknown."""
    pattern = _pattern(kind)
    if pattern is None:
        return np.zeros(len(texts), np.bool_)
    may = pc.match_substring_regex(texts, f"^{_SPACE}(?:{pattern}){_SPACE}$")
    is_hopeless: np.ndarray = pc.invert(may.fill_null(True)).to_numpy(zero_copy_only=False)
    return is_hopeless


def _pattern(kind: pa.DataType) -> str | None:
    """Return a pattern that matches all texts that a conversion may accept; None: unknown."""
    if kinds.is_integer(kind):
        digits = len(str(2**kind.bit_width))
        return rf"[+-]?0*\d{{1,{digits}}}|0[xX][0-9a-fA-F]+"
    if kinds.is_floating(kind):
        return f"{_NUMBER}|{_INFINITE}"
    if kinds.is_boolean(kind):
        return _LOGICAL
    if kinds.is_date(kind):
        return DATE
    if kinds.is_timestamp(kind):
        return rf"{DATE}(?:[ T]{CLOCK}{_ZONE})?|{_OTHER_TIME}"
    if kinds.is_decimal(kind):
        whole = max(kind.precision - kind.scale, 0)
        return rf"[+-]?(?:0*\d{{0,{whole}}}(?:\.\d*)?)|{_NUMBER}[eE](?s:.*)"
    return None

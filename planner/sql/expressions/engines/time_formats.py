"""Time formats in SQL: Java's letters, and the letters of TO_CHAR in PostgreSQL and Oracle."""

from __future__ import annotations

import operator
import re
from functools import reduce
from typing import TYPE_CHECKING

from planner.errors import InvalidPlanError

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.api.expressions import Expr

_SECOND_US = 1_000_000
#: Java's letters in a time format -> ours.
_JAVA = {
    "yyyy": "%Y", "yy": "%y", "MMMM": "%B", "MMM": "%b", "MM": "%m", "dd": "%d", "HH": "%H",
    "hh": "%I", "mm": "%M", "ss": "%S", "EEEE": "%A", "EEE": "%a", "DDD": "%j", "a": "%p",
    "EE": "%a", "E": "%a", "uuuu": "%Y", "y": "%Y",
}  # fmt: skip
#: Letters whose values have no leading zeros.
_SHORT: dict[str, Callable[[Expr], Expr]] = {
    "d": lambda t: t.dt.day(),
    "M": lambda t: t.dt.month(),
    "H": lambda t: t.dt.hour(),
    "h": lambda t: (t.dt.hour() + 11) % 12 + 1,
    "m": lambda t: t.dt.minute(),
    "s": lambda t: t.dt.second(),
    "D": lambda t: t.dt.day_of_year(),
    "Q": lambda t: t.dt.quarter(),
}
#: TO_CHAR's letters in a time format -> ours.
_CHAR = {
    "YYYY": "%Y", "YY": "%y", "MM": "%m", "DDD": "%j", "DD": "%d", "HH24": "%H", "HH12": "%I",
    "HH": "%I", "MI": "%M", "SS": "%S", "MON": "%b", "MONTH": "%B", "DAY": "%A", "DY": "%a",
    "AM": "%p", "PM": "%p",
}  # fmt: skip
#: Java's letters for reading: as for writing, but a fraction may have any number of digits.
JAVA_READ = {
    **_JAVA, **{letter: _JAVA[letter * 2] for letter in ("M", "d", "H", "h", "m", "s")},
    "y": "%Y", "u": "%Y", "uuuu": "%Y",
    "EE": "%a", "E": "%a", **{"S" * n: "%f" for n in range(1, 7)},
    **dict.fromkeys(("X", "XX", "XXX", "Z", "ZZ", "ZZZ", "x", "xx", "xxx"), "%z"),
}  # fmt: skip
_FRACTION_MAX = 6
_JAVA_PART = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|(.)", re.DOTALL)
_CHAR_PART = re.compile(
    "|".join(sorted(_CHAR, key=len, reverse=True)) + r'|"([^"]*)"|([A-Za-z]+)|(.)', re.I | re.S
)
#: Names, and numbers without leading zeros; text in quotes has neither.
_CHAR_ITEM = re.compile(
    r'"[^"]*"|(FM)?(MONTH|MON|DAY|DY|(?-i:am|pm))|FM(DD|MM|HH24|HH12|HH|MI|SS)', re.IGNORECASE
)
_NAME_WIDTH = 9
_SHORT_CHAR = {"DD": "d", "MM": "M", "HH24": "H", "HH12": "h", "HH": "h", "MI": "m", "SS": "s"}


def java_format(written: str, codes: dict[str, str] = _JAVA) -> str:
    """Convert ``yyyy-MM-dd`` to ``%Y-%m-%d``."""

    def one(match: re.Match[str]) -> str:
        if match[1] is not None:
            return match[1].replace("''", "'").replace("%", "%%") or "'"
        if match[2] is None:
            return match[3].replace("%", "%%")
        return _code(match[0], codes, written)

    return _JAVA_PART.sub(one, written)


def java_formatted(time: Expr, written: str) -> Expr:
    """Format a time by a Java pattern such as ``yyyy-MM-dd HH:mm:ss.SSS``; ``d`` adds no zero."""
    parts: list[Expr] = []
    plain = ""
    for match in _JAVA_PART.finditer(written):
        word = match[0]
        digits = len(word) if word.strip("S") == "" else 0
        if word not in _SHORT and not 0 < digits <= _FRACTION_MAX:
            plain += word
            continue
        if plain:
            parts.append(time.dt.format(java_format(plain)))
            plain = ""
        if digits:
            us = time.dt.epoch_us() % _SECOND_US // 10 ** (_FRACTION_MAX - digits)
            parts.append(us.cast("string").str.pad_left(digits, "0"))
        else:
            parts.append(_SHORT[word](time).cast("string"))
    if plain or not parts:
        parts.append(time.dt.format(java_format(plain)))
    return reduce(operator.add, parts)


def char_format(written: str) -> str:
    """Convert ``YYYY-MM-DD`` to ``%Y-%m-%d``."""

    def one(match: re.Match[str]) -> str:
        if match[1] is not None or match[3] is not None:
            return (match[1] or match[3] or "").replace("%", "%%")
        return _code(match[0].upper(), _CHAR, written)

    return _CHAR_PART.sub(one, written)


def char_formatted(time: Expr, written: str) -> Expr:
    """Format a time, as in ``FMDay, DD MON YYYY``.

    Names have the case of their letters in the format. Without ``FM``, MONTH and DAY have 9
    characters.
    """
    parts: list[Expr] = []
    end = 0
    for match in _CHAR_ITEM.finditer(written):
        is_short, name, number = match[1] is not None, match[2], match[3]
        if number is not None:
            made = _SHORT[_SHORT_CHAR[number.upper()]](time).cast("string")
        elif name is not None:
            made = time.dt.format(_CHAR[name.upper()])
            if name.isupper() or name.islower():
                made = made.str.upper() if name.isupper() else made.str.lower()
            if name.upper() in ("MONTH", "DAY") and not is_short:
                made = made.str.pad_right(_NAME_WIDTH)
        else:
            continue
        if match.start() > end:
            parts.append(time.dt.format(char_format(written[end : match.start()])))
        parts.append(made)
        end = match.end()
    if end < len(written) or not parts:
        parts.append(time.dt.format(char_format(written[end:])))
    return reduce(operator.add, parts)


def _code(letters: str, codes: dict[str, str], written: str) -> str:
    if letters not in codes:
        known = ", ".join(codes)
        raise InvalidPlanError(
            f"the format {written!r} has {letters!r}, unknown there; write one of {known}"
        )
    return codes[letters]

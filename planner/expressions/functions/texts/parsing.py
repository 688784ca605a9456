"""Parse times in texts by a format.

A format becomes one regular expression in the syntax that RE2 and Java share, so the batch twin
uses the same one. Locale and platform have no influence: names of months and days are English. A
time without a zone is UTC. Text that does not match is an error, or null if not ``strict``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner.errors import InvalidPlanError
from planner.expressions.entries.family import E, Family, Functions, Sql, of_texts, plain_value
from planner.expressions.entries.signature import method, text_of, typed
from planner.expressions.functions.texts.pattern_groups import named_groups
from planner.expressions.functions.texts.words import on_arrays
from planner.expressions.nodes import Call, Function, Node
from planner.expressions.spark.casts import failure
from planner.expressions.spark.errors import MARK
from planner.expressions.spark.let_bindings import let
from planner.expressions.spark.types import text as quoted
from planner.expressions.types import TIMESTAMP_UTC

if TYPE_CHECKING:
    from collections.abc import Sequence

_INTEGER, _TEXT = pa.int64(), pa.string()
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September",
           "October", "November", "December")  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
#: The length of the short names of months and days.
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
#: Groups of codes; a format has at most one code of each group.
_ALTERNATIVES = ("Yy", "mbB", "HI")
_FORMAT_PART = re.compile(r"%(.?)|([ \t\r\n]+)|(.)", re.DOTALL)
#: Two-digit years below this are 20xx, others 19xx.
_CENTURY = 69


def time_pattern(format: str) -> tuple[str, tuple[str, ...]]:
    """Return the regular expression of a format, and the codes of its groups, in order.

    Raises:
        InvalidPlanError: the format has an unknown code, a repeated code, or no year.
    """
    codes: list[str] = []

    def one(match: re.Match[str]) -> str:
        if match[1] is None:
            return "[ \\t]+" if match[2] else re.escape(match[3])
        if match[1] == "%":
            return "%"
        if match[1] not in _CODES:
            known = " ".join(f"%{letter}" for letter in _CODES)
            reason = f"the format {format!r} has %{match[1]}, which is not supported"
            raise InvalidPlanError(f"{reason}; write one of {known}")
        codes.append(match[1])
        return _CODES[match[1]]

    pattern = _FORMAT_PART.sub(one, format)
    for group in (*_ALTERNATIVES, *_CODES):
        if sum(code in group for code in codes) > 1:
            codes_of_group = " or ".join(f"%{letter}" for letter in group)
            raise InvalidPlanError(f"the format {format!r} has {codes_of_group} more than once")
    if not {"Y", "y"} & set(codes):
        raise InvalidPlanError(f"the format {format!r} has no year: %Y, or %y of two digits")
    if ("I" in codes) != ("p" in codes):
        raise InvalidPlanError(f"the format {format!r}: %I and %p, AM or PM, must be used together")
    return rf"\A{pattern}\z", tuple(codes)


def month_names(code: str) -> tuple[str, ...]:
    """Return the names of ``%b`` or ``%B``, in lower case."""
    return tuple(name.lower()[: _SHORT if code == "b" else None] for name in _MONTHS)


def _resolve_time(call: Call) -> Node | None:
    time_pattern(str(call.option("format")))
    return typed(call, TIMESTAMP_UTC, _TEXT) if text_of(call.args[0]) else None


def _parsed(texts: pa.Array, call: Call) -> pa.Array:
    """Parse times; null for text that does not match."""
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
    """Parse digits as integers; ``default`` if the format has no such group."""
    if texts is None:
        return np.full(1, default, np.int64)
    numbers: np.ndarray = pc.fill_null(texts.cast(_INTEGER), default).to_numpy()
    return numbers


def _year(groups: dict[str, pa.Array]) -> np.ndarray:
    if "Y" in groups:
        return _whole(groups["Y"], 1970)
    short = _whole(groups["y"], 70)
    years: np.ndarray = short + np.where(short < _CENTURY, 2000, 1900)
    return years


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
    hours: np.ndarray = _whole(groups["I"]) % 12 + 12 * is_later.to_numpy(zero_copy_only=False)
    return hours


def _offset(zones: pa.Array | None, rows: int) -> np.ndarray:
    """Return the zone offset in seconds east of UTC."""
    if zones is None:
        return np.zeros(rows, np.int64)
    plain = pc.if_else(pc.equal(zones, "Z"), "+0000", pc.replace_substring(zones, ":", ""))
    hours, minutes = (_whole(pc.utf8_slice_codeunits(plain, at, at + 2)) for at in (1, 3))
    is_west = pc.fill_null(pc.starts_with(plain, "-"), False).to_numpy(zero_copy_only=False)
    east: np.ndarray = np.where(is_west, -1, 1) * (hours * 3_600 + minutes * 60)
    return east


def _parsed_or_error(texts: pa.Array, call: Call) -> pa.Array:
    parsed = _parsed(texts, call)
    if parsed.null_count > texts.null_count:
        remedy = "strict=False, in SQL TRY_TO_TIMESTAMP, makes it null"
        raise pa.ArrowInvalid(
            f"a text is not a time in the format {call.option('format')!r} ({remedy})"
        )
    return parsed


def _spark_time(call: Call, a: str) -> str:
    wrong = failure(f"cannot evaluate {str(call).replace(MARK, '')}: a value does not fit")

    def checked(x: str) -> str:
        made = _spark_try_time(call, x)
        return let(made, lambda y: f"if({x} is not null and {y} is null, {wrong}, {y})")

    return let(a, checked)


def _spark_try_time(call: Call, a: str) -> str:
    pattern, codes = time_pattern(call.option("format"))
    whole = quoted(pattern)

    def made(x: str) -> str:
        parts = {c: f"regexp_extract({x}, {whole}, {at})" for at, c in enumerate(codes, 1)}
        number = {c: f"cast({part} as int)" for c, part in parts.items()}
        year = f"nullif({number.get('Y')}, 0)"
        if "y" in parts:
            year = f"({number['y']} + if({number['y']} < 69, 2000, 1900))"
        month = number.get("m", "1")
        for code in "bB":
            if code in parts:
                month = f"array_position(array{month_names(code)}, lower({parts[code]}))"
        hour = number.get("H", "0")
        if "I" in parts:
            hour = f"({number['I']} % 12 + if(lower({parts['p']}) = 'pm', 12, 0))"
        second = f"concat({parts.get('S', quoted('0'))}, '.', {parts.get('f', quoted('0'))})"
        fields = (year, f"cast({month} as int)", number.get("d", "1"), hour, number.get("M", "0"))
        moment = f"make_timestamp({', '.join(fields)}, cast({second} as decimal(8, 6)))"
        micros = f"unix_micros({moment})"
        if "z" in parts:
            micros = let(
                f"replace({parts['z']}, ':', '')", lambda z: f"({micros} - {_spark_east(z)})"
            )
        return f"if({x} rlike {whole}, {micros}, null)"

    return let(a, made)


def _spark_east(zone: str) -> str:
    """Return SQL for the offset of a zone such as ``Z`` or ``+0130``, us east of UTC."""
    hours, minutes = (f"cast(substring({zone}, {at}, 2) as bigint)" for at in (2, 4))
    size = f"({hours} * 3600000000L + {minutes} * 60000000L)"
    return f"if({zone} = 'Z', 0L, if({zone} like '-%', -1L, 1L) * {size})"


PARSING = Family("str", of_texts)
FUNCTIONS = PARSING.functions


class Parsing(Functions[E]):
    """Times in a given format."""

    __slots__ = ()

    @PARSING.function(
        TIMESTAMP_UTC,
        on_arrays(_parsed_or_error),
        name="parse_time",
        resolve=_resolve_time,
        show=method("str.to_timestamp", "format"),
        spark=_spark_time,
        may_fail=True,
        sql=Sql("STRPTIME", lambda s, f: s.str.to_timestamp(plain_value(f))),
    )
    def to_timestamp(self, format: str, *, strict: bool = True) -> E:
        """Parse a time in a format such as ``"%d.%m.%Y %H:%M"``; in UTC without ``%z``.

        Text that does not match is an error, or null if not ``strict``. Codes: ``%Y %y %m %b %B %d
        %H %I %p %M %S %f %z``, and ``%a %A``, which are ignored.
        """
        return self.wrap(self._parsed(format, strict=strict))

    def to_date(self, format: str, *, strict: bool = True) -> E:
        """Parse a date in a format such as ``"%d.%m.%Y"``; see :meth:`to_timestamp`."""
        made = self._parsed(format, strict=strict)
        return self.wrap(Call("cast", (made,), (("to", pa.date32()),)))

    def _parsed(self, format: str, *, strict: bool) -> Node:
        time_pattern(format)
        function = "parse_time" if strict else "try_parse_time"
        return Call(function, (self.node,), (("format", format),))


FUNCTIONS["try_parse_time"] = Function(
    "str.to_timestamp",
    _resolve_time,
    on_arrays(_parsed),
    lambda call: f"{method('str.to_timestamp', 'format')(call)[:-1]}, strict=False)",
    spark=_spark_try_time,
    sql=(Sql("TRY_STRPTIME", lambda s, f: s.str.to_timestamp(plain_value(f), strict=False)),),
)

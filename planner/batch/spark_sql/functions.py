"""More functions as Spark SQL: of numbers, of text, of the calendar.

Powers, logarithms and angles are Java's and may differ from Arrow's in their last digit; paths in
JSON give numbers as Spark writes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.batch.spark_sql.arithmetic import Writer, is_float, spark_type
from planner.batch.spark_sql.errors import UnsupportedInBatchError
from planner.batch.spark_sql.let_bindings import let
from planner.batch.spark_sql.types import text
from planner.expressions.functions.words import json_steps

if TYPE_CHECKING:
    from typing import NoReturn

    from planner.expressions.nodes import Call

#: What ``str.isspace`` and Arrow call white space.
SPACE = r"(?U)[\s\x1c-\x1f]"
#: Doubles from here on have no fraction.
_WHOLE_FROM = "4503599627370496D"
_WORDS = r"[\p{L}\p{N}]+|[^\p{L}\p{N}]+"
_JAVA_CODES = {
    "Y": "yyyy", "y": "yy", "m": "MM", "d": "dd", "H": "HH", "I": "hh", "M": "mm", "S": "ss",
    "j": "DDD", "p": "a", "a": "EEE", "A": "EEEE", "b": "MMM", "B": "MMMM",
}  # fmt: skip


def plain(function: str) -> Writer:
    """A function that Spark has, too."""
    return lambda _call, *args: f"{function}({', '.join(args)})"


def as_result(function: str) -> Writer:
    """A function whose result has another type in Spark."""
    return lambda call, *args: f"cast({function}({', '.join(args)}) as {spark_type(call)})"


def part(function: str) -> Writer:
    """A part of a time."""
    return lambda _call, a: f"cast({function}(timestamp_micros({a})) as bigint)"


# Numbers.


def _of_some(function: str) -> Writer:
    def write(_call: Call, *args: str) -> str:
        return f"{function}({', '.join(args)})" if len(args) > 1 else args[0]

    return write


def _logarithm(function: str) -> Writer:
    """Spark's is null at and below zero."""

    def ieee(x: str) -> str:
        return (
            f"case when {x} is null then null when isnan({x}) or {x} < 0 then double('NaN') "
            f"when {x} = 0 then double('-Infinity') else {function}({x}) end"
        )

    return lambda _call, a: let(a, ieee)


def _trunc(call: Call, a: str) -> str:
    if not is_float(call):
        return a
    unit = f"1e{call.option('digits')}D"

    def cut(x: str) -> str:
        scaled = let(f"({x} * {unit})", lambda y: f"({y} - {y} % 1D) / {unit}")
        return f"if(abs({x} * {unit}) >= {_WHOLE_FROM}, {x}, {scaled})"

    return let(a, cut)


def _infix(operator: str) -> Writer:
    return lambda _call, a, b: f"({a} {operator} {b})"


# Text.


def _strip(side: str, pattern: str) -> Writer:
    def write(call: Call, a: str) -> str:
        characters = call.option("characters")
        if characters is None:
            return f"regexp_replace({a}, {text(pattern)}, '')"
        return f"trim({side} {text(characters)} from {a})"

    return write


def _initcap(_call: Call, a: str) -> str:
    one = "concat(upper(substring(part, 1, 1)), lower(substring(part, 2)))"
    parts = f"regexp_extract_all({a}, {text(_WORDS)}, 0)"
    return f"array_join(transform({parts}, part -> {one}), '')"


def _pad(function: str) -> Writer:
    def write(call: Call, a: str) -> str:
        width, fill = call.option("width"), call.option("fill")
        if not fill:
            return f"substring({a}, 1, {width})"
        return f"{function}({a}, {width}, {text(fill)})"

    return write


def _digest(call: Call, a: str) -> str:
    algorithm = call.option("algorithm")
    if algorithm.startswith("sha") and algorithm != "sha1":
        return f"sha2({a}, {algorithm.removeprefix('sha')})"
    return f"{algorithm}({a})"


def _json_value(call: Call, a: str) -> str:
    steps = json_steps(call.option("path"))
    path = "".join(f"[{s}]" if isinstance(s, int) else f"['{s}']" for s in steps)
    return f"get_json_object({a}, {text('$' + path)})"


def _extract(call: Call, a: str) -> str:
    return f"regexp_extract({a}, {text(call.option('pattern'))}, {call.option('group')})"


def _translate(call: Call, a: str) -> str:
    return f"translate({a}, {text(call.option('characters'))}, {text(call.option('others'))})"


def _character(call: Call, _a: str) -> NoReturn:
    raise UnsupportedInBatchError(str(call), "Spark's chr knows 256 characters")


# Times.


def _floor(call: Call, a: str) -> str:
    unit = text(call.option("unit"))
    return f"unix_micros(date_trunc({unit}, timestamp_micros({a})))"


def _add_months(call: Call, a: str) -> str:
    months = call.option("months")
    return f"unix_micros(timestamp_micros({a}) + make_ym_interval(0, {months}))"


def _format(call: Call, a: str) -> str:
    return f"date_format(timestamp_micros({a}), {text(java_format(call.option('format')))})"


def java_format(format: str) -> str:
    """``%Y-%m`` as Java writes it: ``yyyy-MM``, with all other letters in quotes."""
    pieces: list[str] = []
    codes = iter(format)
    for character in codes:
        if character == "%":
            code = next(codes)
            pieces.append(_JAVA_CODES.get(code, "%"))
        elif character == "'":
            pieces.append("''")
        else:
            pieces.append(f"'{character}'" if character.isalpha() else character)
    return "".join(pieces)


WRITERS: dict[str, Writer] = {
    "greatest": _of_some("greatest"),
    "least": _of_some("least"),
    "power": plain("pow"),
    **{name: _logarithm(name) for name in ("ln", "log10", "log2")},
    **{name: plain(name) for name in ("exp", "sin", "cos", "tan", "asin", "acos", "atan", "atan2")},
    "is_nan": lambda _call, a: let(a, lambda x: f"if({x} is null, null, isnan({x}))"),
    "sign": as_result("sign"),
    "trunc": _trunc,
    "bit_and": _infix("&"),
    "bit_or": _infix("|"),
    "bit_xor": _infix("^"),
    "bit_not": lambda _call, a: f"(~{a})",
    "strip_left": _strip("leading", rf"\A{SPACE}+"),
    "strip_right": _strip("trailing", rf"{SPACE}+\z"),
    "position": lambda call, a: f"cast(instr({a}, {text(call.option('pattern'))}) as bigint)",
    "initcap": _initcap,
    "reverse": plain("reverse"),
    "repeat": lambda call, a: f"repeat({a}, {call.option('times')})",
    "pad_left": _pad("lpad"),
    "pad_right": _pad("rpad"),
    "extract": _extract,
    "digest": _digest,
    "translate": _translate,
    "ascii": as_result("ascii"),
    "byte_length": as_result("octet_length"),
    "json_value": _json_value,
    "concat_ws": lambda call, *args: (
        f"concat_ws({', '.join((text(call.option('separator')), *args))})"
    ),
    "character": _character,
    "week": part("weekofyear"),
    "iso_year": lambda _c, a: f"cast(extract(YEAROFWEEK from timestamp_micros({a})) as bigint)",
    "quarter": part("quarter"),
    "day_of_week": lambda _c, a: f"cast(dayofweek(timestamp_micros({a})) - 1 as bigint)",
    "floor_calendar": _floor,
    "add_months": _add_months,
    "format_time": _format,
}

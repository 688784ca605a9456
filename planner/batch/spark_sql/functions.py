"""More functions as Spark SQL: of numbers, of text, of the calendar.

Powers, logarithms and angles are Java's and may differ from Arrow's in their last digit; paths in
JSON give numbers as Spark writes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.batch.spark_sql.arithmetic import Writer, is_float, round_double, spark_type
from planner.batch.spark_sql.casts import failure
from planner.batch.spark_sql.errors import MARK, UnsupportedInBatchError
from planner.batch.spark_sql.let_bindings import let
from planner.batch.spark_sql.patterns import java_pattern
from planner.batch.spark_sql.types import text
from planner.expressions.functions.numbers import FACTORIAL_MAX
from planner.expressions.functions.texts.parsing import (
    URL_PARTS,
    month_names,
    time_pattern,
    url_pattern,
)
from planner.expressions.functions.texts.words import json_steps

if TYPE_CHECKING:
    from typing import NoReturn

    from planner.expressions.nodes import Call

#: What ``str.isspace`` and Arrow call white space.
SPACE = r"(?U)[\s\x1c-\x1f]"
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
    cut = call.option("digits")
    return let(a, lambda x: round_double(call, x, cut, lambda y: f"signum({y}) * floor(abs({y}))"))


def _factorial(call: Call, a: str) -> str:
    wrong = failure(f"cannot evaluate {_shown(call)}: a number is not from 0 to {FACTORIAL_MAX}")

    def checked(x: str) -> str:
        fits = f"{x} between 0L and {FACTORIAL_MAX}L"
        return f"if({x} is null or {fits}, factorial(cast({x} as int)), {wrong})"

    return let(a, checked)


def _shown(call: Call) -> str:
    return str(call).replace(MARK, "")


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
    pattern = java_pattern(call.option("pattern"))
    return f"regexp_extract({a}, {text(pattern)}, {call.option('group')})"


def _translate(call: Call, a: str) -> str:
    return f"translate({a}, {text(call.option('characters'))}, {text(call.option('others'))})"


def _character(call: Call, _a: str) -> NoReturn:
    raise UnsupportedInBatchError(str(call), "Spark's chr knows 256 characters")


def _url(call: Call, a: str) -> str:
    part, key = call.option("part"), call.option("key")
    pattern = text(url_pattern(None))

    def of_part(x: str) -> str:
        found = f"regexp_extract({x}, {pattern}, {URL_PARTS[part]})"
        kept = found if part in ("path", "file") else f"nullif({found}, '')"
        return f"if({x} rlike {pattern}, {kept}, null)"

    made = let(a, of_part)
    if key is None:
        return made
    wanted = text(url_pattern(key))
    return let(made, lambda x: f"if({x} rlike {wanted}, regexp_extract({x}, {wanted}, 1), null)")


# Times.


def _parse_time(call: Call, a: str) -> str:
    wrong = failure(f"cannot evaluate {_shown(call)}: a value does not fit")

    def checked(x: str) -> str:
        made = _try_parse_time(call, x)
        return let(made, lambda y: f"if({x} is not null and {y} is null, {wrong}, {y})")

    return let(a, checked)


def _try_parse_time(call: Call, a: str) -> str:
    pattern, codes = time_pattern(call.option("format"))
    whole = text(pattern)

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
        second = f"concat({parts.get('S', text('0'))}, '.', {parts.get('f', text('0'))})"
        fields = (year, f"cast({month} as int)", number.get("d", "1"), hour, number.get("M", "0"))
        moment = f"make_timestamp({', '.join(fields)}, cast({second} as decimal(8, 6)))"
        micros = f"unix_micros({moment})"
        if "z" in parts:
            micros = let(f"replace({parts['z']}, ':', '')", lambda z: f"({micros} - {_east(z)})")
        return f"if({x} rlike {whole}, {micros}, null)"

    return let(a, made)


def _east(zone: str) -> str:
    """Microseconds east of UTC, of ``Z`` or ``+0130``."""
    hours, minutes = (f"cast(substring({zone}, {at}, 2) as bigint)" for at in (2, 4))
    size = f"({hours} * 3600000000L + {minutes} * 60000000L)"
    return f"if({zone} = 'Z', 0L, if({zone} like '-%', -1L, 1L) * {size})"


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
    "cbrt": plain("cbrt"),
    "factorial": _factorial,
    "width_bucket": lambda call, a: (
        f"width_bucket({a}, {float(call.option('low'))!r}D, {float(call.option('high'))!r}D, "
        f"{call.option('buckets')}L)"
    ),
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
    "levenshtein": as_result("levenshtein"),
    "soundex": plain("soundex"),
    "url": _url,
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
    "parse_time": _parse_time,
    "try_parse_time": _try_parse_time,
    "week": part("weekofyear"),
    "iso_year": lambda _c, a: f"cast(extract(YEAROFWEEK from timestamp_micros({a})) as bigint)",
    "quarter": part("quarter"),
    "day_of_week": lambda _c, a: f"cast(dayofweek(timestamp_micros({a})) - 1 as bigint)",
    "floor_calendar": _floor,
    "add_months": _add_months,
    "format_time": _format,
}

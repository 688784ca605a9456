"""Functions of numbers and of the calendar as Spark SQL.

Powers, logarithms and angles are Java's and may differ from Arrow's in their last digit; JSON paths
return numbers as Spark writes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from planner.expressions.functions.numbers import FACTORIAL_MAX
from planner.expressions.spark.arithmetic import Writer, is_float, round_double, spark_type
from planner.expressions.spark.casts import failure
from planner.expressions.spark.errors import MARK
from planner.expressions.spark.let_bindings import let
from planner.expressions.spark.types import text

if TYPE_CHECKING:
    from planner.expressions.nodes import Call

_JAVA_CODES = {
    "Y": "yyyy", "y": "yy", "m": "MM", "d": "dd", "H": "HH", "I": "hh", "M": "mm", "S": "ss",
    "j": "DDD", "p": "a", "a": "EEE", "A": "EEEE", "b": "MMM", "B": "MMMM",
}  # fmt: skip


def plain(function: str) -> Writer:
    """Write the call of a Spark function that has this name and the same meaning."""
    return lambda _call, *args: f"{function}({', '.join(args)})"


def as_result(function: str) -> Writer:
    """Write the call of a Spark function; cast the result to the type that streams have."""
    return lambda call, *args: f"cast({function}({', '.join(args)}) as {spark_type(call)})"


def part(function: str) -> Writer:
    """Return the function that writes a part of a time."""
    return lambda _call, a: f"cast({function}(timestamp_micros({a})) as bigint)"


# Functions of numbers.


def _of_some(function: str) -> Writer:
    def write(_call: Call, *args: str) -> str:
        return f"{function}({', '.join(args)})" if len(args) > 1 else args[0]

    return write


def _logarithm(function: str) -> Writer:
    """Write a logarithm, with the cases in which Spark returns null: 0 and below."""

    def ieee(x: str) -> str:
        return (
            f"case when {x} is null then null when isnan({x}) or {x} < 0 then double('NaN') "
            f"when {x} = 0 then double('-Infinity') else {function}({x}) end"
        )

    return lambda _call, a: let(a, ieee)


def _trunc(call: Call, a: str) -> str:
    cut = call.option("digits")
    if call.type is not None and pa.types.is_decimal(call.type):
        cut = min(cut, call.type.scale)
        nearer = f"case when {{0}} < 0 then ceil({{0}}, {cut}) else floor({{0}}, {cut}) end"
        return let(a, lambda x: f"cast({nearer.format(x)} as {spark_type(call)})")
    if not is_float(call):
        return a
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


# Functions of times.


def _floor(call: Call, a: str) -> str:
    unit = text(call.option("unit"))
    return f"unix_micros(date_trunc({unit}, timestamp_micros({a})))"


def _add_months(call: Call, a: str, count: str = "") -> str:
    months = f"cast({count} as int)" if count else call.option("months")
    return f"unix_micros(timestamp_micros({a}) + make_ym_interval(0, {months}))"


def _format(call: Call, a: str) -> str:
    return f"date_format(timestamp_micros({a}), {text(java_format(call.option('format')))})"


def java_format(format: str) -> str:
    """Convert ``%Y-%m`` to Java's ``yyyy-MM``, with all other letters in quotes."""
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
    "week": part("weekofyear"),
    "iso_year": lambda _c, a: f"cast(extract(YEAROFWEEK from timestamp_micros({a})) as bigint)",
    "quarter": part("quarter"),
    "day_of_week": lambda _c, a: f"cast(dayofweek(timestamp_micros({a})) - 1 as bigint)",
    "floor_calendar": _floor,
    "add_months": _add_months,
    "format_time": _format,
}

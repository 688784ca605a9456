"""Writes arithmetic as Spark SQL: with the stream's exact results and errors.

Spark's own operators wrap or return null on overflow. Calls that may overflow (see
:mod:`planner.expressions.bounds`) include a check; others are written plainly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from planner.expressions.bounds import may_overflow
from planner.expressions.functions.doubles import POWERS_MAX
from planner.expressions.spark.casts import failure, floor_divide
from planner.expressions.spark.errors import MARK, UnsupportedInBatchError
from planner.expressions.spark.let_bindings import let, let2
from planner.expressions.spark.types import DECIMAL_DIGITS_MAX, INT64_MIN, integer, type_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.expressions.nodes import Call, Node

#: Writes a call as SQL, given the call and its arguments as SQL.
Writer: TypeAlias = "Callable[..., str]"
_LEAST = integer(INT64_MIN)
#: The least double from which doubles have no fraction.
_WHOLE_FROM = "4503599627370496D"
#: Digits of a decimal quotient: Spark keeps six places, and needs two digits for its steps.
_QUOTIENT_DIGITS_MAX = DECIMAL_DIGITS_MAX - 6 - 2


def spark_type(call: Call) -> str:
    """Return Spark's name of the result's type."""
    assert call.type is not None, call
    return type_name(call.type)


def is_float(node: Node) -> bool:
    """Return whether the node's values are floats."""
    return bool(pa.types.is_floating(node.type))


def _arithmetic(operator: str, function: str) -> Writer:
    """Return a function that writes SQL; ``function``: Spark's that returns null on overflow."""

    def write(call: Call, a: str, b: str) -> str:
        if pa.types.is_decimal(call.type):
            return f"cast(({a} {operator} {b}) as {spark_type(call)})"
        if not may_overflow(call):
            return f"({a} {operator} {b})"

        def checked(x: str, y: str) -> str:
            no_room = f"{x} is not null and {y} is not null"
            return f"coalesce({function}({x}, {y}), if({no_room}, {_no_room(call)}, null))"

        return let2(a, b, checked)

    return write


def _no_room(call: Call) -> str:
    """Return SQL that raises an error, because an overflow is an error in the stream, too."""
    shown = str(call).replace(MARK, "")
    return failure(f"cannot evaluate {shown}: the result does not fit into {call.type}")


def _unless_least(sql: Callable[[str], str]) -> Writer:
    """Check integers and durations for the least value, which has no negative."""

    def write(call: Call, a: str) -> str:
        if not may_overflow(call):
            return sql(a)
        return let(a, lambda x: f"if({x} = {_LEAST}, {_no_room(call)}, {sql(x)})")

    return write


def _floor_divide(call: Call, a: str, b: str) -> str:
    if _of_decimals(call):
        _check_room(call, is_quotient=True)
        return let2(
            a, b, lambda x, y: f"cast(({x} - {x} % {y}) / {y} - {_borrow(x, y, '')} as double)"
        )
    if is_float(call):
        return let2(a, b, lambda x, y: f"rint(({x} - {x} % {y}) / {y} - {_borrow(x, y, 'D')})")

    def divided(x: str, y: str) -> str:
        sql = f"({x} div {y} - {_borrow(x, y, 'L')})"
        if not may_overflow(call):
            return sql
        return f"if({x} = {_LEAST} and {y} = -1L, {_no_room(call)}, {sql})"

    return let2(a, b, divided)


def _borrow(a: str, b: str, suffix: str) -> str:
    """Return SQL for 1 if the remainder of ``a`` by ``b`` lacks the sign of ``b``, else 0."""
    return f"if({a} % {b} <> 0 and ({a} % {b} < 0) <> ({b} < 0), 1{suffix}, 0{suffix})"


def _of_decimals(call: Call) -> bool:
    return any(arg.type is not None and pa.types.is_decimal(arg.type) for arg in call.args)


def _check_room(call: Call, *, is_quotient: bool) -> None:
    """Raise for decimals for which Spark would lose digits, or return null.

    Raises:
        UnsupportedInBatchError: a step between decimals of these types may overflow.
    """
    left, right = (arg.type for arg in call.args)
    assert left is not None, call
    assert right is not None, call
    whole = max(left.precision - left.scale, right.precision - right.scale)
    scale = max(left.scale, right.scale)
    has_room = scale == 0 or whole + scale < DECIMAL_DIGITS_MAX
    if is_quotient:
        has_room = has_room and whole + right.scale <= _QUOTIENT_DIGITS_MAX
    if not has_room:
        raise UnsupportedInBatchError(
            str(call),
            f"Spark has {DECIMAL_DIGITS_MAX} digits, too few for each step of {left} by {right}; "
            "cast them to decimals of fewer digits",
        )


def _modulo(call: Call, a: str, b: str) -> str:
    if _of_decimals(call):
        _check_room(call, is_quotient=False)
        return let2(
            a,
            b,
            lambda x, y: (
                f"if({_borrow(x, y, '')} = 1, "
                f"cast({x} % {y} + {y} as double), cast({x} % {y} as double))"
            ),
        )
    zero = "0D" if is_float(call) else "0L"
    return let2(
        a,
        b,
        lambda x, y: (
            f"({x} % {y} + if({x} % {y} <> 0 and ({x} % {y} < 0) <> ({y} < 0), {y}, {zero}))"
        ),
    )


def _as_type(call: Call, sql: str) -> str:
    """Cast ``sql`` to the type of ``call``, which may overflow."""

    def made(x: str) -> str:
        return f"try_cast({x} as {spark_type(call)})"

    if not may_overflow(call):
        return made(sql)
    wrong = _no_room(call)
    return let(sql, lambda x: f"if({x} is null, null, coalesce({made(x)}, {wrong}))")


def _floored(x: str) -> str:
    return f"if(abs({x}) < {_WHOLE_FROM}, cast(floor({x}) as double), {x})"


def _floor(call: Call, a: str) -> str:
    if not is_float(call):
        return _as_type(call, f"floor({a})")
    return let(f"cast({a} as double)", lambda x: f"cast({_floored(x)} as {spark_type(call)})")


def _ceil(call: Call, a: str) -> str:
    if not is_float(call):
        return _as_type(call, f"ceil({a})")
    return let(f"(- cast({a} as double))", lambda x: f"cast(- {_floored(x)} as {spark_type(call)})")


def _round(call: Call, a: str) -> str:
    """Return SQL that scales, rounds and scales back: by the value of a double, not its digits."""
    digits = call.option("digits")
    if pa.types.is_integer(call.type) and digits >= 0:
        return a
    if not is_float(call):
        digits = max(digits, -DECIMAL_DIGITS_MAX)
        wide = f"cast({a} as decimal(20, 0))" if pa.types.is_integer(call.type) else a
        return _as_type(call, f"round({wide}, {digits})")
    return let(
        f"cast({a} as double)",
        lambda x: f"cast({round_double(call, x, digits, _nearest)} as {spark_type(call)})",
    )


def _nearest(y: str) -> str:
    return f"signum({y}) * floor(abs({y}) + if(abs({y}) - floor(abs({y})) >= 0.5D, 1D, 0D))"


def round_double(call: Call, x: str, digits: int, nearest: Callable[[str], str]) -> str:
    """Round a double to ``digits`` places; ``nearest`` rounds the scaled value."""
    if abs(digits) > POWERS_MAX:
        return x if digits > 0 else f"if(abs({x}) < double('Infinity'), {x} * 0D, {x})"
    up, down = ("*", "/") if digits >= 0 else ("/", "*")
    power = f"1e{abs(digits)}D"
    wrong = failure(f"cannot evaluate {call}: overflow occurred during rounding")

    def checked(z: str) -> str:
        return f"if(abs({z}) = double('Infinity'), {wrong}, {z})"

    def back(y: str) -> str:
        made = let(f"{nearest(y)} {down} {power}", checked)
        return f"if(abs({y}) < {_WHOLE_FROM}, {made}, {x})"

    return let(f"({x} {up} {power})", back)


def _truncate(call: Call, a: str) -> str:
    every = call.option("every_us")
    sql = f"({floor_divide(a, every)} * {integer(every)})"
    if not may_overflow(call):
        return sql
    # Rounding down near the least time overflows to a later time, which this check finds.
    return let2(a, sql, lambda x, y: f"if({y} > {x}, {_no_room(call)}, {y})")


#: Writers of the functions of :mod:`planner.expressions.functions.arithmetic`, and of
#: ``truncate``.
ARITHMETIC: dict[str, Writer] = {
    "add": _arithmetic("+", "try_add"),
    "subtract": _arithmetic("-", "try_subtract"),
    "multiply": _arithmetic("*", "try_multiply"),
    "divide": lambda _call, a, b: f"({a} / {b})",
    "floor_divide": _floor_divide,
    "modulo": _modulo,
    "negate": _unless_least(lambda a: f"(- {a})"),
    "abs": _unless_least(lambda a: f"abs({a})"),
    "round": _round,
    "floor": _floor,
    "ceil": _ceil,
    "sqrt": lambda _call, a: f"sqrt({a})",
    "truncate": _truncate,
}

"""Comparison, boolean and null functions, and choices between values.

Null is unknown: a comparison with null is null, ``&`` and ``|`` use Kleene's logic, and a ``when``
condition that is null counts as false. NaN compares as in IEEE 754. For ``is_distinct_from`` null
equals null and NaN equals NaN. Operands are evaluated from left to right: an operand that a row
does not need, because an earlier one has decided, cannot fail on that row
(:mod:`planner.expressions.rows`).
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from math import ceil, floor, isinf, isnan
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from planner.errors import ExpressionTypeError, InvalidPlanError
from planner.expressions.bare_text import bare
from planner.expressions.entries.signature import (
    arg_types,
    common_of,
    infix,
    method,
    plain_call,
    typed,
    with_literals_adapted,
)
from planner.expressions.functions.casting import convert
from planner.expressions.nodes import (
    Call,
    Function,
    Literal,
    LiteralValue,
    Node,
    Value,
    cast_to,
)
from planner.expressions.rows import chosen, until_false, until_true, until_valid
from planner.expressions.types import literal_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_BOOL = pa.bool_()
_EXACT_END, _INT64_END, _DIGITS_MAX = 2**53, 2**63, 38


def _with_whole_numbers(call: Call) -> Call:
    """Replace whole double literals by integers where the other operands are integers.

    Only if one is beyond 2^53: there a comparison as doubles would be inexact.
    """
    literals = [arg.literal for arg in call.args if isinstance(arg, Literal)]
    others = [arg.type for arg in call.args if not isinstance(arg, Literal)]
    is_far = any(abs(v) >= _EXACT_END for v in literals if isinstance(v, float | int))
    if not (is_far and others and all(t is not None and pa.types.is_integer(t) for t in others)):
        return call
    first, *rest = call.args
    made = [_whole(arg, call.function, place) for place, arg in enumerate(rest)]
    if call.function == "is_in":
        # a fraction equals no integer, so it is no member
        made = [arg for arg in made if not _is_fraction(arg)]
    args = (_whole(first, call.function, None), *made)
    return call if any(map(_is_fraction, args)) or len(args) == 1 else replace(call, args=args)


def _whole(arg: Node, function: str, place: int | None) -> Node:
    """Return a whole double as an integer or a decimal; ``place``: of a bound of ``between``."""
    if not (isinstance(arg, Literal) and isinstance(arg.literal, float)) or isinf(arg.literal):
        return arg
    if function == "between" and place is not None and not isnan(arg.literal):
        value = floor(arg.literal) if place else ceil(arg.literal)
    elif arg.literal.is_integer():
        value = int(arg.literal)
    else:
        return arg
    if -_INT64_END <= value < _INT64_END:
        return Literal(value, pa.int64())
    digits = len(str(abs(value)))
    return Literal(Decimal(value), pa.decimal128(digits, 0)) if digits <= _DIGITS_MAX else arg


def _is_fraction(arg: Node) -> bool:
    return isinstance(arg, Literal) and isinstance(arg.literal, float)


def _resolve_comparison(call: Call) -> Node | None:
    call = with_literals_adapted(_with_whole_numbers(call))
    common = common_of(arg_types(call))
    if common is None or pa.types.is_nested(common):
        return None
    if pa.types.is_null(common):
        common = pa.int64()
    return typed(call, _BOOL, *[common] * len(call.args))


def _resolve_boolean(call: Call) -> Node | None:
    if not all(t in (_BOOL, pa.null()) for t in arg_types(call)):
        return None
    return typed(call, _BOOL, *[_BOOL] * len(call.args))


def _resolve_null_test(call: Call) -> Node | None:
    return replace(call, type=_BOOL)


def _resolve_coalesce(call: Call) -> Node | None:
    call = with_literals_adapted(call)
    common = common_of(arg_types(call))
    return None if common is None else typed(call, common, *[common] * len(call.args))


def _resolve_when(call: Call) -> Node | None:
    """Type a choice; ``args``: condition, value, condition, value, ..., otherwise."""
    conditions, values = call.args[:-1:2], (*call.args[1:-1:2], call.args[-1])
    is_whole = len(call.args) % 2 == 1
    if not is_whole or not all(c.type in (_BOOL, pa.null()) for c in conditions):
        return None
    choices = with_literals_adapted(replace(call, args=values))
    common = common_of(arg_types(choices))
    if common is None:
        return None
    args: list[Node] = []
    for condition, value in zip(conditions, choices.args, strict=False):
        args += [cast_to(condition, _BOOL), cast_to(value, common)]
    args.append(cast_to(choices.args[-1], common))
    return replace(call, args=tuple(args), type=common)


def _when(values: Sequence[Value], _call: Call) -> Value:
    out = values[-1]
    for k in range(len(values) - 3, -1, -2):
        out = pc.if_else(pc.fill_null(values[k], False), values[k + 1], out)
    return out


def _show_when(call: Call) -> str:
    pairs = zip(call.args[:-1:2], call.args[1:-1:2], strict=True)
    chain = ".".join(f"when({bare(c)}).then({bare(v)})" for c, v in pairs)
    return f"{chain}.otherwise({bare(call.args[-1])})"


def _resolve_is_in(call: Call) -> Node | None:
    members = call.option("values")
    assert isinstance(members, tuple)
    if any(v is None for v in members):
        raise InvalidPlanError(f"{call}: IN never matches null; use .is_null()")
    literals = tuple(Literal(v, literal_type(v)) for v in members)
    whole = with_literals_adapted(_with_whole_numbers(replace(call, args=(*call.args, *literals))))
    common = common_of(arg_types(whole))
    if common is None or pa.types.is_nested(common):
        types = tuple(str(t) for t in dict.fromkeys(arg_types(whole)))
        raise ExpressionTypeError("is_in", types, str(call))
    adapted = tuple(_member(a, common) for a in whole.args[1:] if isinstance(a, Literal))
    options = (("values", adapted),)
    return replace(call, args=(cast_to(call.args[0], common),), options=options, type=_BOOL)


def _member(literal: Literal, kind: pa.DataType) -> LiteralValue:
    """Convert a member of the list as ``==`` would convert it for values of type ``kind``."""
    if literal.type == kind:
        return literal.literal
    member: LiteralValue = convert(pa.scalar(literal.literal, literal.type), kind).as_py()
    return member


def _is_in(values: Sequence[Value], call: Call) -> Value:
    value, members = values[0], pa.array(call.option("values"), values[0].type)
    if pa.types.is_floating(value.type):  # as with ``==``, -0.0 equals 0.0, and NaN equals nothing
        value, members = (pc.add(v, pa.scalar(0.0, v.type)) for v in (value, members))
        members = members.filter(pc.invert(pc.is_nan(members)))
    is_member = pc.is_in(value, value_set=members)
    return pc.if_else(pc.is_valid(value), is_member, pa.scalar(None, _BOOL))


def _between(values: Sequence[Value], _call: Call) -> Value:
    value, low, high = values
    return pc.and_kleene(pc.greater_equal(value, low), pc.less_equal(value, high))


def _is_distinct(values: Sequence[Value], _call: Call) -> Value:
    a, b = values
    same = pc.or_(pc.fill_null(pc.equal(a, b), False), pc.and_(pc.is_null(a), pc.is_null(b)))
    if pa.types.is_floating(a.type):
        nan = [pc.fill_null(pc.is_nan(value), False) for value in values]
        same = pc.or_(same, pc.and_(*nan))
    return pc.invert(same)


def _of(kernel: Callable[..., Value]) -> Callable[[Sequence[Value], Call], Value]:
    def evaluate(values: Sequence[Value], _call: Call) -> Value:
        return kernel(*values)

    return evaluate


def _comparison(symbol: str, kernel: Callable[..., Value]) -> Function:
    return Function(symbol, _resolve_comparison, _of(kernel), infix(symbol))


FUNCTIONS = {
    "equal": _comparison("==", pc.equal),
    "not_equal": _comparison("!=", pc.not_equal),
    "less": _comparison("<", pc.less),
    "less_equal": _comparison("<=", pc.less_equal),
    "greater": _comparison(">", pc.greater),
    "greater_equal": _comparison(">=", pc.greater_equal),
    "is_distinct_from": Function(
        "is_distinct_from", _resolve_comparison, _is_distinct, method("is_distinct_from")
    ),
    "between": Function("between", _resolve_comparison, _between, method("between")),
    "is_in": Function("is_in", _resolve_is_in, _is_in, method("is_in", "values")),
    "and": Function("&", _resolve_boolean, _of(pc.and_kleene), infix("&"), until_false),
    "or": Function("|", _resolve_boolean, _of(pc.or_kleene), infix("|"), until_true),
    "not": Function("~", _resolve_boolean, _of(pc.invert), lambda c: f"~{c.args[0]}"),
    "is_null": Function("is_null", _resolve_null_test, _of(pc.is_null), method("is_null")),
    "is_not_null": Function(
        "is_not_null", _resolve_null_test, _of(pc.is_valid), method("is_not_null")
    ),
    "coalesce": Function(
        "coalesce", _resolve_coalesce, _of(pc.coalesce), plain_call("coalesce"), until_valid
    ),
    "when": Function("when", _resolve_when, _when, _show_when, chosen),
}

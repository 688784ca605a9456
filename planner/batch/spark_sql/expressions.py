"""Expressions as Spark SQL text, with the meaning that their functions have in streams.

The text is for a session without ANSI mode, in UTC: division by zero gives null, and an expression
that may overflow includes a check. Where Spark has another meaning (comparisons with NaN, ``floor``
of doubles, ``round``, white space, replacements by regular expressions), the text combines other
functions of Spark. Spark guarantees only for ``case`` that a branch is not evaluated, so ``and``
and ``or`` become a ``case`` if their right side may fail. Case mappings that change a string's
length are not handled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.batch.spark_sql.containers import WRITERS as CONTAINERS
from planner.batch.spark_sql.functions import WRITERS as MORE, part, plain
from planner.expressions.functions.of_rows.lambdas import OWN_ARGUMENTS, body_of
from planner.expressions.nodes import Call, Column, Literal, Node, function_of
from planner.expressions.predicates import may_fail
from planner.expressions.spark.arithmetic import ARITHMETIC, Writer, is_float
from planner.expressions.spark.casts import cast
from planner.expressions.spark.errors import MARK
from planner.expressions.spark.let_bindings import let, let2
from planner.expressions.spark.templates import filled_template
from planner.expressions.spark.types import ident, literal, text

if TYPE_CHECKING:
    from collections.abc import Mapping


def to_sql(node: Node, columns: Mapping[str, str]) -> str:
    """Return the resolved ``node`` in Spark SQL; ``columns``: names of its columns there.

    Raises:
        UnsupportedInBatchError: Spark has no exact counterpart.
    """
    if isinstance(node, Column):
        return columns[node.name]
    if isinstance(node, Literal):
        return literal(node)
    assert isinstance(node, Call), node
    args = [to_sql(arg, columns) for arg in node.args]
    spark = WRITERS.get(node.function) or function_of(node).spark
    return filled_template(spark, node, *args) if isinstance(spark, str) else spark(node, *args)


def _of_elements(call: Call, *args: str) -> str:
    """Call a Spark function with a lambda; nested lambdas get different parameter names."""
    own = OWN_ARGUMENTS[call.function]
    names = [name.removeprefix("@") for name in call.option("names")]
    columns = {f"@{name}": name for name in names}
    columns |= {f"@{k}": arg for k, arg in enumerate(args[own:])}
    if len(names) == own + 1 == len(("element", "place")):
        columns[f"@{names[1]}"] = f"cast({names[1]} as bigint)"
    body = to_sql(body_of(call), columns)
    parameters = names[0] if len(names) == 1 else f"({', '.join(names)})"
    made = f"{parameters} -> {body}"
    match call.function:
        case "list_transform":
            return f"transform({args[0]}, {made})"
        case "list_filter":
            return f"filter({args[0]}, {names[0]} -> coalesce({body}, false))"
    return f"aggregate({args[0]}, {args[1]}, {made})"


# Functions of truth values.


def _comparison(operator: str) -> Writer:
    return lambda call, a, b: _compared(call, a, operator, b)


def _compared(call: Call, a: str, operator: str, b: str) -> str:
    """Return SQL that compares two arguments of ``call`` as the stream does."""
    if not any(is_float(arg) for arg in call.args):
        return f"({a} {operator} {b})"
    return let2(a, b, lambda x, y: _ieee(x, operator, y))


def _ieee(a: str, operator: str, b: str) -> str:
    """Return SQL that compares as IEEE does; in Spark NaN equals NaN and is the greatest value."""
    unordered = "true" if operator == "<>" else "false"
    return (
        f"case when {a} is null or {b} is null then null "
        f"when isnan({a}) or isnan({b}) then {unordered} else {a} {operator} {b} end"
    )


def _between(call: Call, a: str, low: str, high: str) -> str:
    def both(x: str) -> str:
        return f"({_compared(call, x, '>=', low)} and {_compared(call, x, '<=', high)})"

    return let(a, both)


def _is_in(call: Call, a: str) -> str:
    kind = call.args[0].type
    # leave out NaN: in Spark it would equal NaN
    comparable = [v for v in call.option("values") if v == v]
    members = ", ".join(literal(Literal(v, kind)) for v in comparable)
    if not members:
        return let(a, lambda x: f"if({x} is null, cast(null as boolean), false)")
    return f"({a} in ({members}))"


def _until(operator: str, decisive: str) -> Writer:
    """Return what writes ``and`` or ``or``; the right side is skipped if the left one decides."""

    def write(call: Call, a: str, b: str) -> str:
        if not may_fail(call.args[1]):
            return f"({a} {operator} {b})"
        return let(
            a, lambda x: f"case when {x} = {decisive} then {decisive} else {x} {operator} {b} end"
        )

    return write


def _when(_call: Call, *args: str) -> str:
    pairs = zip(args[:-1:2], args[1:-1:2], strict=True)
    branches = " ".join(f"when {condition} then {value}" for condition, value in pairs)
    return f"case {branches} else {args[-1]} end"


# Times: microseconds, converted to a timestamp for functions of the calendar.


def _cast(call: Call, a: str) -> str:
    (arg,) = call.args
    assert arg.type is not None
    assert call.type is not None
    return cast(a, arg.type, call.type, str(call).replace(MARK, ""))


def _try_cast(call: Call, a: str) -> str:
    (arg,) = call.args
    assert arg.type is not None
    assert call.type is not None
    return cast(a, arg.type, call.type, None)


def _struct(call: Call, *args: str) -> str:
    pairs = zip(call.option("names"), args, strict=True)
    return f"named_struct({', '.join(f'{text(name)}, {value}' for name, value in pairs)})"


#: Writes SQL for each function in :data:`planner.expressions.functions.FUNCTIONS`.
WRITERS: dict[str, Writer] = {
    **ARITHMETIC,
    **MORE,
    **CONTAINERS,
    **dict.fromkeys(OWN_ARGUMENTS, _of_elements),
    "concat": plain("concat"),
    "equal": _comparison("="),
    "is_distinct_from": lambda _call, a, b: f"(not ({a} <=> {b}))",
    "not_equal": _comparison("<>"),
    "less": _comparison("<"),
    "less_equal": _comparison("<="),
    "greater": _comparison(">"),
    "greater_equal": _comparison(">="),
    "between": _between,
    "ranked": lambda _call, a, b, c: f"named_struct('rank', {a}, 'vs', {b}, 'value', {c})",
    "is_in": _is_in,
    "and": _until("and", "false"),
    "or": _until("or", "true"),
    "not": lambda _call, a: f"(not {a})",
    "is_null": lambda _call, a: f"({a} is null)",
    "is_not_null": lambda _call, a: f"({a} is not null)",
    "coalesce": plain("coalesce"),
    "when": _when,
    "struct": _struct,
    "field": lambda call, a: f"{a}.{ident(call.option('name'))}",
    "year": part("year"),
    "month": part("month"),
    "day": part("day"),
    "hour": part("hour"),
    "minute": part("minute"),
    "second": part("second"),
    "weekday": part("weekday"),
    "day_of_year": part("dayofyear"),
    "epoch_us": lambda _call, a: a,
    "cast": _cast,
    "try_cast": _try_cast,
}

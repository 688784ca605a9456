"""Functions of SQL over numbers and text, in terms of the fluent interface.

The first table is keyed by sqlglot's node and names its parts, the second by the name in lower
case. All parts are compiled; a part that must be a literal is then read from its expression.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.api.choices import when
from planner.api.expressions import Expr, concat_ws, greatest, least, lit
from planner.errors import InvalidPlanError
from planner.expressions.entries.family import at_least_zero
from planner.expressions.functions.texts.words import CHARACTERS_MAX
from planner.expressions.nodes import Literal
from planner.sql.expressions import times
from planner.sql.expressions.engines.settings import literal, whole, words
from planner.sql.reading.rewriting import FIRST_REPLACED

if TYPE_CHECKING:
    from collections.abc import Callable

_SHIFT_MAX = 62
_ANGLES: tuple[type[exp.Func], ...] = (*(exp.Sin, exp.Cos, exp.Tan, exp.Asin, exp.Acos, exp.Atan),)


def is_not_distinct(a: Expr, b: Expr) -> Expr:
    """Return whether both are equal or both are null."""
    return ~a.is_distinct_from(b)


def _angle(kind: type[exp.Func]) -> Callable[[Expr], Expr]:
    name = kind.sql_name().lower()
    return lambda x: x.angle(name)


def _shifted(value: Expr, bits: Expr, *, is_left: bool) -> Expr:
    if not isinstance(bits.node, Literal):
        power = lit(2.0).power(bits).cast("int64")
        return value * power if is_left else value // power
    count = whole(bits, "a number of bits")
    if not 0 <= count <= _SHIFT_MAX:
        raise InvalidPlanError(f"a shift is by 0 to {_SHIFT_MAX} bits, not {count}")
    factor = int(2**count)
    return value * factor if is_left else value // factor


def _log(base: Expr, value: Expr | None = None) -> Expr:
    """Compile ``LOG(x)``, the natural logarithm as in Spark and Flink, or ``LOG(base, x)``."""
    if value is None:
        return base.ln()
    known = base.node.literal if isinstance(base.node, Literal) else None
    if isinstance(known, int) and known in (2, 10):
        return value.log(known)
    return value.ln() / base.ln()


def _spaces(count: Expr) -> Expr:
    wanted = at_least_zero(count)
    if isinstance(wanted, int) and wanted > CHARACTERS_MAX:
        raise InvalidPlanError(f"SPACE takes at most {CHARACTERS_MAX} characters, not {wanted}")
    return lit(" ").str.repeat(wanted)


def _overlay(text: Expr, new: Expr, start: Expr, length: Expr | None = None) -> Expr:
    first = whole(start, "a place")
    if first < 1:
        raise InvalidPlanError("OVERLAY ... FROM counts from 1")
    cut = len(words(new, "a text")) if length is None else whole(length)
    return text.str.slice(0, first - 1) + new + text.str.slice(first - 1 + cut, None)


def _bucket(value: Expr, low: Expr, high: Expr, buckets: Expr) -> Expr:
    low_end, high_end = (literal(end, (int, float), "an end of the buckets") for end in (low, high))
    return value.width_bucket(low_end, high_end, whole(buckets, "a number of buckets"))


def _decoded(value: Expr, *pairs: Expr) -> Expr:
    """Compile ``DECODE(x, 1, 'a', 2, 'b', 'other')``; a null matches a null."""
    if len(pairs) < 2:
        raise InvalidPlanError(
            "DECODE takes a value, then pairs of a value to compare and a result"
        )
    default = pairs[-1] if len(pairs) % 2 else lit(None)
    result = default
    for at in range(len(pairs) // 2 * 2 - 2, -1, -2):
        result = when(is_not_distinct(value, pairs[at])).then(pairs[at + 1]).otherwise(result)
    return result


def _nth(at: Expr, *values: Expr) -> Expr:
    result = lit(None)
    for place, value in reversed(list(enumerate(values, start=1))):
        result = when(at == place).then(value).otherwise(result)
    return result


def _substring_index(text: Expr, separator: Expr, count: Expr) -> Expr:
    """Return the text before the n-th separator; below 0, after the n-th from the end."""
    by, n = words(separator, "a separator"), whole(count)
    parts = text.str.split(by)
    size = parts.list.length()
    if n >= 0:
        return parts.list.slice(0, n).list.join(by)
    first = when(size + n > 0).then(size + n).otherwise(0)
    return parts.list.slice(first, size).list.join(by)


#: By sqlglot's node: the parts that are compiled, and the function that builds the expression.
CALLS: dict[type[exp.Expr], tuple[tuple[str, ...], Callable[..., Expr]]] = {
    # Functions that choose between values or handle null.
    exp.Greatest: (("this", "expressions"), greatest),
    exp.Least: (("this", "expressions"), least),
    exp.Nvl2: (
        ("this", "true", "false"),
        lambda a, b, c=None: when(a.is_not_null()).then(b).otherwise(c),
    ),
    exp.DecodeCase: (("expressions",), _decoded),
    exp.Elt: (("this", "expressions"), _nth),
    exp.NullSafeEQ: (("this", "expression"), is_not_distinct),
    exp.NullSafeNEQ: (("this", "expression"), Expr.is_distinct_from),
    # Functions of numbers.
    exp.Pow: (("this", "expression"), Expr.power),
    exp.Exp: (("this",), Expr.exp),
    exp.Cbrt: (("this",), Expr.cbrt),
    exp.Factorial: (("this",), Expr.factorial),
    exp.WidthBucket: (("this", "min_value", "max_value", "num_buckets"), _bucket),
    exp.Ln: (("this",), Expr.ln),
    exp.Log: (("this", "expression"), _log),
    exp.Sign: (("this",), Expr.sign),
    exp.Trunc: (
        ("this", "decimals"),
        lambda x, n=None: x.trunc(0 if n is None else whole(n, "a number of digits")),
    ),
    exp.IsNan: (("this",), Expr.is_nan),
    exp.Pi: ((), lambda: lit(math.pi)),
    **{kind: (("this",), _angle(kind)) for kind in _ANGLES},
    exp.Atan2: (("this", "expression"), Expr.atan2),
    exp.Degrees: (("this",), lambda x: x * (180 / math.pi)),
    exp.Radians: (("this",), lambda x: x * (math.pi / 180)),
    exp.BitwiseAnd: (("this", "expression"), Expr.bit_and),
    exp.BitwiseOr: (("this", "expression"), Expr.bit_or),
    exp.BitwiseXor: (("this", "expression"), Expr.bit_xor),
    exp.BitwiseNot: (("this",), Expr.bit_not),
    exp.BitwiseLeftShift: (("this", "expression"), lambda x, n: _shifted(x, n, is_left=True)),
    exp.BitwiseRightShift: (("this", "expression"), lambda x, n: _shifted(x, n, is_left=False)),
    # Functions of text.
    exp.Dayname: (("this",), lambda t: t.dt.format("%A")),
    exp.Monthname: (("this",), lambda t: t.dt.format("%B")),
    exp.Space: (("this",), _spaces),
    exp.Chr: (("expressions",), Expr.character),
    exp.BitLength: (("this",), lambda s: s.str.byte_length() * 8),
    exp.ConcatWs: (("expressions",), concat_ws),
    exp.Overlay: (("this", "expression", "from_", "for_"), _overlay),
    exp.SubstringIndex: (("this", "delimiter", "count"), _substring_index),
    **times.CALLS,
}

#: By name in lower case; the Python function's parameters decide the number of arguments.
NAMED: dict[str, Callable[..., Expr]] = {
    FIRST_REPLACED: lambda s, p, r="": s.str.replace(p, r, regex=True, count=1),
    "isnull": Expr.is_null,
    "isnotnull": Expr.is_not_null,
    "try_divide": Expr.__truediv__,
    "power": Expr.power,
    "shiftleft": lambda x, n: _shifted(x, n, is_left=True),
    "shiftright": lambda x, n: _shifted(x, n, is_left=False),
    "positive": lambda x: x,
    "negative": Expr.__neg__,
    "split_index": lambda s, sep, n: s.str.split(words(sep)).item(whole(n, "a place")),
    **times.NAMED,
}

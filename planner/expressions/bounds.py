"""Bounds of integer expressions, from their types and literals.

Rules use them to know which arithmetic cannot overflow. Arithmetic that may overflow stays where
the query has it, and gets a check in Spark SQL. Times and durations count as their ticks.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pyarrow as pa

from planner.expressions.nodes import Call, Literal, Node, function_of

if TYPE_CHECKING:
    from collections.abc import Callable

#: The least and the greatest value of an integer expression.
Bounds = tuple[int, int]
_INT64: Bounds = (-(2**63), 2**63 - 1)
#: The bounds of each part of a time. Those of years are wider than necessary.
_PARTS: dict[str, Bounds] = {
    "year": (-300_000, 300_000),
    **dict.fromkeys(("month", "day", "hour", "minute", "second", "weekday"), (0, 60)),
    **dict.fromkeys(("week", "quarter", "day_of_week"), (0, 60)),
    "day_of_year": (0, 366),
    "iso_year": (-300_000, 300_000),
    "sign": (-1, 1),
}
#: Functions whose int64 arithmetic checks for overflow.
_CHECKED = ("add", "subtract", "multiply", "floor_divide", "negate", "abs", "round", "truncate")


def may_overflow(node: Call) -> bool:
    """Return whether this call itself, without its arguments, may overflow."""
    kind = node.type
    assert kind is not None, node
    if node.function == "cast":
        return _is_tighter(node)
    if pa.types.is_decimal(kind):
        return node.function in ("round", "floor", "ceil")
    if pa.types.is_floating(kind):
        return node.function == "round" and node.option("digits") != 0
    if node.function not in _CHECKED or bounds_of_type(kind) is None:
        return False
    return not _is_within(_unchecked(node), _INT64)


def bounds(node: Node) -> Bounds:
    """Return the bounds of the values of ``node``, which has an integer or time type."""
    assert node.type is not None, node
    limits = bounds_of_type(node.type)
    assert limits is not None, node
    if isinstance(node, Literal):
        if node.literal is None:
            return 0, 0
        value = pa.scalar(node.literal, node.type).cast(_physical(node.type)).as_py()
        return value, value
    if not isinstance(node, Call):
        return limits
    low, high = _unchecked(node)
    return max(low, limits[0]), min(high, limits[1])


def bounds_of_type(kind: pa.DataType) -> Bounds | None:
    """Return the bounds of a type of integers, times or durations; None for other types."""
    if pa.types.is_unsigned_integer(kind):
        return 0, 2**kind.bit_width - 1
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        return -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
    return None


def _unchecked(call: Call) -> Bounds:
    """Return the bounds of a call's values as if integers had any size."""
    known = function_of(call).bounds or _PARTS.get(call.function)
    if known is not None:
        return known
    limits = bounds_of_type(call.type) if call.type is not None else None
    args = [arg for arg in call.args if bounds_of_type(arg.type) is not None]
    rule = _RULES.get(call.function)
    if limits is None or rule is None or len(args) < len(call.args):
        return _INT64 if limits is None else limits
    if call.function == "cast" and not _same_ticks(call):
        return limits
    if call.function == "round":
        low, high = bounds(args[0])
        half = 10 ** max(-call.option("digits"), 0) // 2
        return low - half, high + half
    if call.function == "truncate":
        low, high = bounds(args[0])
        return low - call.option("every_us"), high
    return rule(*(bounds(arg) for arg in args))


def _same_ticks(cast: Call) -> bool:
    """Return whether a cast keeps the number: between integers, or to and from microseconds."""
    return all(
        pa.types.is_integer(kind) or getattr(kind, "unit", None) == "us"
        for kind in (cast.args[0].type, cast.type)
    )


def _is_tighter(cast: Call) -> bool:
    """Return whether a cast of integers may overflow, such as uint64 to int64."""
    source, target = cast.args[0], cast.type
    if not (pa.types.is_integer(source.type) and pa.types.is_integer(target)):
        return False
    limits = bounds_of_type(target)
    assert limits is not None, cast
    return not _is_within(bounds(source), limits)


def _is_within(some: Bounds, limits: Bounds) -> bool:
    return limits[0] <= some[0] and some[1] <= limits[1]


def _sum(a: Bounds, b: Bounds) -> Bounds:
    return a[0] + b[0], a[1] + b[1]


def _negated(a: Bounds) -> Bounds:
    return -a[1], -a[0]


def _product(a: Bounds, b: Bounds) -> Bounds:
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def _floored(a: Bounds, b: Bounds) -> Bounds:
    """Return the bounds of a quotient: not above the dividend, perhaps with the other sign."""
    if b[0] >= 0:
        return min(a[0], -1 if a[0] < 0 else 0), max(a[1], 0)
    size = max(abs(a[0]), abs(a[1]))
    return -size, size


def _remainder(_: Bounds, b: Bounds) -> Bounds:
    """Return the bounds of a remainder: between zero and the divisor."""
    return min(b[0] + 1, 0), max(b[1] - 1, 0)


def _size(a: Bounds) -> Bounds:
    return 0, max(abs(a[0]), abs(a[1]))


def _any_of(*some: Bounds) -> Bounds:
    return min(b[0] for b in some), max(b[1] for b in some)


_RULES: dict[str, Callable[..., Bounds]] = {
    "add": _sum,
    "subtract": lambda a, b: _sum(a, _negated(b)),
    "multiply": _product,
    "floor_divide": _floored,
    "modulo": _remainder,
    "negate": _negated,
    "abs": _size,
    "coalesce": _any_of,
    "cast": _any_of,
    "round": _any_of,
    "floor": _any_of,
    "ceil": _any_of,
    "truncate": _any_of,
}


@functools.lru_cache(maxsize=64)
def _physical(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_integer(kind):
        return kind
    return pa.int32() if kind.bit_width == 32 else pa.int64()

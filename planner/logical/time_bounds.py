"""Infers bounds on the time between the rows of a pair from its join condition.

A comparison becomes ``right.vs - left.vs <= us``, or ``>=``. Its sides may be sums of the rows'
times and durations, or SQL expressions over them: epochs, differences in a unit, truncated times.
Rounding widens the bound, so that no match is lost; the condition itself is still checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor
from typing import TYPE_CHECKING

import pyarrow as pa

from planner.expressions.nodes import ONE_ROW, Call, Node
from planner.expressions.predicates import conjuncts
from planner.expressions.types import is_time
from planner.logical.event_time import distance_us, of_sides, rounding_us

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.logical.nodes import IntervalJoin, LogicalNode

_US = timedelta(microseconds=1)
#: The greatest error of a quotient of two doubles in microseconds, us.
_DOUBLE_US = 4


@dataclass(frozen=True, slots=True)
class Span:
    """Bounds of ``right.vs - left.vs``, us; None: no bound."""

    lo: int | None = None
    hi: int | None = None
    #: Whether the condition states these bounds and nothing else, so it need not be checked again.
    is_exact: bool = False

    def meet(self, other: Span) -> Span:
        """Return the bounds if both conditions hold."""
        los = [lo for lo in (self.lo, other.lo) if lo is not None]
        his = [hi for hi in (self.hi, other.hi) if hi is not None]
        is_exact = self.is_exact and other.is_exact
        return Span(max(los, default=None), min(his, default=None), is_exact)

    def hull(self, other: Span) -> Span:
        """Return the bounds if at least one condition holds."""
        los, his = (self.lo, other.lo), (self.hi, other.hi)
        lo = None if None in los else min(lo for lo in los if lo is not None)
        hi = None if None in his else max(hi for hi in his if hi is not None)
        return Span(lo, hi)


def span_of(pairs: IntervalJoin, condition: Node) -> Span:
    """Return the bounds that follow from a condition over the columns of ``pairs``."""
    spans = [_span(pairs, part) for part in conjuncts(condition)]
    whole = spans[0]
    for span in spans[1:]:
        whole = whole.meet(span)
    return whole


def span_of_keys(keys: Sequence[tuple[LogicalNode, Node]]) -> Span:
    """Return the bounds that follow from an equality of a left and a right time."""
    (lo, hi), (their_lo, their_hi) = (
        _near(distance_us(plan, node), node.type) or (None, None) for plan, node in keys
    )
    if lo is None or hi is None or their_lo is None or their_hi is None:
        return Span()
    return Span(lo - their_hi, hi - their_lo)


def _span(pairs: IntervalJoin, node: Node) -> Span:
    if not isinstance(node, Call):
        return Span()
    match node.function, node.args:
        case "and", (a, b):
            return _span(pairs, a).meet(_span(pairs, b))
        case "or", (a, b):
            return _span(pairs, a).hull(_span(pairs, b))
        case "not", (Call(function="not", args=(inner,)),):
            return _span(pairs, inner)
        case "not", (Call(function="or", args=(a, b)),):
            return _span(pairs, Call("not", (a,))).meet(_span(pairs, Call("not", (b,))))
        case "not", (Call(function=function, args=args),) if function in _OPPOSITE:
            return _span(pairs, Call(_OPPOSITE[function], args))
        case "between", (value, least, most):
            return _compared(pairs, least, value).meet(_compared(pairs, value, most))
        case "equal", (a, b):
            return _compared(pairs, a, b).meet(_compared(pairs, b, a))
        case "less_equal" | "less", (a, b):
            return _compared(pairs, a, b, is_strict=node.function == "less")
        case "greater_equal" | "greater", (a, b):
            return _compared(pairs, b, a, is_strict=node.function == "greater")
        case _:
            return Span()


_OPPOSITE = {
    "less": "greater_equal",
    "less_equal": "greater",
    "greater": "less_equal",
    "greater_equal": "less",
}


def _compared(pairs: IntervalJoin, a: Node, b: Node, *, is_strict: bool = False) -> Span:
    """Return the bounds that follow from ``a <= b``."""
    if isinstance(a, Call) and a.function == "abs":
        (inner,) = a.args
        minus = Call("negate", (inner,))
        above = _compared(pairs, inner, b, is_strict=is_strict)
        return above.meet(_compared(pairs, minus, b, is_strict=is_strict))
    sums = _sum(pairs, a), _sum(pairs, b)
    if sums[0] is None or sums[1] is None:
        return Span()
    total = sums[0].plus(sums[1].times(-1))  # the sum ``a - b``, which is at most 0
    if total.right == 0 or total.left != -total.right:
        return Span()
    bound = -total.lo / total.right
    is_whole = total.is_exact and bound.denominator == 1
    step = 1 if is_strict and is_whole else 0
    if total.right > 0:
        return Span(None, floor(bound) - step, total.is_exact)
    return Span(ceil(bound) + step, None, total.is_exact)


@dataclass(frozen=True, slots=True)
class _Sum:
    """The sum ``left * left.vs + right * right.vs`` plus a value between ``lo`` and ``hi``, us."""

    left: Fraction
    right: Fraction
    lo: Fraction
    hi: Fraction
    is_exact: bool = True

    def plus(self, other: _Sum) -> _Sum:
        is_exact = self.is_exact and other.is_exact
        ends = (self.lo + other.lo, self.hi + other.hi)
        return _Sum(self.left + other.left, self.right + other.right, *ends, is_exact)

    def times(self, factor: Fraction | int) -> _Sum:
        lo, hi = sorted((self.lo * factor, self.hi * factor))
        return _Sum(self.left * factor, self.right * factor, lo, hi, self.is_exact)

    def widened(self, lo: Fraction | int, hi: Fraction | int) -> _Sum:
        return _Sum(self.left, self.right, self.lo + lo, self.hi + hi, is_exact=False)


def _sum(pairs: IntervalJoin, node: Node) -> _Sum | None:
    """Return the expression as a sum of times; None: it is not one."""
    if not node.columns():
        value = _constant(node)
        return None if value is None else _Sum(Fraction(0), Fraction(0), value, value)
    if not isinstance(node, Call):
        return _time(pairs, node)
    match node.function, node.args:
        case "add", (a, b):
            return _both(_sum(pairs, a), _sum(pairs, b))
        case "subtract", (a, b):
            return _both(_sum(pairs, a), _scaled(_sum(pairs, b), Fraction(-1)))
        case "negate", (a,):
            return _scaled(_sum(pairs, a), Fraction(-1))
        case "epoch_us", (a,):
            return _sum(pairs, a)
        case "multiply", (a, b):
            factor, other = (a, b) if not a.columns() else (b, a)
            is_double = pa.types.is_floating(node.type)
            return _scaled(_sum(pairs, other), _constant(factor), is_double=is_double)
        case "divide" | "floor_divide", (a, b):
            return _divided(_sum(pairs, a), _constant(b), is_whole=node.function != "divide")
        case "when", (_, first, second):
            return _either(_sum(pairs, first), _sum(pairs, second))
        case "truncate", (a,):
            total = _sum(pairs, a)
            return None if total is None else total.widened(-node.option("every_us"), 0)
        case "cast", (a,):
            return _cast(_sum(pairs, a), node.type) or _time(pairs, node)
        case _:
            return None


def _time(pairs: IntervalJoin, node: Node) -> _Sum | None:
    """Return a time that is equal or close to a row's start; None: it is not one."""
    for side, below, inner in of_sides(pairs, node):
        near = _near(distance_us(below, inner), node.type)
        if near is not None:
            left, right = (Fraction(int(side == one)) for one in ("left", "right"))
            lo, hi = map(Fraction, near)
            return _Sum(left, right, lo, hi, is_exact=near == (0, 0))
    return None


def _near(distance: tuple[int, int] | None, kind: pa.DataType | None) -> tuple[int, int] | None:
    """Return the distance from the row's start of a time of this type, with rounding errors."""
    if distance is None or kind is None:
        return None
    lo, hi = (0, 0)
    if is_time(kind):
        lo, hi = rounding_us(kind)
    elif not pa.types.is_int64(kind):
        return None
    return distance[0] + lo, distance[1] + hi


def _constant(node: Node) -> Fraction | None:
    """Return the value of an expression without columns, in microseconds or as a number."""
    if node.columns():
        return None
    try:
        value = node.evaluate(ONE_ROW)[0].as_py()
    except (ValueError, ArithmeticError):  # leave it: it fails at run time, if there are rows
        return None
    if isinstance(value, timedelta):
        return Fraction(value // _US)
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return Fraction(value) if is_number else None


def _both(a: _Sum | None, b: _Sum | None) -> _Sum | None:
    return None if a is None or b is None else a.plus(b)


def _scaled(a: _Sum | None, factor: Fraction | None, *, is_double: bool = False) -> _Sum | None:
    if a is None or factor is None:
        return None
    off = _DOUBLE_US * abs(factor)
    return a.times(factor).widened(-off, off) if is_double else a.times(factor)


def _divided(a: _Sum | None, by: Fraction | None, *, is_whole: bool) -> _Sum | None:
    if a is None or not by:
        return None
    quotient = a.times(1 / by)
    off = _DOUBLE_US / abs(by)
    return quotient.widened(-1, 0) if is_whole else quotient.widened(-off, off)


def _either(a: _Sum | None, b: _Sum | None) -> _Sum | None:
    if a is None or b is None or (a.left, a.right) != (b.left, b.right):
        return None
    return _Sum(a.left, a.right, min(a.lo, b.lo), max(a.hi, b.hi), is_exact=False)


def _cast(a: _Sum | None, kind: pa.DataType | None) -> _Sum | None:
    """Return a sum after a cast; a cast to a number rounds by at most one."""
    if a is None or kind is None:
        return None
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        return a.widened(-1, 1) if pa.types.is_integer(kind) and not a.is_exact else a
    near = (0, 0) if pa.types.is_duration(kind) else _near((0, 0), kind)
    if near is None:
        return None
    return a if near == (0, 0) else a.widened(*near)

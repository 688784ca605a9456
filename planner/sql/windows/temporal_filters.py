"""Temporal filters: conditions on the current time, ``MZ_NOW()`` or ``NOW()``, as lifetimes.

``WHERE mz_now() <= ts + INTERVAL '5' MINUTE`` keeps a row until that time. So the row is valid from
its start ``ts`` until then; rows that are current at the end of an input are valid at its last
time. A condition ``mz_now() >= ts + d`` lets the row begin later. ``ts`` is the time of the stream.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.logical.event_time import is_event_time
from planner.sql.reading.literals import interval_us

if TYPE_CHECKING:
    from planner.sql.expressions.names import Names
    from planner.sql.expressions.scope import Scope

_NOW = ("MZ_NOW", "NOW")
_TIMES = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ)
_TURNED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}
_FORM = (
    "a condition on the current time compares it with the time of a stream of points: write "
    "mz_now() <= ts + INTERVAL '5' MINUTE in the WHERE of SELECT ... FROM t, or give rows a "
    "lifetime: ve = ts + INTERVAL '5' MINUTE in the declaration"
)


def reads_now(node: exp.Expr) -> bool:
    """Return whether a condition reads the current time."""
    return any(_is_now(part) for part in node.walk())


def _is_now(node: exp.Expr) -> bool:
    if isinstance(node, exp.CurrentTimestamp):
        return True
    return isinstance(node, exp.Anonymous) and node.name.upper() in _NOW


def with_lifetimes(
    conditions: list[exp.Expr], scope: Scope, names: Names
) -> tuple[Scope, list[exp.Expr], bool]:
    """Return the rows with their lifetimes, the other conditions, and whether some read the time.

    Raises:
        SqlError: a condition has another form, or never holds.
    """
    moved = [part for part in conditions if reads_now(part)]
    if not moved or names.text.engine.name != "postgres":
        return scope, conditions, False
    first, last = 0, None
    for part in moved:
        for kind, us in _bounds(part, scope, names):
            if kind in (exp.GT, exp.GTE):
                first = max(first, us + (kind is exp.GT))
            else:
                end = us + (kind is exp.LTE)
                last = end if last is None else min(last, end)
    if last is not None and last <= first:
        raise names.text.error(moved[0], "these conditions on the current time never hold")
    stream = scope.stream.shift(first) if first else scope.stream
    if last is not None:
        stream = stream.set_duration(last - first)
    others = [part for part in conditions if part not in moved]
    return replace(scope, stream=stream), others, True


def _bounds(part: exp.Expr, scope: Scope, names: Names) -> list[tuple[type[exp.Expr], int]]:
    """Return ``now OP ts + us`` as pairs of OP and us."""
    part = part.unnest()
    if isinstance(part, exp.Between):
        low, high = part.args["low"], part.args["high"]
        pairs: list[tuple[type[exp.Expr], exp.Expr, exp.Expr]] = [
            (exp.GTE, part.this, low),
            (exp.LTE, part.this, high),
        ]
    elif type(part) in _TURNED:
        pairs = [(type(part), part.this, part.expression)]
    else:
        raise names.text.error(part, _FORM)
    bounds = []
    for kind, left, right in pairs:
        (a, plus), (b, minus) = _moved(left, names), _moved(right, names)
        us = minus - plus
        if _is_now(b):
            kind, a, b, us = _TURNED[kind], b, a, -us
        if not isinstance(b, exp.Column) or not scope.candidates(b):
            raise names.text.error(part, _FORM)
        if not _is_now(a) or not scope.stream.plan.is_point:
            raise names.text.error(part, _FORM)
        if not is_event_time(scope.stream.plan, scope.column(b, names.text)):
            raise names.text.error(b, _FORM)
        bounds.append((kind, us))
    return bounds


def _moved(node: exp.Expr, names: Names) -> tuple[exp.Expr, int]:
    """Return a time and the constant that is added to it, us."""
    node, us = node.unnest(), 0
    while isinstance(node, exp.Add | exp.Sub) or _is_same_time(node):  # ends: a tree is finite
        if not isinstance(node, exp.Cast):
            by = interval_us(node.expression, names.text)
            us += by if isinstance(node, exp.Add) else -by
        node = node.this.unnest()
    return node, us


def _is_same_time(node: exp.Expr) -> bool:
    """Return whether a node is a cast that keeps the time; a cast to DATE does not."""
    return isinstance(node, exp.Cast) and node.to.this in _TIMES and not node.to.expressions

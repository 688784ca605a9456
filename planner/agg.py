"""Aggregates: ``agg.count()``, ``agg.sum("price")``, ``agg.max(col("price") * 2)``.

``count()`` counts events, ``count(x)`` those where x is not null. ``sum, mean, min, max`` skip
nulls and are null where there is nothing; ``first`` and ``last`` go by the event's start and
include nulls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.expressions import Expr, col

if TYPE_CHECKING:
    from planner.logical import AggregateFunction


@dataclass(frozen=True, slots=True)
class Agg:
    """An aggregate that has no name yet."""

    function: AggregateFunction
    expr: Expr | None


def _of(function: AggregateFunction, column: str | Expr) -> Agg:
    return Agg(function, col(column) if isinstance(column, str) else column)


def count(column: str | Expr | None = None) -> Agg:
    """How many events, or how many values that are not null."""
    return Agg("count", None) if column is None else _of("count", column)


def sum(column: str | Expr) -> Agg:
    """The sum; of integers in int64, otherwise in float64."""
    return _of("sum", column)


def mean(column: str | Expr) -> Agg:
    """The arithmetic mean, in float64."""
    return _of("mean", column)


def min(column: str | Expr) -> Agg:
    """The least value."""
    return _of("min", column)


def max(column: str | Expr) -> Agg:
    """The greatest value."""
    return _of("max", column)


def first(column: str | Expr) -> Agg:
    """The value of the earliest event."""
    return _of("first", column)


def last(column: str | Expr) -> Agg:
    """The value of the latest event."""
    return _of("last", column)

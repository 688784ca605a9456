"""Structs as columns, the inputs of ``top_rows``, ``listed``, ``corr`` and others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from planner.api.choices import when
from planner.api.expressions import Expr, call, col
from planner.api.names import resolved, text_of
from planner.errors import InvalidPlanError
from rstream.items.batch import VS
from rvertex.aggregates.ranked.listed import VALUE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Made = Callable[[pa.Schema], Expr]


def first_rows(
    orders: Sequence[Expr], row: Callable[[pa.Schema], Mapping[str, Expr]], where: Expr | None
) -> Made:
    """Return the function that builds the input column of ``top_rows``; null: skip the row."""

    def made(schema: pa.Schema) -> Expr:
        fields = row(schema)
        kept = call("struct", *fields.values(), names=tuple(fields))
        return _counted({**_by(orders), "vs": col(VS), "row": kept}, where)

    return made


def listed_values(
    value: Expr, orders: Sequence[Expr], where: Expr | None, *, is_distinct: bool
) -> Made:
    """Return the function that builds the input column of ``listed``.

    Raises:
        InvalidPlanError: the order of distinct values depends on more than the values.
    """

    def made(schema: pa.Schema) -> Expr:
        kind = resolved(value, schema).type
        if is_distinct and pa.types.is_nested(kind):
            raise InvalidPlanError(f"distinct values of {value}: {kind} cannot be compared")
        if is_distinct and orders and (len(orders) > 1 or orders[0].node != value.node):
            raise InvalidPlanError(
                f"distinct values can only be ordered by {value} itself: equal values "
                "have no other single order"
            )
        return _counted({**_by(orders), VALUE: value}, where)

    return made


def pair(x: str | Expr, y: str | Expr) -> Expr:
    """Return a struct of two doubles, the input of ``corr`` and ``covariance``."""
    sides = [(col(side) if isinstance(side, str) else side).cast("float64") for side in (x, y)]
    return call("struct", *sides, names=("x", "y"))


def text_of_all(columns: Sequence[Expr], schema: pa.Schema) -> Expr:
    """Return a string that is equal for rows whose columns are all equal; null if one is null."""
    first, *others = [text_of(column, schema) for column in columns]
    for other in others:
        first = first + other
    return first


def _by(orders: Sequence[Expr]) -> dict[str, Expr]:
    return {f"by{i}": order for i, order in enumerate(orders)}


def _counted(fields: Mapping[str, Expr], where: Expr | None) -> Expr:
    row = call("struct", *fields.values(), names=tuple(fields))
    return row if where is None else when(where).then(row).otherwise(None)

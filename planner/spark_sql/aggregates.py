"""Aggregates as Spark SQL: what is computed per group, and the result made of that.

Sums of integers are exact and must fit into int64. ``first`` and ``last`` go by ``_vs`` alone and
refuse to choose between different values that start together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from planner.spark_sql.casts import cast, failure
from planner.spark_sql.errors import UnsupportedInBatchError
from planner.spark_sql.types import type_name
from rstream.batch import VS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.logical import Aggregate


@dataclass(frozen=True, slots=True)
class Take:
    """An aggregate: what is computed per group, and the result made of that."""

    partial: dict[str, str]
    result: str

    @staticmethod
    def of(aggregate: Aggregate, index: int, columns: Mapping[str, str], schema: pa.Schema) -> Take:
        name = f"a{index}"
        if aggregate.column is None:
            return Take({name: "count(1)"}, name)
        column = columns[aggregate.column]
        kind = schema.field(aggregate.column).type
        shown = f"{aggregate.function}({aggregate.column})"
        if aggregate.function in ("sum", "mean"):
            return _added(aggregate.function, name, column, kind, shown)
        if aggregate.function in ("first", "last"):
            return _picked(aggregate.function, name, column, shown)
        if aggregate.function not in ("count", "min", "max"):
            raise UnsupportedInBatchError(shown, "it has no batch twin yet")
        return Take({name: f"{aggregate.function}({column})"}, name)


def _added(function: str, name: str, column: str, kind: pa.DataType, shown: str) -> Take:
    """Sums of integers are exact and must fit; floats are added as doubles."""
    if pa.types.is_integer(kind):
        total = f"sum(cast({column} as decimal(20, 0)))"
        result = cast(name, pa.decimal128(30, 0), pa.int64(), shown)
    elif pa.types.is_floating(kind):
        total, result = f"sum(cast({column} as double))", name
    else:
        total = f"sum({column})"
        result = f"cast({name} as {type_name(pa.decimal128(38, kind.scale))})"
    if function == "sum":
        return Take({name: total}, result)
    counted = f"{name}_count"
    mean = f"cast({result} as double) / {counted}"
    return Take({name: total, counted: f"count({column})"}, mean)


def _picked(function: str, name: str, column: str, shown: str) -> Take:
    """The value at the least (greatest) ``_vs``: the least and the greatest such value must agree.

    ``~_vs`` runs against ``_vs`` and, unlike ``-_vs``, does not overflow.
    """
    rising = f"named_struct('vs', {VS}, 'x', {column})"
    falling = f"named_struct('vs', ~{VS}, 'x', {column})"
    one, other = (rising, falling) if function == "first" else (falling, rising)
    wrong = failure(
        f"{shown}: several events of a window start together with different values; "
        "their order is known to the stream only"
    )
    low, high = f"{name}_low", f"{name}_high"
    agrees = f"if({low}.x <=> {high}.x, {low}.x, {wrong})"
    return Take({low: f"min({one})", high: f"max({other})"}, agrees)

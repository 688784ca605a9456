"""Aggregates as Spark SQL: a column that is computed per group, and the result from it.

Sums of integers and decimals are exact and must fit into their type. ``first``, ``last``,
``max_by``, ``min_by`` and user aggregates order events that start together by their place in the
stream. Where it is unknown, they raise an error if the values differ; a user aggregate gets the
values sorted instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from planner.batch.spark_sql import in_order
from planner.batch.spark_sql.take import Take, Wanted
from planner.expressions.spark.casts import cast, failure
from planner.expressions.spark.let_bindings import let
from planner.expressions.spark.types import physical, type_name
from rvertex.aggregates.user_defined import Custom

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.batch.spark_sql.frame import Frame
    from planner.logical.nodes import Aggregate


#: SQL that keeps the structs of a list whose field ``x`` is not null.
_OF_VALID = "filter({}, row -> row.x is not null)"


def user_function(index: int) -> str:
    """Return the Spark name of the user aggregate with number ``index``."""
    return f"user_aggregate_{index}"


def _added(wanted: Wanted, once: str = "") -> Take:
    """Return a sum: exact and with a check of its range; of floats the sum of doubles.

    Spark returns null for a sum of decimals with more than 38 digits at any time, even if later
    values reduce it.
    """
    name, column, kind, shown = wanted.name, wanted.column, wanted.kind, wanted.shown
    counted = f"{name}_count"
    if pa.types.is_integer(kind):
        total, exact = f"sum({once}cast({column} as decimal(20, 0)))", name
    elif pa.types.is_floating(kind):
        total, exact = f"sum({once}cast({column} as double))", name
    else:
        total = f"sum({once}{column})"
        fitting = f"try_cast({name} as {type_name(pa.decimal128(38, kind.scale))})"
        wrong = failure(f"{shown}: the sum does not fit into 38 digits")
        exact = f"if({counted} > 0 and {fitting} is null, {wrong}, {fitting})"
    partial = {name: total, counted: f"count({once}{column})"}
    if wanted.function in ("mean", "mean_distinct"):
        return Take(partial, f"cast({exact} as double) / {counted}")
    if pa.types.is_integer(kind):
        exact = cast(name, pa.decimal128(30, 0), pa.int64(), shown)
    return Take(partial, exact)


def _together(wanted: Wanted) -> Take:
    """Return Spark's correlation or covariance; a correlation is null if one side is constant."""
    name, x, y = wanted.name, f"{wanted.column}.x", f"{wanted.column}.y"
    both = f"{x} is not null and {y} is not null"
    partial = {f"{name}_n": f"count(if({both}, 1, null))"}
    if wanted.function == "covariance":
        ddof = wanted.aggregate.argument
        partial[name] = f"covar_pop({x}, {y})"
        made = f"{name} * {name}_n / ({name}_n - {ddof})"
        return Take(partial, f"if({name}_n > {ddof}, {made}, null)")
    partial[name] = f"corr({x}, {y})"
    for side, of in (("x", x), ("y", y)):
        value = f"if({both}, {of}, null)"
        partial |= {f"{name}_{side}{best}": f"{best}({value})" for best in ("min", "max")}
    one = " or ".join(f"{name}_{side}min = {name}_{side}max" for side in "xy")
    return Take(partial, f"if({name}_n = 0 or {one}, null, {name})")


def _mode(wanted: Wanted) -> Take:
    """Return the least of the most frequent values, from the sorted values."""
    name = wanted.name

    def best(values: str) -> str:
        counted = (
            f"transform(array_distinct({values}), value -> struct("
            f"-size(filter({values}, other -> other = value)) as times, value as value))"
        )
        return f"array_min({counted}).value"

    made = let(f"array_sort({name})", best)
    return Take({name: f"collect_list({wanted.column})"}, f"if(size({name}) = 0, null, {made})")


def _shape(wanted: Wanted) -> Take:
    """Return Spark's skewness or kurtosis; null if all values are equal."""
    name, value = wanted.name, f"cast({wanted.column} as double)"
    partial = {
        name: f"{wanted.function}({value})",
        f"{name}_low": f"min({value})",
        f"{name}_high": f"max({value})",
    }
    one = f"{name}_low = {name}_high and not isnan({name}_low)"
    return Take(partial, f"if({one}, null, {name})")


def _spread(wanted: Wanted) -> Take:
    """Return SQL for a variance or standard deviation, from Spark's population variance."""
    name, ddof = wanted.name, wanted.aggregate.argument
    value = f"cast({wanted.column} as double)"
    partial = {
        name: f"var_pop({value})",
        f"{name}_n": f"count({value})",
        f"{name}_low": f"min({value})",
        f"{name}_high": f"max({value})",
    }
    one = f"{name}_low = {name}_high and abs({name}_low) < double('Infinity')"
    spread = f"if({one}, 0D, {name} * {name}_n / ({name}_n - {ddof}))"
    root = spread if wanted.function == "variance" else f"sqrt({spread})"
    return Take(partial, f"if({name}_n > {ddof}, {root}, null)")


def _discrete(wanted: Wanted) -> Take:
    """Return the value at an index of the sorted list of values."""
    q, way = str(wanted.aggregate.argument).split(" ")
    name = wanted.name
    place = f"greatest({name}_n - floor({name}_n - {name}_n * {q}D), 1)"
    at = f"{place} - 1" if way == "asc" else f"{name}_n - {place}"
    partial = {name: f"collect_list({wanted.column})", f"{name}_n": f"count({wanted.column})"}
    return Take(partial, f"get(array_sort({name}), cast({at} as int))")


def _of_user(wanted: Wanted) -> Take:
    """Return the call of a user aggregate with the array of values; see :func:`register`."""
    values = f"transform(array_sort({wanted.name}), pair -> pair.x)"
    pairs = f"collect_list(struct({', '.join(wanted.below.order)}, {wanted.column} as x))"
    return Take({wanted.name: pairs}, f"{user_function(wanted.index)}({values})")


#: By aggregate function: returns the SQL of its column per group, and of the result.
WRITERS: dict[str, Callable[[Wanted], Take]] = {
    "count": lambda wanted: wanted.take("count({})"),
    "sum": _added,
    "product": lambda wanted: wanted.take(
        "collect_list(cast({} as double))",
        "if(size({0}) = 0, null, aggregate({0}, 1D, (a, b) -> a * b))",
    ),
    "mean": _added,
    "min": lambda wanted: wanted.take("min({})"),
    "max": lambda wanted: wanted.take("max({})"),
    "first": in_order.picked,
    "last": in_order.picked,
    "max_by": in_order.ranked_first,
    "min_by": in_order.ranked_first,
    "variance": _spread,
    "stddev": _spread,
    "count_distinct": lambda wanted: wanted.take("count(distinct {})"),
    "sum_distinct": lambda wanted: _added(wanted, "distinct "),
    "mean_distinct": lambda wanted: _added(wanted, "distinct "),
    "corr": _together,
    "covariance": _together,
    "top_k": lambda wanted: wanted.take(
        "collect_list({})",
        "if(size({0}) = 0, null, slice(sort_array({0}, false), 1, {argument}))",
    ),
    "array_agg": lambda wanted: in_order.listed_by_time(wanted, "{}"),
    "collect": lambda wanted: in_order.listed_by_time(wanted, _OF_VALID),
    "string_agg": lambda wanted: in_order.listed_by_time(wanted, _OF_VALID, wanted.joining),
    "quantile": lambda wanted: wanted.take("percentile(cast({} as double), {argument}D)"),
    "mode": _mode,
    "skewness": _shape,
    "kurtosis": _shape,
    "user": _of_user,
    "top_rows": in_order.top_rows,
    "top_value": in_order.top_value,
    "listed": in_order.listed_by_order,
    "quantile_disc": _discrete,
}


def register(session: Any, index: int, aggregate: Aggregate, schema: pa.Schema) -> None:
    """Register a user aggregate as a function of the array of its values."""
    assert aggregate.column is not None, aggregate
    assert isinstance(aggregate.argument, Custom), aggregate
    target, kind = aggregate.argument.target, schema.field(aggregate.column).type
    stored, made = physical(kind), physical(target.type)

    def result(values: list[object]) -> object:
        value = target.result(target.add(target.init(), pa.array(values, stored).cast(kind)))
        return pa.scalar(value, target.type).cast(made).as_py()

    session.udf.register(user_function(index), result, type_name(target.type))


def take_of(aggregate: Aggregate, index: int, below: Frame) -> Take:
    """Return the SQL of the aggregate with number ``index`` over the rows ``below``."""
    if aggregate.column is None:
        name = f"a{index}"
        return Take({name: "count(1)"}, name)
    return WRITERS[aggregate.function](Wanted(aggregate.column, aggregate, index, below))

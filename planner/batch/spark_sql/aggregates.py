"""Aggregates as Spark SQL: what is computed per group, and the result made of that.

Sums of integers and decimals are exact and must fit into their type. ``first``, ``last``,
``max_by``, ``min_by`` and aggregates of users take events that start together by their place in the
stream. Where that is not known, they refuse to choose between different values; a user's aggregate
gets them by value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from planner.expressions.spark.casts import cast, failure
from planner.expressions.spark.let_bindings import let
from planner.expressions.spark.types import ident, physical, text, type_name
from rstream.items.batch import VS
from rvertex.aggregates.ranked.top_rows import TopOrder
from rvertex.aggregates.user_defined import Custom

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.batch.spark_sql.frame import Frame
    from planner.logical.nodes import Aggregate


#: The rows with a value, of a list of structs.
_OF_VALID = "filter({}, row -> row.x is not null)"


@dataclass(frozen=True, slots=True)
class Take:
    """An aggregate: what is computed per group, and the result made of that."""

    partial: dict[str, str]
    result: str

    @staticmethod
    def of(aggregate: Aggregate, index: int, below: Frame) -> Take:
        name = f"a{index}"
        if aggregate.column is None:
            return Take({name: "count(1)"}, name)
        return WRITERS[aggregate.function](_Asked(aggregate.column, aggregate, index, below))


@dataclass(frozen=True, slots=True)
class _Asked:
    """An aggregate of column ``source`` of ``below``; ``index`` tells it from others."""

    source: str
    aggregate: Aggregate
    index: int
    below: Frame

    @property
    def function(self) -> str:
        return self.aggregate.function

    @property
    def name(self) -> str:
        """The name of the column that is computed per group."""
        return f"a{self.index}"

    @property
    def column(self) -> str:
        return self.below.columns[self.source]

    @property
    def kind(self) -> pa.DataType:
        return self.below.schema.field(self.source).type

    @property
    def joining(self) -> str:
        """A list of texts with the separator between them."""
        return f"array_join({{}}, {text(str(self.aggregate.argument))})"

    @property
    def shown(self) -> str:
        """The aggregate in error messages."""
        return f"{self.function}({self.source})"

    def take(self, partial: str, result: str = "{}") -> Take:
        """``partial`` has a place for the column, ``result`` for :attr:`name`."""
        argument = self.aggregate.argument
        made = partial.format(self.column, argument=argument)
        return Take({self.name: made}, result.format(self.name, argument=argument))


def user_function(index: int) -> str:
    """The name of a user's aggregate, by its number."""
    return f"user_aggregate_{index}"


def _added(asked: _Asked, once: str = "") -> Take:
    """Sums of integers and decimals are exact and must fit; floats are added as doubles.

    Spark gives null for a sum of decimals that leaves 38 digits, even if it would come back.
    """
    name, column, kind, shown = asked.name, asked.column, asked.kind, asked.shown
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
    if asked.function in ("mean", "mean_distinct"):
        return Take(partial, f"cast({exact} as double) / {counted}")
    if pa.types.is_integer(kind):
        exact = cast(name, pa.decimal128(30, 0), pa.int64(), shown)
    return Take(partial, exact)


def _together(asked: _Asked) -> Take:
    """By Spark's own; null where one side does not vary, which Spark tells by its sums."""
    name, x, y = asked.name, f"{asked.column}.x", f"{asked.column}.y"
    both = f"{x} is not null and {y} is not null"
    partial = {f"{name}_n": f"count(if({both}, 1, null))"}
    if asked.function == "covariance":
        ddof = asked.aggregate.argument
        partial[name] = f"covar_pop({x}, {y})"
        made = f"{name} * {name}_n / ({name}_n - {ddof})"
        return Take(partial, f"if({name}_n > {ddof}, {made}, null)")
    partial[name] = f"corr({x}, {y})"
    for side, of in (("x", x), ("y", y)):
        value = f"if({both}, {of}, null)"
        partial |= {f"{name}_{side}{best}": f"{best}({value})" for best in ("min", "max")}
    one = " or ".join(f"{name}_{side}min = {name}_{side}max" for side in "xy")
    return Take(partial, f"if({name}_n = 0 or {one}, null, {name})")


def _mode(asked: _Asked) -> Take:
    """Of the values sorted, the least of those that come most often."""
    name = asked.name

    def best(values: str) -> str:
        counted = (
            f"transform(array_distinct({values}), value -> struct("
            f"-size(filter({values}, other -> other = value)) as times, value as value))"
        )
        return f"array_min({counted}).value"

    made = let(f"array_sort({name})", best)
    return Take({name: f"collect_list({asked.column})"}, f"if(size({name}) = 0, null, {made})")


def _shape(asked: _Asked) -> Take:
    """By Spark's own; null where the values do not vary, which Spark tells by its sums."""
    name, value = asked.name, f"cast({asked.column} as double)"
    partial = {
        name: f"{asked.function}({value})",
        f"{name}_low": f"min({value})",
        f"{name}_high": f"max({value})",
    }
    one = f"{name}_low = {name}_high and not isnan({name}_low)"
    return Take(partial, f"if({one}, null, {name})")


def _spread(asked: _Asked) -> Take:
    """By Spark's population variance; exactly 0 where all values are one."""
    name, ddof = asked.name, asked.aggregate.argument
    value = f"cast({asked.column} as double)"
    partial = {
        name: f"var_pop({value})",
        f"{name}_n": f"count({value})",
        f"{name}_low": f"min({value})",
        f"{name}_high": f"max({value})",
    }
    one = f"{name}_low = {name}_high and abs({name}_low) < double('Infinity')"
    spread = f"if({one}, 0D, {name} * {name}_n / ({name}_n - {ddof}))"
    root = spread if asked.function == "variance" else f"sqrt({spread})"
    return Take(partial, f"if({name}_n > {ddof}, {root}, null)")


def _picked(asked: _Asked) -> Take:
    """The value at the least (greatest) ``_vs``, and of these at the least (greatest) place.

    Without places the least and the greatest such value must agree; ``~_vs`` runs against ``_vs``
    and, unlike ``-_vs``, does not overflow.
    """
    name, column, below = asked.name, asked.column, asked.below
    best, other = ("min", "max") if asked.function == "first" else ("max", "min")
    found = {name: f"{best}(struct({', '.join(below.order)}, {column} as x))"}
    if below.has_place:
        return Take(found, f"{name}.x")
    against = f"{name}_against"
    found[against] = f"{other}(struct(~{VS} as vs, {column} as x))"
    return Take(found, f"if({name}.x <=> {against}.x, {name}.x, {_ambiguous(asked.shown)})")


def _ranked(asked: _Asked) -> Take:
    """The value at the greatest (least) rank, there at the least time, there at the least place.

    Without places, one value must be there.
    """
    name, column, below = asked.name, asked.column, asked.below
    place = below.place[0] if below.has_place else "0L"
    pairs = f"filter({name}, pair -> pair.x.rank is not null)"
    best = "array_max" if asked.function == "max_by" else "array_min"
    rank = f"{best}(transform({pairs}, pair -> pair.x.rank))"

    def first(rank: str) -> str:
        found = f"filter({pairs}, pair -> pair.x.rank <=> {rank})"
        made = "struct(pair.x.vs as vs, pair.place as place, pair.x.value as value)"
        return let(f"array_sort(transform({found}, pair -> {made}))", picked)

    def picked(rows: str) -> str:
        one = f"get({rows}, 0)"
        if below.has_place:
            return f"{one}.value"
        return let(
            f"filter({rows}, row -> row.vs = {one}.vs and not row.value <=> {one}.value)",
            lambda others: f"if(size({others}) > 0, {_ambiguous(asked.shown)}, {one}.value)",
        )

    return Take({name: f"collect_list(struct({column} as x, {place} as place))"}, let(rank, first))


def _listed(asked: _Asked, chosen: str, result: str = "{}") -> Take:
    """All values by time and place; without places those of one time by value."""
    fields = ", ".join((*asked.below.order, f"{asked.column} as x"))
    rows = f"array_sort({chosen.format(asked.name)})"
    values = f"transform({rows}, row -> row.x)"
    made = let(values, lambda x: f"if(size({x}) = 0, null, {result.format(x)})")
    return Take({asked.name: f"collect_list(struct({fields}))"}, made)


def _top_rows(asked: _Asked) -> Take:
    """The rows sorted by a comparison; rows that tie in all have no order without places."""
    order = TopOrder.read(asked.aggregate.argument)
    place = asked.below.place[0] if asked.below.has_place else "0L"
    fields = [f.name for f in asked.kind.field("row").type]

    def compared(left: str, right: str) -> str:
        steps = [
            _way(f"{left}.x.by{i}", f"{right}.x.by{i}", down=down, nulls_first=first)
            for i, (down, first) in enumerate(order.ways)
        ]
        return _first_difference(steps)

    def by_time(left: str, right: str) -> str:
        later = [
            _way(f"{left}.{name}", f"{right}.{name}", down=order.latest, nulls_first=False)
            for name in ("x.vs", "place")
        ]
        return _first_difference([compared(left, right), *later])

    def listed(rows: str) -> str:
        before = f"filter({rows}, other -> {compared('other', 'row')} < 0)"
        values = ", ".join(f"other.x.by{i}" for i in range(len(order.ways)))
        distinct = f"other -> struct({values})"
        number = {
            "row_number": "at + 1",
            "rank": f"size({before}) + 1",
            "dense_rank": f"size(array_distinct(transform({before}, {distinct}))) + 1",
        }[order.kind]
        row = ", ".join(f"row.x.row.{ident(name)} as {ident(name)}" for name in fields)
        equal = f"filter(slice({rows}, 1, at), other -> other.x.row <=> row.x.row)"
        numbers = (number, "at + 1", f"size({equal}) + 1")
        named = order.place_names(fields)
        places = ", ".join(
            f"cast({value} as bigint) as {ident(name)}"
            for value, name in zip(numbers, named, strict=False)
        )
        made = f"transform({rows}, (row, at) -> struct({places}, {row}))"
        kept = f"filter({made}, row -> row.{ident(named[0])} <= {order.rows})"
        checked = kept
        if not asked.below.has_place:
            ties = (
                f"exists({rows}, one -> exists({rows}, other -> {by_time('one', 'other')} = 0 "
                "and not one.x.row <=> other.x.row))"
            )
            checked = f"if({ties}, {_ambiguous(asked.shown)}, {kept})"
        return f"if(size({rows}) = 0, null, {checked})"

    sort = f"array_sort({asked.name}, (one, other) -> {by_time('one', 'other')})"
    collected = f"collect_list(struct({asked.column} as x, {place} as place))"
    return Take({asked.name: collected}, let(sort, listed))


def _way(a: str, b: str, *, down: bool, nulls_first: bool) -> str:
    """-1, 0 or 1, as one value comes before, with or after another."""
    null = -1 if nulls_first else 1
    less = 1 if down else -1
    return (
        f"case when {a} <=> {b} then 0 when {a} is null then {null} when {b} is null then {-null} "
        f"when {a} < {b} then {less} else {-less} end"
    )


def _first_difference(steps: list[str]) -> str:
    *first, last = steps
    tests = " ".join(f"when ({step}) <> 0 then ({step})" for step in first)
    return f"(case {tests} else ({last}) end)" if tests else f"({last})"


def _ambiguous(shown: str) -> str:
    return failure(
        f"{shown}: several events of a window start together with different values; "
        "their order is known to the stream only"
    )


def _of_user(asked: _Asked) -> Take:
    """By a function of the array of values, which :func:`register` makes known."""
    values = f"transform(array_sort({asked.name}), pair -> pair.x)"
    pairs = f"collect_list(struct({', '.join(asked.below.order)}, {asked.column} as x))"
    return Take({asked.name: pairs}, f"{user_function(asked.index)}({values})")


#: By the name of a function: what is computed of a column, and the result of that.
WRITERS: dict[str, Callable[[_Asked], Take]] = {
    "count": lambda asked: asked.take("count({})"),
    "sum": _added,
    "product": lambda asked: asked.take(
        "collect_list(cast({} as double))",
        "if(size({0}) = 0, null, aggregate({0}, 1D, (a, b) -> a * b))",
    ),
    "mean": _added,
    "min": lambda asked: asked.take("min({})"),
    "max": lambda asked: asked.take("max({})"),
    "first": _picked,
    "last": _picked,
    "max_by": _ranked,
    "min_by": _ranked,
    "variance": _spread,
    "stddev": _spread,
    "count_distinct": lambda asked: asked.take("count(distinct {})"),
    "sum_distinct": lambda asked: _added(asked, "distinct "),
    "mean_distinct": lambda asked: _added(asked, "distinct "),
    "corr": _together,
    "covariance": _together,
    "top_k": lambda asked: asked.take(
        "collect_list({})",
        "if(size({0}) = 0, null, slice(sort_array({0}, false), 1, {argument}))",
    ),
    "array_agg": lambda asked: _listed(asked, "{}"),
    "collect": lambda asked: _listed(asked, _OF_VALID),
    "string_agg": lambda asked: _listed(asked, _OF_VALID, asked.joining),
    "quantile": lambda asked: asked.take("percentile(cast({} as double), {argument}D)"),
    "mode": _mode,
    "skewness": _shape,
    "kurtosis": _shape,
    "user": _of_user,
    "top_rows": _top_rows,
}


def register(session: Any, index: int, aggregate: Aggregate, schema: pa.Schema) -> None:
    """Make a user's aggregate a function of the array of its values."""
    assert aggregate.column is not None, aggregate
    assert isinstance(aggregate.argument, Custom), aggregate
    target, kind = aggregate.argument.target, schema.field(aggregate.column).type
    stored, made = physical(kind), physical(target.type)

    def result(values: list[object]) -> object:
        found = target.result(target.add(target.init(), pa.array(values, stored).cast(kind)))
        return pa.scalar(found, target.type).cast(made).as_py()

    session.udf.register(user_function(index), result, type_name(target.type))

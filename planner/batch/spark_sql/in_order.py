"""Aggregates as Spark SQL whose results depend on the order of rows.

Where the places of rows in the stream are unknown, different values of rows that start together are
an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.batch.spark_sql.take import Take, Wanted
from planner.expressions.spark.casts import failure
from planner.expressions.spark.let_bindings import let
from planner.expressions.spark.types import ident, text
from rstream.items.batch import VS
from rvertex.aggregates.ranked.listed import VALUE, ListOrder
from rvertex.aggregates.ranked.top_rows import TopOrder

if TYPE_CHECKING:
    from collections.abc import Callable

    from rvertex.aggregates.ranked.top_rows import Ways


def picked(wanted: Wanted) -> Take:
    """Return the value at the least (greatest) ``_vs``, on ties at the least (greatest) place.

    Without places the least and the greatest such value must be equal. ``~_vs`` reverses the order
    of ``_vs`` and, unlike ``-_vs``, does not overflow.
    """
    name, column, below = wanted.name, wanted.column, wanted.below
    best, other = ("min", "max") if wanted.function == "first" else ("max", "min")
    columns = {name: f"{best}(struct({', '.join(below.order)}, {column} as x))"}
    if below.has_place:
        return Take(columns, f"{name}.x")
    against = f"{name}_against"
    columns[against] = f"{other}(struct(~{VS} as vs, {column} as x))"
    return Take(columns, f"if({name}.x <=> {against}.x, {name}.x, {_ambiguous(wanted.shown)})")


def ranked_first(wanted: Wanted) -> Take:
    """Return the value at the greatest (least) rank; on ties at the least time, then least place.

    Without places there must be only one such value.
    """
    name, column, below = wanted.name, wanted.column, wanted.below
    place = below.place[0] if below.has_place else "0L"
    pairs = f"filter({name}, pair -> pair.x.rank is not null)"
    best = "array_max" if wanted.function == "max_by" else "array_min"
    rank = f"{best}(transform({pairs}, pair -> pair.x.rank))"

    def first(rank: str) -> str:
        pairs_of_rank = f"filter({pairs}, pair -> pair.x.rank <=> {rank})"
        made = "struct(pair.x.vs as vs, pair.place as place, pair.x.value as value)"
        return let(f"array_sort(transform({pairs_of_rank}, pair -> {made}))", chosen)

    def chosen(rows: str) -> str:
        one = f"get({rows}, 0)"
        if below.has_place:
            return f"{one}.value"
        return let(
            f"filter({rows}, row -> row.vs = {one}.vs and not row.value <=> {one}.value)",
            lambda others: f"if(size({others}) > 0, {_ambiguous(wanted.shown)}, {one}.value)",
        )

    return Take({name: f"collect_list(struct({column} as x, {place} as place))"}, let(rank, first))


def listed_by_time(wanted: Wanted, chosen: str, result: str = "{}") -> Take:
    """Return all values by time and place; without places, values of one time are sorted."""
    fields = ", ".join((*wanted.below.order, f"{wanted.column} as x"))
    rows = f"array_sort({chosen.format(wanted.name)})"
    values = f"transform({rows}, row -> row.x)"
    made = let(values, lambda x: f"if(size({x}) = 0, null, {result.format(x)})")
    return Take({wanted.name: f"collect_list(struct({fields}))"}, made)


def top_rows(wanted: Wanted) -> Take:
    """Return the rows in sorted order; without places, rows that tie in all keys have no order."""
    order = TopOrder.read(wanted.aggregate.argument)
    fields = [f.name for f in wanted.kind.field("row").type]

    def listed(rows: str) -> str:
        before = f"filter({rows}, other -> {_by_ways('other', 'row', order.ways)} < 0)"
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
        return f"if(size({rows}) = 0, null, {kept})"

    return _in_order(wanted, order.ways, "row", listed, latest=order.latest)


def top_value(wanted: Wanted) -> Take:
    """Return the value of the first row, sorted as for :func:`top_rows`."""
    order = TopOrder.read(wanted.aggregate.argument)
    return _in_order(
        wanted, order.ways, "row", lambda rows: f"get({rows}, 0).x.row.value", latest=order.latest
    )


def listed_by_order(wanted: Wanted) -> Take:
    """Return the values of the rows, sorted as for :func:`top_rows`."""
    order = ListOrder.read(wanted.aggregate.argument)

    def listed(rows: str) -> str:
        made = f"transform({rows}, row -> row.x.{VALUE})"
        if order.separator is not None:
            made = f"filter({made}, value -> value is not null)"
        if order.is_distinct:
            made = f"array_distinct({made})"
        joined = "{}"
        if order.separator is not None:
            joined = f"array_join({{}}, {text(order.separator)})"
        return let(made, lambda values: f"if(size({values}) = 0, null, {joined.format(values)})")

    return _in_order(wanted, order.ways, VALUE, listed)


def _in_order(
    wanted: Wanted, ways: Ways, value: str, made: Callable[[str], str], *, latest: bool = False
) -> Take:
    """Apply ``made`` to the list of rows ``x``, sorted by keys (``ways``), time and place.

    Without places, rows that are equal in all fields except ``value`` have no order.
    """
    place = wanted.below.place[0] if wanted.below.has_place else "0L"
    time = f"{VS} as vs"

    def by_time(left: str, right: str) -> str:
        later = [
            way(f"{left}.{name}", f"{right}.{name}", down=latest, nulls_first=False)
            for name in ("vs", "place")
        ]
        return first_difference([_by_ways(left, right, ways), *later])

    def checked(rows: str) -> str:
        if wanted.below.has_place:
            return made(rows)
        ties = (
            f"exists({rows}, one -> exists({rows}, other -> {by_time('one', 'other')} = 0 "
            f"and not one.x.{value} <=> other.x.{value}))"
        )
        return f"if({ties}, {_ambiguous(wanted.shown)}, {made(rows)})"

    counted = f"filter({wanted.name}, row -> row.x is not null)"
    sort = f"array_sort({counted}, (one, other) -> {by_time('one', 'other')})"
    collected = f"collect_list(struct({wanted.column} as x, {time}, {place} as place))"
    return Take({wanted.name: collected}, let(sort, checked))


def _by_ways(left: str, right: str, ways: Ways) -> str:
    """Return SQL that compares two rows by their sort keys only: -1, 0 or 1."""
    steps = [
        way(f"{left}.x.by{i}", f"{right}.x.by{i}", down=down, nulls_first=first)
        for i, (down, first) in enumerate(ways)
    ]
    return first_difference(steps) if steps else "0"


def way(a: str, b: str, *, down: bool, nulls_first: bool) -> str:
    """Return SQL for -1, 0 or 1: value ``a`` is before, equal to or after value ``b``."""
    null = -1 if nulls_first else 1
    less = 1 if down else -1
    return (
        f"case when {a} <=> {b} then 0 when {a} is null then {null} when {b} is null then {-null} "
        f"when {a} < {b} then {less} else {-less} end"
    )


def first_difference(steps: list[str]) -> str:
    *first, last = steps
    tests = " ".join(f"when ({step}) <> 0 then ({step})" for step in first)
    return f"(case {tests} else ({last}) end)" if tests else f"({last})"


def _ambiguous(shown: str) -> str:
    return failure(
        f"{shown}: several events of a window start together with different values; "
        "their order is known to the stream only"
    )

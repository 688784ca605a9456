"""Aggregates ``OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN n PRECEDING AND CURRENT ROW)``.

These are the forms of Flink SQL: ordered by the time of the stream, from a distance before a row,
or the first row, to the row itself or a distance before it. ``ORDER BY ts, x`` orders rows that
start together; ties keep the order of the stream. ``LAG(x, n, default)`` is the value of an earlier
row; ``ROW_NUMBER()`` by time is a count of rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from planner.api import agg
from planner.api.expressions import col, lit
from planner.api.grouped.frames import ROWS_MAX, RowFrame, framed
from planner.errors import InvalidPlanError
from planner.expressions.nodes import resolve
from planner.expressions.types import common_type
from planner.logical.event_time import is_start
from planner.sql.clauses.grouping import is_grouped
from planner.sql.clauses.outer_joins import flattened
from planner.sql.clauses.ranking import column_at, orderings
from planner.sql.expressions.aggregates import Aggregates, averages_whole, is_aggregate
from planner.sql.expressions.scalars import Expressions
from planner.sql.expressions.scope import Scope, free_name, with_key_columns
from planner.sql.reading.errors import sql_type
from planner.sql.reading.forms.queries.engines.places import nodes_of
from planner.sql.reading.literals import interval_us, plain_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.api.agg import Agg, Lag, Ordering
    from planner.api.expressions import Expr
    from planner.api.stream import Stream
    from planner.sql.clauses.items import Item
    from planner.sql.expressions.names import Names

#: Aggregates that are 0 without rows.
_COUNTS = (exp.Count, exp.CountIf, exp.ApproxDistinct)
_TIME = "OVER follows the time of the stream: ORDER BY its time, or vs(), ascending"
_LAG_NULLS = (
    "LAG takes no IGNORE NULLS: compute LAST_VALUE(x) IGNORE NULLS OVER (...) in a "
    "subquery, and LAG of it"
)
_ALONE = (
    "RANGE with a distance needs ORDER BY the time alone; with more columns, write ROWS, "
    "or RANGE UNBOUNDED PRECEDING"
)
_RANGE_ENDS_BEFORE = (
    "a frame from UNBOUNDED PRECEDING on ends at CURRENT ROW; RANGE may end earlier if it "
    "begins at a distance: BETWEEN INTERVAL '1' DAY PRECEDING AND INTERVAL '1' HOUR "
    "PRECEDING"
)


def by_time(node: exp.Expr, scope: Scope, names: Names) -> bool:
    """Return whether a window function orders rows by the stream's time, ascending."""
    order = node.args.get("order")
    if order is None or order.expressions[0].args.get("desc"):
        return False
    value = Expressions(names.text, scope, names.functions).compile(order.expressions[0].this)
    return is_start(scope.stream.plan, resolve(value.node, scope.stream.schema))


def timed(
    node: exp.Select, names: Names, from_: Callable[[exp.Select, Names, list[exp.Expr]], Scope]
) -> Callable[[exp.Window], bool]:
    """Return a function that checks whether a window function orders rows by the stream's time."""
    scopes: list[Scope] = []

    def is_by_time(window: exp.Window) -> bool:
        if is_grouped(node):
            return True  # an error in a grouped SELECT is raised when it is compiled
        if not scopes:
            copy = node.copy()
            scopes.append(from_(copy, names, flattened(copy.args.get("where"))))
        return by_time(window, scopes[0], names)

    return is_by_time


def over_frames(items: list[Item], scope: Scope, names: Names) -> tuple[list[Item], Scope]:
    """Replace window functions in the list by columns of a stream that has them; return both."""
    names_of: dict[exp.Expr, str] = {}
    for item in items:
        for node in () if item.star else item.node.find_all(exp.Window):
            if node not in names_of:
                names_of[node], scope = _over(node, scope, names)
    if not names_of:
        return items, scope
    made: list[Item] = []
    for item in items:
        whole = exp.Paren(this=item.node.copy())
        for node in () if item.star else nodes_of(whole, exp.Window):
            column = column_at(names_of[node], names.text.place(node))
            if averages_whole(node, Expressions(names.text, scope, names.functions)):
                column = exp.cast(column, "BIGINT")
            node.replace(column)
        made.append(item if item.star else replace(item, node=whole.this))
    return made, scope


def _over(node: exp.Window, scope: Scope, names: Names) -> tuple[str, Scope]:
    """Return the column of one window function."""
    text = names.text
    order = node.args.get("order")
    assert order is not None, node  # functions without an order are compiled as whole partitions
    if not by_time(node, scope, names):
        raise text.error(order.expressions[0].this, _TIME)
    ties: list[Ordering] = []
    if len(order.expressions) > 1:
        ties = orderings(exp.Order(expressions=order.expressions[1:]), scope, names)
    compiler = Expressions(text, scope, names.functions)
    frame = _frame(node, names)
    aggregate, frame = _aggregate_of(node, frame, compiler, names)
    if ties and isinstance(aggregate, agg.Agg) and not frame.rows and frame.first is not None:
        raise text.error(order.expressions[1].this, _ALONE)
    taken = set(scope.stream.schema.names)
    keys = [compiler.compile(key) for key in node.args.get("partition_by") or ()]
    by, on = with_key_columns(scope.stream, keys, "@by", taken)
    name = free_name("@over", taken)
    with text.located(node):
        late = frame.last if frame.first is None and isinstance(aggregate, agg.Agg) else 0
        frame = replace(frame, last=0) if late else frame
        plan = framed(by.group_by(*on).plan, tuple(on), frame, ties, {name: aggregate})
        if late:  # read the running result ``late`` rows earlier
            default = lit(0) if node.find(*_COUNTS) is not None else None
            running, name = col(name), free_name("@before", taken)
            lagged = agg.lag(running, late, default=default)
            plan = framed(plan, tuple(on), RowFrame(True, None), ties, {name: lagged})
    stream: Stream = replace(scope.stream, plan=plan)
    return name, replace(scope.with_stream(stream), hidden=(*scope.hidden, name))


def _aggregate_of(
    node: exp.Window, frame: RowFrame, compiler: Expressions, names: Names
) -> tuple[Agg | Lag, RowFrame]:
    """Return the aggregate, and its frame."""
    text, function = names.text, node.this
    if isinstance(function, exp.RespectNulls) and isinstance(function.this, exp.Lag):
        function = function.this
    if isinstance(function, exp.RowNumber):
        if node.args.get("spec") is not None:
            raise text.error(node, "row numbers take no frame")
        return agg.count(), RowFrame(True, None)
    if isinstance(function, exp.Lag):
        rows = (
            1 if function.args.get("offset") is None else plain_value(function.args["offset"], text)
        )
        default = function.args.get("default")
        value = compiler.compile(function.this)
        with text.located(node):
            lagged = agg.lag(value, rows)
        if default is not None:
            given = compiler.compile(default)
            with text.located(default):
                _check_default(value, given, compiler.scope)
                lagged = agg.lag(value, rows, default=given)
        return lagged, frame
    if isinstance(function, exp.IgnoreNulls) and isinstance(function.this, exp.Lag):
        raise text.error(node, _LAG_NULLS)
    if not is_aggregate(function):
        raise text.error(node, f"{text.spelled(function)} cannot be used with OVER")
    return Aggregates(compiler, names.aggregates).build(function), frame


def _check_default(value: Expr, default: Expr, scope: Scope) -> None:
    """Raise for a default of LAG with another type than the value."""
    schema = scope.stream.schema
    kinds = [one.output_type(schema) for one in (value, default)]
    if not pa.types.is_null(kinds[1]) and common_type(*kinds) is None:
        types = " and ".join(sql_type(str(kind)) for kind in kinds)
        raise InvalidPlanError(f"LAG and its default are of different types: {types}")


def _frame(node: exp.Window, names: Names) -> RowFrame:
    """Return the frame of ``ROWS`` or ``RANGE``; the default is all rows up to the row's peers."""
    text, spec = names.text, node.args.get("spec")
    if spec is None:
        return RowFrame(False, None)
    kind = str(spec.args.get("kind") or "").upper()
    if kind == "GROUPS" and _is_range(spec):
        kind = "RANGE"
    assert kind in ("ROWS", "RANGE"), node  # other frames are compiled as whole partitions
    is_rows = kind == "ROWS"
    first = _bound(spec, "start", names, is_rows=is_rows)
    last = _bound(spec, "end", names, is_rows=is_rows)
    if last is None:
        raise text.error(node, "a frame ends at CURRENT ROW or before it; write AND CURRENT ROW")
    if first is None and last and not is_rows:
        raise text.error(node, _RANGE_ENDS_BEFORE)
    if first is not None and first < last:
        raise text.error(node, "a frame begins before it ends: BETWEEN 9 PRECEDING AND 1 PRECEDING")
    return RowFrame(is_rows, first, last)


def _is_range(spec: exp.Expr) -> bool:
    """Return whether a GROUPS frame counts no groups, so that the same RANGE frame is equal."""
    bounds = [spec.args.get(which) for which in ("start", "end")]
    return all(bound in (None, "CURRENT ROW", "UNBOUNDED") for bound in bounds)


def _bound(spec: exp.Expr, which: str, names: Names, *, is_rows: bool) -> int | None:
    """Return the distance before the row; None: UNBOUNDED PRECEDING."""
    text, value = names.text, spec.args.get(which)
    if value is None or value == "CURRENT ROW":
        return 0
    if value == "UNBOUNDED":
        return None
    if is_rows:
        rows = plain_value(value, text)
        if not isinstance(rows, int) or isinstance(rows, bool) or not 0 <= rows <= ROWS_MAX:
            raise text.error(value, f"ROWS takes a whole number of rows, at most {ROWS_MAX}")
        return rows
    us = interval_us(value, text)
    if us < 0:
        raise text.error(value, "RANGE takes a duration that is not negative")
    return us

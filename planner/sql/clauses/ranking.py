"""ROW_NUMBER, RANK and DENSE_RANK: the first rows of a key, as Flink's Top-N writes them.

``SELECT ... FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x DESC) AS n FROM t) WHERE n
<= 3``, or ``QUALIFY n <= 3`` in one SELECT. Such a condition bounds the rows that are kept. Without
one the statement is an error, since each new row would change the numbers of other rows. With
``window_start`` and ``window_end`` among the keys, the rows are the first of each window. Otherwise
they are the first of all rows that are alive, where a point counts from its start on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.api.agg import Ordering
from planner.api.expressions import col, lit
from planner.expressions.types import is_time
from planner.logical.event_time import never_ends
from planner.sql.clauses.items import Item
from planner.sql.clauses.joins import and_parts, filtered
from planner.sql.clauses.outer_joins import flattened
from planner.sql.expressions.scalars import Expressions
from planner.sql.expressions.scope import InWindows, Scope, Visible, free_name, with_key_columns
from planner.sql.reading.errors import SqlError
from planner.sql.reading.forms.queries.engines.places import nodes_of
from planner.sql.reading.grammar import WindowTable, as_sql
from planner.sql.reading.literals import plain_value
from planner.sql.windows.in_windows import OF_RANKS, refuse_windows, window_key
from planner.sql.windows.window_tables import bound_of, of_each_window

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from planner.api.expressions import Expr
    from planner.api.stream import Stream
    from planner.logical.windows import Window
    from planner.sql.expressions.names import Names
    from planner.sql.expressions.scope import Bound

_KINDS: dict[type[exp.Expr], str] = {
    exp.RowNumber: "row_number",
    exp.Rank: "rank",
    exp.DenseRank: "dense_rank",
}
_TWO_NAMES = "{0!r} is also a column of the input; give the row number another name"
_BOUND = "the row number needs a bound: WHERE {0} <= 10 around it, or QUALIFY {0} <= 10 beside it"


def is_ranking(node: exp.Expr) -> bool:
    """Return whether a node is ROW_NUMBER, RANK or DENSE_RANK over some order."""
    return isinstance(node, exp.Window) and type(node.this) in _KINDS


def bounds_of(table: exp.Expr, conditions: Sequence[exp.Expr]) -> dict[str, int]:
    """Return the bounds for a relation in FROM; none if an alias renames its columns."""
    alias = table.args.get("alias")
    if alias is not None and alias.columns:
        return {}
    return bounds_in(conditions, table.alias_or_name)


def bounds_in(conditions: Sequence[exp.Expr], relation: str) -> dict[str, int]:
    """Return the greatest integer that the conditions allow for each column of ``relation``.

    A name without a relation is resolved later; if several relations have it, that is an error.
    """
    bounds: dict[str, int] = {}
    for part in conditions:
        bound = _bound(part, relation)
        if bound is not None:
            name, rows = bound
            bounds[name] = min(rows, bounds.get(name, rows))
    return bounds


def _bound(node: exp.Expr, relation: str) -> tuple[str, int] | None:
    a, b = node.args.get("this"), node.args.get("expression")
    flipped: dict[type[exp.Expr], type[exp.Expr]] = {exp.GT: exp.LT, exp.GTE: exp.LTE}
    kind = type(node)
    if isinstance(node, exp.Between):
        kind, b = exp.LTE, node.args["high"]
    elif isinstance(a, exp.Literal):
        a, b, kind = b, a, flipped.get(kind, exp.EQ if kind is exp.EQ else exp.NEQ)
    if kind not in (exp.LT, exp.LTE, exp.EQ) or not isinstance(b, exp.Literal) or b.is_string:
        return None
    if not isinstance(a, exp.Column | exp.Window) or not b.name.isdigit():
        return None
    if isinstance(a, exp.Column) and a.table not in ("", relation):
        return None
    name = a.name if isinstance(a, exp.Column) else as_sql(a)
    return name, int(b.name) - (kind is exp.LT)


def bounds_of_uses(name: str, whole: exp.Expr) -> dict[str, int]:
    """Return per column of query ``name`` the greatest value that some reader allows."""
    found: list[dict[str, int]] = []
    for table in whole.find_all(exp.Table, exp.Column):
        if table.name != name or (isinstance(table, exp.Column) and not _is_data(table)):
            continue
        place = table.parent
        select = None if place is None else place.parent
        if not isinstance(select, exp.Select) or not _is_visible(place):
            return {}
        found.append(bounds_of(table, flattened(select.args.get("where"))))
    if not found:
        return {}
    shared = [column for column in found[0] if all(column in bounds for bounds in found)]
    return {column: max(bounds[column] for bounds in found) for column in shared}


def _is_data(node: exp.Column) -> bool:
    """Return whether a column is the time argument of a window function in FROM."""
    place = node.parent.parent if isinstance(node.parent, exp.Kwarg) else node.parent
    return isinstance(place, WindowTable)


def _is_visible(place: exp.Expr | None) -> bool:
    """Return whether the outer query can name the columns of a relation in this part of FROM."""
    if isinstance(place, exp.Join):
        return place.kind.upper() not in ("SEMI", "ANTI")
    return isinstance(place, exp.From)


def ranked(
    node: exp.Select,
    items: list[Item],
    scope: Scope,
    names: Names,
    bounds: Mapping[str, int],
    is_by_time: Callable[[exp.Expr], bool],
) -> tuple[list[Item], Scope]:
    """Return the first rows, with a column for their rank; ``bounds`` are the outer query's.

    ``is_by_time``: whether a window function is ordered by the time of the stream.
    """
    qualify = node.args.get("qualify")
    rankings = [item.node for item in items if is_ranking(item.node)]
    if qualify is not None:
        rankings += [window for window in qualify.find_all(exp.Window) if is_ranking(window)]
    if not rankings:
        if qualify is not None:
            raise names.text.error(qualify, "QUALIFY is a condition on ROW_NUMBER() OVER (...)")
        return items, scope
    first = rankings[0]
    for other in rankings[1:]:
        if other != first:
            raise names.text.error(
                other,
                "a SELECT may rank its rows in one way only; write the other ranking in a subquery",
            )
    called = next((item.name for item in items if item.node == first), "")
    known = {} if _is_cut(node) else dict(bounds)
    if qualify is not None:
        known |= bounds_in(and_parts(qualify.this), "")
    rows = known.get(called, known.get(as_sql(first)))
    if rows is None and qualify is None and type(first.this) is exp.RowNumber and is_by_time(first):
        return items, scope  # the numbers of rows by time never change
    if rows is None:
        raise names.text.error(first, _BOUND.format(called or "it"))
    source = scope
    rows = max(rows, 1)
    of_time = rows == 1 and type(first.this) is exp.RowNumber and is_by_time(first)
    number, scope = _top(first, rows, scope, names, of_time=of_time)

    def numbered(at: exp.Expr) -> exp.Expr:
        return column_at(number, names.text.place(at))

    made = [
        replace(item, node=numbered(item.node)) if is_ranking(item.node) else item for item in items
    ]
    if qualify is not None:
        whole = exp.Paren(this=qualify.this.copy())
        for part in nodes_of(whole, exp.Window, exp.Column):
            if isinstance(part, exp.Column) and (part.table or part.name != called):
                continue
            if isinstance(part, exp.Column) and source.candidates(part):
                raise names.text.error(part, _TWO_NAMES.format(called))
            if isinstance(part, exp.Column) or part == first:
                part.replace(numbered(part))
        scope = filtered(whole.this, scope, names)
    return made, scope


def _is_cut(node: exp.Select) -> bool:
    """Return whether a SELECT has a LIMIT that would keep other rows after the outer conditions."""
    return any(node.args.get(part) is not None for part in ("limit", "offset"))


def column_at(name: str, place: tuple[int, int]) -> exp.Expr:
    """Return a column with a place in the text, for messages."""
    made = exp.column(exp.to_identifier(name, quoted=True))
    for part in made.walk():
        part.meta.update({"start": place[0], "end": place[1] - 1})
    return made


def _top(
    node: exp.Expr, rows: int, scope: Scope, names: Names, *, of_time: bool
) -> tuple[str, Scope]:
    """Return the first rows by a window function, and the column of their ranks.

    ``of_time``: one row of each key, the earliest.
    """
    text = names.text
    order = node.args.get("order")
    if order is None:
        raise text.error(node, "OVER needs ORDER BY here")
    if node.args.get("spec") is not None:
        raise text.error(node, "row numbers take no frame")
    keys = node.args.get("partition_by") or []
    compiler = Expressions(text, scope, names.functions)
    orders = orderings(order, scope, names)
    taken = set(scope.stream.schema.names)
    by, on = with_key_columns(scope.stream, [compiler.compile(k) for k in keys], "@by", taken)
    number = free_name("@place", taken)
    of_window = window_key(keys, scope, names, "PARTITION BY")
    kind = _KINDS[type(node.this)]
    # Of rows of a key that start together the last one counts as the newest, as for upserts.
    ties = "last" if _is_newest_first(order, scope, names) else "first"

    def first(stream: Stream, window: Window) -> Stream:
        windows = stream.group_by(*on).window(window)
        return windows.top(rows, orders, rank=kind, place=number, ties=ties)

    with text.located(node):
        if of_window is not None and not scope.in_windows.is_whole:
            key, bound = of_window
            ranked_rows = of_each_window(by, bound, compiler.compile(key), first)
            top = ranked_rows.with_columns(**_bounds(scope, bound))
        elif of_time and on and len(orders) == 1 and _is_table(by):
            # No later row can precede it, so it is emitted at once.
            top = by.deduplicate(on).for_ever().with_columns(lit(1).alias(number))
        else:
            top = by.group_by(*on).top(rows, orders, rank=kind, place=number, ties=ties)
    scope = replace(scope.with_stream(top), hidden=(*scope.hidden, number))
    if of_window is None:
        return number, refuse_windows(scope, OF_RANKS)
    lives = InWindows((of_window[1].window,), is_whole=True)
    return number, replace(scope, in_windows=lives)


def _is_newest_first(order: exp.Expr, scope: Scope, names: Names) -> bool:
    """Return whether rows are ordered by a time, descending."""
    first = order.expressions[0]
    value = Expressions(names.text, scope, names.functions).compile(first.this)
    return bool(first.args.get("desc")) and is_time(value.output_type(scope.stream.schema))


def _bounds(scope: Scope, of: Bound) -> dict[str, Expr]:
    """Return columns with the start and end of rows whose lifetimes are windows."""
    return {
        c.column: bound_of(of.window, c.bound.kind)
        for c in scope.columns
        if c.bound is not None and c.bound.window == of.window and not c.bound.is_nullable
    }


def _is_table(stream: Stream) -> bool:
    """Return whether rows are valid from their start, for ever."""
    return stream.plan.is_point or never_ends(stream.plan)


def orderings(order: exp.Expr, scope: Scope, names: Names) -> list[Ordering]:
    """Return the sort keys of ORDER BY."""
    compiler = Expressions(names.text, scope, names.functions)
    return [
        Ordering(
            compiler.compile(part.this),
            bool(part.args.get("desc")),
            bool(part.args.get("nulls_first")),
        )
        for part in order.expressions
    ]


def limited(
    node: exp.Query, stream: Stream, items: list[Item], scope: Scope, names: Names
) -> Stream:
    """Compile ORDER BY ... LIMIT: the first rows of the valid ones, at each instant."""
    text = names.text
    limit, offset = (node.args.get(part) for part in ("limit", "offset"))
    order = node.args.get("order")
    if order is None:
        at = node if limit is None else limit
        raise text.error(at, "LIMIT needs ORDER BY: which rows come first?")
    if limit is None:
        raise text.error(node if offset is None else offset, "OFFSET needs LIMIT")
    rows = _whole(limit, names)
    skipped = 0 if offset is None else _whole(offset, names)
    if rows == 0:
        raise text.error(limit, "LIMIT 0 has no answer")
    orders = listed_orders(order, stream, items, scope, names)
    number = free_name("@place", set(stream.schema.names))
    with text.located(limit):
        top = stream.group_by().top(rows + skipped, orders, place=number if skipped else None)
        if skipped:
            top = top.filter(col(number) > skipped).drop(number)
        return top


def _whole(node: exp.Expr, names: Names) -> int:
    if node.expressions:
        raise names.text.error(
            node, "LIMIT BY is not supported; write QUALIFY ROW_NUMBER() ... <= n"
        )
    options = node.args.get("limit_options")
    if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
        raise names.text.error(node, "FETCH and LIMIT take a number of rows, no PERCENT or TIES")
    of_fetch = isinstance(node, exp.Fetch)
    written = node.args.get("count" if of_fetch else "expression")
    if written is None:
        return 1  # FETCH FIRST ROW ONLY has no number
    value = plain_value(written, names.text)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise names.text.error(node, "LIMIT and OFFSET take a whole number")
    return value


def listed_orders(
    order: exp.Expr, stream: Stream, items: list[Item], source: Scope, names: Names
) -> list[Ordering]:
    """Compile ORDER BY over the SELECT list: names, positions, and expressions of the list.

    A name alone is a column of the list, if it has one; in an expression it is a column of
    ``source``, the input of the list, if that has one.
    """
    made: list[exp.Expr] = []
    for part in order.expressions:
        part = part.copy()
        part.set("this", _of_list(part.this, items, source, names))
        made.append(part)
    scope = Scope(stream, (), hidden=tuple(stream.schema.names))
    return orderings(exp.Order(expressions=made), scope, names)


def with_order_columns(
    node: exp.Select, items: list[Item], source: Scope, names: Names
) -> tuple[exp.Select, list[Item]]:
    """Return ORDER BY and LIMIT, and the list with the columns that only ORDER BY reads."""
    made, ends = list(items), exp.Select()
    for name in ("order", "limit", "offset"):
        ends.set(name, node.args[name].copy() if node.args.get(name) else None)
    order = None if node.args.get("distinct") else ends.args.get("order")
    for part in () if order is None else order.expressions:
        try:
            _of_list(part.this.copy(), items, source, names)
        except SqlError:
            if part.find(exp.Column) is None or part.find(exp.AggFunc) is not None:
                continue  # the error is raised when the order is compiled
            name = free_name("@order", {item.name for item in made})
            made.append(Item(name, part.this))
            part.set("this", column_at(name, names.text.place(part.this)))
    return ends, made


def _of_list(value: exp.Expr, items: list[Item], source: Scope, names: Names) -> exp.Expr:
    """Return a sort key as an expression over the columns of the SELECT list."""
    text = names.text
    if isinstance(value, exp.Literal | exp.Neg) and value.find(exp.Column) is None:
        if not (isinstance(value, exp.Literal) and value.name.isdigit() and not value.is_string):
            raise text.error(value, "ORDER BY takes columns, or their places from 1 on")
        at = int(value.name)
        if not 1 <= at <= len(items):
            raise text.error(
                value,
                f"positions in the SELECT list are 1 to {len(items)}",
            )
        return column_at(items[at - 1].name, text.place(value))
    listed = {item.name for item in items}
    if isinstance(value, exp.Column) and not value.table and value.name in listed:
        return column_at(value.name, text.place(value))
    return _over_list(value, items, source, names)


def _over_list(node: exp.Expr, items: list[Item], source: Scope, names: Names) -> exp.Expr:
    """Replace parts of an expression by the columns of the list that have the same expression."""
    match = next((item for item in items if _is_of(item, node, source)), None)
    if match is not None:
        return column_at(match.name, names.text.place(node))
    if isinstance(node, exp.Column):
        if node.table or source.candidates(node):
            raise names.text.error(
                node, "ORDER BY takes columns of the SELECT list; add this column there"
            )
        listed = tuple(Visible("", item.name, item.name) for item in items)
        # Raises an error, because there is no such column.
        Scope(source.stream, listed).column(node, names.text)
        return node
    if isinstance(node, exp.AggFunc):
        return node  # the error for an aggregate is raised when the node is compiled
    for part in list(node.iter_expressions()):
        found = _over_list(part, items, source, names)
        if found is not part:
            part.replace(found)
    return node


def _is_of(item: Item, node: exp.Expr, source: Scope) -> bool:
    """Return whether a column of the list has the expression ``node``."""
    if isinstance(node, exp.Column):
        column = source.candidates(node)
        if item.star:
            return column == (item.column,)
        if isinstance(item.node, exp.Column) and column:
            return column == source.candidates(item.node)
    return not item.star and item.node == node

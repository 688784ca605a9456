"""The SELECT list: the name and the expression of each column."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.sql.expressions.scope import Rows, free_name
from planner.sql.reading.forms.queries.engines.places import nodes_of
from planner.sql.reading.forms.queries.one_row import NO_INPUT
from planner.sql.reading.parsing import ANY_CASE
from planner.sql.windows.in_windows import bound_of_expression, window_bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.api.stream import Stream
    from planner.sql.expressions.scope import Bound, Scope
    from planner.sql.reading.parsing import SqlText


@dataclass(frozen=True, slots=True)
class Item:
    """A column of the result."""

    name: str
    node: exp.Expr
    #: Whether it is part of a ``*``; then it is the stream's ``column``.
    star: bool = False
    column: str = ""


def items_of(node: exp.Select, scope: Scope, text: SqlText, *, named: bool) -> list[Item]:
    """Return the columns, with each ``*`` expanded; unless ``named``, unnamed ones get a name."""
    items: list[Item] = []
    _check_inputs(node, scope, text)
    if node.find(exp.Columns):
        listed = [one for part in node.expressions for one in _of_columns(part, scope, text)]
        node.set("expressions", listed)
    for part in node.expressions:
        if isinstance(part, exp.Star) or (
            isinstance(part, exp.Column) and isinstance(part.this, exp.Star)
        ):
            merges = any(join.args.get("using") for join in node.args.get("joins") or ())
            items += _star(part, scope, text, merges=merges or not text.engine.name)
        else:
            inner = part.this if isinstance(part, exp.Alias) else part
            default = None if named else f"column_{len(items) + 1}"
            called = _name(part, text, default, len(items) + 1)
            if not isinstance(part, exp.Alias | exp.Column) and text.engine.called is not None:
                called = free_name(called, {item.name for item in items})
            items.append(Item(called, inner))
    items = _other_names(items, text.engine.name)
    names_so_far: set[str] = set()
    for item in items:
        if item.name in names_so_far:
            raise text.error(item.node, f"two columns are called {item.name!r}; rename one with AS")
        names_so_far.add(item.name)
    return _with_aliases(items, scope) if text.engine.reads_aliases else items


def _of_columns(part: exp.Expr, scope: Scope, text: SqlText) -> list[exp.Expr]:
    """Return a copy of an expression for each column that DuckDB's ``COLUMNS(...)`` means."""
    calls = nodes_of(part, exp.Columns)
    if not calls:
        return [part]
    names = _columns_named(calls[0].this, scope, text)
    if any(_columns_named(call.this, scope, text) != names for call in calls[1:]):
        raise text.error(calls[1], "two COLUMNS(...) in one expression need the same columns")
    made: list[exp.Expr] = []
    for name in names:
        whole = exp.Paren(this=part.copy())
        for call in nodes_of(whole, exp.Columns):
            column = exp.column(exp.to_identifier(name, quoted=True))
            column.this.meta.update(call.meta)
            call.replace(column)
        is_alone = isinstance(part, exp.Columns)
        body = whole.this
        called = part.alias if isinstance(part, exp.Alias) else body.sql().replace('"', "").lower()
        made.append(body if is_alone else exp.alias_(body.unalias(), called, quoted=True))
    return made


def _columns_named(wanted: exp.Expr, scope: Scope, text: SqlText) -> list[str]:
    """Return the columns of ``*``, of a regular expression, or of a list of names."""
    names = [column.name for column in scope.columns]
    if isinstance(wanted, exp.Star):
        return [item.name for item in _star(wanted, scope, text, merges=False)]
    if isinstance(wanted, exp.Literal) and wanted.is_string:
        found = [name for name in names if re.search(wanted.name, name)]
    elif isinstance(wanted, exp.Array):
        listed = {part.name.lower() for part in wanted.expressions}
        found = [name for name in names if name.lower() in listed]
        if len(found) < len(listed):
            raise text.error(
                wanted, f"one of these columns does not exist; the columns are: {', '.join(names)}"
            )
    else:
        raise text.error(wanted, "COLUMNS takes *, a regular expression or a list of names")
    if not found:
        raise text.error(wanted, f"no column matches {wanted.name!r}; the columns are: {names}")
    return found


#: For a repeated column name: the number of the second column, and the format of its name.
_SECOND = {"flink": (0, "{0}{1}"), "postgres": (1, "{0}_{1}"), "duckdb": (1, "{0}_{1}")}


def _other_names(items: list[Item], engine: str) -> list[Item]:
    """Return the items; columns of one name are ``a_x`` and ``b_x`` in ksqlDB, ``x0`` in Flink.

    In DuckDB and PostgreSQL the second ``x`` is ``x_1``.
    """
    names = [item.name for item in items]
    taken = set(names)
    renamed: list[Item] = []
    for at, item in enumerate(items):
        name, node = item.name, item.node
        is_plain = isinstance(node, exp.Column) and not item.star and node.name == name
        if is_plain and names.count(name) > 1:
            if engine == "ksqldb" and node.text("table"):
                name = f"{node.text('table')}_{name}"
            elif engine in _SECOND and name in names[:at]:
                number, form = _SECOND[engine]
                while form.format(name, number) in taken:  # terminates: ``number`` grows
                    number += 1
                name = form.format(name, number)
                taken.add(name)
        renamed.append(replace(item, name=name))
    return renamed


def _check_inputs(node: exp.Select, scope: Scope, text: SqlText) -> None:
    for name, reason in node.meta.get(NO_INPUT, {}).items():
        column = exp.column(name)
        column.meta[ANY_CASE] = text.engine.ignores_case
        if scope.candidates(column):
            raise text.error(node, reason)


def _with_aliases(items: list[Item], scope: Scope) -> list[Item]:
    """Return the items; names that no relation has are aliases of items on their left.

    Names in a subquery are not replaced: it may have columns of these names.
    """
    known: dict[str, exp.Expr] = {}
    made: list[Item] = []
    for item in items:
        node = exp.Paren(this=item.node.copy())
        for column in nodes_of(node, exp.Column):
            if column.find_ancestor(exp.Query) is not None:
                continue
            if not column.table and column.name in known and not scope.candidates(column):
                column.replace(exp.Paren(this=known[column.name].copy()))
        node.meta.update(item.node.meta)
        is_same = item.star or node.this == item.node
        made.append(item if is_same else replace(item, node=node.this))
        if not item.star:
            known.setdefault(item.name, made[-1].node)
    return made


def _star(node: exp.Expr, scope: Scope, text: SqlText, *, merges: bool) -> list[Item]:
    relation = node.table if isinstance(node, exp.Column) else ""
    star = node.this if isinstance(node, exp.Column) else node
    if star.args.get("ilike"):
        raise text.error(node, "* ILIKE is not supported; list the columns")
    if relation and relation not in scope.relations:
        raise text.error(
            node, f"no relation {relation!r} here; the relations are: {', '.join(scope.relations)}"
        )
    visible = scope.visible_in(relation)
    known = {c.name for c in visible}
    excluded: set[str] = set()
    for part in star.args.get("except_") or star.args.get("except") or ():
        if part.name not in known:
            raise text.error(part, f"no column {part.name!r} to leave out")
        excluded.add(part.name)
    replaced = _named_in(star.args.get("replace"), lambda p: p.alias, known - excluded, text)
    renamed = _named_in(star.args.get("rename"), lambda p: p.this.name, known - excluded, text)
    columns = dict.fromkeys(c.column for c in visible if c.name not in excluded)
    if not columns:
        raise text.error(node, "* EXCLUDE leaves no column")
    names = {c.column: c.name for c in visible}

    def item(name: str, column: str) -> Item:
        shown = names[column]
        called = renamed[shown].alias if shown in renamed else name
        if shown in replaced:
            return Item(called, replaced[shown].this)
        return Item(called, node, True, column)

    if relation:
        return [item(names[column], column) for column in columns]
    if merges:
        return [item(column, column) for column in columns]
    taken: set[str] = set()  # without merging, a key of both sides is listed twice, under two names
    every = [c.column for c in visible if c.name not in excluded]
    return [item(free_name(column, taken), column) for column in every]


def _named_in(
    parts: list[exp.Expr] | None, name: Callable[[exp.Expr], str], known: set[str], text: SqlText
) -> dict[str, exp.Expr]:
    """Return the parts of ``* REPLACE`` or ``* RENAME`` by their columns."""
    nodes: dict[str, exp.Expr] = {}
    for part in parts or ():
        if not isinstance(part, exp.Alias):
            raise text.error(part, "write * REPLACE (x + 1 AS x) or * RENAME (x AS y)")
        if name(part) not in known or name(part) in nodes:
            raise text.error(part, f"no column {name(part)!r} here, or it is listed twice")
        nodes[name(part)] = part
    return nodes


def _name(node: exp.Expr, text: SqlText, default: str | None, place: int) -> str:
    if isinstance(node, exp.Alias):
        return node.alias
    inner = node
    while isinstance(inner, exp.Cast | exp.Paren):  # terminates: a tree is finite
        inner = inner.this
    if isinstance(inner, exp.Column):
        return inner.name
    if text.engine.called is not None:
        function = text.spelled(inner).lower() if isinstance(inner, exp.Func) else ""
        return text.engine.called(text.written(inner), function, place)
    if isinstance(inner, exp.Anonymous):
        return inner.name.lower()
    if isinstance(inner, exp.AggFunc) and "start" in inner.meta:
        return text.text[inner.meta["start"] : inner.meta["end"] + 1].lower()
    if default is None:
        raise text.error(node, "give this column a name with AS")
    return default


def listed_rows(stream: Stream, items: Sequence[Item], scope: Scope) -> Rows:
    """Return the rows of ``scope`` with the columns of a SELECT list."""
    bounds: dict[str, Bound] = {}
    for item in items:
        if item.star:
            found = tuple(c.bound for c in scope.columns if c.column == item.column and c.bound)
        else:
            found = window_bounds(item.node, scope) or bound_of_expression(item.node, scope)
        if found:
            bounds[item.name] = found[0]
    return Rows(stream, bounds, scope.in_windows)

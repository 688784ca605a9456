"""GROUP BY with a window, aggregates and HAVING.

The keys and the aggregates become ``group_by(...).window(...).agg(...)``; what the list of columns
makes of them is a projection above it, left out where it would change nothing. ``window_start`` and
``window_end`` are the lifetime of the result.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.api import agg
from planner.api.expressions import Expr, col, ve, vs
from planner.api.grouped.sessions import SessionBy
from planner.expressions.nodes import Column, Node, resolve
from planner.logical.windows import CumulatingWindow, RunningSession, SessionWindow, snapshot
from planner.sql.clauses.window_tables import BOUNDS, at_the_end, bound_of
from planner.sql.expressions.aggregates import Aggregates, has_aggregate, is_aggregate
from planner.sql.expressions.scalars import Expressions
from planner.sql.expressions.scope import Scope, WindowInFrom, free_name
from planner.sql.expressions.windowing import OVER, is_window, window_of
from planner.sql.reading.errors import SqlError
from rstream.items.batch import VS

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.api.agg import Agg
    from planner.api.stream import GroupedStream, Stream, WindowedStream
    from planner.logical.windows import AnyWindow
    from planner.sql.clauses.items import Item
    from planner.sql.expressions.names import Names

if TYPE_CHECKING:
    #: Joins the subqueries of some expressions: the stream, the expressions, the columns added.
    Attach = Callable[[Stream, list[exp.Expr]], tuple[Stream, list[exp.Expr], tuple[str, ...]]]

_ONLY_SESSIONS = (
    "EMIT CHANGES is for sessions, and for GROUP BY without a window, which it says anyway; how "
    "far a window of the clock is, CUMULATE tells every so often"
)
_BOUNDS: dict[str, Callable[[], Expr]] = {"window_start": vs, "window_end": ve}


def groups_by_bounds(node: exp.Select) -> bool:
    """Whether GROUP BY has the bounds of windows."""
    clause = node.args.get("group")
    return clause is not None and any(_is_bound(part) for part in clause.expressions)


def _is_bound(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and node.name in BOUNDS


def is_grouped(node: exp.Select) -> bool:
    """Whether a SELECT has GROUP BY or aggregates."""
    if node.args.get("group") is not None:
        return True
    parts = [*node.expressions, *filter(None, [node.args.get("having")])]
    return any(has_aggregate(part) for part in parts)


def group(
    node: exp.Select, items: list[Item], scope: Scope, names: Names, attach: Attach
) -> Stream:
    """The stream of a SELECT with GROUP BY or aggregates; ``attach`` joins its subqueries."""
    text = names.text
    for over in (part for item in items for part in item.node.find_all(exp.Window)):
        raise text.error(over, OVER)
    for item in items:
        if item.star:
            raise text.error(item.node, "* cannot stand in a SELECT with GROUP BY")
    clause = node.args.get("group")
    window_node, key_nodes = (
        (None, []) if clause is None else _split_group(clause, items, scope, names)
    )
    grouping = _Grouping(names, scope)
    grouping.window = scope.window if window_node is not None and _is_bound(window_node) else None
    grouping.runs = window_node is None
    grouping.emit = node.args.get("emit")
    for key_node in key_nodes:
        grouping.add_key(key_node, items)
    for item in items:
        grouping.add_aggregates(item.node, item.name)
    having = node.args.get("having")
    if having is not None:
        having = _without_aliases(having.this, items, scope)
        grouping.add_aggregates(having, "")
    if window_node is not None and grouping.emits_changes:
        grouping.add_start([*(item.node for item in items), *filter(None, [having])])
    if not grouping.aggregates:
        grouping.aggregates[exp.Count()] = (free_name("count", grouping.taken), agg.count())
    made = grouping.stream(node if window_node is None else window_node, window_node)
    return _above(items, having, grouping, made, attach)


def _above(
    items: list[Item],
    having: exp.Expr | None,
    grouping: _Grouping,
    stream: Stream,
    attach: Attach,
) -> Stream:
    """HAVING and the list of columns over the aggregates."""
    text = grouping.names.text
    asked = [*filter(None, [having]), *(item.node for item in items)]
    stream, asked, hidden = attach(stream, asked)
    grouping.hidden = hidden
    having = asked.pop(0) if having is not None else None
    items = [replace(item, node=node) for item, node in zip(items, asked, strict=True)]
    compiler = Expressions(
        text,
        Scope(stream, (), hidden=hidden),
        grouping.names.functions,
        special=grouping.replacement,
    )
    if having is not None:
        predicate = compiler.compile(having)
        with text.located(having):
            stream = stream.filter(predicate)
    columns = [compiler.column(item.node).alias(item.name) for item in items]
    plain = [(c.name, c.node) for c in columns] == [(n, Column(n)) for n in stream.schema.names]
    if plain:
        return stream
    for at, item in enumerate(items):
        with text.located(item.node):
            stream.select(*columns[: at + 1])
    return stream.select(*columns)


@dataclass
class _Grouping:
    """The keys and aggregates of one GROUP BY."""

    names: Names
    scope: Scope
    #: Resolved key -> its name.
    keys: dict[Node, str] = field(default_factory=dict)
    key_columns: list[Expr] = field(default_factory=list)
    key_nodes: list[exp.Expr] = field(default_factory=list)
    #: Aggregate as written -> its name and itself.
    aggregates: dict[exp.Expr, tuple[str, Agg]] = field(default_factory=dict)
    taken: set[str] = field(default_factory=lambda: {"self"})
    #: Of a window function in FROM.
    window: WindowInFrom | None = None
    #: There is no window: results hold until the next row of their key, or the end of one.
    runs: bool = False
    #: What EMIT says, if it is there; of sessions that are given as they grow: where they begin.
    emit: exp.Expr | None = None
    start: str | None = None
    #: Columns of subqueries.
    hidden: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.before = Expressions(self.names.text, self.scope, self.names.functions)
        self.building = Aggregates(self.before, self.names.aggregates)

    def add_key(self, node: exp.Expr, items: list[Item]) -> None:
        """A key, under the name that the list of columns gives it."""
        value = self.before.compile(node)
        resolved = resolve(value.node, self.scope.stream.schema)
        if resolved in self.keys:
            return
        if isinstance(value.node, Column):
            name = value.node.name
        else:
            wanted = next((i.name for i in items if i.node == node), "key")
            name = free_name(wanted, {*self.taken, *self.scope.stream.schema.names})
        if name in self.taken:
            raise self.names.text.error(node, f"two keys are called {name!r}")
        self.taken.add(name)
        self.keys[resolved] = name
        self.key_columns.append(value.alias(name))
        self.key_nodes.append(node)

    def add_aggregates(self, node: exp.Expr, wanted: str) -> None:
        """The aggregates inside of ``node``; one that is all of it is called ``wanted``."""
        if is_aggregate(node):
            if node not in self.aggregates:
                free = wanted and wanted not in self.taken
                name = wanted if free else "aggregate"
                name = free_name(name, self.taken)
                self.aggregates[node] = (name, self.building.build(node))
            return
        for part in node.iter_expressions():
            self.add_aggregates(part, "")

    @property
    def emits_changes(self) -> bool:
        """Whether results are asked for as they grow."""
        return self.emit is not None and self.emit.name == "CHANGES"

    def add_start(self, nodes: list[exp.Expr]) -> None:
        """The start of a session as an aggregate, if it is asked for: a result is not as long."""
        if any(self._is_bound(part) for node in nodes for part in node.find_all(exp.Column)):
            self.start = free_name("window_start", {*self.taken, *self.keys.values()})
            self.taken.add(self.start)
            self.aggregates[exp.Min(this=exp.column(VS))] = (self.start, agg.min(vs()))

    def _window(self, node: exp.Expr) -> AnyWindow | SessionBy:
        """The window, of a session so far if EMIT CHANGES says so."""
        text = self.names.text
        found = (
            window_of(node, text, self.before.compile) if self.window is None else self.window.spec
        )
        if not self.emits_changes:
            return found
        if isinstance(found, SessionBy):
            return replace(found, running=True)
        if isinstance(found, SessionWindow):
            return RunningSession(found.gap_us, found.max_us)
        assert self.emit is not None, node
        raise text.error(self.emit, _ONLY_SESSIONS)

    def stream(self, node: exp.Expr, window_node: exp.Expr | None) -> Stream:
        """The aggregates by key and window; without one, those of all that is alive."""
        text = self.names.text
        stream, window_us = self.scope.stream, self.scope.window_us
        if window_node is None and self.emit is not None:
            if window_us is not None and self.emits_changes:
                raise text.error(self.emit, _ONLY_SESSIONS)
            if window_us is None and not self.emits_changes:
                raise text.error(self.emit, "without a window no result is final; leave it out")
        bound = next(filter(_is_bound, filter(None, [window_node, *self.key_nodes])), None)
        if bound is not None and window_us is not None:
            stream = at_the_end(stream, bound, self.before.compile(bound), window_us)
        if window_node is None and window_us is not None:
            grouped: GroupedStream | WindowedStream = stream.group_by(*self.key_columns).window(
                snapshot()
            )
        elif window_node is None:
            grouped = stream.group_by(*self.key_columns)
        else:
            grouped = stream.group_by(*self.key_columns).window(self._window(window_node))
        for at, key in enumerate(self.key_nodes):
            with text.located(key):
                stream.group_by(*self.key_columns[: at + 1])
        chosen = {}
        for called, (name, aggregate) in self.aggregates.items():
            chosen[name] = aggregate
            with text.located(called if called.parent is not None else node):
                grouped.agg(**{name: aggregate})
        with text.located(node):
            found = grouped.agg(**chosen)
        if window_node is None and window_us is not None:
            found = found.shift(1 - window_us).set_duration(window_us)
        return found

    def replacement(self, node: exp.Expr) -> Expr | None:
        """The column for a part of the SELECT list: an aggregate, a bound or a key."""
        if is_aggregate(node):
            return col(self.aggregates[node][0])
        if self._is_bound(node) and self.start is not None:
            if node.name == "window_start":
                return col(self.start)
            raise self.names.text.error(
                node, "a session that goes on has no end yet; ve() is the end of a result"
            )
        if self._is_bound(node):
            return _BOUNDS[node.name]() if self.window is None else bound_of(self.window, node.name)
        if has_aggregate(node) or isinstance(node, exp.Literal | exp.Null | exp.Boolean):
            return None
        if isinstance(node, exp.Column) and node.name in self.hidden:
            return col(node.name)
        key = self._key(node)
        if key is None and isinstance(node, exp.Column):
            self.scope.column(node, self.names.text)
            raise self.names.text.error(
                node, f"{node.name!r} is neither in GROUP BY nor inside of an aggregate"
            )
        return None if key is None else col(key)

    def _is_bound(self, node: exp.Expr) -> bool:
        if self.window is None:
            return isinstance(node, exp.Column) and node.name in _BOUNDS and not node.table
        return _is_bound(node) and node.text("table") in ("", *self.scope.relations)

    def _key(self, node: exp.Expr) -> str | None:
        try:
            value = self.before.compile(node)
        except SqlError:
            return None
        return self.keys.get(resolve(value.node, self.scope.stream.schema))


def _split_group(
    clause: exp.Expr, items: list[Item], scope: Scope, names: Names
) -> tuple[exp.Expr | None, list[exp.Expr]]:
    """The window if there is one, and the keys: expressions, names of the list, or places in it."""
    text = names.text
    for part in ("totals", "all"):
        if clause.args.get(part):
            raise text.error(clause, f"GROUP BY {part.replace('_', ' ').upper()} is not supported")
    windows = [part for part in clause.expressions if is_window(part)]
    if not windows and scope.window is not None:
        return _split_bounds(clause, items, scope, names)
    if len(windows) > 1:
        raise text.error(windows[1], "GROUP BY takes one window")
    parts = [part for part in clause.expressions if part not in windows]
    keys = [listed(part, items, scope, text.error) for part in parts]
    if not windows and scope.window_us is not None and not any(map(_is_bound, keys)):
        raise text.error(clause, "GROUP BY needs window_start and window_end")
    return (windows[0] if windows else None), keys


def _split_bounds(
    clause: exp.Expr, items: list[Item], scope: Scope, names: Names
) -> tuple[exp.Expr, list[exp.Expr]]:
    """The same of GROUP BY window_start, window_end; sessions are made per key of GROUP BY."""
    text, window = names.text, scope.window
    assert window is not None, scope
    bounds = [part for part in clause.expressions if _is_bound(part)]
    if not bounds:
        raise text.error(clause, "GROUP BY needs window_start and window_end")
    if isinstance(window.spec, CumulatingWindow) and {b.name for b in bounds} <= {"window_start"}:
        raise text.error(bounds[0], "windows of CUMULATE start together; add window_end")
    keys = [listed(p, items, scope, text.error) for p in clause.expressions if p not in bounds]
    if isinstance(window.spec, SessionWindow):
        by = sorted(key.name for key in keys if isinstance(key, exp.Column))
        if by != sorted(window.keys) or len(by) != len(keys):
            said = ", ".join(window.keys) or "all"
            raise text.error(
                clause,
                f"sessions of {said} cannot be grouped by other keys; the keys of GROUP BY stand "
                "in SESSION(TABLE t PARTITION BY ..., DESCRIPTOR(ts), gap)",
            )
    return bounds[0], keys


def listed(
    node: exp.Expr,
    items: list[Item],
    scope: Scope,
    error: Callable[[exp.Expr, str], SqlError],
) -> exp.Expr:
    """A place in the list, or a name of it that no column of the stream has, as what it is of."""
    if isinstance(node, exp.Literal) and not node.is_string:
        at = int(node.name) if node.name.isdigit() else 0
        if not 1 <= at <= len(items):
            raise error(node, f"the list has columns 1 to {len(items)}")
        return items[at - 1].node
    if isinstance(node, exp.Column) and not node.table and not scope.candidates(node):
        for item in items:
            made = not isinstance(item.node, exp.Column) and not has_aggregate(item.node)
            if item.name == node.name and made:
                return item.node
    return node


def _without_aliases(node: exp.Expr, items: list[Item], scope: Scope) -> exp.Expr:
    """HAVING may use the names of the list where the stream has no such column."""
    made = {item.name: item.node for item in items}
    for column in list(node.find_all(exp.Column)):
        if column.table or column.name not in made or scope.candidates(column):
            continue
        copy = _at(made[column.name], column.this)
        if column is node:
            return copy
        column.replace(copy)
    return node


def _at(node: exp.Expr, place: exp.Expr) -> exp.Expr:
    """A copy of ``node`` that messages show at another place."""
    copy = node.copy()
    for part in copy.walk():
        part.meta.pop("start", None)
        part.meta.pop("end", None)
    copy.update_positions(place)
    return copy

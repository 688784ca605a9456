"""GROUP BY with a window, aggregates and HAVING.

The keys and the aggregates become ``group_by(...).window(...).agg(...)``. A projection above them
computes the SELECT list, unless it would change nothing. ``window_start`` and ``window_end`` are
the lifetime of the result.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.api import agg
from planner.api.expressions import Expr, col, lit, vs
from planner.api.grouped.early import ADDED, END, IS_FINAL, Emit, emitted
from planner.api.grouped.sessions import SessionBy
from planner.expressions.nodes import Column, Node, resolve
from planner.logical.windows import CumulatingWindow, RunningSession, Window
from planner.sql.clauses.grouping_keys import split_group, without_aliases
from planner.sql.expressions.aggregates import (
    Aggregates,
    averages_whole,
    has_aggregate,
    is_aggregate,
)
from planner.sql.expressions.scalars import Expressions
from planner.sql.expressions.scope import Bound, InWindows, Rows, Scope, WindowInFrom, free_name
from planner.sql.expressions.windowing import OVER, is_window, merging, window_of
from planner.sql.reading.errors import SqlError
from planner.sql.windows.in_windows import (
    NEEDS_BOUNDS,
    OF_VALUES,
    has_bounds,
    is_bound_of,
    refuse_windows,
    window_bounds,
    window_key,
)
from planner.sql.windows.kept_rows import lasting_results
from planner.sql.windows.window_tables import bound_of, ends_within, of_each_window
from rstream.items.batch import VS

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.api.agg import Agg
    from planner.api.stream import GroupedStream, Stream, WindowedStream
    from planner.logical.windows import AnyWindow
    from planner.sql.clauses.items import Item
    from planner.sql.expressions.names import Names
    from planner.sql.reading.parsing import SqlText

if TYPE_CHECKING:
    #: Joins the subqueries in expressions; returns the stream, the expressions and the new columns.
    Attach = Callable[[Stream, list[exp.Expr]], tuple[Stream, list[exp.Expr], tuple[str, ...]]]

_OF_ROWS_OF_WINDOWS = (
    "EMIT CHANGES needs the windows in this GROUP BY: rows of windows are grouped here, and their "
    "results come when these close. Write FROM TABLE(TUMBLE(...)) here, or TUMBLE in GROUP BY"
)
_OUTER = (
    "a subquery in HAVING, or in the list beside GROUP BY, cannot read columns of the query around "
    "it: put the GROUP BY in a subquery in FROM, and the condition in WHERE"
)
_OF_ROWS = (
    "rows of windows are valid until their windows end, so several of these windows would count "
    "them: GROUP BY window_start, window_end, or use this window on the stream itself"
)
_OPEN = "window_end is unknown while the session is open; ve() is the end of a result"
_BOUNDS = ("window_start", "window_end")
_MILLISECOND = timedelta(milliseconds=1)


def is_grouped(node: exp.Select) -> bool:
    """Return whether a SELECT has GROUP BY or aggregates."""
    if node.args.get("group") is not None:
        return True
    parts = [*node.expressions, *filter(None, [node.args.get("having")])]
    return any(has_aggregate(part) for part in parts)


def group(node: exp.Select, items: list[Item], scope: Scope, names: Names, attach: Attach) -> Rows:
    """Return the rows of a SELECT with GROUP BY or aggregates; ``attach`` joins its subqueries."""
    text = names.text
    for over in (part for item in items for part in item.node.find_all(exp.Window)):
        raise text.error(over, OVER)
    for item in items:
        if item.star:
            raise text.error(item.node, "* cannot be used in a SELECT with GROUP BY")
    clause = node.args.get("group")
    window_node, key_nodes = (
        (None, []) if clause is None else split_group(clause, items, scope, names)
    )
    if window_node is None:
        scope = lasting_results(key_nodes, scope, names)
    grouping = _Grouping(names, scope)
    if window_node is not None and not is_window(window_node):
        grouping.window = scope.window
    if window_node is None:
        grouping.key = window_key(key_nodes, scope, names, "GROUP BY")
        if grouping.key is None and has_bounds(scope):
            raise text.error(clause or node, NEEDS_BOUNDS.format("GROUP BY"))
    grouping.runs = window_node is None
    grouping.emit = node.args.get("emit")
    if window_node is not None:
        grouping.set_window(window_node)
    for key_node in key_nodes:
        if not grouping.is_implied(key_node):
            grouping.add_key(key_node, items)
    for item in items:
        grouping.add_aggregates(item.node, item.name)
    having = node.args.get("having")
    if having is not None:
        having = without_aliases(having.this, items, scope)
        grouping.add_aggregates(having, "")
    if window_node is not None and grouping.emits_changes and not grouping.is_early:
        grouping.add_start([*(item.node for item in items), *filter(None, [having])])
    if not grouping.aggregates:
        grouping.aggregates[exp.Count()] = (free_name("count", grouping.taken), agg.count())
    made = grouping.stream(node if window_node is None else window_node, window_node)
    stream = _above(items, having, grouping, made, attach)
    rows = grouping.rows(stream, items)
    return refuse_windows(rows, OF_VALUES) if grouping.hidden else rows


def _above(
    items: list[Item],
    having: exp.Expr | None,
    grouping: _Grouping,
    stream: Stream,
    attach: Attach,
) -> Stream:
    """Apply HAVING and the SELECT list to the aggregates."""
    text = grouping.names.text
    nodes = [*filter(None, [having]), *(item.node for item in items)]
    for node in nodes:
        _refuse_outer(node, grouping.scope, text)
    stream, nodes, hidden = attach(stream, nodes)
    grouping.hidden = hidden
    having = nodes.pop(0) if having is not None else None
    items = [replace(item, node=node) for item, node in zip(items, nodes, strict=True)]
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


def _refuse_outer(node: exp.Expr, scope: Scope, text: SqlText) -> None:
    """Raise for a subquery that reads single rows, which do not exist after grouping."""
    for query in node.find_all(exp.Query):
        own = {table.alias_or_name for table in query.find_all(exp.Table, exp.Subquery)}
        for column in query.find_all(exp.Column):
            if column.table in set(scope.relations) - own:
                raise text.error(column, _OUTER)


@dataclass
class _Grouping:
    """The keys and aggregates of one GROUP BY."""

    names: Names
    scope: Scope
    #: From a resolved key to its name.
    keys: dict[Node, str] = field(default_factory=dict)
    key_columns: list[Expr] = field(default_factory=list)
    key_nodes: list[exp.Expr] = field(default_factory=list)
    #: From an aggregate as written to its name and itself.
    aggregates: dict[exp.Expr, tuple[str, Agg]] = field(default_factory=dict)
    taken: set[str] = field(default_factory=lambda: {"self"})
    #: The windows of a window function in FROM.
    window: WindowInFrom | None = None
    #: The key that identifies the windows of the rows; each window gets one result.
    key: tuple[exp.Expr, Bound] | None = None
    #: Whether there is no window. Then a result is valid until the next change of its key.
    runs: bool = False
    #: The EMIT clause, or the call that makes running sessions; None: there is none.
    emit: exp.Expr | None = None
    start: str | None = None
    #: The windows of the results, if the query has windows.
    spec: AnyWindow | SessionBy | None = None
    #: The columns that subqueries of expressions added.
    hidden: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.before = Expressions(self.names.text, self.scope, self.names.functions)
        self.building = Aggregates(self.before, self.names.aggregates)

    def is_implied(self, node: exp.Expr) -> bool:
        """Return whether a key only repeats the window by which rows are grouped."""
        if self.scope.in_windows.is_whole or not isinstance(node, exp.Column):
            return False
        return bool(self._own_bounds(node))

    def _is_mark(self, node: exp.Expr) -> bool:
        """Return whether a name means the column that marks final results, and no other column."""
        if not isinstance(node, exp.Column) or node.name != IS_FINAL or node.table:
            return False
        return not self.scope.candidates(node)

    def add_key(self, node: exp.Expr, items: list[Item]) -> None:
        """Add a key, under its name in the SELECT list."""
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
        """Add the aggregates inside of ``node``; an aggregate itself is called ``wanted``."""
        if is_aggregate(node):
            if node not in self.aggregates:
                free = wanted and wanted not in self.taken
                name = wanted if free else "aggregate"
                name = free_name(name, self.taken)
                self.aggregates[node] = (name, self.building.build(node))
            return
        if isinstance(node, exp.Query):
            return  # stop here: a subquery has its own aggregates
        for part in node.iter_expressions():
            self.add_aggregates(part, "")

    @property
    def emits_changes(self) -> bool:
        """Whether the query emits early results."""
        return self.emit is not None and self.emit.name == "CHANGES"

    def add_start(self, nodes: list[exp.Expr]) -> None:
        """Add the start of a session as an aggregate, if it is read: early results start later."""
        if any(self._is_bound(part) for node in nodes for part in node.find_all(exp.Column)):
            self.start = free_name("window_start", {*self.taken, *self.keys.values()})
            self.taken.add(self.start)
            self.aggregates[exp.Min(this=exp.column(VS))] = (self.start, agg.min(vs()))

    @property
    def is_early(self) -> bool:
        """Whether windows by the clock emit results before they close."""
        return self.emits_changes and isinstance(self.spec, Window)

    def set_window(self, node: exp.Expr) -> None:
        """Read the window; EMIT CHANGES adds columns to the results of windows by the clock."""
        text = self.names.text
        zone = self.names.zone
        own = None if self.window is None else self.window.spec
        window = own or window_of(node, text, self.before.compile, zone)
        if self.emit is not None and self.emits_changes:
            with text.located(self.emit):
                window, early = emitted(window, "changes")
            self.taken.update(ADDED if early else ())
        self.spec = window

    def stream(self, node: exp.Expr, window_node: exp.Expr | None) -> Stream:
        """Return the aggregates by key and window; without a window, over all valid events."""
        text = self.names.text
        stream = self.scope.stream
        if window_node is None and self.emit is not None:
            if self.key is not None and self.emits_changes:
                raise text.error(self.emit, _OF_ROWS_OF_WINDOWS)
            if self.key is None and not self.emits_changes:
                raise text.error(
                    self.emit,
                    "EMIT FINAL needs a window, because other results have no end; leave it out",
                )
        for at, key in enumerate(self.key_nodes):
            with text.located(key):
                stream.group_by(*self.key_columns[: at + 1])
        if window_node is not None and self.spec is not None:
            if self.window is None and not ends_within(self.scope.in_windows, self.spec):
                raise text.error(window_node, _OF_ROWS)
            emit: Emit = "changes" if self.emits_changes else "final"
            spec = merging(self.spec, text.engine)
            found = self._results(stream.group_by(*self.key_columns).window(spec, emit=emit), node)
            return found if spec is self.spec or _grows(spec) else found.extend(-1)
        if self.key is None or self.scope.in_windows.is_whole:
            return self._results(stream.group_by(*self.key_columns), node)
        key_node, bound = self.key
        value = self.before.compile(key_node)

        def results(rows: Stream, window: Window) -> Stream:
            return self._results(rows.group_by(*self.key_columns).window(window), node)

        with text.located(key_node):
            return of_each_window(stream, bound, value, results)

    def _results(self, grouped: GroupedStream | WindowedStream, node: exp.Expr) -> Stream:
        """Return the aggregates; each is first compiled separately, so that an error names it."""
        text = self.names.text
        chosen = {}
        for called, (name, aggregate) in self.aggregates.items():
            chosen[name] = aggregate
            with text.located(called if called.parent is not None else node):
                grouped.agg(**{name: aggregate})
        with text.located(node):
            return grouped.agg(**chosen)

    def rows(self, stream: Stream, items: list[Item]) -> Rows:
        """Return the results, whose lifetimes are their windows."""
        if self.is_early or (self.key is None and (self.spec is None or _grows(self.spec))):
            return Rows(stream)
        spec = self.spec if self.key is None else self.key[1].window
        window = spec if isinstance(spec, Window) else None
        steps, bounds = spec if isinstance(spec, CumulatingWindow) else None, {}
        for item in items:
            others = window_bounds(item.node, self.scope)
            if self._is_bound(item.node):
                kind = self._kind(item.node)
                bounds[item.name] = Bound(kind, window, is_life=True, steps=steps)
            elif others:  # a result of a new window may end after the input's window
                is_within = self.key is not None
                bounds[item.name] = others[0] if is_within else Bound(others[0].kind, None)
        return Rows(stream, bounds, InWindows((window,), is_whole=True))

    def replacement(self, node: exp.Expr) -> Expr | None:
        """Return the column for a part of the SELECT list: an aggregate, a bound or a key."""
        if is_aggregate(node):
            result = col(self.aggregates[node][0])
            return result.cast("int64") if averages_whole(node, self.before) else result
        if self.is_early and (self._is_bound(node) or self._is_mark(node)):
            is_time = self._is_bound(node) and self._kind(node) == "window_time"
            name = END if is_time else self._kind(node)
            return col(name) - lit(_MILLISECOND) if is_time else col(name)
        if self._is_bound(node) and self.start is not None:
            if node.name == "window_start":
                return col(self.start)
            raise self.names.text.error(node, _OPEN)
        if self._is_bound(node):
            if self.window is None:
                return bound_of(None, self._kind(node), self.names.zone)
            return bound_of(self.window.spec, self._kind(node), self.window.zone)
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
        """Return whether a node is a bound of the result's window."""
        if not isinstance(node, exp.Column):
            return False
        if self.window is not None:
            return is_bound_of(node, self.window.relation)
        if self._own_bounds(node):
            return True
        if node.name not in _BOUNDS or node.table or self._key(node) is not None:
            return False
        return not (self.runs and self.scope.candidates(node))

    def _kind(self, node: exp.Expr) -> str:
        """Return which bound a column is: ``window_start``, ``window_end`` or ``window_time``."""
        own = self._own_bounds(node)
        return own[0].kind if own else node.name

    def _own_bounds(self, node: exp.Expr) -> list[Bound]:
        """Return which bounds a column is, of the windows that the key identifies."""
        if self.key is None:
            return []
        bounds, window = window_bounds(node, self.scope), self.key[1].window
        own = (bound for bound in bounds if bound.window == window and not bound.is_nullable)
        return [b for b in own if (window is not None or b.is_life) and b.steps is None]

    def _key(self, node: exp.Expr) -> str | None:
        try:
            value = self.before.compile(node)
        except SqlError:
            return None
        return self.keys.get(resolve(value.node, self.scope.stream.schema))


def _grows(spec: AnyWindow | SessionBy) -> bool:
    """Return whether a window has several results, one after the other."""
    return isinstance(spec, RunningSession) or (isinstance(spec, SessionBy) and spec.running)

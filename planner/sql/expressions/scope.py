"""Scopes: the columns that a place in a statement may name, and their names in the stream."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.expressions.nodes import Column
from planner.sql.reading.parsing import ANY_CASE
from rstream.items.batch import VE, VS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.api.expressions import Expr
    from planner.api.stream import Stream
    from planner.logical.windows import AnyWindow, CumulatingWindow, Window
    from planner.sql.reading.parsing import SqlText


@dataclass(frozen=True, slots=True)
class Bound:
    """What a column that holds a bound of a window means."""

    #: ``window_start``, ``window_end`` or ``window_time``, regardless of the column's name.
    kind: str
    #: The window; None: it depends on the data, or the stream's windows are not all alike.
    window: Window | None
    #: Whether rows with equal bounds have equal lifetimes, as the results of windows have.
    is_life: bool = False
    #: The windows, if they are of CUMULATE: a result is valid only in the last step of its window.
    steps: CumulatingWindow | None = None
    #: The outer joins without whose match the column is null: for each, the joined relation and the
    #: side that may be missing ("": within that relation).
    null_when: frozenset[tuple[str, str]] = frozenset()

    @property
    def is_nullable(self) -> bool:
        """Whether the column is null in some rows."""
        return bool(self.null_when)


@dataclass(frozen=True, slots=True)
class Visible:
    """A column that the statement can name."""

    relation: str
    name: str
    #: The column's name in the stream.
    column: str
    bound: Bound | None = None


@dataclass(frozen=True, slots=True)
class InWindows:
    """The windows that decide the lifetimes of rows; no ``windows``: no window does."""

    #: One entry per kind of window; a row ends at the latest with its window of each kind. None:
    #: the windows depend on the data.
    windows: tuple[Window | None, ...] = ()
    #: Whether a row's lifetime equals its window, as for the results of windows.
    is_whole: bool = False
    #: Whether some rows are input rows of windows, not results.
    has_rows: bool = False
    #: Whether rows of different windows that overlap are paired.
    is_crossed: bool = False
    #: Why a row may end before its window; then some rows of a window are not valid at its end. "":
    #: no row does.
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Rows:
    """The stream of a query, and the windows that its rows belong to."""

    stream: Stream
    #: From a column to the window that it is a bound of.
    bounds: Mapping[str, Bound] = field(default_factory=dict)
    in_windows: InWindows = InWindows()

    def called(self, stream: Stream) -> Rows:
        """Return the same rows with the column names of ``stream``."""
        pairs = zip(self.stream.schema.names, stream.schema.names, strict=True)
        bounds = {name: self.bounds[old] for old, name in pairs if old in self.bounds}
        return Rows(stream, bounds, self.in_windows)


@dataclass(frozen=True, slots=True)
class WindowInFrom:
    """The windows of a window function in FROM; the rows' lifetimes are not cut to them yet."""

    spec: AnyWindow
    relation: str
    #: The columns of PARTITION BY.
    keys: tuple[str, ...]
    #: The zone of the bounds; "" is UTC.
    zone: str = ""


@dataclass(frozen=True, slots=True)
class Scope:
    """A stream and the columns of its relations, in the order of ``*``."""

    stream: Stream
    columns: tuple[Visible, ...]
    #: The windows that GROUP BY window_start, window_end refers to.
    window: WindowInFrom | None = None
    #: Columns of the stream that replace subqueries; ``*`` omits them.
    hidden: tuple[str, ...] = ()
    in_windows: InWindows = InWindows()

    @property
    def relations(self) -> tuple[str, ...]:
        """The names of its relations, in order."""
        return tuple(dict.fromkeys(c.relation for c in self.columns))

    def candidates(self, node: exp.Column) -> tuple[str, ...]:
        """Return the stream's columns that a name may refer to."""
        name, relation = node.name, node.table
        if not relation and (name in (VS, VE) or name in self.hidden):
            return (name,)
        visible = [c for c in self.columns if c.name == name and relation in ("", c.relation)]
        if not visible and node.meta.get(ANY_CASE):
            name, relation = name.lower(), relation.lower()
            visible = [
                c
                for c in self.columns
                if c.name.lower() == name and relation in ("", c.relation.lower())
            ]
        return tuple(dict.fromkeys(c.column for c in visible))

    def parts(self, node: exp.Column) -> tuple[exp.Column, list[str]]:
        """Split ``meta.ua`` or ``t.meta.ua`` into its column and the fields after it."""
        named = [node.args.get(part) for part in ("catalog", "db", "table", "this")]
        ids = [one for one in named if one is not None]
        if len(ids) < 2 or (len(ids) == 2 and ids[0].name in self.relations):
            return node, []
        at = 1 if ids[0].name in self.relations else 0
        base = exp.Column(this=ids[at].copy(), table=ids[0].copy() if at else None)
        return (base, [i.name for i in ids[at + 1 :]]) if self.candidates(base) else (node, [])

    def column(self, node: exp.Column, text: SqlText) -> str:
        """Return the one column that a name refers to."""
        if node.args.get("db") is not None:
            raise text.error(node.args["db"], "a column must be written as name or relation.name")
        visible = self.candidates(node)
        if len(visible) == 1:
            return visible[0]
        if visible:
            owners = " and ".join(c.relation for c in self.columns if c.name == node.name)
            raise text.error(node.this, f"{node.name!r} is in {owners}; write relation.{node.name}")
        if node.table and node.table not in self.relations:
            here = ", ".join(self.relations)
            raise text.error(
                node.args["table"], f"no relation {node.table!r} here; the relations are: {here}"
            )
        raise text.error(node.this, self._no_column(node.name, node.table))

    def visible_in(self, relation: str) -> tuple[Visible, ...]:
        """Return the columns of one relation; of all, if the name is empty."""
        return tuple(c for c in self.columns if relation in ("", c.relation))

    def with_stream(self, stream: Stream) -> Scope:
        """Return the same columns over another stream."""
        return replace(self, stream=stream)

    def _no_column(self, name: str, relation: str) -> str:
        known = tuple(dict.fromkeys(c.name for c in self.visible_in(relation)))
        near = get_close_matches(name, known, n=1, cutoff=0.6)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        of = f" in {relation!r}" if relation else ""
        return f"no column {name!r}{of}{hint} The columns are: {', '.join(known) or '(none)'}"


def scope_of(stream: Stream, relation: str) -> Scope:
    """Return all columns of one relation."""
    return scope_of_rows(Rows(stream), relation)


def scope_of_rows(rows: Rows, relation: str) -> Scope:
    """Return all columns of a query as one relation, with its windows."""
    names = rows.stream.schema.names
    within = frozenset({(relation, "")})
    bounds = {
        name: replace(bound, null_when=within) if bound.is_nullable else bound
        for name, bound in rows.bounds.items()
    }
    columns = tuple(Visible(relation, name, name, bounds.get(name)) for name in names)
    return Scope(rows.stream, columns, in_windows=rows.in_windows)


def with_key_columns(
    stream: Stream, keys: list[Expr], name: str, taken: set[str]
) -> tuple[Stream, list[str]]:
    """Add a column, called like ``name``, for each key that is computed.

    Returns:
        The stream, and the columns of all keys.
    """
    computed: list[Expr] = []
    on: list[str] = []
    for key in keys:
        if isinstance(key.node, Column):
            on.append(key.node.name)
        else:
            on.append(free_name(name, taken))
            computed.append(key.alias(on[-1]))
    return (stream.with_columns(*computed) if computed else stream), on


def free_name(wanted: str, taken: set[str]) -> str:
    """Return ``wanted`` with underscores added until it is unused; add it to ``taken``."""
    while wanted in taken:
        wanted += "_"
    taken.add(wanted)
    return wanted

"""``MATCH_RECOGNIZE``, translated to :meth:`planner.api.stream.Stream.match`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.api import agg
from planner.api.expressions import Expr, col
from planner.api.grouped.matching import expressions as pattern
from planner.sql.expressions.aggregates import Aggregates, is_aggregate
from planner.sql.expressions.scalars import Expressions
from planner.sql.expressions.scope import Rows, Scope, scope_of_rows
from planner.sql.reading.literals import interval_us, plain_value
from planner.sql.reading.row_patterns import RowOf, Semantics

if TYPE_CHECKING:
    from planner.sql.expressions.names import Names
    from planner.sql.reading.row_patterns import MatchTable

#: The name of the relation of a match that has no alias.
_UNNAMED = "(match)"


def match_table(node: MatchTable, below: Scope, names: Names) -> Scope:
    """Return the rows of the matches in the relation ``below``."""
    text = names.text
    keys = [below.column(_plain(key, names), text) for key in node.args.get("partition_by") or ()]
    order = node.args.get("order")
    ordered = Expressions(text, below, names.functions)
    orders = [
        agg.Ordering(
            ordered.compile(part.this),
            bool(part.args.get("desc")),
            bool(part.args.get("nulls_first")),
        )
        for part in ([] if order is None else order.expressions)
    ]
    measures: dict[str, Expr] = {}
    reading = _Reading(names, below)
    for part in node.args.get("measures") or ():
        name = part.alias_or_name if isinstance(part, exp.Alias | exp.Column) else ""
        if not name:
            raise text.error(part, "a measure needs a name: LAST(a.price) AS price")
        if name in measures:
            raise text.error(part, f"two measures are called {name!r}")
        measures[name] = reading.compiled(part.unalias())
    define = {
        part.this.name: reading.compiled(part.expression) for part in node.args.get("define") or ()
    }
    subset = {
        part.this.name: [member.name for member in part.expressions]
        for part in node.args.get("subset") or ()
    }
    within = node.args.get("within")
    after = node.args.get("after")
    with text.located(node):
        made = below.stream.match(
            node.args["pattern"].name,
            partition_by=keys,
            order_by=orders,
            define=define,
            measures=measures,
            rows=node.args["rows"].name,
            after_match="past_last_row" if after is None else after.name,
            within=None if within is None else interval_us(within, text),
            subset=subset,
        )
        first = [*dict.fromkeys([*keys, *_columns(orders)]), *measures]
        others = [name for name in made.schema.names if name not in first]
        if others:
            made = made.select(*first, *others)
    return scope_of_rows(Rows(made), node.alias or _UNNAMED)


def _plain(node: exp.Expr, names: Names) -> exp.Column:
    if not isinstance(node, exp.Column):
        raise names.text.error(node, "PARTITION BY takes columns; compute this one in a subquery")
    return node


def _columns(orders: list[agg.Ordering]) -> list[str]:
    """Return the columns that order the rows."""
    return [name for order in orders for name in order.expr.node.columns() if name[0] != "_"]


class _Reading:
    """Compiles conditions and measures, whose columns belong to rows mapped to variables."""

    def __init__(self, names: Names, below: Scope) -> None:
        self._names, self._text = names, names.text
        self._below = below
        relation = below.columns[0].relation if below.columns else ""
        #: The columns, named without the variables of the pattern.
        columns = tuple(replace(column, relation="") for column in below.columns)
        self._rows = replace(below, columns=columns)
        self._relation = relation

    def compiled(self, node: exp.Expr) -> Expr:
        """Compile a condition or a measure."""
        return self._expressions().compile(node)

    def _expressions(self) -> Expressions:
        return Expressions(self._text, self._rows, self._names.functions, special=self._special)

    def _special(self, node: exp.Expr) -> Expr | None:
        if isinstance(node, exp.Column):
            variable, value = self._value(node)
            return pattern.rows_of(variable).last(value)
        if isinstance(node, Semantics):
            is_final = node.args["kind"].name == "FINAL"
            made = self._expressions().compile(node.this)
            return pattern.final(made) if is_final else pattern.running(made)
        name = node.name.upper() if isinstance(node, exp.Anonymous) else ""
        if name in ("PREV", "NEXT") or isinstance(node, RowOf):
            return self._navigated(node)
        if name == "CLASSIFIER":
            parts = node.expressions
            if len(parts) > 1 or any(not isinstance(part, exp.Column) for part in parts):
                raise self._text.error(node, "CLASSIFIER takes a variable of the pattern at most")
            return pattern.rows_of(parts[0].name if parts else None).classifier()
        if name == "MATCH_NUMBER":
            return pattern.match_number()
        if name in ("MATCH_ROWTIME", "MATCH_PROCTIME"):
            raise self._text.error(
                node,
                "write vs() outside of MATCH_RECOGNIZE, where it is the time of the last row",
            )
        return self._aggregate(node) if is_aggregate(node) else None

    def _navigated(self, node: exp.Expr) -> Expr:
        """Compile ``PREV``, ``NEXT``, ``FIRST``, ``LAST``; the first two may contain the others."""
        if isinstance(node, RowOf):
            inner, offset = node.this, node.args.get("expression")
            if is_aggregate(inner):
                raise self._text.error(inner, "FIRST and LAST take a value of a row")
            variable, value = self._value(inner)
            rows = pattern.rows_of(variable)
            count = self._count(offset, 0)
            with self._text.located(node):
                first = node.args["kind"].name == "FIRST"
                return rows.first(value, count) if first else rows.last(value, count)
        parts = node.expressions
        if not 1 <= len(parts) <= 2:
            raise self._text.error(node, f"{node.name.upper()} takes a value, and a number of rows")
        inner = parts[0]
        if isinstance(inner, RowOf):
            moved = self._navigated(inner)
        else:
            variable, value = self._value(inner)
            moved = pattern.rows_of(variable).last(value)
        count = self._count(parts[1] if len(parts) > 1 else None, 1)
        with self._text.located(node):
            step = pattern.prev if node.name.upper() == "PREV" else pattern.next_row
            return step(moved, count)

    def _aggregate(self, node: exp.Expr) -> Expr:
        if isinstance(node, exp.Count) and isinstance(node.this, exp.Column) and node.this.is_star:
            return pattern.rows_of(node.this.table or None).agg(agg.count())
        variable, stripped = self._stripped(node)
        before = Expressions(self._text, self._rows, self._names.functions)
        made = Aggregates(before, self._names.aggregates).build(stripped)
        with self._text.located(node):
            return pattern.rows_of(variable).agg(made)

    def _value(self, node: exp.Expr) -> tuple[str | None, Expr]:
        """Return the variable, and the value of one of its rows."""
        variable, stripped = self._stripped(node)
        if isinstance(stripped, exp.Column):
            return variable, col(self._rows.column(stripped, self._text))
        before = Expressions(self._text, self._rows, self._names.functions)
        return variable, before.compile(stripped)

    def _stripped(self, node: exp.Expr) -> tuple[str | None, exp.Expr]:
        """Return the one variable of all columns in a node, and the node without it."""
        own = (self._relation,)
        tables = {c.table if c.table not in own else "" for c in node.find_all(exp.Column)}
        if len(tables) > 1:
            raise self._text.error(
                node, "all columns in a value of a row must belong to one variable of the pattern"
            )
        whole = exp.Paren(this=node.copy())
        for column in whole.find_all(exp.Column):
            column.set("table", None)
        return next(iter(tables), "") or None, whole.this

    def _count(self, node: exp.Expr | None, default: int) -> int:
        if node is None:
            return default
        value = plain_value(node, self._text)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self._text.error(node, "the number of rows must be a whole number")
        return value

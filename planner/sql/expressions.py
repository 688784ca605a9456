"""Expressions of SQL as expressions of the fluent interface, typed as they are built.

Every part is resolved against the stream it is over, so a type error is told at the innermost part
that has it. Names of columns are exact; names of functions and keywords are not.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from sqlglot import exp

from planner.expressions import Expr, as_node, coalesce, col, lit, when
from planner.sql import functions
from planner.sql.literals import data_type, interval, plain_value, time_literal
from planner.sql.windowing import OVER, is_window

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from planner.sql.parsing import SqlText
    from planner.sql.scope import Scope

_BINARY: dict[type[exp.Expr], Callable[[Expr, Expr], Expr]] = {
    exp.Add: Expr.__add__,
    exp.Sub: Expr.__sub__,
    exp.Mul: Expr.__mul__,
    exp.Div: Expr.__truediv__,
    exp.IntDiv: Expr.__floordiv__,
    exp.Mod: Expr.__mod__,
    exp.EQ: Expr.__eq__,
    exp.NEQ: Expr.__ne__,
    exp.LT: Expr.__lt__,
    exp.LTE: Expr.__le__,
    exp.GT: Expr.__gt__,
    exp.GTE: Expr.__ge__,
    exp.And: Expr.__and__,
    exp.Or: Expr.__or__,
    exp.DPipe: Expr.__add__,
}
AGGREGATE_NEEDS_GROUP = (
    "an aggregate needs GROUP BY with a window, as GROUP BY user, TUMBLE('5 seconds')"
)


@dataclass
class Expressions:
    """Compiles expressions over the columns of ``scope``."""

    text: SqlText
    scope: Scope
    #: The user's own, by lower-case name.
    functions: Mapping[str, Callable[..., Expr]]
    #: Asked first: keys and aggregates of a grouped query.
    special: Callable[[exp.Expr], Expr | None] = field(default=lambda _node: None)

    def compile(self, node: exp.Expr) -> Expr:
        """The expression, known to fit the stream's types.

        Raises:
            SqlError: it does not, or there is no such function.
        """
        made = self.special(node)
        if made is None:
            made = self._build(node)
            made = ~made if node.args.get("negate") else made
        with self.text.located(node):
            made.output_type(self.scope.stream.schema)
        return made

    def column(self, node: exp.Expr) -> Expr:
        """The same, for a column of an answer, which has to have a type."""
        made = self.compile(node)
        if made.output_type(self.scope.stream.schema) == pa.null():
            reason = "this is always null; give it a type: CAST(NULL AS BIGINT)"
            raise self.text.error(node, reason)
        return made

    def _build(self, node: exp.Expr) -> Expr:
        operator = _BINARY.get(type(node))
        if operator is not None:
            left, right = self.compile(node.this), self.compile(node.args["expression"])
            return operator(left, right)
        if isinstance(node, exp.AggFunc | exp.Filter):
            raise self.text.error(node, AGGREGATE_NEEDS_GROUP)
        for kind, method in self._METHODS.items():
            if isinstance(node, kind):
                made: Expr = method(self, node)
                return made
        return self._function(node)

    def _function(self, node: exp.Expr) -> Expr:
        own = self._own(node)
        if own is not None:
            return own
        if type(node) in functions.CALLS:
            names, build = functions.CALLS[type(node)]
            functions.reject_others(node, names, self.text)
            return build(*(self.compile(node.args[n]) for n in names if node.args.get(n)))
        if isinstance(node.this, exp.Expr) and functions.takes_literals(node):
            value = self.compile(node.this)
            return functions.with_literals(node, value, self.text)
        raise self.text.error(node, f"{_named(node)} is not supported{self._why_not(node)}")

    def _why_not(self, node: exp.Expr) -> str:
        if isinstance(node, _OUTSIDE):
            return ": an answer follows from its input alone"
        if is_window(node):
            return " here: it stands in GROUP BY, and window_start and window_end tell its bounds"
        return ""

    def _own(self, node: exp.Expr) -> Expr | None:
        """A function of the user's, or one that sqlglot has no node for."""
        if not isinstance(node, exp.Func):
            return None
        name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
        build = self.functions.get(name)
        if build is None and isinstance(node, exp.Anonymous):
            build = functions.NAMED.get(name)
        if build is None:
            return None
        given = node.expressions if isinstance(node, exp.Anonymous) else _arguments(node)
        values = [self.compile(part) for part in given]
        try:
            inspect.signature(build).bind(*values)
        except TypeError:
            raise self.text.error(node, f"{name}() does not take {len(values)} arguments") from None
        with self.text.located(node):
            return Expr(as_node(build(*values)))

    def _column(self, node: exp.Column) -> Expr:
        if isinstance(node.this, exp.Star):
            raise self.text.error(node, "* is a list of columns, not a value")
        return col(self.scope.column(node, self.text))

    def _literal(self, node: exp.Expr) -> Expr:
        with self.text.located(node):
            return lit(plain_value(node, self.text))

    def _cast(self, node: exp.Cast) -> Expr:
        if isinstance(node, exp.TryCast) or node.args.get("format") or node.args.get("safe"):
            raise self.text.error(node, "only CAST(x AS type) is supported")
        to = data_type(node.to, node, self.text)
        moment = time_literal(node, to, self.text)
        return lit(moment) if moment is not None else self.compile(node.this).cast(to)

    def _case(self, node: exp.Case) -> Expr:
        of = None if node.this is None else self.compile(node.this)
        chain = None
        for branch in node.args["ifs"]:
            asked = self.compile(branch.this)
            condition = asked if of is None else of == asked
            start = when(condition) if chain is None else chain.when(condition)
            chain = start.then(self.compile(branch.args["true"]))
        assert chain is not None, node
        default = node.args.get("default")
        return chain.otherwise(None if default is None else self.compile(default))

    def _in(self, node: exp.In) -> Expr:
        if node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
            raise self.text.error(node, "IN takes a list of literals; use a JOIN or EXISTS")
        members = [plain_value(part, self.text) for part in node.expressions]
        return self.compile(node.this).is_in(members)

    def _is(self, node: exp.Is) -> Expr:
        value, what = self.compile(node.this), node.args["expression"]
        if isinstance(what, exp.Null):
            return value.is_null()
        if isinstance(what, exp.Boolean):
            return (value == bool(what.this)).fill_null(False)
        raise self.text.error(node, "IS takes NULL, TRUE or FALSE")

    def _not(self, node: exp.Not) -> Expr:
        inner = node.this
        if isinstance(inner, exp.Is) and isinstance(inner.args["expression"], exp.Null):
            return self.compile(inner.this).is_not_null()
        return ~self.compile(inner)

    def _between(self, node: exp.Between) -> Expr:
        low, high = self.compile(node.args["low"]), self.compile(node.args["high"])
        return self.compile(node.this).between(low, high)

    def _extract(self, node: exp.Extract) -> Expr:
        value = self.compile(node.args["expression"])
        return functions.extract(node.this.name, value, node, self.text)

    def _exists(self, node: exp.Expr) -> Expr:
        raise self.text.error(node, "EXISTS stands alone in WHERE or between ANDs")

    def _over(self, node: exp.Expr) -> Expr:
        raise self.text.error(node, OVER)

    def _subquery(self, node: exp.Expr) -> Expr:
        raise self.text.error(node, "a subquery stands in FROM, or in WHERE after EXISTS")

    #: By kind of node; the first that fits.
    _METHODS: ClassVar[dict[type[exp.Expr], Callable[..., Expr]]] = {
        exp.Paren: lambda self, node: self.compile(node.this),
        exp.Column: _column,
        exp.Literal: _literal,
        exp.Boolean: _literal,
        exp.Null: lambda _self, _node: lit(None),
        exp.Neg: lambda self, node: (
            self._literal(node)
            if isinstance(node.this, exp.Literal) and not node.this.is_string
            else -self.compile(node.this)
        ),
        exp.Interval: lambda self, node: lit(interval(node, self.text)),
        exp.Cast: _cast,
        exp.Case: _case,
        exp.In: _in,
        exp.Is: _is,
        exp.Not: _not,
        exp.Between: _between,
        exp.Extract: _extract,
        exp.Coalesce: lambda self, node: coalesce(*map(self.compile, _arguments(node))),
        exp.Concat: lambda self, node: functions.concat(
            [self.compile(part) for part in node.expressions]
        ),
        exp.Subquery: _subquery,
        exp.Select: _subquery,
        exp.Exists: _exists,
        exp.Window: _over,
    }


def _arguments(node: exp.Expr) -> list[exp.Expr]:
    """The arguments of a function in the order in which sqlglot lists them."""
    given: list[exp.Expr] = []
    for part in node.args.values():
        given += [p for p in (part if isinstance(part, list) else [part]) if p is not None]
    return [part for part in given if isinstance(part, exp.Expr)]


#: What differs from run to run.
_OUTSIDE = (exp.Rand, exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.Uuid)


def _named(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return f"the function {node.name.upper()}"
    if isinstance(node, exp.Func):
        return f"the function {node.sql_name()}"
    return f"{type(node).__name__.upper()} here"

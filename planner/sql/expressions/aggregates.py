"""The aggregates of SQL: what they are called here, and ``FILTER (WHERE ...)``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from planner.api import agg
from planner.api.choices import when
from planner.api.expressions import Expr, lit
from planner.sql.reading.grammar import as_sql
from planner.sql.reading.hints import HINTS
from planner.sql.reading.literals import plain_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from planner.api.agg import Agg
    from planner.sql.expressions.scalars import Expressions
    from rvertex.aggregates.user_defined import UserAggregate


#: Of one value, by sqlglot's node: its name in ``KNOWN``, "" for a second one, and what it is.
_OF_ONE: dict[type[exp.Expr], tuple[str, Callable[[Expr], Agg]]] = {
    exp.Sum: ("SUM", agg.sum),
    exp.Avg: ("AVG", agg.mean),
    exp.Min: ("MIN", agg.min),
    exp.Max: ("MAX", agg.max),
    exp.First: ("FIRST", agg.first),
    exp.Last: ("LAST", agg.last),
    exp.Variance: ("VARIANCE", agg.variance),
    exp.VariancePop: ("VAR_POP", lambda x: agg.variance(x, ddof=0)),
    exp.Stddev: ("STDDEV", agg.stddev),
    exp.StddevSamp: ("", agg.stddev),
    exp.StddevPop: ("STDDEV_POP", lambda x: agg.stddev(x, ddof=0)),
    exp.Median: ("MEDIAN", lambda x: agg.quantile(x, 0.5)),
    exp.Mode: ("MODE", agg.mode),
    exp.Skewness: ("SKEWNESS", agg.skewness),
    exp.Kurtosis: ("KURTOSIS", agg.kurtosis),
    exp.AnyValue: ("ANY_VALUE", agg.any_value),
    exp.LogicalAnd: ("BOOL_AND", agg.bool_and),
    exp.LogicalOr: ("BOOL_OR", agg.bool_or),
    exp.CountIf: ("COUNT_IF", agg.count_if),
    exp.ArrayAgg: ("ARRAY_AGG", agg.array_agg),
    exp.FirstValue: ("", agg.first),
    exp.LastValue: ("", agg.last),
    exp.ApproxDistinct: ("APPROX_COUNT_DISTINCT", agg.count_distinct),
}
#: Those that sqlglot has no node for, and how many literals they take.
_NAMED: dict[str, tuple[Callable[..., Agg], int]] = {
    "product": (agg.product, 0),
    "top_k": (agg.top_k, 1),
    "every": (agg.bool_and, 0),
    "some": (agg.bool_or, 0),
    "percentile": (agg.quantile, 1),
    "collect_list": (agg.collect, 0),
    "string_agg": (agg.string_agg, 1),
    "listagg": (agg.string_agg, 1),
}
#: Of each different value once.
_OF_DISTINCT: dict[type[exp.Expr], Callable[[Expr], Agg]] = {
    exp.Sum: agg.sum_distinct,
    exp.Avg: agg.mean_distinct,
    exp.Min: agg.min,
    exp.Max: agg.max,
}
_OF_TWO: dict[type[exp.Expr], Callable[[Expr, Expr], Agg]] = {
    exp.Corr: agg.corr,
    exp.CovarPop: lambda x, y: agg.covariance(x, y, ddof=0),
    exp.CovarSamp: agg.covariance,
}
#: They see nulls, so a condition cannot be made of them.
_SEE_NULLS = (exp.First, exp.Last, exp.FirstValue, exp.LastValue, exp.ArrayAgg)
KNOWN = ", ".join(
    (
        "COUNT",
        *(name for name, _ in _OF_ONE.values() if name),
        "QUANTILE",
        "PERCENTILE_CONT",
        *(name.upper() for name in _NAMED),
        *("MAX_BY", "MIN_BY", "CORR", "COVAR_POP", "COVAR_SAMP"),
    )
)


def is_aggregate(node: exp.Expr) -> bool:
    """Whether the node is an aggregate, with its FILTER."""
    return isinstance(node, exp.AggFunc | exp.Filter | exp.WithinGroup)


def has_aggregate(node: exp.Expr) -> bool:
    """Whether there is one in the node, outside of subqueries."""
    if isinstance(node, exp.Subquery | exp.Select):
        return False
    if isinstance(node, exp.Window):  # a function of each row
        return any(has_aggregate(part) for part in node.iter_expressions() if part is not node.this)
    return is_aggregate(node) or any(has_aggregate(part) for part in node.iter_expressions())


def marked(statement: exp.Expr, aggregates: Mapping[str, UserAggregate]) -> exp.Expr:
    """The statement, in which calls of aggregates by name are known as such."""

    def mark(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Anonymous):
            return node
        if node.name.lower() not in _NAMED and node.name.lower() not in aggregates:
            return node
        made = exp.AnonymousAggFunc(this=node.name, expressions=node.expressions)
        made.meta.update(node.meta)
        return made

    return statement.transform(mark, copy=False)


@dataclass(frozen=True, slots=True)
class Aggregates:
    """Builds aggregates over what ``before`` compiles."""

    before: Expressions
    own: Mapping[str, UserAggregate]

    def build(self, node: exp.Expr) -> Agg:
        """The aggregate of a node for which :func:`is_aggregate` holds."""
        text = self.before.text
        condition: Expr | None = None
        if isinstance(node, exp.Filter):
            condition = self.before.compile(node.args["expression"].this)
            node = node.this
            sees_nulls = isinstance(node, _SEE_NULLS) or self._own(node) is not None
            if sees_nulls or not isinstance(node, exp.AggFunc | exp.WithinGroup):
                raise text.error(node, f"{said(node)} takes no FILTER; use WHERE or CASE")
        if type(node) is exp.WithinGroup:
            return self._within_group(node, condition)
        for part in node.iter_expressions():
            if has_aggregate(part):
                raise text.error(part, "an aggregate cannot be inside another aggregate")
        if isinstance(node, exp.Count):
            return self._count(node, condition)
        if type(node) is exp.AnonymousAggFunc and node.name:
            return self._by_name(node, condition)
        if type(node) is exp.GroupConcat:
            said_by = node.args.get("separator")
            separator = "," if said_by is None else plain_value(said_by, text)
            return self._made(node, lambda x: agg.string_agg(x, separator), node.this, condition)
        if type(node) is exp.Quantile:
            q = plain_value(node.args["quantile"], text)
            return self._made(node, lambda x: agg.quantile(x, q), node.this, condition)
        if isinstance(node, exp.ArgMax | exp.ArgMin):
            return self._ranked(node, condition)
        if type(node) in _OF_TWO:
            sides = [self.before.compile(node.args[part]) for part in ("this", "expression")]
            with text.located(node):
                return _OF_TWO[type(node)](_where(condition, sides[0]), sides[1])
        _, make = _OF_ONE.get(type(node), ("", None))
        if make is None:
            hint = HINTS.get(text.spelled(node)) or HINTS.get(said(node)) or f"there are {KNOWN}"
            reason = f"the aggregate {text.spelled(node)} is not supported; {hint}"
            raise text.error(node, reason)
        once = _OF_DISTINCT.get(type(node)) if isinstance(node.this, exp.Distinct) else None
        if once is not None and len(node.this.expressions) == 1:
            return self._made(node, once, node.this.expressions[0], condition)
        if isinstance(node.this, exp.Distinct) or node.expressions:
            raise text.error(
                node,
                f"{said(node)} of several or DISTINCT values is not supported; DISTINCT is for "
                "COUNT, SUM, AVG, MIN and MAX",
            )
        if node.this is None:
            raise text.error(node, f"{said(node)} lacks an argument")
        return self._made(node, make, node.this, condition)

    def _count(self, node: exp.Count, condition: Expr | None) -> Agg:
        value = node.this
        if isinstance(value, exp.Distinct):
            if not value.expressions:
                raise self.before.text.error(node, "COUNT(DISTINCT x) needs a column or expression")
            first, *more = [self.before.compile(part) for part in value.expressions]
            with self.before.text.located(node):
                return agg.count_distinct(_where(condition, first), *more)
        if node.expressions:
            raise self.before.text.error(node, "COUNT takes one value")
        if isinstance(value, exp.Star) and value.args.get("except_"):
            raise self.before.text.error(node, "COUNT(*) counts rows: leave EXCEPT out")
        if isinstance(value, exp.Null):  # of no type, and never counted
            return self._made(node, lambda x: agg.count(x.cast("int64")), value, condition)
        if value is not None and not isinstance(value, exp.Star):
            return self._made(node, agg.count, value, condition)
        return agg.count() if condition is None else agg.count(_where(condition, lit(1)))

    def _within_group(self, node: exp.Expr, condition: Expr | None) -> Agg:
        """``PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x [DESC])``, and ``MODE()`` so."""
        text, order = self.before.text, node.args["expression"]
        if type(node.this) not in (exp.PercentileCont, exp.Mode) or len(order.expressions) != 1:
            raise text.error(node, "write PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x)")
        (by,) = order.expressions
        if type(node.this) is exp.Mode:
            if by.args.get("desc") or node.this.this is not None:
                raise text.error(node, "write MODE(x); ties return the smallest value")
            return self._made(node, agg.mode, by.this, condition)
        q = plain_value(node.this.this, text)
        asked = 1 - q if by.args.get("desc") else q
        return self._made(node, lambda x: agg.quantile(x, asked), by.this, condition)

    def _ranked(self, node: exp.ArgMax | exp.ArgMin, condition: Expr | None) -> Agg:
        make = agg.max_by if isinstance(node, exp.ArgMax) else agg.min_by
        value, rank = self.before.compile(node.this), self.before.compile(node.expression)
        if node.args.get("count"):
            raise self.before.text.error(node, f"{said(node)} takes two values")
        with self.before.text.located(node):
            return make(value, _where(condition, rank))

    def _by_name(self, node: exp.Expr, condition: Expr | None) -> Agg:
        text, given = self.before.text, node.expressions
        own = self._own(node)
        if own is not None:
            if len(given) != 1:
                raise text.error(node, f"{said(node)} takes one value")
            return self._made(node, lambda x: agg.user(own, x), given[0], condition)
        make, literals = _NAMED[node.name.lower()]
        if len(given) != 1 + literals:
            raise text.error(node, f"{said(node)} takes {1 + literals} arguments")
        more: list[Any] = [plain_value(part, text) for part in given[1:]]
        return self._made(node, lambda x: make(x, *more), given[0], condition)

    def _made(
        self, node: exp.Expr, make: Callable[[Expr], Agg], value: exp.Expr, condition: Expr | None
    ) -> Agg:
        compiled = _where(condition, self.before.compile(value))
        with self.before.text.located(node):
            return make(compiled)

    def _own(self, node: exp.Expr) -> UserAggregate | None:
        return self.own.get(node.name.lower()) if isinstance(node, exp.AnonymousAggFunc) else None


def _where(condition: Expr | None, value: Expr) -> Expr:
    return value if condition is None else when(condition).then(value).otherwise(None)


def said(node: exp.Expr) -> str:
    """SQL's name of an aggregate."""
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
        return node.name.upper()
    return node.sql_name() if isinstance(node, exp.Func) else as_sql(node)


def averages_whole(node: exp.Expr, compiler: Expressions) -> bool:
    """Whether it is an average of whole numbers, which is one in this dialect."""
    inner = node.this if isinstance(node, exp.Filter | exp.Window) else node
    inner = inner.this if isinstance(inner, exp.Filter) else inner
    if not isinstance(inner, exp.Avg) or not compiler.text.engine.averages_whole:
        return False
    of = inner.this.expressions[0] if isinstance(inner.this, exp.Distinct) else inner.this
    kind = compiler.compile(of).output_type(compiler.scope.stream.schema)
    return bool(pa.types.is_integer(kind))

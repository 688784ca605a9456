"""The aggregates of SQL, mapped to ours, and ``FILTER (WHERE ...)``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from planner.api import agg
from planner.api.choices import when
from planner.api.expressions import Expr, call, lit, struct
from planner.sql.reading.aggregate_calls import AROUND, call_of, spread_quantiles
from planner.sql.reading.grammar import as_sql
from planner.sql.reading.hints import HINTS
from planner.sql.reading.literals import plain_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from planner.api.agg import Agg
    from planner.sql.expressions.scalars import Expressions
    from planner.sql.reading.aggregate_calls import AggregateCall
    from rvertex.aggregates.user_defined import UserAggregate


#: Aggregates of one value, by sqlglot's node: SQL's name ("" if another node has it), our function.
_OF_ONE: dict[type[exp.Expr], tuple[str, Callable[[Expr], Agg]]] = {
    exp.Sum: ("SUM", agg.sum),
    exp.Avg: ("AVG", agg.mean),
    exp.Min: ("MIN", agg.min),
    exp.Max: ("MAX", agg.max),
    exp.Variance: ("VARIANCE", agg.variance),
    exp.VariancePop: ("VAR_POP", lambda x: agg.variance(x, ddof=0)),
    exp.Stddev: ("STDDEV", agg.stddev),
    exp.StddevSamp: ("", agg.stddev),
    exp.StddevPop: ("STDDEV_POP", lambda x: agg.stddev(x, ddof=0)),
    exp.Median: ("MEDIAN", lambda x: agg.quantile(x, 0.5)),
    exp.Mode: ("MODE", agg.mode),
    exp.Skewness: ("SKEWNESS", agg.skewness),
    exp.Kurtosis: ("KURTOSIS", agg.kurtosis),
    exp.LogicalAnd: ("BOOL_AND", agg.bool_and),
    exp.LogicalOr: ("BOOL_OR", agg.bool_or),
    exp.CountIf: ("COUNT_IF", agg.count_if),
    exp.ApproxDistinct: ("APPROX_COUNT_DISTINCT", agg.count_distinct),
}
#: Aggregates without a node in sqlglot: how many literals they require, and how many are optional.
_NAMED: dict[str, tuple[Callable[..., Agg], int, int]] = {
    "product": (agg.product, 0, 0),
    "latest_by_offset": (lambda x: agg.last(x, where=x.is_not_null()), 0, 0),
    "earliest_by_offset": (lambda x: agg.first(x, where=x.is_not_null()), 0, 0),
    "count_distinct": (agg.count_distinct, 0, 0),
    "arbitrary": (agg.any_value, 0, 0),
    "top_k": (agg.top_k, 1, 0),
    "every": (agg.bool_and, 0, 0),
    "some": (agg.bool_or, 0, 0),
    "percentile": (agg.quantile, 1, 0),
    "quantile_cont": (agg.quantile, 1, 0),
    "quantile_disc": (agg.quantile_disc, 1, 0),
    **dict.fromkeys(("percentile_approx", "approx_percentile"), (agg.quantile_disc, 1, 1)),
}
_IN_ORDER_NAMED = ("collect_list", "collect_set", "string_agg", "listagg", "group_concat")
#: Aggregates of distinct values.
_OF_DISTINCT: dict[type[exp.Expr], Callable[[Expr], Agg]] = {
    exp.Sum: agg.sum_distinct,
    exp.Avg: agg.mean_distinct,
    exp.Min: agg.min,
    exp.Max: agg.max,
}
#: Aggregates that depend on the order of rows, by node; ``_IN_ORDER_NAMED`` has the others.
_IN_ORDER = (
    *(exp.First, exp.Last, exp.FirstValue, exp.LastValue, exp.AnyValue, exp.ArrayAgg),
    exp.GroupConcat,
)
_TEXTS = ("string_agg", "listagg", "group_concat")
_NULLS = (
    "{0} skips nulls: leave IGNORE NULLS and RESPECT NULLS out; they are for FIRST, LAST and "
    "ARRAY_AGG"
)
_FIRST = (
    "{0} takes a value, and TRUE to ignore nulls; a number of rows is for MATCH_RECOGNIZE, and "
    "TOP_K and ROW_NUMBER return several"
)
_NO_ORDER = "{0} takes no ORDER BY: its result does not depend on the order of the rows"
_DISTINCT = (
    "{0} takes one value, without DISTINCT; DISTINCT is for COUNT, SUM, AVG, MIN, "
    "MAX, ARRAY_AGG and STRING_AGG"
)
_OF_TWO: dict[type[exp.Expr], Callable[[Expr, Expr], Agg]] = {
    exp.Corr: agg.corr,
    exp.CovarPop: lambda x, y: agg.covariance(x, y, ddof=0),
    exp.CovarSamp: agg.covariance,
}
KNOWN = ", ".join(
    (
        "COUNT",
        *(name for name, _ in _OF_ONE.values() if name),
        "QUANTILE",
        "PERCENTILE_CONT",
        "PERCENTILE_DISC",
        *("FIRST", "LAST", "ANY_VALUE", "ARRAY_AGG", "STRING_AGG", "LISTAGG", "COLLECT_LIST"),
        *(name.upper() for name in _NAMED),
        *("MAX_BY", "MIN_BY", "CORR", "COVAR_POP", "COVAR_SAMP"),
    )
)


def is_aggregate(node: exp.Expr) -> bool:
    """Return whether the node is an aggregate, with its FILTER."""
    return isinstance(node, (exp.AggFunc, *AROUND))


def has_aggregate(node: exp.Expr) -> bool:
    """Return whether the node contains an aggregate outside of subqueries."""
    if isinstance(node, exp.Subquery | exp.Select):
        return False
    # a window function has a value for each row, so it is no aggregate
    if isinstance(node, exp.Window):
        return any(has_aggregate(part) for part in node.iter_expressions() if part is not node.this)
    return is_aggregate(node) or any(has_aggregate(part) for part in node.iter_expressions())


def marked(statement: exp.Expr, aggregates: Mapping[str, UserAggregate]) -> exp.Expr:
    """Return the statement with calls of user aggregates as sqlglot's nodes for aggregates."""
    named = (*_NAMED, *_IN_ORDER_NAMED, *aggregates)

    def mark(node: exp.Expr) -> exp.Expr:
        spread = spread_quantiles(node)
        if spread is not node:
            return spread.transform(mark, copy=False)
        if isinstance(node, exp.List) and len(node.expressions) == 1:
            made: exp.Expr = exp.ArrayAgg(this=node.expressions[0])
        elif isinstance(node, exp.Anonymous) and node.name.lower() in named:
            made = exp.AnonymousAggFunc(this=node.name, expressions=node.expressions)
        else:
            return node
        made.meta.update(node.meta)
        return made

    return statement.transform(mark, copy=False)


@dataclass(frozen=True, slots=True)
class Aggregates:
    """Builds aggregates; the compiler ``before`` compiles their arguments."""

    before: Expressions
    own: Mapping[str, UserAggregate]

    def build(self, node: exp.Expr) -> Agg:
        """Return the aggregate of a node for which :func:`is_aggregate` holds."""
        text, call = self.before.text, call_of(node)
        node = call.node
        for part in (*call.values, *call.order):
            if has_aggregate(part):
                raise text.error(part, "an aggregate cannot be inside another aggregate")
        if not isinstance(node, exp.AggFunc) or (self._own(node) and call.condition is not None):
            raise text.error(node, f"{called(node)} takes no FILTER; use WHERE or CASE")
        condition = None if call.condition is None else self.before.compile(call.condition)
        if isinstance(node, _IN_ORDER) or (
            isinstance(node, exp.AnonymousAggFunc) and node.name.lower() in _IN_ORDER_NAMED
        ):
            return self._in_order(call, condition)
        if call.skips_nulls is not None:
            raise text.error(node, _NULLS.format(called(node)))
        if isinstance(node, exp.PercentileCont | exp.PercentileDisc) or (
            isinstance(node, exp.Mode) and call.order
        ):
            return self._within_group(call, condition)
        if call.order:
            raise text.error(call.order[0].this, _NO_ORDER.format(called(node)))
        if isinstance(node, exp.Count):
            return self._count(node, condition)
        if type(node) is exp.AnonymousAggFunc and node.name:
            return self._by_name(call, condition)
        if type(node) in (exp.Quantile, exp.ApproxQuantile):
            return self._quantile(node, condition)
        if isinstance(node, exp.ArgMax | exp.ArgMin):
            return self._ranked(node, condition)
        if type(node) in _OF_TWO:
            sides = [self.before.compile(node.args[part]) for part in ("this", "expression")]
            with text.located(node):
                return _OF_TWO[type(node)](_where(condition, sides[0]), sides[1])
        _, make = _OF_ONE.get(type(node), ("", None))
        if make is None:
            hint = HINTS.get(text.spelled(node)) or HINTS.get(called(node)) or f"there are {KNOWN}"
            reason = f"the aggregate {text.spelled(node)} is not supported; {hint}"
            raise text.error(node, reason)
        if not call.values:
            raise text.error(node, f"{called(node)} lacks an argument")
        if call.is_distinct:
            make = _OF_DISTINCT.get(type(node))
        if make is None or len(call.values) > 1:
            raise text.error(node, _DISTINCT.format(called(node)))
        return self._made(node, make, call.values[0], condition)

    def _in_order(self, call: AggregateCall, condition: Expr | None) -> Agg:
        """Compile ``FIRST``, ``LAST`` and lists, whose results depend on the order of the rows."""
        text, node = self.before.text, call.node
        if not call.values:
            raise text.error(node, f"{called(node)} lacks an argument")
        value, *more = [call.values[0], *(plain_value(part, text) for part in call.values[1:])]
        name = node.name.lower() if isinstance(node, exp.AnonymousAggFunc) else ""
        is_text = isinstance(node, exp.GroupConcat) or name in _TEXTS
        is_first = isinstance(node, exp.First | exp.FirstValue | exp.Last | exp.LastValue)
        if is_first and more and not isinstance(more[0], bool):
            raise text.error(node, _FIRST.format(called(node)))
        if len(more) > int(is_text or is_first):
            raise text.error(node, f"{called(node)} takes {1 + int(is_text)} arguments")
        skips = bool(call.skips_nulls) or (is_first and more == [True])
        if isinstance(node, exp.AnyValue) or name in ("collect_list", "collect_set"):
            skips = True
        if isinstance(node, exp.ArrayAgg) and text.engine.name == "spark":
            skips = call.skips_nulls is not False
        is_distinct = call.is_distinct or name == "collect_set"
        order = [self._ordering(part) for part in call.order]
        x = self.before.compile(value)
        where = x.is_not_null() if skips else None
        if condition is not None:
            where = condition if where is None else condition & where
        with text.located(node):
            if is_text:
                separator = more[0] if more else "" if text.engine.name == "spark" else ","
                if not order and not is_distinct:
                    return agg.string_agg(_where(condition, x), separator)
                return agg.string_agg(
                    x, separator, order_by=order, distinct=is_distinct, where=condition
                )
            if isinstance(node, exp.ArrayAgg) or name:
                if not order and not is_distinct and skips:
                    return agg.collect(_where(condition, x))
                return agg.array_agg(x, order_by=order, distinct=is_distinct, where=where)
            if is_distinct:
                raise text.error(node, _DISTINCT.format(called(node)))
            if isinstance(node, exp.AnyValue) and not order:
                return agg.any_value(_where(condition, x))
            make = agg.last if isinstance(node, exp.Last | exp.LastValue) else agg.first
            return make(x, order_by=order, where=where)

    def _ordering(self, part: exp.Expr) -> agg.Ordering:
        if isinstance(part.this, exp.Literal):
            raise self.before.text.error(part.this, "ORDER BY in an aggregate takes a column")
        is_descending, nulls_first = (bool(part.args.get(a)) for a in ("desc", "nulls_first"))
        return agg.Ordering(self.before.compile(part.this), is_descending, nulls_first)

    def _distinct(self, part: exp.Expr) -> Expr:
        """Compile a value of COUNT(DISTINCT ...); a row ``(a, b)`` is never null."""
        if not isinstance(part, exp.Tuple):
            return self.before.compile(part)
        values = {f"f{at}": self.before.compile(one) for at, one in enumerate(part.expressions)}
        with self.before.text.located(part):
            return call("to_json", struct(**values))

    def _count(self, node: exp.Count, condition: Expr | None) -> Agg:
        value = node.this
        if isinstance(value, exp.Distinct):
            if not value.expressions:
                raise self.before.text.error(node, "COUNT(DISTINCT x) needs a column or expression")
            first, *more = [self._distinct(part) for part in value.expressions]
            with self.before.text.located(node):
                return agg.count_distinct(_where(condition, first), *more)
        if node.expressions:
            raise self.before.text.error(node, "COUNT takes one value")
        if isinstance(value, exp.Star) and any(value.args.values()):
            reason = "COUNT(*) counts rows: leave EXCEPT, REPLACE and RENAME out"
            raise self.before.text.error(node, reason)
        if isinstance(value, exp.Null):  # NULL has no type, and is never counted
            return self._made(node, lambda x: agg.count(x.cast("int64")), value, condition)
        if value is not None and not isinstance(value, exp.Star):
            return self._made(node, agg.count, value, condition)
        return agg.count() if condition is None else agg.count(_where(condition, lit(1)))

    def _within_group(self, call: AggregateCall, condition: Expr | None) -> Agg:
        """Compile ``PERCENTILE_CONT(q)`` or ``MODE()`` and ``WITHIN GROUP (ORDER BY x [DESC])``."""
        text, node = self.before.text, call.node
        if len(call.order) != 1 or len(call.values) != int(type(node) is not exp.Mode):
            wanted = "write PERCENTILE_CONT(q) or PERCENTILE_DISC(q) WITHIN GROUP (ORDER BY x)"
            is_mode = type(node) is exp.Mode
            raise text.error(
                node, "write MODE(x); ties return the smallest value" if is_mode else wanted
            )
        (by,) = call.order
        down = bool(by.args.get("desc"))
        if type(node) is exp.Mode:
            if down:
                raise text.error(node, "write MODE(x); ties return the smallest value")
            return self._made(node, agg.mode, by.this, condition)
        q = plain_value(call.values[0], text)
        if type(node) is exp.PercentileDisc:
            return self._made(
                node, lambda x: agg.quantile_disc(x, q, descending=down), by.this, condition
            )
        share = 1 - q if down else q
        return self._made(node, lambda x: agg.quantile(x, share), by.this, condition)

    def _quantile(self, node: exp.Expr, condition: Expr | None) -> Agg:
        """Compile ``QUANTILE(x, q)``; in DuckDB, or approximate, it returns one of the values."""
        q = plain_value(node.args["quantile"], self.before.text)
        is_one = isinstance(node, exp.ApproxQuantile) or self.before.text.engine.name == "duckdb"
        make = agg.quantile_disc if is_one else agg.quantile
        return self._made(node, lambda x: make(x, q), node.this, condition)

    def _ranked(self, node: exp.ArgMax | exp.ArgMin, condition: Expr | None) -> Agg:
        make = agg.max_by if isinstance(node, exp.ArgMax) else agg.min_by
        value, rank = self.before.compile(node.this), self.before.compile(node.expression)
        if node.args.get("count"):
            raise self.before.text.error(node, f"{called(node)} takes two values")
        # DuckDB ignores rows in which the value is null
        if self.before.text.engine.name == "duckdb":
            rank = _where(value.is_not_null(), rank)
        with self.before.text.located(node):
            return make(value, _where(condition, rank))

    def _by_name(self, call: AggregateCall, condition: Expr | None) -> Agg:
        text, node = self.before.text, call.node
        own = self._own(node)
        if own is None and node.name.lower() not in _NAMED:
            raise text.error(node, f"{called(node)} is not supported")
        literals, optional = (0, 0) if own is not None else _NAMED[node.name.lower()][1:]
        count = len(call.values)
        if not 1 + literals <= count <= 1 + literals + optional or call.is_distinct:
            takes = "one value" if own is not None else f"{1 + literals} arguments"
            raise text.error(node, f"{called(node)} takes {takes}")
        if own is not None:
            return self._made(node, lambda x: agg.user(own, x), call.values[0], condition)
        make = _NAMED[node.name.lower()][0]
        more: list[Any] = [plain_value(part, text) for part in call.values[1 : 1 + literals]]
        return self._made(node, lambda x: make(x, *more), call.values[0], condition)

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


def called(node: exp.Expr) -> str:
    """Return SQL's name of an aggregate."""
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
        return node.name.upper()
    return node.sql_name() if isinstance(node, exp.Func) else as_sql(node)


def averages_whole(node: exp.Expr, compiler: Expressions) -> bool:
    """Return whether a node is an average of integers that is an integer in this dialect."""
    inner = node.this if isinstance(node, exp.Filter | exp.Window) else node
    inner = inner.this if isinstance(inner, exp.Filter) else inner
    if not isinstance(inner, exp.Avg) or not compiler.text.engine.averages_whole:
        return False
    of = inner.this.expressions[0] if isinstance(inner.this, exp.Distinct) else inner.this
    kind = compiler.compile(of).output_type(compiler.scope.stream.schema)
    return bool(pa.types.is_integer(kind))

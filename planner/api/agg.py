"""Aggregates: ``agg.count()``, ``agg.sum("price")``, ``agg.max(col("price") * 2)``.

``count()`` counts events, ``count(x)`` the events where x is not null. ``first`` and ``last`` order
events by their start. These two, ``array_agg`` and ``user`` include nulls; all other functions skip
them. Without a value the result is null, or 0 for a count. NaN is greater than every number.

``quantile``, ``mode``, ``skewness``, ``kurtosis``, ``array_agg`` and its like, and ``user`` without
``merge``, need all values of a window at once. Their rows are exchanged unaggregated, not as
partial results, and are buffered until their window closes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from planner.api.choices import when
from planner.api.expressions import Expr, call, col
from planner.api.grouped.ordered_rows import first_rows, listed_values, pair, text_of_all
from planner.api.grouped.user_aggregate import custom_aggregate
from planner.errors import InvalidPlanError
from planner.expressions.suggestions import missing, suggest_in_module
from rstream.items.batch import VS
from rvertex.aggregates.ranked.listed import ListOrder
from rvertex.aggregates.ranked.top_rows import KINDS, TopOrder

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from planner.api.expressions import ExprLike
    from rvertex.aggregates.function import Argument
    from rvertex.aggregates.user_defined import UserAggregate

_TOP_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Agg:
    """An aggregate without the name of its output column."""

    function: str
    expr: Expr | None
    argument: Argument = None
    #: For aggregates of whole rows: builds the input column from the stream's schema.
    of_rows: Callable[[pa.Schema], Expr] | None = None


@dataclass(frozen=True, slots=True)
class Lag:
    """The value of an earlier row; see :func:`lag`."""

    expr: Expr
    rows: int
    default: ExprLike


@dataclass(frozen=True, slots=True)
class Ordering:
    """A sort key and its direction; see :func:`asc` and :func:`desc`."""

    expr: Expr
    is_descending: bool
    nulls_first: bool = False


#: A sort key: a column name, an expression, or one of these with a direction.
OrderLike = str | Expr | Ordering
Orders = OrderLike | Sequence[OrderLike]


def asc(column: str | Expr, *, nulls_first: bool = False) -> Ordering:
    """Sort ascending, with nulls last unless ``nulls_first``."""
    return Ordering(col(column) if isinstance(column, str) else column, False, nulls_first)


def desc(column: str | Expr, *, nulls_first: bool = False) -> Ordering:
    """Sort descending, with nulls last unless ``nulls_first``."""
    return Ordering(col(column) if isinstance(column, str) else column, True, nulls_first)


def _of(function: str, column: str | Expr, argument: Argument = None) -> Agg:
    return Agg(function, col(column) if isinstance(column, str) else column, argument)


def count(column: str | Expr | None = None) -> Agg:
    """Return the number of events, or the number of values that are not null."""
    return Agg("count", None) if column is None else _of("count", column)


def sum(column: str | Expr) -> Agg:
    """Return the sum; int64 for integers, otherwise float64."""
    return _of("sum", column)


def product(column: str | Expr) -> Agg:
    """Return the product, as float64."""
    return _of("product", column)


def mean(column: str | Expr) -> Agg:
    """Return the arithmetic mean, as float64."""
    return _of("mean", column)


def min(column: str | Expr) -> Agg:
    """Return the least value."""
    return _of("min", column)


def max(column: str | Expr) -> Agg:
    """Return the greatest value."""
    return _of("max", column)


def first(column: str | Expr, *, order_by: Orders = (), where: Expr | None = None) -> Agg:
    """Return the value of the earliest event that meets ``where``, or the first in ``order_by``."""
    orders = _orders(order_by)
    if not orders and where is None:
        return _of("first", column)
    return _top_value(column, orders, where, latest=False)


def last(column: str | Expr, *, order_by: Orders = (), where: Expr | None = None) -> Agg:
    """Return the value of the latest event that meets ``where``, or of the last in ``order_by``."""
    orders = _orders(order_by)
    if not orders and where is None:
        return _of("last", column)
    return _top_value(
        column,
        [Ordering(o.expr, not o.is_descending, not o.nulls_first) for o in orders],
        where,
        latest=True,
    )


def max_by(column: str | Expr, by: str | Expr) -> Agg:
    """Return the value of the event with the greatest ``by``; on ties the earliest event's.

    Events in which ``by`` is null are ignored; the value may be null.
    """
    return _ranked("max_by", column, by)


def min_by(column: str | Expr, by: str | Expr) -> Agg:
    """Return the value of the event with the least ``by``; on ties the earliest event's."""
    return _ranked("min_by", column, by)


def any_value(column: str | Expr) -> Agg:
    """Return the earliest value that is not null."""
    value = col(column) if isinstance(column, str) else column
    return min_by(value, when(value.is_not_null()).then(0).otherwise(None))


def bool_and(column: str | Expr) -> Agg:
    """Return whether all values are true."""
    return _of("min", column)


def bool_or(column: str | Expr) -> Agg:
    """Return whether at least one value is true."""
    return _of("max", column)


def count_if(condition: str | Expr) -> Agg:
    """Return the number of events that meet a condition."""
    expr = col(condition) if isinstance(condition, str) else condition
    return count(when(expr).then(1).otherwise(None))


def variance(column: str | Expr, *, ddof: int = 1) -> Agg:
    """Return the sample variance, as float64: squared deviations from the mean over ``n - ddof``.

    Null if ``n <= ddof``; ``ddof=0`` is the variance of a whole population.
    """
    return _of("variance", column, _int_between("variance", "ddof", ddof, 0, _TOP_MAX))


def stddev(column: str | Expr, *, ddof: int = 1) -> Agg:
    """Return the square root of the variance."""
    return _of("stddev", column, _int_between("stddev", "ddof", ddof, 0, _TOP_MAX))


def count_distinct(column: str | Expr, *more: str | Expr) -> Agg:
    """Return the exact number of distinct values or tuples; rows with a null are ignored."""
    if not more:
        return _of("count_distinct", column)
    several = [col(part) if isinstance(part, str) else part for part in (column, *more)]
    return Agg("count_distinct", None, None, lambda schema: text_of_all(several, schema))


def sum_distinct(column: str | Expr) -> Agg:
    """Return the sum of the distinct values."""
    return _of("sum_distinct", column)


def mean_distinct(column: str | Expr) -> Agg:
    """Return the mean of the distinct values, as float64."""
    return _of("mean_distinct", column)


def corr(x: str | Expr, y: str | Expr) -> Agg:
    """Pearson's correlation over rows without nulls; null if one of the columns is constant."""
    return Agg("corr", pair(x, y))


def covariance(x: str | Expr, y: str | Expr, *, ddof: int = 1) -> Agg:
    """Return the covariance over rows without nulls, divided by ``n - ddof``."""
    given = _int_between("covariance", "ddof", ddof, 0, _TOP_MAX)
    return Agg("covariance", pair(x, y), given)


def top_k(column: str | Expr, k: int) -> Agg:
    """Return the ``k`` greatest values as a list, descending; all values if there are fewer."""
    return _of("top_k", column, _int_between("top_k", "k", k, 1, _TOP_MAX))


def top_rows(
    n: int,
    by: Orders,
    *,
    columns: Sequence[str] | None = None,
    rank: str = "row_number",
    ties: str = "first",
) -> Agg:
    """Return the first ``n`` rows of an order with their ranks, as a list of structs.

    ``by``: columns, descending, or :func:`asc` and :func:`desc` of them. Ties keep the order of the
    events, or put the latest first (``ties="last"``). Each struct has ``place``, ``position`` and
    these ``columns`` of its row; None: all columns. ``rank="rank"`` returns every row that has
    fewer than ``n`` rows before it, so on ties more than ``n``. ``"dense_rank"`` returns the rows
    with the first ``n`` distinct values. ``place`` is that rank, from 1, and ``position`` is the
    index in the list.
    """
    if rank not in KINDS:
        raise InvalidPlanError(f"top_rows(rank={rank!r}): choose one of {', '.join(KINDS)}")
    if ties not in ("first", "last"):
        raise InvalidPlanError(
            f'top_rows(ties={ties!r}): choose "first" or "last", the one of equal rows that '
            "ranks first"
        )
    orders = _orders(by, desc)
    if not orders:
        raise InvalidPlanError(
            'top_rows needs by=, the column that orders the rows, e.g. by="price"'
        )
    rows = _int_between("top_rows", "n", n, 1, _TOP_MAX)
    order = TopOrder(rank, rows, _ways(orders), latest=ties == "last")

    def row(schema: pa.Schema) -> dict[str, Expr]:
        return {name: col(name) for name in (schema.names if columns is None else columns)}

    return Agg("top_rows", None, str(order), first_rows([o.expr for o in orders], row, None))


def lag(column: str | Expr, rows: int = 1, *, default: ExprLike = None) -> Lag:
    """Return the value ``rows`` rows earlier in the key; ``default`` where there is no such row.

    For ``group_by(...).rolling().with_columns(...)``; the frame is ignored.
    """
    value = col(column) if isinstance(column, str) else column
    return Lag(value, _int_between("lag", "rows", rows, 0, _TOP_MAX), default)


def array_agg(
    column: str | Expr,
    *,
    order_by: Orders = (),
    distinct: bool = False,
    where: Expr | None = None,
) -> Agg:
    """Return all values, nulls included, as a list in the order of the events or by ``order_by``.

    ``distinct`` keeps the first of equal values. Only events that meet ``where`` count.
    """
    orders = _orders(order_by)
    if not orders and not distinct and where is None:
        return _of("array_agg", column)
    return _listed(column, orders, ListOrder(_ways(orders), distinct), where)


def collect(column: str | Expr, *, order_by: Orders = (), distinct: bool = False) -> Agg:
    """Return all values that are not null, as a list; options as in :func:`array_agg`."""
    orders, value = _orders(order_by), col(column) if isinstance(column, str) else column
    if not orders and not distinct:
        return _of("collect", value)
    return _listed(value, orders, ListOrder(_ways(orders), distinct), value.is_not_null())


def string_agg(
    column: str | Expr,
    separator: str = ",",
    *,
    order_by: Orders = (),
    distinct: bool = False,
    where: Expr | None = None,
) -> Agg:
    """Return all strings, without nulls, joined by ``separator``; options as in ``array_agg``."""
    if not isinstance(separator, str):
        raise InvalidPlanError(f"string_agg(..., {separator!r}): the separator must be a text")
    orders = _orders(order_by)
    if not orders and not distinct and where is None:
        return _of("string_agg", column, separator)
    return _listed(column, orders, ListOrder(_ways(orders), distinct, separator), where)


def quantile(column: str | Expr, q: float) -> Agg:
    """Return the exact quantile, float64: the value at index ``q * (n - 1)`` when sorted.

    Between two indexes it is interpolated linearly. ``q=0.5`` is the median.
    """
    return _of("quantile", column, _share("quantile", q))


def quantile_disc(column: str | Expr, q: float, *, descending: bool = False) -> Agg:
    """Return the first sorted value that reaches a share ``q`` of all values, not interpolated."""
    way = "desc" if descending else "asc"
    return _of("quantile_disc", column, f"{_share('quantile_disc', q)!r} {way}")


def mode(column: str | Expr) -> Agg:
    """Return the most frequent value, on ties the smallest. NaN is greater than every number."""
    return _of("mode", column)


def skewness(column: str | Expr) -> Agg:
    """Return the skewness of a population, as float64; null if all values are equal."""
    return _of("skewness", column)


def kurtosis(column: str | Expr) -> Agg:
    """Return the excess kurtosis of a population, as float64; 0 for a normal distribution."""
    return _of("kurtosis", column)


def user(aggregate: UserAggregate, column: str | Expr, *, deterministic: bool | None = None) -> Agg:
    """Return an aggregate of your own; see :class:`rvertex.aggregates.user_defined.UserAggregate`.

    It must be picklable, and its result may depend only on its values; ``deterministic`` overrides
    the check of that. With ``merge`` and ``state_type`` it is computed in two phases, and
    overlapping windows share partial results.
    """
    return _of("user", column, custom_aggregate(aggregate, deterministic))


def _orders(by: Orders, way: Callable[[str | Expr], Ordering] = asc) -> list[Ordering]:
    several = [by] if isinstance(by, str | Expr | Ordering) else by
    return [part if isinstance(part, Ordering) else way(part) for part in several]


def _ways(orders: Sequence[Ordering]) -> tuple[tuple[bool, bool], ...]:
    return tuple((o.is_descending, o.nulls_first) for o in orders)


def _top_value(
    column: str | Expr, orders: Sequence[Ordering], where: Expr | None, *, latest: bool
) -> Agg:
    value = col(column) if isinstance(column, str) else column
    made = first_rows([o.expr for o in orders], lambda _: {"value": value}, where)
    return Agg(
        "top_value", None, str(TopOrder("row_number", 1, _ways(orders), latest=latest)), made
    )


def _listed(
    value: str | Expr, orders: Sequence[Ordering], order: ListOrder, where: Expr | None
) -> Agg:
    column = col(value) if isinstance(value, str) else value
    made = listed_values(column, [o.expr for o in orders], where, is_distinct=order.is_distinct)
    return Agg("listed", None, str(order), made)


def _ranked(function: str, column: str | Expr, by: str | Expr) -> Agg:
    value = col(column) if isinstance(column, str) else column
    rank = col(by) if isinstance(by, str) else by
    return Agg(function, call("ranked", rank, col(VS), value))


def _share(function: str, q: float) -> float:
    if not isinstance(q, int | float) or isinstance(q, bool) or not 0 <= q <= 1:
        raise InvalidPlanError(f"{function}(..., {q!r}): q must be between 0 and 1")
    return float(q)


def _int_between(function: str, what: str, value: int, low: int, high: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidPlanError(
            f"{function}(..., {what}={value!r}): must be an int between {low} and {high}"
        )
    return value


def __getattr__(name: str) -> NoReturn:
    raise missing("agg", name, globals())


suggest_in_module(globals())

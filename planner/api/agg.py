"""Aggregates: ``agg.count()``, ``agg.sum("price")``, ``agg.max(col("price") * 2)``.

``count()`` counts events, ``count(x)`` those where x is not null. ``first`` and ``last`` go by the
event's start and include nulls; ``user`` sees nulls too. All others skip nulls and are null where
there is nothing, but ``count_distinct`` is 0. NaN is greater than every number.

``quantile``, ``mode``, ``skewness``, ``kurtosis``, ``array_agg`` and its like, and ``user`` without
``merge``, see all values of a window at once: rows are exchanged as they are, not as partial
results, and wait until their window closes.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa

from planner.api import names as naming
from planner.api.choices import when
from planner.api.expressions import Expr, call, col
from planner.errors import InvalidPlanError
from planner.expressions.suggestions import missing, suggest_in_module
from planner.user_code import user_code
from rstream.items.batch import VS
from rvertex.aggregates.ranked.top_rows import KINDS, TopOrder
from rvertex.aggregates.user_defined import Custom

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.api.expressions import ExprLike
    from rvertex.aggregates.function import Argument
    from rvertex.aggregates.user_defined import UserAggregate

_TOP_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Agg:
    """An aggregate that has no name yet."""

    function: str
    expr: Expr | None
    argument: Argument = None
    #: The rows themselves are aggregated: what makes the column, given those of the stream.
    of_rows: Callable[[pa.Schema], Expr] | None = None


@dataclass(frozen=True, slots=True)
class Lag:
    """The value of a row before; see :func:`lag`."""

    expr: Expr
    rows: int
    default: ExprLike


@dataclass(frozen=True, slots=True)
class Ordering:
    """What rows are ordered by, and which way; see :func:`asc` and :func:`desc`."""

    expr: Expr
    is_descending: bool
    nulls_first: bool = False


#: What may stand where rows are ordered.
OrderLike = str | Expr | Ordering


def asc(column: str | Expr, *, nulls_first: bool = False) -> Ordering:
    """From the least to the greatest, with nulls at the end unless ``nulls_first``."""
    return Ordering(col(column) if isinstance(column, str) else column, False, nulls_first)


def desc(column: str | Expr, *, nulls_first: bool = False) -> Ordering:
    """From the greatest to the least, with nulls at the end unless ``nulls_first``."""
    return Ordering(col(column) if isinstance(column, str) else column, True, nulls_first)


def _of(function: str, column: str | Expr, argument: Argument = None) -> Agg:
    return Agg(function, col(column) if isinstance(column, str) else column, argument)


def count(column: str | Expr | None = None) -> Agg:
    """How many events, or how many values that are not null."""
    return Agg("count", None) if column is None else _of("count", column)


def sum(column: str | Expr) -> Agg:
    """The sum; of integers in int64, otherwise in float64."""
    return _of("sum", column)


def product(column: str | Expr) -> Agg:
    """The product, in float64."""
    return _of("product", column)


def mean(column: str | Expr) -> Agg:
    """The arithmetic mean, in float64."""
    return _of("mean", column)


def min(column: str | Expr) -> Agg:
    """The least value."""
    return _of("min", column)


def max(column: str | Expr) -> Agg:
    """The greatest value."""
    return _of("max", column)


def first(column: str | Expr) -> Agg:
    """The value of the earliest event."""
    return _of("first", column)


def last(column: str | Expr) -> Agg:
    """The value of the latest event."""
    return _of("last", column)


def max_by(column: str | Expr, by: str | Expr) -> Agg:
    """The value where ``by`` is greatest; of equal ones the earliest event's.

    Events in which ``by`` is null do not count; the value may be null.
    """
    return _ranked("max_by", column, by)


def min_by(column: str | Expr, by: str | Expr) -> Agg:
    """The value where ``by`` is least; of equal ones the earliest event's."""
    return _ranked("min_by", column, by)


def any_value(column: str | Expr) -> Agg:
    """The earliest value that is not null."""
    value = col(column) if isinstance(column, str) else column
    return min_by(value, when(value.is_not_null()).then(0).otherwise(None))


def bool_and(column: str | Expr) -> Agg:
    """Whether all values are true."""
    return _of("min", column)


def bool_or(column: str | Expr) -> Agg:
    """Whether one of the values is true."""
    return _of("max", column)


def count_if(condition: str | Expr) -> Agg:
    """How many events meet a condition."""
    asked = col(condition) if isinstance(condition, str) else condition
    return count(when(asked).then(1).otherwise(None))


def variance(column: str | Expr, *, ddof: int = 1) -> Agg:
    """The sample variance, in float64: squared deviations from the mean over ``n - ddof``.

    Null for ``n <= ddof``; ``ddof=0`` is the variance of a whole population.
    """
    return _of("variance", column, _int_between("variance", "ddof", ddof, 0, _TOP_MAX))


def stddev(column: str | Expr, *, ddof: int = 1) -> Agg:
    """The square root of the variance."""
    return _of("stddev", column, _int_between("stddev", "ddof", ddof, 0, _TOP_MAX))


def count_distinct(column: str | Expr, *more: str | Expr) -> Agg:
    """The exact number of distinct values or tuples; rows with a null do not count."""
    if not more:
        return _of("count_distinct", column)
    several = [col(part) if isinstance(part, str) else part for part in (column, *more)]
    return Agg("count_distinct", None, None, lambda schema: _together(several, schema))


def sum_distinct(column: str | Expr) -> Agg:
    """The sum of the different values."""
    return _of("sum_distinct", column)


def mean_distinct(column: str | Expr) -> Agg:
    """The mean of the different values, in float64."""
    return _of("mean_distinct", column)


def corr(x: str | Expr, y: str | Expr) -> Agg:
    """Pearson's correlation of the rows in which neither is null; null where one does not vary."""
    return Agg("corr", _pair(x, y))


def covariance(x: str | Expr, y: str | Expr, *, ddof: int = 1) -> Agg:
    """The covariance of the rows in which neither is null, over ``n - ddof``."""
    given = _int_between("covariance", "ddof", ddof, 0, _TOP_MAX)
    return Agg("covariance", _pair(x, y), given)


def top_k(column: str | Expr, k: int) -> Agg:
    """The ``k`` greatest values, greatest first, as a list; all of them if there are fewer."""
    return _of("top_k", column, _int_between("top_k", "k", k, 1, _TOP_MAX))


def top_rows(
    n: int,
    by: OrderLike | Sequence[OrderLike],
    *,
    columns: Sequence[str] | None = None,
    rank: str = "row_number",
    ties: str = "first",
) -> Agg:
    """The first ``n`` rows by an order, as a list of structs: ``place``, ``position``, columns.

    ``by``: columns, whose greatest come first, or :func:`asc` and :func:`desc` of them. Rows that
    are equal in all of it come in the order of the events, or the latest first (``ties="last"``).
    ``columns``: those of the rows that are kept; None: all. ``rank="rank"`` takes every row that
    fewer than ``n`` come before, so also more of equal ones; ``"dense_rank"`` the rows of the ``n``
    first distinct values. ``place`` is that rank, from 1 on, and ``position`` numbers the rows of
    the list.
    """
    if rank not in KINDS:
        raise InvalidPlanError(f"top_rows(rank={rank!r}): there are {', '.join(KINDS)}")
    if ties not in ("first", "last"):
        raise InvalidPlanError(f"top_rows(ties={ties!r}): of equal rows first comes first or last")
    several = [by] if isinstance(by, str | Expr | Ordering) else list(by)
    if not several:
        raise InvalidPlanError(
            'top_rows needs by=, the column that orders the rows, e.g. by="price"'
        )
    orders = [part if isinstance(part, Ordering) else desc(part) for part in several]
    rows = _int_between("top_rows", "n", n, 1, _TOP_MAX)
    ways = tuple((o.is_descending, o.nulls_first) for o in orders)
    order = TopOrder(rank, rows, ways, latest=ties == "last")

    def made(schema: pa.Schema) -> Expr:
        kept = list(schema.names if columns is None else columns)
        keys = {f"by{i}": o.expr for i, o in enumerate(orders)}
        row = call("struct", *(col(name) for name in kept), names=tuple(kept))
        fields = {**keys, "vs": col(VS), "row": row}
        return call("struct", *fields.values(), names=tuple(fields))

    return Agg("top_rows", None, str(order), made)


def lag(column: str | Expr, rows: int = 1, *, default: ExprLike = None) -> Lag:
    """The value ``rows`` rows before in the key; ``default`` where there is no such row.

    For ``group_by(...).rolling().with_columns(...)``; the frame is of no matter to it.
    """
    value = col(column) if isinstance(column, str) else column
    return Lag(value, _int_between("lag", "rows", rows, 0, _TOP_MAX), default)


def array_agg(column: str | Expr) -> Agg:
    """All values as a list, in the order of the events, nulls included."""
    return _of("array_agg", column)


def collect(column: str | Expr) -> Agg:
    """All values that are not null as a list, in the order of the events."""
    return _of("collect", column)


def string_agg(column: str | Expr, separator: str = ",") -> Agg:
    """All texts that are not null, in the order of the events, with ``separator`` between them."""
    if not isinstance(separator, str):
        raise InvalidPlanError(f"string_agg(..., {separator!r}): the separator is a text")
    return _of("string_agg", column, separator)


def quantile(column: str | Expr, q: float) -> Agg:
    """The exact quantile, in float64: the value at place ``q * (n - 1)`` of the sorted values.

    Between two places it is interpolated linearly. ``q=0.5`` is the median.
    """
    if not isinstance(q, int | float) or isinstance(q, bool) or not 0 <= q <= 1:
        raise InvalidPlanError(f"quantile(..., {q!r}): q is between 0 and 1")
    return _of("quantile", column, float(q))


def mode(column: str | Expr) -> Agg:
    """The most frequent value; ties return the smallest. NaN is greater than every number."""
    return _of("mode", column)


def skewness(column: str | Expr) -> Agg:
    """The skewness of a population, in float64; null where the values do not vary."""
    return _of("skewness", column)


def kurtosis(column: str | Expr) -> Agg:
    """The excess kurtosis of a population, in float64; 0 is a normal distribution's."""
    return _of("kurtosis", column)


def user(aggregate: UserAggregate, column: str | Expr, *, deterministic: bool | None = None) -> Agg:
    """An aggregate of your own; see :class:`rvertex.aggregates.user_defined.UserAggregate`.

    It must be picklable, and its result may depend on nothing but the values it is given;
    ``deterministic`` overrides what is found out about that. With ``merge`` and ``state_type`` it
    is computed in two phases, and overlapping windows share panes.
    """
    given: object = aggregate
    if isinstance(given, type):
        reason = f"it is a class; give an object of it, {given.__qualname__}()"
        raise InvalidPlanError(f"agg.user({given.__qualname__}): {reason}")
    if isinstance(given, FunctionType):
        reason = "it is a function; give an object with the methods init, add and result"
        raise InvalidPlanError(f"agg.user({given.__qualname__}): {reason}")
    name = f"{type(aggregate).__module__}.{type(aggregate).__qualname__}"
    for method in ("init", "add", "result"):
        if not callable(getattr(aggregate, method, None)):
            raise InvalidPlanError(f"agg.user({name}): it has no method {method!r}")
    if not isinstance(getattr(aggregate, "type", None), pa.DataType):
        raise InvalidPlanError(f"agg.user({name}): its 'type' is not an Arrow type")
    if hasattr(aggregate, "merge") and not isinstance(
        getattr(aggregate, "state_type", None), pa.DataType
    ):
        raise InvalidPlanError(
            f"agg.user({name}): it has 'merge', so it needs 'state_type', the Arrow type of its "
            "states"
        )
    code = user_code(aggregate, "agg.user", deterministic)
    identity = f"{name}#{code.identity.partition('#')[2]}"
    return _of("user", column, Custom(identity, aggregate, code.is_deterministic))


def _pair(x: str | Expr, y: str | Expr) -> Expr:
    sides = [(col(side) if isinstance(side, str) else side).cast("float64") for side in (x, y)]
    return call("struct", *sides, names=("x", "y"))


def _together(columns: Sequence[Expr], schema: pa.Schema) -> Expr:
    """A text per row that is equal where all columns are; null where one is."""
    first, *others = [naming.text_of(column, schema) for column in columns]
    for other in others:
        first = first + other
    return first


def _ranked(function: str, column: str | Expr, by: str | Expr) -> Agg:
    value = col(column) if isinstance(column, str) else column
    rank = col(by) if isinstance(by, str) else by
    return Agg(function, call("ranked", rank, col(VS), value))


def _int_between(function: str, what: str, value: int, low: int, high: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidPlanError(
            f"{function}(..., {what}={value!r}): it is an int between {low} and {high}"
        )
    return value


def __getattr__(name: str) -> NoReturn:
    raise missing("agg", name, globals())


suggest_in_module(globals())

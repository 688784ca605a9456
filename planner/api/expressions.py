"""Expressions as users write them: ``col("price") * 2 > lit(10)``, ``when(...).then(...)``.

An :class:`Expr` wraps a :class:`planner.expressions.nodes.Node`; its operators build larger ones.
Building an expression computes nothing, and an expression never contains a user's function.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Union

import planner.expressions.functions  # noqa: F401  (importing planner fills their registry)
from planner.api.namespaces import DatetimeFunctions, ListFunctions, MapFunctions, StringFunctions
from planner.errors import InvalidPlanError
from planner.expressions.nodes import Call, Column, Literal, LiteralValue, Node, OptionValue
from planner.expressions.suggestions import suggest_in_class
from planner.expressions.types import TIMESTAMP_UTC, TypeLike, data_type
from rstream.items.batch import VE, VS

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

#: A value in a query: an expression, or a plain Python value, which becomes a literal.
ExprLike = Union["Expr", LiteralValue]
_LITERALS = (bool, int, float, str, bytes, Decimal, datetime, date, timedelta)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Expr:
    """An expression over the columns of a stream; ``name`` is the name set by ``alias``."""

    node: Node
    name: str | None = None

    def alias(self, name: str) -> Expr:
        """Rename the column to ``name``."""
        return Expr(self.node, name)

    def __add__(self, other: ExprLike) -> Expr:
        return call("add", self, other)

    def __radd__(self, other: ExprLike) -> Expr:
        return call("add", other, self)

    def __sub__(self, other: ExprLike) -> Expr:
        return call("subtract", self, other)

    def __rsub__(self, other: ExprLike) -> Expr:
        return call("subtract", other, self)

    def __mul__(self, other: ExprLike) -> Expr:
        return call("multiply", self, other)

    def __rmul__(self, other: ExprLike) -> Expr:
        return call("multiply", other, self)

    def __truediv__(self, other: ExprLike) -> Expr:
        return call("divide", self, other)

    def __rtruediv__(self, other: ExprLike) -> Expr:
        return call("divide", other, self)

    def __floordiv__(self, other: ExprLike) -> Expr:
        return call("floor_divide", self, other)

    def __rfloordiv__(self, other: ExprLike) -> Expr:
        return call("floor_divide", other, self)

    def __mod__(self, other: ExprLike) -> Expr:
        return call("modulo", self, other)

    def __rmod__(self, other: ExprLike) -> Expr:
        return call("modulo", other, self)

    def __neg__(self) -> Expr:
        return call("negate", self)

    def __abs__(self) -> Expr:
        return call("abs", self)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return call("equal", self, other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return call("not_equal", self, other)

    def __lt__(self, other: ExprLike) -> Expr:
        return call("less", self, other)

    def __le__(self, other: ExprLike) -> Expr:
        return call("less_equal", self, other)

    def __gt__(self, other: ExprLike) -> Expr:
        return call("greater", self, other)

    def __ge__(self, other: ExprLike) -> Expr:
        return call("greater_equal", self, other)

    def __and__(self, other: ExprLike) -> Expr:
        return call("and", self, other)

    def __rand__(self, other: ExprLike) -> Expr:
        return call("and", other, self)

    def __or__(self, other: ExprLike) -> Expr:
        return call("or", self, other)

    def __ror__(self, other: ExprLike) -> Expr:
        return call("or", other, self)

    def __invert__(self) -> Expr:
        return call("not", self)

    def __hash__(self) -> int:
        return self.node.__hash__()

    def __bool__(self) -> bool:
        raise InvalidPlanError(
            f"the expression {self} has no truth value while the query is built; "
            "write & for and, | for or, ~ for not, with parentheses around comparisons"
        )

    def is_null(self) -> Expr:
        """Return whether the value is null."""
        return call("is_null", self)

    def is_not_null(self) -> Expr:
        """Return whether the value is not null."""
        return call("is_not_null", self)

    def fill_null(self, value: ExprLike) -> Expr:
        """Replace null by ``value``."""
        return call("coalesce", self, value)

    def is_in(self, values: Iterable[LiteralValue]) -> Expr:
        """Return whether the value is one of ``values``; null for null."""
        members = tuple(values)
        for member in members:
            as_node(member)
        return call("is_in", self, values=members)

    def between(self, low: ExprLike, high: ExprLike) -> Expr:
        """Return whether ``low <= value <= high``."""
        return call("between", self, low, high)

    def cast(self, to: TypeLike) -> Expr:
        """Convert to ``to`` (``"int64"``, ``"timestamp"``, ...); fail if a value does not fit."""
        return call("cast", self, to=data_type(to))

    def try_cast(self, to: TypeLike) -> Expr:
        """Convert as :meth:`cast` does; a value that does not fit becomes null."""
        return call("try_cast", self, to=data_type(to))

    def abs(self) -> Expr:
        """Return the absolute value."""
        return call("abs", self)

    def round(self, digits: int = 0) -> Expr:
        """Round to ``digits`` decimal places, halves away from zero."""
        return call("round", self, digits=digits)

    def floor(self) -> Expr:
        """Round down to a whole number, as a float."""
        return call("floor", self)

    def ceil(self) -> Expr:
        """Round up to a whole number, as a float."""
        return call("ceil", self)

    def sqrt(self) -> Expr:
        """Return the square root; NaN for negative numbers."""
        return call("sqrt", self)

    def trunc(self, digits: int = 0) -> Expr:
        """Cut off all decimal places after the first ``digits``."""
        return call("trunc", self, digits=digits)

    def sign(self) -> Expr:
        """Return the sign: -1, 0 or 1."""
        return call("sign", self)

    def power(self, exponent: ExprLike) -> Expr:
        """Raise to the power of ``exponent``, as a float."""
        return call("power", self, exponent)

    def cbrt(self) -> Expr:
        """Return the cube root, as a float."""
        return call("cbrt", self)

    def factorial(self) -> Expr:
        """Return the factorial of a whole number from 0 to 20; other numbers are an error."""
        return call("factorial", self)

    def width_bucket(self, low: float, high: float, buckets: int) -> Expr:
        """Return the number of the value's bucket: ``[low, high)`` has ``buckets`` equal ones.

        Buckets are numbered from 1. The result is 0 below ``low``, ``buckets + 1`` from ``high``
        on, and null for NaN. With ``low`` above ``high`` the buckets descend and divide ``(high,
        low]``.
        """
        return call("width_bucket", self, low=low, high=high, buckets=buckets)

    def exp(self) -> Expr:
        """Return e to the power of this number."""
        return call("exp", self)

    def ln(self) -> Expr:
        """Return the natural logarithm; minus infinity for zero, NaN for negative numbers."""
        return call("ln", self)

    def log(self, base: ExprLike) -> Expr:
        """Return the logarithm to ``base``."""
        named = {2: "log2", 10: "log10"}.get(base) if isinstance(base, int) else None
        return call(named, self) if named else self.ln() / lit_or(base).ln()

    def angle(self, function: str_) -> Expr:
        """Apply ``"sin"``, ``"cos"``, ``"tan"``, ``"asin"``, ``"acos"`` or ``"atan"`` (radians)."""
        if function not in ("sin", "cos", "tan", "asin", "acos", "atan"):
            raise InvalidPlanError(f"angle({function!r}): there is no such function of an angle")
        return call(function, self)

    def atan2(self, x: ExprLike) -> Expr:
        """Return the angle, in radians, from the x axis to the point (``x``, this)."""
        return call("atan2", self, x)

    def is_nan(self) -> Expr:
        """Return whether the value is NaN."""
        return call("is_nan", self)

    def bit_and(self, other: ExprLike) -> Expr:
        """Compute the bitwise AND of two integers."""
        return call("bit_and", self, other)

    def bit_or(self, other: ExprLike) -> Expr:
        """Compute the bitwise OR of two integers."""
        return call("bit_or", self, other)

    def bit_xor(self, other: ExprLike) -> Expr:
        """Compute the bitwise XOR of two integers."""
        return call("bit_xor", self, other)

    def bit_not(self) -> Expr:
        """Compute the bitwise NOT of an integer."""
        return call("bit_not", self)

    def character(self) -> Expr:
        """Return the character with this number as code point."""
        return call("character", self)

    def is_distinct_from(self, other: ExprLike) -> Expr:
        """Return whether the values differ; null equals null, and NaN equals NaN."""
        return call("is_distinct_from", self, other)

    def item(self, key: ExprLike) -> Expr:
        """Return an element of a list by index (-1: the last), or a value of a map by key."""
        return call("item", self, key)

    def field(self, name: str_) -> Expr:
        """Return a field of a struct by name; null where the struct is null."""
        return call("field", self, name=name)

    @property
    def str(self) -> StringFunctions[Expr]:
        """Functions of strings, such as ``col("name").str.lower()``."""
        return StringFunctions(self.node, Expr, as_node)

    @property
    def dt(self) -> DatetimeFunctions[Expr]:
        """Functions of times, such as ``col("time").dt.year()``; parts are in UTC."""
        return DatetimeFunctions(self.node, Expr, as_node)

    @property
    def list(self) -> ListFunctions[Expr]:
        """Functions of lists, such as ``length``; ``item`` returns one element."""
        return ListFunctions(self.node, Expr, as_node)

    @property
    def map(self) -> MapFunctions[Expr]:
        """Functions of maps, such as ``keys``; ``item`` returns the value of a key."""
        return MapFunctions(self.node, Expr, as_node)

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """Compute one value per row of ``batch``."""
        return self.node.evaluate(batch)

    def output_type(self, schema: pa.Schema) -> pa.DataType:
        """Return the type of the values over rows of ``schema``; raise if types do not fit."""
        return self.node.output_type(schema)

    def columns(self) -> tuple[str_, ...]:
        """Return the columns that the expression reads, in order of first use."""
        return self.node.columns()

    def __str__(self) -> str_:
        return f"{self.node}" + (f" as {self.name}" if self.name else "")

    def __repr__(self) -> str_:
        return f"<Expr {self}>"


str_ = str


def as_node(value: object) -> Node:
    """Return the tree of an expression; a plain value becomes a literal.

    Raises:
        InvalidPlanError: the value is neither an expression nor a plain value.
    """
    if isinstance(value, Expr):
        return value.node
    if isinstance(value, Node):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        raise InvalidPlanError(f"the number {value} does not fit into int64")
    if value is None or isinstance(value, _LITERALS):
        return Literal(value)
    hint = "; write conditions with when(...).then(...).otherwise(...)" if callable(value) else ""
    raise InvalidPlanError(
        f"{value!r} of type {type(value).__name__} cannot be part of an expression{hint}"
    )


def call(function: str, *args: object, **options: OptionValue) -> Expr:
    """Apply a function by its name."""
    return Expr(Call(function, tuple(as_node(a) for a in args), tuple(sorted(options.items()))))


def col(name: str) -> Expr:
    """Return a column by name, or a struct's field, such as ``"meta.ua"``.

    ``_vs`` and ``_ve`` are the start and the end of the event, int64 microseconds.
    """
    if not isinstance(name, str):
        raise InvalidPlanError(f"col() takes the name of a column, not {name!r}")
    return Expr(Column(name))


def lit(value: LiteralValue) -> Expr:
    """Return a literal; ``lit(None)`` gets the type that its context needs."""
    return Expr(as_node(value))


def vs() -> Expr:
    """Return the event's start as a timestamp in UTC."""
    return call("cast", col(VS), to=TIMESTAMP_UTC)


def ve() -> Expr:
    """Return the event's end as a timestamp in UTC."""
    return call("cast", col(VE), to=TIMESTAMP_UTC)


def greatest(*values: ExprLike) -> Expr:
    """Return the greatest of the values; nulls are ignored."""
    return _of_some("greatest", values)


def least(*values: ExprLike) -> Expr:
    """Return the least of the values; nulls are ignored."""
    return _of_some("least", values)


def concat_ws(separator: str | Expr, *texts: ExprLike) -> Expr:
    """Join the strings that are not null with ``separator``; null if the separator is null."""
    if not texts:
        raise InvalidPlanError("concat_ws() takes a separator and at least one text")
    word = getattr(as_node(separator), "literal", None)
    given = {"separator": word} if isinstance(word, str) else {}
    return call("concat_ws", *(() if given else (separator,)), *texts, **given)


def _of_some(function: str, values: tuple[ExprLike, ...], spelling: str = "") -> Expr:
    if not values:
        raise InvalidPlanError(f"{spelling or function}() takes at least one value")
    return call(function, *values)


def struct(**fields: ExprLike) -> Expr:
    """Return a struct with these fields."""
    return call("struct", *fields.values(), names=tuple(fields))


def list_of(*values: ExprLike) -> Expr:
    """Return a list of these values, which must have one type."""
    return _of_some("list", values, "list_of")


def lit_or(value: ExprLike) -> Expr:
    """Return an expression unchanged; make a literal of any other value."""
    return value if isinstance(value, Expr) else lit(value)


def coalesce(*values: ExprLike) -> Expr:
    """Return the first of the values that is not null."""
    return _of_some("coalesce", values)


suggest_in_class(Expr)

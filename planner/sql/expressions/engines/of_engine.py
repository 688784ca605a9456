"""Division and casts as the dialect of a text defines them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from planner.api.choices import when
from planner.api.expressions import Expr, as_node, call, lit
from planner.errors import ExpressionTypeError
from planner.expressions.nodes import Literal
from planner.expressions.types import TIMESTAMP_UTC, is_list, is_number, is_text
from planner.sql.expressions.engines import java_texts
from planner.sql.expressions.engines.by_type import by_place, by_type
from planner.sql.reading.literals import exact_cast, fraction_digits, type_length

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.sql.expressions.engines.compiler import Compiler
    from planner.sql.reading.engines import Engine

_NO_EPOCH = (
    "a number and a time are not cast to each other in {0}: write UNIX_TIMESTAMP(t) or "
    "EXTRACT(EPOCH FROM t), and TO_TIMESTAMP(n) of seconds"
)

_NO_TEXT = (
    "an INTERVAL is not cast to text: write CAST(EPOCH_US(d) AS VARCHAR) for its microseconds"
)
_HALF = 0.5
#: The most digits of a fraction of seconds.
_DIGITS_MAX = 6

#: Functions whose results are decimals if their arguments are.
_OF_DECIMALS = (
    *(exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.Abs, exp.Round),
    *(exp.Coalesce, exp.Greatest, exp.Least, exp.Nullif, exp.Floor, exp.Ceil, exp.Sign),
)
#: Functions that return a double for an integer in PostgreSQL; the first two also in DuckDB.
_ROUNDED = (exp.Floor, exp.Ceil, exp.Round, exp.Sign)
_DAY_US = 86_400_000_000
_SECOND_US = 1_000_000
#: Dialects in which a DATE plus an interval of whole days is a DATE.
_DAYS_OF_DAYS = ("flink", "spark")


#: Functions that differ for one type of argument: the test of the type, and the function to call.
_OF_TYPE: dict[type[exp.Expr], tuple[Callable[[pa.DataType], bool], Callable[[Expr], Expr]]] = {
    exp.Reverse: (is_list, lambda held: held.list.reverse()),
    exp.Trunc: (
        pa.types.is_decimal,
        lambda x: when(x < 0).then(-(-x).floor()).otherwise(x.floor()),
    ),
}


def built(
    node: exp.Expr,
    build: Callable[..., Expr],
    values: list[Expr],
    compiler: Compiler,
) -> Expr:
    """Call a function; where it needs a text, Spark casts whole numbers."""
    schema, engine = compiler.schema, compiler.text.engine
    if type(node) in _OF_TYPE and len(values) == 1:
        is_other, other = _OF_TYPE[type(node)]
        if is_other(values[0].output_type(schema)):
            return other(values[0])
    of_types = by_type(node, build, values, compiler) if engine.name else None
    made = Expr(as_node(build(*values))) if of_types is None else of_types
    if engine.name != "spark":
        return made
    if isinstance(node, exp.Floor | exp.Ceil) and pa.types.is_floating(
        values[0].output_type(schema)
    ):
        return when(values[0].is_nan()).then(0).otherwise(made).cast("int64")
    try:
        made.output_type(schema)
    except ExpressionTypeError:
        whole = [pa.types.is_integer(value.output_type(schema)) for value in values]
        literal = [isinstance(value.node, Literal) for value in values]
        cast = [
            w and (not known or at == 0)
            for at, (w, known) in enumerate(zip(whole, literal, strict=True))
        ]
        if not any(cast):
            raise
        texts = [
            value.cast("string") if is_cast else value
            for value, is_cast in zip(values, cast, strict=True)
        ]
        return Expr(as_node(build(*texts)))
    return made


def compared_lists(node: exp.Expr, left: Expr, right: Expr, schema: pa.Schema) -> tuple[Expr, Expr]:
    """Return both sides of ``=`` and ``<>``; lists are compared as JSON.

    In lists, as in PostgreSQL and DuckDB, nulls equal nulls.
    """
    if type(node) not in (exp.EQ, exp.NEQ):
        return left, right
    kinds = (left.output_type(schema), right.output_type(schema))
    if not all(map(is_list, kinds)):
        return left, right
    a, b = (kind.value_type for kind in kinds)
    if (a == b and not pa.types.is_floating(a)) or (
        pa.types.is_integer(a) and pa.types.is_integer(b)
    ):
        return call("to_json", left), call("to_json", right)
    return left, right


def arithmetic(
    node: exp.Expr, left: Expr, right: Expr, schema: pa.Schema, engine: Engine
) -> Expr | None:
    """Return the result of an operator in the dialect; None: it has the default meaning."""
    result = _divided(node, left, right, schema, engine)
    result = _days_later(node, left, right, schema) if result is None else result
    result = _whole_days(node, left, right, schema, engine) if result is None else result
    result = _days_apart(node, left, right, schema, engine) if result is None else result
    return _times_interval(node, left, right, schema) if result is None else result


def _days_later(node: exp.Expr, left: Expr, right: Expr, schema: pa.Schema) -> Expr | None:
    """Compile ``day + 30`` and ``day - 30``; None: it is another sum."""
    if type(node) not in (exp.Add, exp.Sub):
        return None
    kinds = (left.output_type(schema), right.output_type(schema))
    if not (pa.types.is_date(kinds[0]) and pa.types.is_integer(kinds[1])):
        return None
    days = right if type(node) is exp.Add else -right
    return (left.cast("timestamp") + days * lit(timedelta(days=1))).cast("date")


def _whole_days(
    node: exp.Expr, left: Expr, right: Expr, schema: pa.Schema, engine: Engine
) -> Expr | None:
    """Compile ``day + INTERVAL '2' DAY`` of Flink and Spark, a day; None: it is another sum."""
    length = right.node.literal if isinstance(right.node, Literal) else None
    is_whole = isinstance(length, timedelta) and not length % timedelta(days=1)
    if type(node) not in (exp.Add, exp.Sub) or not is_whole or engine.name not in _DAYS_OF_DAYS:
        return None
    if not pa.types.is_date(left.output_type(schema)):
        return None
    moved = left + right if type(node) is exp.Add else left - right
    return moved.cast("date")


def _days_apart(
    node: exp.Expr, left: Expr, right: Expr, schema: pa.Schema, engine: Engine
) -> Expr | None:
    """Compile ``day - day`` of PostgreSQL and DuckDB, a number; None: it is another difference."""
    if type(node) is not exp.Sub or engine.name not in ("postgres", "duckdb"):
        return None
    if not all(pa.types.is_date(side.output_type(schema)) for side in (left, right)):
        return None
    return (left.dt.epoch_us() - right.dt.epoch_us()) // _DAY_US


def _times_interval(node: exp.Expr, left: Expr, right: Expr, schema: pa.Schema) -> Expr | None:
    """Compile ``INTERVAL '1 second' * x`` of a float, to the microsecond; None: another product."""
    if type(node) is not exp.Mul:
        return None
    for span, factor in ((left, right), (right, left)):
        kinds = (span.output_type(schema), factor.output_type(schema))
        if pa.types.is_duration(kinds[0]) and pa.types.is_floating(kinds[1]):
            if not isinstance(span.node, Literal) or not isinstance(span.node.literal, timedelta):
                return None
            us = span.node.literal // timedelta(microseconds=1)
            return (factor * us).round().cast("int64") * lit(timedelta(microseconds=1))
    return None


def _divided(
    node: exp.Expr, left: Expr, right: Expr, schema: pa.Schema, engine: Engine
) -> Expr | None:
    """Compile a division of integers; None: it has the default meaning."""
    if not isinstance(node, exp.Div | exp.IntDiv | exp.Mod):
        return None
    kinds = [side.output_type(schema) for side in (left, right)]
    if not engine.cuts_to_zero:
        return None
    if not all(map(pa.types.is_integer, kinds)):
        return _of_fractions(node, left, right, kinds, engine)
    if isinstance(node, exp.Div) and not engine.divides_whole:
        return None
    if isinstance(node, exp.Mod):
        rest = left % right  # Python's remainder: it has the sign of the divisor
        is_other = (rest != 0) & ((left < 0) != (right < 0))
        return when(is_other).then(rest - right).otherwise(rest)
    whole = left // right  # Python's quotient: it is rounded down
    is_below = ((left < 0) != (right < 0)) & (left % right != 0)
    return when(is_below).then(whole + 1).otherwise(whole)


def _of_fractions(
    node: exp.Expr, left: Expr, right: Expr, kinds: list[pa.DataType], engine: Engine
) -> Expr | None:
    """Compile ``-7.5 % 2`` and ``-7.5 DIV 2``, computed without signs."""
    if isinstance(node, exp.Div) or not all(map(is_number, kinds)):
        return None
    if isinstance(node, exp.Mod):
        rest = left.abs() % right.abs()
        return when(left < 0).then(-rest).otherwise(rest)
    if engine.name == "duckdb":  # in DuckDB, ``//`` of numbers with a fraction is the same as ``/``
        return left / right
    whole = left.abs() // right.abs()
    signed = when((left < 0) != (right < 0)).then(-whole).otherwise(whole)
    return signed.cast("int64") if engine.name == "spark" else signed


def normal_json(value: Expr) -> Expr:
    """Return JSON as PostgreSQL stores JSONB, so that equal values have equal texts.

    A text that is not JSON stays as it is.
    """
    return value.str.json_sorted().fill_null(value)


def cast(node: exp.Cast, to: pa.DataType, compiler: Compiler) -> Expr:
    """Compile a cast that differs between engines; ``TRY_CAST`` gives null where it fails."""
    text, node = compiler.text, exact_cast(node) if pa.types.is_decimal(to) else node
    engine, value = text.engine, compiler.compile(node.this)
    kind = value.output_type(compiler.schema)
    types = pa.types
    if is_text(to):
        check_written(node, kind, compiler)
    if engine.name == "postgres" and node.to.is_type("JSONB") and is_text(kind):
        return normal_json(value)
    if types.is_struct(kind) and types.is_struct(to) and engine.name:
        with text.located(node):
            return by_place(value, kind, to, tries=type(node) is exp.TryCast)
    if engine.name and types.is_timestamp(kind) and types.is_integer(to):
        if engine.epoch_us is None:
            raise text.error(node, _NO_EPOCH.format(engine.name))
        return _plain(node, value.dt.epoch_us() // engine.epoch_us, to)
    if engine.epoch_us == _SECOND_US and types.is_timestamp(kind) and types.is_floating(to):
        return _plain(node, value.dt.epoch_us() / _SECOND_US, to)
    if engine.name and types.is_integer(kind) and types.is_timestamp(to):
        if engine.epoch_us is None:
            raise text.error(node, _NO_EPOCH.format(engine.name))
        return _plain(node, value * engine.epoch_us, to)
    if engine.rounds_to_whole and types.is_integer(to) and not types.is_integer(kind):
        is_exact = pa.types.is_decimal(kind) or _is_decimal(node.this, compiler)
        value = value.round(0) if is_exact else _rounded(value, kind)
    is_whole = isinstance(node.this.unnest(), _ROUNDED) and _is_decimal(node.this, compiler)
    own = java_texts.as_text(node, value, kind, compiler) if is_text(to) and not is_whole else None
    if own is not None:
        return shortened(node.to, own, engine)
    made = _plain(node, java_texts.trimmed(value, kind, to, engine.name), to)
    if is_text(to) and types.is_timestamp(kind) and engine.plain_times:
        made = made.str.replace(r"\.?0*Z$", "", regex=True)
    return shortened(node.to, made, engine)


def check_written(node: exp.Expr, kind: pa.DataType, compiler: Compiler) -> None:
    """Raise for a duration as text: engines print days and hours, but here it is one number."""
    if compiler.text.engine.name and pa.types.is_duration(kind):
        raise compiler.text.error(node, _NO_TEXT)


def is_written(kind: pa.DataType, engine: str) -> bool:
    """Return whether the dialect defines the text of such a value, when it is joined to texts."""
    types = pa.types
    is_plain = types.is_integer(kind) or types.is_boolean(kind)
    is_other = is_number(kind) or types.is_date(kind) or types.is_timestamp(kind)
    return bool(engine and is_plain) or (engine == "spark" and bool(is_other))


def _is_decimal(node: exp.Expr, compiler: Compiler) -> bool:
    """Return whether PostgreSQL and DuckDB compute a number as a decimal: all parts are exact."""
    name = compiler.text.engine.name
    if isinstance(node, exp.Literal):
        return not node.is_string and (name == "postgres" or "e" not in node.name.lower())
    if isinstance(node, exp.Null) or (name == "duckdb" and isinstance(node, exp.Sign)):
        return True
    rounded = _ROUNDED if name == "postgres" else _ROUNDED[:2]
    if isinstance(node, rounded) and not node.args.get("decimals"):
        kind = compiler.compile(node.this).output_type(compiler.schema)
        if pa.types.is_integer(kind):  # an integer argument makes the result a double
            return False
    if isinstance(node, exp.Case):
        parts = [branch.args["true"] for branch in node.args["ifs"]]
        return all(_is_decimal(part, compiler) for part in (*parts, *_given(node, "default")))
    if isinstance(node, exp.If):
        return all(_is_decimal(part, compiler) for part in _given(node, "true", "false"))
    if isinstance(node, _OF_DECIMALS) or (name == "postgres" and isinstance(node, exp.Div)):
        return all(_is_decimal(part, compiler) for part in node.iter_expressions())
    if name == "postgres" and isinstance(node, exp.Extract):
        return True
    kind = compiler.compile(node).output_type(compiler.schema)
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind))


def _given(node: exp.Expr, *parts: str) -> list[exp.Expr]:
    return [node.args[part] for part in parts if node.args.get(part) is not None]


def _rounded(value: Expr, kind: pa.DataType) -> Expr:
    """Round a float to the nearest integer, halves to even."""
    if not pa.types.is_floating(kind):
        return value
    even = (value * 0.5).round(0) * 2.0
    return when(value - value.floor() == _HALF).then(even).otherwise(value.round(0))


def _plain(node: exp.Cast, value: Expr, to: pa.DataType) -> Expr:
    return value.try_cast(to) if type(node) is exp.TryCast else value.cast(to)


def shortened(to: exp.DataType, value: Expr, engine: Engine) -> Expr:
    """Return the value as ``VARCHAR(n)``, ``CHAR(n)`` or ``TIMESTAMP(p)`` of the dialect."""
    length, digits = type_length(to), fraction_digits(to)
    if length is not None:
        is_char = str(getattr(to.this, "value", to.this)) == "CHAR"
        if is_char and engine.char_cast == "pad":
            return value.str.pad_right(length, " ")
        is_cut = not is_char and engine.varchar_cast == "cut"
        return value.str.slice(0, length) if is_cut else value
    if digits is None or digits >= _DIGITS_MAX or engine.timestamp_cast == "refuse":
        return value
    unit: int = 10 ** (_DIGITS_MAX - digits)
    us = value.dt.epoch_us()
    if engine.timestamp_cast == "cut":
        return (us // unit * unit).cast(TIMESTAMP_UTC)
    up, down = (us + unit // 2) // unit * unit, (us - unit // 2 + unit - 1) // unit * unit
    return when(us >= engine.zero_time_us).then(up).otherwise(down).cast(TIMESTAMP_UTC)

"""Casts to and from texts as Flink and Spark, which run in Java, make them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from planner.api.choices import when
from planner.api.expressions import Expr, call, lit
from planner.expressions.types import is_list, is_number, is_text

if TYPE_CHECKING:
    from planner.sql.expressions.engines.compiler import Compiler

_OF_JAVA = ("flink", "spark")
#: Words of truth values, in lower case.
_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")


def trimmed(value: Expr, kind: pa.DataType, to: pa.DataType, engine: str) -> Expr:
    """Return a text that is cast to another type without white space around it."""
    if not engine or engine == "ksqldb" or not is_text(kind):
        return value
    is_word = pa.types.is_boolean(to)
    is_plain = is_number(to) or pa.types.is_date(to) or pa.types.is_timestamp(to)
    if not (is_word or is_plain):
        return value
    bare = value.str.strip()
    if not is_word:
        return bare
    word = bare.str.lower()
    chosen = when(word.is_in(_TRUE)).then("true").when(word.is_in(_FALSE)).then("false")
    return chosen.otherwise(word)


def as_text(node: exp.Cast, value: Expr, kind: pa.DataType, compiler: Compiler) -> Expr | None:
    """Return the text of a value that the dialect writes in its own way; None: it does not."""
    engine = compiler.text.engine.name
    number = _written(node.this)
    if engine in (*_OF_JAVA, "postgres", "duckdb") and number is not None:
        return lit(number)
    style = compiler.text.engine.doubles
    if style is not None and pa.types.is_floating(kind):
        return call("double_text", value, style=style)
    if engine not in _OF_JAVA:
        return None
    if pa.types.is_boolean(kind):
        return value.cast("string").str.upper() if engine == "flink" else None
    if is_list(kind) and _has_text(kind.value_type):
        null = "NULL" if engine == "flink" else "null"
        items = value.list.transform(lambda x: _element(x, kind.value_type).fill_null(null))
        return lit("[") + items.list.join(", ") + lit("]")
    return None


def _written(node: exp.Expr) -> str | None:
    """Return the digits of a literal with a point; None: it is another expression."""
    if isinstance(node, exp.Neg):
        inner = _written(node.this)
        return None if inner is None else f"-{inner}"
    is_number = isinstance(node, exp.Literal) and not node.is_string
    written = str(node.this) if is_number else ""
    whole, point, digits = written.partition(".")
    is_plain = bool(point) and digits.isdigit() and (whole or "0").isdigit()
    return f"{whole or '0'}.{digits}" if is_plain else None


def _has_text(kind: pa.DataType) -> bool:
    is_flag = pa.types.is_boolean(kind)
    return bool(is_flag or is_text(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _element(value: Expr, kind: pa.DataType) -> Expr:
    if pa.types.is_floating(kind):
        return call("double_text", value, style="java")
    return value.cast("string")

"""Calls whose form differs from a list of values: structs, objects of JSON, FLOOR(t TO HOUR).

Each is compiled from its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from sqlglot import exp

from planner.api.choices import when
from planner.api.expressions import Expr, call, struct
from planner.expressions.types import TIMESTAMP_UTC
from planner.sql.expressions.engines.settings import json_value
from planner.sql.reading.literals import interval_us, plain_value

if TYPE_CHECKING:
    import pyarrow as pa

    from planner.sql.reading.parsing import SqlText


class Compiler(Protocol):
    """Compiles expressions over the columns of a stream."""

    @property
    def text(self) -> SqlText: ...

    @property
    def schema(self) -> pa.Schema: ...

    def compile(self, node: exp.Expr) -> Expr:
        """The expression of a node."""

    def knowing(self, types: Mapping[str, pa.DataType], special: Special) -> Compiler:
        """The same with more columns, and with ``special`` asked first."""


#: The expression of a node, or None for a node that it does not know.
Special = Callable[[exp.Expr], Expr | None]
_JSON_NULLS = "JSON_OBJECT keeps nulls: leave ABSENT ON NULL out"
#: A Monday, from which windows of whole days and weeks count.
_ORIGIN_US = 946_857_600_000_000


def shaped(node: exp.Expr, compiler: Compiler) -> Expr | None:
    """Compile a call whose form is listed here; None: its form is not."""
    if isinstance(node, exp.Anonymous):
        build = _NAMED.get(node.name.upper())
    else:
        build = _NODES.get(type(node))
    return None if build is None else build(node, compiler)


def _struct(node: exp.Expr, compiler: Compiler) -> Expr:
    fields: dict[str, Expr] = {}
    for place, part in enumerate(node.expressions, 1):
        value = part.expression if isinstance(part, exp.PropertyEQ | exp.Alias) else part
        is_named = isinstance(part, exp.Column | exp.Alias)
        name = part.this.name if isinstance(part, exp.PropertyEQ) else part.alias_or_name * is_named
        fields[name or _unnamed(place, compiler)] = compiler.compile(
            part.this if isinstance(part, exp.Alias) else value
        )
    with compiler.text.located(node):
        return struct(**fields)


def _unnamed(place: int, compiler: Compiler) -> str:
    """The name of a field without one."""
    engine = compiler.text.engine.name
    if engine == "flink":
        return f"EXPR${place - 1}"
    return f"col{place}" if engine == "spark" else f"f{place}"


def _json_object(node: exp.Expr, compiler: Compiler) -> Expr:
    if "ABSENT" in str(node.args.get("null_handling") or "").upper():
        raise compiler.text.error(node, _JSON_NULLS)
    pairs = node.expressions if isinstance(node.expressions, list) else ()
    if not all(isinstance(part, exp.JSONKeyValue) for part in pairs) or not pairs:
        raise compiler.text.error(node, "write JSON_OBJECT('name' VALUE x)")
    fields = {
        str(plain_value(part.this, compiler.text)): json_value(compiler.compile(part.expression))
        for part in pairs
    }
    with compiler.text.located(node):
        return call("to_json", struct(**fields))


def _rounded(node: exp.Expr, compiler: Compiler) -> Expr | None:
    """``FLOOR(t TO HOUR)`` and ``CEIL(t TO HOUR)``."""
    unit = node.args.get("to")
    if unit is None:
        return None
    low = exp.TimestampTrunc(this=node.this, unit=exp.Var(this=unit.name.upper()))
    low.meta.update(node.meta)
    down = compiler.compile(low)
    if isinstance(node, exp.Floor):
        return down
    step = exp.Interval(this=exp.Literal.string("1"), unit=exp.Var(this=unit.name.upper()))
    up = exp.Add(this=low.copy(), expression=step)
    for part in up.walk():
        part.meta.update(node.meta)
    value = compiler.compile(node.this)
    return when(down == value).then(down).otherwise(compiler.compile(up))


def _bin(node: exp.Expr, compiler: Compiler) -> Expr:
    """``TIME_BUCKET(width, t[, origin])`` and ``DATE_BIN(width, t, origin)``."""
    if isinstance(node, exp.Anonymous):
        given = list(node.expressions)
    else:
        parts = (node.this, node.expression, node.args.get("unit"))
        given = [part for part in parts if part is not None]
    if len(given) not in (2, 3):
        raise compiler.text.error(node, "write TIME_BUCKET(INTERVAL '5' MINUTE, ts)")
    width = interval_us(given[0], compiler.text)
    if width <= 0:
        raise compiler.text.error(given[0], "the width of a bucket is more than 0")
    us = compiler.compile(given[1]).dt.epoch_us()
    with compiler.text.located(node):
        if len(given) == 3:
            origin = compiler.compile(given[2]).dt.epoch_us()
            return ((us - origin) // width * width + origin).cast(TIMESTAMP_UTC)
        return ((us - _ORIGIN_US) // width * width + _ORIGIN_US).cast(TIMESTAMP_UTC)


def _any(node: exp.Expr, compiler: Compiler) -> Expr | None:
    """``ANY_MATCH(list, x -> condition)``: an element for which the condition holds."""
    found = _matching(node, compiler)
    return None if found is None else found.list.length() > 0


def _all(node: exp.Expr, compiler: Compiler) -> Expr | None:
    found = _matching(node, compiler)
    if found is None:
        return None
    items = compiler.compile(node.expressions[0])
    return found.list.length() == items.list.length()


def _matching(node: exp.Expr, compiler: Compiler) -> Expr | None:
    """The elements for which the condition holds; None: there is no lambda."""
    if isinstance(node, exp.Exists):
        given = [node.this, node.args.get("expression")]
    else:
        given = list(node.expressions)
    if len(given) != 2 or not isinstance(given[1], exp.Lambda):
        return None
    kept = exp.ArrayFilter(this=given[0].copy(), expression=given[1].copy())
    kept.meta.update(node.meta)
    return compiler.compile(kept)


def _path(node: exp.Expr, compiler: Compiler) -> Expr:
    """``s #>> '{a,b}'``."""
    path = str(plain_value(node.expression, compiler.text)).strip("{}").split(",")
    steps = "".join(f"[{part}]" if part.strip().isdigit() else f".{part.strip()}" for part in path)
    value = compiler.compile(node.this)
    with compiler.text.located(node):
        is_text = type(node) is exp.JSONBExtractScalar
        return (value.str.json_value if is_text else value.str.json_extract)(f"${steps}")


_NODES: dict[type[exp.Expr], Callable[[exp.Expr, Compiler], Expr | None]] = {
    exp.Struct: _struct,
    exp.JSONObject: _json_object,
    exp.Floor: _rounded,
    exp.Ceil: _rounded,
    exp.DateBin: _bin,
    exp.Exists: _any,
    exp.JSONBExtract: _path,
    exp.JSONBExtractScalar: _path,
}
_NAMED: dict[str, Callable[[exp.Expr, Compiler], Expr | None]] = {
    "ROW": _struct,
    "TIME_BUCKET": _bin,
    "STRUCT_PACK": _struct,
    **dict.fromkeys(("ANY_MATCH", "LIST_ANY", "EXISTS"), _any),
    **dict.fromkeys(("ALL_MATCH", "FORALL"), _all),
}

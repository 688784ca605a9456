"""Calls whose arguments are not plain values: structs, JSON objects, FLOOR(t TO HOUR).

Each is compiled from its parts.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from planner.api.choices import when
from planner.api.expressions import Expr, call, list_of, lit, struct
from planner.expressions.types import TIMESTAMP_UTC, is_list, is_text
from planner.sql.expressions.engines import brackets, of_engine
from planner.sql.expressions.engines.by_type import tried
from planner.sql.expressions.engines.settings import json_value
from planner.sql.reading.errors import advice_for, sql_type
from planner.sql.reading.literals import interval_us, plain_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.sql.expressions.engines.compiler import Compiler

_PLACE = re.compile(r"(%[0-9]*[sd]|%%)")
#: The least and the greatest base of CONV.
_BASES = (2, 36)
_FORMAT = "write a format with %s, %d or %03d, one for each value"
#: The text of a null in a format, by engine; in other engines the whole text is null.
_NULL_FORMATTED = {"postgres": "", "spark": "null", "flink": "null"}
_JSON_NULLS = "JSON_OBJECT keeps nulls: leave ABSENT ON NULL out"
#: A Monday, us; the origin of windows of whole days and weeks.
_ORIGIN_US = 946_857_600_000_000


def shaped(node: exp.Expr, compiler: Compiler) -> Expr | None:
    """Compile a call that has one of these forms; None: it has another form."""
    if isinstance(node, exp.Anonymous):
        build = _NAMED.get(node.name.upper())
    else:
        build = _NODES.get(type(node))
    return tried(node, compiler) if build is None else build(node, compiler)


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


def _extended(node: exp.Expr, compiler: Compiler) -> Expr:
    """Compile ``STRUCT_INSERT(s, x := 1)``: a struct with more fields."""
    first, *more = node.expressions
    held = compiler.compile(first)
    kind = held.output_type(compiler.schema)
    if not pa.types.is_struct(kind) or not all(isinstance(p, exp.PropertyEQ) for p in more):
        raise compiler.text.error(node, "write STRUCT_INSERT(s, name := x)")
    names = [kind.field(at).name for at in range(kind.num_fields)]
    fields = {name: held.field(name) for name in names}
    fields |= {part.this.name: compiler.compile(part.expression) for part in more}
    with compiler.text.located(node):
        return struct(**fields)


def _is_finite(node: exp.Expr, compiler: Compiler) -> Expr:
    (value,) = (compiler.compile(part) for part in node.expressions)
    with compiler.text.located(node):
        is_float = pa.types.is_floating(value.output_type(compiler.schema))
        return (value - value == 0.0) if is_float else value == value


def _unnamed(place: int, compiler: Compiler) -> str:
    """Return the name that an unnamed field gets."""
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
    """Compile ``FLOOR(t TO HOUR)`` and ``CEIL(t TO HOUR)``."""
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
    """Compile ``TIME_BUCKET(width, t[, origin])`` and ``DATE_BIN(width, t, origin)``."""
    if isinstance(node, exp.Anonymous):
        given = list(node.expressions)
    else:
        parts = (node.this, node.expression, node.args.get("unit"))
        given = [part for part in parts if part is not None]
    if len(given) not in (2, 3):
        raise compiler.text.error(node, "write TIME_BUCKET(INTERVAL '5' MINUTE, ts)")
    width = interval_us(given[0], compiler.text)
    if width <= 0:
        raise compiler.text.error(given[0], "the width of a bucket must be more than 0")
    us = compiler.compile(given[1]).dt.epoch_us()
    with compiler.text.located(node):
        if len(given) == 3:
            origin = compiler.compile(_as_time(given[2])).dt.epoch_us()
            return ((us - origin) // width * width + origin).cast(TIMESTAMP_UTC)
        return ((us - _ORIGIN_US) // width * width + _ORIGIN_US).cast(TIMESTAMP_UTC)


def _as_time(node: exp.Expr) -> exp.Expr:
    """Return the origin as a time; the grammar has parsed its text as a unit."""
    is_text = isinstance(node, exp.Var) or (isinstance(node, exp.Literal) and node.is_string)
    return exp.cast(exp.Literal.string(node.name), "TIMESTAMP") if is_text else node


def _any(node: exp.Expr, compiler: Compiler) -> Expr | None:
    """Compile ``ANY_MATCH(list, x -> condition)``: does the condition hold for an element?"""
    match = _matching(node, compiler)
    if match is None:
        return None
    any_matches = match.list.length() > 0
    return (
        any_matches | _unless_unknown(node, compiler, False) if _of_spark(compiler) else any_matches
    )


def _all(node: exp.Expr, compiler: Compiler) -> Expr | None:
    match = _matching(node, compiler)
    if match is None:
        return None
    if _of_spark(compiler):
        failing = _matching(node, compiler, exp.Not)
        assert failing is not None
        return (failing.list.length() == 0) & _unless_unknown(node, compiler, True)
    items = compiler.compile(node.expressions[0])
    return match.list.length() == items.list.length()


def _of_spark(compiler: Compiler) -> bool:
    return compiler.text.engine.name == "spark"


def _unless_unknown(node: exp.Expr, compiler: Compiler, value: bool) -> Expr:
    """Return the value, or null if the condition is null for an element."""
    unknown = _matching(node, compiler, _is_null)
    assert unknown is not None
    return when(unknown.list.length() > 0).then(None).otherwise(value)


def _is_null(this: exp.Expr) -> exp.Expr:
    return exp.Is(this=this, expression=exp.Null())


def _matching(
    node: exp.Expr, compiler: Compiler, wrap: Callable[..., exp.Expr] | None = None
) -> Expr | None:
    """Return the elements for which the condition holds; None: there is no lambda.

    ``wrap`` turns the condition into another one.
    """
    if isinstance(node, exp.Exists):
        given = [node.this, node.args.get("expression")]
    else:
        given = list(node.expressions)
    if len(given) != 2 or not isinstance(given[1], exp.Lambda):
        return None
    condition = given[1].copy()
    if wrap is not None:
        condition.set("this", wrap(this=exp.Paren(this=condition.this)))
    kept = exp.ArrayFilter(this=given[0].copy(), expression=condition)
    kept.meta.update(node.meta)
    return compiler.compile(kept)


def _concat(node: exp.Expr, compiler: Compiler) -> Expr:
    """Compile ``CONCAT(a, b)`` and ``a || b`` of strings, and of lists."""
    is_operator = isinstance(node, exp.DPipe)
    parts = [node.this, node.args["expression"]] if is_operator else node.expressions
    values = [compiler.compile(part) for part in parts]
    kinds = [value.output_type(compiler.schema) for value in values]
    with compiler.text.located(node):
        if is_operator and any(map(is_list, kinds)):
            values = [
                value if is_list(kind) or pa.types.is_null(kind) else list_of(value)
                for value, kind in zip(values, kinds, strict=True)
            ]
            return functools.reduce(lambda a, b: a.list.concat(b), values)
        if all(map(is_list, kinds)):
            return functools.reduce(lambda a, b: a.list.concat(b), values)
    made: list[Expr] = []
    for part, value, kind in zip(parts, values, kinds, strict=True):
        is_cast = of_engine.is_written(kind, compiler.text.engine.name)
        if not (is_text(kind) or pa.types.is_null(kind) or is_cast):
            of = sql_type(str(kind))
            reason = f"{compiler.text.spelled(node)} takes text, not {of}; "
            reason += advice_for("concat", [str(kind)])
            raise compiler.text.error(part, reason)
        cast = exp.cast(part.copy(), "TEXT")
        cast.meta.update(part.meta)
        written = compiler.compile(cast) if is_cast else value.cast(str)
        made.append(value if is_text(kind) else written)
    if not is_operator and compiler.text.engine.name in ("postgres", "duckdb"):
        made = [value.fill_null("") for value in made]
    return functools.reduce(Expr.__add__, made)


def _hexadecimal(node: exp.Expr, compiler: Compiler) -> Expr:
    """Compile ``HEX(x)`` of a string or an integer; ``TO_HEX`` of PostgreSQL has small letters."""
    value = compiler.compile(node.this)
    with compiler.text.located(node):
        if is_text(value.output_type(compiler.schema)):
            return value.str.to_hex()
        made = call("digits", value, base=16)
        return made.str.lower() if compiler.text.engine.name == "postgres" else made


def _binary_digits(node: exp.Expr, compiler: Compiler) -> Expr:
    (value,) = node.expressions
    with compiler.text.located(node):
        return call("digits", compiler.compile(value), base=2)


def _grouped(node: exp.Expr, compiler: Compiler) -> Expr | None:
    """Compile ``FORMAT_NUMBER(x, 2)``, with commas between thousands; digits are a literal."""
    if len(node.expressions) != 2:
        return None
    digits = plain_value(node.expressions[1], compiler.text)
    if not isinstance(digits, int):
        raise compiler.text.error(node.expressions[1], "write a number of digits, as in (x, 2)")
    value = compiler.compile(node.expressions[0])
    with compiler.text.located(node):
        return call("format_number", value, digits=digits) if digits >= 0 else None


def _bytes_of(node: exp.Expr, compiler: Compiler) -> Expr:
    """Compile ``UNHEX('6869')`` to bytes; for a text write ``DECODE(b, 'UTF-8')``."""
    held = node.this if isinstance(node, exp.Unhex) else node.expressions[0]
    with compiler.text.located(node):
        return call("unhex", compiler.compile(held))


def _in_base(node: exp.Expr, compiler: Compiler) -> Expr | None:
    """Compile ``CONV('ff', 16, 10)``; the bases are literals."""
    if len(node.expressions) != 3:
        return None
    held, *bases = node.expressions
    base, to = (plain_value(part, compiler.text) for part in bases)
    if not (isinstance(base, int) and isinstance(to, int)) or not all(
        _BASES[0] <= abs(one) <= _BASES[1] for one in (base, to)
    ):
        raise compiler.text.error(node, "write bases from 2 to 36, as in CONV('ff', 16, 10)")
    value = compiler.compile(held)
    if pa.types.is_integer(value.output_type(compiler.schema)):
        value = value.cast("string")
    with compiler.text.located(node):
        return call("conv", value, base=base, to=to)


def _formatted(node: exp.Expr, compiler: Compiler) -> Expr:
    """Compile ``FORMAT_STRING('%s-%03d', a, n)``; the format is a literal."""
    format_, *given = (
        node.expressions
        if isinstance(node, exp.Anonymous)
        else [
            node.this,
            *node.expressions,
        ]
    )
    written = plain_value(format_, compiler.text)
    if isinstance(node, exp.Format) and compiler.text.engine.name == "duckdb":
        written = str(written).replace("%", "%%").replace("{}", "%s")
    pieces = _PLACE.split(written) if isinstance(written, str) else []
    if len(pieces[1::2]) - pieces[1::2].count("%%") != len(given):
        raise compiler.text.error(format_, _FORMAT)
    made: Expr = lit("")
    null = _NULL_FORMATTED.get(compiler.text.engine.name)
    values = iter(given)
    for at, piece in enumerate(pieces):
        if at % 2 == 0 and "%" in piece:
            raise compiler.text.error(format_, _FORMAT)
        if at % 2 == 0 or piece == "%%":
            made = made + (piece if at % 2 == 0 else "%")
            continue
        value = compiler.compile(part := next(values))
        of_engine.check_written(part, value.output_type(compiler.schema), compiler)
        value = value.cast(str)
        width = piece[1:-1]
        if width and not (width.isdigit() and piece.endswith("d")):
            raise compiler.text.error(format_, _FORMAT)
        if width:
            fill = "0" if width.startswith("0") else " "
            padded = value.str.pad_left(int(width), fill)
            value = when(value.str.length() >= int(width)).then(value).otherwise(padded)
        if null is not None:
            value = value.fill_null(null.rjust(int(width or 0)))
        made = made + value
    return made


def _length(node: exp.Expr, compiler: Compiler) -> Expr:
    """Return the number of elements of a list, or of characters of a text."""
    (value,) = (compiler.compile(part) for part in node.expressions)
    with compiler.text.located(node):
        is_held = is_list(value.output_type(compiler.schema))
        return value.list.length() if is_held else value.str.length()


def _has_all(node: exp.Expr, compiler: Compiler) -> Expr:
    """Compile ``a @> b``: whether a has all elements of a list, or all parts of a JSON."""
    held, others = compiler.compile(node.this), compiler.compile(node.expression)
    with compiler.text.located(node):
        if is_text(held.output_type(compiler.schema)):
            return held.str.json_contains(others)
        if compiler.text.engine.name == "duckdb":
            others = others.list.filter(lambda x: ~x.is_null())
        missing = others.list.filter(lambda x: ~held.list.contains(x).fill_null(False))
        return when(~held.is_null()).then(missing.list.length() == 0).otherwise(None)


_NODES: dict[type[exp.Expr], Callable[[exp.Expr, Compiler], Expr | None]] = {
    exp.Hex: _hexadecimal,
    exp.Concat: _concat,
    exp.DPipe: _concat,
    exp.Format: _formatted,
    exp.Struct: _struct,
    exp.JSONObject: _json_object,
    exp.Floor: _rounded,
    exp.Ceil: _rounded,
    exp.DateBin: _bin,
    exp.ArrayContainsAll: _has_all,
    exp.Exists: _any,
    exp.Tuple: _struct,
    exp.Unhex: _bytes_of,
    exp.JSONBExtract: brackets.keys_path,
    exp.JSONBExtractScalar: brackets.keys_path,
}
_NAMED: dict[str, Callable[[exp.Expr, Compiler], Expr | None]] = {
    "ROW": _struct,
    "STRUCT_INSERT": _extended,
    "ISFINITE": _is_finite,
    "TIME_BUCKET": _bin,
    "STRUCT_PACK": _struct,
    "BIN": _binary_digits,
    "FORMAT_NUMBER": _grouped,
    "CONV": _in_base,
    "@LENGTH": _length,
    **dict.fromkeys(("FORMAT_STRING", "PRINTF", "FORMAT"), _formatted),
    **dict.fromkeys(("ANY_MATCH", "LIST_ANY", "EXISTS"), _any),
    **dict.fromkeys(("ALL_MATCH", "FORALL"), _all),
}

"""Brackets: ``list[1]``, ``list[1:2]``, ``map['key']``, ``struct['field']``, JSON and texts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from planner.api.choices import when
from planner.api.expressions import coalesce
from planner.expressions.functions.texts.json_paths import json_key, json_paths
from planner.expressions.nodes import Literal
from planner.expressions.types import is_list, is_text
from planner.sql.reading.errors import sql_type
from planner.sql.reading.literals import plain_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.api.expressions import Expr
    from planner.sql.expressions.engines.compiler import Compiler

#: A path of keys, ``{a,"b c",0}``, and one of its keys: in quotes, or without.
_KEY = re.compile(r'"((?:[^"\\]|\\.)*)"|([^",{}\\]+)')
_KEYS = re.compile(rf"\{{\s*(?:{_KEY.pattern})\s*(?:,\s*(?:{_KEY.pattern})\s*)*\}}")
_ESCAPED = re.compile(r"\\(.)")
_PLACES = "write list[1], ARRAY_SLICE(list, 1, 2) or map['key'] (maps have no slices)"


def bracket(
    node: exp.Bracket,
    compiler: Compiler,
    nth: Callable[[Expr, Expr], Expr],
    between: Callable[..., Expr],
) -> Expr:
    """Compile ``list[1]``, counted from 1 or from the end, ``map['key']`` and ``struct['field']``.

    For a text, PostgreSQL reads JSON, and DuckDB reads characters. ``nth`` and ``between`` read
    lists.
    """
    text = compiler.text
    part = node.expressions[0] if len(node.expressions) == 1 else None
    if isinstance(part, exp.Slice) and not text.engine.lists_from_zero:
        written = (part.this, part.args.get("expression"))
        ends = [None if end is None else compiler.compile(end) for end in written]
        held = compiler.compile(node.this)
        with text.located(node):
            if text.engine.name == "duckdb" and is_text(held.output_type(compiler.schema)):
                return _characters(held, *ends)
            return between(held, *ends)
    if part is None or isinstance(part, exp.Slice):
        raise text.error(node, _PLACES)
    container, key = compiler.compile(node.this), compiler.compile(part)
    kind, of = container.output_type(compiler.schema), key.output_type(compiler.schema)
    named = key.node.literal if isinstance(key.node, Literal) else None
    if is_text(kind) and text.engine.name in ("postgres", "duckdb"):
        with text.located(node):
            if isinstance(named, str):
                return container.str.json_extract("$" + json_key(named))
            if text.engine.name == "duckdb":
                return _characters(container, key, key)
    if pa.types.is_struct(kind) and isinstance(named, str):
        with text.located(node):
            return container.field(named)
    is_place = pa.types.is_integer(of) or pa.types.is_null(of)
    if not pa.types.is_map(kind) and not (is_list(kind) and is_place):
        reason = f"of {sql_type(str(kind))}; a list has places, a map has keys"
        raise text.error(node, f"{text.spelled(node)}: {reason}")
    with text.located(node):
        if pa.types.is_map(kind):
            return container.item(key)
        is_from_zero = text.engine.lists_from_zero and not node.args.get("offset")
        return nth(container, key + 1 if is_from_zero else key)


def _characters(held: Expr, first: Expr | None, last: Expr | None) -> Expr:
    """Return the characters ``first`` to ``last`` of a text, from 1; below 0 from the end."""
    size = held.str.length()
    begin = 0 if first is None else when(first > 0).then(first - 1).otherwise(_at(first, size))
    end = size if last is None else when(last >= 0).then(last).otherwise(size + last + 1)
    count = end - begin
    return held.str.substring(begin + 1, when(count > 0).then(count).otherwise(0))


def _at(place: Expr, size: Expr) -> Expr:
    """Return the index of a place that counts from the end (-1: last); 0: before the first."""
    at = when(place < 0).then(size + place).otherwise(0)
    return when(at > 0).then(at).otherwise(0)


def keys_path(node: exp.Expr, compiler: Compiler) -> Expr:
    """Compile PostgreSQL's ``s #>> '{a,"b c",0}'``."""
    value = compiler.compile(node.this)
    written = str(plain_value(node.expression, compiler.text)).strip()
    parts = list(_KEY.finditer(written[1:-1])) if _KEYS.fullmatch(written) else []
    if not parts and written != "{}":
        raise compiler.text.error(node, """write a path as '{a,"b c",0}'""")
    keys = [part[2].strip() if part[1] is None else _ESCAPED.sub(r"\1", part[1]) for part in parts]
    with compiler.text.located(node):
        is_text = type(node) is exp.JSONBExtractScalar
        read = value.str.json_value if is_text else value.str.json_extract
        first, *rest = map(read, json_paths(keys))
        return coalesce(first, *rest) if rest else first

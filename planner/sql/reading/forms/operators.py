"""Rewrites operators and literals of other engines, tree for tree.

``x LIKE ANY ('a%', 'b%')``, ``(a, b) IN ((1, 2))``, ``s GLOB 'a*'``, ``'3 days'::INTERVAL``,
``s ~* 'a'``, ``SUBSTRING(s FROM 'a.*')``, and DuckDB's ``s.upper()``.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.sql.reading.forms.queries.engines.places import nodes_of, replaced
from planner.sql.reading.forms.queries.engines.postgres import (
    COMPARISONS,
    OF_POSTGRES,
    compared_json,
    is_json,
    of_postgres,
)
from planner.sql.reading.forms.queries.engines.rows import COMPARED, among, compared, overlaps
from planner.sql.reading.forms.queries.intervals import aged, whole_interval

if TYPE_CHECKING:
    from collections.abc import Callable

    Error = Callable[[exp.Expr, str], Exception]

_LIKES = (exp.Like, exp.ILike)
#: Operators that only PostgreSQL applies to JSON: elsewhere JSON is a text.
_OF_JSON = (exp.DPipe, exp.Sub)
_JSON_QUERY = (
    "JSON is stored as text here, and equal JSON may have different texts: write JSON_SORTED(j) IN "
    "(SELECT JSON_SORTED(x) FROM t)"
)
_NO_BYTES = "a backslash in bytes is not supported: write UNHEX('1F') for '\\x1F'"
_NO_SETS = (
    "GLOB takes * and ? here, and no [...] or \\; write a regular expression, as in "
    "REGEXP_LIKE(s, '^a[bc].*$')"
)


def with_operators(
    whole: exp.Expr,
    engine: str,
    read: Callable[[str], exp.Expr],
    error: Error,
) -> None:
    """Rewrite operators of other engines in a statement; ``read`` parses an expression.

    Raises:
        SqlError: made by ``error``; a pattern of GLOB has more than ``*`` and ``?``, or
            ``(a, b) IN (SELECT ...)`` is outside WHERE.
    """
    kinds: tuple[type[exp.Expr], ...] = (
        *(*_LIKES, exp.In, exp.Glob, exp.Cast, exp.RegexpILike, exp.Substring, exp.Encode),
        *(exp.ConcatWs, exp.Tuple, exp.Mode, exp.ToBase64, exp.Overlaps),
        # without a dialect, rows of values cannot be compared
        *((*COMPARED, exp.Between) if engine else ()),
        *(COMPARISONS if engine == "postgres" else ()),
        *(kind for kind in OF_POSTGRES if engine == "postgres" or kind not in _OF_JSON),
    )
    for node in reversed(nodes_of(whole, *kinds)):
        pattern = node.args.get("expression") if isinstance(node, exp.Glob) else None
        if isinstance(pattern, exp.Literal) and set("[\\") & set(str(pattern.this)):
            raise error(node, _NO_SETS)
        is_bytes = isinstance(node, exp.Cast) and node.to.is_type("VARBINARY")
        if is_bytes and engine in ("postgres", "duckdb") and "\\" in _text_of(node.this):
            raise error(node, _NO_BYTES)
        made = _of_rows(node, engine, error) or _made(node)
        if made is not None:
            replaced(node, made)
    if engine == "duckdb":
        for node in reversed(nodes_of(whole, exp.Dot)):
            if isinstance(node.expression, exp.Func):
                replaced(node, _called(node, read))


def _of_rows(node: exp.Expr, engine: str, error: Error) -> exp.Expr | None:
    if engine == "postgres" and isinstance(node, COMPARISONS):
        if node.args.get("query") is not None and is_json(node.this):
            raise error(node, _JSON_QUERY)
        made = compared_json(node)
        if made is not None:
            return made
    if isinstance(node, exp.In):
        return among(node, engine, error)
    if isinstance(node, exp.Overlaps):
        return overlaps(node, engine)
    if isinstance(node, exp.Between):
        return aged(node, error)
    return (compared(node, engine) or aged(node, error)) if isinstance(node, COMPARED) else None


def _made(node: exp.Expr) -> exp.Expr | None:
    if isinstance(node, _LIKES):
        return _any_like(node)
    if isinstance(node, exp.ConcatWs):
        return _joined(node)
    if isinstance(node, exp.Mode | exp.ToBase64):
        return _plain(node)
    if isinstance(node, exp.Tuple):  # DuckDB's row of values, as an element of a list
        is_element = isinstance(node.parent, exp.Array)
        given = [part.copy() for part in node.expressions]
        return exp.Anonymous(this="ROW", expressions=given) if is_element else None
    value, other = node.this, node.args.get("expression")
    if isinstance(node, OF_POSTGRES):
        return of_postgres(node)
    if isinstance(node, exp.Glob) and isinstance(other, exp.Literal):
        like = exp.Like(this=value.copy(), expression=_of_glob(str(other.this)))
        return exp.Escape(this=like, expression=exp.Literal.string("\\"))
    if isinstance(node, exp.RegexpILike) and isinstance(other, exp.Literal):
        pattern = exp.Literal.string(f"(?i){other.this}")
        return exp.RegexpLike(this=value.copy(), expression=pattern)
    if isinstance(node, exp.Substring) and _is_text(node.args.get("start")):
        given = [value.copy(), node.args["start"].copy()]
        return exp.Anonymous(this="@regexp_part", expressions=given)
    if isinstance(node, exp.Encode):
        return _of_bytes(node)
    is_length = isinstance(node, exp.Cast) and node.to.is_type("INTERVAL")
    is_written = is_length and _is_text(value)
    return whole_interval(exp.Interval(this=value.copy()), value) if is_written else None


_DIGESTS = (exp.SHA, exp.SHA2, exp.MD5)


def _of_bytes(node: exp.Encode) -> exp.Expr | None:
    """Rewrite ``ENCODE(s::bytea, 'base64')``, of the bytes of a text."""
    held, form = node.this, node.args.get("charset")
    is_digest = isinstance(held, _DIGESTS) or held.name.upper() in ("SHA256", "SHA512", "SHA224")
    if is_digest and form is not None and form.name.lower() == "hex":
        made: exp.Expr = held.copy()
        for cast in nodes_of(made, exp.Cast):
            if cast.to.is_type("VARBINARY"):
                cast.replace(cast.this.copy())
        return made
    name = {"base64": "TO_BASE64", "hex": "TO_HEX"}.get(form.name.lower() if form else "")
    if name is None or not isinstance(held, exp.Cast) or not held.to.is_type("VARBINARY"):
        return None
    made = exp.Anonymous(this=name, expressions=[held.this.copy()])
    return exp.Lower(this=exp.Hex(this=held.this.copy())) if name == "TO_HEX" else made


def _text_of(node: exp.Expr) -> str:
    return node.name if _is_text(node) else ""


def _is_text(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Literal) and node.is_string


def _of_glob(pattern: str) -> exp.Expr:
    """Rewrite a pattern of GLOB, such as ``a*b?``, as a pattern of LIKE."""
    kept = "".join(f"\\{c}" if c in "%_\\" else c for c in pattern)
    return exp.Literal.string(kept.replace("*", "%").replace("?", "_"))


def _any_like(node: exp.Expr) -> exp.Expr | None:
    held = node.args.get("expression")
    if not isinstance(held, exp.Any | exp.All):
        return None
    listed = held.this.unnest()
    patterns = listed.expressions if isinstance(listed, exp.Tuple | exp.Array) else [listed]
    if not patterns or isinstance(listed, exp.Query):
        return None
    tests: list[exp.Expr] = [
        type(node)(this=node.this.copy(), expression=pattern.copy()) for pattern in patterns
    ]
    if node.args.get("negate"):
        tests = [exp.Not(this=test) for test in tests]
    joins = exp.Or if isinstance(held, exp.Any) else exp.And
    return exp.Paren(this=reduce(lambda a, b: joins(this=a, expression=b), tests))


def _plain(node: exp.Expr) -> exp.Expr | None:
    """Rewrite DuckDB's ``MODE(x ORDER BY x)``, and ``TO_BASE64(s::BLOB)`` of a text."""
    held = node.this
    if isinstance(held, exp.Cast) and held.to.is_type("VARBINARY"):
        return exp.ToBase64(this=held.this.copy()) if isinstance(node, exp.ToBase64) else None
    if type(held) is not exp.Order or len(held.expressions) != 1:
        return None
    by = held.expressions[0]
    is_own = by.this == held.this and not by.args.get("desc")
    return exp.Mode(this=held.this.copy()) if is_own else None


def _joined(node: exp.ConcatWs) -> exp.Expr | None:
    """Rewrite ``CONCAT_WS(',', 'a', NULL, 2)`` without nulls, and with numbers as texts."""
    parts = [part for part in node.expressions if not isinstance(part, exp.Null)]
    made = [
        exp.Literal.string(part.name)
        if isinstance(part, exp.Literal) and not part.is_string
        else part.copy()
        for part in parts
    ]
    return exp.ConcatWs(expressions=made) if made != node.expressions else None


def _called(node: exp.Dot, read: Callable[[str], exp.Expr]) -> exp.Expr:
    """Rewrite ``value.function(more)`` as ``function(value, more)``."""
    call = node.expression
    name = call.name if isinstance(call, exp.Anonymous) else type(call).sql_name()
    held = node.this
    value = exp.column(held.copy()) if isinstance(held, exp.Identifier) else held.copy()
    if isinstance(value, exp.Dot) and isinstance(value.this, exp.Identifier):
        value = exp.column(value.expression.copy(), value.this.copy())
    more = list(call.expressions) if isinstance(call, exp.Anonymous) else []
    given = [value, *(part.copy() for part in more)]
    named = ", ".join(f'"@{place}"' for place in range(len(given)))
    made = read(f"{name}({named})")
    for column in nodes_of(made, exp.Column):
        if column.name.startswith("@") and column.name[1:].isdigit():
            column.replace(given[int(column.name[1:])])
    return made

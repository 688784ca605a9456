"""Rewrites functions with lambdas over two lists or a map: lambdas over one list of pairs.

``ZIP_WITH``, ``MAP_FILTER``, ``TRANSFORM_VALUES``, ``TRANSFORM_KEYS``, ``LIST_REDUCE`` without a
start, and DuckDB's ``[x * 2 FOR x IN list IF x > 1]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from planner.sql.reading.forms.queries.engines.places import nodes_of, replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_ENTRIES = ("key", "value")
_PAIR = "@pair"


def with_pairs(statement: exp.Expr, engine: str) -> None:
    """Rewrite calls with lambdas over pairs in a statement."""
    for node in reversed(
        nodes_of(statement, exp.Array, exp.Anonymous, exp.ArrayFilter, exp.Reduce)
    ):
        made = _made(node, engine)
        if made is not None:
            replaced(node, made)


def _made(node: exp.Expr, engine: str) -> exp.Expr | None:
    if isinstance(node, exp.Array):
        inner = node.expressions[0] if len(node.expressions) == 1 else None
        return _listed(inner) if isinstance(inner, exp.Comprehension) else None
    if isinstance(node, exp.ArrayFilter):
        name, given = "FILTER", [node.this, node.expression]
        if engine in ("spark", "duckdb"):
            return _indexed(node, 0 if engine == "spark" else 1)
    elif isinstance(node, exp.Reduce):
        name, given = "REDUCE", [node.this, node.args["initial"], node.args["merge"]]
    else:
        name, given = node.name.upper(), node.expressions
    build = _BUILT.get((name, len(given)))
    is_known = _ONLY.get(name, engine) == engine
    return build(given) if build is not None and is_known else None


def _call(name: str, *given: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=[part.copy() for part in given])


def _listed(node: exp.Comprehension) -> exp.Expr:
    name = node.expression
    values = node.args["iterator"].copy()
    condition = node.args.get("condition")
    if condition is not None:
        values = exp.ArrayFilter(this=values, expression=_lambda(condition, name))
    return _call("LIST_TRANSFORM", values, _lambda(node.this, name))


def _lambda(body: exp.Expr, name: exp.Expr) -> exp.Lambda:
    """Return ``name -> body``, where the body names its parameter as a column."""
    body = exp.Paren(this=body.copy())
    for column in nodes_of(body, exp.Column):
        if column.name == name.name and not column.table:
            column.replace(exp.to_identifier(name.name))
    return exp.Lambda(this=body, expressions=[exp.to_identifier(name.name)])


def _of_pair(given: exp.Expr, fields: Sequence[str]) -> exp.Lambda | None:
    """Return ``(a, b) -> body`` as a lambda of a pair with these fields; None: another node."""
    if not isinstance(given, exp.Lambda) or len(given.expressions) != len(fields):
        return None
    names = {part.name: field for part, field in zip(given.expressions, fields, strict=True)}
    body = exp.Paren(this=given.this.copy())
    for part in nodes_of(body, exp.Identifier):
        around = part.parent
        is_field = isinstance(around, exp.Dot) and part.arg_key == "expression"
        if part.name in names and not is_field and not isinstance(around, exp.Column | exp.Lambda):
            field = exp.to_identifier(names[part.name])
            part.replace(exp.Dot(this=exp.to_identifier(_PAIR), expression=field))
    return exp.Lambda(this=body, expressions=[exp.to_identifier(_PAIR)])


def _zip_with(given: list[exp.Expr]) -> exp.Expr | None:
    body = _of_pair(given[2], ("f0", "f1"))
    return body and _call("LIST_TRANSFORM", _call("@list_zip", given[0], given[1]), body)


def _indexed(node: exp.Expr, first: int) -> exp.Expr | None:
    """Rewrite ``FILTER(l, (x, i) -> condition)``; positions ``i`` count from ``first``."""
    body = _of_pair(node.expression, ("f0", "f1"))
    if body is None:
        return None
    last = exp.ArraySize(this=node.this.copy())
    places = exp.Anonymous(
        this="@sequence",
        expressions=[
            exp.Literal.number(first),
            exp.Add(this=last, expression=exp.Literal.number(first - 1)),
            exp.Literal.number(1),
        ],
    )
    kept = exp.ArrayFilter(this=_call("@list_zip", node.this, places), expression=body)
    pair = exp.to_identifier(_PAIR)
    value = exp.Dot(this=pair.copy(), expression=exp.to_identifier("f0"))
    return _call("LIST_TRANSFORM", kept, exp.Lambda(this=value, expressions=[pair]))


def _reduced_map(given: list[exp.Expr]) -> exp.Expr | None:
    """Rewrite ksqlDB's ``REDUCE(map, start, (s, k, v) => body)``."""
    held, start, each = given
    if not isinstance(each, exp.Lambda) or len(each.expressions) != len(_ENTRIES) + 1:
        return None
    state, *names = (part.copy() for part in each.expressions)
    pair = _of_pair(exp.Lambda(this=each.this.copy(), expressions=names), _ENTRIES)
    if pair is None:
        return None
    both = [state, *pair.expressions]
    return _call("REDUCE", _entries(held), start, exp.Lambda(this=pair.this, expressions=both))


def _entries(held: exp.Expr) -> exp.Expr:
    return _call("MAP_ENTRIES", held)


def _map_filter(given: list[exp.Expr]) -> exp.Expr | None:
    body = _of_pair(given[1], _ENTRIES)
    kept = body and exp.ArrayFilter(this=_entries(given[0]), expression=body)
    return kept and _call("@map_from_entries", kept)


def _values(given: list[exp.Expr]) -> exp.Expr | None:
    body = _of_pair(given[1], _ENTRIES)
    made = body and _call("LIST_TRANSFORM", _entries(given[0]), body)
    return made and _call("AS_MAP", _call("MAP_KEYS", given[0]), made)


def _keys(given: list[exp.Expr]) -> exp.Expr | None:
    body = _of_pair(given[1], _ENTRIES)
    made = body and _call("LIST_TRANSFORM", _entries(given[0]), body)
    return made and _call("AS_MAP", made, _call("MAP_VALUES", given[0]))


def _both(given: list[exp.Expr]) -> exp.Expr | None:
    """Rewrite ksqlDB's ``TRANSFORM(map, (k, v) => key, (k, v) => value)`` with two lambdas."""
    bodies = [_of_pair(part, _ENTRIES) for part in given[1:]]
    made = [body and _call("LIST_TRANSFORM", _entries(given[0]), body) for body in bodies]
    return _call("AS_MAP", *made) if all(made) else None  # type: ignore[arg-type]


def _reduced(given: list[exp.Expr]) -> exp.Expr | None:
    if not isinstance(given[1], exp.Lambda):
        return None
    rest = _call("@tail", given[0], exp.Literal.number(1))
    return _call("REDUCE", rest, _call("@list_item", given[0], exp.Literal.number(1)), given[1])


_BUILT: dict[tuple[str, int], Callable[[list[exp.Expr]], exp.Expr | None]] = {
    ("ZIP_WITH", 3): _zip_with,
    ("MAP_FILTER", 2): _map_filter,
    ("FILTER", 2): _map_filter,
    ("TRANSFORM_VALUES", 2): _values,
    ("TRANSFORM_KEYS", 2): _keys,
    ("TRANSFORM", 3): _both,
    ("LIST_REDUCE", 2): _reduced,
    ("REDUCE", 3): _reduced_map,
}
#: Functions of one dialect: in other dialects these names are functions of lists.
_ONLY = {"FILTER": "ksqldb", "TRANSFORM": "ksqldb", "LIST_REDUCE": "duckdb", "REDUCE": "ksqldb"}

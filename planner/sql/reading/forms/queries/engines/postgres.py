"""Rewrites PostgreSQL's operators on JSON and on lists."""

from __future__ import annotations

from functools import reduce

from sqlglot import exp

#: For each operator, the template that replaces it, and the operands in the template's order.
_CALLED: dict[type[exp.Expr], tuple[str, tuple[str, str]]] = {
    exp.ArrayOverlaps: ("ARRAYS_OVERLAP", ("this", "expression")),
    exp.ArrayContainedBy: ("@CONTAINED", ("expression", "this")),
    exp.JSONBContainsAnyTopKeys: ("JSONB_EXISTS_ANY", ("this", "expression")),
    exp.JSONBContainsAllTopKeys: ("JSONB_EXISTS_ALL", ("this", "expression")),
}


_PUT = {"JSONB_SET": ("set", "replace"), "JSONB_INSERT": ("after", "insert")}


def of_postgres(node: exp.Expr) -> exp.Expr | None:
    """Return the tree to compile in place of a node; None: the node itself."""
    value, other = node.this, node.args.get("expression")
    if type(node) in _CALLED:
        name, parts = _CALLED[type(node)]
        given = [node.args[part].copy() for part in parts]
        if name == "@CONTAINED":
            return exp.ArrayContainsAll(this=given[0], expression=given[1])
        return exp.Anonymous(this=name, expressions=given)
    if isinstance(node, exp.Anonymous):
        return _built(node) if node.name.upper() == "JSONB_BUILD_OBJECT" else _put(node)
    if isinstance(node, exp.MakeInterval):
        return _length(node)
    if not isinstance(other, exp.Expr):
        return None
    if isinstance(node, exp.DPipe):
        is_merge = any(map(is_json, (value, other)))
        return _sorted(_called("JSON_CONCAT", value, other)) if is_merge else None
    if isinstance(node, exp.JSONBDeleteAtPath):
        return _removed(value, _path(other))
    return _without(value, other) if isinstance(node, exp.Sub) and is_json(value) else None


def compared_json(node: exp.Expr) -> exp.Expr | None:
    """Compare JSON by its values: the order of keys and spaces do not matter."""
    sides = [node.this, *node.expressions, *filter(None, [node.args.get("expression")])]
    if not any(map(is_json, sides)):
        return None
    made = node.copy()
    for name in ("this", "expression"):
        if made.args.get(name) is not None:
            made.set(name, _sorted(made.args[name]))
    made.set("expressions", [_sorted(part) for part in node.expressions] or None)
    return made


def _sorted(node: exp.Expr) -> exp.Expr:
    """Call JSON_SORTED, unless the JSON is sorted already."""
    return node.copy() if _is_sorted(node) else _called(_SORTED, node)


def _is_sorted(node: exp.Expr) -> bool:
    if isinstance(node, exp.Paren | exp.JSONExtract | exp.JSONBExtract | exp.JSONBDeleteAtPath):
        return _is_sorted(node.this)
    if isinstance(node, exp.Cast):
        return bool(node.to.is_type("JSONB"))
    if isinstance(node, exp.Column):
        return node.meta.get(JSON) == "JSONB"
    name = node.name if isinstance(node, exp.Anonymous) else ""
    return name == _SORTED or (name == "JSON_WITHOUT" and _is_sorted(node.expressions[0]))


def _called(name: str, *given: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=[part.copy() for part in given])


def _without(held: exp.Expr, part: exp.Expr) -> exp.Expr:
    """Rewrite ``j - 'key'``, ``j - ARRAY['a', 'b']`` and ``j - 0``."""
    if isinstance(part, exp.Array):
        return reduce(lambda a, b: _called("JSON_WITHOUT", a, b), part.expressions, held)
    number = part.this if isinstance(part, exp.Neg) else part
    if isinstance(number, exp.Literal) and not number.is_string:
        return _removed(held, exp.Literal.string("{" + part.sql() + "}"))
    return _called("JSON_WITHOUT", held, part)


def _removed(held: exp.Expr, path: exp.Expr) -> exp.Expr:
    ends = map(exp.Literal.string, ("null", "remove"))
    return _called("JSON_CHANGED", held, path, *ends)


def _path(node: exp.Expr) -> exp.Expr:
    """Return a path as a text; the path may be written as ``ARRAY['a', '0']``."""
    if isinstance(node, exp.Array) and all(isinstance(e, exp.Literal) for e in node.expressions):
        return exp.Literal.string("{" + ",".join(e.name for e in node.expressions) + "}")
    return node


def _built(node: exp.Anonymous) -> exp.Expr | None:
    """Rewrite ``JSONB_BUILD_OBJECT('bb', 1, 'a', 2)`` with its fields as JSONB stores them."""
    keys, values = node.expressions[::2], node.expressions[1::2]
    if len(keys) != len(values) or not all(key.is_string for key in keys):
        return None
    last = {key.name: (key, value) for key, value in zip(keys, values, strict=True)}
    ordered = sorted(last, key=lambda name: (len(name.encode()), name.encode()))
    if ordered == [key.name for key in keys]:
        return None
    return _called(node.name, *(part for name in ordered for part in last[name]))


def _put(node: exp.Anonymous) -> exp.Expr | None:
    """Rewrite ``JSONB_SET(j, path, value, FALSE)`` and ``JSONB_INSERT(j, path, value, TRUE)``."""
    kinds = _PUT.get(node.name.upper())
    held, *more = node.expressions or [None]
    if kinds is None or len(more) not in (2, 3) or not isinstance(held, exp.Expr):
        return None
    choice = more[2] if len(more) > 2 else exp.convert(node.name.upper() == "JSONB_SET")
    if not isinstance(choice, exp.Boolean):
        return None
    kind = exp.Literal.string(kinds[0 if choice.this else 1])
    return _sorted(_called("JSON_CHANGED", held, _path(more[0]), more[1], kind))


def _length(node: exp.MakeInterval) -> exp.Expr | None:
    """Rewrite ``MAKE_INTERVAL(hours => 2, mins => 5)`` as a sum of lengths."""
    parts: list[exp.Expr] = []
    given = [part for part in node.args.values() if isinstance(part, exp.Expr)]
    for at, part in enumerate(given):
        is_named = isinstance(part, exp.Kwarg)
        unit = part.this.name.lower() if is_named else (*_PARTS, "")[min(at, len(_PARTS))]
        value = part.expression if is_named else part
        if value == exp.Literal.number(0):
            continue
        if unit not in _PARTS:
            return None
        if _PARTS[unit] in ("YEAR", "MONTH") and isinstance(value, exp.Literal):
            length = exp.Literal.string(value.name)
            parts.append(exp.Interval(this=length, unit=exp.var(_PARTS[unit])))
            continue
        one = exp.Interval(this=exp.Literal.string("1"), unit=exp.var(_PARTS[unit]))
        parts.append(exp.Mul(this=one, expression=exp.Paren(this=value.copy())))
    if not parts:
        return None
    made = reduce(lambda a, b: exp.Add(this=a, expression=b), parts)
    return made if len(parts) == 1 and isinstance(made, exp.Interval) else exp.Paren(this=made)


_PARTS = {
    "years": "YEAR",
    "months": "MONTH",
    "weeks": "WEEK",
    "days": "DAY",
    "hours": "HOUR",
    "mins": "MINUTE",
    "secs": "SECOND",
}


def is_json(node: exp.Expr) -> bool:
    """Return whether the text shows that the value is JSON."""
    if isinstance(node, exp.Paren):
        return is_json(node.this)
    if isinstance(node, exp.Cast):
        return bool(node.to.is_type("JSON", "JSONB"))
    if isinstance(node, exp.Column):
        return bool(node.meta.get(JSON))
    name = node.name.upper() if isinstance(node, exp.Anonymous) else ""
    return isinstance(node, _OF_JSON) or name in _JSON_CALLS


#: Key in ``meta`` of a column that is declared as JSON.
JSON = "json"
_SORTED = "JSON_SORTED"
_OF_JSON = (exp.JSONExtract, exp.JSONBExtract, exp.JSONObject, exp.JSONBDeleteAtPath)
_JSON_CALLS = (
    *("JSON_CONCAT", "JSONB_SET", "JSONB_INSERT", "TO_JSONB", "TO_JSON", "JSON_WITHOUT"),
    *("JSONB_BUILD_OBJECT", "JSONB_BUILD_ARRAY", "JSON_BUILD_OBJECT", "JSON_BUILD_ARRAY"),
    *("JSONB_STRIP_NULLS", "JSON_CHANGED", _SORTED),
)


def with_json_columns(statements: list[exp.Expr]) -> None:
    """Mark columns as JSON if all declared columns of their name have the type JSON."""
    kinds: dict[str, set[str]] = {}
    for statement in statements:
        for column in statement.find_all(exp.ColumnDef):
            kind = column.args.get("kind")
            found = "" if kind is None else kind.this.name if kind.is_type("JSON", "JSONB") else ""
            kinds.setdefault(column.name.lower(), set()).add(found)
    for statement in statements:
        for node in statement.find_all(exp.Column):
            found_of = kinds.get(node.name.lower(), {""})
            if "" not in found_of:
                node.meta[JSON] = "JSONB" if found_of == {"JSONB"} else "JSON"


#: Comparisons that do not compare JSON as text.
COMPARISONS = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In)
#: The nodes to which sqlglot parses these operators.
OF_POSTGRES = (
    *_CALLED,
    *(exp.MakeInterval, exp.DPipe, exp.JSONBDeleteAtPath, exp.Sub, exp.Anonymous),
)

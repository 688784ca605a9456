"""Rewrites Spark's generators of rows: STACK, INLINE and JSON_TUPLE, as lists of structs.

``LATERAL VIEW stack(2, 1, 'a', 2, 'b') s AS x, y`` is ``LATERAL VIEW EXPLODE(ARRAY(...))``. In the
list of a SELECT they have Spark's names: ``col0`` and so on, ``c0`` and so on for JSON_TUPLE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from sqlglot import exp

from planner.expressions.functions.texts.json_paths import json_key
from planner.sql.reading.forms.queries.engines.places import nodes_of, place

if TYPE_CHECKING:
    from collections.abc import Callable

_Error: TypeAlias = "Callable[[exp.Expr, str], Exception]"
#: Generators that emit a position before the element; generators that keep rows without elements.
_PLACED = (exp.Posexplode, exp.PosexplodeOuter)
_OUTER = tuple(exp.FUNCTION_BY_NAME[name] for name in ("EXPLODE_OUTER", "POSEXPLODE_OUTER"))
_NAMES = {"STACK": ("col", 0), "INLINE": ("col", 1), "INLINE_OUTER": ("col", 1)}


def with_generators(whole: exp.Expr, error: _Error) -> None:
    """Rewrite STACK, INLINE and JSON_TUPLE in a statement.

    Raises:
        SqlError: a call has another number of names, or reads JSON by names that are no literals.
    """
    for call in whole.find_all(exp.Anonymous):
        if call.name.upper() == "JSON_TUPLE":
            _check_json(call, error)
    for view in nodes_of(whole, exp.Lateral):
        made = _listed(view.this)
        if made is not None:
            view.set("this", exp.Explode(this=made))
    for select in nodes_of(whole, exp.Select):
        for part in list(select.expressions):
            _of_list(select, part, error)


def _check_json(call: exp.Expr, error: _Error) -> None:
    names = call.expressions[1:]
    if not names or not all(name.is_string and "'" not in name.name for name in names):
        raise error(call, "JSON_TUPLE takes names as literals without quotes: write (json, 'name')")


def _is_map(held: exp.Expr) -> bool:
    is_call = isinstance(held, exp.Anonymous) and held.name.upper().startswith("MAP")
    return is_call or isinstance(held, exp.Map | exp.StrToMap)


def _columns(part: exp.Expr, defaults: list[str], error: _Error) -> list[str]:
    """Return the names after AS, else ``defaults``."""
    named = [part.alias] if isinstance(part, exp.Alias) else []
    if isinstance(part, exp.Aliases):
        named = [name.name for name in part.expressions]
    if named and len(named) != len(defaults):
        reason = f"the number of names after AS is {len(named)}, of columns {len(defaults)}"
        raise error(part, f"{reason}: write as many names as columns")
    return named or defaults


def _of_list(select: exp.Select, part: exp.Expr, error: _Error) -> None:
    call = part.this if isinstance(part, exp.Aliases) else part.unalias()
    name = _name(call)
    if name == "JSON_TUPLE":
        values = _fields_of_json(call)
        named = _columns(part, [f"c{at}" for at in range(len(values))], error)
        pairs = zip(values, named, strict=True)
        _splice(select, part, [exp.alias_(value, name) for value, name in pairs])
        return
    if type(call) in _PLACED or type(call) in _OUTER:
        names = ["pos", "col"] if type(call) in _PLACED else ["col"]
        _rows(select, part, call, call.this, _columns(part, names, error))
        return
    if type(call) is exp.Explode and (isinstance(part, exp.Aliases) or _is_map(call.this)):
        _rows(select, part, call, call.this, _columns(part, ["key", "value"], error))
        return
    made = _listed(call)
    if made is None:
        return
    first = made.expressions[0] if isinstance(made, exp.Array) and made.expressions else None
    fields = first.expressions if isinstance(first, exp.Struct) else [first]
    if first is None or (name != "STACK" and not isinstance(first, exp.Struct)):
        return
    prefix, start = _NAMES[name]
    named = _columns(part, [f"{prefix}{start + at}" for at in range(len(fields))], error)
    _rows(select, part, call, made, named)


def _rows(
    select: exp.Select, part: exp.Expr, call: exp.Expr, listed: exp.Expr, named: list[str]
) -> None:
    """Replace a SELECT item by columns of ``LATERAL VIEW EXPLODE(listed) AS named``."""
    columns = [exp.to_identifier(name) for name in named]
    is_outer = type(call) in _OUTER
    kind = exp.Posexplode if type(call) in _PLACED else exp.Explode
    alias = exp.TableAlias(this=exp.to_identifier("@rows", quoted=True), columns=columns)
    view = exp.Lateral(this=kind(this=listed.copy()), view=True, outer=is_outer, alias=alias)
    place(view, call)
    items = [exp.column(c.copy(), exp.to_identifier("@rows", quoted=True)) for c in columns]
    for item in items:
        place(item, call)
    select.set("laterals", [*(select.args.get("laterals") or []), view])
    _splice(select, part, list(items))


def _splice(select: exp.Select, part: exp.Expr, items: list[exp.Expr]) -> None:
    listed: list[exp.Expr] = []
    for other in select.expressions:
        listed += items if other is part else [other]
    select.set("expressions", listed)


def _name(call: exp.Expr) -> str:
    if isinstance(call, exp.Inline | exp.Stack):
        return type(call).__name__.upper()
    return call.name.upper() if isinstance(call, exp.Anonymous) and call.expressions else ""


def _listed(call: exp.Expr) -> exp.Expr | None:
    """Return the list of structs whose elements are the rows; None: it is another call."""
    name = _name(call)
    if name == "INLINE":
        given: exp.Expr = call.this if isinstance(call, exp.Inline) else call.expressions[0]
        return given.copy()
    if name == "JSON_TUPLE":
        fields = _fields_of_json(call)
        made: exp.Expr = exp.Array(expressions=[_struct(fields) if len(fields) > 1 else fields[0]])
        place(made, call)
        return made
    if name != "STACK" or not isinstance(call, exp.Stack) or not call.this.is_int:
        return None
    rows, values = int(call.this.name), call.expressions
    width = -(-len(values) // max(rows, 1))
    listed = []
    for at in range(rows):
        row = [part.copy() for part in values[at * width : (at + 1) * width]]
        row += [exp.Nullif(this=v.copy(), expression=v.copy()) for v in values[len(row) : width]]
        listed.append(_struct(row) if width > 1 else row[0])
    made = exp.Array(expressions=listed)
    place(made, call)
    return made


def _fields_of_json(call: exp.Expr) -> list[exp.Expr]:
    held, *names = call.expressions
    made: list[exp.Expr] = [
        exp.Anonymous(
            this="GET_JSON_OBJECT",
            expressions=[held.copy(), exp.Literal.string(f"${json_key(name.name)}")],
        )
        for name in names
    ]
    for value in made:
        place(value, call)
    return made


def _struct(values: list[exp.Expr]) -> exp.Expr:
    return exp.Struct(
        expressions=[
            exp.PropertyEQ(this=exp.to_identifier(f"col{at}"), expression=value)
            for at, value in enumerate(values)
        ]
    )

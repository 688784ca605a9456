"""Functions that take a lambda: ``TRANSFORM(list, x -> x + 1)`` and the like."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from planner.expressions.types import is_list
from planner.sql.expressions.engines.shapes import shaped
from planner.sql.reading.errors import sql_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.api.expressions import Expr
    from planner.sql.expressions.engines.compiler import Compiler

_NODES: dict[type[exp.Expr], str] = {exp.Transform: "transform", exp.ArrayFilter: "filter"}
_NAMES = {
    **dict.fromkeys(
        ("transform", "list_transform", "list_apply", "array_transform", "array_apply"), "transform"
    ),
    **dict.fromkeys(("list_filter", "array_filter"), "filter"),
    **dict.fromkeys(("reduce", "aggregate"), "reduce"),
    "list_reduce": "list_reduce",
}
_WRITE = {
    "transform": "TRANSFORM(list, x -> x + 1), or with the place (x, i) -> x + i",
    "filter": "FILTER(list, x -> x > 1)",
    "reduce": "REDUCE(list, 0, (result, x) -> result + x)",
    "list_reduce": "LIST_REDUCE(list, (result, x) -> result + x, 0)",
}


def with_lambda(node: exp.Expr, compiler: Compiler) -> Expr | None:
    """Return the expression of a call with lambdas; None: it is another node."""
    kind = "reduce" if type(node) is exp.Reduce else _NODES.get(type(node))
    if isinstance(node, exp.Anonymous):
        kind = _NAMES.get(node.name.lower())
    if kind is None:
        return shaped(node, compiler)
    given = [
        part
        for value in ([] if isinstance(node, exp.Anonymous) else node.args.values())
        for part in (value if isinstance(value, list) else [value])
        if isinstance(part, exp.Expr)
    ] + list(node.expressions if isinstance(node, exp.Anonymous) else [])
    text, function = compiler.text, kind.removeprefix("list_")
    if kind == "list_reduce" and len(given) == len(("list", "lambda", "start")):
        given = [given[0], given[2], given[1]]
    counts = {"transform": (1, 2), "filter": (1,), "reduce": (2,)}[function]
    wanted = 3 if function == "reduce" else 2
    if len(given) < wanted or any(isinstance(part, exp.Lambda) for part in given[: wanted - 1]):
        raise text.error(node, f"write {_WRITE[kind]}")
    *values, body = given[:wanted]
    finish = given[wanted] if len(given) == wanted + 1 and function == "reduce" else None
    if isinstance(finish, exp.Lambda) and len(finish.expressions) == 1:
        given = given[:wanted]
    if not isinstance(body, exp.Lambda) or len(body.expressions) not in counts:
        raise text.error(body, f"write {_WRITE[kind]}")
    if len(given) > wanted:
        raise text.error(given[wanted], f"write {_WRITE[kind]}, and apply the rest to its result")
    listed, *others = [compiler.compile(value) for value in values]
    schema = compiler.schema
    type_ = listed.output_type(schema)
    if not is_list(type_):
        raise text.error(values[0], f"a list is needed here, not {sql_type(str(type_))}")
    made = _compiled(body, compiler, schema, type_, others)
    with text.located(node):
        if function == "reduce":
            result = listed.list.reduce(others[0], made)
            return result if finish is None else _finished(finish, result, compiler)
        if function == "filter":
            return listed.list.filter(made)
        return listed.list.transform(made, with_place=len(body.expressions) > 1)


def _finished(finish: exp.Expr, result: Expr, compiler: Compiler) -> Expr:
    """Apply the last lambda of REDUCE to its result."""
    name = finish.expressions[0].name

    def special(node: exp.Expr) -> Expr | None:
        return (
            result if isinstance(node, exp.Identifier | exp.Column) and node.name == name else None
        )

    return compiler.knowing({}, special).compile(finish.this)


def _compiled(
    body: exp.Lambda,
    compiler: Compiler,
    schema: pa.Schema,
    list_type: pa.DataType,
    others: list[Expr],
) -> Callable[..., Expr]:
    """Return the body as a function of its parameters' values."""
    names = [parameter.name for parameter in body.expressions]

    def made(*values: Expr) -> Expr:
        known = dict(zip(names, values, strict=True))
        kinds = [list_type.value_type, pa.int64()]
        if others:
            kinds = [others[0].output_type(schema), list_type.value_type]
        types = {str(v.node): kind for v, kind in zip(values, kinds, strict=False)}

        def special(node: exp.Expr) -> Expr | None:
            if isinstance(node, exp.Identifier) and node.name in known:
                expr: Expr = known[node.name]
                is_place = len(values) > 1 and not others and node.name == names[1]
                return expr + 1 if is_place and not compiler.text.engine.lists_from_zero else expr
            return None

        return compiler.knowing(types, special).compile(body.this)

    return made

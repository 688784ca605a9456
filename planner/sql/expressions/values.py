"""``VALUES (1, 'a'), (2, 'b')`` in FROM: rows in the text, which are always valid."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from planner.api.inputs.tables import table_rows
from planner.api.stream import Stream
from planner.sql.expressions.scope import scope_of
from planner.sql.reading.forms.queries.one_row import ONE_ROW
from planner.sql.reading.literals import data_type, plain_value, time_literal

if TYPE_CHECKING:
    from planner.sql.expressions.names import Names
    from planner.sql.expressions.scope import Scope

#: Names of the columns of VALUES by dialect; the default is ``col1``.
_CALLED = {"postgres": "column{}", "duckdb": "col{0}", "flink": "EXPR${}", "spark": "col{}"}
#: Dialects that count columns of VALUES from 0.
_FROM_ZERO = ("duckdb", "flink")


def values_relation(node: exp.Values, names: Names) -> Scope:
    """Return the relation of VALUES.

    Raises:
        SqlError: rows differ in length, or a column in type, or a value is no literal.
    """
    text = names.text
    rows = [
        part.expressions if isinstance(part, exp.Tuple) else [part] for part in node.expressions
    ]
    alias = node.args.get("alias")
    listed = [] if alias is None else [column.name for column in alias.columns]
    width = len(rows[0])
    for row, part in zip(rows, node.expressions, strict=True):
        if len(row) != width:
            raise text.error(part, f"VALUES: one row has {len(row)} values, another {width}")
    if listed and len(listed) != width:
        raise text.error(node, f"{len(listed)} names for {width} columns")
    first = 0 if text.engine.name in _FROM_ZERO else 1
    made = _CALLED.get(text.engine.name, "col{}")
    called = listed or [made.format(at + first) for at in range(width)]
    columns = {name: _column([row[at] for row in rows], names) for at, name in enumerate(called)}
    with text.located(node):
        stream = Stream(table_rows(pa.table(columns), None))
    scope = scope_of(stream, node.alias or "(values)")
    is_hidden = node.meta.get(ONE_ROW)
    return replace(scope, columns=(), hidden=tuple(columns)) if is_hidden else scope


def _column(parts: list[exp.Expr], names: Names) -> pa.Array:
    text = names.text
    values = [_value(part, names) for part in parts]
    if all(value is None for value in values):
        raise text.error(parts[0], "this is always null; cast it to a type: CAST(NULL AS BIGINT)")
    if any(isinstance(value, float) for value in values):
        values = [float(v) if type(v) is int else v for v in values]
    try:
        return pa.array(values)
    except pa.ArrowException:
        raise text.error(parts[0], "the values of a column must have one type") from None


def _value(node: exp.Expr, names: Names) -> Any:
    """Return the value of a literal or of a time."""
    if isinstance(node, exp.Null):
        return None
    if type(node) is exp.Cast:
        kind = data_type(node.to, node, names.text)
        literal = time_literal(node, kind, names.text)
        return (
            pa.scalar(plain_value(node.this, names.text)).cast(kind).as_py()
            if literal is None
            else literal
        )
    return plain_value(node, names.text)

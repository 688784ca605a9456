"""PROCTIME() of Flink and RisingWave: here it returns the event time of a row.

A column ``proc AS PROCTIME()`` equals the time column of its table. In a table without one it is
left out. ``FOR SYSTEM_TIME AS OF t.proc`` takes the row that is valid at the left row's time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from planner.sql.reading.forms.queries.engines.places import nodes_of
from planner.sql.reading.grammar import Watermark

if TYPE_CHECKING:
    from collections.abc import Sequence


def with_processing_times(statements: Sequence[exp.Expr], engine: str) -> None:
    """Replace PROCTIME() in all statements of a text."""
    if engine not in ("flink", "postgres"):
        return
    named: set[str] = set()
    for statement in statements:
        schema = statement.this if isinstance(statement, exp.Create) else None
        if isinstance(schema, exp.Schema):
            _declared(schema, named)
        for alias in nodes_of(statement, exp.Alias):
            if _is_call(alias.this):
                named.add(alias.alias)
    for statement in statements:
        for version in nodes_of(statement, exp.Version):
            time = version.args.get("expression")
            if isinstance(time, exp.Column) and time.name in named:
                version.set("expression", _start(time))
        for call in nodes_of(statement, exp.Anonymous):
            if _is_call(call) and isinstance(call.parent, exp.Alias):
                call.replace(_start(call))


def _declared(schema: exp.Schema, named: set[str]) -> None:
    """Replace the computed columns of a declaration."""
    marks = [part for part in schema.expressions if isinstance(part, Watermark)]
    for column in list(schema.expressions):
        call = column.find(exp.Anonymous) if isinstance(column, exp.ColumnDef) else None
        if call is None or not _is_call(call):
            continue
        named.add(column.name)
        if marks and marks[0].name != column.name:
            time = exp.column(marks[0].name)
            for part in time.walk():
                part.meta.update(call.meta)
            call.replace(time)
        else:
            schema.expressions.remove(column)


def _start(at: exp.Expr) -> exp.Expr:
    made = exp.Anonymous(this="vs")
    made.meta.update(next((p.meta for p in at.walk() if "start" in p.meta), {}))
    return made


def _is_call(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() == "PROCTIME"

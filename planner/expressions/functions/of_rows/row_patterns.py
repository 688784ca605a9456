"""Functions in the conditions and measures of a row pattern (MATCH), such as FIRST and LAST.

A call is a placeholder for a value of the rows matched so far. It has a type, but cannot be
evaluated: :mod:`planner.api.grouped.matching` replaces it by a column.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from planner.errors import InvalidPlanError
from planner.expressions.nodes import Function, cast_to
from rvertex.aggregates.registry import FUNCTIONS as FUNCTIONS_OF_ROWS
from rvertex.aggregates.spec import AggregateSpec
from rvertex.operators.windows.hopping import aggregated_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.expressions.nodes import Call, Node, Value

#: The name of the placeholder function for a value of a row pattern.
ROW_PATTERN = "row_pattern"


def _resolve(call: Call) -> Node | None:
    kind = call.option("kind")
    if kind == "classifier":
        return replace(call, type=pa.string())
    if kind == "match_number":
        return replace(call, type=pa.int64())
    if kind == "row":
        return replace(call, type=call.args[0].type)
    if FUNCTIONS_OF_ROWS[call.option("function")].adds_booleans and call.args[0].type == pa.bool_():
        call = replace(call, args=(cast_to(call.args[0], pa.int64()),))
    column = "x" if call.args else None
    spec = AggregateSpec(call.option("function"), column, "made", call.option("argument"))
    payload = pa.schema([("x", arg.type) for arg in call.args])
    made = aggregated_schema((), (spec,), [payload])
    return replace(call, type=made.field("made").type)


def _evaluate(values: Sequence[Value], call: Call) -> Value:
    raise InvalidPlanError(f"{call} can be used only in define= and measures= of match()")


def _show(call: Call) -> str:
    options = dict(call.options)
    variable = options.get("variable") or ""
    inner = ", ".join(str(arg) for arg in call.args) or "*"
    of = f"{variable}.{inner}" if variable else inner
    kind = str(options["kind"])
    if kind in ("classifier", "match_number"):
        return f"{kind}({variable})"
    if kind == "aggregate":
        shown = f"{options['function']}({of})"
    else:
        word = "first" if options["from_first"] else "last"
        shown = f"{word}({of}, {options['offset']})" if options["offset"] else f"{word}({of})"
        move = int(options["move"])
        if move:
            shown = f"{'prev' if move < 0 else 'next'}({shown}, {abs(move)})"
    semantics = options.get("semantics")
    return f"{semantics} {shown}" if semantics else shown


FUNCTIONS = {ROW_PATTERN: Function(ROW_PATTERN, _resolve, _evaluate, _show)}

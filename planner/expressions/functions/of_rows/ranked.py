"""A value with its rank and time, for ``max_by`` and ``min_by``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from planner.expressions.entries.signature import arg_types, plain_call
from planner.expressions.nodes import Function
from rvertex.aggregates.ranked.arg_extremes import FIELDS, ranked_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.expressions.nodes import Call, Node, Value


def _resolve(call: Call) -> Node | None:
    rank, _, value = arg_types(call)
    if pa.types.is_null(value) or pa.types.is_null(rank):
        return None
    return replace(call, type=ranked_type(rank, value))


def _evaluate(values: Sequence[Value], _call: Call) -> Value:
    rows = max(len(value) for value in values if isinstance(value, pa.Array))
    columns = [v if isinstance(v, pa.Array) else pa.repeat(v, rows) for v in values]
    return pa.StructArray.from_arrays(columns, list(FIELDS))


FUNCTIONS = {"ranked": Function("ranked", _resolve, _evaluate, plain_call("ranked"))}

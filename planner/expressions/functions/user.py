"""User-defined functions in expressions; not in :data:`planner.expressions.functions.FUNCTIONS`.

A scalar function is called once per row with plain Python values (times are int microseconds). With
``nulls="skip"`` it is not called if an argument is null, and the result is null. A vectorised
function is called once per batch with Arrow arrays and returns as many values. Each value may
depend only on its own row.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from planner.errors import EvaluationError
from planner.expressions.bare_text import bare
from planner.expressions.nodes import Function, Literal
from rvertex.state.doing import calling
from rvertex.user_code.errors import INTERRUPTS, RAISED, line_of, reason_of, shown
from rvertex.user_code.plain_values import arrow_column, plain_list
from rvertex.user_code.result import as_column
from rvertex.user_code.times import holds_times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.expressions.nodes import Call, Node, Value


def _resolve(call: Call) -> Node:
    return replace(call, type=call.option("returns"))


def _evaluate(values: Sequence[Value], call: Call) -> Value:
    function = call.option("code").target
    with calling(function):
        made = _vectorised if call.option("vectorised") else _row_by_row
        return made(function, values, call)


def _row_by_row(function: Any, values: Sequence[Value], call: Call) -> Value:
    rows = max((len(v) for v in values if not isinstance(v, pa.Scalar)), default=1)
    columns = [_column(value, rows) for value in values]
    skips = call.option("nulls") == "skip"
    made: list[Any] = []
    for row in zip(*columns, strict=True) if columns else [()]:
        if skips and None in row:
            made.append(None)
            continue
        try:
            made.append(function(*row))
        except INTERRUPTS:
            raise
        except RAISED as error:
            shown_row = ", ".join(map(shown, row))
            reason = f"raised {reason_of(error)} for ({shown_row}) at {line_of(error)}{_hint(call)}"
            raise EvaluationError(str(call), reason) from error
    array = _typed(made, call)
    return array[0] if all(isinstance(v, pa.Scalar) for v in values) else array


def _hint(call: Call) -> str:
    """Return advice for an error, if an argument is a text that may be meant as a column."""
    texts = (a.literal for a in call.args if isinstance(a, Literal) and isinstance(a.literal, str))
    text = next(texts, None)
    return "" if text is None else f"; {text!r} is a text here, a column is col({text!r})"


def _column(value: Value, rows: int) -> Any:
    if isinstance(value, pa.Scalar):
        return itertools.repeat(plain_list(pa.array([value.as_py()], value.type))[0], rows)
    return plain_list(_as_one_array(value))


def _as_one_array(value: Value) -> pa.Array:
    return pa.concat_arrays(value.chunks) if isinstance(value, pa.ChunkedArray) else value


def _typed(made: list[Any], call: Call) -> pa.Array:
    try:
        return arrow_column(made, call.type)
    except MemoryError:
        raise
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        for value in made:
            try:
                arrow_column([value], call.type)
            except MemoryError:
                raise
            except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                reason = f"returned {shown(value)}, which is not {call.type}"
                reason += f": {error}" if holds_times(call.type) else ""
                raise EvaluationError(str(call), reason) from None
        raise


def _vectorised(function: Any, values: Sequence[Value], call: Call) -> Value:
    is_constant = all(isinstance(v, pa.Scalar) for v in values)
    rows = max((len(v) for v in values if not isinstance(v, pa.Scalar)), default=1)
    arrays = [pa.repeat(v, rows) if isinstance(v, pa.Scalar) else _as_one_array(v) for v in values]
    try:
        made = as_column(function(*arrays), call.type) if rows else pa.nulls(0, call.type)
    except INTERRUPTS:
        raise
    except RAISED as error:
        reason = f"raised {reason_of(error)} at {line_of(error)}"
        raise EvaluationError(str(call), reason) from error
    if len(made) != rows:
        reason = f"returned {len(made)} values for {rows} rows"
        raise EvaluationError(str(call), reason)
    return made[0] if is_constant else made


def _show(call: Call) -> str:
    return f"{call.option('code').name}({', '.join(bare(arg) for arg in call.args)})"


FUNCTION = Function("a function", _resolve, _evaluate, _show)

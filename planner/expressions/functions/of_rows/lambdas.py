"""Functions of lists that take an expression of their elements: transform, filter and reduce.

The expression is in the option ``body``. The option ``names`` has the names of its parameters: the
element and its index, or the result so far and the element. If the body reads columns of the row,
these are further arguments of the call, and the body reads the k-th of them as ``@k``. So rules
that rename, move or drop columns need not inspect the body. The body is evaluated once for all
elements of a batch.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner.errors import InvalidPlanError
from planner.expressions.entries.signature import arg_types
from planner.expressions.functions.of_rows.lists import (
    as_list,
    flat,
    lengths_of,
    null_mask,
    rebuilt,
    with_rows,
)
from planner.expressions.nodes import (
    Call,
    Column,
    Function,
    Node,
    calls_user,
    cast_to,
    rename_columns,
    resolve,
)
from planner.expressions.types import common_type, is_list

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Nesting depth of lambdas while they are built, so that nested parameters have different names.
_depth: ContextVar[int] = ContextVar("lambda_depth", default=0)


def lambda_call(
    function: str, args: Sequence[Node], roles: Sequence[str], made: Callable[..., Node]
) -> Call:
    """Build the call of a function; ``made`` builds the body from a column per parameter.

    Raises:
        InvalidPlanError: the body calls Python code.
    """
    token = _depth.set(_depth.get() + 1)
    try:
        names = tuple(f"@{role}{_depth.get()}" for role in roles)
        body = made(*map(Column, names))
    finally:
        _depth.reset(token)
    if calls_user(body):
        raise InvalidPlanError(f"{function}: a function over list elements cannot call Python code")
    read = [name for name in body.columns() if name not in names]
    renamed = rename_columns(body, {name: Column(f"@{k}") for k, name in enumerate(read)})
    options = (("body", renamed), ("names", names))
    return Call(function, (*args, *map(Column, read)), options)


def body_of(call: Call) -> Node:
    """Return the expression that is evaluated for each element."""
    body: Node = call.option("body")
    return body


def _resolved(call: Call, kinds: Sequence[pa.DataType], own: int) -> Node:
    """Resolve the body: its parameters have ``kinds``, captured columns follow the ``own`` args."""
    names = call.option("names")
    fields = list(zip(names, kinds, strict=True))
    fields += [(f"@{k}", kind) for k, kind in enumerate(arg_types(call)[own:])]
    return resolve(body_of(call), pa.schema(fields))


def _with_body(call: Call, body: Node, kind: pa.DataType) -> Call:
    options = (("body", body), ("names", call.option("names")))
    return replace(call, options=options, type=kind)


def _kinds(call: Call, kind: pa.DataType) -> list[pa.DataType]:
    return [kind.value_type, pa.int64()][: len(call.option("names"))]


def _resolve_transform(call: Call) -> Node | None:
    kind = arg_types(call)[0]
    if not is_list(kind):
        return None
    body = _resolved(call, _kinds(call, kind), 1)
    assert body.type is not None
    return None if pa.types.is_null(body.type) else _with_body(call, body, pa.list_(body.type))


def _resolve_filter(call: Call) -> Node | None:
    kind = arg_types(call)[0]
    if not is_list(kind):
        return None
    body = _resolved(call, _kinds(call, kind), 1)
    if body.type != pa.bool_():
        raise InvalidPlanError(f"{call}: the condition is {body.type}, not bool")
    return _with_body(call, body, pa.list_(kind.value_type))


def _resolve_reduce(call: Call) -> Node | None:
    kind, start = arg_types(call)[:2]
    if not is_list(kind):
        return None
    body = _resolved(call, [start, kind.value_type], 2)
    assert body.type is not None
    if body.type != start and common_type(start, body.type) == body.type:
        body = _resolved(call, [body.type, kind.value_type], 2)
        start = body.type
    listed, first, *others = call.args
    again = _resolved(call, [start, kind.value_type], 2)
    if again.type != start or pa.types.is_null(start):
        return None
    return _with_body(replace(call, args=(listed, cast_to(first, start), *others)), body, start)


def _batch(
    call: Call, values: Sequence[pa.Array], captured: Sequence[pa.Array], rows: np.ndarray
) -> pa.RecordBatch:
    """Return the batch that the body reads; ``rows``: the row number of each of ``values``."""
    at = pa.array(rows)
    names = [*call.option("names"), *(f"@{k}" for k in range(len(captured)))]
    return pa.RecordBatch.from_arrays([*values, *(c.take(at) for c in captured)], names=names)


def _of_elements(arrays: list[pa.Array], call: Call) -> tuple[pa.Array, pa.Array, np.ndarray, Any]:
    """Return the lists, their elements, the row of each element, and the body's value for each."""
    lists = as_list(arrays[0])
    elements, rows = flat(lists)
    lengths = lengths_of(lists)
    places = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    values = [elements, pa.array(places, pa.int64())][: len(call.option("names"))]
    return lists, elements, rows, body_of(call).evaluate(_batch(call, values, arrays[1:], rows))


def _transform(arrays: list[pa.Array], call: Call) -> pa.Array:
    lists, _, _, made = _of_elements(arrays, call)
    return rebuilt(lengths_of(lists), made, call, null_mask(lists))


def _filter(arrays: list[pa.Array], call: Call) -> pa.Array:
    lists, elements, rows, made = _of_elements(arrays, call)
    kept = pc.fill_null(made, False)
    at = rows[kept.to_numpy(zero_copy_only=False)]
    lengths = np.bincount(at, minlength=len(lists))
    return rebuilt(lengths, elements.filter(kept), call, null_mask(lists))


def _reduce(arrays: list[pa.Array], call: Call) -> pa.Array:
    """Reduce all lists at the same time: first their first elements, then the second, and so on."""
    listed, so_far, *captured = arrays
    lists = as_list(listed)
    lengths = lengths_of(lists)
    elements, _ = flat(lists)
    starts = np.cumsum(lengths) - lengths
    for place in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > place)
        values = [so_far.take(pa.array(rows)), elements.take(pa.array(starts[rows] + place))]
        made = body_of(call).evaluate(_batch(call, values, captured, rows))
        at = np.arange(len(lists))
        at[rows] = len(lists) + np.arange(len(rows))
        so_far = pa.concat_arrays([so_far, made]).take(pa.array(at))
    at = pa.array(np.arange(len(lists)), mask=null_mask(lists))
    return so_far.take(at)


def _shown(method: str, own: int) -> Callable[[Call], str]:
    """Format as ``l.list.transform(element1 -> (element1 + x))``."""

    def show(call: Call) -> str:
        first, *others = call.args[:own]
        names = call.option("names")
        known = {f"@{k}": arg for k, arg in enumerate(call.args[own:])}
        known |= {name: Column(name.removeprefix("@")) for name in names}
        body = rename_columns(body_of(call), known)
        parameters = ", ".join(name.removeprefix("@") for name in names)
        more = "".join(f"{arg}, " for arg in others)
        return f"{first}.list.{method}({more}{parameters} -> {body})"

    return show


FUNCTIONS = {
    "list_transform": Function(
        "list.transform", _resolve_transform, with_rows(_transform), _shown("transform", 1)
    ),
    "list_filter": Function(
        "list.filter", _resolve_filter, with_rows(_filter), _shown("filter", 1)
    ),
    "list_reduce": Function(
        "list.reduce", _resolve_reduce, with_rows(_reduce), _shown("reduce", 2)
    ),
}
#: The number of a function's own arguments; further arguments are columns that its body reads.
OWN_ARGUMENTS = {"list_transform": 1, "list_filter": 1, "list_reduce": 2}

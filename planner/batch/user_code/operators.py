"""A user's operator in a batch: it gets all events at once, or one by one if some may be poison.

It gets the events of its key (of the whole stream, if it has none) and the end, CTI(INF). Earlier
CTIs of the stream are left out: the output of an operator must not depend on them.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from planner.expressions.spark.errors import UnsupportedInBatchError
from rstream.items.batch import event_schema
from rstream.types import INF_TIME
from rvertex.user_code.code import NOT_POISON
from rvertex.user_code.errors import RAISED, UserResultError, line_of, reason_of
from rvertex.user_code.result import declared_columns, result_columns

if TYPE_CHECKING:
    from rvertex.operators.user.transform import UserOperator


class _Context:
    """The context of an operator: reading outside values is an error."""

    def __init__(self, name: str) -> None:
        self._name = name

    def now(self) -> Any:
        """Raise an error: a batch has no recorded clock, randomness or lookups."""
        raise UnsupportedInBatchError(
            self._name, "a batch would get other outside values than the job recorded"
        )

    random = now

    def lookup(self, function: Any, key: Any) -> Any:
        """Raise an error: a batch has no recorded clock, randomness or lookups."""
        return self.now()


def operator_rows(spec: UserOperator, events: pa.RecordBatch) -> pa.RecordBatch:
    """Call the operator with ``events`` in order, then with the end; return all its output."""
    name, schema = spec.code.name, event_schema(spec.schema)
    target = _opened(spec)
    results: list[Any] = []
    try:
        if spec.on_error == "fail":
            results.append(target.execute(events, [INF_TIME]))
        else:
            for at in range(events.num_rows):
                target = _passed(spec, target, events.slice(at, 1), results)
            results.append(target.execute(events.slice(0, 0), [INF_TIME]))
        batches = [_rows(name, result, schema) for result in results if _given(result) is not None]
    except (*NOT_POISON, UnsupportedInBatchError, UserResultError):
        raise
    except RAISED as error:
        raise UserResultError(name, f"raised {reason_of(error)} at {line_of(error)}") from error
    table = pa.Table.from_batches(batches, schema).combine_chunks()
    return table.to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], schema)


def _opened(spec: UserOperator) -> Any:
    target = spec.code.target
    made = target() if isinstance(target, type) else copy.deepcopy(target)
    if hasattr(made, "open"):
        made.open(_Context(spec.code.name))
    return made


def _passed(spec: UserOperator, target: Any, event: pa.RecordBatch, results: list[Any]) -> Any:
    """Pass one event to the operator; return it, in its former state if it raised."""
    before = copy.deepcopy(target.get_snapshot())
    try:
        results.append(target.execute(event, []))
    except (*NOT_POISON, UnsupportedInBatchError, UserResultError):
        raise
    except RAISED:
        target = _opened(spec)
        target.load(before)
    return target


def _given(result: Any) -> Any:
    """Return only the rows of a result that may also have CTIs."""
    return result[0] if isinstance(result, tuple) else result


def _rows(name: str, result: Any, schema: pa.Schema) -> pa.RecordBatch:
    columns = result_columns(name, _given(result))
    return pa.RecordBatch.from_arrays(declared_columns(name, columns, schema, None), schema=schema)

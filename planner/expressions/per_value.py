"""Expressions over one text column, computed once per value of its dictionary.

If a column is carried as a dictionary (:mod:`planner.physical.dictionaries`), an expression that
depends only on this column is computed once per value, and once for null, and results are taken by
index. They are reused while batches share the dictionary.

Invariants: (1) the result equals the expression on every row; (2) if the expression fails on a
value, it is computed row by row, since the value may occur in no row; (3) users' functions are
called for rows only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from planner.errors import EvaluationError
from planner.expressions.nodes import Call, Node, Value, as_array, calls_user
from rstream.items.dictionaries import Known, is_dictionary, plain_array, remembered

if TYPE_CHECKING:
    from collections.abc import Collection

_REMEMBERED_MAX = 64


@dataclass(frozen=True, slots=True)
class PerValue(Node):
    """``tree``, which reads only ``column``; as a dictionary, if ``type`` is one."""

    tree: Node
    column: str
    type: pa.DataType | None

    def value(self, batch: pa.RecordBatch) -> Value:
        column = batch.column(self.column)
        found = self._by_value(column) if is_dictionary(column.type) else None
        if found is not None:
            return found
        assert self.tree.type is not None
        rows = as_array(self.tree.value(batch), batch.num_rows, self.tree.type)
        return rows if rows.type == self.type else rows.dictionary_encode().cast(self.type)

    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def _by_value(self, column: pa.DictionaryArray) -> pa.Array | None:
        known = Known(column.dictionary)
        if known.is_small:
            results = _results(self.tree, self.column, known)
        elif len(known.values) <= len(column):
            results = _results.__wrapped__(self.tree, self.column, known)
        else:
            return None
        if results is None:
            return None
        at = column.indices
        if at.null_count:
            at = at.fill_null(len(known.values))
        if is_dictionary(results.type) and not is_dictionary(self.type):
            return plain_array(results.take(at))
        return results.take(at)

    def __str__(self) -> str:
        return str(self.tree)


def by_value(node: Node, carried: Collection[str]) -> Node:
    """Return the resolved ``node``; parts that read only one ``carried`` column work per value."""
    if not isinstance(node, Call):
        return node
    read = node.columns()
    if len(read) == 1 and read[0] in carried and not calls_user(node):
        return PerValue(node, read[0], node.type)
    return replace(node, args=tuple(by_value(arg, carried) for arg in node.args))


def as_dictionary(node: Node) -> Node:
    """Type text that is computed per value as a dictionary; return other nodes unchanged."""
    if isinstance(node, PerValue) and node.type == pa.string():
        return replace(node, type=pa.dictionary(pa.int32(), pa.string()))
    return node


@remembered(_REMEMBERED_MAX)
def _results(tree: Node, column: str, known: Known) -> pa.Array | None:
    """Return a result per dictionary value, the last one for null; None: a value failed."""
    values = pa.concat_arrays([known.values, pa.nulls(1, known.values.type)])
    rows = pa.RecordBatch.from_arrays([values], names=[column])
    assert tree.type is not None
    try:
        results = as_array(tree.value(rows), len(values), tree.type)
    except EvaluationError:
        return None
    return results.dictionary_encode() if pa.types.is_string(results.type) else results

"""EXPLODE: one row per element of a list column. Lifetimes and CTIs (watermarks) are unchanged.

The elements get the list column's position and name, in list order; the other columns are repeated.
A null or empty list yields no row, as in SQL's ``explode``; a null element yields a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rstream.items.batch import event_schema
from rvertex.errors import OperatorTypeError, UnknownColumnError
from rvertex.events.run import Run
from rvertex.operators.horizon import RowByRow
from rvertex.operators.protocol import Stateless

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Explode(RowByRow):
    """Unnests the list column ``column``."""

    holds_ctis: ClassVar[bool] = False

    column: str

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return the input's schema, with the list column replaced by its element type.

        Raises:
            UnknownColumnError: there is no such column.
            OperatorTypeError: the column is not a list.
        """
        (payload,) = inputs
        at = payload.get_field_index(self.column)
        if at < 0:
            raise UnknownColumnError("explode", self.column, tuple(payload.names))
        kind = payload.field(at).type
        if not _is_list(kind):
            raise OperatorTypeError("explode", f"column {self.column!r} is {kind}, not a list")
        return payload.set(at, pa.field(self.column, kind.value_type))

    def open(self, inputs: Sequence[pa.Schema]) -> ExplodeOperator:
        """Open the operator; it has no state."""
        return ExplodeOperator(self.column, event_schema(self.output_schema(inputs)))


class ExplodeOperator(Stateless):
    """The running operator of :class:`Explode`."""

    def __init__(self, column: str, schema: pa.Schema) -> None:
        self._column = column
        self._schema = schema

    def process(self, ports: Sequence[Run]) -> Run:
        """Repeat each row once per element of its list."""
        (run,) = ports
        lists = run.events.column(self._column)
        # ``list_parent_indices`` would include elements under null lists, ``list_flatten`` does
        # not.
        lengths = pc.fill_null(pc.list_value_length(lists), 0)
        parents = pa.array(np.repeat(np.arange(len(lists)), lengths))
        elements = pc.list_flatten(lists)
        arrays = [
            elements if name == self._column else run.events.column(name).take(parents)
            for name in self._schema.names
        ]
        return Run(pa.RecordBatch.from_arrays(arrays, schema=self._schema), run.ctis)


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))

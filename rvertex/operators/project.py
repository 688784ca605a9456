"""PROJECT: compute the output's payload columns, row by row. Lifetimes and CTIs are unchanged.

``select``, ``with_columns``, renaming and dropping are projections. An output column that is an
input column is passed by reference, so a projection of only such columns copies nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from rstream.items.batch import VE, VS, empty_events, event_schema
from rvertex.errors import UnknownColumnError
from rvertex.events.lifetime import begun
from rvertex.events.run import Run
from rvertex.operators.horizon import RowByRow
from rvertex.operators.protocol import Evaluator, Stateless, evaluate_all

if TYPE_CHECKING:
    from collections.abc import Sequence

Column = tuple[str, Evaluator | str]


@dataclass(frozen=True, slots=True)
class Project(RowByRow):
    """Output columns in order: a name, and an expression or the name of an input column."""

    holds_ctis: ClassVar[bool] = False

    columns: tuple[Column, ...]
    #: Whether expressions read row starts and the input has end edges, whose start is in ``_ve``.
    edges: bool = False

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return the output's columns, with types from the expressions.

        Raises:
            UnknownColumnError: a source column that the input does not have.
        """
        (payload,) = inputs
        empty = empty_events(payload)
        return pa.schema([(name, self._type_of(source, empty)) for name, source in self.columns])

    def open(self, inputs: Sequence[pa.Schema]) -> ProjectOperator:
        """Open the operator; it has no state."""
        schema = event_schema(self.output_schema(inputs))
        return ProjectOperator(self.columns, schema, edges=self.edges)

    @staticmethod
    def _type_of(source: Evaluator | str, empty: pa.RecordBatch) -> pa.DataType:
        if not isinstance(source, str):
            return source.evaluate(empty).type
        if source not in empty.schema.names:
            raise UnknownColumnError("select", source, tuple(empty.schema.names[2:]))
        return empty.schema.field(source).type


class ProjectOperator(Stateless):
    """The running operator of :class:`Project`."""

    def __init__(
        self, columns: tuple[Column, ...], schema: pa.Schema, *, edges: bool = False
    ) -> None:
        self._columns = columns
        self._edges = edges
        self._evaluators = [source for _, source in columns if not isinstance(source, str)]
        self._schema = schema

    def process(self, ports: Sequence[Run]) -> Run:
        """Compute the expressions. Columns that are input columns are shared with the input."""
        (run,) = ports
        events = run.events
        computed = iter(evaluate_all(self._evaluators, begun(events) if self._edges else events))
        arrays = [events.column(VS), events.column(VE)]
        for _, source in self._columns:
            arrays.append(events.column(source) if isinstance(source, str) else next(computed))
        return Run(pa.RecordBatch.from_arrays(arrays, schema=self._schema), run.ctis)

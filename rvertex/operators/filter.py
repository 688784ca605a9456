"""FILTER: keep the events whose predicate is true; null counts as false. CTIs (watermarks) pass.

If the predicate is total, the source may evaluate it instead of a filter that follows directly
(``planner/physical/rules/filter_early.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from rstream.items.batch import empty_events
from rvertex.errors import OperatorTypeError
from rvertex.events.lifetime import begun
from rvertex.events.run import Run
from rvertex.operators.horizon import RowByRow
from rvertex.operators.protocol import Evaluator, Stateless

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Filter(RowByRow):
    """Keeps events for which ``predicate`` evaluates to true."""

    holds_ctis: ClassVar[bool] = False

    predicate: Evaluator
    #: Whether the predicate never raises and reads no lifetime, so that rows need not be sorted
    #: first.
    is_total: bool = False
    #: Whether the predicate reads row starts and the input has end edges, whose start is in
    #: ``_ve``.
    edges: bool = False

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return the input's schema.

        Raises:
            OperatorTypeError: the predicate is not boolean.
        """
        (payload,) = inputs
        kind = self.predicate.evaluate(empty_events(payload)).type
        if not pa.types.is_boolean(kind):
            raise OperatorTypeError("filter", f"needs a boolean, got {kind}")
        return payload

    def open(self, inputs: Sequence[pa.Schema]) -> FilterOperator:
        """Open the operator; it has no state."""
        return FilterOperator(self.predicate, edges=self.edges)


class FilterOperator(Stateless):
    """The running operator of :class:`Filter`."""

    def __init__(self, predicate: Evaluator, *, edges: bool = False) -> None:
        self._predicate = predicate
        self._edges = edges

    def process(self, ports: Sequence[Run]) -> Run:
        """Filter the events; no copy if all or none are kept."""
        (run,) = ports
        rows = run.events.num_rows
        if rows == 0:
            return run
        mask = self._predicate.evaluate(begun(run.events) if self._edges else run.events)
        kept = mask.true_count
        if kept == rows:
            return run
        if kept == 0:
            return Run(run.events.slice(0, 0), run.ctis)
        return Run(run.events.filter(mask), run.ctis)

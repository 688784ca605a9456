"""FILTER: keep the events whose predicate is true; null counts as false. CTIs pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from rstream.batch import empty_events
from rvertex.errors import OperatorTypeError
from rvertex.horizon import RowByRow
from rvertex.operators.protocol import Evaluator, Stateless
from rvertex.run import Run

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Filter(RowByRow):
    """Keeps events for which ``predicate`` evaluates to true."""

    predicate: Evaluator

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The input's schema.

        Raises:
            OperatorTypeError: the predicate is not boolean.
        """
        (payload,) = inputs
        kind = self.predicate.evaluate(empty_events(payload)).type
        if not pa.types.is_boolean(kind):
            raise OperatorTypeError("filter", f"needs a boolean, got {kind}")
        return payload

    def open(self, inputs: Sequence[pa.Schema]) -> FilterOperator:
        """A filter; it has no state."""
        return FilterOperator(self.predicate)


class FilterOperator(Stateless):
    """See :class:`Filter`."""

    def __init__(self, predicate: Evaluator) -> None:
        self._predicate = predicate

    def process(self, ports: Sequence[Run]) -> Run:
        """Keep or drop; zero copy where all or none are kept."""
        (run,) = ports
        rows = run.events.num_rows
        if rows == 0:
            return run
        mask = self._predicate.evaluate(run.events)
        kept = mask.true_count
        if kept == rows:
            return run
        if kept == 0:
            return Run(run.events.slice(0, 0), run.ctis)
        return Run(run.events.filter(mask), run.ctis)

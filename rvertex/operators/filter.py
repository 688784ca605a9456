"""FILTER: keep the events whose predicate is true; null counts as false. CTIs pass.

A source asks a predicate that is total before it orders its rows: what the filter would drop need
not be sorted. A stable sort of what is kept is what is kept of the sorted, so the output is equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from rstream.items.batch import empty_events
from rvertex.errors import OperatorTypeError
from rvertex.events.run import Run
from rvertex.operators.horizon import RowByRow
from rvertex.operators.protocol import Evaluator, Stateless

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Filter(RowByRow):
    """Keeps events for which ``predicate`` evaluates to true."""

    predicate: Evaluator
    #: It fails for no row and reads no lifetime, so it may be asked before rows are ordered.
    is_total: bool = False

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


class Kept(Stateless):
    """In place of a filter whose predicate the source has asked before."""

    def process(self, ports: Sequence[Run]) -> Run:
        """All of it."""
        (run,) = ports
        return run


def asked_early(operators: Sequence[object]) -> Evaluator | None:
    """The predicate that a source with these operators behind it asks before it orders rows."""
    first = operators[0] if operators else None
    return first.predicate if isinstance(first, Filter) and first.is_total else None

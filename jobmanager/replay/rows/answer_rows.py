"""Finds the rows of a job's result that satisfy a condition, each with its stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from jobmanager.delivery.deliveries import output_form
from jobmanager.replay.conditions import Condition
from jobmanager.replay.errors import NoSuchRowError
from rstream.items.batch import VE, VS, int64_column, item_schema, only_events, widened
from rstream.items.dictionaries import as_declared
from rstream.items.edges import is_end
from rstream.log.reader import open_reader
from rstream.store.blobs import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from planner.physical.plan import PhysicalPlan

_SHOWN_MAX = 3


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """One event of the result: its stream, and a row with ``_vs``, ``_ve`` and the payload."""

    stream: str
    event: pa.RecordBatch


class AnswerCondition:
    """A SQL condition on the result rows of a plan, in the form of the output files."""

    def __init__(self, plan: PhysicalPlan, text: str) -> None:
        """Parse the condition for the result of a plan. Raises InvalidConditionError."""
        self._condition = Condition(text, plan.schema, plan.changes or output_form(plan))
        self._has_edges = plan.changes is not None

    def mask(self, events: pa.RecordBatch, *, not_: bool = False) -> np.ndarray:
        """Return for which events the condition is true, bool[n]; with ``not_``, for which not.

        Ends of open rows are never among them.
        """
        if not self._has_edges:
            return self._condition.mask(events) ^ not_
        ends = is_end(int64_column(events, VS), int64_column(events, VE))
        mask = ~ends
        mask[mask] = self._condition.mask(events.filter(pa.array(~ends))) ^ not_
        return mask

    def shown(self, events: pa.RecordBatch) -> pa.Table:
        """Return the events as rows of the output files."""
        return self._condition.shown(events)


def the_row(plan: PhysicalPlan, condition: AnswerCondition) -> AnswerRow:
    """Return the only durable result row that satisfies the condition.

    Raises:
        NoSuchRowError: no row satisfies it, or several do.
    """
    matches = [
        AnswerRow(stream, events.slice(at, 1))
        for stream, events in recorded_events(plan)
        for at in condition.mask(events).nonzero()[0].tolist()
    ]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise NoSuchRowError("no row of the answer satisfies the condition")
    shown = [str(condition.shown(row.event).to_pylist()[0]) for row in matches[:_SHOWN_MAX]]
    more = ", ..." if len(matches) > _SHOWN_MAX else ""
    raise NoSuchRowError(
        f"{len(matches):,} rows satisfy the condition; name one of {', '.join(shown)}{more}"
    )


def recorded_events(plan: PhysicalPlan) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the durable events of the result, each batch with its stream.

    A column that a change of the query added is null before the change.
    """
    schema = item_schema(plan.schema)
    for stream, uri in plan.sink_streams():
        reader = open_reader(open_store(uri))
        try:
            while (items := reader.read_next()) is not None:
                yield stream, only_events(as_declared(widened(items.batch, schema), schema))
        finally:
            reader.close()

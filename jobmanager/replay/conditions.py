"""User-written conditions on rows: SQL expressions over the columns that users see."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobmanager.delivery.clean_rows import CleanRows
from jobmanager.replay.errors import InvalidConditionError
from planner import Stream, sql
from planner.logical.nodes import Filter, Source
from planner.logical.traversal import topological
from rstream.errors import UsageError
from rstream.items.batch import event_schema, item_schema
from rstream.items.dictionaries import as_declared, plain_schema

if TYPE_CHECKING:
    from planner.expressions.nodes import Node
    from rstream.format.table import TableForm


class Condition:
    """A SQL expression over the payload columns of events, and their start and end times."""

    def __init__(self, text: str, payload: pa.Schema, form: TableForm | None = None) -> None:
        """Parse a SQL expression over columns of these types.

        ``form``: the names of the time columns in files; None: ``start`` and ``end``.

        Raises:
            InvalidConditionError: the text is not a condition, or names an unknown column.
        """
        self.text = text
        self.payload = plain_schema(payload)
        self.rows = CleanRows(item_schema(self.payload), form)
        self._predicates = _predicates(text, self.rows.schema)

    def mask(self, events: pa.RecordBatch) -> np.ndarray:
        """Return for which events (columns ``_vs, _ve, payload``) it is true, bool[n]."""
        shown = self.shown(events)
        mask = np.ones(events.num_rows, np.bool_)
        for batch in shown.combine_chunks().to_batches():
            for predicate in self._predicates:
                is_met = pc.fill_null(predicate.evaluate(batch), False)
                mask &= np.asarray(is_met.to_numpy(zero_copy_only=False), np.bool_)
        return mask

    def shown(self, events: pa.RecordBatch) -> pa.Table:
        """Return the events as rows that a user reads."""
        declared = as_declared(events, event_schema(self.payload))
        return self.rows.table(pa.Table.from_batches([declared]))


def _predicates(text: str, columns: pa.Schema) -> list[Node]:
    names = ", ".join(columns.names)
    try:
        stream = Stream.from_items(columns, [])
        filtered = sql(f"SELECT * FROM rows WHERE ({text})", {"rows": stream})
    except UsageError as error:
        raise InvalidConditionError(text, str(error), names) from error
    nodes = topological(filtered.plan)
    filters = [node.predicate for node in nodes if isinstance(node, Filter)]
    if not filters or len([n for n in nodes if isinstance(n, Source)]) != 1:
        raise InvalidConditionError(text, "it is not a condition on one row", names)
    return filters

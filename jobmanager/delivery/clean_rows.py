"""Items as the rows that people read: events alone, with the time columns of the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.format.table import TableForm
from rstream.items.batch import EVENT, kinds
from rstream.items.dictionaries import plain_array
from rvertex.sinks.protocol import DeliveredRows

if TYPE_CHECKING:
    from rstream import Items


class CleanRows:
    """Makes delivered rows of one output's items."""

    def __init__(self, items: pa.Schema, form: TableForm | None) -> None:
        """``items``: their schema. ``form``: None where files have a row for every item."""
        self._form = form or _free_form(items.names)
        #: The column that says when a row starts.
        self.start = self._form.start
        #: The columns of the rows.
        self.schema = self._form.file_schema(items)

    def of(self, items: Items) -> DeliveredRows | None:
        """The rows of ``items``; None if there are CTIs alone."""
        at = np.flatnonzero(kinds(items.batch) == EVENT)
        if len(at) == 0:
            return None
        events = items.batch
        if len(at) < events.num_rows:
            events = events.take(pa.array(at))
        payload = [plain_array(column) for column in events.columns[3:]]
        columns = self._form.columns(events, payload)
        table = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return DeliveredRows(items.first_seq, items.next_seq, at + items.first_seq, table)


def _free_form(taken: list[str]) -> TableForm:
    """Time columns of names that no column has."""
    start, end = "start", "end"
    while start in taken or end in taken:  # ends: taken is finite
        start, end = f"event_{start}", f"event_{end}"
    return TableForm(start, end)

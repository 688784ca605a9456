"""Converts items to rows for users: events without watermarks, with the result's time columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.format.table import TableForm
from rstream.items.batch import EVENT, KIND, VE, VS, int64_column, kinds, widened
from rstream.items.dictionaries import plain_array
from rstream.items.edges import is_end
from rstream.items.hashing import hash_rows
from rvertex.events.lifetime import with_times
from rvertex.sinks.errors import OutputChangedError
from rvertex.sinks.protocol import OP, DeliveredRows

if TYPE_CHECKING:
    from rstream import Items


class CleanRows:
    """Converts the items of one output to the rows that are delivered."""

    def __init__(
        self, items: pa.Schema, form: TableForm | None, *, has_edges: bool = False
    ) -> None:
        """Convert items with schema ``items``. ``form``: None if files have a row for every item.

        ``has_edges``: a row arrives when it begins, and may arrive again when it ends.
        """
        self._items, self._form = items, form or _free_form(items.names)
        self.has_edges = has_edges
        #: The column with a row's end, if rows may end after they arrive; else None.
        self.end = self._form.end if has_edges else None
        #: The column with a row's start.
        self.start = self._form.start
        #: The columns of the rows.
        self.schema = self._plain = self._form.file_schema(items)
        #: Key columns: an end and a begin with equal keys are an update. None: rows have no ``op``.
        self._op_key: tuple[str, ...] | None = None

    def add_op(self, key: tuple[str, ...]) -> None:
        """Deliver begins and ends as appended rows, each with its kind of change in ``op``."""
        self._op_key, self.end = key, None
        self.schema = self._plain.insert(0, pa.field(OP, pa.string()))

    def of(self, items: Items) -> DeliveredRows | None:
        """Return the rows of ``items``; None if they are all CTIs (watermarks).

        Raises:
            OutputChangedError: the items have columns that this plan does not know.
        """
        if unknown := set(items.batch.schema.names).difference(self._items.names):
            raise OutputChangedError(", ".join(sorted(unknown)))
        at = np.flatnonzero(kinds(items.batch) == EVENT)
        if len(at) == 0:
            return None
        events = widened(items.batch, self._items)
        if len(at) < events.num_rows:
            events = events.take(pa.array(at))
        ends = instants = None
        if self.has_edges:
            vs, ve = int64_column(events, VS), int64_column(events, VE)
            ends, instants = is_end(vs, ve), vs
            events = with_times(events, vs=np.minimum(vs, ve), ve=np.maximum(vs, ve))
        table = self._clean(events)
        seqs = at + items.first_seq
        return DeliveredRows(items.first_seq, items.next_seq, seqs, table, ends, instants)

    def with_op(self, rows: DeliveredRows) -> DeliveredRows:
        """Return the rows as they are written, with ``op`` as first column if they have it."""
        return rows if self._op_key is None else rows.with_op(self._op_key)

    def identities(self, table: pa.RecordBatch) -> list[int]:
        """Return a hash per row, which is equal for the beginning and the end of one row."""
        names = [name for name in table.schema.names if name not in (OP, self._form.end)]
        hashes: list[int] = hash_rows([table.column(n) for n in names], exact=True).tolist()
        return hashes

    def table(self, events: pa.Table) -> pa.Table:
        """Convert events with columns ``_vs, _ve, payload`` to rows, without end edges."""
        kind = pa.array(np.full(events.num_rows, EVENT, np.int8))
        items = events.add_column(0, pa.field(KIND, pa.int8()), kind)
        batches = [self._clean(widened(batch, self._items)) for batch in items.to_batches()]
        return pa.Table.from_batches(batches, schema=self.schema)

    def _clean(self, events: pa.RecordBatch) -> pa.RecordBatch:
        payload = [plain_array(column) for column in events.columns[3:]]
        columns = self._form.columns(events, payload)
        return pa.RecordBatch.from_arrays(columns, schema=self._plain)


def _free_form(taken: list[str]) -> TableForm:
    """Return a form whose time columns have names that are not in ``taken``."""
    start, end = "start", "end"
    while start in taken or end in taken:  # ends: ``taken`` is finite
        start, end = f"event_{start}", f"event_{end}"
    return TableForm(start, end)

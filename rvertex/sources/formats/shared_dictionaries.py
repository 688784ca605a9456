"""Merges the dictionaries of all row groups of a reader into one per column.

A file has a dictionary per row group. A reader appends their values to one dictionary, in which a
value keeps its index. So batches of all row groups share the dictionary, and operators compute
results for its values only once.

Invariants: (1) rows keep their values; (2) a dictionary has at most
:data:`~rstream.items.dictionaries.VALUES_MAX` values; only the dictionary of a single row group may
have more.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from rstream.items.dictionaries import VALUES_MAX, Known, has_dictionaries, is_dictionary


class SharedDictionaries:
    """Makes the batches of one reader share the dictionary of each of their columns."""

    def __init__(self) -> None:
        self._known: dict[str, pa.Array] = {}

    def share(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Re-encode rows with the dictionaries of earlier batches where that is possible."""
        if not has_dictionaries(batch.schema):
            return batch
        columns = [
            self._shared(field.name, column) if is_dictionary(field.type) else column
            for field, column in zip(batch.schema, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def _shared(self, name: str, column: pa.DictionaryArray) -> pa.DictionaryArray:
        values = column.dictionary
        known = self._known.setdefault(name, values)
        if Known(known) == Known(values):
            return column
        if known.equals(values):
            return pa.DictionaryArray.from_arrays(column.indices, known)
        new = values.filter(pc.invert(pc.is_in(values, value_set=known)))
        if len(known) + len(new) > max(VALUES_MAX, len(values)):
            self._known[name] = values
            return column
        if len(new):
            known = self._known[name] = pa.concat_arrays([known, new])
        at = pc.index_in(values, value_set=known)
        return pa.DictionaryArray.from_arrays(at.take(column.indices), known)

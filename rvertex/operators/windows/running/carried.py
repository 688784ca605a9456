"""State that running results carry from one time of a key to the next: lanes, and known values.

:class:`CarriedLanes` merges new lanes into the stored ones. A count of distinct values cannot be
merged in constant space, so it is computed in two steps. :class:`NewValues` marks each row whose
value is new to its key, and the marks are counted by an ordinary count.

Invariants: (1) the steps of a key are merged one after another, so no sum depends on batch
boundaries; (2) a call takes amortised time in its steps and keys, times the most steps of a key.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import VS, int64_column
from rstream.items.dictionaries import plain_array, plain_type
from rvertex.aggregates.accumulators import Rows
from rvertex.events.arrays import as_one_array, numbers
from rvertex.events.group_arrays import ArrowStore
from rvertex.events.group_scan import heads_of
from rvertex.keys.key_table import KeyTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rvertex.aggregates.function import Lane
    from rvertex.aggregates.spec import AggregateSpec


class CarriedLanes:
    """Stores, by key, the lanes of all earlier rows."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._lanes = tuple(lanes)
        self._fields = [field for lane in lanes for field in lane.fields]
        self._stores = [ArrowStore(field.type) for field in self._fields]

    def merged(
        self,
        code: np.ndarray,
        time: np.ndarray,
        partial: list[pa.Array],
        keys: int,
        begins: np.ndarray | None = None,
    ) -> list[pa.Array]:
        """Return the lanes after each step, and store the last lanes of each key.

        ``code``, ``time`` int64[n]: key and time of each step; the steps of a key are in order. A
        step with ``begins`` bool[n] true ignores the steps before it.
        """
        if begins is None:
            begins = np.zeros(len(code), bool)
        given = self._batch(time, partial)
        known = min(store.grow(keys) for store in self._stores)
        by_key = np.argsort(code, kind="stable")
        start = np.flatnonzero(heads_of(code[by_key]))
        length = np.diff(np.append(start, len(by_key)))
        longest = np.argsort(-length, kind="stable")
        start, length = start[longest], length[longest]
        key = code[by_key[start]]
        had = np.flatnonzero((key < known) & ~begins[by_key[start]])
        before = [store.values(key[had]) for store in self._stores]
        carried = self._batch(np.zeros(len(had), np.int64), before)
        merged: list[pa.RecordBatch] = []
        steps: list[np.ndarray] = []
        for turn in range(int(length[0])):
            now = by_key[start[: int((length > turn).sum())] + turn]
            if turn:
                had = np.flatnonzero(~begins[now])
                # ``take`` makes a copy only if a step ``begins``
                carried = merged[-1].slice(0, len(now))
                carried = carried if len(had) == len(now) else carried.take(pa.array(had))
            merged.append(self._folded(carried, had, given.take(pa.array(now))))
            steps.append(now)
        place = np.empty(len(code), np.int64)
        place[np.concatenate(steps)] = np.arange(len(code))
        made = pa.concat_batches(merged).take(pa.array(place))
        last = pa.array(by_key[start + length - 1])
        for store, column in zip(self._stores, made.columns[1:], strict=True):
            store.put(key, column.take(last))
        lanes: list[pa.Array] = made.columns[1:]
        return lanes

    def keep(self, codes: np.ndarray) -> None:
        """Renumber key ``codes[i]`` to i and drop all other keys."""
        for store in self._stores:
            store.adopt(store.values(codes))

    def save(self) -> dict[str, pa.Table]:
        """Return the stored lanes, by reference."""
        tables: dict[str, pa.Table] = {}
        for i, store in enumerate(self._stores):
            values, at = store.save()
            tables |= {f"carried{i}": pa.table({"c": values}), f"at{i}": pa.table({"c": at})}
        return tables

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Restore the state that ``save`` returned."""
        for i, store in enumerate(self._stores):
            at = numbers(as_one_array(tables[f"at{i}"].column(0)))
            store.restore(tables[f"carried{i}"].column(0), at)

    def _folded(
        self, carried: pa.RecordBatch, had: np.ndarray, given: pa.RecordBatch
    ) -> pa.RecordBatch:
        """Merge each row of ``given`` into row ``had`` of ``carried``."""
        rows = pa.concat_batches([carried, given]) if len(had) else given
        codes = np.concatenate([had, np.arange(given.num_rows)])
        lanes: list[pa.Array] = []
        merging = Rows(codes, given.num_rows, rows)
        for lane in self._lanes:
            merger = lane.merger()
            merger.update(merging)
            lanes += merger.columns()
        return self._batch(int64_column(given, VS), lanes)

    def _batch(self, time: np.ndarray, lanes: list[pa.Array]) -> pa.RecordBatch:
        schema = pa.schema([pa.field(VS, pa.int64()), *self._fields])
        return pa.RecordBatch.from_arrays([pa.array(time), *lanes], schema=schema)


class NewValues:
    """Marks values that are new to their key, for each column with ``count_distinct``."""

    def __init__(self, aggregates: Sequence[AggregateSpec], payload: pa.Schema) -> None:
        distinct = [a.column for a in aggregates if a.function == "count_distinct"]
        #: By column with ``count_distinct``: the name of the column with its marks.
        self.columns = {c: _marks(c, payload) for c in distinct if c is not None}
        self._known = {
            column: KeyTable((pa.int64(), plain_type(payload.field(column).type)))
            for column in self.columns
        }
        #: The aggregates, rewritten to count marks.
        self.aggregates = tuple(self._counted(a) for a in aggregates)
        marks = [pa.field(name, pa.int64()) for name in self.columns.values()]
        #: The schema of rows with marks.
        self.payload = pa.schema([*payload, *marks])

    def marked(self, rows: pa.RecordBatch, codes: np.ndarray) -> pa.RecordBatch:
        """Return ``rows``, of keys ``codes``, with a mark where a value is new to its key."""
        for column, mark in self.columns.items():
            values = plain_array(rows.column(column))
            valid = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
            table = self._known[column]
            known = len(table)
            pairs = [pa.array(codes[valid]), values.take(pa.array(valid))]
            codes_of_pairs = table.codes(pairs, len(valid))
            at = np.flatnonzero(codes_of_pairs >= known)
            _, first = np.unique(codes_of_pairs[at], return_index=True)
            is_new = np.zeros(len(codes), bool)
            is_new[valid[at[first]]] = True
            marks = pa.array(np.ones(len(codes), np.int64), mask=~is_new)
            rows = rows.append_column(mark, marks)
        return rows

    def is_crowded(self) -> bool:
        """Return whether enough values were added since the last :meth:`keep` for another call."""
        return any(table.is_crowded() for table in self._known.values())

    def keep(self, codes: np.ndarray) -> None:
        """Drop the values of all codes except ``codes``, which are not renumbered."""
        for table in self._known.values():
            of = numbers(table.keys()[0])
            table.keep(np.flatnonzero(np.isin(of, codes)))

    def save(self) -> dict[str, pa.Table]:
        """Return the known values of all keys, by reference."""
        return {
            f"seen{i}.{name}": table
            for i, values in enumerate(self._known.values())
            for name, table in values.save().items()
        }

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Restore the state that ``save`` returned."""
        for i, values in enumerate(self._known.values()):
            start = f"seen{i}."
            values.restore(
                {n.removeprefix(start): t for n, t in tables.items() if n[: len(start)] == start}
            )

    def _counted(self, aggregate: AggregateSpec) -> AggregateSpec:
        """Rewrite ``count_distinct`` to a count of marks."""
        if aggregate.function != "count_distinct" or aggregate.column is None:
            return aggregate
        return replace(aggregate, function="count", column=self.columns[aggregate.column])


def _marks(column: str, payload: pa.Schema) -> str:
    """Return an unused column name for the marks of ``column``."""
    name = f"@first({column})"
    while name in payload.names:  # ends: there are finitely many names
        name += "_"
    return name

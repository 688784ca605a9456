"""One result per key that lives until it changes; a step emits the net change of each instant.

Invariants: (1) an equal new result does not end the old one, unless ``renews``; (2) an end edge has
the payload and the start of the result that ends; (3) results at one instant are sorted by key,
ends first; (4) a key keeps the value of its first live row, since -0.0 equals 0.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.edges import identities
from rstream.types import INF_TIME
from rvertex.events.arrays import as_one_array, numbers
from rvertex.events.group_arrays import ArrowStore, GroupArray
from rvertex.events.group_scan import group_start, heads_of
from rvertex.keys.sort_keys import sorted_keys
from rvertex.operators.edges.emitted import Edges, in_order

if TYPE_CHECKING:
    from collections.abc import Mapping


class Results:
    """Results by key code. ``schema``: of their events; the first ``keys`` columns are the key.

    ``renews``: each step of a key ends its result and begins a new one, even if both are equal.
    """

    def __init__(self, schema: pa.Schema, keys: int, *, renews: bool = False) -> None:
        self._renews = renews
        self.schema = schema
        self.payload = pa.schema(list(schema)[2:])
        self._keys = keys
        self._stores = [ArrowStore(kind) for kind in self.payload.types]
        #: Start of the live result of each key; INF_TIME: there is none.
        self._began = GroupArray(np.int64, INF_TIME)

    def living(self) -> np.ndarray:
        """Return the codes that have a live result, increasing."""
        return np.flatnonzero(self._began.read() != INF_TIME)

    def change(
        self,
        codes: np.ndarray,
        times: np.ndarray,
        made: pa.RecordBatch,
        lives: np.ndarray,
        places: np.ndarray | None = None,
    ) -> pa.RecordBatch:
        """Return the events for the results of steps. A step is a key (by its code) and an instant.

        ``codes``, ``times`` int64[n]; ``made``: the payload of each step; ``lives`` bool[n]:
        whether the key has a result after the instant. ``places`` int64[n]: the order of steps at
        one instant; None: the order of keys.
        """
        n = len(codes)
        if n == 0:
            return in_order([], self.schema)
        order = np.lexsort((times, codes))
        codes, times, lives = codes[order], times[order], lives[order]
        heads = heads_of(codes)
        first = np.flatnonzero(heads)
        before = self.values(codes[first])
        # Rows 0 to n - 1 are the steps; the rows after them are the results before the steps.
        rows = pa.concat_batches([made.take(pa.array(order)), before])
        same = identities(rows.columns[self._keys :], rows.num_rows)
        began = self._began.read()[codes[first]]
        lived = np.concatenate([lives, began != INF_TIME])
        former = np.arange(n) - 1
        former[first] = n + np.arange(len(first))
        differs = (lives != lived[former]) | (lives & (self._renews | (same[:n] != same[former])))
        # Per step: the last step up to it that changed the result; if none did, the earlier result.
        changed = np.maximum.accumulate(np.where(differs, np.arange(n), -1))
        group = np.cumsum(heads) - 1
        latest = np.where(changed >= group_start(heads), changed, n + group)
        starts = np.concatenate([np.where(lives, times, INF_TIME), began])
        ended = np.flatnonzero(differs & lived[former])
        fresh = ~heads[ended]
        of = np.where(fresh, latest[np.maximum(ended - 1, 0)], former[ended])
        begun = np.flatnonzero(differs & lives)
        ranks = self._ranks(rows, first, group) if places is None else places[order]
        opened = np.maximum.accumulate(np.where(lives & ~lived[former], np.arange(n), -1))
        key_of = np.where(opened >= group_start(heads), opened, n + group)
        rows = self._with_keys_of(np.append(key_of, former[first]), rows)
        vs = np.concatenate([times[ended], times[begun]])
        ve = np.concatenate([starts[of], np.full(len(begun), INF_TIME)])
        at = np.concatenate([of, begun])
        edges = Edges(vs, ve, (ranks[np.concatenate([ended, begun])],))
        self._keep_latest(rows, codes, latest, np.append(first[1:], n) - 1, starts)
        return in_order([(edges, rows.take(pa.array(at)))], self.schema)

    def keep(self, codes: np.ndarray) -> None:
        """Renumber key ``codes[i]`` to i and drop all other keys."""
        for store in self._stores:
            store.adopt(store.values(codes))
        self._began.adopt(self._began.read()[codes])

    def cover(self, codes: int) -> None:
        """Grow the arrays to ``codes`` entries."""
        for store in self._stores:
            store.grow(codes)
        if codes > len(self._began):
            self._began.writable(codes)

    def save(self) -> dict[str, pa.Table]:
        """Return the results, by reference."""
        tables = {"began": pa.table({"began": self._began.shared()})}
        for i, store in enumerate(self._stores):
            values, at = store.save()
            tables |= {f"result{i}": pa.table({"c": values}), f"place{i}": pa.table({"c": at})}
        return tables

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Restore the state that ``save`` returned."""
        self._began.adopt(numbers(as_one_array(tables["began"].column(0))))
        for i, store in enumerate(self._stores):
            at = numbers(as_one_array(tables[f"place{i}"].column(0)))
            store.restore(tables[f"result{i}"].column(0), at)

    def values(self, codes: np.ndarray) -> pa.RecordBatch:
        """Return the payload of the last result of each code."""
        columns = [store.values(codes) for store in self._stores]
        return pa.RecordBatch.from_arrays(columns, schema=self.payload)

    def _with_keys_of(self, rows_of_keys: np.ndarray, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return ``rows`` with the equal keys of ``rows_of_keys``: a key keeps its first form.

        That matters for -0.0 and 0.0, which are equal.
        """
        at = pa.array(rows_of_keys)
        columns = [
            column.take(at) if i < self._keys and pa.types.is_floating(column.type) else column
            for i, column in enumerate(rows.columns)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=rows.schema)

    def _ranks(self, rows: pa.RecordBatch, first: np.ndarray, group: np.ndarray) -> np.ndarray:
        """Return the rank of each step's key in key order."""
        at = pa.array(first)
        order = sorted_keys([column.take(at) for column in rows.columns[: self._keys]], len(first))
        rank = np.empty(len(first), np.int64)
        rank[order] = np.arange(len(first))
        ranks: np.ndarray = rank[group]
        return ranks

    def _keep_latest(
        self,
        rows: pa.RecordBatch,
        codes: np.ndarray,
        latest: np.ndarray,
        last: np.ndarray,
        starts: np.ndarray,
    ) -> None:
        """Store the last result of each code."""
        at = latest[last]
        for store, column in zip(self._stores, rows.columns, strict=True):
            store.put(codes[last], column.take(pa.array(at)))
        self._began.writable(len(self._began))[codes[last]] = starts[at]

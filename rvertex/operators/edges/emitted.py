"""The output events of one step of an operator on edges, and their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS
from rstream.items.dictionaries import join_batches
from rstream.types import INF_TIME
from rvertex.events.reorder_buffer import empty_batch

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Lives:
    """The lifetimes of rows as far as they are known in a step, int64[n] each.

    ``ends``: INF_TIME if no end is known yet. ``known``: the end that was known at the row's start,
    or INF_TIME. ``ranks``: sort keys for rows at one time.
    """

    starts: np.ndarray
    ends: np.ndarray
    known: np.ndarray
    ranks: tuple[np.ndarray, ...]

    def events(self, lo: int, hi: int) -> Edges:
        """Return the start and end edges of these rows at times in ``[lo, hi)``.

        A row whose end was known at its start becomes an interval, without an end edge.
        """
        place = np.arange(len(self.starts))
        lives = self.starts < self.ends
        begins = lives & (self.starts >= lo) & (self.starts < hi)
        ending = lives & (self.known == INF_TIME) & (self.ends >= lo) & (self.ends < hi)
        first, last = place[begins], place[ending]
        at = np.concatenate([last, first])
        return Edges(
            np.concatenate([self.ends[last], self.starts[first]]),
            np.concatenate([self.starts[last], self.known[first]]),
            tuple(rank[at] for rank in self.ranks),
        )


@dataclass(frozen=True, slots=True)
class Edges:
    """The edges of events: ``_vs``, ``_ve`` and the ranks, int64[n] each."""

    vs: np.ndarray
    ve: np.ndarray
    ranks: tuple[np.ndarray, ...]


def in_order(parts: Sequence[tuple[Edges, pa.RecordBatch]], schema: pa.Schema) -> pa.RecordBatch:
    """Merge events and their payloads into one batch: by time, ends first, then by ranks."""
    parts = [(edges, payload) for edges, payload in parts if len(edges.vs)]
    if not parts:
        return empty_batch(schema)
    vs = np.concatenate([edges.vs for edges, _ in parts])
    ve = np.concatenate([edges.ve for edges, _ in parts])
    levels = [np.concatenate(level) for level in zip(*(e.ranks for e, _ in parts), strict=True)]
    order = np.lexsort((*levels[::-1], ve > vs, vs))
    payload = join_batches([batch for _, batch in parts]).take(pa.array(order))
    columns = [pa.array(vs[order]), pa.array(ve[order]), *payload.columns]
    fields = [schema.field(VS), schema.field(VE), *payload.schema]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

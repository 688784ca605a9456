"""STITCH of rows whose ends are not known yet: equal rows that touch or overlap are one row.

**Rule.** As :mod:`rvertex.operators.lifetimes.stitch` by all columns: a row lives while any equal
row does. It comes when the first of them begins, and its end edge when the last has ended and none
has begun at that instant.

    stitch     in                          out
               start 1 a                   after 1: start 1 a
               end 4 (of 1) a, start 4 a   after 4: nothing, as a lives on
               end 7 (of 4) a              after 7: end 7 (of 1) a

Invariants: (1) events are handled by instant, when it is past; (2) the order is (time, ends first,
row); (3) a step costs time in the rows that begin or end in it, and state is what lives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from rstream.items.batch import VS, event_schema, int64_column
from rstream.items.dictionaries import plain_schema
from rstream.types import INF_TIME
from rvertex.events.run import Run
from rvertex.keys.key_table import KeyTable
from rvertex.keys.sort_keys import sorted_keys
from rvertex.operators.edges.emitted import Lives, in_order
from rvertex.operators.edges.instants import Instants
from rvertex.operators.edges.presence import Presence
from rvertex.operators.protocol import OperatorState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.operators.horizon import Durations


@dataclass(frozen=True, slots=True)
class EdgeStitch:
    """Equal rows as one; by all columns."""

    holds_ctis: ClassVar[bool] = False

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The input's schema."""
        (payload,) = inputs
        return plain_schema(payload)

    def horizon_us(self, durations: Durations) -> int | None:
        """None: rows live for any time."""
        return None

    def output_duration(self, durations: Durations) -> int | None:
        """None, for the same reason."""
        return None

    def open(self, inputs: Sequence[pa.Schema]) -> EdgeStitchOperator:
        """No row yet."""
        (payload,) = inputs
        return EdgeStitchOperator(plain_schema(payload))


class EdgeStitchOperator:
    """See :class:`EdgeStitch`."""

    def __init__(self, payload: pa.Schema) -> None:
        self._payload, self._schema = payload, event_schema(payload)
        self._instants = Instants([payload])
        self._keys = KeyTable(payload.types)
        self._presence = Presence()

    def process(self, ports: Sequence[Run]) -> Run:
        """The events at the instants that are past."""
        lo = self._instants.frontier
        (settled,) = self._instants.take(ports)
        born, died = self._codes(settled.births), self._codes(settled.deaths)
        times = [int64_column(rows, VS) for rows in (settled.births, settled.deaths)]
        deltas = np.repeat([1, -1], [len(born), len(died)])
        self._presence.cover(len(self._keys))
        codes = np.concatenate([born, died])
        spans = self._presence.change(codes, np.concatenate(times), deltas, present=True)
        known = np.full(len(spans.codes), INF_TIME)
        distinct, place = np.unique(spans.codes, return_inverse=True)
        keys = self._keys.keys_of(distinct)
        order = sorted_keys(keys, len(distinct))
        rank = np.empty(len(distinct), np.int64)
        rank[order] = np.arange(len(distinct))
        lives = Lives(spans.starts, spans.ends, known, (rank[place], place))
        edges = lives.events(lo, self._instants.frontier)
        payload = pa.RecordBatch.from_arrays(keys, schema=self._payload)
        out = in_order([(edges, payload.take(pa.array(edges.ranks[1])))], self._schema)
        if self._keys.is_crowded():
            self._presence.keep(kept := self._presence.present())
            self._keys.keep(kept)
        return Run(out, ports[0].ctis)

    def snapshot(self) -> OperatorState:
        """Rows, how many are alive, since when, and what waits, by reference."""
        frontier, tables = self._instants.save()
        tables |= {**self._keys.save(), "presence": self._presence.table()}
        return OperatorState({"frontier": frontier}, tables)

    def load(self, state: OperatorState) -> None:
        """Continue from ``state``."""
        self._instants.restore(state.header["frontier"], state.tables)
        self._keys.restore(state.tables)
        table = state.tables["presence"]
        self._presence.adopt(table["count"].to_numpy(), table["since"].to_numpy())

    def _codes(self, rows: pa.RecordBatch) -> np.ndarray:
        return self._keys.codes(rows.columns[2:], rows.num_rows)

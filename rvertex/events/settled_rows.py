"""Buffers rows of one or more ports until no more rows of their time can arrive (settled rows).

Rows before the frontier are settled. Rows at the frontier are buffered until the next step, because
others of the same time may follow. So an operator that only processes settled rows does not depend
on batch boundaries.

Invariant: buffered rows have ``vs == frontier``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from rstream.items.batch import VS, int64_column
from rstream.items.dictionaries import join_batches
from rstream.types import INF_TIME, MIN_TIME
from rvertex.events.lifetime import frontier_after
from rvertex.events.reorder_buffer import empty_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.events.run import Run


class SettledRows:
    """A buffer per port. ``schemas``: the schemas of the ports' events."""

    def __init__(self, schemas: Sequence[pa.Schema]) -> None:
        self._schemas = schemas
        self._waiting: list[list[pa.RecordBatch]] = [[] for _ in schemas]
        #: The greatest time of all rows and CTIs so far.
        self.frontier: int = MIN_TIME

    def take(self, ports: Sequence[Run], advancing: Sequence[Run] = ()) -> list[pa.RecordBatch]:
        """Buffer the rows of ``ports``. Return per port the rows that are settled now."""
        before, self.frontier = self.frontier, frontier_after(self.frontier, [*ports, *advancing])
        return [self._take(i, run.events, before) for i, run in enumerate(ports)]

    def tables(self) -> list[pa.Table]:
        """Return the buffered rows, by reference."""
        pairs = zip(self._waiting, self._schemas, strict=True)
        return [pa.Table.from_batches(batches, schema) for batches, schema in pairs]

    def load(self, frontier: int, tables: Sequence[pa.Table]) -> None:
        """Continue with ``tables`` as the buffered rows."""
        self.frontier = frontier
        self._waiting = [table.to_batches() for table in tables]

    def _take(self, i: int, events: pa.RecordBatch, before: int) -> pa.RecordBatch:
        waiting = self._waiting[i]
        if self.frontier == before:
            if events.num_rows:
                waiting.append(events)
            return empty_batch(self._schemas[i])
        count = events.num_rows
        if self.frontier != INF_TIME:
            count = int(int64_column(events, VS).searchsorted(self.frontier))
        self._waiting[i] = [events.slice(count)] if count < events.num_rows else []
        taken = [*waiting, events.slice(0, count)] if count else waiting
        if not taken:
            return empty_batch(self._schemas[i])
        return join_batches(taken)


def parted(
    waiting: pa.RecordBatch, run: Run, columns: Sequence[str]
) -> tuple[pa.RecordBatch, pa.RecordBatch, int]:
    """Split one port's rows into settled and buffered ones; also return the time ``run`` reached.

    ``columns``: the columns of the events to keep. The time is MIN_TIME if ``run`` is empty.
    """
    reached = frontier_after(MIN_TIME, [run])
    rows = waiting
    if run.events.num_rows:
        new = run.events.select(columns)
        rows = join_batches([waiting, new]) if waiting.num_rows else new
    count = int(int64_column(rows, VS).searchsorted(reached))
    return rows.slice(0, count), rows.slice(count), reached

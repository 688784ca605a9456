"""A live log in the simulated world: its rows appear over virtual time, its partitions fall silent.

A reader fetches what is there when it is asked, gives it in random pieces, and says where the log
ends once all it has fetched was given. It never fails: the log is the one thing that survives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import event_schema
from rvertex.sources.logs.protocol import LogEnd, LogRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.sources.spec import SourcePartition
    from tests.sim.scheduler import Process, Scheduler

PAYLOAD = pa.schema([("k", pa.int64()), ("x", pa.int64())])


@dataclass(frozen=True)
class LiveRow:
    """``at_s``: when the log has it."""

    at_s: float
    position: int
    vs: int
    k: int
    x: int


@dataclass(frozen=True)
class LiveLog:
    """The rows of each partition, and the positions at which the bounded read of them ends."""

    partitions: tuple[tuple[LiveRow, ...], ...]
    ends: tuple[int, ...]
    #: When the last partition has its end.
    over_s: float

    def rows(self, partition: int, first: int, now_s: float, rows_max: int) -> LogRows:
        """What stands from ``first`` on and is there; at the very end also the gap behind it."""
        there = [r for r in self.partitions[partition] if r.position >= first and r.at_s <= now_s]
        found = there[:rows_max]
        following = found[-1].position + 1 if found else first
        if len(found) == len(there) and now_s >= self.over_s:
            following = self.ends[partition]
        positions = np.array([row.position for row in found], np.int64)
        vs = np.array([row.vs for row in found], np.int64)
        values = [np.array([getattr(r, name) for r in found], np.int64) for name in ("k", "x")]
        columns = [pa.array(column) for column in (vs, vs + 1, *values)]
        batch = pa.RecordBatch.from_arrays(columns, schema=event_schema(PAYLOAD))
        return LogRows(positions, batch, following)


class LiveReader:
    """See :class:`rvertex.sources.logs.protocol.LogReader`."""

    waiting = ""

    def __init__(
        self,
        log: LiveLog,
        world: Scheduler,
        process: Process,
        source: SourcePartition,
        positions: Sequence[int],
        fetched: dict[tuple[str, int], int],
    ) -> None:
        """``fetched``: by process and partition, how far it was fetched."""
        self._log, self._world, self._process, self._fetched = log, world, process, fetched
        self._numbers = [unit.stream for unit in source.units]
        self._positions = list(positions)
        self._buffers: list[LogRows | None] = [None] * len(positions)
        for number, position in zip(self._numbers, positions, strict=True):
            fetched[process.name, number] = position

    def read(self, partition: int, rows_max: int) -> LogRows | None:
        rows = self._buffers[partition] or self._fetch(partition)
        if rows is None:
            return None
        count = min(rows_max, self._world.random.randint(1, 6))
        if count < rows.batch.num_rows:
            cut = int(rows.positions[count])
            self._buffers[partition], rows = rows.beyond(cut), rows.before(cut)
        else:
            self._buffers[partition] = None
        self._positions[partition] = rows.next_position
        return rows

    def _fetch(self, partition: int) -> LogRows | None:
        number, first = self._numbers[partition], self._positions[partition]
        rows = self._log.rows(number, first, self._world.now_s, self._world.random.randint(1, 20))
        if rows.next_position == first:
            return None
        self._fetched[self._process.name, number] = rows.next_position
        return rows

    def end(self, partition: int) -> LogEnd | None:
        if self._buffers[partition] is not None:
            return None
        number, first = self._numbers[partition], self._positions[partition]
        rows = self._log.rows(number, first, self._world.now_s, 1)
        return LogEnd(rows.next_position, self._world.now_s)

    def skip_to(self, partition: int, position: int) -> None:
        self._positions[partition], self._buffers[partition] = position, None

    def lag(self, partition: int) -> int | None:
        return None

    def close(self) -> None:
        """Nothing is held."""

"""A simulated live log: its rows appear over virtual time, and its partitions become silent.

A reader fetches the available rows on request, returns them in random pieces, and reports the end
of the log once all fetched rows are returned. It never fails: the log survives everything.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import event_schema
from rvertex.sources.logs.folder import ROW_BITS, FolderLog, Scan, partition_of_file
from rvertex.sources.logs.protocol import LogEnd, LogRows
from rvertex.sources.versions import FileVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rstream.clock import Clock
    from rstream.log.background import Background
    from rvertex.sources.logs.entries import LogEntry
    from rvertex.sources.logs.folder import _Partition
    from rvertex.sources.spec import SourcePartition
    from streamscope.testing.simulation.scheduler import Process, Scheduler

#: The version of a file that is complete.
WHOLE = FileVersion(1 << 30, ())
PAYLOAD = pa.schema([("k", pa.int64()), ("x", pa.int64())])


@dataclass(frozen=True)
class LiveRow:
    """``at_s``: when the log receives the row."""

    at_s: float
    position: int
    vs: int
    k: int
    x: int


@dataclass(frozen=True)
class LiveFile:
    """The file is visible from ``at_s``, and complete at ``whole_s``."""

    path: str
    at_s: float
    whole_s: float
    rows: tuple[LiveRow, ...]


@dataclass(frozen=True)
class LiveLog:
    """The rows of each partition, and the positions at which the bounded read of them ends."""

    partitions: tuple[tuple[LiveRow, ...], ...]
    ends: tuple[int, ...]
    #: The end of the last partition.
    over_s: float

    #: A growing folder instead of partitions.
    files: tuple[LiveFile, ...] = ()
    #: When each partition appears, in virtual seconds; empty: all exist from the start.
    births: tuple[float, ...] = ()

    def partitions_at(self, now_s: float) -> int:
        """The number of partitions at this time."""
        return sum(birth <= now_s for birth in self.births)

    def file_rows(self, entries: Sequence[LogEntry], partition: int) -> LogRows:
        """All rows of the files that were entered into a partition."""
        positions: list[int] = []
        rows: list[LiveRow] = []
        following = 0
        for entry in entries:
            if entry.kind == "file" and entry.partition == partition:
                found = self.file(entry.path).rows
                rows += found
                positions += range(entry.position, entry.position + len(found))
                following = entry.position + (1 << ROW_BITS)
        return LogRows(np.array(positions, np.int64), events_of(rows), following)

    def file(self, path: str) -> LiveFile:
        return next(file for file in self.files if file.path == path)

    def rows(self, partition: int, first: int, now_s: float, rows_max: int) -> LogRows:
        """Return the existing rows from ``first``; at the end also the gap after them."""
        there = [r for r in self.partitions[partition] if r.position >= first and r.at_s <= now_s]
        found = there[:rows_max]
        following = found[-1].position + 1 if found else first
        if len(found) == len(there) and now_s >= self.over_s:
            following = self.ends[partition]
        positions = np.array([row.position for row in found], np.int64)
        return LogRows(positions, events_of(found), following)


def events_of(rows: Sequence[LiveRow]) -> pa.RecordBatch:
    vs = np.array([row.vs for row in rows], np.int64)
    values = [np.array([getattr(r, name) for r in rows], np.int64) for name in ("k", "x")]
    columns = [pa.array(column) for column in (vs, vs + 1, *values)]
    return pa.RecordBatch.from_arrays(columns, schema=event_schema(PAYLOAD))


class LiveReader:
    """Implements :class:`rvertex.sources.logs.protocol.LogReader`."""

    waiting, wait_s = "", None

    def __init__(
        self,
        log: LiveLog,
        world: Scheduler,
        process: Process,
        source: SourcePartition,
        positions: Sequence[int],
        fetched: dict[tuple[str, int], int],
    ) -> None:
        """``fetched``: the fetched position per process and partition."""
        self._log, self._world, self._process, self._fetched = log, world, process, fetched
        self._numbers = [unit.stream for unit in source.log_units]
        self._positions = list(positions)
        self._buffers: list[LogRows | None] = [None] * len(positions)
        for number, position in zip(self._numbers, positions, strict=True):
            fetched[process.name, number] = position

    @property
    def log_partitions(self) -> int:
        return self._log.partitions_at(self._world.now_s)

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

    def closing_position(self, partition: int, since_s: float) -> int | None:
        assert since_s <= self._world.now_s, since_s
        number, first = self._numbers[partition], self._positions[partition]
        return self._log.rows(number, first, self._world.now_s, sys.maxsize).next_position

    def skip_to(self, partition: int, position: int) -> None:
        self._positions[partition], self._buffers[partition] = position, None

    def lag(self, partition: int) -> int | None:
        return None

    def close(self) -> None:
        """Do nothing: there are no resources."""


class LiveFolder(FolderLog):
    """The reader of growing folders, over simulated files."""

    def __init__(
        self,
        log: LiveLog,
        world: Scheduler,
        process: Process,
        source: SourcePartition,
        positions: Sequence[int],
        fetched: dict[tuple[str, int], int],
        clock: Clock,
        wake: Callable[[], None],
        background: Background,
    ) -> None:
        super().__init__(source, positions, clock, wake, background)
        self._log, self._world, self._process, self._fetched = log, world, process, fetched
        for number, position in zip((u.stream for u in source.units), positions, strict=True):
            fetched[process.name, number] = position

    def read(self, partition: int, rows_max: int) -> LogRows | None:
        rows = super().read(partition, rows_max)
        if rows is not None:
            number = self._partitions[partition].number
            self._fetched[self._process.name, number] = rows.next_position
        return rows

    def _list(self) -> Scan:
        now_s = self._world.now_s
        mine = {p.number for p in self._partitions}
        files = {
            f.path: WHOLE if now_s >= f.whole_s else FileVersion(int((now_s - f.at_s) * 1e4), ())
            for f in self._log.files
            if f.at_s <= now_s and partition_of_file(f.path, self._count) in mine
        }
        return Scan(files, trouble="", is_known=True)

    def _read_file(self, mine: _Partition) -> pa.RecordBatch | None:
        path, version = mine.files[mine.read_to >> ROW_BITS]
        if version != WHOLE:
            self._world.violate("files are taken whole", f"{path}: {version}")
        row = mine.read_to & ((1 << ROW_BITS) - 1)
        rows = self._log.file(path).rows[row : row + self._world.random.randint(1, 5)]
        return events_of(rows) if rows else None

"""Polls logs in a store that other processes append to.

Each partition reads ahead in the background, one read at a time. A position is a row's sequence
number. A :class:`RowReader` decodes the rows and raises the errors of one kind of log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rvertex.sources.logs.protocol import LogEnd, LogRows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from rstream.clock import Clock
    from rstream.log.background import Background

#: Rows that are read ahead per partition.
AHEAD_ROWS = 16_384


class RowReader(Protocol):
    """Reads the rows of one partition. Called in the background, one call at a time."""

    def read_next(self, rows_max: int) -> LogRows | None:
        """Return the next rows; None if there are none yet.

        Raises:
            StreamEngineError: as ``LogReader.read``.
        """

    def close(self) -> None: ...


class PolledLog:
    """A LogReader (:mod:`rvertex.sources.logs.protocol`) over the partitions of one vertex."""

    waiting = ""
    log_partitions = 0

    def __init__(self, partitions: Sequence[PolledPartition]) -> None:
        self._partitions = partitions

    def read(self, partition: int, rows_max: int) -> LogRows | None:
        """Implement LogReader."""
        return self._partitions[partition].read(rows_max)

    def end(self, partition: int) -> LogEnd | None:
        """Implement LogReader."""
        return self._partitions[partition].end

    def closing_position(self, partition: int, since_s: float) -> int | None:
        """Implement LogReader. Returns the position at which a read found no more rows."""
        end = self.end(partition)
        return end.position if end is not None and end.reported_s >= since_s else None

    def skip_to(self, partition: int, position: int) -> None:
        """Implement LogReader."""
        self._partitions[partition].skip_to(position)

    def lag(self, partition: int) -> int | None:
        """Implement LogReader."""
        return 0 if self.end(partition) is not None else None

    @property
    def wait_s(self) -> float | None:
        """Implement LogReader."""
        waits = [w for partition in self._partitions if (w := partition.wait_s) is not None]
        return min(waits, default=None)

    def close(self) -> None:
        """Implement LogReader."""
        for partition in self._partitions:
            partition.close()


class PolledPartition:
    """One partition; owned by the host's thread."""

    def __init__(
        self,
        position: int,
        open_rows: Callable[[int], RowReader],
        look_every_s: float,
        clock: Clock,
        wake: Callable[[], None],
        background: Background,
    ) -> None:
        """Read from ``position``; ``open_rows`` opens a reader there, in the background.

        ``look_every_s``: least time from the start of a read without rows to the next read.
        """
        self._position = position
        self._open_rows, self._look_every_s = open_rows, look_every_s
        self._clock, self._wake, self._background = clock, wake, background
        self._rows: RowReader | None = None
        self._reading: Future[LogRows | None] | None = None
        #: When the running read started, and when the next read is due if this one finds no rows.
        self._began_s, self._due_s = 0.0, clock.monotonic_s()
        self._ahead: LogRows | None = None
        self._end: LogEnd | None = None
        self._is_closed = False

    def read(self, rows_max: int) -> LogRows | None:
        """Implement LogReader."""
        if self._ahead is None and self._reading is not None and self._reading.done():
            reading, self._reading = self._reading, None
            self._take(reading.result())
        rows, self._ahead = self._ahead, None
        if rows is not None and rows.batch.num_rows > rows_max:
            cut = int(rows.positions[rows_max])
            self._ahead, rows = rows.beyond(cut), rows.before(cut)
        if self._ahead is None:
            self._begin()
        if rows is not None:
            self._position = rows.next_position
        return rows

    @property
    def end(self) -> LogEnd | None:
        """Implement LogReader."""
        return None if self._ahead is not None else self._end

    @property
    def wait_s(self) -> float | None:
        """See LogReader. A time in the past is ignored, since the vertex may need no rows now."""
        left_s = self._due_s - self._clock.monotonic_s()
        return left_s if left_s > 0 else None

    def skip_to(self, position: int) -> None:
        """Implement LogReader."""
        assert self._reading is None, "rows are skipped only after reading them has failed"
        self._close_rows()
        self._ahead, self._position = None, position

    def close(self) -> None:
        """Close the reader, at the latest after its running read; idempotent."""
        self._is_closed = True
        if self._reading is None:
            self._close_rows()
        else:
            self._reading.add_done_callback(lambda _: self._close_rows())

    def _begin(self) -> None:
        now_s = self._clock.monotonic_s()
        if self._reading is None and now_s >= self._due_s and not self._is_closed:
            self._began_s, self._due_s = now_s, now_s + self._look_every_s
            self._reading = self._background.submit(self._fetch)
            self._reading.add_done_callback(self._fetched)

    def _fetch(self) -> LogRows | None:
        """Read the next rows. Runs in the background."""
        if self._rows is None:
            first = self._position if self._ahead is None else self._ahead.next_position
            self._rows = self._open_rows(first)
        return self._rows.read_next(AHEAD_ROWS)

    def _fetched(self, reading: Future[LogRows | None]) -> None:
        if reading.exception() is not None or reading.result() is not None:
            self._wake()

    def _take(self, rows: LogRows | None) -> None:
        """Process the result of a read."""
        self._ahead = rows
        self._end = None
        if rows is None:
            self._end = LogEnd(self._position, self._began_s)
        else:
            self._due_s = self._began_s

    def _close_rows(self) -> None:
        rows, self._rows = self._rows, None
        if rows is not None:
            rows.close()

"""A log of pushed rows, read while its writer appends: a position is a row's sequence number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rstream.errors import (
    CorruptLogError,
    CorruptSegmentError,
    SequenceDiscardedError,
    SequenceLostError,
    StoreError,
)
from rstream.intake.reader import AppendLogReader
from rstream.intake.reader import open_log as open_rows
from rvertex.errors import CorruptSourceError, SourceRowError, SourceVanishedError
from rvertex.sources.events import RowFault, to_events
from rvertex.sources.files import first_line
from rvertex.sources.formats.row_log import declared_columns, log_units
from rvertex.sources.logs.errors import LostInputError
from rvertex.sources.logs.protocol import LogEnd, LogRows
from rvertex.sources.spec import Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    import pyarrow as pa

    from rstream.clock import Clock
    from rstream.items.batch import Items
    from rstream.log.background import Background
    from rvertex.sources.spec import SourcePartition, SourceSpec

#: Rows that are read ahead.
AHEAD_ROWS = 16_384
#: Least time from a look that found nothing to the next one.
LOOK_EVERY_S = 0.02


def appended_units(spec: SourceSpec) -> tuple[Unit, ...]:
    """The log as its only partition, from the first row that is kept."""
    return (Unit(spec.path, first_seq=log_units(spec.path)[0].first_seq),)


class AppendedLog:
    """A LogReader (:mod:`rvertex.sources.logs.protocol`); one read at a time in the background."""

    waiting = ""

    def __init__(
        self,
        source: SourcePartition,
        positions: Sequence[int],
        clock: Clock,
        wake: Callable[[], None],
        background: Background,
    ) -> None:
        (self._position,) = positions
        self._spec, self._clock, self._wake = source.spec, clock, wake
        self._background = background
        self._rows: AppendLogReader | None = None
        self._reading: Future[Items | None] | None = None
        #: When the read under way began, and when the next one may after one that found nothing.
        self._began_s, self._due_s = 0.0, clock.monotonic_s()
        self._ahead: LogRows | None = None
        self._end: LogEnd | None = None
        self._is_closed = False

    def read(self, partition: int, rows_max: int) -> LogRows | None:
        """See LogReader."""
        assert partition == 0, partition
        if self._ahead is None and self._reading is not None and self._reading.done():
            reading, self._reading = self._reading, None
            self._take(reading)
        rows, self._ahead = self._ahead, None
        if rows is not None and rows.batch.num_rows > rows_max:
            cut = int(rows.positions[rows_max])
            self._ahead, rows = rows.beyond(cut), rows.before(cut)
        if self._ahead is None:
            self._begin()
        if rows is not None:
            self._position = rows.next_position
        return rows

    def _begin(self) -> None:
        now_s = self._clock.monotonic_s()
        if self._reading is None and now_s >= self._due_s and not self._is_closed:
            self._began_s = now_s
            self._reading = self._background.submit(self._fetch)
            self._reading.add_done_callback(self._fetched)

    def _fetch(self) -> Items | None:
        """The next rows. Runs in the background."""
        if self._rows is None:
            first = self._position if self._ahead is None else self._ahead.next_position
            self._rows = open_rows(self._spec.path, first)
        return self._rows.read_next(AHEAD_ROWS)

    def _fetched(self, reading: Future[Items | None]) -> None:
        if reading.exception() is not None or reading.result() is not None:
            self._wake()

    def _take(self, reading: Future[Items | None]) -> None:
        """Take over what was read."""
        path = self._spec.path
        try:
            items = reading.result()
        except SequenceDiscardedError as error:
            reason = "they were deleted"
            raise LostInputError(path, 0, error.seq, error.first_seq, reason) from error
        except (CorruptLogError, CorruptSegmentError) as error:
            raise CorruptSourceError(path, None, error.reason) from error
        except (SequenceLostError, StoreError) as error:
            raise SourceVanishedError(path, first_line(error)) from error
        if items is None:
            self._end = LogEnd(self._position, self._began_s)
            self._due_s = self._clock.monotonic_s() + LOOK_EVERY_S
            return
        self._end = None
        positions = np.arange(items.first_seq, items.next_seq, dtype=np.int64)
        self._ahead = LogRows(positions, self._events(items), items.next_seq)

    def _events(self, items: Items) -> pa.RecordBatch:
        path = self._spec.path
        rows = declared_columns(items.batch, self._spec.columns.names)
        events = to_events(self._spec, rows, path, 0)
        if isinstance(events, RowFault):
            at = items.first_seq + events.index + 1
            raise SourceRowError(path, at, None, events.column, events.value, events.reason)
        return events

    def end(self, partition: int) -> LogEnd | None:
        """See LogReader."""
        assert partition == 0, partition
        return None if self._ahead is not None else self._end

    def closing_position(self, partition: int, since_s: float) -> int | None:
        """See LogReader: where nothing more was found."""
        end = self.end(partition)
        return end.position if end is not None and end.seen_s >= since_s else None

    def skip_to(self, partition: int, position: int) -> None:
        """See LogReader."""
        assert partition == 0, partition
        assert self._reading is None, "rows are passed over once reading them has failed"
        self._close_rows()
        self._ahead, self._position = None, position

    def lag(self, partition: int) -> int | None:
        """See LogReader."""
        return 0 if self.end(partition) is not None else None

    def close(self) -> None:
        """See LogReader."""
        self._is_closed = True
        if self._reading is None:
            self._close_rows()
        else:
            self._reading.add_done_callback(lambda _: self._close_rows())

    def _close_rows(self) -> None:
        rows, self._rows = self._rows, None
        if rows is not None:
            rows.close()

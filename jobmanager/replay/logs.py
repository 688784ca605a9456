"""Reads a live log again as a job has read it: the same rows, with the job's recorded decisions.

The decisions are read from the vertex's journal and take effect at the same positions as in the
job. (Examples: which files; from which position on a silent partition promises a time; where a log
ends.) A replay makes no new decisions. So it does not use rows that need a decision that the job
had not made yet.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from jobmanager.replay.errors import CannotReplayError
from rstream.clock import SystemClock
from rstream.log.background import InlineBackground
from rvertex.checkpoint.intake import decode_blob
from rvertex.checkpoint.journal import INTAKE, Journal
from rvertex.errors import CorruptJournalError
from rvertex.sources.logs.errors import LostInputError
from rvertex.sources.logs.opening import open_log
from rvertex.sources.logs.protocol import FileLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from rstream.store.protocol import BlobStore
    from rvertex.sources.logs.protocol import LogRows
    from rvertex.vertex.log_input import LogInput
    from rvertex.vertex.rvertex import RVertex

#: Most seconds to wait for an answer of a log, and seconds between two checks for it.
ANSWER_WAIT_S, _LOOK_S = 30.0, 0.05
_LATER = "Name a later time with --from, or replay a vertex downstream"


class RecordedLog:
    """The log partitions of one vertex: the rows that the job has read, and later ones."""

    def __init__(
        self,
        vertex: RVertex,
        store: BlobStore,
        on_rows: Callable[[int, LogRows], None] = lambda k, rows: None,
    ) -> None:
        """Read the partitions of one vertex again.

        ``on_rows`` is called with the number of a partition and the offered rows.

        Raises:
            CannotReplayError: decisions are not retained.
        """
        source, log = vertex.spec.source, vertex.log
        assert source is not None
        assert log is not None
        self._vertex, self._log, self._on_rows = vertex, log, on_rows
        _decide(vertex.spec.id, log, store)
        self._clock, self._wake = SystemClock(), threading.Event()
        self._started_s = self._clock.monotonic_s()
        self._ahead: dict[int, LogRows] = {}
        self._read_to = [channel.position for channel in log.channels]
        self._reader = open_log(
            source, tuple(self._read_to), self._clock, self._wake.set, InlineBackground()
        )
        if isinstance(self._reader, FileLog):
            self._reader.enter(log.files())

    def offer(self, rows_max: int) -> bool:
        """Offer the next rows of each partition that needs some. Return False if there are no more.

        Raises:
            CannotReplayError: the log does not answer, or no longer has the rows.
        """
        deadline_s = self._clock.monotonic_s() + ANSWER_WAIT_S
        while True:
            self._wake.clear()
            fed = [self._feed(k, rows_max) for k in range(len(self._log.channels))]
            if any(fed):
                return True
            if all(self._is_over(k) for k in range(len(self._log.channels))):
                return False
            if self._clock.monotonic_s() > deadline_s:
                reason = f"its log does not answer within {ANSWER_WAIT_S:.0f} s"
                raise CannotReplayError(self._vertex.spec.id, reason, "Check the log's servers")
            self._wake.wait(_LOOK_S)

    def close(self) -> None:
        """Stop reading."""
        self._reader.close()

    def _feed(self, k: int, rows_max: int) -> bool:
        channel = self._log.channels[k]
        if not self._log.wants(k):
            return False
        rows = self._ahead.pop(k, None) or self._read(k, rows_max)
        if rows is None:
            return False
        limit = channel.limit
        if limit is not None and rows.next_position > limit:
            self._ahead[k], rows = rows.beyond(limit), rows.before(limit)
        if (limit is not None and limit <= channel.position) or channel.lacks_clock(rows):
            self._ahead[k] = rows
            return False
        self._log.offer(k, rows)
        self._on_rows(k, rows)
        self._catch_up(k)
        return True

    def _read(self, k: int, rows_max: int) -> LogRows | None:
        try:
            rows = self._reader.read(k, rows_max)
        except LostInputError as error:
            raise CannotReplayError(self._vertex.spec.id, str(error), _LATER) from error
        if rows is not None:
            self._read_to[k] = rows.next_position
        return rows

    def _catch_up(self, k: int) -> None:
        """Skip rows that a recorded decision has passed over."""
        position = self._log.channels[k].position
        ahead = self._ahead.get(k)
        if ahead is not None:
            self._ahead[k] = ahead.beyond(position)
        if position > self._read_to[k]:
            self._ahead.pop(k, None)
            self._read_to[k] = position
            self._reader.skip_to(k, position)

    def _is_over(self, k: int) -> bool:
        """Return whether all recorded rows of a partition were offered, or no more can be."""
        channel = self._log.channels[k]
        if channel.is_ended or channel.is_stopped or channel.is_awaited or k in self._ahead:
            return True
        end = self._reader.closing_position(k, self._started_s)
        return end is not None and channel.position >= end


def _decide(vertex: str, log: LogInput, store: BlobStore) -> None:
    """Pass all recorded decisions from the log's position on to the log."""
    journal = Journal(store, f"{INTAKE}/{vertex}")
    numbers = [number for number in journal.numbers() if number >= log.first_blob]
    counts = [channel.entries for channel in log.channels]
    try:
        blobs = journal.read(numbers)
    except CorruptJournalError as error:
        raise CannotReplayError(vertex, f"its decisions are gone ({error})", _LATER) from error
    for number, data in zip(numbers, blobs, strict=True):
        entries = decode_blob(data)
        for entry in entries:
            if entry.index > counts[entry.partition]:
                reason = "decisions about its log before this time are not retained"
                raise CannotReplayError(vertex, reason, _LATER)
            counts[entry.partition] = max(counts[entry.partition], entry.index + 1)
        log.decide(entries, number)

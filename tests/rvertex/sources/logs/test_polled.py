"""A partition of a log in a store: read-ahead, polling interval, and end.

Not covered: the results of a log's own reader (test_written, tests/jobmanager/test_live_log.py).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from rstream import InlineBackground, ManualClock
from rvertex.sources.logs.polled import PolledPartition
from rvertex.sources.logs.protocol import LogEnd, LogRows

EVENTS = pa.schema([("_vs", pa.int64()), ("_ve", pa.int64())])


class Log:
    """Rows below ``end``, in pieces of five; a poll takes a second."""

    def __init__(self) -> None:
        self.clock, self.end, self.looks = ManualClock(), 0, 0
        self.opened: list[int] = []
        self.at = 0
        self.partition = PolledPartition(
            0, self.open, 10.0, self.clock, lambda: None, InlineBackground()
        )

    def open(self, position: int) -> Log:
        self.opened.append(position)
        self.at = position
        return self

    def read_next(self, rows_max: int) -> LogRows | None:
        self.looks += 1
        self.clock.advance(1_000_000)
        at = list(range(self.at, min(self.at + 5, self.end)))
        if not at:
            return None
        self.at = at[-1] + 1
        batch = pa.RecordBatch.from_pydict({"_vs": at, "_ve": at}, schema=EVENTS)
        return LogRows(np.array(at, np.int64), batch, self.at)

    def close(self) -> None:
        self.at = -1

    def read(self, rows_max: int = 100) -> list[int]:
        rows = self.partition.read(rows_max)
        return [] if rows is None else rows.positions.tolist()


@pytest.fixture
def log() -> Log:
    return Log()


def test_the_end_is_as_old_as_the_poll_that_found_nothing(log: Log) -> None:
    began_s = log.clock.monotonic_s()
    assert log.read() == []
    assert log.partition.end is None, "nobody has seen what was found"
    assert log.read() == []
    assert log.partition.end == LogEnd(0, began_s)


def test_a_poll_that_found_nothing_is_not_repeated_at_once(log: Log) -> None:
    for _ in range(5):
        log.read()
    assert log.looks == 1
    log.end = 3
    log.clock.advance(10_000_000)
    log.read()
    assert log.read() == [0, 1, 2]
    assert log.partition.end is None


def test_the_host_sleeps_until_the_next_poll(log: Log) -> None:
    """The host sleeps until the next poll is due; a fixed sleep of 50 ms delayed polls."""
    log.read()
    waits = [log.partition.wait_s]
    log.clock.advance(9_000_000)
    waits.append(log.partition.wait_s)
    assert waits == [9.0, None]
    log.read()
    assert log.looks == 2


def test_rows_read_ahead_are_skipped_too(log: Log) -> None:
    log.end = 20
    log.read()
    assert log.read(2) == [0, 1]
    log.partition.skip_to(12)
    assert log.read() == []
    assert log.read() == [12, 13, 14, 15, 16]
    assert log.opened == [0, 12]

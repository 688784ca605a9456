"""``python -m tests.kills.log_feed LOG RATE``: appends events to a log until its input ends.

The content follows from the rate and the time of the start, so the right counts need no log.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream import Appender
from tests.kills.queries import EVENT
from tests.rooms import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

STEP_US, KEYS, VALUES = 20_000, 1_000, 997
WINDOW_US = 500_000
END_S_MAX = 300.0


def events(step: int, rate: int) -> tuple[np.ndarray, ...]:
    """Number, time after the start (us), key and value of the events of a step."""
    count = rate * STEP_US // 1_000_000
    rows = np.arange(count)
    ids = step * count + rows
    return ids, step * STEP_US + rows * STEP_US // count, ids * 7_919 % KEYS, ids % VALUES


def feed(uri: str, rate: int) -> None:
    """Append events, open loop. Print the time of the start and the number of steps."""
    log, began_us, step = Appender(uri, EVENT), time.time_ns() // 1_000, 0
    print(began_us, flush=True)
    reading = threading.Thread(target=sys.stdin.read, daemon=True)
    reading.start()
    while reading.is_alive():
        ids, times, keys, values = events(step, rate)
        time.sleep(max(0.0, (began_us + step * STEP_US) / 1e6 - time.time()))
        columns = [pa.array(column) for column in (ids, began_us + times, keys, values)]
        log.submit(pa.RecordBatch.from_arrays(columns, schema=EVENT))
        step += 1
    log.close()
    print(step, flush=True)


class LogFeed:
    """The process that writes the log."""

    def __init__(self, uri: str, rate: int) -> None:
        self._rate, self._steps = rate, 0
        command = [sys.executable, "-m", "tests.kills.log_feed", uri, str(rate)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
        assert self._process.stdout is not None
        self._began_us = int(self._process.stdout.readline())

    def stop(self) -> None:
        """Stop writing. All written events are in the log."""
        self._steps = int(self._process.communicate(timeout=END_S_MAX)[0])

    def close(self) -> None:
        """End the process. Idempotent."""
        self._process.kill()
        self._process.wait()

    @property
    def written(self) -> int:
        """The number of events."""
        return self._steps * len(events(0, self._rate)[0])

    def windows(self) -> Counter[tuple[int, ...]]:
        """The rows of the query ``windows``: start, end, key, count, sum of numbers, last time."""
        found = pa.concat_tables(self._window_parts())
        summed = found.group_by(["start", "key"]).aggregate(
            [("n", "sum"), ("ids", "sum"), ("last", "max")]
        )
        columns = [summed[name].to_pylist() for name in summed.column_names]
        return Counter((t, t + WINDOW_US, *rest) for t, *rest in zip(*columns, strict=True))

    def _window_parts(self) -> Iterator[pa.Table]:
        for step in range(self._steps):
            ids, times, keys, _ = events(step, self._rate)
            times = self._began_us + times
            rows = pa.table(
                {"start": times - times % WINDOW_US, "key": keys, "ids": ids, "last": times}
            )
            grouped = rows.group_by(["start", "key"], use_threads=False).aggregate(
                [("ids", "count"), ("ids", "sum"), ("last", "max")]
            )
            yield grouped.rename_columns(["start", "key", "n", "ids", "last"])


if __name__ == "__main__":
    feed(sys.argv[1], int(sys.argv[2]))

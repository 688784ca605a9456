"""Open-loop load: each event has a due time that does not depend on the system.

Event ``i`` of a load is due ``i / rate`` seconds after the start; its latency counts from then, so
a stall is not hidden by a source that waits for it. Event times are fixed, and the schedule maps
them to the wall clock. So all runs of a load have the same input and the same answer.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

    from jobmanager import Job

SEED = 20_260_301
START_US = 1_767_225_600_000_000
#: Rows of a row group: a source reads one at a time, which must not take long.
GROUP_ROWS = 8_192
SOURCES = 2


@dataclass(frozen=True)
class Load:
    """A load of ``rate`` events per second for ``seconds``, with ``keys`` keys and windows."""

    rate: int
    seconds: float
    keys: int
    window_us: int

    @property
    def rows(self) -> int:
        """Return the number of events; it is even."""
        return int(self.rate * self.seconds) // SOURCES * SOURCES

    @property
    def windows(self) -> int:
        """Return the number of windows that the events span."""
        return int(self.times_us()[-1]) // self.window_us + 1

    def times_us(self) -> np.ndarray:
        """Return when each event is due after the start; all sources have the same times."""
        step = np.arange(self.rows) // SOURCES
        times: np.ndarray = step * SOURCES * 1_000_000 // self.rate
        return times

    def keys_of(self) -> np.ndarray:
        """Return the key of each event."""
        return np.random.default_rng(SEED).integers(0, self.keys, self.rows)

    def values_of(self) -> np.ndarray:
        """Return the value of each event."""
        return np.random.default_rng(SEED + 1).integers(1, 10_001, self.rows)

    def table(self) -> pa.Table:
        """Return the events, ordered by time."""
        times = pa.array(START_US + self.times_us()).cast(pa.timestamp("us"))
        return pa.table({"time": times, "key": self.keys_of(), "value": self.values_of()})

    def write(self, path: Path, sources: int = SOURCES) -> Path:
        """Write a Parquet file with the row groups of the sources in turn."""
        table = self.table()
        with pq.ParquetWriter(path, table.schema, compression="lz4") as writer:
            for at in range(0, self.rows, sources * GROUP_ROWS):
                block = table.slice(at, sources * GROUP_ROWS)
                for source in range(sources):
                    writer.write_table(block.take(np.arange(source, block.num_rows, sources)))
        return path

    def answer(self) -> np.ndarray:
        """Return int64[windows, keys]: the sum of the values, 0 without events."""
        cell = self.times_us() // self.window_us * self.keys + self.keys_of()
        total = np.bincount(cell, self.values_of(), self.windows * self.keys)
        return total.astype(np.int64).reshape(self.windows, self.keys)


@dataclass
class Outputs:
    """The visible output: for each batch its time, partition and rows."""

    at_us: list[int]
    partition: list[int]
    batches: list[pa.RecordBatch]

    def columns(self, *names: str) -> tuple[np.ndarray, ...]:
        """Return, for each row, when it became visible (us), then these columns."""
        seen = np.repeat(self.at_us, [batch.num_rows for batch in self.batches])
        values = (
            np.concatenate([b.column(name).to_numpy(zero_copy_only=False) for b in self.batches])
            for name in names
        )
        return (seen, *values)


class Watcher(threading.Thread):
    """Reads the live output of a job and records when each batch became visible."""

    def __init__(self, job: Job) -> None:
        super().__init__(name="watcher", daemon=True)
        self._subscription = job.subscribe()
        self.outputs = Outputs([], [], [])
        self.failure: Exception | None = None

    def run(self) -> None:
        """Read until the job has ended."""
        outputs = self.outputs
        try:
            for batch in self._subscription:
                outputs.at_us.append(now_us())
                outputs.partition.append(batch.column("partition")[0].as_py())
                outputs.batches.append(batch)
        except Exception as failure:
            self.failure = failure

    def result(self, wait_s: float) -> Outputs:
        """Return the whole output after the job has ended."""
        self.join(wait_s)
        if self.failure is not None:
            raise self.failure
        if self.is_alive():
            raise TimeoutError(f"the output did not end within {wait_s:g} s")
        return self.outputs


def now_us() -> int:
    """Return the wall time."""
    return time.time_ns() // 1_000


def sleep_until(at_us: int) -> None:
    """Sleep until a wall time; return at once if it has passed."""
    time.sleep(max(0, at_us - now_us()) / 1e6)


def window_latencies(
    load: Load, started_us: int, seen_us: np.ndarray, vs: np.ndarray, key: np.ndarray
) -> np.ndarray:
    """Return, for each event of a load, the us from its due time until its window was visible.

    ``seen_us, vs, key``: the output's rows. If a window became visible twice, the first time
    counts.

    Raises:
        ValueError: the window of an event never became visible.
    """
    first = np.full((load.windows, load.keys), np.iinfo(np.int64).max)
    np.minimum.at(first, ((vs - START_US) // load.window_us, key), seen_us)
    times_us = load.times_us()
    seen = first[times_us // load.window_us, load.keys_of()]
    if (missing := int((seen == np.iinfo(np.int64).max).sum())) > 0:
        raise ValueError(f"{missing} of {load.rows} events are in no window of the output")
    latencies: np.ndarray = seen - (started_us + times_us)
    return latencies


def beyond_windows(latencies_us: np.ndarray, due_us: np.ndarray, window_us: int) -> np.ndarray:
    """Return latencies from the end of an event's window, which is the earliest possible time.

    ``due_us``: when each event was due after the start.
    """
    beyond: np.ndarray = latencies_us - (window_us - due_us % window_us)
    return beyond


def quantiles_ms(latencies_us: np.ndarray, *quantiles: float) -> list[float]:
    """Return quantiles in milliseconds."""
    if len(latencies_us) == 0:
        return [float("nan")] * len(quantiles)
    return [round(float(q) / 1e3, 2) for q in np.quantile(latencies_us, quantiles)]

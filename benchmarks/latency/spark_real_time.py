"""Latency of Spark Structured Streaming with its real-time trigger, with pyspark alone.

Of the sources that the trigger can read, only Spark's own stream in memory
(``LowLatencyMemoryStream``, which its tests use) is in pyspark: every ``TICK_S`` it gets events as
lines of text through Py4J, which it parses. The output is Spark's sink in memory
(``ContinuousMemorySink``): every ``TICK_S`` its rows are counted, and it is emptied before each
load. So the output is not durable. The trigger interval is five minutes, the default, so no batch
ends while a load runs. Aggregates use update mode, the only one that the trigger supports: a row
per change of a group, before the window ends. An event counts as visible when a row that includes
it is visible. The trigger does not support joins of streams. Each query runs in a separate process
(this file) and writes a result file per rate.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from open_loop import START_US, now_us

from latency.load import FILTER_MAX, KEYS, WINDOW_US, Inputs

#: Queries that the trigger's allow list supports, and their names in the result.
QUERIES = {"filter": "filter", "window": "updates of windows"}
MASTER = "local[8]"
PARTITIONS = 2
TRIGGER = "5 minutes"
TICK_S = 0.001
LEAD_US = 2_000_000
#: Windows are aligned with those of the load.
ALIGN_US = 100_000
WARM_RATE, WARM_SECONDS = 1_000, 8.0
WAIT_S = 20.0
FIRST_WAIT_S = 90.0
RUN_WAIT_S = 300.0
_SOURCES = "org.apache.spark.sql.execution.streaming.sources"
_CONF = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
}
Latencies = dict[int, tuple[np.ndarray, np.ndarray]]


def run_real_time(query: str, rates: list[int], seconds: float) -> Latencies:
    """Return latencies (us) and due times after the start of the load, by rate.

    Rates with which it could not keep up are missing.

    Raises:
        RuntimeError: Spark did not run the query; the error has the end of its output.
    """
    with tempfile.TemporaryDirectory(prefix="streamscope-real-time-") as folder:
        command = [sys.executable, __file__, "--query", query, "--folder", folder]
        command += ["--seconds", str(seconds), "--rates", *map(str, rates)]
        with (Path(folder) / "log").open("w+b") as log:
            env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_DIRS": folder}
            env["PYTHONPATH"] = str(Path(__file__).parents[1])
            ended = subprocess.run(
                command, check=False, timeout=RUN_WAIT_S, stdout=log, stderr=log, env=env
            )
            if ended.returncode:
                log.seek(0)
                raise RuntimeError(f"Spark: {log.read()[-2_000:].decode(errors='replace')}")
        found: Latencies = {}
        for rate in rates:
            if (path := Path(folder) / f"{rate}.npz").exists():
                arrays = np.load(path)
                found[rate] = arrays["latency_us"], arrays["due_us"]
        return found


class RealTimeQuery:
    """A running query, its input, and the rows of its sink."""

    def __init__(self, query: str, folder: Path) -> None:
        from pyspark.sql import DataFrame, SparkSession

        builder = SparkSession.builder.master(MASTER)
        for name, value in _CONF.items():
            builder = builder.config(name, value)
        self.spark = builder.getOrCreate()
        jvm: Any = self.spark._jvm
        self._seq = jvm.scala.collection.immutable.ArraySeq
        self._text = jvm.org.apache.commons.lang3.StringUtils
        text = jvm.org.apache.spark.sql.Encoders.STRING()
        streams = getattr(jvm, f"{_SOURCES}.LowLatencyMemoryStream")
        self._source = streams.apply(self.spark._jsparkSession, PARTITIONS, text)
        self._sink = getattr(jvm, f"{_SOURCES}.ContinuousMemorySink")()
        # Read its internal rows: its public method copies them, and blocks new rows meanwhile.
        name = f"{_SOURCES}.ContinuousMemorySink".replace(".", "$")
        self._rows = getattr(self._sink, f"{name}$$batches")()
        answer = _answer(DataFrame(self._source.toDF(), self.spark), query)
        self._query = self._started(jvm, answer, str(folder / "checkpoint"))

    def feed(self, lines: list[str]) -> None:
        """Send events to the query."""
        rows = self._text.split("\n".join(lines), "\n")
        self._source.addData(self._seq.unsafeWrapArray(rows))

    def count(self) -> int:
        """Return the number of visible rows."""
        if not self._query.isActive():
            raise RuntimeError(f"the query ended: {self._query.exception()}")
        return int(self._rows.size())

    def forget(self) -> None:
        """Delete the rows in the sink."""
        self._sink.clear()

    def rows(self) -> np.ndarray:
        """Return int64[n, columns] in order of arrival; there must be at least one row."""
        text = str(self._sink.allData().mkString(";"))
        return np.array([row.strip("[]").split(",") for row in text.split(";")]).astype(np.int64)

    def stop(self) -> None:
        """Stop the Spark session of this process."""
        self._query.stop()
        self.spark.stop()

    def _started(self, jvm: Any, answer: Any, checkpoint: str) -> Any:
        manager = self.spark._jsparkSession.streams()
        none, streaming = jvm.scala.Option.empty(), jvm.org.apache.spark.sql.streaming
        clock = getattr(manager, "startQuery$default$11")()
        options = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap({})
        at = jvm.scala.Option.apply(checkpoint)
        update, trigger = streaming.OutputMode.Update(), streaming.Trigger.RealTime(TRIGGER)
        return manager.startQuery(
            none, none, at, answer._jdf, options, self._sink, update, False, True, trigger, clock,
            none, none,
        )  # fmt: skip


def _answer(lines: Any, query: str) -> Any:
    from pyspark.sql import functions as f

    part = f.split("value", ",")
    events = lines.select(
        f.timestamp_micros(part[0].cast("long")).alias("time"),
        part[1].cast("long").alias("key"),
        part[2].cast("long").alias("value"),
    )
    if query == "filter":
        cheap = events.where(f"value <= {FILTER_MAX}")
        euros = (f.col("value") * 908).alias("millis")  # only whole numbers are read back
        return cheap.select(f.unix_micros("time").alias("_vs"), "key", euros)
    window = f.window("time", f"{WINDOW_US} microseconds")
    groups = events.withWatermark("time", "0 seconds").groupBy(window, "key")
    sums = groups.agg(f.count("*").alias("n"), f.sum("value").alias("total"))
    return sums.select(f.unix_micros("window.start").alias("_vs"), "key", "n", "total")


class Poll(threading.Thread):
    """Records the number of rows in the sink over time."""

    def __init__(self, query: RealTimeQuery) -> None:
        super().__init__(name="poll", daemon=True)
        self._query, self._stopped = query, threading.Event()
        self.at_us: list[int] = []
        self.counts: list[int] = []
        self._failure: RuntimeError | None = None

    def run(self) -> None:
        """Count rows until ``stop`` is called."""
        try:
            while not self._stopped.wait(TICK_S):
                count = self._query.count()
                self.at_us.append(now_us())
                self.counts.append(count)
        except RuntimeError as failure:
            self._failure = failure

    def await_count(self, count: int) -> None:
        """Wait until it has counted this number of rows, which are in the sink.

        Raises:
            RuntimeError: the query ended.
        """
        while self.is_alive() and (not self.counts or self.counts[-1] < count):
            time.sleep(TICK_S)
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Stop counting."""
        self._stopped.set()
        self.join()


def measure(query: RealTimeQuery, inputs: Inputs) -> tuple[np.ndarray, np.ndarray] | None:
    """Return latencies (us) and due times of one load; None if it did not keep up."""
    load = inputs.load
    query.forget()
    offset_us = now_us() + LEAD_US - START_US
    offset_us += -offset_us % ALIGN_US
    times, started_us = load.times_us(), START_US + offset_us
    columns = zip((times + started_us).tolist(), load.keys_of(), load.values_of(), strict=True)
    lines = [f"{at},{key},{value}" for at, key, value in columns]
    poll = Poll(query)
    poll.start()
    sent = 0
    while sent < len(lines):  # ends with the load: time passes
        ready = int(np.searchsorted(times, now_us() - started_us, side="right"))
        if ready > sent:
            query.feed(lines[sent:ready])
            sent = ready
        time.sleep(TICK_S)
    wanted, deadline_s = _wanted(inputs), time.monotonic() + WAIT_S
    while True:  # ends at the deadline
        rows = query.rows() if query.count() else np.empty((0, 4), np.int64)
        seen = _seen_all(inputs, rows, started_us, wanted)
        if seen is not None or time.monotonic() > deadline_s:
            break
        time.sleep(0.2)
    if seen is not None:
        poll.await_count(int(seen.max()) + 1)
    poll.stop()
    if seen is None:
        return None
    first = np.searchsorted(poll.counts, seen + 1)
    due = times if inputs.query == "window" else times[load.values_of() <= FILTER_MAX]
    return np.array(poll.at_us)[first] - started_us - due, due


def await_first(query: RealTimeQuery) -> None:
    """Send events until one is visible, so that the query has started and its code is compiled.

    Raises:
        RuntimeError: no event was visible within ``FIRST_WAIT_S``.
    """
    deadline_s = time.monotonic() + FIRST_WAIT_S
    while query.count() == 0:
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"no event was seen within {FIRST_WAIT_S:g} s")
        query.feed([f"{START_US},0,1"])
        time.sleep(0.1)


def _wanted(inputs: Inputs) -> np.ndarray:
    """Return, for each event, the key of its output row: its time, or its rank in its group."""
    load = inputs.load
    times, keys = load.times_us(), load.keys_of()
    if inputs.query == "filter":
        is_kept = load.values_of() <= FILTER_MAX
        placed: np.ndarray = times[is_kept] * KEYS + keys[is_kept]
        return placed
    cell = times // inputs.window_us * KEYS + keys
    order = np.argsort(cell, kind="stable")
    begins = np.flatnonzero(np.diff(cell[order], prepend=-1))
    rank = np.empty(len(cell), np.int64)
    rank[order] = np.arange(len(cell)) - np.repeat(begins, np.diff([*begins, len(cell)]))
    ranked: np.ndarray = cell * len(cell) + rank + 1
    return ranked


def _seen_all(
    inputs: Inputs, rows: np.ndarray, started_us: int, wanted: np.ndarray
) -> np.ndarray | None:
    """Return the index of the output row of each event; None if one has no row yet."""
    at_us, key = rows[:, 0] - started_us, rows[:, 1]
    if inputs.query == "filter":
        said = at_us * KEYS + key
        last = wanted
    else:
        cell, count = at_us // inputs.window_us * KEYS + key, inputs.load.rows
        said = cell * count + rows[:, 2]
        last = wanted // count * count + count - 1
    order: np.ndarray = np.argsort(said, kind="stable")
    at = np.searchsorted(said[order], wanted)
    if len(said) == 0 or at.max() >= len(said) or (said[order][at] > last).any():
        return None
    places: np.ndarray = order[at]
    return places


def main() -> None:
    """Run one query at all rates, one after another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--query", choices=QUERIES, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rates", type=int, nargs="+", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    args = parser.parse_args()
    query = RealTimeQuery(args.query, args.folder)
    await_first(query)
    measure(query, Inputs(args.query, WARM_RATE, WARM_SECONDS))
    for rate in args.rates:
        found = measure(query, Inputs(args.query, rate, args.seconds))
        if found is None:
            break
        np.savez(args.folder / f"{rate}.npz", latency_us=found[0], due_us=found[1])
    query.stop()


if __name__ == "__main__":
    main()

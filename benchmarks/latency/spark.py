"""Latency of Spark Structured Streaming: one query, its rates one after the other, default trigger.

The query runs on ``local[2]`` in a separate process; start-up and the first batches do not count.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from open_loop import START_US, now_us, window_latencies
from peers.spark_peer import Feeder, Seen, SparkStream, await_rows, put_closing, scratch_folder

from latency.load import KEYS, WINDOW_US, Inputs

if TYPE_CHECKING:
    from pathlib import Path


MASTER = "local[2]"
LEAD_US = 500_000
#: After the last event of a rate, an event this much later closes its windows, us.
CLOSING_US = 1_000_000
#: If output does not arrive within this time after its load, this rate and all higher ones are
#: skipped, s.
WAIT_S = 25.0
Latencies = dict[int, tuple[np.ndarray, np.ndarray]]


def run_spark(query: str, rates: list[int], seconds: float) -> Latencies:
    """Return latencies (us) and due times after the start of the load, by rate.

    Rates with which it could not keep up are missing.
    """
    folder = scratch_folder()
    stream = SparkStream(folder, query, WINDOW_US, MASTER)
    stream.start()
    found: Latencies = {}
    try:
        stream.warm_up(KEYS)
        started_us, rows = now_us(), 0
        for number, rate in enumerate(rates):
            inputs = Inputs(query, rate, seconds)
            offset_us = now_us() + LEAD_US - started_us
            offset_us += -offset_us % WINDOW_US  # align the windows with those of the load
            _feed(inputs, folder, started_us, offset_us)
            rows += inputs.answers()
            closings = number if query == "window" else 0
            seen = await_rows(folder, rows + closings, WAIT_S)
            if seen.rows < rows + closings:
                break
            found[rate] = _latencies(inputs, seen, started_us, offset_us)
        return found
    finally:
        stream.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _feed(inputs: Inputs, folder: Path, started_us: int, offset_us: int) -> None:
    """Write each event when it is due; event times are later by ``offset_us``."""
    load = inputs.load
    parts: list[tuple[pa.Table, str]] = [(load.table(), "in")]
    if (intervals := inputs.intervals()) is not None:
        parts.append((intervals, "intervals"))
    feeders = [
        Feeder(_shifted(table, offset_us), load.times_us(), folder, into, started_us + offset_us)
        for table, into in parts
    ]
    for feeder in feeders:
        feeder.start()
    for feeder in feeders:
        feeder.join()
    put_closing(folder, offset_us + int(inputs.seconds * 1e6) + CLOSING_US)


def _shifted(table: pa.Table, offset_us: int) -> pa.Table:

    for k, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            times = table.column(k).cast(pa.int64()).to_numpy() + offset_us
            table = table.set_column(k, field.name, pa.array(times).cast(pa.timestamp("us")))
    return table


def _latencies(
    inputs: Inputs, seen: Seen, started_us: int, offset_us: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the latencies of one rate.

    Raises:
        ValueError: the answer has a wrong number of rows.
    """
    at_us, vs, key = seen.columns("_vs", "key")
    due_us = vs - START_US - offset_us
    mine = (due_us >= 0) & (due_us < int(inputs.seconds * 1e6))
    if mine.sum() != (expected := inputs.answers()):
        raise ValueError(f"{inputs}: {mine.sum()} rows of Spark, not {expected}")
    load_us = started_us + offset_us
    at_us, due_us, key = at_us[mine], due_us[mine], key[mine]
    if inputs.query == "window":
        load = inputs.load
        latency = window_latencies(load, load_us, at_us, START_US + due_us, key)
        return latency, load.times_us()
    return at_us - load_us - due_us, due_us

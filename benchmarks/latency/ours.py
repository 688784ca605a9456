"""One latency run of ours: an open-loop load on Spark, and when a subscriber got the rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from open_loop import START_US, Watcher, now_us, window_latencies

import jobmanager
from jobmanager import JobConfig
from latency.load import FILTER_MAX
from planner import Query, Stream, agg, col, tumbling

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from latency.load import Inputs

LEAD_S = 2.5
WAIT_S = 180.0
CTI_EVERY = "4ms"


def query(inputs: Inputs, folder: Path) -> Query:
    """Return the query over the files in ``folder``."""
    path = str(folder / "events.parquet")
    if inputs.query == "filter":
        cheap = Stream.from_parquet(path, vs="time", delay="0s", partitions=2).filter(
            col("value") <= FILTER_MAX
        )
        return cheap.select("key", euros=col("value") * 0.908).to_parquet()
    if inputs.query == "window":
        groups = Stream.from_parquet(path, vs="time", delay="0s", partitions=2).group_by("key")
        windows = groups.window(tumbling(inputs.load.window_us))
        return windows.agg(n=agg.count(), total=agg.sum("value")).to_parquet()
    intervals = str(folder / "intervals.parquet")
    right = Stream.from_parquet(intervals, vs="start", ve="stop", delay="0s", partitions=1)
    left = Stream.from_parquet(path, vs="time", delay="0s", partitions=1).select("key", "value")
    # A vertex of the join gets half of the keys, so CTIs tell it how far time has advanced for
    # them.
    return left.join(right.select("key", "tag"), on="key").to_parquet(cti_every=CTI_EVERY)


def run_ours(inputs: Inputs, folder: Path, place: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return latencies (us), and when each of these events was due after the start.

    Raises:
        ValueError: the answer has a wrong number of rows.
    """
    started_us = now_us() + int(LEAD_S * 1e6)
    config = JobConfig()
    job = jobmanager.run(
        query(inputs, folder),
        root=str(folder / "job"),
        paced=1.0,
        config=replace(config, host=replace(config.host, pace_started_us=started_us)),
        **place,
    )
    watcher = Watcher(job)
    watcher.start()
    job.wait(WAIT_S)
    outputs = watcher.result(WAIT_S)
    if inputs.query == "window":
        seen_us, vs, key = outputs.columns("_vs", "key")
    else:
        seen_us, vs = outputs.columns("_vs")
    if len(vs) != (expected := inputs.answers()):
        raise ValueError(f"{inputs}: {len(vs)} rows, not {expected}")
    if inputs.query == "window":
        load = inputs.load
        return window_latencies(load, started_us, seen_us, vs, key), load.times_us()
    due_us = vs - START_US
    return seen_us - started_us - due_us, due_us

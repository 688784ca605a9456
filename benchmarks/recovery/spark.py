"""One recovery run of Spark Structured Streaming: the same load, killed executors, output.

Spark runs as ``local-cluster``: a driver and three executors of one core, each a process of its
own. One or two executors get SIGKILL; Spark runs their tasks again elsewhere and starts new
executors.
"""

from __future__ import annotations

import os
import shutil
import signal
from typing import TYPE_CHECKING

import numpy as np
from open_loop import Load, now_us, sleep_until
from peers.spark_peer import Feeder, SparkStream, await_rows, put_closing, scratch_folder
from processes import usage_of

from recovery.measures import Run

if TYPE_CHECKING:
    from pathlib import Path

MASTER = "local-cluster[3,1,1024]"
WARM_S = 4.0
LEAD_S = 0.5
#: An event this far after the last one closes all windows, because Spark appends only final ones,
#: us.
CLOSING_US = 1_000_000
WAIT_S = 90.0


def spark_run(load: Load, *, kills: int, kill_at_s: float) -> Run:
    """Send the load and kill ``kills`` executors after ``kill_at_s``."""
    folder = scratch_folder()
    stream = SparkStream(folder, "window", load.window_us, MASTER)
    stream.start()
    try:
        stream.warm_up(load.keys)
        return _run(stream, folder, load, kills, kill_at_s)
    finally:
        stream.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _run(stream: SparkStream, folder: Path, load: Load, kills: int, kill_at_s: float) -> Run:
    started_us = now_us() + int(LEAD_S * 1e6)
    feeder = Feeder(load.table(), load.times_us(), folder, "in", started_us)
    feeder.start()
    sleep_until(started_us + int(WARM_S * 1e6))
    pids = stream.pids()
    before = usage_of(pids)
    sleep_until(started_us + int(kill_at_s * 1e6))
    used = usage_of(pids) - before
    executors = stream.executors()[:kills]
    if len(executors) < kills:
        raise RuntimeError(f"{kills} executors to kill were wanted, there are {executors}")
    for pid in executors:
        os.kill(pid, signal.SIGKILL)
    killed_us = now_us()
    feeder.join()
    put_closing(folder, int(load.seconds * 1e6) + CLOSING_US)
    seen = await_rows(folder, int((load.answer() > 0).sum()), WAIT_S)
    seen_us, vs, key, total = seen.columns("_vs", "key", "total")
    return Run(
        load=load,
        started_us=started_us,
        killed_us=killed_us,
        warm_us=int(WARM_S * 1e6),
        seen_us=seen_us,
        vs=vs,
        key=key,
        total=total,
        batches=(seen.at_us, np.zeros(len(seen.at_us), int).tolist()),
        usage=used,
        digest="",
        recomputed=None,
    )

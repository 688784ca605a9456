"""Rescale: how long the output of a live job pauses when the vertices of its stages change.

Another process appends ``RATE`` events per second (open loop) to a log. A job on Spark counts them
in windows of 10 ms by 1,000 keys, and a subscription notes when each batch arrives. *pause* is the
longest time between two batches around a change, *usual* the longest in a second before it. A
change is a number of vertices, ``split`` (of the range with the greatest load), ``merge``, or
``savepoint``, which should not pause the output. At the end each window is compared with the right
one. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from open_loop import Watcher, now_us, sleep_until
from processes import end_in_order

import jobmanager
from jobmanager import Job
from jobmanager.driver.running.deploying import rescale, take_savepoint
from planner import Query, Stream, agg, tumbling
from rstream import Appender

SCHEMA = pa.schema([("t", pa.int64()), ("key", pa.int64()), ("x", pa.int64())])
RATE, KEYS = 50_000, 1_000
STEP_US, WINDOW_US = 10_000, 10_000
#: Seconds of output that are measured before and after a change; time between two changes.
BEFORE_S, AFTER_S, BETWEEN_S = 1.0, 2.0, 1.5
WAIT_S = 120.0
#: Number of batches after which a job counts as running.
FLOWING = 100
#: Initial number of vertices of the keyed stage.
WIDTH = 2


def events(step: int, rate: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Time after the start (us), key and value of the events of a step."""
    rows = np.arange(rate * STEP_US // 1_000_000)
    times = step * STEP_US + rows * STEP_US // max(1, len(rows))
    return times, (rows * 7_919 + step) % KEYS, rows


def feed(uri: str, rate: int) -> None:
    """Append events until standard input ends; then print the number of steps."""
    log, began_us, step = Appender(uri, SCHEMA), now_us(), 0
    print(began_us, flush=True)
    reading = threading.Thread(target=sys.stdin.read, daemon=True)
    reading.start()
    while reading.is_alive():
        times, keys, values = events(step, rate)
        sleep_until(began_us + step * STEP_US)
        columns = [pa.array(column) for column in (began_us + times, keys, values)]
        log.submit(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
        step += 1
    log.close()
    print(step, flush=True)


def query_of(uri: str) -> Query:
    """Counts and sums by key in short windows."""
    rows = Stream.from_rstream(uri, vs="t", delay="0ms", follow=True, idle_after="100ms")
    found = rows.group_by("key").window(tumbling(f"{WINDOW_US}us"))
    return found.agg(n=agg.count(), total=agg.sum("x")).to_parquet()


def longest_ms(seen_us: list[int], lo_us: int, hi_us: int) -> float:
    """The longest time between two batches that arrived in ``[lo_us, hi_us)``, ms."""
    seen = np.array([lo_us, *(at for at in seen_us if lo_us <= at < hi_us), hi_us])
    return round(float(np.diff(seen).max()) / 1e3, 1)


def wait_until_it_flows(watcher: Watcher) -> None:
    """Wait until batches arrive."""
    deadline_s = time.monotonic() + WAIT_S
    while len(watcher.outputs.at_us) < FLOWING:
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"no output within {WAIT_S:g} s")
        time.sleep(BETWEEN_S / 10)


def change(job: Job, watcher: Watcher, what: str) -> dict[str, Any]:
    """Change the job; the pause of its output."""
    time.sleep(BETWEEN_S + BEFORE_S)
    begun_us, load = now_us(), round(os.getloadavg()[0], 1)
    if what == "savepoint":
        take_savepoint(job.root, "saved", wait_s=WAIT_S)
    else:
        is_range = what in ("split", "merge")
        how: dict[str, Any] = {what: ""} if is_range else {"parallelism": int(what)}
        rescale(job.root, **how, wait_s=WAIT_S)
    time.sleep(AFTER_S)
    seen = watcher.outputs.at_us
    usual = longest_ms(seen, begun_us - int(BEFORE_S * 1e6), begun_us)
    pause = longest_ms(seen, begun_us, now_us())
    return {"to": what, "pause_ms": pause, "usual_ms": usual, "load": load}


def right(began_us: int, steps: int, rate: int) -> dict[tuple[int, int], tuple[int, int]]:
    """By start of the window and key: count and sum."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for step in range(steps):
        for t, key, x in zip(*(column.tolist() for column in events(step, rate)), strict=True):
            place = (began_us + t) // WINDOW_US * WINDOW_US, key
            n, total = found.get(place, (0, 0))
            found[place] = n + 1, total + x
    return found


def run(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Rescale a job to each of the widths."""
    uri, pipe = str(folder / "log"), subprocess.PIPE
    order = [sys.executable, __file__, "--feed", uri, "--rate", str(args.rate)]
    with subprocess.Popen(order, stdin=pipe, stdout=pipe, text=True) as feeder:
        assert feeder.stdout is not None
        began_us = int(feeder.stdout.readline())
        where = {"executor": args.executor, "hosts": args.hosts, "parallelism": WIDTH}
        if args.executor == "spark":
            where["master"] = f"local[{args.hosts}]"
        job = jobmanager.run(query_of(uri), root=str(folder / "job"), **where)
        try:
            watcher = Watcher(job)
            watcher.start()
            wait_until_it_flows(watcher)
            changes = [change(job, watcher, what) for what in args.changes]
            steps = int(feeder.communicate(timeout=WAIT_S)[0])
            job.stop(finish=True)
            job.wait(WAIT_S)
        finally:
            feeder.kill()
            job.cancel()
    rows = job.to_arrow().select(["window_start", "key", "n", "total"])
    columns = [rows.column(0).cast(pa.int64()), *rows.columns[1:]]
    found = {(t, k): (n, x) for t, k, n, x in zip(*(c.to_pylist() for c in columns), strict=True)}
    pauses = sorted(row["pause_ms"] for row in changes)
    return {
        "changes": changes,
        "p50_ms": pauses[len(pauses) // 2],
        "most_ms": pauses[-1],
        "rows": len(rows),
        "is_right": 0 < len(rows) == len(found) and found == right(began_us, steps, args.rate),
    }


def main() -> None:
    """Measure, print, and end with JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", nargs="+", default=["8", "3", "split", "merge", "2"] * 2)
    parser.add_argument("--rate", type=int, default=RATE)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--executor", choices=["spark", "local"], default="spark")
    parser.add_argument("--feed", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.feed:
        feed(args.feed, args.rate)
        return
    end_in_order()
    with tempfile.TemporaryDirectory(prefix="streamscope-rescale-") as folder:
        print(json.dumps(run(args, Path(folder))))


if __name__ == "__main__":
    main()

"""Flink beside ``bench_rescale.py``: stop with a savepoint, start at another parallelism.

The load, its windows and the measured pauses are as in ``bench_rescale.py``; a row is output
once a task manager has printed it. The client of the next job has built it before the stop, so its
start (``start_ms``) is no part of the pause; with ``flink run -s`` it is. Both systems keep two
readers. They differ in the source: Flink generates the events, and ours reads a log that another
process writes. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench_rescale import AFTER_S, BEFORE_S, BETWEEN_S, KEYS, RATE, WIDTH, WINDOW_US, longest_ms
from latency.flink import parsed
from open_loop import START_US, Load, now_us, sleep_until
from processes import end_in_order
from recovery.flink_cluster import Cluster, put_start

if TYPE_CHECKING:
    import subprocess

TASK_MANAGERS, SLOTS, CHECKPOINT_S, LEAD_S = 2, 4, 1.0, 0.5


def run(cluster: Cluster, load: Load, widths: list[int]) -> dict[str, Any]:
    """Change the job's parallelism to each of the widths."""
    cluster.start()
    cluster.warm_up(load)
    folder, before_us, changes = cluster.folder / "load", now_us(), []
    job = cluster.submit(folder, load, WIDTH, CHECKPOINT_S)
    started_us = now_us() + int(LEAD_S * 1e6)
    put_start(folder, started_us)
    sleep_until(started_us)
    for width in widths:
        at_s = time.monotonic()
        client = cluster.client(folder, load, width, CHECKPOINT_S)
        line_of(client)
        start_ms = round((time.monotonic() - at_s) * 1e3)
        time.sleep(BETWEEN_S + BEFORE_S)
        begun_us, load_average = now_us(), round(os.getloadavg()[0], 1)
        path = cluster.stop_with_savepoint(job, folder)
        stopped_us = now_us()
        assert client.stdin is not None
        client.stdin.write(f"{path}\n")
        client.stdin.flush()
        job = line_of(client)
        cluster.await_running(job)
        time.sleep(AFTER_S)
        seen = [at_us for at_us, _ in cluster.printed(begun_us - int(BEFORE_S * 1e6))]
        changes.append(
            {
                "to": width,
                "pause_ms": longest_ms(seen, begun_us, now_us()),
                "stop_ms": round((stopped_us - begun_us) / 1e3),
                "usual_ms": longest_ms(seen, begun_us - int(BEFORE_S * 1e6), begun_us),
                "start_ms": start_ms,
                "load": load_average,
            }
        )
    sleep_until(started_us + int(load.seconds * 1e6))
    cluster.await_end(job)
    rows = parsed(cluster.printed(before_us))[1]
    pauses = [change["pause_ms"] for change in changes]
    return {
        "changes": changes,
        "p50_ms": statistics.median(pauses),
        "most_ms": max(pauses),
        "rows": len(rows),
        "is_right": is_right(load, rows),
    }


def line_of(client: subprocess.Popen[str]) -> str:
    """Return the next line of a client."""
    assert client.stdout is not None
    line = client.stdout.readline().strip()
    if not line:
        raise RuntimeError(f"Flink: the client ended: {client.communicate()[1][-2_000:]}")
    return line


def is_right(load: Load, rows: np.ndarray) -> bool:
    """Return whether every window of every key was printed exactly once, with the right sum."""
    cell = (rows[:, 0] - START_US) // load.window_us * load.keys + rows[:, 1]
    answer = load.answer().ravel()
    is_once = np.array_equal(np.sort(cell), np.flatnonzero(answer))
    return bool(is_once and np.array_equal(answer[cell], rows[:, 2]))


def main() -> None:
    """Measure, print, and end with JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--widths", type=int, nargs="+", default=[8, 3, 8, 3, 2])
    parser.add_argument("--rate", type=int, default=RATE)
    parser.add_argument("--change-s", type=float, default=12.0, help="of the load, per change")
    args = parser.parse_args()
    end_in_order()
    load = Load(args.rate, args.change_s * (len(args.widths) + 1), KEYS, WINDOW_US)
    cluster = Cluster(Path(tempfile.mkdtemp(prefix="streamscope-flink-")), TASK_MANAGERS, SLOTS)
    try:
        print(json.dumps(run(cluster, load, args.widths)))
    finally:
        cluster.stop()
        shutil.rmtree(cluster.folder, ignore_errors=True)


if __name__ == "__main__":
    main()

"""Restore: a worker with a large state is killed. How long does the output pause?

A vertex fills its state, then gets a steady load (open loop, ``RATE`` events per second). Its
worker, a Python process of Spark, gets SIGKILL; spare hosts are warm. *output* is the time from the
kill until the first row is seen whose event was due after the kill; *checkpoint* is what the
checkpoints of the steady load upload, beside the events since the checkpoint before. The state
exceeds its budget, so it is on scratch. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from open_loop import START_US, Watcher, now_us, sleep_until
from processes import end_in_order

import jobmanager
from jobmanager import JobConfig
from jobmanager.storage.notice_log import read_notices
from planner import KeyedContext, KeyedProcess, Query, Stream, agg, tumbling
from rstream import open_store
from rvertex.messages import CheckpointTaken

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobmanager import Job

#: Events per second of the steady load, and for how long it is written.
RATE, STEADY_S = 200, 900
#: Bytes of the text that a key or row stores beside its numbers.
TEXT_BYTES = 400
#: All of the state is due within this time, us; the steady load begins later.
FILL_US, STEADY_AFTER_US = 1_000_000, 2_000_000
BLOCK_ROWS = 131_072
TICK_S = 0.1
#: The vertex keeps up with the load if it is behind by less than this, us.
LEVEL_US = 1_000_000
CHECKPOINTS = 2
FILL_WAIT_S, WAIT_S = 400.0, 90.0
HOSTS = 4
TIME = pa.timestamp("us")


class Noted(KeyedProcess):
    """Emits a row per event; each key stores a text."""

    output = {"n": "int64", "at": "int64"}  # noqa: RUF012  as docs/USERCODE.md shows it
    n: int = 0
    text: str = ""

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        """Count the event, and store a text."""
        self.n += 1
        self.text = f"{event.k:0400}"
        ctx.emit(self.n, event.vs)


def process_of(folder: Path, rows: int) -> Query:
    """Return a query with a keyed process of ``rows`` keys."""
    return _events(folder, rows, fills=True).group_by("k").process(Noted).to_parquet()


def join_of(folder: Path, rows: int) -> Query:
    """Return a query with a join that stores ``rows`` rows."""
    path = folder / "right.parquet"
    with pq.ParquetWriter(path, _remembered(0, 1).schema, compression="lz4") as writer:
        for lo in range(0, rows, BLOCK_ROWS):
            writer.write_table(_remembered(lo, min(rows, lo + BLOCK_ROWS), rows))
    right = Stream.from_parquet(str(path), vs="begin", ve="stop", delay="0s", partitions=1)
    return _events(folder, rows, fills=False).join(right, on="k").to_parquet()


def window_of(folder: Path, rows: int) -> Query:
    """Return a query with a window of ``rows`` keys, which closes at the end."""
    groups = _events(folder, rows, fills=True).group_by("k")
    return groups.window(tumbling("1d")).agg(n=agg.count(), k2=agg.sum("k")).to_parquet()


@dataclass(frozen=True)
class Kind:
    """A kind of state: its query, and the approximate bytes of a key or row in a checkpoint."""

    make: Callable[[Path, int], Query]
    row_bytes: int
    has_output: bool = True


KINDS = {
    "process": Kind(process_of, TEXT_BYTES + 66),
    "join": Kind(join_of, TEXT_BYTES + 30),
    "window": Kind(window_of, 24, has_output=False),
}


def main() -> None:
    """Measure every kind with every size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=["process", "join"])
    parser.add_argument("--gb", nargs="*", type=float, default=[0.1, 1.0, 5.0])
    parser.add_argument("--state-memory", default="200MB")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--checkpoint-interval", type=float, default=5.0)
    parser.add_argument("--folder", help="where the root and the scratch files are")
    args = parser.parse_args()
    end_in_order()
    found = []
    for name in args.kinds:
        for size in args.gb:
            row = {"kind": name, "gb": size} | run_one(KINDS[name], size, args)
            print(json.dumps(row), flush=True)
            found.append(row)
    print(json.dumps(found))


def run_one(kind: Kind, size: float, args: argparse.Namespace) -> dict[str, Any]:
    """Fill the state, and kill the worker that has it."""
    config = JobConfig()
    limits = replace(config.host, checkpoint_interval_s=args.checkpoint_interval)
    with tempfile.TemporaryDirectory(prefix="streamscope-restore-", dir=args.folder) as folder:
        query = kind.make(Path(folder), int(size * 1e9 / kind.row_bytes))
        begun_us = now_us() + 4_000_000
        job = jobmanager.run(
            query,
            root=f"{folder}/job",
            executor="spark",
            master=f"local[{HOSTS}]",
            hosts=HOSTS,
            parallelism=1,
            paced=1.0,
            state_memory=args.state_memory,
            scratch=folder,
            config=replace(config, tick_s=TICK_S, host=replace(limits, pace_started_us=begun_us)),
        )
        watcher = Watcher(job)
        watcher.start()
        try:
            return _measured(job, watcher, kind, begun_us, args.kills)
        finally:
            job.cancel()
            with contextlib.suppress(Exception):
                job.wait(WAIT_S)


def _measured(job: Job, watcher: Watcher, kind: Kind, begun_us: int, kills: int) -> dict[str, Any]:
    vertex = _wait_level(job, begun_us)
    filled_s = (now_us() - begun_us) / 1e6
    pauses: list[dict[str, float]] = []
    uploads: list[tuple[int, int]] = []
    for _ in range(kills):
        taken = _wait_checkpoints(job, vertex, CHECKPOINTS)
        uploads += [(notice.size_bytes, events) for notice, events in taken]
        row = _row(job, vertex)
        killed_us = now_us()
        os.kill(row["pid"], signal.SIGKILL)
        pauses.append(_pause(job, watcher, kind, vertex, row, killed_us - begun_us) | {})
        _wait_level(job, begun_us)
    last = [notice for _, notice in _taken(job, vertex)][-1]
    return {
        "state_bytes": last.state_bytes,
        "fill_s": round(filled_s, 1),
        "pauses": pauses,
        "upload_bytes": int(statistics.median(nbytes for nbytes, _ in uploads)),
        "upload_events": int(statistics.median(events for _, events in uploads)),
    }


def _pause(
    job: Job, watcher: Watcher, kind: Kind, vertex: str, row: dict[str, Any], due_us: int
) -> dict[str, float]:
    """Return the seconds from a kill at ``due_us`` to the first progress and output."""
    begun = time.monotonic()
    found: dict[str, float] = {}
    seen = len(watcher.outputs.batches)
    killed_us = now_us()
    while time.monotonic() - begun < WAIT_S:
        now = _row(job, vertex)
        if now["epoch"] != row["epoch"] and sum(now["inputs"]) > sum(row["inputs"]):
            found.setdefault("progress_s", round(time.monotonic() - begun, 2))
        while seen < len(watcher.outputs.batches):
            if (
                int(pc.max(watcher.outputs.batches[seen].column("_vs")).as_py())
                >= START_US + due_us
            ):
                found.setdefault("output_s", (watcher.outputs.at_us[seen] - killed_us) / 1e6)
            seen += 1
        if "progress_s" in found and ("output_s" in found or not kind.has_output):
            return found
        time.sleep(TICK_S / 10)  # samples of the status
    raise TimeoutError(f"no output {WAIT_S:g} s after the kill: {job.status()['state']}")


def _wait_level(job: Job, begun_us: int) -> str:
    """Wait until the stateful vertex has all events that are due; return its name."""
    begun = time.monotonic()
    sleep_until(begun_us + 2 * STEADY_AFTER_US)
    while time.monotonic() - begun < FILL_WAIT_S:
        status = job.status()
        if status["state"] == "starting":
            time.sleep(TICK_S)
            continue
        assert status["state"] == "running", status
        vertices = status["vertices"]
        behind = [
            now_us() - begun_us - (v["cti_us"] - START_US) for v in vertices if v.get("cti_us")
        ]
        if len(behind) == len(vertices) and max(behind) < LEVEL_US:
            return str(vertices[-1]["vertex"])
        time.sleep(TICK_S)
    raise TimeoutError(f"the state was not complete after {FILL_WAIT_S:g} s: {job.status()}")


def _row(job: Job, vertex: str) -> dict[str, Any]:
    (row,) = (row for row in job.status()["vertices"] if row["vertex"] == vertex)
    return dict(row)


def _taken(job: Job, vertex: str) -> list[tuple[int, CheckpointTaken]]:
    notices = read_notices(open_store(job.root))
    taken = [(us, n) for us, n in notices if isinstance(n, CheckpointTaken)]
    return [(us, n) for us, n in taken if n.vertex == vertex]


def _wait_checkpoints(job: Job, vertex: str, count: int) -> list[tuple[CheckpointTaken, int]]:
    """Wait for more checkpoints; return each with the input items since the one before."""
    begun, before = time.monotonic(), max(len(_taken(job, vertex)), 1)
    while time.monotonic() - begun < WAIT_S:
        taken = [notice for _, notice in _taken(job, vertex)]
        if len(taken) >= before + count:
            pairs = zip(taken[before - 1 :], taken[before:], strict=False)
            return [(b, sum(b.inputs) - sum(a.inputs)) for a, b in pairs]
        time.sleep(TICK_S)
    raise TimeoutError(f"{vertex} took no {count} checkpoints within {WAIT_S:g} s")


def _events(folder: Path, rows: int, *, fills: bool) -> Stream:
    """Write the load over keys below ``rows``; if it ``fills``, first one event per key."""
    path = folder / "events.parquet"
    steady = np.arange(RATE * STEADY_S)
    keys = np.random.default_rng(7).integers(0, rows, len(steady))
    with pq.ParquetWriter(path, _table(steady[:0], keys[:0]).schema, compression="lz4") as writer:
        for lo in range(0, rows if fills else 1, BLOCK_ROWS):
            k = np.arange(lo, min(rows if fills else 1, lo + BLOCK_ROWS))
            writer.write_table(_table(k * FILL_US // rows, k))
        writer.write_table(_table(STEADY_AFTER_US + steady * 1_000_000 // RATE, keys))
    return Stream.from_parquet(str(path), vs="time", delay="0s", partitions=1)


def _table(due_us: np.ndarray, keys: np.ndarray) -> pa.Table:
    return pa.table({"time": pa.array(START_US + due_us).cast(TIME), "k": keys})


def _remembered(lo: int, hi: int, rows: int = 1) -> pa.Table:
    k = np.arange(lo, hi)
    start = pa.array(START_US + k * FILL_US // rows).cast(TIME)
    stop = pa.array(np.full(len(k), START_US + 86_400_000_000)).cast(TIME)
    text = pc.utf8_lpad(pa.array(k).cast(pa.string()), TEXT_BYTES, "0")
    return pa.table({"begin": start, "stop": stop, "k": k, "text": text})


if __name__ == "__main__":
    main()

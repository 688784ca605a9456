"""One recovery run of ours: a steady load, SIGKILL at a known time, what a subscriber saw.

The workers that hold the keyed window vertices are killed, one or two at the same moment. Hosts are
Spark's Python workers, one vertex each.
"""

from __future__ import annotations

import os
import signal
import tempfile
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from open_loop import Load, Watcher, now_us, sleep_until
from processes import descendants, usage_of
from recovery_measures import Run

import jobmanager
from jobmanager import JobConfig
from jobmanager.messages import LOG_CODEC
from jobmanager.root import NOTICES
from planner import Query, Stream, agg, tumbling
from rstream import open_reader
from rstream.batch import only_events
from rvertex.messages import CheckpointTaken, Progress, VertexStarted

if TYPE_CHECKING:
    from pathlib import Path

    from jobmanager import Job
    from jobmanager.messages import Notice

HOSTS = 4
#: From the call of ``run`` until the first event is due.
LEAD_S = 3.0
#: Events of the first moments do not count: connections are made.
WARM_S = 1.5
WAIT_S = 120.0


@dataclass(frozen=True)
class Setting:
    """How the jobs of a benchmark run."""

    executor: Any
    master: str
    checkpoint_interval_s: float
    hosts: int = HOSTS


def query(events: Path, load: Load) -> Query:
    """Count and sum by key over short windows."""
    source = Stream.from_parquet(str(events), vs="time", partitions=2)
    windows = source.group_by("key").window(tumbling(load.window_us))
    return windows.agg(n=agg.count(), total=agg.sum("value")).to_parquet()


def undisturbed(events: Path, load: Load, folder: Path, setting: Setting) -> dict[str, Any]:
    """The last status of a run as fast as possible, which also starts what later runs share."""
    job = jobmanager.run(query(events, load), root=str(folder / "whole"), **_place(setting))
    return job.wait(WAIT_S)


def recovery_run(
    events: Path,
    load: Load,
    folder: Path,
    setting: Setting,
    options: dict[str, Any],
    *,
    kills: int,
    kill_at_s: float,
) -> Run:
    """Run the load at its pace and kill ``kills`` workers when ``kill_at_s`` has passed."""
    root = tempfile.mkdtemp(prefix="run-", dir=folder)
    started_us = now_us() + int(LEAD_S * 1e6)
    config = JobConfig()
    limits = replace(
        config.host,
        pace_started_us=started_us,
        checkpoint_interval_s=setting.checkpoint_interval_s,
    )
    job = jobmanager.run(
        query(events, load),
        root=f"{root}/job",
        paced=1.0,
        config=replace(config, host=limits),
        **_place(setting),
        **options,
    )
    watcher = Watcher(job)
    watcher.start()
    sleep_until(started_us + int(WARM_S * 1e6))
    pids = [os.getpid(), *descendants(os.getpid())]
    before = usage_of(pids)
    sleep_until(started_us + int(kill_at_s * 1e6))
    used = usage_of(pids) - before
    killed_us = _kill(job, kills)
    status = job.wait(WAIT_S)
    outputs = watcher.result(WAIT_S)
    seen_us, vs, key, total = outputs.columns("_vs", "key", "total")
    return Run(
        load=load,
        started_us=started_us,
        killed_us=killed_us,
        warm_us=int(WARM_S * 1e6),
        seen_us=seen_us,
        vs=vs,
        key=key,
        total=total,
        batches=(outputs.at_us, outputs.partition),
        usage=used,
        digest=status["output_digest"],
        recomputed=_recomputed(job.root, _bytes_per_row(events)),
    )


def _place(setting: Setting) -> dict[str, Any]:
    place: dict[str, Any] = {"executor": setting.executor, "hosts": setting.hosts}
    return {**place, "master": setting.master} if setting.executor == "spark" else place


def _kill(job: Job, kills: int) -> int:
    """SIGKILL the workers of the keyed window vertices; when that was."""
    rows = [v for v in job.status()["vertices"] if v["vertex"].startswith("s02")]
    pids = list(dict.fromkeys(v["pid"] for v in rows))[:kills]
    if len(pids) < kills or os.getpid() in pids:
        raise RuntimeError(f"{kills} workers to kill were wanted, there are {pids}")
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return now_us()


def _bytes_per_row(events: Path) -> float:
    from pyarrow.parquet import ParquetFile

    return events.stat().st_size / ParquetFile(events).metadata.num_rows


@dataclass(frozen=True)
class Recomputed:
    """Input items that vertices took a second time, and what was read again for that."""

    items: int
    bytes: int


def _recomputed(root: str, bytes_per_row: float) -> Recomputed:
    """From the job manager's log: where each instance was, and where its successor began.

    Positions are those of the last report before the loss, so up to one report interval of items is
    not counted.
    """
    position: dict[str, tuple[int, ...]] = {}
    is_source: dict[str, bool] = {}
    sizes: dict[str, dict[tuple[int, ...], int]] = {}
    items, read_bytes = 0, 0.0
    for notice in _notices(root):
        match notice:
            case Progress(vertices=rows):
                for row in rows:
                    position[row.vertex] = row.inputs
            case CheckpointTaken(vertex=vertex, inputs=inputs, size_bytes=size):
                sizes.setdefault(vertex, {})[inputs] = size
            case VertexStarted(vertex=vertex, inputs=inputs):
                last = position.get(vertex, inputs)
                again = sum(max(0, a - b) for a, b in zip(last, inputs, strict=True))
                items += again
                if vertex in is_source:
                    read_bytes += sizes.get(vertex, {}).get(inputs, 0)
                    read_bytes += again * bytes_per_row if vertex.startswith("s01") else 0
                is_source[vertex] = True
                position[vertex] = inputs
    return Recomputed(items, int(read_bytes))


def _notices(root: str) -> list[Notice]:
    reader = open_reader(f"{root}/{NOTICES}", 0)
    notices: list[Notice] = []
    while (batch := reader.read_next()) is not None:
        rows = only_events(batch.batch).column("notice").to_pylist()
        notices += [LOG_CODEC.decode(data) for data in rows]
    reader.close()
    return notices

"""One recovery run of ours: a steady load, a SIGKILL, and the output at a subscriber.

The workers that hold the keyed window vertices are killed, one or two at the same moment. Hosts are
Spark's Python workers, one vertex each.
"""

from __future__ import annotations

import itertools
import os
import signal
import tempfile
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from open_loop import Load, Watcher, now_us, sleep_until
from processes import descendants, usage_of

import jobmanager
from jobmanager import JobConfig
from jobmanager.storage.notice_log import read_notices
from planner import Query, Stream, agg, tumbling
from recovery.measures import Run
from rstream import open_store
from rvertex.messages import CheckpointTaken, VertexStarted

if TYPE_CHECKING:
    from pathlib import Path

    from jobmanager import Job

HOSTS = 4
SOURCE_STAGE, WINDOW_STAGE = "s01", "s02"
#: How often positions are recorded, s.
TICK_S = 0.1
#: Time from the call of ``run`` until the first event is due, s.
LEAD_S = 3.0
#: The first seconds do not count, because connections are made.
WARM_S = 1.5
WAIT_S = 120.0


@dataclass(frozen=True)
class Setting:
    """The settings of the jobs of a benchmark."""

    executor: Any
    master: str
    checkpoint_interval_s: float
    hosts: int = HOSTS


def query(events: Path, load: Load, *, is_mixed: bool = False) -> Query:
    """Return count and sum by key over short windows; if mixed, only these are replicated."""
    source = Stream.from_parquet(str(events), vs="time", delay="0s", partitions=2)
    source = source.recover_with("replay") if is_mixed else source
    windows = source.group_by("key").window(tumbling(load.window_us))
    sums = windows.agg(n=agg.count(), total=agg.sum("value"))
    return (sums.recover_with("replication", replicas=2) if is_mixed else sums).to_parquet()


def undisturbed(events: Path, load: Load, folder: Path, setting: Setting) -> dict[str, Any]:
    """Return the last status of a run at full speed, which also warms up later runs."""
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
    is_whole_vertex: bool = False,
    is_mixed: bool = False,
) -> Run:
    """Run the load at its pace and kill ``kills`` workers after ``kill_at_s``."""
    root = tempfile.mkdtemp(prefix="run-", dir=folder)
    started_us = now_us() + int(LEAD_S * 1e6)
    config = JobConfig()
    limits = replace(
        config.host,
        pace_started_us=started_us,
        checkpoint_interval_s=setting.checkpoint_interval_s,
    )
    positions = Positions()
    job = jobmanager.run(
        query(events, load, is_mixed=is_mixed),
        root=f"{root}/job",
        paced=1.0,
        config=replace(config, tick_s=TICK_S, host=limits),
        on_status=positions,
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
    killed_us = _kill(job, kills, is_whole_vertex=is_whole_vertex)
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
        recomputed=_recomputed(job.root, positions, _bytes_per_row(events)),
    )


def _place(setting: Setting) -> dict[str, Any]:
    place: dict[str, Any] = {"executor": setting.executor, "hosts": setting.hosts}
    return {**place, "master": setting.master} if setting.executor == "spark" else place


def _kill(job: Job, kills: int, *, is_whole_vertex: bool) -> int:
    """Send SIGKILL to workers that hold keyed window vertices; return the time."""
    pids = victims(job.status(), kills, is_whole_vertex=is_whole_vertex)
    if len(pids) < kills or os.getpid() in pids:
        raise RuntimeError(f"{kills} workers to kill were wanted, there are {pids}")
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return now_us()


def victims(status: dict[str, Any], kills: int, *, is_whole_vertex: bool) -> list[int]:
    """Return the workers to kill: one per window vertex, so that its replicas, if any, survive.

    ``is_whole_vertex``: all instances of the first one instead.
    """
    holders = {
        row["vertex"]: [i["pid"] for i in row.get("instances") or [row] if i["pid"]]
        for row in status["vertices"]
    }
    windows = [pids for vertex, pids in holders.items() if vertex.startswith(WINDOW_STAGE)]
    if is_whole_vertex:
        return windows[0][:kills]
    choices = [list(pids) for pids in itertools.product(*windows[:kills])]
    choices = [pids for pids in choices if len(set(pids)) == kills]

    def lost(pids: list[int]) -> int:
        return sum(set(held) <= set(pids) for held in holders.values())

    return min(choices, key=lost, default=[])


def _bytes_per_row(events: Path) -> float:
    from pyarrow.parquet import ParquetFile

    return events.stat().st_size / ParquetFile(events).metadata.num_rows


@dataclass(frozen=True)
class Recomputed:
    """Input items that vertices read a second time, and the files read for them."""

    items: int
    bytes: int


class Positions:
    """The positions of the vertices, from the statuses of a job."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, dict[str, tuple[int, ...]]]] = []

    def __call__(self, status: dict[str, Any]) -> None:
        """Add a status."""
        rows = {row["vertex"]: tuple(row["inputs"]) for row in status["vertices"]}
        self._rows.append((now_us(), rows))

    def before(self, vertex: str, at_us: int) -> tuple[int, ...]:
        """Return the furthest position of the vertex before a time; empty if there is none."""
        seen = [row[vertex] for us, row in self._rows if us < at_us and row.get(vertex)]
        return tuple(map(max, *seen)) if len(seen) > 1 else ()


def _recomputed(root: str, positions: Positions, bytes_per_row: float) -> Recomputed:
    """Compare the start position of each instance (from the log) with its vertex's last position.

    Positions are up to a tick and a report interval old; that difference is not counted.
    """
    reads: dict[tuple[str, tuple[int, ...]], tuple[tuple[int, ...], int]] = {}
    items, read_bytes = 0, 0.0
    started: set[str] = set()
    for at_us, notice in read_notices(open_store(root)):
        if isinstance(notice, CheckpointTaken):
            first = getattr(notice, "reads", notice.inputs)
            reads[notice.vertex, notice.inputs] = first, notice.size_bytes
        elif isinstance(notice, VertexStarted):
            first, size_bytes = reads.get((notice.vertex, notice.inputs), (notice.inputs, 0))
            stood = positions.before(notice.vertex, at_us)
            again = sum(max(0, a - b) for a, b in zip(stood, first, strict=False))
            if notice.vertex in started:
                items += again
                read_bytes += size_bytes
                read_bytes += again * bytes_per_row * notice.vertex.startswith(SOURCE_STAGE)
            started.add(notice.vertex)
    return Recomputed(items, int(read_bytes))

"""Recovery runs of Flink: a standalone cluster, killed task managers, and the visible output.

Two task managers run the job, and there are as many spare ones as will be killed. All of them have
run the same job over other events before, so that the spare ones are warm, too. The job has a
replayable source and exactly-once checkpoints. Rows are measured twice: in the files that
checkpoints committed, which are Flink's exactly-once output, and in the printed output, which is
earlier but repeats rows.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from latency.flink import FLINK, parsed
from open_loop import Load, now_us, sleep_until
from processes import usage_of

from recovery.flink_cluster import Cluster, put_start
from recovery.measures import Run, is_right

if TYPE_CHECKING:
    from processes import Usage

#: Number of task managers that run the job.
SLOTS = 2
WARM_S = 4.0
LEAD_S = 0.5
#: How often the sink's folder is listed, s.
LOOK_S = 0.002
#: Matches a printed row: its subtask and its key.
_PRINTED = re.compile(rb"(\d+)> \+I\[-?\d+, (\d+), ")


def is_installed() -> bool:
    """Return whether ``make bench-peers`` has installed Flink."""
    return FLINK.exists()


@dataclass(frozen=True)
class FlinkRuns:
    """A run, once with its committed files and once with its printed rows."""

    committed: Run
    printed: Run


def flink_run(
    load: Load, *, kills: int, kill_at_s: float, checkpoint_interval_s: float
) -> FlinkRuns:
    """Run the load at its pace and kill ``kills`` task managers after ``kill_at_s``."""
    folder = Path(tempfile.mkdtemp(prefix="streamscope-flink-"))
    cluster = Cluster(folder, task_managers=SLOTS + kills)
    try:
        cluster.start()
        return _run(cluster, load, kills, kill_at_s, checkpoint_interval_s)
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _run(
    cluster: Cluster, load: Load, kills: int, kill_at_s: float, checkpoint_interval_s: float
) -> FlinkRuns:
    cluster.warm_up(load)
    folder = cluster.folder / "load"
    job = cluster.submit(folder, load, SLOTS, checkpoint_interval_s)
    printed_before = now_us()
    sink = SinkFolder(folder / "out")
    sink.start()
    try:
        started_us = now_us() + int(LEAD_S * 1e6)
        put_start(folder, started_us)
        sleep_until(started_us + int(WARM_S * 1e6))
        before = usage_of(cluster.pids())
        sleep_until(started_us + int(kill_at_s * 1e6))
        used = usage_of(cluster.pids()) - before
        killed_us = cluster.kill_busy(kills)
        sleep_until(started_us + int(load.seconds * 1e6))
        cluster.await_end(job)
    finally:
        sink.stop()
    printed = cluster.printed(printed_before)
    subtasks = subtasks_of(printed)
    found = [
        _seen(load, started_us, killed_us, used, chunks, subtasks)
        for chunks in (sink.files, printed)
    ]
    return FlinkRuns(*found)


def _seen(
    load: Load,
    started_us: int,
    killed_us: int,
    used: Usage,
    chunks: list[tuple[int, bytes]],
    subtasks: dict[int, int],
) -> Run:
    seen_us, rows = parsed(chunks)
    return Run(
        load=load,
        started_us=started_us,
        killed_us=killed_us,
        warm_us=int(WARM_S * 1e6),
        seen_us=seen_us,
        vs=rows[:, 0],
        key=rows[:, 1],
        total=rows[:, 2],
        batches=batches_of(seen_us, rows, subtasks),
        usage=used,
        digest="",
        recomputed=None,
    )


def subtasks_of(printed: list[tuple[int, bytes]]) -> dict[int, int]:
    """Return the sink's subtask of each key, which is the same before and after a kill.

    Raises:
        RuntimeError: a key has rows from several subtasks.
    """
    found = set(_PRINTED.findall(b"".join(chunk for _, chunk in printed)))
    subtasks = {int(key): int(subtask) for subtask, key in found}
    if len(subtasks) < len(found):
        raise RuntimeError("Flink: several subtasks printed rows of one key")
    return subtasks


def batches_of(
    seen_us: np.ndarray, rows: np.ndarray, subtasks: dict[int, int]
) -> tuple[list[int], list[int]]:
    """Return ``Run.batches``: when new rows became visible, and of which subtask.

    Raises:
        RuntimeError: no subtask is known for a key.
    """
    first = first_of_each(rows)
    keys = rows[first, 1].tolist()
    if unknown := sorted(set(keys) - subtasks.keys()):
        raise RuntimeError(f"Flink: no subtask printed rows of the keys {unknown[:10]}")
    return seen_us[first].tolist(), [subtasks[key] for key in keys]


def first_of_each(rows: np.ndarray) -> np.ndarray:
    """Return the indices of the distinct rows' first occurrences, in order."""
    return np.sort(np.unique(rows, axis=0, return_index=True)[1])


def repeats(run: Run) -> dict[str, Any]:
    """Return how many rows were repeated, and whether the output is right without these."""
    rows = np.column_stack([run.vs, run.key, run.total])
    first = first_of_each(rows)
    once = {name: getattr(run, name)[first] for name in ("seen_us", "vs", "key", "total")}
    return {
        "repeated_rows": len(rows) - len(first),
        "equal_without_repeats": is_right(replace(run, **once)),
    }


class SinkFolder(threading.Thread):
    """Records when each file of a file sink was committed, which is when it gets its final name."""

    def __init__(self, folder: Path) -> None:
        super().__init__(name="flink-files", daemon=True)
        self._folder = folder
        self._known: dict[str, int] = {}
        self._stopped = threading.Event()

    def run(self) -> None:
        """Check the folder until ``stop`` is called."""
        while not self._stopped.wait(LOOK_S):
            self._look()

    def stop(self) -> None:
        """Check once more, and end the thread."""
        self._stopped.set()
        self.join()
        self._look()

    def _look(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self._folder):
                if name.startswith("part-"):
                    self._known.setdefault(name, now_us())

    @property
    def files(self) -> list[tuple[int, bytes]]:
        """Return when each file was committed, and its rows, in this order."""
        seen = sorted((at_us, name) for name, at_us in self._known.items())
        return [(at_us, (self._folder / name).read_bytes()) for at_us, name in seen]

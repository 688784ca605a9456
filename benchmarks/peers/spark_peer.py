"""Spark Structured Streaming under an open-loop load: feeder, process, and visible output.

Every ``FILE_US`` the feeder writes a file of the due rows (under a temporary name, then renamed, as
Spark's guide requires). Output is visible when the sink's log says that its batch was committed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from open_loop import START_US, now_us, sleep_until
from processes import descendants

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Event time in one file, us; smaller files give Spark more files to list.
FILE_US = 200_000
#: Batches in which Spark may generate and compile its code before the measurement.
WARM_BATCHES = 5
WARM_WAIT_S = 60.0
WARM_ROWS = 10_000
READY_WAIT_S = 120.0
STOP_WAIT_S = 30.0
#: Distance of the warm-up events before the load, us.
WARM_US = 60_000_000
EXECUTOR = "CoarseGrainedExecutorBackend"


class SparkStream:
    """A run of a query; ``start`` after ``kill`` continues it from its checkpoint."""

    def __init__(self, folder: Path, query: str, window_us: int, master: str) -> None:
        self.folder = folder
        arguments = ["--folder", str(folder), "--query", query, "--window-us", str(window_us)]
        script = str(Path(__file__).parent / "spark_stream.py")
        self._command = [sys.executable, script, *arguments, "--master", master]
        self._process: subprocess.Popen[str] | None = None
        for name in ("in", "intervals", "scratch"):
            (folder / name).mkdir()

    def start(self) -> None:
        """Start the process and wait until its query runs."""
        log = (self.folder / "log").open("ab")
        env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_DIRS": str(self.folder)}
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=env,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        limit = threading.Timer(READY_WAIT_S, self.kill)
        limit.start()
        try:
            for line in self._process.stdout:
                if line.strip() == "READY":
                    return
        finally:
            limit.cancel()
        tail = (self.folder / "log").read_text(errors="replace")[-2000:]
        raise RuntimeError(f"Spark did not start: {tail}")

    def warm_up(self, keys: int) -> None:
        """Let it process some batches of earlier events, whose windows are ignored."""
        deadline_us = now_us() + int(WARM_WAIT_S * 1e6)
        commits = self.folder / "checkpoint" / "commits"
        for number in range(WARM_BATCHES):
            base_us = START_US - WARM_US + number * 1_000_000
            times = pa.array(base_us + np.arange(WARM_ROWS)).cast(pa.timestamp("us"))
            ends = pa.array(base_us + 100 + np.arange(WARM_ROWS)).cast(pa.timestamp("us"))
            key = np.arange(WARM_ROWS) % keys
            before = len(list(commits.glob("[0-9]*")))
            intervals = pa.table({"start": times, "stop": ends, "key": key, "tag": key})
            put(self.folder, intervals, f"a{number:06d}", into="intervals")
            put(self.folder, pa.table({"time": times, "key": key, "value": key}), f"a{number:06d}")
            while len(list(commits.glob("[0-9]*"))) <= before + 1 and now_us() < deadline_us:
                time.sleep(0.1)

    def pids(self) -> list[int]:
        """Return the ids of all processes of the query."""
        assert self._process is not None
        return [self._process.pid, *descendants(self._process.pid)]

    def executors(self) -> list[int]:
        """Return the ids of its executors, if these are separate processes."""
        assert self._process is not None
        lines = descendants(self._process.pid).items()
        return sorted(pid for pid, line in lines if EXECUTOR in line and "java" in line[:200])

    def kill(self) -> None:
        """Send SIGKILL to all its processes."""
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        assert self._process is not None
        self._process.wait(STOP_WAIT_S)

    def stop(self) -> None:
        """Stop it with SIGTERM, or after some time with SIGKILL."""
        assert self._process is not None
        assert self._process.stdin is not None
        pids = self.pids()
        self._process.stdin.close()
        try:
            self._process.wait(STOP_WAIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        for pid in pids[1:]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


class Feeder(threading.Thread):
    """Writes rows when they are due, whether or not they are read.

    ``due_us``: when each row of ``table`` is due after ``started_us``, in order.
    """

    def __init__(
        self, table: pa.Table, due_us: np.ndarray, folder: Path, into: str, started_us: int
    ) -> None:
        super().__init__(name="feeder", daemon=True)
        self._folder, self._into, self._started_us = folder, into, started_us
        self._table, self._due_us = table, due_us

    def run(self) -> None:
        """Write one file per step."""
        for at_us in range(FILE_US, int(self._due_us[-1]) + 1 + FILE_US, FILE_US):
            lo, hi = np.searchsorted(self._due_us, [at_us - FILE_US, at_us])
            sleep_until(self._started_us + at_us)
            name = f"{self._started_us + at_us:020d}"
            put(self._folder, self._table.slice(lo, hi - lo), name, into=self._into)


def put_closing(folder: Path, at_us: int) -> None:
    """Write one event ``at_us`` after the start, which closes all windows before it."""
    time = pa.array([START_US + at_us]).cast(pa.timestamp("us"))
    put(folder, pa.table({"time": time, "key": [0], "value": [10_000]}), f"closing-{at_us}")


def put(folder: Path, table: pa.Table, name: str, into: str = "in") -> None:
    """Write a file of rows into an input folder."""
    zoned = table.schema
    for k, field in enumerate(zoned):
        if pa.types.is_timestamp(field.type):
            zoned = zoned.set(k, pa.field(field.name, pa.timestamp("us", "UTC")))
    scratch = folder / "scratch" / f"{into}-{name}"
    pq.write_table(table.cast(zoned), scratch, compression="lz4")
    scratch.rename(folder / into / f"{name}.parquet")


@dataclass(frozen=True)
class Seen:
    """The committed batches of a sink: for each the time at which it was visible, and its rows."""

    at_us: list[int]
    tables: list[pa.Table]

    @property
    def rows(self) -> int:
        return sum(table.num_rows for table in self.tables)

    def columns(self, *names: str) -> tuple[np.ndarray, ...]:
        """Return, for each row, when it was visible, then these columns."""
        seen = np.repeat(self.at_us, [table.num_rows for table in self.tables])
        return (
            seen,
            *(np.concatenate([t[name].to_numpy() for t in self.tables]) for name in names),
        )


def seen_of(folder: Path) -> Seen:
    """Return the entries of the sink's log, per batch."""
    seen, known = Seen([], []), set[str]()
    for path in _logs(folder / "out" / "_spark_metadata"):
        tables = []
        for line in path.read_text().splitlines()[1:]:
            file = unquote(urlparse(json.loads(line)["path"]).path)
            if file not in known:
                known.add(file)
                tables.append(pq.read_table(file, partitioning=None))
        wanted = [t.filter(pc.greater_equal(t["_vs"], START_US)) for t in tables]
        rows = [table for table in wanted if table.num_rows]
        if rows:
            seen.at_us.append(path.stat().st_mtime_ns // 1_000)
            seen.tables.append(pa.concat_tables(rows))
    return seen


def _logs(folder: Path) -> Iterator[Path]:
    """Return the sink's log, one file per batch."""
    found = [p for p in folder.glob("*") if p.name.partition(".")[0].isdigit()]
    yield from sorted(found, key=lambda p: int(p.name.partition(".")[0]))


def await_rows(folder: Path, rows: int, wait_s: float) -> Seen:
    """Return the visible rows, once there are ``rows`` of them or after ``wait_s``."""
    deadline_us = now_us() + int(wait_s * 1e6)
    while True:  # ends at the deadline
        seen = seen_of(folder) if (folder / "out" / "_spark_metadata").exists() else Seen([], [])
        if seen.rows >= rows or now_us() > deadline_us:
            return seen
        time.sleep(0.5)


def scratch_folder() -> Path:
    """Return a folder that only this run uses."""
    return Path(tempfile.mkdtemp(prefix="streamscope-spark-peer-"))

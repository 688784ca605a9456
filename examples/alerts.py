"""Alerts per user: processes joined with alerts, counted every five seconds.

The program of figure 1 of the StreamScope paper. A process is an event that lives from its start to
its end and knows its user; an alert is a point in time and knows only its process. This program
writes the data, always the same, as a CSV and a JSON-lines file. Run it with ``python
examples/alerts.py`` or ``jobmanager run examples/alerts.py``.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.dataset as pads

import streamscope as ss

SEED = 1
PROCESSES = 2_000
ALERTS = 20_000
USERS = 20
SECONDS = 600
DISORDER_S = 2


def query() -> ss.Query:
    """Return the query over the example's data, which is written first if it does not exist."""
    return alerts_per_user(inputs())


def alerts_per_user(folder: Path) -> ss.Query:
    """Count the alerts per user: the user of the process that was alive at the alert."""
    processes = ss.Stream.from_csv(str(folder / "process.csv"), vs="started", ve="ended")
    alerts = ss.Stream.from_json(str(folder / "alert.jsonl"), vs="time", delay=f"{DISORDER_S}s")
    return (
        alerts.join(processes.select("pid", "user"), on="pid")
        .group_by("user")
        .window(ss.hopping("5s", "5s"))
        .agg(alerts=ss.agg.count(), worst=ss.agg.max("level"))
        .to_parquet()
    )


def inputs() -> Path:
    """Return the folder of both files; if it does not exist, it is created atomically."""
    name = f"alerts-{SEED}-{PROCESSES}-{ALERTS}"
    folder = Path(tempfile.gettempdir()) / f"streamscope-{os.getuid()}" / name
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=name, dir=folder.parent))
        write_inputs(scratch)
        try:
            scratch.rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(scratch)
    return folder


def write_inputs(folder: Path) -> None:
    """Write processes in order of their start, and alerts out of order by up to two seconds."""
    random = np.random.default_rng(SEED)
    zero = np.datetime64("2026-01-01T00:00:00", "us")
    started = np.sort(random.integers(0, SECONDS * 1_000, PROCESSES))
    lived = random.integers(100, 60_000, PROCESSES)
    processes = {
        "pid": random.permutation(PROCESSES),
        "user": [f"user{u:02}" for u in random.integers(0, USERS, PROCESSES)],
        "started": zero + started.astype("m8[ms]"),
        "ended": zero + (started + lived).astype("m8[ms]"),
    }
    pacsv.write_csv(pa.table(processes), folder / "process.csv")
    at = np.sort(random.integers(0, SECONDS * 1_000, ALERTS))
    arrived = np.argsort(at + random.integers(0, DISORDER_S * 1_000, ALERTS), kind="stable")
    pids = random.integers(0, PROCESSES, ALERTS)
    levels = random.integers(1, 6, ALERTS)
    with open(folder / "alert.jsonl", "w", encoding="utf-8") as file:
        for i in arrived.tolist():
            time = str(zero + at[i].astype("m8[ms]"))
            row = {"time": time, "pid": int(pids[i]), "level": int(levels[i])}
            file.write(json.dumps(row) + "\n")


def most(output: str, rows: int) -> pa.Table:
    """Return the windows with the most alerts."""
    table = pads.dataset(output).to_table().drop_columns(["window_end"])
    order = [("alerts", "descending"), ("window_start", "ascending"), ("user", "ascending")]
    return table.sort_by(order).slice(0, rows)


if __name__ == "__main__":
    from run_and_show import options_with_inputs, run_and_show

    run_and_show(
        query,
        options_with_inputs(inputs),
        "The ten windows of 5 seconds with the most alerts",
        lambda output: most(output, 10),
    )

"""A job with a lookup is killed again and again: rows that were seen stay, in order, once each.

The service answers something else each time, so an answer that was fetched twice and used twice
would show.

Cannot catch: kills between two operations of the store (tests/rvertex/checkpoint).
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import jobmanager
import streamscope as ss
from jobmanager import JobConfig
from tests.rooms import ROOT
from tests.support.budget import scaled
from tests.support.jobs import WAIT_S, output_items, with_limits

CONFIG = with_limits(JobConfig(tick_s=0.02), checkpoint_interval_s=0.3)
ROWS, CALL_S = 600, 0.02


def fetched(sku: int, calls: str) -> float:
    """The answer of a service that never says the same twice, and notes each call."""
    with Path(calls).open("a") as file:
        file.write(f"{sku}\n")
    time.sleep(CALL_S)
    return random.random()


def query(folder: Path) -> ss.Query:
    rows = [ss.event(k, sku=k, calls=str(folder / "calls")) for k in range(ROWS)]
    stream = ss.Stream.from_items({"sku": "int64", "calls": "string"}, rows)
    return stream.lookup(
        fetched, {"price": "float64"}, ["sku", "calls"], concurrency=8
    ).to_parquet()


def main(folder: str) -> None:
    """Run the job, or resume it."""
    root = str(Path(folder) / "root")
    if (Path(root) / "job.json").exists():
        job = jobmanager.resume(root)
    else:
        job = jobmanager.run(query(Path(folder)), root=root, executor="local", config=CONFIG)
    job.wait()


def rows_of(folder: Path) -> list[tuple[object, ...]]:
    try:
        (part,) = output_items(str(folder / "root" / "output"))
    except (ValueError, OSError, ss.StreamEngineError):
        return []
    return [row[4:] for row in part if row[1] == 0]


@pytest.mark.slow
def test_killed_jobs_have_one_answer_per_row_and_call_little_again(tmp_path: Path) -> None:
    command = [sys.executable, "-c", f"from {__name__} import main; main({str(tmp_path)!r})"]
    seen: dict[object, tuple[object, ...]] = {}
    kills, calls = scaled(1), tmp_path / "calls"
    for _ in range(kills):
        process = subprocess.Popen(command, cwd=ROOT)
        began = calls.read_text().count("\n") if calls.exists() else 0
        deadline = time.monotonic() + WAIT_S
        while process.poll() is None and time.monotonic() < deadline:
            count = calls.read_text().count("\n") if calls.exists() else 0
            if count >= began + ROWS // 5:
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        for row in rows_of(tmp_path):
            assert seen.setdefault(row[0], row) == row
    main(str(tmp_path))
    found = rows_of(tmp_path)
    assert [row[0] for row in found] == list(range(ROWS))
    assert all(seen.get(row[0], row) == row for row in found)
    made = calls.read_text().count("\n")
    ahead = 8 * 4 + 8  # in progress, and done but not recorded
    assert ROWS <= made <= ROWS + kills * (ahead + 8 * 16), made

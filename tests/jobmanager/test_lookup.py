"""A job with a lookup is killed repeatedly: emitted rows stay, in order, and appear once.

The service answers each call differently, so the use of a second answer would show.

Not covered: kills between two operations of the store (tests/rvertex/checkpoint).
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
from rstream.items.batch import EVENT
from tests.rooms import ROOT
from tests.support.budget import scaled
from tests.support.jobs import WAIT_S, output_items, with_limits

CONFIG = with_limits(JobConfig(tick_s=0.02), checkpoint_interval_s=0.3)
ROWS, CALL_S = 600, 0.02


def fetched(sku: int, calls: str) -> float:
    """A service that never repeats an answer, and records each call."""
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


def charge(sku: int, calls: str) -> float:
    """The same; the ledger prevents a second call for a key."""
    return fetched(sku, calls)


def charges(folder: Path) -> ss.Query:
    rows = [ss.event(k, sku=k % 200, calls=str(folder / "calls")) for k in range(ROWS)]
    stream = ss.Stream.from_items({"sku": "int64", "calls": "string"}, rows)
    once = stream.call_once(
        charge, {"price": "float64"}, "sku", ["sku", "calls"], unknown="skip", on_error="null"
    )
    return once.to_parquet()


QUERIES = {"lookup": query, "call_once": charges}


def main(folder: str) -> None:
    """Run or resume the job."""
    root = str(Path(folder) / "root")
    if (Path(root) / "job.json").exists():
        job = jobmanager.resume(root)
    else:
        made = QUERIES[Path(folder).name](Path(folder))
        job = jobmanager.run(made, root=root, executor="local", config=CONFIG)
    job.wait()


def rows_of(folder: Path) -> list[tuple[object, ...]]:
    try:
        parts = output_items(str(folder / "root" / "output"))
    except (ValueError, OSError, ss.StreamEngineError):
        return []
    return [row[4:] for part in parts for row in part if row[1] == EVENT]


def killed_and_finished(folder: Path, calls_max: int) -> list[tuple[object, ...]]:
    """Kill the job after this number of further calls, then let it finish. Return the rows."""
    command = [sys.executable, "-c", f"from {__name__} import main; main({str(folder)!r})"]
    seen: dict[object, tuple[object, ...]] = {}
    calls = folder / "calls"
    for _ in range(scaled(1)):
        process = subprocess.Popen(command, cwd=ROOT)
        began = calls.read_text().count("\n") if calls.exists() else 0
        deadline = time.monotonic() + WAIT_S
        while process.poll() is None and time.monotonic() < deadline:
            count = calls.read_text().count("\n") if calls.exists() else 0
            if count >= began + calls_max:
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        for row in rows_of(folder):
            assert seen.setdefault((row[0], len(row)), row) == row
    main(str(folder))
    found = rows_of(folder)
    assert all(seen.get((row[0], len(row)), row) == row for row in found)
    return found


@pytest.mark.slow
def test_killed_jobs_have_one_result_per_row_and_repeat_few_calls(tmp_path: Path) -> None:
    folder = tmp_path / "lookup"
    folder.mkdir()
    found = killed_and_finished(folder, ROWS // 5)
    assert [row[0] for row in found] == list(range(ROWS))
    made = (folder / "calls").read_text().count("\n")
    ahead = 8 * 4 + 8  # calls in progress, and completed calls without a record
    assert ROWS <= made <= ROWS + scaled(1) * (ahead + 8 * 16), made


@pytest.mark.slow
def test_killed_jobs_call_each_key_once(tmp_path: Path) -> None:
    folder = tmp_path / "call_once"
    folder.mkdir()
    found = killed_and_finished(folder, 60)
    calls = (folder / "calls").read_text().splitlines()
    assert len(calls) == len(set(calls)), "a key was called twice"
    answers: dict[object, set[object]] = {}
    for sku, _, price in found:
        answers.setdefault(sku, set()).add(price)
    assert len(found) == ROWS
    assert all(len(prices) == 1 for prices in answers.values())
    unknown = [sku for sku, prices in answers.items() if prices == {None}]
    assert len(unknown) <= scaled(1) * 2 * 16
    assert {str(sku) for sku in answers if sku not in unknown} <= set(calls)

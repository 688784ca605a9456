"""Latency from a topic into another topic, exactly once, beside the floor of the same sitting.

A generator process produces events when they are due; a consumer that reads committed messages
notes when each answer can be read. The floor is a bare loop that consumes and produces in
transactions with the same rhythm of commits, without a query. Windows count from their end. Other
engines are not in it yet. The last line is one JSON object
``{query: {rate: {"floor" | "ours": {p50_ms, p99_ms, rows, cpu_s_per_million}}}}``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from live.load import SIDE_TOPIC, TOPIC  # noqa: E402
from live.ours import DUE, QUERIES, start  # noqa: E402

from tests.support.brokers import Broker  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    import streamscope as ss

PARTITIONS, KEYS = 2, 100
#: The rhythm of commits of both: that of deliveries unless a job says otherwise.
COMMIT_MS = 5
READ_AFTER_S = 2.0
#: Events of the first moments do not count.
WARM_S = 2.0
RUNNING_S_MAX = 90.0


def main() -> None:
    """Measure all and print a table, then JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", type=int, nargs="*", default=[1_000, 10_000])
    parser.add_argument("--queries", nargs="*", choices=list(QUERIES), default=list(QUERIES))
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--executor", choices=["spark", "local"], default="spark")
    args = parser.parse_args()
    result: dict[str, dict[int, dict[str, Any]]] = {}
    for query in args.queries:
        for rate in args.rates:
            cells = result.setdefault(query, {}).setdefault(rate, {})
            with tempfile.TemporaryDirectory(prefix="streamscope-live-") as folder:
                cells["floor"] = measured(query, rate, args.seconds, Path(folder), None)
            with tempfile.TemporaryDirectory(prefix="streamscope-live-") as folder:
                place = {"executor": args.executor}
                if args.executor == "spark":
                    place |= {"master": "local[4]"}
                cells["ours"] = measured(query, rate, args.seconds, Path(folder), place)
            print(query, rate, json.dumps(cells), flush=True)
    print(json.dumps(result))


def measured(
    query: str, rate: int, seconds: float, folder: Path, place: dict[str, Any] | None
) -> dict[str, Any]:
    """One run over a broker of its own; ``place``: where our job runs, None for the floor."""
    broker = Broker(folder / "broker")
    (folder / "broker").mkdir()
    broker.start()
    used = cpu_s()
    try:
        broker.create_topic(TOPIC, PARTITIONS)
        broker.create_topic(SIDE_TOPIC, 1)
        out = broker.create_topic("out", 1)
        due = DUE[query] if place is not None else "at"
        system = floor(broker, out) if place is None else ours(query, broker, folder, place)
        with system, reading(broker, out, due, folder) as found:
            sides = load(broker, SIDE_TOPIC, 1, 200, seconds) if query == "join" else None
            told = json.loads(load(broker, TOPIC, PARTITIONS, rate, seconds).communicate()[0])
            if sides is not None:
                sides.communicate()
            time.sleep(READ_AFTER_S)
        rows = np.load(found)
    finally:
        broker.stop()
    rows = rows[rows[:, 1] > told["started_us"] + WARM_S * 1e6]
    late_ms = (rows[:, 0] - rows[:, 1]) / 1e3
    p50, p99 = np.percentile(late_ms, [50, 99]) if len(rows) else (None, None)
    return {
        "p50_ms": None if p50 is None else round(float(p50), 1),
        "p99_ms": None if p99 is None else round(float(p99), 1),
        "rows": len(rows),
        "generator_behind_ms": told["behind_ms"],
        "cpu_s_per_million": round((cpu_s() - used - told["cpu_s"]) / told["rows"] * 1e6, 1),
    }


@contextlib.contextmanager
def floor(broker: Broker, out: str) -> Iterator[None]:
    """The bare loop."""
    process = child("live.floor", broker.servers, TOPIC, out, str(COMMIT_MS))
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield
    finally:
        process.communicate()


@contextlib.contextmanager
def ours(query: str, broker: Broker, folder: Path, place: dict[str, Any]) -> Iterator[None]:
    """The running job."""
    job = start(query, broker.servers, out="out", root=str(folder / "job"), place=place)
    wait_running(job)
    try:
        yield
    finally:
        job.cancel()
        job.wait(60)
        shutil.rmtree(folder / "job", ignore_errors=True)


def wait_running(job: ss.Job) -> None:
    """Until every vertex runs."""
    until = time.monotonic() + RUNNING_S_MAX
    while job.status()["state"] != "running" or not job.status().get("vertices"):
        if time.monotonic() > until:
            raise TimeoutError(f"the job does not run after {RUNNING_S_MAX:g} s: {job.status()}")
        time.sleep(0.1)
    time.sleep(3)  # a source decides nothing before two leases have passed


@contextlib.contextmanager
def reading(broker: Broker, out: str, field: str, folder: Path) -> Iterator[Path]:
    """The consumer; the file that it writes at the end."""
    found = folder / "read.npy"
    process = child("live.reading", broker.servers, out, "600", field, str(found))
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield found
    finally:
        process.communicate()


def load(
    broker: Broker, topic: str, partitions: int, rate: int, seconds: float
) -> subprocess.Popen[bytes]:
    """The generator."""
    numbers = (partitions, rate, seconds, KEYS)
    return child("live.load", broker.servers, topic, *map(str, numbers))


def child(module: str, *arguments: str) -> subprocess.Popen[bytes]:
    """A process of a module of this benchmark; it ends when its standard input is closed."""
    environment = {**os.environ, "PYTHONPATH": f"{HERE}{os.pathsep}{HERE.parent}"}
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def cpu_s() -> float:
    """Processor time of this process and of its children that have ended."""
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


if __name__ == "__main__":
    main()

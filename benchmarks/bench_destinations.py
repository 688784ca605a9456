"""How fast destinations accept rows: the calls of a delivery, without a job.

The last line is one JSON object.

- ``bulk``: rows per second with commits of 20,000 rows, and processor time per million rows here.
- ``rhythm``: 100 rows every 10 ms, an open loop: how long a commit takes (p50, p99, ms), the
  commits per second, and the share of one processor that they used in this process.

PostgreSQL runs on the same machine and syncs each commit;
``server_cpu_s_per_million`` is its part.
Rows have a time, a text of 100 values, an integer, a double and a decimal. The least
of ``--rounds`` is taken.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rstream import open_store
from rvertex.sinks.function import FunctionDestination
from rvertex.sinks.protocol import DeliveredRows, DeliveryProgress
from rvertex.sinks.spec import DeliveryPlace, ParquetSink, PostgresSink, SinkSpec, destination
from tests.support.postgres_server import PostgresServer

if TYPE_CHECKING:
    from rvertex.sinks.protocol import Destination

COMMIT_ROWS, RHYTHM_ROWS, RHYTHM_S = 20_000, 100, 0.01
KEYS = 100


def make_rows(count: int, first_seq: int) -> DeliveredRows:
    seqs = np.arange(first_seq, first_seq + count)
    words = pa.DictionaryArray.from_arrays(seqs % KEYS, [f"key-{k}" for k in range(KEYS)])
    columns = {
        "window_start": pa.array(seqs * 1000 + 1_700_000_000_000_000, pa.timestamp("us", "UTC")),
        "k": words.cast(pa.string()),
        "n": pa.array(seqs),
        "x": pa.array(seqs * 0.37),
        "price": pa.array(seqs).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2)),
    }
    return DeliveredRows(first_seq, first_seq + count, seqs, pa.RecordBatch.from_pydict(columns))


class Delivery:
    """Successive commits to one destination."""

    def __init__(self, opened: Destination) -> None:
        found = opened.open(1)
        self._destination, self.next_seq = opened, 0 if found is None else found.next_seq

    def commit(self, rows: DeliveredRows) -> None:
        self._destination.write(rows)
        self.next_seq = rows.next_seq
        self._destination.commit(DeliveryProgress(rows.next_seq, b"\0" * 16))

    def close(self) -> None:
        self._destination.close()


def server_cpu_s(server: PostgresServer) -> float:
    """Return the processor time of all running processes of the server."""
    ticks = 0
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                words = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if server.pid in (int(entry), int(words[1])):
            ticks += int(words[11]) + int(words[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def bulk(opened: Destination, rows: int, server: PostgresServer | None) -> dict[str, float]:
    delivery = Delivery(opened)
    commits = [make_rows(COMMIT_ROWS, seq) for seq in range(0, rows, COMMIT_ROWS)]
    theirs = server_cpu_s(server) if server else 0.0
    began, cpu = time.perf_counter(), time.process_time()
    for commit in commits:
        delivery.commit(commit)
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    found = {"rows_per_s": round(rows / took), "cpu_s_per_million": round(cpu / rows * 1e6, 2)}
    if server:
        theirs = server_cpu_s(server) - theirs
        found["server_cpu_s_per_million"] = round(theirs / rows * 1e6, 2)
    delivery.close()
    return found


def rhythm(opened: Destination, seconds: float) -> dict[str, float]:
    delivery = Delivery(opened)
    commits = [make_rows(RHYTHM_ROWS, n * RHYTHM_ROWS) for n in range(int(seconds / RHYTHM_S))]
    began, cpu, took = time.perf_counter(), time.process_time(), []
    for number, commit in enumerate(commits):
        time.sleep(max(began + number * RHYTHM_S - time.perf_counter(), 0))
        at = time.perf_counter()
        delivery.commit(commit)
        took.append((time.perf_counter() - at) * 1e3)
    elapsed, cpu = time.perf_counter() - began, time.process_time() - cpu
    delivery.close()
    p50, p99 = np.percentile(took, [50, 99]).round(2).tolist()
    rate = round(len(commits) / elapsed, 1)
    return {"p50_ms": p50, "p99_ms": p99, "per_s": rate, "cpu_share": round(cpu / elapsed, 3)}


def measure(name: str, folder: str, server: PostgresServer, options: Any) -> dict[str, Any]:
    """Measure a destination; each run has a separate table, topic or folder."""
    bulks, rhythms = [], []
    for number in range(options.rounds):
        is_server = server if name.startswith("postgres") else None
        bulks.append(bulk(opened(name, f"{folder}/{number}b", server), options.rows, is_server))
        rhythms.append(rhythm(opened(name, f"{folder}/{number}r", server), options.seconds))
    best = min(bulks, key=lambda found: found["cpu_s_per_million"])
    return {"bulk": best, "rhythm": min(rhythms, key=lambda found: found["p50_ms"])}


def opened(name: str, folder: str, server: PostgresServer) -> Destination:
    schema = make_rows(1, 0).table.schema
    table = "t" + folder.replace("/", "_").replace("-", "_")[-40:]
    place = DeliveryPlace("bench", table, 0, 1, schema, open_store(f"{folder}/root"))
    specs: dict[str, SinkSpec] = {
        "postgres append": PostgresSink(server.dsn, table),
        "postgres upsert": PostgresSink(server.dsn, table, "upsert", ("n",)),
        "postgres upsert of 100 keys": PostgresSink(server.dsn, table, "upsert", ("k",)),
        "parquet": ParquetSink(f"{folder}/table"),
    }
    if name == "function":
        return FunctionDestination(ignore, "function", place)
    return destination(specs[name], place)


def ignore(first_seq: int, batch: pa.RecordBatch) -> None:
    """Accept rows and do nothing."""


NAMES = ("postgres append", "postgres upsert", "postgres upsert of 100 keys", "parquet", "function")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    server = PostgresServer(fsync=True)
    result = {}
    try:
        for name in NAMES:
            with tempfile.TemporaryDirectory() as folder:
                result[name] = measure(name, f"{folder}/{name.replace(' ', '_')}", server, options)
            print(f"{name}: {result[name]}", flush=True)
    finally:
        server.close()
    print(json.dumps(result))


if __name__ == "__main__":
    main()

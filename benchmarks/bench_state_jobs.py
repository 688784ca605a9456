"""A window over more keys than its budget, as a whole job: ours beside Spark and DuckDB.

The same Parquet files, one window of a count and two sums per key, one processor, results to
Parquet. Spark keeps its state in RocksDB with its memory bounded to the same budget, and takes four
files in each micro-batch. After ``--limit`` seconds it is stopped, and the rows that it has read
are reported. DuckDB runs a batch query out of core, with at least 60 MB. Each job is a process of
its own; its processor time, written bytes and sampled memory include its children. The last line is
one JSON object.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from bench_state import DUCKDB_MIN, SPREAD
from processes import Usage, tree, usage_of

ROWS, KEYS, FILES, FILES_AT_ONCE = 400_000, 200_000, 16, 4
#: Seconds after which Spark is stopped.
LIMIT_S = 400
START_US, WINDOW = 1_700_006_400_000_000, "1 day"
BUDGET = 16_000_000
ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SAMPLE_S = 0.5
#: Fields of /proc to sample over all processes: proportional memory, and its private part.
PEAKS = {"Pss": "peak_bytes", "Pss_Anon": "peak_private_bytes"}
STORE = "spark.sql.streaming.stateStore"


def main() -> None:
    """Measure both systems, or the one that the parent process requests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--budget", type=int, default=BUDGET)
    parser.add_argument("--limit", type=int, default=LIMIT_S)
    parser.add_argument("--systems", nargs="*", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--one", nargs=2, metavar=("SYSTEM", "FOLDER"))
    args = parser.parse_args()
    if args.one:
        print(json.dumps(_one(args.one[0], Path(args.one[1]), args.budget, args.limit)))
        return
    with tempfile.TemporaryDirectory(prefix="streamscope-state-") as folder:
        _write(Path(folder), args.rows, args.keys)
        points = [_point(system, folder, args.budget, args.limit) for system in args.systems]
        print(json.dumps(points))


def _point(system: str, folder: str, budget: int, limit_s: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", system, folder]
    command += ["--budget", f"{budget}", "--limit", f"{limit_s}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    found["system"] = system
    print(found, flush=True)
    return found


def _write(folder: Path, rows: int, keys: int) -> None:
    """Write files of random keys in order of time; the last file closes the window."""
    rng = np.random.default_rng(7)
    (folder / "in").mkdir()
    for number in range(FILES):
        lo, hi = (rows * i // FILES for i in (number, number + 1))
        _file(folder, number, np.arange(lo, hi) * 1_000, rng.integers(0, keys, hi - lo), rng)
    _file(folder, FILES, np.array([3 * 86_400_000_000]), np.array([0]), rng)


def _file(folder: Path, number: int, at: Any, keys: Any, rng: np.random.Generator) -> None:
    times = pa.array(START_US + at).cast(pa.timestamp("us", "UTC"))
    columns = {"time": times, "k": keys * SPREAD, "n": at & 1023, "x": rng.random(len(at))}
    path = folder / "in" / f"{number:03d}.parquet"
    pq.write_table(pa.table(columns), path, compression="lz4")
    os.utime(path, (number, number))  # Spark reads files by time of change


def _one(system: str, folder: Path, budget: int, limit_s: int) -> dict[str, Any]:
    out, peak, stop = folder / system, [0, 0], threading.Event()

    def sample() -> None:
        while not stop.wait(SAMPLE_S):
            now = [sum(_pss(pid, kind) for pid in tree(os.getpid())) for kind in PEAKS]
            peak[:] = map(max, peak, now)

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    begun = time.perf_counter()
    found = SYSTEMS[system](folder, out, budget, limit_s)
    found["wall_s"] = time.perf_counter() - begun
    stop.set()
    thread.join()
    found |= dict(zip(PEAKS.values(), peak, strict=True))
    if "rows_read" in found:
        return found
    rows = ds.dataset(str(out), format="parquet").to_table().column("rows")
    return found | {"groups": len(rows), "events": int(pc.sum(rows).as_py())}


def _pss(pid: int, kind: str) -> int:
    """Return a memory figure of a process by its name in the kernel; 0 if the process has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith(f"{kind}:"):
                return int(line.split()[1]) * 1024
    return 0


def _usage(before: Usage) -> dict[str, Any]:
    used = usage_of(tree(os.getpid())) - before
    return {"cpu_s": used.cpu_s, "written_bytes": used.written_bytes}


def ours(folder: Path, out: Path, budget: int, _limit_s: int) -> dict[str, Any]:
    """Run a job with one vertex in this process."""
    import jobmanager
    from planner import Stream, agg, tumbling

    rows = Stream.from_parquet(str(folder / "in"), vs="time", delay="0s", partitions=1)
    groups = rows.group_by("k").window(tumbling("1d"))
    before = usage_of(tree(os.getpid()))
    query = groups.agg(rows=agg.count(), n=agg.sum("n"), x=agg.sum("x")).to_parquet(str(out))
    options: Any = {"executor": "local", "parallelism": 1, "state_memory": budget}
    jobmanager.run(query, root=f"{folder}/job", scratch=str(folder), **options).wait()
    return _usage(before)


def spark(folder: Path, out: Path, budget: int, limit_s: int) -> dict[str, Any]:
    """Run Spark Structured Streaming with its state in RocksDB."""
    from pyspark.sql import SparkSession, functions as f

    settings = {
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
        "spark.local.dir": str(folder),
        f"{STORE}.providerClass": ROCKS,
        f"{STORE}.rocksdb.changelogCheckpointing.enabled": "true",
        f"{STORE}.rocksdb.boundedMemoryUsage": "true",
        f"{STORE}.rocksdb.maxMemoryUsageMB": f"{budget // 1_000_000}",
    }
    builder = SparkSession.builder.master("local[1]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    schema = session.read.parquet(str(folder / "in")).schema
    reader = session.readStream.schema(schema).option("maxFilesPerTrigger", FILES_AT_ONCE)
    rows = reader.parquet(str(folder / "in")).withWatermark("time", "0 seconds")
    sums = (f.count("*").alias("rows"), f.sum("n").alias("n"), f.sum("x").alias("x"))
    groups = rows.groupBy(f.window("time", WINDOW), "k").agg(*sums).drop("window")
    writer = groups.writeStream.format("parquet").outputMode("append")
    writer = writer.option("checkpointLocation", str(folder / "spark-checkpoint"))
    before = usage_of(tree(os.getpid()))
    query = writer.trigger(availableNow=True).start(str(out))
    if query.awaitTermination(limit_s):
        return _usage(before)
    rows_read = sum(int(step["numInputRows"]) for step in query.recentProgress)
    found = _usage(before) | {"rows_read": rows_read}
    query.stop()
    return found


def duckdb(folder: Path, out: Path, budget: int, _limit_s: int) -> dict[str, Any]:
    """Run the aggregate as a batch query of DuckDB."""
    import duckdb as duck

    out.mkdir()
    db = duck.connect()
    settings = (f"memory_limit='{max(budget, DUCKDB_MIN)}B'", "threads=1")
    for setting in (*settings, f"temp_directory='{folder / 'duckdb-scratch'}'"):
        db.execute(f"SET {setting}")
    before = usage_of(tree(os.getpid()))
    sums = "SELECT k, count(*) AS rows, sum(n)::BIGINT AS n, sum(x) AS x"
    day = "time_bucket(INTERVAL 1 DAY, time)"
    groups = f"{sums} FROM read_parquet('{folder}/in/*.parquet') GROUP BY {day}, k"
    db.execute(f"COPY ({groups}) TO '{out}/rows.parquet'")
    return _usage(before)


SYSTEMS = {"ours": ours, "spark": spark, "duckdb": duckdb}


if __name__ == "__main__":
    main()

"""Three queries over 20 million bids, from Parquet files to a durable sink, on Spark ``local[2]``.

The last line is one JSON object: events per second of each query and the peak memory of all Python
processes. Time runs from the first vertex's start to the job's end, so the start of Java does not
count; it is printed separately. Afterwards each answer's number of events is checked against
DuckDB.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

import duckdb
from bids import bids_folder
from memory import sampled_peak

import jobmanager
from planner import Query, Stream, agg, col, tumbling

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = 20_000_000
BIDS = "read_parquet('{folder}/bids/*.parquet')"
INTERVALS = "read_parquet('{folder}/intervals.parquet')"


def bids(folder: Path) -> Stream:
    """Return the bids, which are in order."""
    return Stream.from_parquet(str(folder / "bids"), vs="time", delay="0s")


def filter_select(folder: Path) -> Query:
    """Keep one row in ten and compute a column; no exchange."""
    cheap = bids(folder).filter(col("price") <= 1_000)
    return cheap.select("auction", "bidder", euros=col("price") * 0.908).to_parquet()


def tumbling_count(folder: Path) -> Query:
    """Count and sum by 1,000 keys over 2 s, through an exchange."""
    windows = bids(folder).group_by("auction").window(tumbling("2s"))
    return windows.agg(n=agg.count(), total=agg.sum("price")).to_parquet()


def temporal_join(folder: Path) -> Query:
    """Join bids with the intervals of their key that are alive at that moment."""
    path = str(folder / "intervals.parquet")
    intervals = Stream.from_parquet(path, vs="start", ve="stop", delay="0s").select(
        "auction", "campaign"
    )
    joined = bids(folder).select("auction", "price").join(intervals, on="auction")
    return joined.to_parquet()


#: Each query, and SQL for the number of events of its answer.
QUERIES: dict[str, tuple[Callable[[Path], Query], str]] = {
    "filter_select": (filter_select, f"select count(*) from {BIDS} where price <= 1000"),
    "tumbling_count": (
        tumbling_count,
        f"select count(*) from (select distinct auction, epoch_us(time) // 2000000 from {BIDS})",
    ),
    "temporal_join": (
        temporal_join,
        f"select count(*) from {BIDS} b join {INTERVALS} i"
        " on b.auction = i.auction and b.time >= i.start and b.time < i.stop",
    ),
}


def measure(name: str, folder: Path, executor: Any, master: str) -> dict[str, Any]:
    """Run one query in a temporary root; return its last status."""
    root = tempfile.mkdtemp(prefix=f"streamscope-bench-{name}-")
    try:
        query = QUERIES[name][0](folder)
        job = jobmanager.run(query, root=f"{root}/job", executor=executor, master=master)
        return job.wait()
    finally:
        shutil.rmtree(root, ignore_errors=True)


def expected_events(name: str, folder: Path) -> int:
    """Return the expected number of events of the answer."""
    sql = QUERIES[name][1].format(folder=folder)
    with duckdb.connect() as connection:
        return int(connection.execute(sql).fetchall()[0][0])


def main() -> None:
    """Measure all queries and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--only", choices=list(QUERIES))
    parser.add_argument("--executor", choices=["spark", "local"], default="spark")
    parser.add_argument("--master", default="local[2]")
    args = parser.parse_args()
    folder = bids_folder(args.rows)
    result: dict[str, int] = {}
    events_out: dict[str, int] = {}
    with sampled_peak() as peak:
        for name in [args.only] if args.only else QUERIES:
            status = measure(name, folder, args.executor, args.master)
            rate = args.rows / max(status["elapsed_s"], 1e-9)
            result[name] = round(rate)
            events_out[name] = status["events_out"]
            print(
                f"{name}: {status['events_in']:,} events in, {status['events_out']:,} out, "
                f"{status['elapsed_s']:.2f} s after a start of {status['startup_s']:.2f} s, "
                f"{rate / 1e6:.2f} M/s, peak so far {peak[0] / 1e9:.2f} GB",
                flush=True,
            )
    for name, events in events_out.items():
        if events != (expected := expected_events(name, folder)):
            raise SystemExit(f"{name}: {events} events, but DuckDB finds {expected}")
    print(json.dumps({**result, "peak_bytes": peak[0]}))


if __name__ == "__main__":
    main()

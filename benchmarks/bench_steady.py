"""Checks whether disk and memory stay flat while 100 million events pass through a job on Spark.

Bids are counted per bidder and second, which sends about 60 million items through a flushed
channel; a second window computes the median per second. While the job runs, the bytes below its
root (checkpoints, channels, notices; not the answer) and the memory of all Python processes are
sampled. The last line is one JSON object with the medians of the second and of the last tenth of
the run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import threading
import time
from pathlib import Path

from bids import bids_folder
from memory import python_bytes

import jobmanager
from planner import Query, Stream, agg, col, tumbling

ROWS = 100_000_000
SAMPLE_S = 0.25
PARTS = 10


def query(folder: Path) -> Query:
    """Return a query with two successive windows, each behind an exchange."""
    bids = Stream.from_parquet(str(folder / "bids"), vs="time", delay="0s")
    seconds = bids.group_by("bidder").window(tumbling("1s")).agg(n=agg.count())
    by_tail = seconds.select("n", tail=col("bidder") % 1_000)
    windows = by_tail.group_by("tail").window(tumbling("1s"))
    return windows.agg(median=agg.quantile("n", 0.5)).to_parquet()


class Sampler:
    """Samples the bytes on disk below a folder (without the answer), and the memory."""

    def __init__(self, root: Path) -> None:
        self.disk: list[int] = []
        self.memory: list[int] = []
        self._root = root
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(SAMPLE_S):
            self.disk.append(_bytes_below(self._root))
            self.memory.append(python_bytes())


def _bytes_below(root: Path) -> int:
    total = 0
    for path in root.rglob("*"):
        if "output" in path.relative_to(root).parts[:1]:
            continue
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # collected (deleted) meanwhile
            continue
    return total


def part(samples: list[int], number: int) -> int:
    """Return the median of one tenth of the samples; 0 is the first tenth."""
    size = max(1, len(samples) // PARTS)
    return round(statistics.median(samples[number * size :][:size]))


def main() -> None:
    """Run the job and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--master", default="local[2]")
    args = parser.parse_args()
    folder = bids_folder(args.rows)
    root = Path(tempfile.mkdtemp(prefix="streamscope-bench-steady-"))
    started_s = time.monotonic()
    try:
        job = jobmanager.run(query(folder), root=str(root), master=args.master)
        with Sampler(root) as samples:
            status = job.wait()
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(f"{status['events_in']:,} events in {time.monotonic() - started_s:.0f} s")
    for name in ("disk", "memory"):
        parts = [f"{part(getattr(samples, name), k) / 1e6:,.0f}" for k in range(PARTS)]
        print(f"{name}, MB, median of each tenth of the run: {' '.join(parts)}")
    result = {
        "events_per_s": round(args.rows / status["elapsed_s"]),
        "disk_bytes": [part(samples.disk, 1), part(samples.disk, PARTS - 1)],
        "memory_bytes": [part(samples.memory, 1), part(samples.memory, PARTS - 1)],
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()

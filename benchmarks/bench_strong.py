"""What exactly-once costs: from an append to a log until a subscriber has the rows.

MillWheel's figures are a median of 33.7 ms with strong productions and exactly-once delivery, and
3.6 ms without both. Four routes run side by side in this process and get the same appends in turn,
of 1, 100 and 10,000 rows:

- ``strong``: each step is durable before a reader gets its rows; exactly once.
- ``default``: rows are read before they are durable; exactly once.
- ``unsafe``: the default without checkpoints and without syncs to the disk, which are all
  guarantees that can be switched off. A power failure may lose rows.
- ``loop``: a thread that reads the log and calls the same function, without a job. It stores
  nothing, so a crash loses or repeats rows.

``rows_per_s`` is for appends that do not wait for each other; ``cpu_ms`` is the processor time of
one of these appends.

    python benchmarks/bench_strong.py [--appends 60]

The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parent.parent))
import streamscope as ss

ROWS = (1, 100, 10_000)
MODES = ("strong", "default", "unsafe", "loop")
COLUMNS = {"at": pa.int64(), "sent": pa.int64()}
SENT = {"at": "int64", "sent": "int64"}
WAIT_S = 60.0
WARM = 5


class Route:
    """A log, its reader, and the rows that the subscriber has received."""

    def __init__(self, folder: Path, mode: str) -> None:
        self._folder, self._mode = folder, mode
        self.log = ss.Appender(str(folder / f"log-{mode}"), COLUMNS)
        self._now = 1
        self._rows = 0
        self._arrived = threading.Condition()
        self._is_closed = False
        self.job = None if mode == "loop" else self._start()
        threading.Thread(target=self._read, daemon=True).start()

    def _start(self) -> ss.Job:
        path = str(self._folder / f"log-{self._mode}")
        stream = ss.Stream.from_rstream(path, vs="at", follow=True, delay=0, idle="follow")
        done = stream.filter(ss.col("sent") >= 0).apply(_same, SENT)
        if self._mode == "strong":
            done = done.recover_with("strong")
        unsafe: Any = {"checkpoint_interval": "1h", "fsync": False}
        return ss.run(
            done.to_rstream(str(self._folder / f"out-{self._mode}")),
            executor="local",
            root=str(self._folder / self._mode),
            **(unsafe if self._mode == "unsafe" else {}),
        )

    def _read(self) -> None:
        for batch in self._looped() if self.job is None else self.job.subscribe():
            with self._arrived:
                self._rows += batch.num_rows
                self._arrived.notify_all()

    def _looped(self) -> Any:
        reader = ss.open_log(str(self._folder / f"log-{self._mode}"))
        while not self._is_closed:
            items = reader.read_next()
            if items is None:
                reader.wait(1.0)
            else:
                yield _same(items.batch)

    def latency_ms(self, rows: int) -> float:
        """Append rows and wait for them; one later row makes the job emit them."""
        begun_s = time.perf_counter()
        self._wait_for(self._append(rows))
        return (time.perf_counter() - begun_s) * 1e3

    def burst(self, rows: int, appends: int) -> dict[str, float]:
        """Append without waiting; return rows per second, and processor time per append."""
        begun_s, cpu_s = time.perf_counter(), time.process_time()
        for _ in range(appends):
            wanted = self._append(rows)
        self._wait_for(wanted)
        took_s, cpu_s = time.perf_counter() - begun_s, time.process_time() - cpu_s
        return {"rows_per_s": rows * appends / took_s, "cpu_ms": cpu_s / appends * 1e3}

    def _append(self, rows: int) -> int:
        # A job holds back the newest row until a later one comes.
        held = self.job is not None
        times = [self._now] * rows + [self._now + 1] * held
        self._now += 1
        with self._arrived:
            self._wanted = getattr(self, "_wanted", 0) + len(times)
        self.log.append(pa.table({"at": times, "sent": times}))
        return self._wanted - held

    def _wait_for(self, wanted: int) -> None:
        with self._arrived:
            if not self._arrived.wait_for(lambda: self._rows >= wanted, WAIT_S):
                raise SystemExit(f"the rows of {self._mode} do not arrive")

    def close(self) -> None:
        """End the job and close the log."""
        self._is_closed = True
        if self.job is not None:
            self.job.cancel()
        self.log.close()


def _same(batch: Any) -> Any:
    return batch


def measured(routes: dict[str, Route], rows: int, appends: int) -> dict[str, dict[str, float]]:
    """Return latencies of alternating appends, then bursts; the order of routes changes."""
    taken: dict[str, list[float]] = {mode: [] for mode in routes}
    bursts: dict[str, list[dict[str, float]]] = {mode: [] for mode in routes}
    order, dice = list(routes), random.Random(rows)
    for n in range(appends + WARM):
        dice.shuffle(order)
        for mode in order:
            ms = routes[mode].latency_ms(rows)
            if n >= WARM:
                taken[mode].append(ms)
    for _ in range(3):
        dice.shuffle(order)
        for mode in order:
            bursts[mode].append(routes[mode].burst(rows, appends))
    found = {}
    for mode in routes:
        cuts = statistics.quantiles(taken[mode], n=20)
        figures = {"median_ms": statistics.median(taken[mode]), "p95_ms": cuts[18]}
        for what in ("rows_per_s", "cpu_ms"):
            figures[what] = statistics.median(burst[what] for burst in bursts[mode])
        found[mode] = {what: round(value, 2) for what, value in figures.items()}
    return found


def main() -> None:
    """Measure everything and print the result."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--appends", type=int, default=60)
    appends = parser.parse_args().appends
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        routes = {mode: Route(Path(folder), mode) for mode in MODES}
        for rows in ROWS:
            found[str(rows)] = measured(routes, rows, appends)
            for mode, figures in found[str(rows)].items():
                print(f"{rows:,} rows, {mode}: {figures}", flush=True)
        for route in routes.values():
            route.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main()

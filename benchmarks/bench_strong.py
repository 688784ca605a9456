"""What strong costs beside the default: from an append to a log until a subscriber has the rows.

MillWheel's figures are a median of 33.7 ms with strong productions and exactly-once delivery, and
3.6 ms without both. Here the default is exactly-once, too. Both jobs run side by side in this
process and get the same appends in turn: 1, 100 and 10,000 rows.

    python benchmarks/bench_strong.py [--appends 60]

The last line is one JSON object, with medians in milliseconds.
"""

from __future__ import annotations

import argparse
import json
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
COLUMNS = {"at": pa.int64(), "sent": pa.int64()}
SENT = {"at": "int64", "sent": "int64"}
WAIT_S = 60.0


class Route:
    """A log, the job that reads it, and what its subscriber has got."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.log = ss.Appender(str(folder / f"log-{mode}"), COLUMNS)
        self._now = 1
        self._rows = 0
        self._arrived = threading.Condition()
        stream = ss.Stream.from_rstream(
            str(folder / f"log-{mode}"), vs="at", follow=True, delay=0, idle="follow"
        )
        done = stream.filter(ss.col("sent") >= 0).apply(_same, SENT)
        if mode == "strong":
            done = done.recover_with("strong")
        self.job = ss.run(
            done.to_rstream(str(folder / f"out-{mode}")), executor="local", root=str(folder / mode)
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for batch in self.job.subscribe():
            with self._arrived:
                self._rows += batch.num_rows
                self._arrived.notify_all()

    def latency_ms(self, rows: int) -> float:
        """Append rows and wait for them; a later row lets them pass."""
        begun_s = time.perf_counter()
        times = [self._now] * rows + [self._now + 1]
        self._now += 1
        with self._arrived:
            wanted = self._rows + rows
        self.log.append(pa.table({"at": times, "sent": times}))
        with self._arrived:
            if not self._arrived.wait_for(lambda: self._rows >= wanted, WAIT_S):
                raise SystemExit("the rows do not arrive")
        return (time.perf_counter() - begun_s) * 1e3


def _same(batch: Any) -> Any:
    return batch


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--appends", type=int, default=60)
    count = parser.parse_args().appends
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        paths = {mode: Route(Path(folder), mode) for mode in ("default", "strong")}
        for rows in ROWS:
            taken: dict[str, list[float]] = {mode: [] for mode in paths}
            for n in range(count + 5):
                for mode, path in paths.items():
                    ms = path.latency_ms(rows)
                    if n >= 5:
                        taken[mode].append(ms)
            medians = {mode: round(statistics.median(all_), 2) for mode, all_ in taken.items()}
            ratio = round(medians["strong"] / medians["default"], 2)
            found[str(rows)] = medians | {"ratio": ratio}
            print(f"{rows:,} rows: {found[str(rows)]}", flush=True)
        for path in paths.values():
            path.job.cancel()
            path.log.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main()

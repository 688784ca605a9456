"""A window aggregate over many keys, in memory and at a tenth of it, beside DuckDB.

Each point is a process of its own: a count, an integer sum and a double sum per key over one
tumbling window of random keys, fed to the operator in batches. Peak memory is what is private to
the process (``RssAnon``); pages of mapped scratch files belong to the kernel, which may drop them.
DuckDB aggregates the same rows with one thread, in memory and with that share as ``memory_limit``
(at least 60 MB: it starts with no less). Rows are made before. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rvertex.aggregates.spec import AggregateSpec
from rvertex.events.run import Run
from rvertex.operators.protocol import in_pieces
from rvertex.operators.windows.hopping import WindowAggregate
from rvertex.state.memory import StateMemory, give_memory
from rvertex.state.scratch import Scratch

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS, STEP_ROWS = 20_000_000, 131_072
KEYS = (10, 10_000, 1_000_000, 5_000_000)
#: A key has a row for each row of its own number in so many.
SPREAD = 1_000_003
SAMPLE_S = 0.02
MB = 1e6
#: DuckDB does not start with less.
DUCKDB_MIN = 60_000_000
PAYLOAD = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("x", pa.float64())])
AGGREGATES = (
    AggregateSpec("count", None, "rows"),
    AggregateSpec("sum", "n", "n"),
    AggregateSpec("sum", "x", "x"),
)


def main() -> None:
    """All points, or the one that a parent asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--keys", type=int, nargs="*", default=KEYS)
    parser.add_argument("--one", nargs=2, metavar=("ENGINE", "BUDGET"))
    parser.add_argument("--duckdb", action="store_true")
    args = parser.parse_args()
    if args.one:
        engine, budget = args.one
        run = duckdb_point if engine == "duckdb" else window_point
        print(json.dumps(run(args.rows, args.keys[0], int(budget) or None)))
        return
    points: list[dict[str, Any]] = []
    for keys in args.keys:
        for engine in ("window", *(["duckdb"] if args.duckdb else [])):
            whole = _point(engine, args.rows, keys, 0)
            points.append(whole)
            budget = int(whole["state_bytes"]) // 10
            if budget > MB:
                points.append(_point(engine, args.rows, keys, budget))
    print(json.dumps(points))


def _point(engine: str, rows: int, keys: int, budget: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--rows", f"{rows}", "--one", engine, f"{budget}"]
    done = subprocess.run([*command, "--keys", f"{keys}"], capture_output=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    found |= {"engine": engine, "keys": keys, "budget": budget}
    shown = {k: f"{v:.3g}" if isinstance(v, float) else v for k, v in found.items()}
    print(shown, flush=True)
    return found


def batches(rows: int, keys: int) -> Iterator[pa.RecordBatch]:
    """Rows of one window; the numbers of keys are far apart."""
    rng = np.random.default_rng(7)
    for first in range(0, rows, STEP_ROWS):
        count = min(STEP_ROWS, rows - first)
        vs = np.arange(first, first + count)
        k = rng.integers(0, keys, count) * SPREAD
        columns = [vs, vs + 1, k, vs & 1023, rng.random(count)]
        names = ["_vs", "_ve", "k", "n", "x"]
        yield pa.RecordBatch.from_arrays([pa.array(c) for c in columns], names=names)


def window_point(rows: int, keys: int, budget: int | None) -> dict[str, Any]:
    """The operator, from the first row to the last result."""
    memory = StateMemory(2**50 if budget is None else budget, Scratch())
    size = 1 << 40
    operator = WindowAggregate(("k",), size, size, AGGREGATES, points=True).open([PAYLOAD])
    give_memory(operator, memory)
    given = list(batches(rows, keys))
    with _peak_bytes() as peak, np.errstate(over="ignore"):
        spent, state = 0.0, 0
        for batch in given:
            begun = time.process_time()
            operator.process([Run(batch, np.empty(0, np.int64))])
            spent += time.process_time() - begun
            state = max(state, memory.used_bytes)
        before_close = peak[0]
        begun = time.process_time()
        end = pa.RecordBatch.from_arrays(
            [pa.array([], kind) for kind in batch.schema.types], schema=batch.schema
        )
        groups = pieces = total = 0
        for run in in_pieces([operator], [Run(end, np.array([size]))]):
            pieces += 1
            groups += run.events.num_rows
            total = (total + _checksum(run.events)) % 2**64
        closing = time.process_time() - begun
    return {
        "cpu_s": spent + closing,
        "closing_s": closing,
        "state_bytes": state,
        "peak_bytes": peak[0],
        "peak_before_close_bytes": before_close,
        "written_bytes": memory.scratch.written_bytes,
        "groups": groups,
        "pieces": pieces,
        "digest": f"{total:016x}",
    }


def _checksum(rows: pa.RecordBatch) -> int:
    """A sum over rows that does not depend on pieces; doubles by their bits."""
    mixed = np.zeros(rows.num_rows, np.uint64)
    for column in rows.columns:
        mixed = mixed * np.uint64(0x9E3779B97F4A7C15) + column.to_numpy().view(np.uint64)
    return int(mixed.sum())


def duckdb_point(rows: int, keys: int, budget: int | None) -> dict[str, Any]:
    """The same aggregate in DuckDB; ``budget`` is its memory limit."""
    import duckdb

    db = duckdb.connect()
    db.execute("SET threads=1")
    if budget is not None:
        db.execute(f"SET memory_limit='{max(budget, DUCKDB_MIN)}B'")
    rows_of = pa.Table.from_batches(batches(rows, keys))
    with _peak_bytes() as peak:
        begun = time.process_time()
        sql = "SELECT k, count(*) AS r, sum(n) AS n, sum(x) AS x FROM rows_of GROUP BY k ORDER BY k"
        out = db.execute(f"SELECT count(*), sum(x) FROM ({sql})").fetchone()
        spent = time.process_time() - begun
    assert out is not None
    assert rows_of.num_rows == rows
    return {"cpu_s": spent, "peak_bytes": peak[0], "state_bytes": peak[0], "groups": out[0]}


class _peak_bytes:  # noqa: N801 - used as a context manager function
    """The greatest private memory within the block, less that at its begin."""

    def __enter__(self) -> list[int]:
        self._stop = threading.Event()
        self._peak = [0]
        self._base = _private_bytes()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self._peak

    def _sample(self) -> None:
        while not self._stop.wait(SAMPLE_S):
            self._peak[0] = max(self._peak[0], _private_bytes() - self._base)

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def _private_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


if __name__ == "__main__":
    main()

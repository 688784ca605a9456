"""How many rows per second MATCH takes on one core: simple patterns over 10,000 keys.

One operator without streams or hosts: random doubles, points 20 us apart, in runs of 65,536 rows
with a CTI each. Processor time: the median of rounds in which the patterns alternate. The last line
is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import numpy as np
import pyarrow as pa

from planner import Stream, agg, col, prev, rows_of
from planner.physical.lower import lower
from rstream.items.batch import event_schema
from rvertex.events.run import Run

SCHEMA = {"k": "int64", "x": "float64"}
PAYLOAD = pa.schema([("k", pa.int64()), ("x", pa.float64())])
STEP_ROWS, KEYS, EVENTS_PER_US = 65_536, 10_000, 20
FALLS, RISES = col("x") < prev("x"), col("x") > prev("x")
OWN = {"A": col("x") < 0.2, "B": col("x") > 0.5, "C": (col("x") >= 0.2) & (col("x") <= 0.5)}


def queries() -> dict[str, Stream]:
    """Return the streams to measure, by name."""
    rows = Stream.from_items(SCHEMA, [])
    last = {"first": rows_of("A")["x"], "last": rows_of("C")["x"]}
    counted = {**last, "n": rows_of("B").agg(agg.count())}

    def of_key(pattern: str, **options: object) -> Stream:
        return rows.match(pattern, partition_by="k", **options)  # type: ignore[arg-type]

    valley = {"B": FALLS, "C": RISES}
    return {
        "A B+ C of own values": of_key("A B+ C", define=OWN, measures=last),
        "A B+ C by PREV": of_key("A B+ C", define=valley, measures=counted),
        "A B+ C by PREV, within 1 s": of_key(
            "A B+ C", define=valley, measures=counted, within="1s"
        ),
        "A{3} B C, rare": of_key("A{3} B C", define=OWN, measures=last),
    }


def measured(stream: Stream, runs: list[Run]) -> tuple[float, int]:
    """Return the processor seconds of one pass over ``runs``, and the number of output rows."""
    plan = lower(stream.to_parquet(), root="memory://c", parallelism=1)
    spec = next(
        vertex.operators[-1]
        for vertex in map(plan.vertex, plan.topological_order())
        if any(type(operator).__name__ == "MatchRows" for operator in vertex.operators)
    )
    operator = spec.open([PAYLOAD])
    started, out = time.process_time(), 0
    for run in runs:
        out += operator.process([run]).events.num_rows
    return time.process_time() - started, out


def made_runs(rows: int) -> list[Run]:
    """Return the input."""
    rng = np.random.default_rng(1)
    vs = np.arange(rows, dtype=np.int64) * EVENTS_PER_US
    columns = [pa.array(c) for c in (vs, vs + 1, rng.integers(0, KEYS, rows), rng.random(rows))]
    whole = pa.RecordBatch.from_arrays(columns, schema=event_schema(PAYLOAD))
    pieces = [whole.slice(lo, STEP_ROWS) for lo in range(0, rows, STEP_ROWS)]
    return [Run(piece, np.array([piece.column(0)[-1].as_py()])) for piece in pieces]


def main() -> None:
    """Print a line for each pattern."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    pa.set_cpu_count(1)
    runs = made_runs(options.rows)
    passes: dict[str, list[tuple[float, int]]] = {}
    for _ in range(options.rounds):
        for name, stream in queries().items():
            passes.setdefault(name, []).append(measured(stream, runs))
    result = {}
    for name, found in passes.items():
        seconds, (_, out) = statistics.median(s for s, _ in found), found[0]
        result[name] = {"rows_per_s": round(options.rows / seconds), "matches": out}
        print(f"{name:28} {options.rows / seconds:12,.0f} rows/s, {out:,} matches")
    print(json.dumps(result))


if __name__ == "__main__":
    main()

"""The cost of a row in each operator, beside the cost that the cost model assumes.

``planner/cost/per_row.py`` guides parallelism, flushing and recovery with one number per kind of
work. This program measures them: one operator on one core, without streams or hosts, points 20 us
apart in batches of 65,536 rows with a CTI each, integers and doubles, 10,000 keys. Processor time,
the least of three runs, core microseconds per input row. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
import pyarrow as pa
from bench_keyed_process import Totals

from planner import Stream, agg, col, hopping, session, snapshot, tumbling
from planner.cost.per_row import work_us
from planner.physical.lower import lower
from rstream.items.batch import event_schema
from rstream.items.hashing import partition_of
from rvertex.events.run import Run
from rvertex.operators.filter import Filter

SCHEMA = {"k": "int64", "x": "float64", "n": "int64"}
PAYLOAD = pa.schema([("k", pa.int64()), ("x", pa.float64())])
STEP_ROWS, KEYS, EVENTS_PER_US, ROUNDS = 65_536, 10_000, 20, 3
POINTS = Stream.from_items(SCHEMA, [])
SPANS = POINTS.set_duration(200)
SUMS = {"n": agg.count(), "total": agg.sum("x")}


def queries() -> dict[str, Stream]:
    """Return a query per kind of work; the last node of each is measured."""
    by_key = POINTS.group_by("k")
    return {
        "filter": POINTS.filter(col("x") > 0.5),
        "select, one computed": POINTS.select("k", "n", x=col("x") * 2),
        "set_duration": POINTS.set_duration(200),
        "chop in two": SPANS.chop(150),
        "tumbling, 2 aggregates": by_key.window(tumbling("1s")).agg(**SUMS),
        "hopping by 5, 2 aggregates": by_key.window(hopping("5s", "1s")).agg(**SUMS),
        "tumbling, quantile": by_key.window(tumbling("1s")).agg(q=agg.quantile("x", 0.5)),
        "session, 2 aggregates": by_key.window(session("100ms")).agg(**SUMS),
        "snapshot, 2 aggregates": by_key.window(snapshot()).agg(**SUMS),
        "join": SPANS.join(SPANS.select("k", y=col("x")), on="k"),
        "stitch": SPANS.select("k").stitch("k"),
        "clip": SPANS.clip(SPANS, on="k"),
        "process": by_key.process(Totals),
    }


def measured(stream: Stream, rows: int) -> tuple[float, float]:
    """Return core microseconds per input row, and output rows per input row."""
    plan = lower(stream.to_parquet(), root="memory://c", parallelism=1, partial_aggregation=False)
    spec = plan.vertex(plan.topological_order()[-1])
    payloads = [channel.payload for channel in spec.inputs]
    specs = list(spec.operators)
    if spec.source is not None:
        payloads = [spec.source.spec.schema]
        if spec.source.spec.keep is not None:  # the source applies the filter itself
            specs.insert(0, Filter(spec.source.spec.keep))
    ports = [runs(payload, rows, 200 if len(payloads) == 2 else 1) for payload in payloads]
    inputs = list(zip(*ports, strict=True))
    best_s, out = float("inf"), 0
    for _ in range(ROUNDS):
        operators, below = [], payloads
        for operator in specs:
            operators.append(operator.open(below))
            below = [operator.output_schema(below)]
        started, out = time.process_time(), 0
        for step in inputs:
            run = operators[0].process(step)
            for unary in operators[1:]:
                run = unary.process([run])
            out += run.events.num_rows
        best_s = min(best_s, time.process_time() - started)
    taken = rows * len(payloads)
    return best_s / taken * 1e6, out / taken


def runs(payload: pa.Schema, rows: int, duration_us: int) -> list[Run]:
    """Return the input of one port, made before the measurement."""
    rng = np.random.default_rng(1)
    vs = np.arange(rows, dtype=np.int64) * EVENTS_PER_US
    values = {"k": rng.integers(0, KEYS, rows), "n": rng.integers(0, 100, rows)}
    columns = [values[name] if name in values else rng.random(rows) for name in payload.names]
    arrays = [pa.array(column) for column in (vs, vs + duration_us, *columns)]
    whole = pa.RecordBatch.from_arrays(arrays, schema=event_schema(payload))
    pieces = [whole.slice(lo, STEP_ROWS) for lo in range(0, rows, STEP_ROWS)]
    return [Run(piece, np.array([piece.column(0)[-1].as_py()])) for piece in pieces]


def exchanged(rows: int) -> float:
    """Return core microseconds per row to choose one of four readers and to split the rows."""
    whole = [run.events for run in runs(PAYLOAD, rows, 1)]
    started = time.process_time()
    for batch in whole:
        part = partition_of([batch.column("k")], 4)
        for i in range(4):
            batch.take(pa.array(np.flatnonzero(part == i)))
    return (time.process_time() - started) / rows * 1e6


def main() -> None:
    """Print a line for each operator."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    rows = parser.parse_args().rows
    pa.set_cpu_count(1)
    result: dict[str, Any] = {}
    for name, stream in queries().items():
        cost, out = measured(stream, rows)
        model = work_us(stream.plan, 1.0, out)
        result[name] = {"us": round(cost, 3), "model_us": round(model, 3), "out": round(out, 2)}
        print(f"{name:28} {cost:8.3f} us a row, {model:6.3f} by the model, {out:5.2f} out")
    result["exchange"] = {"us": round(exchanged(rows), 3), "model_us": 0.05}
    print(f"{'exchange':28} {result['exchange']['us']:8.3f} us a row,  0.050 by the model")
    print(json.dumps(result))


if __name__ == "__main__":
    main()

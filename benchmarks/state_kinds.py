"""Further steps with state per key that ``bench_state.py`` measures, as queries of one input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from planner import Stream, agg, col, count_window, rows_of, session, snapshot, tumbling
from planner.physical.lower import lower
from rstream.items.batch import event_schema
from rstream.types import INF_TIME
from rvertex.events.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TYPES = {"k": "int64", "n": "int64", "x": "float64"}
#: The column of deleted versions that ``upserts`` adds.
DELETED = "is_deleted"
#: The length of a window that has all rows.
ALL_US = f"{1 << 40}us"
SUMS = {"rows": agg.count(), "n": agg.sum("n"), "x": agg.sum("x")}


def _in_window(**aggregates: Any) -> Callable[[Stream, int], Stream]:
    return lambda rows, _us: rows.group_by("k").window(tumbling(ALL_US)).agg(**aggregates)


#: By name: the query over rows, and the number of rows, which is also their span in us.
QUERIES: dict[str, Callable[[Stream, int], Stream]] = {
    "sessions": lambda rows, us: rows.group_by("k").window(session(f"{us // 4}us")).agg(**SUMS),
    "distinct": _in_window(n=agg.count_distinct("n")),
    "median": _in_window(x=agg.quantile("x", 0.5)),
    "lists": _in_window(x=agg.collect("x")),
    "top": _in_window(top=agg.top_rows(3, by="x")),
    "top_running": lambda rows, us: rows.group_by("k").top(3, by="x"),
    "running": lambda rows, us: rows.group_by("k").agg(**SUMS),
    "counted": lambda rows, us: rows.group_by("k").window(count_window(2)).agg(**SUMS),
    "snapshots": lambda rows, us: (
        rows.set_duration(f"{us // 4}us").group_by("k").window(snapshot()).agg(**SUMS)
    ),
    "frames": lambda rows, us: (
        rows.group_by("k").rolling(rows=8).with_columns(total=agg.sum("x"), before=agg.lag("n"))
    ),
    "frames_of_time": lambda rows, us: (
        rows.group_by("k").rolling(period=f"{us // 4}us").with_columns(total=agg.sum("x"))
    ),
    "upserts": lambda rows, us: rows.upserts("k"),
    "clip": lambda rows, us: rows.for_ever().clip(rows, on="k"),
    "stitch": lambda rows, us: rows.set_duration(f"{us // 4}us").stitch(on="k"),
    "match": lambda rows, us: rows.match(
        "A B+ C",
        partition_by="k",
        define={"A": col("x") < 0.5, "B": col("x") < 0.7, "C": col("x") > 0.7},
        measures={"first": rows_of("A")["x"], "last": rows_of("C")["x"]},
    ),
}


def operators(name: str, rows: int) -> tuple[list[Any], list[pa.Schema]]:
    """Return the operators of the query's last stage, and the columns of its inputs."""
    stream = QUERIES[name](Stream.from_items(TYPES, []), rows)
    plan = lower(stream.to_parquet(), root="memory://c", parallelism=1)
    spec = plan.vertex(plan.topological_order()[-1])
    source = spec.source
    inputs = (
        [channel.payload for channel in spec.inputs] if source is None else [source.spec.schema]
    )
    opened, payloads = [], inputs
    for operator in spec.operators:
        opened.append(operator.open(payloads))
        payloads = [operator.output_schema(payloads)]
    return opened, [event_schema(payload) for payload in inputs]


def ports(batches: Iterator[pa.RecordBatch], inputs: list[pa.Schema]) -> Iterator[list[Run]]:
    """Yield the runs of all inputs for each batch, whose last time is the CTI; last, the end.

    With two inputs, the rows of the first one never end.
    """
    for batch in batches:
        rows = batch.append_column(DELETED, pa.array(np.zeros(batch.num_rows, bool)))
        yield _runs(rows, int(rows.column(0)[-1].as_py()), inputs)
    yield _runs(rows.slice(0, 0), INF_TIME, inputs)


def _runs(batch: pa.RecordBatch, cti: int, inputs: list[pa.Schema]) -> list[Run]:
    arrays = [[batch.column(name) for name in schema.names] for schema in inputs]
    if len(inputs) > 1:
        arrays[0][1] = pa.array(np.full(batch.num_rows, INF_TIME), pa.int64())
    batches = map(lambda a, s: pa.RecordBatch.from_arrays(a, schema=s), arrays, inputs)
    return [Run(rows, np.array([cti])) for rows in batches]

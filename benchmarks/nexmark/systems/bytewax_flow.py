"""Bytewax: one worker, a Python call per event; its windowing operators with an event clock.

Rows are read from Parquet as tuples; results are collected, and written when the flow has ended.
Windows whose key is a bidder or an auction use ``count_window``, as its documentation shows.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import bytewax.operators as op
import bytewax.operators.windowing as win
import pyarrow as pa
import pyarrow.parquet as pq
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import run_main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BATCH_ROWS = 1_000
ALIGN = datetime(2026, 1, 1, tzinfo=UTC)
DELAY = timedelta(milliseconds=100)
TEN_S, TWO_S = timedelta(seconds=10), timedelta(seconds=2)
Row = tuple[Any, ...]


class Rows(StatelessSourcePartition[Row]):
    """Reads rows with some columns from a folder."""

    def __init__(self, folder: Path, columns: list[str]) -> None:
        self._batches = (
            batch
            for file in sorted(folder.glob("*.parquet"))
            for batch in pq.ParquetFile(file).iter_batches(BATCH_ROWS, columns=columns)
        )

    def next_batch(self) -> list[Row]:
        batch = next(self._batches, None)
        if batch is None:
            raise StopIteration
        columns = [
            column.cast(pa.timestamp("us", "UTC")).to_pylist()
            if pa.types.is_timestamp(column.type)
            else column.to_pylist()
            for column in batch.columns
        ]
        return list(zip(*columns, strict=True))


class Bids(DynamicSource[Row]):
    """Bids that one worker reads."""

    def __init__(self, folder: Path, columns: list[str]) -> None:
        self._folder, self._columns = folder, columns

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Rows:
        del step_id, worker_index, worker_count
        return Rows(self._folder, self._columns)


class Part(StatelessSinkPartition[Row]):
    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows

    def write_batch(self, items: list[Row]) -> None:
        self._rows += items


class Collected(DynamicSink[Row]):
    """Keeps all rows."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Part:
        del step_id, worker_index, worker_count
        return Part(self.rows)


def _windows(flow: Dataflow, folder: Path, key: int, windower: win.Windower[Any]) -> Any:
    """Return counts per key and window, with the bounds of the window: (key, start, end, count)."""
    bids = op.input("bids", flow, Bids(folder, ["auction", "bidder", "date_time"]))
    # Only events advance this clock: with the wall clock, a pause would make events late.
    clock = win.EventClock(lambda row: row[2], DELAY, lambda: ALIGN, lambda _: None)
    out = win.count_window("count", bids, clock, windower, key=lambda row: str(row[key]))
    counts = op.map("by_window", out.down, lambda kv: (f"{kv[0]} {kv[1][0]}", kv[1][1]))
    meta = op.map("meta", out.meta, lambda kv: (f"{kv[0]} {kv[1][0]}", kv[1][1]))
    both = op.join("both", counts, meta, emit_mode="complete")
    return op.map(
        "row",
        both,
        lambda kv: (int(kv[0].split()[0]), kv[1][1].open_time, kv[1][1].close_time, kv[1][0]),
    )


def q1(flow: Dataflow, folder: Path) -> tuple[Any, list[str]]:
    names = ["auction", "bidder", "price", "date_time", "extra"]
    bids = op.input("bids", flow, Bids(folder, names))
    return op.map("euros", bids, lambda r: (r[0], r[1], 0.908 * r[2], r[3], r[4])), names


def q2(flow: Dataflow, folder: Path) -> tuple[Any, list[str]]:
    bids = op.input("bids", flow, Bids(folder, ["auction", "price"]))
    return op.filter("some", bids, lambda r: r[0] % 123 == 0), ["auction", "price"]


def q5(flow: Dataflow, folder: Path) -> tuple[Any, list[str]]:
    windower = win.SlidingWindower(TEN_S, TWO_S, ALIGN)
    counts = _windows(flow, folder, 0, windower)
    return counts, ["auction", "start", "stop", "num"]


def q11(flow: Dataflow, folder: Path) -> tuple[Any, list[str]]:
    rows = _windows(flow, folder, 1, win.SessionWindower(TEN_S))
    # Its sessions end at their last event.
    return op.map("ends", rows, lambda r: (r[0], r[1], r[2] + TEN_S, r[3])), _SESSION


def q12(flow: Dataflow, folder: Path) -> tuple[Any, list[str]]:
    return _windows(flow, folder, 1, win.TumblingWindower(TEN_S, ALIGN)), _SESSION


_SESSION = ["bidder", "start", "stop", "bids"]
FLOWS: dict[str, Callable[[Dataflow, Path], tuple[Any, list[str]]]] = {
    flow.__name__: flow for flow in (q1, q2, q5, q11, q12)
}


class System:
    """Runs one flow per order in this process."""

    NAMES = tuple(FLOWS)
    VARIANTS: tuple[dict[str, object], ...] = ({},)

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(self, name: str, out: Path, variant: dict[str, object]) -> float:
        """Run the flow and write its results."""
        assert not variant, variant
        out.mkdir(parents=True)
        flow, sink = Dataflow(name), Collected()
        started_s = time.perf_counter()
        rows, names = FLOWS[name](flow, self._folder / "bid")
        op.output("out", rows, sink)
        run_main(flow)
        table = pa.table(dict(zip(names, zip(*sink.rows, strict=True), strict=True)))
        pq.write_table(_hottest(table) if name == "q5" else table, out / "answer.parquet")
        return time.perf_counter() - started_s


def _hottest(counts: pa.Table) -> pa.Table:
    """Return the greatest counts of each window; computed after the flow, which cannot do it."""
    most = counts.group_by("start").aggregate([("num", "max")])
    return counts.join(
        most,
        [
            "start",
        ],
        right_keys=["start"],
    ).filter(pa.compute.equal(pa.compute.field("num"), pa.compute.field("num_max")))

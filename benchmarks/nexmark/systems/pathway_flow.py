"""Pathway: one thread, tables read from CSV files (it has no Parquet reader) and written as CSV.

The columns that a query needs are written as CSV at start-up. Static mode, as for any finite input.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pathway as pw
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Callable

TEN_S, TWO_S = 10_000_000, 2_000_000


class Bid(pw.Schema):
    """The columns that queries use; times are microseconds."""

    auction: int
    bidder: int
    price: int
    date_time: int
    extra: str


def q1(bids: pw.Table) -> pw.Table:
    return bids.select(
        bids.auction, bids.bidder, price=0.908 * bids.price, t=bids.date_time, extra=bids.extra
    )


def q2(bids: pw.Table) -> pw.Table:
    return bids.filter(bids.auction % 123 == 0).select(pw.this.auction, pw.this.price)


def q5(bids: pw.Table) -> pw.Table:
    counts = bids.windowby(
        bids.date_time,
        window=pw.temporal.sliding(hop=TWO_S, duration=TEN_S, origin=0),
        instance=bids.auction,
    ).reduce(auction=pw.this._pw_instance, t=pw.this._pw_window_start, num=pw.reducers.count())
    most = counts.groupby(counts.t).reduce(counts.t, num=pw.reducers.max(counts.num))
    return counts.join(most, counts.t == most.t, counts.num == most.num).select(
        counts.auction, counts.t, counts.num
    )


def q11(bids: pw.Table) -> pw.Table:
    window = pw.temporal.session(predicate=lambda a, b: b - a < TEN_S)
    return bids.windowby(bids.date_time, window=window, instance=bids.bidder).reduce(
        bidder=pw.this._pw_instance,
        t=pw.this._pw_window_start,
        u=pw.this._pw_window_end + TEN_S,
        bids=pw.reducers.count(),
    )


def q12(bids: pw.Table) -> pw.Table:
    window = pw.temporal.tumbling(duration=TEN_S, origin=0)
    return bids.windowby(bids.date_time, window=window, instance=bids.bidder).reduce(
        bidder=pw.this._pw_instance,
        t=pw.this._pw_window_start,
        u=pw.this._pw_window_end,
        bids=pw.reducers.count(),
    )


TABLES: dict[str, Callable[[pw.Table], pw.Table]] = {t.__name__: t for t in (q1, q2, q5, q11, q12)}
#: The names of the columns t and u in the result.
_TIMES = {"q1": {"t": "date_time"}, "q5": {"t": "start"}}
_WINDOW = {"t": "start", "u": "stop"}


class System:
    """Runs one graph per order in this process."""

    NAMES = tuple(TABLES)
    VARIANTS: tuple[dict[str, object], ...] = ({},)

    def __init__(self, folder: Path) -> None:
        os.environ["PATHWAY_THREADS"] = "1"
        self._csv = Path(tempfile.mkdtemp(prefix="nexmark-pathway-")) / "bid.csv"
        table = pq.read_table(folder / "bid", columns=list(Bid.column_names()))
        at = table.schema.get_field_index("date_time")
        table = table.set_column(at, "date_time", table["date_time"].cast(pa.int64()))
        pyarrow.csv.write_csv(table, self._csv)

    def run(self, name: str, out: Path, variant: dict[str, object]) -> float:
        """Run the graph from CSV to CSV; then convert the answer to Parquet."""
        assert not variant, variant
        out.mkdir(parents=True)
        started_s = time.perf_counter()
        pw.internals.parse_graph.G.clear()
        bids = pw.io.csv.read(str(self._csv), schema=Bid, mode="static")
        pw.io.csv.write(TABLES[name](bids), str(out / "answer.csv"))
        pw.run(monitoring_level=pw.MonitoringLevel.NONE)
        elapsed_s = time.perf_counter() - started_s
        answer = pyarrow.csv.read_csv(out / "answer.csv").drop_columns(["time", "diff"])
        names = _TIMES.get(name, _WINDOW)
        for old in names:
            at = answer.schema.get_field_index(old)
            if at >= 0:
                answer = answer.set_column(at, names[old], answer[old].cast(pa.timestamp("us")))
        pq.write_table(answer, out / "answer.parquet")
        return elapsed_s

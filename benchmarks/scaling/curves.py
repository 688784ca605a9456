"""The curves of the scaling benchmark: what grows, the query, the small job of the same shape."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from bids import FIRST_ID, ROW_GROUP_ROWS, START_US, bids_folder

from planner import Query, Stream, agg, col, hopping, tumbling, when

if TYPE_CHECKING:
    from collections.abc import Callable

M = 1_000_000
#: Rows of the small job, whose cost (starting and ending) is subtracted.
SMALL_ROWS = 10_000
KEYS_ROWS, WINDOWS_ROWS, CHAIN_ROWS, PARTITIONS_ROWS = 5 * M, 10 * M, 2 * M, 5 * M
#: Bids that look up rows in the state of the join.
PROBE_ROWS = 2 * M
#: Bytes that a join stores per row: the row, its lifetime and its index entry.
REMEMBERED_BYTES = 64


@dataclass(frozen=True)
class Curve:
    """A curve; ``make(x, rows)`` returns the query of one point, with this many input rows."""

    what: str
    points: tuple[int, ...]
    full: tuple[int, ...]
    rows: Callable[[int], int]
    make: Callable[[int, int], Query]
    #: Events of a point besides those of its main input.
    more: Callable[[int], int] = lambda x: 0
    #: The cost is divided by the number of events and this.
    per: Callable[[int], int] = lambda x: 1
    parallelism: Callable[[int], int] = lambda x: 2


def bids(rows: int, partitions: int | None = None) -> Stream:
    """Return this number of bids, from existing files or from files written now."""
    return Stream.from_parquet(
        str(bids_folder(rows) / "bids"), vs="time", delay="0s", partitions=partitions
    )


def windowed(rows: int) -> Query:
    """Count and sum by 1,000 keys over 2 s."""
    groups = bids(rows).group_by("auction").window(tumbling("2s"))
    return groups.agg(n=agg.count(), total=agg.sum("price")).to_parquet()


def by_keys(keys: int, rows: int) -> Query:
    """Return a query with one window and this number of keys; it writes no results."""
    keyed = bids(rows).select("price", key=col("id") % keys)
    sums = keyed.group_by("key").window(tumbling("1h")).agg(total=agg.sum("price"))
    return sums.filter(col("total") < 0).to_parquet()


def with_hot_key(percent: int, rows: int) -> Query:
    """Sum by 10,000 keys over 2 s; one key has ``percent`` of the events."""
    key = when(col("id") % 100 < percent).then(0).otherwise(col("id") % 10_000)
    windows = bids(rows).select("price", key=key).group_by("key").window(tumbling("2s"))
    return windows.agg(n=agg.count(), total=agg.sum("price")).to_parquet()


def overlapping(windows: int, rows: int) -> Query:
    """Put every event into ``windows`` windows; always one result per key and second."""
    groups = bids(rows).group_by("auction").window(hopping(f"{windows}s", "1s"))
    return groups.agg(n=agg.count(), total=agg.sum("price")).to_parquet()


def chain(vertices: int, rows: int) -> Query:
    """Send every event through a chain of unions; half of the vertices are filters."""
    stream = bids(rows, 1).select("id", "price")
    for step in range(vertices // 2):
        stream = stream.union(stream.filter(col("id") < -step))
    return stream.filter(col("id") < 0).to_parquet()


def partitioned(partitions: int, rows: int) -> Query:
    """Sum by 1,000 keys with equally many sources and windows, connected all to all."""
    groups = bids(rows, partitions).group_by("auction").window(tumbling("2s"))
    return groups.agg(n=agg.count(), total=agg.sum("price")).to_parquet()


def remembering(megabytes: int, rows: int) -> Query:
    """Look up bids in the state of a join, which keeps all of it to the end."""
    remembered = str(memory_file(remembered_rows(megabytes) if rows > SMALL_ROWS else SMALL_ROWS))
    right = Stream.from_parquet(remembered, vs="start", ve="stop", delay="0s").select(
        "key", "value"
    )
    left = bids(rows).select("price", key=col("id") - FIRST_ID)
    return left.join(right, on="key").filter(col("price") < 0).to_parquet()


def remembered_rows(megabytes: int) -> int:
    """Return how many rows make a state of that size."""
    return megabytes * M // REMEMBERED_BYTES


def memory_file(rows: int) -> Path:
    """Write ``start, stop, key, value``: rows that begin before the bids and outlive them."""
    path = Path(tempfile.gettempdir()) / f"{bids_folder(SMALL_ROWS).parent.name}" / f"memory-{rows}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(".part")
        with pq.ParquetWriter(scratch, _memory(0, 0).schema, compression="lz4") as writer:
            for at in range(0, rows, ROW_GROUP_ROWS):
                writer.write_table(_memory(at, min(rows, at + ROW_GROUP_ROWS)))
        scratch.rename(path)
    return path


def _memory(lo: int, hi: int) -> pa.Table:
    key = np.arange(lo, hi)
    start, stop = np.full(hi - lo, START_US - 1), np.full(hi - lo, START_US + 3_600 * M)
    times = [pa.array(t).cast(pa.timestamp("us")) for t in (start, stop)]
    return pa.table({"start": times[0], "stop": times[1], "key": key, "value": key * 7})


CURVES = {
    "data": Curve(
        "events", (M, 2 * M, 5 * M, 10 * M, 20 * M), (100 * M,),
        rows=lambda x: x, make=lambda _, rows: windowed(rows),
    ),
    "keys": Curve(
        "keys", (10, 100, 1_000, 10_000, 100_000, M, 10 * M), (),
        rows=lambda x: max(x, KEYS_ROWS), make=by_keys,
    ),
    "hot": Curve(
        "percent of the events with one key", (0, 50, 90), (99,),
        rows=lambda _: KEYS_ROWS, make=with_hot_key,
    ),
    "windows": Curve(
        "overlapping windows", (1, 3, 10, 30, 100), (),
        rows=lambda _: WINDOWS_ROWS, make=overlapping,
    ),
    "chain": Curve(
        "vertices in a chain (cost for each event and union)", (2, 4, 8, 16, 32, 64), (),
        rows=lambda _: CHAIN_ROWS, make=chain, per=lambda x: x // 2, parallelism=lambda _: 1,
    ),
    "partitions": Curve(
        "parallel sources, and as many windows", (1, 2, 4, 8, 16, 32), (64,),
        rows=lambda _: PARTITIONS_ROWS, make=partitioned, parallelism=lambda x: x,
    ),
    "state": Curve(
        "MB that a join remembers", (1, 4, 16, 64, 256), (1_024, 4_096),
        rows=lambda _: PROBE_ROWS, make=remembering, more=remembered_rows,
    ),
}  # fmt: skip

"""Small jobs that tests run from end to end, on threads of this process."""

from __future__ import annotations

import re
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from jobmanager import JobConfig
from planner import Query, Stream, agg, col, event, hopping, tumbling
from rstream import open_reader, open_store, read_events
from rstream.store.part_files import part_uri
from rstream.store.segment_names import NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

WAIT_S = 120.0
LOOK_S = 0.01
ROWS = 4_000
#: Event time from the first to the last row, seconds.
SPAN_S = 40
#: An eighth of the events, in seconds.
EIGHTH_S = SPAN_S // 8

#: Items of one stream: sequence number, kind, lifetime, payload.
ItemRows = list[tuple[Any, ...]]


def write_events(path: Path, rows: int = ROWS) -> Path:
    """Events out of order by up to 0.2 s, with doubles whose sum depends on the order."""
    rng = np.random.default_rng(7)
    times = np.sort(rng.integers(0, SPAN_S * 1_000_000, rows)) + rng.integers(0, 200_000, rows)
    table = pa.table(
        {
            "t": times,
            "key": rng.integers(0, 8, rows),
            "x": rng.normal(size=rows) * 10.0 ** rng.integers(-8, 8, rows),
        }
    )
    pq.write_table(table, path, row_group_size=max(1, rows // 8))
    return path


def two_exchanges(path: Path) -> Query:
    """A query that joins events to their own counts by key, then aggregates by another key."""
    return exchanges_of(Stream.from_parquet(str(path), vs="t", delay="1s")).to_parquet()


def exchanges_of(events: Stream) -> Stream:
    """The same over any stream."""
    busy = events.group_by("key").window(hopping("2s", "1s")).agg(n=agg.count(), total=agg.sum("x"))
    joined = events.join(busy, on="key").select("n", "total", "x", bucket=col("key") % 3)
    return (
        joined.group_by("bucket")
        .window(hopping("4s", "2s"))
        .agg(n=agg.count(), most=agg.max("n"), total=agg.sum("x"), last=agg.last("total"))
    )


def uneven_speeds(path: Path) -> Query:
    """A join whose left side has a hundred events per two of the right; one vertex reads each."""
    fast = Stream.from_parquet(str(path), vs="t", delay="1s", partitions=1)
    rows = [
        event(i * EIGHTH_S * 1_000_000, (i + 1) * EIGHTH_S * 1_000_000, key=k, tier=i)
        for i in range(8)
        for k in range(8)
    ]
    slow = Stream.from_items({"key": "int64", "tier": "int64"}, rows, partitions=1)
    joined = fast.join(slow, on="key")
    return (
        joined.group_by("tier")
        .window(tumbling("20s"))
        .agg(n=agg.count(), total=agg.sum("x"))
        .to_parquet()
    )


def with_limits(config: JobConfig | None = None, **limits: Any) -> JobConfig:
    """A configuration with these host limits."""
    config = config or JobConfig()
    return replace(config, host=replace(config.host, **limits))


def outcome(status: dict[str, Any]) -> tuple[str, int, int, str]:
    """Return the values that must not depend on how a job ran."""
    return status["state"], status["events_in"], status["events_out"], status["output_digest"]


def partitions(output: str) -> list[str]:
    """The folders of the output's streams."""
    return [part_uri(output, name) for name in _names(output)]


def output_items(output: str) -> list[ItemRows]:
    """Every durable item of every output stream, CTIs included, in sequence order."""
    return list(items_by_partition(output).values())


def items_by_partition(output: str) -> dict[str, ItemRows]:
    """The items by name of partition; a partition without a durable item is absent."""
    return {name: _items(part_uri(output, name)) for name in _names(output)}


def _names(output: str) -> list[str]:
    return sorted({re.sub(NAME, "", p.name)[:-1] for p in Path(output).glob("part-*.parquet")})


def _items(folder: str) -> ItemRows:
    reader = open_reader(open_store(folder), 0)
    rows: ItemRows = []
    while (items := reader.read_next()) is not None:
        rows += [
            (items.first_seq + k, *row.values()) for k, row in enumerate(items.batch.to_pylist())
        ]
    reader.close()
    return rows


def answer(output: str) -> list[dict[str, Any]]:
    """The events of the output, sorted."""
    rows = [row for folder in partitions(output) for row in read_events(folder).to_pylist()]
    return sorted(rows, key=repr)


def wait_gone(pids: Iterable[int]) -> None:
    """Wait until the processes have ended; zombies have."""
    for pid in pids:
        until(lambda pid=pid: not _is_alive(pid), f"process {pid} still runs")


def until(is_so: Callable[[], bool], reason: str = "") -> None:
    """Wait until something is so. ``reason``: why the test fails after ``WAIT_S``."""
    ends_s = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < ends_s, reason
        threading.Event().wait(LOOK_S)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

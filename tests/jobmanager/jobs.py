"""Small jobs that the tests of this folder run from end to end, on threads of this process."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from jobmanager import JobConfig
from planner import Query, Stream, agg, col, hopping
from rstream import read_events
from rvertex.environment import HostLimits

if TYPE_CHECKING:
    from pathlib import Path

WAIT_S = 60.0
ROWS = 4_000
#: Event time from the first to the last row, seconds.
SPAN_S = 40


def write_events(path: Path, rows: int = ROWS) -> Path:
    """Events out of order by up to 0.2 s, with doubles whose sum depends on its order."""
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
    """A join of the events with their own counts by key, then an aggregate by another key."""
    events = Stream.from_parquet(str(path), vs="t", delay="1s")
    busy = events.group_by("key").window(hopping("2s", "1s")).agg(n=agg.count(), total=agg.sum("x"))
    joined = events.join(busy, on="key").select("n", "total", "x", bucket=col("key") % 3)
    return (
        joined.group_by("bucket")
        .window(hopping("4s", "2s"))
        .agg(n=agg.count(), most=agg.max("n"), total=agg.sum("x"), last=agg.last("total"))
        .to_parquet()
    )


def with_limits(config: JobConfig | None = None, **limits: Any) -> JobConfig:
    """A configuration with these limits of a host."""
    config = config or JobConfig()
    return replace(config, host=replace(config.host, **limits))


def impatient() -> HostLimits:
    """Checkpoints as often as they can be taken."""
    return HostLimits(checkpoint_interval_s=0.0)


def outcome(status: dict[str, Any]) -> tuple[str, int, int, str]:
    """What must not depend on how a job ran."""
    return status["state"], status["events_in"], status["events_out"], status["output_digest"]


def answer(output: Path | str) -> list[dict[str, Any]]:
    """The rows of an output folder, in an order of their own."""
    from pathlib import Path

    rows: list[dict[str, Any]] = []
    for part in sorted(Path(output).glob("partition=*")):
        rows += read_events(str(part)).to_pylist()
    return sorted(rows, key=repr)

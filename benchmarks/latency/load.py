"""The inputs of the latency benchmark: events, and as many intervals.

In the join, half of the rate are events and half are intervals, whose length gives an event about
one partner. In the other queries all are events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from open_loop import GROUP_ROWS, SEED, SOURCES, START_US, Load

if TYPE_CHECKING:
    from pathlib import Path

KEYS = 100
WINDOW_US = 10_000
QUERIES = ("filter", "window", "join")


@dataclass(frozen=True)
class Inputs:
    """The input of one query at one rate; times are us after the start."""

    query: str
    rate: int
    seconds: float
    window_us: int = WINDOW_US

    @property
    def load(self) -> Load:
        """Return the events."""
        rate = self.rate // 2 if self.query == "join" else self.rate
        return Load(rate, self.seconds, KEYS, self.window_us)

    def intervals(self) -> pa.Table | None:
        """Return ``start, stop, key, tag``, as many rows as events.

        None if the query has no intervals.
        """
        if self.query != "join":
            return None
        load = self.load
        start = START_US + load.times_us()
        length_us = max(1, KEYS * 1_000_000 // load.rate)
        key = np.random.default_rng(SEED + 2).integers(0, KEYS, load.rows)
        times = [pa.array(t).cast(pa.timestamp("us")) for t in (start, start + length_us)]
        return pa.table(
            {"start": times[0], "stop": times[1], "key": key, "tag": np.arange(load.rows)}
        )

    def write(self, folder: Path) -> None:
        """Write ``events.parquet``, and ``intervals.parquet`` if there are intervals."""
        sources = 1 if self.query == "join" else SOURCES
        self.load.write(folder / "events.parquet", sources)
        if (table := self.intervals()) is not None:
            pq.write_table(table, folder / "intervals.parquet", row_group_size=GROUP_ROWS)

    def answers(self) -> int:
        """Return the expected number of output rows."""
        load = self.load
        if self.query == "filter":
            return int((load.values_of() <= FILTER_MAX).sum())
        if self.query == "window":
            return int((load.answer() > 0).sum())
        table = self.intervals()
        assert table is not None
        start, stop = (table[c].cast(pa.int64()).to_numpy() - START_US for c in ("start", "stop"))
        times, keys, total = load.times_us(), load.keys_of(), 0
        for key in range(KEYS):
            mine, own = times[keys == key], table["key"].to_numpy() == key
            begun = np.searchsorted(start[own], mine, side="right")
            ended = np.searchsorted(stop[own], mine, side="right")
            total += int((begun - ended).sum())
        return total


FILTER_MAX = 1_000

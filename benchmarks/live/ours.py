"""Our three queries between two topics, and the job that runs one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

import streamscope as ss
from live.load import SIDE_TOPIC, TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable

WINDOW = "10ms"
EVENT = pa.schema(
    [pa.field("at", pa.int64()), pa.field("key", pa.int64()), pa.field("amount", pa.int64())]
)
#: By query the field of its rows that says when they were due.
DUE = {"filter": "at", "window": "window_end", "join": "at"}


def events(servers: str, topic: str, start: str) -> ss.Stream:
    """The live topic; its rows are in order of time, as the generator is one process."""
    return ss.Stream.from_kafka(
        topic, servers=servers, schema=EVENT, vs="at", delay="0s", start=start
    )


def filter_query(servers: str, out: str) -> ss.Query:
    """Half of the events pass."""
    kept = events(servers, TOPIC, "latest").filter(ss.col("amount") % 2 == 0)
    return kept.to_kafka(out, servers=servers)


def window_query(servers: str, out: str) -> ss.Query:
    """Windows of 10 ms by 100 keys, behind an exchange."""
    windows = (
        events(servers, TOPIC, "latest")
        .group_by("key")
        .window(ss.tumbling(WINDOW))
        .agg(n=ss.agg.count(), total=ss.agg.sum("amount"))
    )
    return windows.to_kafka(out, servers=servers)


def join_query(servers: str, out: str) -> ss.Query:
    """Events with what was valid for their key at their time."""
    sides = events(servers, SIDE_TOPIC, "earliest").select("key", side="amount").set_duration("1s")
    return events(servers, TOPIC, "latest").join(sides, on="key").to_kafka(out, servers=servers)


QUERIES: dict[str, Callable[[str, str], ss.Query]] = {
    "filter": filter_query,
    "window": window_query,
    "join": join_query,
}


def start(query: str, servers: str, out: str, root: str, place: dict[str, Any]) -> ss.Job:
    """The running job."""
    return ss.run(QUERIES[query](servers, out), root=root, **place)

"""Our queries between two topics, and the process that runs one of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamscope as ss
from live.ending import at_end
from live.events import AVRO, EVENT, SCARCE_BELOW, SIDE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable

STOP_WAIT_S = 30.0
WINDOW = "10ms"
MASTER = "local[2]"


def events(order: dict[str, str], topic: str, **options: str) -> ss.Stream:
    """Return a topic; its rows are in order of time, since the generator is one process."""
    schema: Any = AVRO if order["format"] == "avro" else EVENT
    return ss.Stream.from_kafka(
        topic,
        servers=order["servers"],
        schema=schema,
        format=order["format"],
        vs="at",
        delay="0s",
        **options,
    )  # type: ignore[call-overload]


def filtered(order: dict[str, str]) -> ss.Stream:
    """Keep half of the events."""
    kept = events(order, order["topic"]).filter(ss.col("amount") % 2 == 0)
    return kept.select("at", "key", "amount")


def scarce(order: dict[str, str]) -> ss.Stream:
    """Keep one event in a hundred."""
    kept = events(order, order["topic"]).filter(ss.col("amount") < SCARCE_BELOW)
    return kept.select("at", "key", "amount")


def windowed(order: dict[str, str]) -> ss.Stream:
    """Aggregate windows of 10 ms by 100 keys, behind an exchange."""
    windows = events(order, order["topic"]).group_by("key").window(ss.tumbling(WINDOW))
    return windows.agg(n=ss.agg.count(), total=ss.agg.sum("amount"))


def joined(order: dict[str, str]) -> ss.Stream:
    """Join events with the rows that are valid for their key at that time."""
    sides = events(order, SIDE_TOPIC).select("key", side=ss.col("amount")).set_duration("1s")
    return events(order, order["topic"]).join(sides, on="key")


def totals(order: dict[str, str]) -> ss.Stream:
    """Return a running total per key: its row changes with each event."""
    found = events(order, order["topic"], idle="clock", idle_after="1s").group_by("key")
    return found.agg(n=ss.agg.count(), total=ss.agg.sum("amount"))


QUERIES: dict[str, Callable[[dict[str, str]], ss.Stream]] = {
    "filter": filtered,
    "scarce": scarce,
    "window": windowed,
    "join": joined,
    "total": totals,
}


def delivered(order: dict[str, str]) -> ss.Query:
    """Deliver the rows to a topic, or the newest row of each key to a topic or a table."""
    found = QUERIES[order["query"]](order)
    if order["query"] != "total":
        return found.to_kafka(order["out"], servers=order["servers"])
    if order["dsn"]:
        return found.to_postgres(order["dsn"], order["out"], mode="upsert", key=["key"])
    return found.to_kafka(order["out"], servers=order["servers"], key=["key"], upsert=True)


def main(order: dict[str, str]) -> None:
    """Run the job until the input ends."""
    place: dict[str, Any] = {"executor": order["executor"]}
    if order["executor"] == "spark":
        place["master"] = MASTER
    job = ss.run(delivered(order), root=str(Path(order["folder"]) / "job"), **place)
    at_end().wait()
    job.cancel()
    job.wait(STOP_WAIT_S)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

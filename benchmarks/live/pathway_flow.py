"""Pathway: two worker threads; reading, JSON and operators are in Rust.

Runs in Pathway's environment. At least once: its persistence keeps offsets and the state of
operators in a folder. Exactly once is a feature of its paid edition. Windows close once
(``exactly_once_behavior``); the join is ``interval_join``, which deletes old rows as its behavior
says.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ["PATHWAY_THREADS"] = "2"

import pathway as pw
from ending import at_end

if TYPE_CHECKING:
    from collections.abc import Callable

SNAPSHOT_MS = 10_000
#: Commit intervals in ms; the default is 1,500.
COMMIT_MS = {"latency": 2, "throughput": 100}
WINDOW_US, SIDE_LIFE_US, SCARCE_BELOW = 10_000, 1_000_000, 100


class Event(pw.Schema):
    at: int
    key: int
    amount: int


def rows(order: dict[str, Any], topic: str) -> pw.Table:
    settings = {
        "bootstrap.servers": order["servers"],
        "group.id": f"pathway-{order['out']}",
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": "5",
        "session.timeout.ms": "6000",
    }
    return pw.io.kafka.read(
        settings,
        topic=topic,
        schema=Event,
        format="json",
        autocommit_duration_ms=COMMIT_MS[order["aim"]],
        name=topic,
    )


def filtered(order: dict[str, Any]) -> pw.Table:
    events = rows(order, order["topic"])
    return events.filter(events.amount % 2 == 0)


def scarce(order: dict[str, Any]) -> pw.Table:
    events = rows(order, order["topic"])
    return events.filter(events.amount < SCARCE_BELOW)


def windowed(order: dict[str, Any]) -> pw.Table:
    events = rows(order, order["topic"])
    windows = events.windowby(
        events.at,
        window=pw.temporal.tumbling(duration=WINDOW_US, origin=0),
        instance=events.key,
        behavior=pw.temporal.exactly_once_behavior(shift=order["wait_ms"] * 1_000),
    )
    return windows.reduce(
        window_end=pw.this._pw_window_end,
        key=pw.this._pw_instance,
        n=pw.reducers.count(),
        total=pw.reducers.sum(pw.this.amount),
    )


def joined(order: dict[str, Any]) -> pw.Table:
    events, sides = rows(order, order["topic"]), rows(order, "sides")
    pairs = events.interval_join(
        sides,
        events.at,
        sides.at,
        pw.temporal.interval(-SIDE_LIFE_US + 1, 0),
        events.key == sides.key,
    )
    return pairs.select(events.at, events.key, events.amount, side=sides.amount)


def totals(order: dict[str, Any]) -> pw.Table:
    events = rows(order, order["topic"])
    return events.groupby(events.key).reduce(
        events.key, n=pw.reducers.count(), total=pw.reducers.sum(events.amount)
    )


QUERIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "filter": filtered,
    "scarce": scarce,
    "window": windowed,
    "join": joined,
    "total": totals,
}


def main(order: dict[str, Any]) -> None:
    """Run until the input ends; then the process ends at once."""
    ended = at_end()
    settings = {"bootstrap.servers": order["servers"], "linger.ms": "0"}
    pw.io.kafka.write(QUERIES[order["query"]](order), settings, order["out"], format="json")
    backend = pw.persistence.Backend.filesystem(str(Path(order["folder"]) / "kept"))
    config = pw.persistence.Config(
        backend,
        snapshot_interval_ms=SNAPSHOT_MS,
        persistence_mode=pw.PersistenceMode.PERSISTING,
    )
    pw.run(monitoring_level=pw.MonitoringLevel.NONE, persistence_config=config)
    ended.wait()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

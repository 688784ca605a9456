"""Quix Streams: a process for each partition, in one consumer group, a Python call per event.

Runs in its own environment. Exactly once: output, changelogs of state and offsets are in one
transaction every ``COMMIT_S``. Rows grouped by key go through a topic of the broker, so windows and
joins wait for two transactions.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import quixstreams.dataframe.windows.aggregations as agg
from ending import at_end
from quixstreams import Application

WORKERS = 2
#: Commit interval, s; the default is 5.
COMMIT_S = {"latency": 0.01, "throughput": 1.0}
POLL_S = {"latency": 0.005, "throughput": 0.1}
WINDOW_MS, SIDE_LIFE_US, SCARCE_BELOW = 10, 1_000_000, 100
SLACK_MS = 5_000


def application(order: dict[str, Any]) -> Application:
    return Application(
        order["servers"],
        consumer_group=f"quix-{order['out']}",
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=COMMIT_S[order["aim"]],
        consumer_poll_timeout=POLL_S[order["aim"]],
        state_dir=f"{order['folder']}/state-{order['number']}",
        consumer_extra_config={"fetch.wait.max.ms": 5, "log_level": 0},
        producer_extra_config={"linger.ms": 0, "log_level": 0},
        loglevel="WARNING",
    )


def rows(app: Application, name: str) -> Any:
    def time_of(value: Any, headers: Any, timestamp: float, kind: Any) -> int:
        return int(value["at"]) // 1000

    return app.dataframe(app.topic(name, value_deserializer="json", timestamp_extractor=time_of))


def filtered(app: Application, order: dict[str, Any]) -> Any:
    kept = rows(app, order["topic"]).filter(lambda r: r["amount"] % 2 == 0)
    return kept[["at", "key", "amount"]]


def scarce(app: Application, order: dict[str, Any]) -> Any:
    kept = rows(app, order["topic"]).filter(lambda r: r["amount"] < SCARCE_BELOW)
    return kept[["at", "key", "amount"]]


def windowed(app: Application, order: dict[str, Any]) -> Any:
    keyed = rows(app, order["topic"])[["key", "amount"]].group_by("key")
    windows = keyed.tumbling_window(WINDOW_MS, grace_ms=order["wait_ms"]).agg(
        n=agg.Count(), total=agg.Sum("amount")
    )

    def row(value: Any, key: Any, timestamp: int, headers: Any) -> Any:
        end = value["end"] * 1000
        return {"window_end": end, "key": int(key), "n": value["n"], "total": value["total"]}

    return windows.final("partition").apply(row, metadata=True)


def joined(app: Application, order: dict[str, Any]) -> Any:
    events = rows(app, order["topic"])[["at", "key", "amount"]].group_by("key")
    sides = rows(app, "sides")[["at", "key", "amount"]].group_by("key")

    def pair(event: Any, side: Any) -> Any:
        age_us = event["at"] - side["at"]  # its own join has only milliseconds
        return {**event, "side": side["amount"]} if 0 <= age_us < SIDE_LIFE_US else None

    pairs = events.join_interval(
        sides, on_merge=pair, grace_ms=SLACK_MS, backward_ms=SIDE_LIFE_US // 1000
    )
    return pairs.filter(lambda r: r is not None)


QUERIES = {"filter": filtered, "scarce": scarce, "window": windowed, "join": joined}


def main(order: dict[str, Any]) -> None:
    """Start the workers, and stop them when the input ends."""
    workers = [
        subprocess.Popen(
            [sys.executable, __file__, json.dumps({**order, "number": k})],
            stdin=subprocess.DEVNULL,
        )
        for k in range(WORKERS)
    ]
    at_end().wait()
    for worker in workers:
        worker.kill()
        worker.wait()


def work(order: dict[str, Any]) -> None:
    """Run one worker."""
    app = application(order)
    out = app.topic(order["out"], value_serializer="json", key_serializer="json")
    QUERIES[order["query"]](app, order).to_topic(out)
    app.run()


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    (work if "number" in given else main)(given)

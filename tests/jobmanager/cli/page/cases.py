"""Job statuses, as input for tests of the page, the metrics and the doctor."""

from __future__ import annotations

from typing import Any

from rstream.types import INF_TIME

S = 1_000_000
NOW_US = 1_790_000_000 * S


def vertex(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "vertex": name,
        "stage": name.partition(".")[0],
        "state": "running",
        "host": "h0.0",
        "events_in": 5_000,
        "events_out": 40,
        "restarts": 0,
        "cti_us": NOW_US - 2 * S,
        "cti_lag_s": 2.0,
        "tail_bytes": 1_000,
        "state_bytes": 2_000,
        "checkpoint_age_s": 1.5,
        "blocked": False,
        "epoch": 1,
        "memory_bytes": 1_000,
        "spills": 2,
        "spilled_bytes": 3_000,
        "state_keys": 40,
        "scratch_bytes": 0,
        "scratch_files": 0,
        "busy_us": 2 * S,
        "user_us": 0,
        "function": "",
        "hot_key": "",
        "hot_share": 0.0,
        "waiting": "",
        "logs": [],
        **fields,
    }


def log(partition: int, lag_rows: int | None, **fields: Any) -> dict[str, Any]:
    return {
        "partition": partition,
        "state": "active",
        "position": 9,
        "lag_rows": lag_rows,
        "lag_s": 3.5,
        "frontier_us": NOW_US,
        "holds_back": partition == 1,
        **fields,
    }


def delivery(state: str = "delivering", lag_items: int = 0, error: str = "") -> dict[str, Any]:
    row = {"delivery": "postgres:t", "partition": 0, "state": state, "error": error}
    return row | {"rows": 10, "commits": 2, "lag_items": lag_items}


def host(free_bytes: int = 4 << 30) -> dict[str, Any]:
    memory: dict[str, Any] = {
        "used_bytes": 1 << 30,
        "free_bytes": free_bytes,
        "limit_bytes": 8 << 30,
    }
    memory |= {"store_requests": [30, 20, 10, 5]}
    return {"host": "h0.0", "state": "ready", "machine": "m", "pid": 7, "memory": memory}


def status(**fields: Any) -> dict[str, Any]:
    return {
        "job": "j",
        "state": "running",
        "health": "ok",
        "reasons": [],
        "error": "",
        "root": "/jobs/j",
        "written_us": NOW_US,
        "machine": "m",
        "pid": 6,
        "store_requests": [3, 2, 1, 0],
        "events_in": 10_000,
        "events_out": 80,
        "late_events": 0,
        "bad_rows": 0,
        "poisoned_events": 0,
        "duplicates": 0,
        "restarts": 0,
        "vertices": [
            vertex("s00.0", logs=[log(0, 5), log(1, 10)]),
            vertex("s01.0"),
            vertex("s01.1", cti_us=INF_TIME, cti_lag_s=0.0),
        ],
        "deliveries": [delivery()],
        "hosts": [host()],
        **fields,
    }

"""EXCEPT, INTERSECT and EXISTS over rows of windows, against DuckDB.

Not covered: session windows, whose bounds depend on the data.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime

import duckdb
import pyarrow as pa
import pytest

import jobmanager
from planner import Stream, event, sql
from tests.support.budget import one_in

SCHEMA = pa.schema([("k", pa.string())])
S = 1_000_000
TUMBLE, HOP = (10, 10), (20, 10)
_KEYS = "r.k = l.k AND r.window_start = l.window_start AND r.window_end = l.window_end"
TEXTS = [
    "SELECT k, window_start FROM {a} EXCEPT SELECT k, window_start FROM {b}",
    "SELECT k, window_end FROM {a} EXCEPT SELECT k, window_end FROM {b}",
    "SELECT k, window_start FROM {a} INTERSECT SELECT k, window_start FROM {b}",
    f"SELECT l.k, l.window_start FROM {{a}} l WHERE EXISTS (SELECT 1 FROM {{b}} r WHERE {_KEYS})",
    f"SELECT l.k, l.window_start FROM {{a}} l "
    f"WHERE NOT EXISTS (SELECT 1 FROM {{b}} r WHERE {_KEYS})",
]


@pytest.mark.parametrize(("size", "every"), [TUMBLE, HOP])
@pytest.mark.parametrize("text", one_in(2, TEXTS))
def test_rows_of_windows_are_compared_like_duckdb(text: str, size: int, every: int) -> None:
    rng = random.Random(f"{text} {size}")
    rows = {name: _rows(rng) for name in "ab"}
    streams = {
        name: Stream.from_items(SCHEMA, [event(t * S, t * S + 1, k=k) for t, k in found])
        for name, found in rows.items()
    }
    windows = {
        name: f"TABLE(HOP(TABLE {name}, DESCRIPTOR(vs()), INTERVAL '{every}' SECOND, "
        f"INTERVAL '{size}' SECOND))"
        for name in "ab"
    }
    found = jobmanager.collect(sql(text.format(**windows), streams), executor="local")
    columns = [name for name in found.column_names if not name.startswith("_v")]
    with duckdb.connect() as connection:
        for name, points in rows.items():
            of_windows = [
                (k, _time(start), _time(start + size))
                for t, k in points
                for start in range(t // every * every - size + every, t + 1, every)
            ]
            connection.execute(
                f"CREATE TABLE {name} (k VARCHAR, window_start TIMESTAMP, window_end TIMESTAMP)"
            )
            connection.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", of_windows)
        wanted = connection.execute(text.format(a="a", b="b")).fetchall()
    made = [tuple(_naive(row[name]) for name in columns) for row in found.to_pylist()]
    assert sorted(map(repr, made)) == sorted(map(repr, wanted))
    assert made


def _rows(rng: random.Random) -> list[tuple[int, str | None]]:
    times = sorted(rng.randrange(60) for _ in range(20))
    return [(t, rng.choice(["x", "y", "z", None])) for t in times]


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)


def _naive(value: object) -> object:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value

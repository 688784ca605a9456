"""An entry of the catalogue, its input rows, and the results of both engines."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from planner import Stream, event, sql, vs
from planner.logical.nodes import Project
from planner.physical.lower import lower
from rstream.items.batch import VE
from rstream.types import INF_TIME
from tests.support.plan_runner import answer

_START = datetime(2026, 1, 1, 12, tzinfo=UTC)
_WORDS = [
    *("", "a", "ab", "Ab c", "hello world", "x1y22z", "é", "a,b,c", "  pad ", "%_", "TRUE"),
    *('{"a": {"b": 7}, "l": [1, "z"], "s": "t"}', '{"a": null}', "[10, 20]", "{", "42"),
]
_FLOATS = [0.0, -0.0, 0.5, -2.5, 2.5, 1e10, -1e-3, 3.0, 100.0, math.pi]
_DATES = [date(1969, 12, 31), date(2024, 2, 29), date(2026, 1, 1), date(2020, 12, 31)]
T = {
    "n": "int64", "k": "string", "i": "int64", "j": "int64", "f": "float64", "g": "float64",
    "s": "string", "w": "string", "p": "bool", "q": "bool", "d": "date", "m": "timestamp",
}  # fmt: skip
U = {"k": "string", "y": "int64"}
ROWS = 60


@dataclass(frozen=True)
class Entry:
    """One function, clause or window form.

    ``ours`` is an expression over ``t``, or a query; ``duck`` is DuckDB's form (None: the same).
    ``hint``: the entry is an error whose message has these words.
    """

    name: str
    ours: str
    duck: str | None = None
    hint: str | None = None
    #: For running results: the rows valid at the end of the stream.
    is_running: bool = False


@functools.cache
def rows() -> tuple[tuple[dict[str, Any], ...], tuple[dict[str, Any], ...]]:
    """The rows of ``t`` and ``u``, times included."""
    rng = Random(14)
    t: list[dict[str, Any]] = []
    at = _START
    for n in range(ROWS):
        at += timedelta(seconds=rng.choice([1, 2, 5, 9, 30]), microseconds=rng.randrange(1000))
        t.append({"ts": at, "n": n, **{name: _value(rng, name) for name in T if name != "n"}})
    u = [
        {
            "ts": _START + timedelta(seconds=30 * n),
            "te": _START + timedelta(seconds=30 * n + rng.choice([10, 60, 200])),
            "k": rng.choice(["a", "b", "c", None]),
            "y": n,
        }
        for n in range(12)
    ]
    return tuple(t), tuple(u)


def _value(rng: Random, name: str) -> Any:
    if rng.random() < 0.15:
        return None
    match T[name]:
        case "int64":
            return rng.choice([0, 1, -1, 2, 5, 63, -7, 100, 2**31, rng.randrange(-50, 50)])
        case "float64":
            return rng.choice(_FLOATS)
        case "bool":
            return rng.random() < 0.5
        case "date":
            return rng.choice(_DATES)
        case "timestamp":
            day = datetime.combine(rng.choice(_DATES), datetime.min.time(), UTC)
            return day + timedelta(microseconds=rng.randrange(86_400_000_000))
    return rng.choice(["a", "b", "c"] if name == "k" else _WORDS)


@functools.cache
def streams() -> dict[str, Stream]:
    """``t``, whose rows are points at ``ts``, and ``u``, with rows valid from ``ts`` to ``te``."""
    t, u = rows()
    points = [event(_us(row["ts"]), **{n: row[n] for n in T}) for row in t]
    lasting = [event(_us(r["ts"]), _us(r["te"]), **{n: r[n] for n in U}) for r in u]
    return {
        "t": Stream.from_items(T, points).with_columns(ts=vs()),
        "u": Stream.from_items(U, lasting),
    }


def _us(time: datetime) -> int:
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@functools.cache
def connection() -> duckdb.DuckDBPyConnection:
    """DuckDB with the same tables, in UTC."""
    found = duckdb.connect()
    found.execute("SET TimeZone = 'UTC'")
    for name, table in zip("tu", rows(), strict=True):
        plain = [{c: _plain_time(v) for c, v in row.items()} for row in table]
        kinds = {"string": pa.string(), "bool": pa.bool_(), "date": pa.date32()}
        kinds |= {"int64": pa.int64(), "float64": pa.float64(), "timestamp": pa.timestamp("us")}
        columns = {**(T if name == "t" else U), "ts": "timestamp", "te": "timestamp"}
        schema = pa.schema([(c, kinds[columns[c]]) for c in plain[0]])
        found.register(name, pa.Table.from_pylist(plain, schema=schema))
    return found


def _plain_time(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def asked(text: str) -> str:
    """Return the query of an entry; an expression becomes a SELECT over all rows."""
    starts = text.lstrip().upper()
    is_query = starts.startswith(("SELECT", "WITH", "CREATE"))
    return text if is_query else f"SELECT n, {text} AS v FROM t"


def ours(text: str, *, is_running: bool = False) -> list[tuple[Any, ...]]:
    """Our result, without lifetimes."""
    stream = sql(asked(text), streams())
    assert isinstance(stream, Stream)
    if asked(text) != text:
        return _sorted(list(zip(*_columns(stream), strict=True)))
    plan = lower(stream.to_parquet(), root="memory://catalogue", parallelism=1)
    table = answer(plan)
    if is_running:
        table = table.filter(pc.equal(table.column(VE), int(INF_TIME)))
    found = table.select(stream.schema.names).to_pylist()
    return _sorted([tuple(row.values()) for row in found])


def _columns(stream: Stream) -> list[list[Any]]:
    """Evaluate many SELECTs over ``t`` directly, without a plan for each."""
    assert isinstance(stream.plan, Project)
    return [node.evaluate(one_batch()).to_pylist() for _, node in stream.plan.columns]


@functools.cache
def one_batch() -> pa.RecordBatch:
    """The rows of ``t`` as they come out of its source."""
    plan = lower(streams()["t"].to_parquet(), root="memory://t", parallelism=1)
    return answer(plan).combine_chunks().to_batches()[0]


def ducks(text: str) -> list[tuple[Any, ...]]:
    """DuckDB's result."""
    return _sorted(connection().execute(asked(text)).fetchall())


def _sorted(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(_plain(v) for v in row) for row in found), key=repr)


def _plain(value: Any) -> Any:
    """Round doubles to 12 digits, because engines add differently; drop zones of times."""
    if isinstance(value, float):
        short = float(f"{value:.11e}")
        return 0.0 if short == 0 else short
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return _plain_time(value)

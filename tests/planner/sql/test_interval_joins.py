"""SQL joins of two streams of points: every spelling of a time bound, compared with DuckDB.

Not covered: the operator at the limits of time or under cuts
(``tests/rvertex/operators/joins/test_interval.py``).
"""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from planner import SqlError, Stream, event, lit, sql, vs
from planner.physical.lower import lower
from rvertex.operators.joins.interval import IntervalJoin
from rvertex.state.memory import StateMemory, give_memory
from tests.support.budget import one_in
from tests.support.plan_runner import answer
from tests.support.small_limits import small_limits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

TIME = pa.timestamp("us", "UTC")
MINUTE = 60_000_000
FIRST = 1_767_225_600_000_000


def rows_of(name: str, seed: int, count: int) -> list[dict[str, Any]]:
    """Rows on a grid of minutes: ties, nulls and duplicates are common."""
    random = Random(seed)
    rows = [
        {
            "at": FIRST + random.randrange(90) * MINUTE,
            "k": random.choice([1, 2, 3, None]),
            name: n // 2 if random.random() < 0.9 else None,
        }
        for n in range(count)
    ]
    return [*rows, *rows[:3]]


ROWS = {"a": rows_of("x", 1, 50), "b": rows_of("y", 2, 50)}


def stream_of(rows: list[dict[str, Any]]) -> Stream:
    names = [name for name in rows[0] if name != "at"]
    items = [event(row["at"], **{name: row[name] for name in names}) for row in rows]
    return Stream.from_items(dict.fromkeys(names, "int64"), items).with_columns(t=vs())


@pytest.fixture(scope="module")
def engine() -> duckdb.DuckDBPyConnection:
    found = duckdb.connect()
    found.execute("SET TimeZone = 'UTC'")
    for name, rows in ROWS.items():
        times = pa.array([row["at"] for row in rows]).cast(TIME)
        columns = {n: [row[n] for row in rows] for n in rows[0] if n != "at"}
        found.register(name, pa.table({**columns, "t": times}))
    return found


def assert_same(text: str, engine: duckdb.DuckDBPyConnection) -> int:
    """Check that the query returns DuckDB's rows. Return their number."""
    stream = sql(text, {name: stream_of(rows) for name, rows in ROWS.items()})
    assert isinstance(stream, Stream)
    plan = lower(stream.to_parquet(), root="memory://near", parallelism=2)
    table = answer(plan).drop_columns(["_vs", "_ve"])
    mine = sorted(map(_plain, (row.values() for row in table.to_pylist())))
    theirs = sorted(map(_plain, engine.execute(text).fetchall()))
    assert mine == theirs, text
    return len(mine)


def _plain(row: Any) -> list[tuple[bool, int]]:
    values = (int(v.timestamp()) if isinstance(v, datetime) else v for v in row)
    return [(value is None, value or 0) for value in values]


BETWEEN = "b.t BETWEEN a.t AND a.t + INTERVAL '10' MINUTE"
CONDITIONS = {
    "between": f"a.k = b.k AND {BETWEEN}",
    "and another": f"a.k = b.k AND {BETWEEN} AND x < y AND y > 3 AND x < 40",
    "no key": "b.t BETWEEN a.t AND a.t + INTERVAL '1' MINUTE",
    "greater, less": "a.k = b.k AND b.t > a.t AND b.t <= a.t + INTERVAL '7' MINUTE",
    "either way round": "a.t < b.t + INTERVAL '5' MINUTE AND b.t - INTERVAL '6' MINUTE <= a.t "
    "AND b.k = a.k",
    "a difference": "a.k = b.k AND b.t - a.t BETWEEN INTERVAL '-4' MINUTE AND INTERVAL '4' MINUTE",
    "the same time": "a.k = b.k AND a.t = b.t",
    "nothing but the time": "a.t = b.t",
    "before": "a.k = b.k AND a.t BETWEEN b.t - INTERVAL '20' MINUTE AND b.t - INTERVAL '5' MINUTE",
    "after": "a.k = b.k AND b.t BETWEEN a.t - INTERVAL '20' MINUTE AND a.t - INTERVAL '5' MINUTE",
    "not": "a.k = b.k AND NOT b.t < a.t AND NOT (b.t - INTERVAL '3' MINUTE > a.t)",
    "epochs": "a.k = b.k AND EXTRACT(EPOCH FROM b.t) - EXTRACT(EPOCH FROM a.t) BETWEEN 0 AND 300",
    "not either": "a.k = b.k AND NOT (b.t < a.t OR b.t - INTERVAL '3' MINUTE > a.t)",
    "either": f"a.k = b.k AND ({BETWEEN} OR b.t = a.t - INTERVAL '3' MINUTE)",
    "an hour of the clock": "a.k = b.k AND DATE_TRUNC('hour', a.t) = DATE_TRUNC('hour', b.t)",
}


@pytest.fixture
def on_scratch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """If the parameter is true, joins keep nothing in memory."""
    if not request.param:
        yield
        return
    plain = IntervalJoin.open

    def opened(spec: IntervalJoin, inputs: Sequence[pa.Schema]) -> Any:
        made = plain(spec, inputs)
        give_memory(made, StateMemory(0))
        return made

    monkeypatch.setattr(IntervalJoin, "open", opened)
    with small_limits():
        yield


KINDS = ["", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "EXISTS", "NOT EXISTS"]


@pytest.mark.parametrize(
    ("name", "on_scratch"),
    [
        pytest.param(
            name, full, marks=[pytest.mark.slow] * (name != "between" and (full or k % 3 > 0))
        )
        for k, name in enumerate(CONDITIONS)
        for full in (False, True)
    ],
    indirect=["on_scratch"],
)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("on_scratch")
def test_joins_with_time_bounds(name: str, kind: str, engine: duckdb.DuckDBPyConnection) -> None:
    """All combinations of kinds of joins, spellings of bounds, and state in memory or spilled."""
    right = "" if kind in ("SEMI", "ANTI") else ", b.t AS bt, b.k AS bk, y"
    text = f"SELECT a.t AS at, a.k AS ak, x{right} FROM a {kind} JOIN b ON {CONDITIONS[name]}"
    if kind.endswith("EXISTS"):
        text = f"SELECT * FROM a WHERE {kind} (SELECT 1 FROM b WHERE {CONDITIONS[name]})"
    assert assert_same(text, engine) > 3


WHERES = {
    "comma": f"SELECT x, y FROM a, b WHERE a.k = b.k AND {BETWEEN} AND x > 3",
    "comma without a key": f"SELECT x, y FROM a, b WHERE x > 3 AND {BETWEEN}",
    "cross": f"SELECT x, y FROM a CROSS JOIN b WHERE {BETWEEN} AND a.k = b.k",
    "in where": f"SELECT x, y FROM a JOIN b ON a.k = b.k WHERE {BETWEEN} AND x > 3",
    "half of it in where": "SELECT x, y FROM a JOIN b ON a.k = b.k AND b.t >= a.t "
    "WHERE b.t < a.t + INTERVAL '10' MINUTE",
    "using": f"SELECT k, x, y FROM a JOIN b USING (k) WHERE {BETWEEN}",
    "using the time": "SELECT k, t, x, y FROM a JOIN b USING (k, t)",
    "a subquery": "SELECT a.x, v.y FROM a JOIN (SELECT t AS u, k, y FROM b WHERE y > 5) AS v "
    "ON a.k = v.k AND v.u BETWEEN a.t AND a.t + INTERVAL '10' MINUTE",
    "distinct rows": "SELECT a.x, v.y FROM a JOIN (SELECT DISTINCT t, k, y FROM b) AS v "
    "ON a.k = v.k AND v.t BETWEEN a.t AND a.t + INTERVAL '10' MINUTE",
    "a union": "SELECT a.x, v.y FROM a JOIN "
    "(SELECT t, k, y FROM b UNION SELECT t, k, x FROM a) AS v "
    "ON a.k = v.k AND v.t BETWEEN a.t AND a.t + INTERVAL '10' MINUTE",
    "a left join, in where": f"SELECT x, y FROM a LEFT JOIN b ON a.k = b.k WHERE {BETWEEN}",
    "a right join after it": "SELECT a.x, b.y, c.y AS z FROM a JOIN b ON a.k = b.k RIGHT JOIN "
    "b AS c ON c.k = a.k AND c.t BETWEEN a.t AND a.t + INTERVAL '4' MINUTE "
    f"WHERE {BETWEEN}",
    "a full join after it": "SELECT a.x, b.y, c.y AS z FROM a JOIN b ON a.k = b.k FULL JOIN "
    "b AS c ON c.k = a.k AND c.t BETWEEN a.t AND a.t + INTERVAL '4' MINUTE "
    f"WHERE {BETWEEN}",
    "a cross join before a right one": "SELECT a.x, b.y, c.y AS z FROM a CROSS JOIN b RIGHT JOIN "
    "b AS c ON c.k = a.k AND c.t BETWEEN a.t AND a.t + INTERVAL '4' MINUTE "
    f"WHERE {BETWEEN} AND a.k = b.k",
    "a left join, more in where": f"SELECT a.x, b.y FROM a LEFT JOIN b ON a.k = b.k AND {BETWEEN} "
    "WHERE b.t <= a.t + INTERVAL '3' MINUTE",
    "a left join, nulls in where": f"SELECT a.x, b.y FROM a LEFT JOIN b ON a.k = b.k AND {BETWEEN} "
    "WHERE b.t IS NULL OR b.t > a.t",
    "a computed time": "SELECT a.x, v.y FROM a JOIN (SELECT t + INTERVAL '5' MINUTE AS u, k, y "
    "FROM b) AS v ON a.k = v.k AND v.u BETWEEN a.t AND a.t + INTERVAL '10' MINUTE",
    "computed on both sides": "SELECT u.x, v.y FROM "
    "(SELECT t - INTERVAL '1' HOUR - INTERVAL '2' MINUTE AS w, k, x FROM a) AS u JOIN "
    "(SELECT DATE_TRUNC('minute', t) AS w, k, y FROM b) AS v "
    "ON u.k = v.k AND v.w BETWEEN u.w + INTERVAL '1' HOUR AND u.w + INTERVAL '70' MINUTE",
    "the day of a time": "SELECT u.x, v.y FROM a AS u JOIN "
    "(SELECT CAST(CAST(t AS DATE) AS TIMESTAMPTZ) AS d, k, y FROM b) AS v "
    "ON u.k = v.k AND u.t BETWEEN v.d AND v.d + INTERVAL '2' HOUR",
    "a query by name": "WITH v AS (SELECT * FROM (SELECT k AS j, t AS u, y FROM b)) "
    "SELECT a.x, y FROM a JOIN v ON a.k = j AND a.t BETWEEN u - INTERVAL '10' MINUTE AND u",
    "three, by the first": f"SELECT a.x, b.y, c.y AS z FROM a JOIN b ON a.k = b.k AND {BETWEEN} "
    "JOIN b AS c ON c.k = a.k AND c.t BETWEEN a.t AND a.t + INTERVAL '4' MINUTE",
    "three, by the second": f"SELECT a.x, b.y, c.y AS z FROM a JOIN b ON a.k = b.k AND {BETWEEN} "
    "LEFT JOIN b AS c ON c.k = b.k AND c.t > b.t AND c.t < b.t + INTERVAL '4' MINUTE",
    "behind an outer join": f"SELECT a.x, b.y, c.y AS z FROM a LEFT JOIN b ON a.k = b.k AND "
    f"{BETWEEN} LEFT JOIN b AS c ON c.k = b.k AND c.t > b.t AND c.t < b.t + INTERVAL '4' MINUTE",
    "three with commas": "SELECT a.x, b.y, c.y AS z FROM a, b, b AS c WHERE a.k = b.k AND "
    f"{BETWEEN} AND c.k = a.k AND c.t BETWEEN b.t - INTERVAL '3' MINUTE AND b.t",
    "three with commas, by the last": "SELECT a.x, b.y, c.y AS z FROM a, b, b AS c WHERE "
    "a.k = b.k AND b.t BETWEEN c.t - INTERVAL '3' MINUTE AND c.t "
    "AND c.k = a.k AND c.t BETWEEN a.t AND a.t + INTERVAL '3' MINUTE",
    "semi": f"SELECT * FROM a SEMI JOIN b ON a.k = b.k AND {BETWEEN}",
    "anti": f"SELECT * FROM a ANTI JOIN b ON a.k = b.k AND {BETWEEN}",
}


@pytest.mark.parametrize("name", one_in(2, WHERES))
def test_time_bounds_in_other_clauses(name: str, engine: duckdb.DuckDBPyConnection) -> None:
    assert assert_same(WHERES[name], engine) > 3


@pytest.mark.parametrize("word", ["EXISTS", "NOT EXISTS"])
@pytest.mark.parametrize(
    "condition",
    [
        f"b.k = a.k AND {BETWEEN}",
        f"b.k = a.k AND {BETWEEN} AND y > x",
        f"b.k = a.k AND {BETWEEN} AND y > 10",
        BETWEEN,
        "b.k = a.k AND a.t - b.t < INTERVAL '6' MINUTE AND b.t <= a.t",
        "b.k = a.k AND a.t = b.t - INTERVAL '1' MINUTE",
        "b.k = a.k AND date_trunc('hour', b.t) = date_trunc('hour', a.t)",
    ],
)
def test_exists_with_time_bounds(
    word: str, condition: str, engine: duckdb.DuckDBPyConnection
) -> None:
    test = f"{word} (SELECT 1 FROM b WHERE {condition})"
    assert_same(f"SELECT * FROM a WHERE {test}", engine)
    assert assert_same(f"SELECT * FROM a WHERE x > 20 OR {test}", engine)


def test_late_rows_match_nothing(tmp_path: Path) -> None:
    """Rows that a source drops as late have no match; rows that it reorders do."""
    random, engine, streams = Random(5), duckdb.connect(), {}
    engine.execute("SET TimeZone = 'UTC'")
    for name, value in (("a", "x"), ("b", "y")):
        rows = [(at, random.randrange(3), at) for at in range(80)]
        rows.sort(key=lambda row: row[0] + random.randrange(4) + 40 * (random.random() < 0.1))
        lines = [f"k,{value},t", *(f"{k},{n},2026-01-01T00:00:{at:02d}" for at, k, n in rows[:60])]
        (tmp_path / f"{name}.csv").write_text("\n".join(line for line in lines if ":6" not in line))
        source = Stream.from_csv(str(tmp_path / f"{name}.csv"), vs="t", delay="4s")
        streams[name] = source
        plan = lower(source.to_parquet(), root=f"memory://{name}", parallelism=1)
        kept = answer(plan).drop_columns(["_vs", "_ve"])
        assert 20 < kept.num_rows < len(lines) - 2
        engine.register(name, kept)
    bound = "b.t BETWEEN a.t - INTERVAL '2' SECOND AND a.t + INTERVAL '5' SECOND"
    text = f"SELECT x, y FROM a FULL JOIN b ON a.k = b.k AND {bound}"
    made = sql(text, streams)
    assert isinstance(made, Stream)
    table = answer(lower(made.to_parquet(), root="memory://late", parallelism=2))
    found = [list(row.values())[2:] for row in table.to_pylist()]
    theirs = engine.execute(text).fetchall()
    assert sorted(map(_plain, found)) == sorted(map(_plain, theirs))


UNBOUNDED = {
    "SELECT x, y FROM a JOIN b ON a.k = b.k": "almost none would match: bound the time",
    "SELECT x, y FROM a LEFT JOIN b ON a.k = b.k": "almost none would match: bound the time",
    "SELECT x, y FROM a FULL JOIN b ON a.k = b.k": "almost none would match: bound the time",
    "SELECT x, y FROM a, b": "almost none would match: bound the time",
    "SELECT x, y FROM a, b WHERE a.k = b.k AND x < y": "or give the rows of one side a lifetime",
    "SELECT x FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k)": "or join the rows of windows",
    "SELECT x FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k)": "bound the time",
    "SELECT x FROM a WHERE x = 1 OR EXISTS (SELECT 1 FROM b WHERE b.k = a.k)": "bound the time",
    "SELECT x FROM a WHERE k IN (SELECT k FROM b)": "in EXISTS with b.ts BETWEEN a.ts",
    "SELECT x FROM a WHERE k NOT IN (SELECT k FROM b)": "in NOT EXISTS with b.ts BETWEEN a.ts",
    "SELECT x FROM a WHERE x = 1 OR k IN (SELECT k FROM b)": "in EXISTS with b.ts BETWEEN a.ts",
    "SELECT x, y FROM a JOIN b ON a.k = b.k AND b.t >= a.t": "has one bound only",
    "SELECT x, y FROM a JOIN b ON b.t < a.t": "has one bound only",
    "SELECT x, y FROM a JOIN b ON a.k = b.k AND b.t > a.t AND b.t < a.t": "no pair of rows",
    "SELECT x FROM a JOIN (SELECT DISTINCT k FROM b) AS c ON a.k = c.k": "almost none would match",
    "SELECT x FROM a WHERE k IN (SELECT DISTINCT k FROM b)": "almost none would match",
    "SELECT x, y FROM a JOIN b USING (k)": "almost none would match: bound the time",
    "SELECT k FROM a EXCEPT SELECT k FROM b": "compares rows that are valid at the same time",
    "SELECT k FROM a INTERSECT SELECT k FROM b": "compares rows that are valid at the same time",
}


@pytest.mark.parametrize("text", UNBOUNDED)
def test_points_without_a_time_bound_are_rejected(text: str) -> None:
    streams = {name: stream_of(rows) for name, rows in ROWS.items()}
    with pytest.raises(SqlError) as raised:
        sql(text, streams)
    assert UNBOUNDED[text] in str(raised.value)
    streams["b"] = streams["b"].for_ever()
    assert isinstance(sql(text, streams), Stream)


def test_windows_use_the_later_time_of_a_pair() -> None:
    streams = {name: stream_of(rows) for name, rows in ROWS.items()}
    pairs = f"SELECT a.t AS at, b.t AS bt FROM a JOIN b ON a.k = b.k AND {BETWEEN}"
    text = f"CREATE VIEW v AS {pairs}; SELECT COUNT(*) AS n FROM TABLE(TUMBLE(TABLE v, "
    counted = sql(f"{text}DESCRIPTOR(bt), INTERVAL '30' MINUTE)) GROUP BY window_start", streams)
    by_name = sql(f"{text}DESCRIPTOR(vs()), INTERVAL '30' MINUTE)) GROUP BY window_start", streams)
    assert counted == by_name
    with pytest.raises(SqlError, match="'at' is not the time of 'v': windows use vs"):
        sql(f"{text}DESCRIPTOR(at), INTERVAL '30' MINUTE)) GROUP BY window_start", streams)


@pytest.mark.parametrize(
    "condition",
    [
        "b.paid BETWEEN a.t AND a.t + INTERVAL '10' MINUTE",
        "a.paid <= b.paid AND b.paid < a.paid + INTERVAL '10' MINUTE",
        "a.paid = b.t",
    ],
)
def test_a_bound_on_a_column_that_is_not_the_event_time_is_named(condition: str) -> None:
    """A bound must be on event times, because only these show when no match is possible."""
    streams = {name: stream_of(rows) for name, rows in ROWS.items()}
    other = {
        n: s.with_columns(paid=lit(datetime(2026, 1, 1, tzinfo=UTC))) for n, s in streams.items()
    }
    with pytest.raises(SqlError, match="are not both the event times of their rows"):
        sql(f"SELECT x, y FROM a JOIN b ON a.k = b.k AND {condition}", other)
    with pytest.raises(SqlError, match="the rows of both sides are points in time, so almost none"):
        sql("SELECT x, y FROM a JOIN b ON a.k = b.k AND a.x < b.y", other)

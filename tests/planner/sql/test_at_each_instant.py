"""The rows valid at an instant equal DuckDB's result over the input rows valid then.

Not covered: windows, which DuckDB does not have, and empty tables.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from planner import SqlError, Stream, event, sql
from planner.physical.lower import lower
from rstream.items.batch import VE, VS
from tests.support.budget import one_in
from tests.support.ducks import duck
from tests.support.plan_runner import answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    from planner.sql.reading.errors import SqlError as Refusal

COLUMNS = {"a": ("k", "x", "y"), "b": ("k", "n", "z"), "c": ("k", "w")}
Rows = list[dict[str, int]]
RANKED = "SELECT k, x, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) AS n FROM a"
QUERIES = [
    # A subquery without rows may have a value other than null.
    "SELECT x FROM a WHERE x > (SELECT COALESCE(MAX(z), 0) FROM b WHERE b.k = a.k)",
    "SELECT x FROM a WHERE x > 2 * (SELECT MIN(z) FROM b WHERE b.k = a.k)",
    "SELECT x FROM a WHERE x % 4 = (SELECT COUNT(*) FROM b WHERE b.k = a.k)",
    "SELECT x FROM a WHERE (SELECT COUNT(*) FILTER (WHERE z > 9) FROM b WHERE b.k = a.k + 9) < 1",
    # Rows are compared as a set: each once, regardless of its number in either side.
    "SELECT k FROM a INTERSECT SELECT k FROM b",
    "SELECT k FROM a EXCEPT SELECT k FROM b WHERE z > 9",
    "SELECT k FROM a UNION SELECT k FROM b",
    # A condition in only some branches of an OR does not apply to all rows.
    "SELECT a.x, b.z FROM a, b WHERE (a.k = b.k AND x > 9) OR (a.k = b.k AND z > 9) OR x = z + 1",
    "SELECT x FROM a WHERE COALESCE((SELECT MAX(z) FROM b WHERE b.k = a.k), 0) < x",
    "SELECT x FROM a WHERE (SELECT MAX(z) FROM b WHERE b.k = a.k) > "
    "CASE WHEN (SELECT MAX(w) FROM c WHERE c.k = a.k) IS NULL THEN 0 ELSE 9 END",
    "SELECT x FROM a WHERE x BETWEEN (SELECT MIN(z) FROM b) "
    "AND (SELECT COALESCE(MAX(w), 99) FROM c WHERE c.k = a.k)",
    # A name in ORDER BY refers to the list; inside an expression it refers to the input.
    "SELECT x AS q, y AS x FROM a ORDER BY x LIMIT 2",
    "SELECT x AS q, y AS x FROM a ORDER BY a.x LIMIT 2",
    "SELECT x AS q, y AS x FROM a ORDER BY -x LIMIT 2",
    "SELECT -x AS x FROM a ORDER BY x LIMIT 2",
    "SELECT x FROM a WHERE x > (SELECT COALESCE(MAX(z), 0) FROM b WHERE z > 5 AND b.k = a.k)",
    "SELECT x FROM a WHERE EXISTS (SELECT * FROM b WHERE z > 5 AND b.k = a.k AND z > a.x)",
    "SELECT x FROM a WHERE x > 3 AND k IN (SELECT k FROM b WHERE z > 5)",
    "SELECT a.x, b.z FROM a, b WHERE z > 5 AND b.k = a.k AND x > 3",
    "SELECT x, k FROM a ORDER BY x, k LIMIT 2 OFFSET 0",
    "SELECT x, k FROM a ORDER BY x, k LIMIT 2 OFFSET 1",
    "SELECT a.k, z AS x, x AS z FROM a JOIN b ON a.k = b.k ORDER BY a.x * 100 + b.z LIMIT 2",
    "SELECT * FROM a ORDER BY a.y + 1 LIMIT 2",
    "SELECT k, SUM(x) AS x FROM a GROUP BY k ORDER BY SUM(x) DESC, k LIMIT 2",
    # Each use of a query has its own bound.
    f"SELECT k, x FROM ({RANKED}) WHERE n <= 2",
    f"SELECT r.x, z FROM ({RANKED}) r JOIN b ON r.k = b.k WHERE b.n <= 1 AND r.n < 3",
    f"WITH r AS ({RANKED}) SELECT p.x, q.x AS x2, q.n FROM r p JOIN r q ON p.k = q.k "
    "WHERE p.n <= 1 AND q.n <= 3",
    "SELECT x, RANK() OVER (PARTITION BY k ORDER BY y % 3 DESC) AS n FROM a QUALIFY n <= 2",
    # Row numbers without a bound cover all rows.
    f"SELECT r.x, z FROM ({RANKED}) r JOIN b ON r.k = b.k WHERE b.n <= 1",
    f"SELECT b.z FROM b SEMI JOIN ({RANKED}) r ON r.k = b.k WHERE n <= 1",
    f"WITH r AS ({RANKED}) SELECT q.n FROM r p JOIN r q ON p.k = q.k WHERE p.n <= 1",
    f"WITH r AS ({RANKED}) SELECT b.z FROM b SEMI JOIN r ON r.k = b.k WHERE n <= 1",
    f"WITH r AS ({RANKED}) SELECT p.x FROM r p SEMI JOIN r q ON p.k = q.k WHERE p.n <= 1",
    f"WITH r(n, x, m) AS ({RANKED}) SELECT m FROM r WHERE n <= 1",
    f"SELECT m FROM ({RANKED}) AS t(n, x, m) WHERE n <= 1",
]


def made(name: str, seed: int) -> Rows:
    rng = Random(seed)
    at, rows = 0, []
    for _ in range(12):
        at += rng.choice([0, 0, 1, 2])
        row = {VS: at, VE: at + rng.choice([2, 5, 9, 30]), "k": rng.choice([1, 2, 3])}
        rows.append(row)
    for column in COLUMNS[name][1:]:
        # Unique values, so that no order has ties.
        for row, value in zip(rows, rng.sample(range(20), len(rows)), strict=True):
            row[column] = value
    return rows


TABLES = {name: made(name, seed) for seed, name in enumerate(COLUMNS, 5)}
STREAMS = {
    name: Stream.from_items(
        dict.fromkeys(COLUMNS[name], "int64"),
        [event(r[VS], r[VE], **{c: r[c] for c in COLUMNS[name]}) for r in rows],
    )
    for name, rows in TABLES.items()
}


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duck() as found:
        yield found


def expected(text: str, at: int, connection: duckdb.DuckDBPyConnection) -> list[Any]:
    for name, rows in TABLES.items():
        alive = [r for r in rows if r[VS] <= at < r[VE]]
        columns = {c: pa.array([r[c] for r in alive], pa.int64()) for c in COLUMNS[name]}
        connection.register(name, pa.table(columns))
    return sorted(connection.execute(text).fetchall(), key=repr)


@pytest.mark.parametrize("text", one_in(2, QUERIES))
def test_results_at_each_instant(text: str, connection: duckdb.DuckDBPyConnection) -> None:
    stream = sql(text, STREAMS)
    assert isinstance(stream, Stream)
    plan = lower(stream.to_parquet(), root="memory://instants", parallelism=2)
    rows = answer(plan).to_pylist()
    starts = sorted({r[VS] for table in TABLES.values() for r in table})
    some = False
    for at in starts[3::3]:
        alive = [r for r in rows if r[VS] <= at < r[VE]]
        found = sorted((tuple(r[c] for c in stream.schema.names) for r in alive), key=repr)
        assert found == expected(text, at, connection)
        some = some or bool(found)
    assert some


def test_a_count_of_no_rows_is_0_in_any_form() -> None:
    text = "SELECT x, (SELECT {} FROM b WHERE b.k = a.k + 1) AS n FROM a"
    tables = []
    for counted in ("COUNT(CASE WHEN z > 9 THEN 1 END)", "COUNT(*) FILTER (WHERE z > 9)"):
        stream = sql(text.format(counted), STREAMS)
        assert isinstance(stream, Stream)
        tables.append(answer(lower(stream.to_parquet(), root="memory://counts", parallelism=2)))
    assert tables[0].equals(tables[1])
    assert tables[0]["n"].null_count == 0
    assert 0 in tables[0]["n"].to_pylist()
    distinct = sql(text.format("APPROX_COUNT_DISTINCT(z)"), STREAMS)
    assert isinstance(distinct, Stream)
    found = answer(lower(distinct.to_parquet(), root="memory://distinct", parallelism=2))
    assert found["n"].null_count == 0


def test_count_if_of_no_rows_is_0_like_a_filtered_count(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    for condition in ("z > 9", "z > 9 AND z < 0", "CAST(NULL AS BOOLEAN)"):
        counted = f"SELECT COUNT(*) FILTER (WHERE {condition}) FROM b WHERE z > 1e9"
        assert connection.execute(counted).fetchall() == [(0,)]
        text = f"SELECT x, (SELECT COUNT_IF({condition}) FROM b WHERE b.z > 1e9) AS n FROM a"
        stream = sql(text, STREAMS)
        assert isinstance(stream, Stream)
        found = answer(lower(stream.to_parquet(), root="memory://count_if", parallelism=2))
        assert set(found["n"].to_pylist()) == {0}


#: One of the rows called "null" is null, none of "some"; there is no row of "none".
WITH_NULLS = [(1, "null"), (None, "null"), (2, "some"), (3, None), (None, None)]
IN = "x IN (SELECT i.x FROM t i WHERE i.what = '{}')"
THREE_VALUED = [
    "{}",
    "NOT {}",
    "what = 'z' OR NOT ({})",
    "what = 'z' OR NOT {}",
    "NOT ({} AND what = 'some')",
    "NOT ({} OR x > 2)",
    "({}) IS NULL",
    "({}) = (x > 2)",
    "COALESCE({}, TRUE)",
    "CASE WHEN {} THEN FALSE ELSE TRUE END",
    "x = 2 OR {}",
    "NOT (NOT {})",
]


@pytest.mark.parametrize("what", ["null", "some", "none"])
@pytest.mark.parametrize("condition", one_in(3, THREE_VALUED))
def test_in_a_subquery_with_nulls(
    condition: str, what: str, connection: duckdb.DuckDBPyConnection
) -> None:
    """``x IN (SELECT y ...)`` is null if x is null, or if no y equals x and one is null."""
    columns = {"x": pa.int64(), "what": pa.string()}
    stream = Stream.from_items(columns, [event(0, 9, x=x, what=w) for x, w in WITH_NULLS])
    rows = [dict(zip(columns, row, strict=True)) for row in WITH_NULLS]
    connection.register("t", pa.Table.from_pylist(rows, pa.schema(columns.items())))
    text = f"SELECT x, what FROM t WHERE {condition.format(IN.format(what))}"
    found = sql(text, {"t": stream})
    assert isinstance(found, Stream)
    table = answer(lower(found.to_parquet(), root="memory://nulls", parallelism=2))
    given = [(row["x"], row["what"]) for row in table.to_pylist()]
    assert sorted(given, key=repr) == sorted(connection.execute(text).fetchall(), key=repr)


def test_fallible_conditions_are_evaluated_after_the_subquery_before_them() -> None:
    rows = [event(0, 9, k=1, s="7"), event(0, 9, k=2, s="word")]
    streams = {"t": Stream.from_items({"k": "int64", "s": "string"}, rows)}
    streams["one"] = Stream.from_items({"k": "int64"}, [event(0, 9, k=1)])
    matched = "EXISTS (SELECT 1 FROM one WHERE one.k = t.k)"
    found = sql(f"SELECT k FROM t WHERE {matched} AND CAST(s AS INT) > 1", streams)
    assert isinstance(found, Stream)
    table = answer(lower(found.to_parquet(), root="memory://behind", parallelism=1))
    assert table.column("k").to_pylist() == [1]


def test_fallible_conditions_of_a_join_are_evaluated_after_earlier_ones() -> None:
    words = [event(0, 9, k=k, what=what) for k, what in ((1, "number"), (2, "text"))]
    values = [event(0, 9, k=k, s=s) for k, s in ((1, "7"), (2, "word"))]
    streams = {
        "t": Stream.from_items({"k": "int64", "what": "string"}, words),
        "u": Stream.from_items({"k": "int64", "s": "string"}, values),
    }
    condition = "t.k = u.k AND t.what = 'number' AND CAST(u.s AS INT) > 1"
    found = sql(f"SELECT t.what, u.s FROM t LEFT JOIN u ON {condition}", streams)
    assert isinstance(found, Stream)
    table = answer(lower(found.to_parquet(), root="memory://on", parallelism=1))
    assert {row["what"]: row["s"] for row in table.to_pylist()} == {"number": "7", "text": None}


def test_versions_with_their_own_end_are_not_extended() -> None:
    points = [event(t, k=1) for t in (1, 4, 8)]
    spans = [event(0, 3, k=1, v=7), event(7, 20, k=1, v=9)]
    streams = {
        "p": Stream.from_items({"k": "int64"}, points),
        "s": Stream.from_items({"k": "int64", "v": "int64"}, spans),
    }
    found = sql("SELECT v FROM p LEFT JOIN s FOR SYSTEM_TIME AS OF vs() ON p.k = s.k", streams)
    assert isinstance(found, Stream)
    table = answer(lower(found.to_parquet(), root="memory://versions", parallelism=1))
    assert table.column("v").to_pylist() == [7, None, 9]


def refused(text: str) -> Refusal:
    with pytest.raises(SqlError) as raised:
        sql(text, STREAMS)
    return raised.value


def test_a_bound_around_limit_is_not_a_top_n() -> None:
    text = f"SELECT n FROM ({RANKED} ORDER BY x DESC LIMIT 3) WHERE n <= 1"
    assert "the row number needs a bound" in str(refused(text))


def test_a_comma_and_an_outer_join() -> None:
    """JOIN binds closer than a comma; the other way would keep other rows."""
    text = "SELECT a.x, b.z FROM a{} c RIGHT JOIN b ON b.k = c.k"
    assert "is evaluated before the comma: write CROSS JOIN" in str(refused(text.format(",")))
    sql(text.format(" CROSS JOIN"), STREAMS)


def test_a_row_number_may_be_named_like_a_column() -> None:
    """If a window function and a column have one name, engines differ in what QUALIFY reads."""
    over = "ROW_NUMBER() OVER (PARTITION BY k ORDER BY z)"
    found = refused(f"SELECT z, {over} AS n FROM b QUALIFY n <= 2")
    assert "'n' is also a column of the input; give the row number another" in str(found)
    sql(f"SELECT z, {over} AS n FROM b QUALIFY {over} <= 2 AND b.n > 1", STREAMS)


@pytest.mark.parametrize("kind", ["int64", "double", "string", "bool"])
def test_a_null_in_an_exists_condition_is_not_confused_with_its_neighbour(
    kind: str,
) -> None:
    values: dict[str, Any] = {"int64": 0, "double": 0.0, "string": "", "bool": False}
    rows = [event(0, 9, k=1, v=v) for v in (None, values[kind])]
    streams = {
        "a": Stream.from_items({"k": "int64", "v": kind}, rows),
        "b": Stream.from_items({"k": "int64", "w": kind}, [event(0, 9, k=1, w=values[kind])]),
    }
    test = "EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.w <= a.v)"
    found = sql(f"SELECT * FROM a WHERE {test}", streams)
    assert isinstance(found, Stream)
    assert answer(lower(found.to_parquet(), root="memory://nulls"))["v"].to_pylist() == [
        values[kind]
    ]


#: Time, end, key and number.
STARTS = [(1, 4, 1, 5), (1, 9, 1, 3), (1, 9, 2, 7), (3, 9, 1, 1), (5, 9, 2, 2)]
FIRSTS = {
    ("ROW_NUMBER", "vs()"): {"points": [(1, 5), (1, 7)], "lives": [(1, 5), (1, 7), (4, 3)]},
    ("ROW_NUMBER", "vs(), x"): {"points": [(1, 3), (1, 7)], "lives": [(1, 3), (1, 7)]},
    ("RANK", "vs()"): {
        "points": [(1, 3), (1, 5), (1, 7)],
        "lives": [(1, 3), (1, 5), (1, 7)],
    },
}


@pytest.mark.parametrize("kind", ["points", "lives"])
@pytest.mark.parametrize("asked", FIRSTS, ids=" ".join)
def test_the_first_rows_by_time(asked: tuple[str, str], kind: str) -> None:
    """No earlier point can follow; for rows with lifetimes, the next one is first when one ends."""
    function, order = asked
    rows = [event(a, a + 1 if kind == "points" else b, k=k, x=x) for a, b, k, x in STARTS]
    stream = Stream.from_items({"k": "int64", "x": "int64"}, rows)
    over = f"{function}() OVER (PARTITION BY k ORDER BY {order})"
    found = sql(f"SELECT k, x FROM t QUALIFY {over} = 1", {"t": stream})
    assert isinstance(found, Stream)
    table = answer(lower(found.to_parquet(), root="memory://first", parallelism=2))
    assert sorted((r[VS], r["x"]) for r in table.to_pylist()) == FIRSTS[asked][kind]

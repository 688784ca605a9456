"""SQL against the fluent interface: the same plan, or the same result.

Not covered: a mistake in both; the operators have their own tests.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

from planner import (
    Expr,
    Query,
    SqlError,
    Stream,
    agg,
    coalesce,
    col,
    count_window,
    cti,
    event,
    hopping,
    lit,
    session,
    snapshot,
    sql,
    tumbling,
    ve,
    vs,
    when,
)
from planner.logical.nodes import Join
from planner.logical.traversal import topological
from planner.physical.lower import lower
from tests.support.plan_runner import answer, sorted_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEMA = {"k": "string", "x": "int64", "f": "float64", "ok": "bool", "t": "timestamp"}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
S = Stream.from_items(
    SCHEMA,
    [
        event(5, k="a", x=1, f=1.5, ok=True, t=NOON),
        event(7, k="b", x=2, f=-0.5, ok=False),
        event(9, k="a", x=5, t=NOON + timedelta(hours=1)),
        event("2s", k=None, x=7, f=2.0),
        cti("9s"),
    ],
)
T = Stream.from_items(
    {"k": "string", "x": "int64", "y": "int64"},
    [event(0, "1s", k="a", x=1, y=10), event(6, "5s", k="b", x=9, y=20), cti("9s")],
)
U = Stream.from_items({"k": "string", "k2": "string", "z": "int64"}, [event(0, "9s", k="a", z=3)])
STREAMS = {"s": S, "t": T, "u": U}
FIVE = tumbling("5s")


def compiled(text: str) -> Any:
    return sql(text, STREAMS)


#: The value of ``SELECT <text> AS v FROM s`` in the fluent interface.
EXPRESSIONS: dict[str, Any] = {
    "x": col("x"),
    "s.x": col("x"),
    '"x"': col("x"),
    "x + 1 - 2 * x": col("x") + 1 - lit(2) * col("x"),
    "(x + 1) * 2": (col("x") + 1) * 2,
    "x / 2": col("x") / 2,
    "x DIV 2": col("x") // 2,
    "x % 2": col("x") % 2,
    "-x": -col("x"),
    "-1.5": lit(-1.5),
    "1e3": lit(1000.0),
    "'it''s'": lit("it's"),
    "true": lit(True),
    "x = 1": col("x") == 1,
    "x <> 1 OR x != 2": (col("x") != 1) | (col("x") != 2),
    "x < 1 AND x <= 2 AND NOT ok": (col("x") < 1) & (col("x") <= 2) & ~col("ok"),
    "x > 1 OR x >= 2": (col("x") > 1) | (col("x") >= 2),
    "x IS NULL": col("x").is_null(),
    "x IS NOT NULL": col("x").is_not_null(),
    "ok IS TRUE": (col("ok") == True).fill_null(False),  # noqa: E712
    "x IN (1, -2)": col("x").is_in([1, -2]),
    "k NOT IN ('a', 'b')": ~col("k").is_in(["a", "b"]),
    "x BETWEEN 1 AND 3": col("x").between(1, 3),
    "k LIKE 'a%'": col("k").str.starts_with("a"),
    "k LIKE '%a'": col("k").str.ends_with("a"),
    "k LIKE '%a%'": col("k").str.contains("a"),
    "k LIKE 'abc'": col("k") == "abc",
    "k LIKE 'a_.%c'": col("k").str.contains(r"(?s)\Aa.\..*c\z", regex=True),
    r"k LIKE '100\%'": col("k") == "100%",
    "k LIKE '!%a!_%' ESCAPE '!'": col("k").str.starts_with("%a_"),
    "k NOT LIKE '\\%' ESCAPE ''": ~col("k").str.starts_with("\\"),
    "x BETWEEN SYMMETRIC 3 AND 1": col("x").between(3, 1) | col("x").between(1, 3),
    "x IN (1, x + 1)": col("x").is_in([1]) | (col("x") == col("x") + 1),
    "t IN (DATE '2026-01-01', NULL)": col("t").is_in([date(2026, 1, 1)]) | (col("t") == lit(None)),
    "k || NULL": col("k") + lit(None).cast(str),
    "CONCAT(k, NULL, 'b')": col("k") + lit(None).cast(str) + "b",
    "CAST(t AS TIMESTAMP(6))": col("t").cast("timestamp"),
    "TRY_CAST(k AS BIGINT)": col("k").try_cast("int64"),
    "x NOT BETWEEN 1 AND 3": ~col("x").between(1, 3),
    "k NOT LIKE 'a%'": ~col("k").str.starts_with("a"),
    "CASE WHEN x > 1 THEN 'p' WHEN ok THEN 'q' ELSE k END": when(col("x") > 1)
    .then("p")
    .when(col("ok"))
    .then("q")
    .otherwise(col("k")),
    "CASE x WHEN 1 THEN 2 END": when(col("x") == 1).then(2).otherwise(None),
    "IF(ok, x, 0)": when(col("ok")).then(col("x")).otherwise(0),
    "NULLIF(x, 1)": when(col("x") == 1).then(None).otherwise(col("x")),
    "COALESCE(x, 0)": coalesce(col("x"), 0),
    "COALESCE(x, f, 0)": coalesce(col("x"), col("f"), 0),
    "CAST(x AS DOUBLE)": col("x").cast("float64"),
    "x::VARCHAR": col("x").cast("string"),
    "CAST(f AS INT)": col("f").cast("int32"),
    "CAST(x AS DECIMAL(10, 2))": col("x").cast(pa.decimal128(10, 2)),
    "CAST(k AS TIMESTAMP)": col("k").cast("timestamp"),
    "TIMESTAMP '2026-01-01 12:00:00'": lit(NOON),
    "DATE '2026-01-01'": lit(date(2026, 1, 1)),
    "t + INTERVAL '5' SECOND": col("t") + timedelta(seconds=5),
    "t - INTERVAL '3' MILLISECOND": col("t") - timedelta(milliseconds=3),
    "t + INTERVAL '7' MICROSECOND": col("t") + timedelta(microseconds=7),
    "t - INTERVAL '1 hour 30 minutes'": col("t") - timedelta(hours=1, minutes=30),
    "t + x * INTERVAL '2' DAY": col("t") + col("x") * timedelta(days=2),
    "t > '2026-01-01T00:00:00Z'": col("t") > "2026-01-01T00:00:00Z",
    "EXTRACT(HOUR FROM t)": col("t").dt.hour(),
    "year(t) + day(t)": col("t").dt.year() + col("t").dt.day(),
    "DATE_TRUNC('hour', t)": col("t").dt.truncate("1h"),
    "weekday(t)": col("t").dt.weekday(),
    "epoch_us(t)": col("t").dt.epoch_us(),
    "vs()": vs(),
    "ve() - vs()": ve() - vs(),
    "_ve - _vs": col("_ve") - col("_vs"),
    "ABS(x)": col("x").abs(),
    "ROUND(f, 1)": col("f").round(1),
    "FLOOR(f) + CEIL(f)": col("f").floor() + col("f").ceil(),
    "SQRT(x)": col("x").sqrt(),
    "upper(k) || 'x'": col("k").str.upper() + "x",
    "CONCAT(k, '-', k)": col("k") + "-" + col("k"),
    "LOWER(k)": col("k").str.lower(),
    "LENGTH(k)": col("k").str.length(),
    "TRIM(k)": col("k").str.strip(),
    "SUBSTRING(k, 2, 3)": col("k").str.slice(1, 4),
    "SUBSTRING(k FROM 2)": col("k").str.slice(1),
    "SUBSTRING(k, -3)": col("k").str.slice(-3),
    "SUBSTRING(k, -3, 2)": col("k").str.slice(-3, -1),
    "SUBSTRING(k, -3, 3)": col("k").str.slice(-3),
    "SUBSTRING(k, -3, 4)": col("k").str.slice(-3),
    "SUBSTRING(k, 1, 0)": col("k").str.slice(0, 0),
    "REPLACE(k, 'a', 'b')": col("k").str.replace("a", "b"),
    "STARTS_WITH(k, 'a')": col("k").str.starts_with("a"),
    "REGEXP_LIKE(k, '^a+$')": col("k").str.contains("^a+$", regex=True),
    "SPLIT(k, ',')": col("k").str.split(","),
}


UNITS = {
    "MICROSECOND": timedelta(microseconds=1),
    "MILLISECOND": timedelta(milliseconds=1),
    "SECOND": timedelta(seconds=1),
    "MINUTE": timedelta(minutes=1),
    "HOUR": timedelta(hours=1),
    "DAY": timedelta(days=1),
    "WEEK": timedelta(weeks=1),
}


@pytest.mark.parametrize("unit", UNITS)
def test_units_of_fixed_length(unit: str) -> None:
    found = sql(f"SELECT TIMESTAMPADD({unit}, x, t) AS v FROM s", {"s": S})
    assert found == S.select(v=col("t") + col("x") * lit(UNITS[unit]))


def test_a_field_of_a_struct_is_read_in_every_spelling() -> None:
    r = Stream.from_items({"r": pa.struct([("a", "int64"), ("b", "string")])}, [])
    for text in ("r.b", "(r).b", "t.r.b"):
        assert sql(f"SELECT {text} AS v FROM t", {"t": r}) == r.select(v=col("r").field("b"))
    for text in ("r.z", "(r).z", "t.r.z"):
        with pytest.raises(SqlError, match="no field 'z'; the fields are: a, b"):
            sql(f"SELECT {text} AS v FROM t", {"t": r})


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression_compiles_to_its_python_form(text: str) -> None:
    assert compiled(f"SELECT {text} AS v FROM s") == S.select(v=EXPRESSIONS[text])


def grouped(every: str = "5s") -> Any:
    return S.group_by("k").window(hopping("5s", every))


PLANS: dict[str, Callable[[], Stream]] = {
    "SELECT * FROM s": lambda: S,
    "SELECT s.* FROM s;": lambda: S,
    "SELECT k, x AS y FROM s": lambda: S.select("k", y=col("x")),
    "SELECT *, x + 1 AS y FROM s": lambda: S.select(*SCHEMA, y=col("x") + 1),
    "SELECT * EXCLUDE (f, ok, t) FROM s": lambda: S.select("k", "x"),
    "SELECT CAST(x AS DOUBLE) FROM s": lambda: S.select(x=col("x").cast("float64")),
    "SELECT * FROM s WHERE x > 1 AND ok": lambda: S.filter((col("x") > 1) & col("ok")),
    "SELECT k FROM (SELECT k, x FROM s) AS q WHERE q.x = 1": lambda: (
        S.select("k", "x").filter(col("x") == 1).select("k")
    ),
    "WITH a AS (SELECT k FROM s), b AS (SELECT * FROM a) SELECT k AS v FROM b": lambda: S.select(
        "k"
    ).select(v=col("k")),
    "WITH a AS (SELECT k FROM s) SELECT k FROM a UNION ALL SELECT k FROM t": lambda: (
        S.select("k").select("k").union(T.select("k"))
    ),
    "SELECT * FROM s JOIN t ON (s.k = t.k)": lambda: S.join(T, on="k"),
    "SELECT k FROM s UNION ALL SELECT k FROM t UNION ALL (SELECT k FROM u)": lambda: S.select(
        "k"
    ).union(T.select("k"), U.select("k")),
    "SELECT k, x FROM s UNION ALL SELECT k2, z FROM u": lambda: S.select("k", "x").union(
        U.select("k2", "z").select(k=col("k2"), x=col("z"))
    ),
    "SELECT * FROM s JOIN t ON s.k = t.k": lambda: S.join(T, on="k"),
    "SELECT * FROM s JOIN t USING (k)": lambda: S.join(T, on="k"),
    "SELECT * FROM s INNER JOIN t ON t.x = s.x AND s.k = t.k": lambda: S.join(T, on=["x", "k"]),
    "SELECT s.x, t.x AS tx, y FROM s JOIN t ON s.k = t.k AND s.x >= t.x": lambda: (
        S.join(T, on="k")
        .filter(col("x") >= col("x_right"))
        .select("x", col("x_right").alias("tx"), "y")
    ),
    "SELECT * FROM s JOIN u ON s.k = u.k2": lambda: S.join(U, left_on="k", right_on="k2"),
    "SELECT a.x, b.x AS y FROM t AS a JOIN t AS b ON a.k = b.k": lambda: T.join(T, on="k").select(
        "x", y=col("x_right")
    ),
    "SELECT s.x FROM s JOIN t ON upper(s.k) = t.k": lambda: (
        S.with_columns(join_key=col("k").str.upper())
        .join(T, left_on="join_key", right_on="k")
        .select("x")
    ),
    "SELECT k, count(*) AS n, sum(x) AS total FROM s GROUP BY k, TUMBLE('5 seconds')": (
        lambda: grouped().agg(n=agg.count(), total=agg.sum("x"))
    ),
    "SELECT k, avg(f) AS m FROM s GROUP BY HOP(INTERVAL '5' SECOND, '1s'), k": lambda: grouped(
        "1s"
    ).agg(m=agg.mean("f")),
    "SELECT min(x) AS a, max(x + 1) AS b FROM s GROUP BY TUMBLE('5s')": lambda: S.window(FIVE).agg(
        a=agg.min("x"), b=agg.max(col("x") + 1)
    ),
    "SELECT k, first(x) AS a, last(x) AS b, count(x) FROM s GROUP BY k, TUMBLE('5s')": (
        lambda: grouped().agg(a=agg.first("x"), b=agg.last("x"), count=agg.count("x"))
    ),
    "SELECT upper(k) AS u, count(*) AS n FROM s GROUP BY upper(k), TUMBLE('5s')": (
        lambda: S.group_by(u=col("k").str.upper()).window(FIVE).agg(n=agg.count())
    ),
    "SELECT upper(k) AS u, count(*) AS n FROM s GROUP BY u, TUMBLE('5s')": (
        lambda: S.group_by(u=col("k").str.upper()).window(FIVE).agg(n=agg.count())
    ),
    "SELECT k, count(*) AS n FROM s GROUP BY 1, TUMBLE('5s')": lambda: grouped().agg(n=agg.count()),
    "SELECT k, count(*) AS n FROM s GROUP BY k, TUMBLE('5s') HAVING n > 1": lambda: (
        grouped().agg(n=agg.count()).filter(col("n") > 1)
    ),
    "SELECT k, count(*) > 1 AS many FROM s GROUP BY k, TUMBLE('5s') HAVING many": lambda: (
        grouped()
        .agg(aggregate=agg.count())
        .filter(col("aggregate") > 1)
        .select("k", many=col("aggregate") > 1)
    ),
    # A column of the stream takes precedence over an alias; each name is resolved separately.
    "SELECT k, max(x) AS x, count(*) AS n FROM s GROUP BY k, TUMBLE('5s') "
    "HAVING k > 'a' AND n > 1 AND min(x) < n": lambda: (
        grouped()
        .agg(x=agg.max("x"), n=agg.count(), aggregate=agg.min("x"))
        .filter((col("k") > "a") & (col("n") > 1) & (col("aggregate") < col("n")))
        .select("k", "x", "n")
    ),
    "SELECT k FROM s GROUP BY k, TUMBLE('5s') HAVING sum(x) > 1": lambda: (
        grouped().agg(aggregate=agg.sum("x")).filter(col("aggregate") > 1).select("k")
    ),
    "SELECT max(x) - min(x) AS d, k FROM s GROUP BY k, TUMBLE('5s')": lambda: (
        grouped()
        .agg(aggregate=agg.max("x"), aggregate_=agg.min("x"))
        .select((col("aggregate") - col("aggregate_")).alias("d"), "k")
    ),
    "SELECT window_start, window_end, k, count(*) AS n FROM s GROUP BY k, TUMBLE('5s')": (
        lambda: (
            grouped()
            .agg(n=agg.count())
            .select(vs().alias("window_start"), ve().alias("window_end"), "k", "n")
        )
    ),
    "SELECT count(*) FILTER (WHERE ok) AS n FROM s GROUP BY TUMBLE('5s')": lambda: S.window(
        FIVE
    ).agg(n=agg.count(when(col("ok")).then(1).otherwise(None))),
    "SELECT k, count(*) AS n FROM s GROUP BY k, HOP('5s', '2s', '1s')": lambda: (
        S.group_by("k").window(hopping("5s", "2s", "1s")).agg(n=agg.count())
    ),
    "SELECT k FROM s GROUP BY k, TUMBLE('5s')": lambda: (
        grouped().agg(count=agg.count()).select("k")
    ),
    "SELECT s.x, t.k AS tk, y FROM s LEFT JOIN t ON s.k = t.k AND t.x > 1": lambda: S.join(
        T.filter(col("x") > 1), left_on="k", right_on="k", how="left"
    ).select("x", col("k_right").alias("tk"), "y"),
    "SELECT * FROM s LEFT JOIN t USING (k)": lambda: S.join(T, on="k", how="left"),
    "SELECT * FROM s ANTI JOIN t ON s.k = t.k": lambda: S.join(T, on="k", how="anti"),
    "SELECT * FROM s WHERE ok AND NOT EXISTS (SELECT 1 FROM t WHERE t.k = s.k AND y > 1)": (
        lambda: S.filter(col("ok")).join(
            T.filter(col("y") > 1).select(match_key=col("k")),
            left_on="k",
            right_on="match_key",
            how="anti",
        )
    ),
    "SELECT s.x, t.y FROM s LEFT JOIN t ON s.k = t.k AND s.x > t.x AND y > 1 AND ok": lambda: (
        S.join(
            T.filter(col("y") > 1),
            left_on="k",
            right_on="k",
            how="left",
            where=(col("x") > col("x_right")) & col("ok"),
        ).select("x", "y")
    ),
    "SELECT * FROM s ANTI JOIN t ON s.k = t.k AND s.x > t.x": lambda: S.join(
        T, on="k", how="anti", where=col("x") > col("x_right")
    ),
    "SELECT * FROM s WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.k = s.k AND x > s.x)": (
        lambda: S.join(
            T.select(match_key=col("k"), k_=col("k"), x_=col("x"), y_=col("y")),
            left_on="k",
            right_on="match_key",
            how="anti",
            where=col("x_") > col("x"),
        )
    ),
    "SELECT k FROM s WHERE EXISTS (SELECT * FROM t WHERE k = s.k)": lambda: (
        S.join(
            T.select(match_key=col("k")).stitch(on="match_key"), left_on="k", right_on="match_key"
        )
        .select(*SCHEMA)
        .select("k")
    ),
    "SELECT k, count(DISTINCT x) AS n FROM s GROUP BY k, SNAPSHOT()": lambda: (
        S.group_by("k").window(snapshot()).agg(n=agg.count_distinct("x"))
    ),
    "SELECT k, top_k(x, 2) AS n, product(x) AS p FROM s GROUP BY k, SESSION('5s')": (
        lambda: S.group_by("k").window(session("5s")).agg(n=agg.top_k("x", 2), p=agg.product("x"))
    ),
    "SELECT k, median(x) AS n FROM s GROUP BY k, SESSION('5s', '1 hour')": lambda: (
        S.group_by("k").window(session("5s", "1h")).agg(n=agg.quantile("x", 0.5))
    ),
    "SELECT k, count(*) AS n FROM s GROUP BY k, SESSION(x * 1000, '1 hour')": lambda: (
        S.group_by("k").window(session(col("x") * 1000, "1h")).agg(n=agg.count())
    ),
    "SELECT var_pop(x) AS v, stddev(x) AS s, quantile(x, 0.9) AS q FROM s "
    "GROUP BY COUNT_WINDOW(2)": lambda: S.window(count_window(2)).agg(
        v=agg.variance("x", ddof=0), s=agg.stddev("x"), q=agg.quantile("x", 0.9)
    ),
    "CREATE STREAM a AS SELECT k FROM s; SELECT * FROM a": lambda: S.select("k"),
}


@pytest.mark.parametrize("text", PLANS)
def test_a_query_compiles_to_the_plan_of_its_python_form(text: str) -> None:
    assert compiled(text) == PLANS[text]()


def test_clashing_names_of_three_relations() -> None:
    stream = compiled(
        "SELECT a.x AS ax, b.x AS bx, c.x AS cx, c.y FROM t AS a "
        "JOIN t AS b ON a.k = b.k JOIN t AS c ON b.k = c.k WHERE c.y = 10"
    )
    (row,) = rows(stream.to_parquet())
    assert [row[name] for name in ("ax", "bx", "cx", "y")] == [1, 1, 1, 10]


def test_aliases_do_not_hide_columns_from_aggregates() -> None:
    stream = compiled("SELECT upper(k) AS k, max(k) AS m FROM s GROUP BY upper(k), TUMBLE('1s')")
    found = {(row["k"], row["m"]) for row in rows(stream.to_parquet())}
    assert found == {("A", "a"), ("B", "b"), (None, None)}


def test_a_name_in_group_by_is_first_looked_up_as_a_column() -> None:
    """As in Spark, DuckDB and PostgreSQL: x is the stream's column, not the alias x of the list."""
    stream = compiled("SELECT x % 2 AS x, count(*) AS n FROM s GROUP BY x, TUMBLE('1m')")
    found = sorted((row["x"], row["n"]) for row in rows(stream.to_parquet()))
    assert found == [(0, 1), (1, 1), (1, 1), (1, 1)]


def test_a_python_function_is_inlined_in_sql() -> None:
    def double(x: Expr) -> Expr:
        return x * 2

    stream = sql("SELECT Double(x + 1) AS v FROM s", STREAMS, functions={"double": double})
    assert stream == S.select(v=(col("x") + 1) * 2)


class Spread:
    """A user's aggregate: maximum minus minimum."""

    type = pa.int64()

    def init(self) -> list[int]:
        return []

    def add(self, state: list[int], values: pa.Array) -> list[int]:
        return [*state, *(v for v in values.to_pylist() if v is not None)]

    def result(self, state: list[int]) -> int:
        return max(state) - min(state)


def test_a_user_aggregate_is_called_in_sql() -> None:
    text = "SELECT k, Spread(x) AS v FROM s GROUP BY k, TUMBLE('5s') HAVING spread(x) > 0"
    stream = sql(text, STREAMS, aggregates={"spread": Spread()})
    assert isinstance(stream, Stream)
    (row,) = rows(stream.to_parquet())
    assert (row["k"], row["v"]) == ("a", 4)


def test_exists_is_true_while_there_is_a_match() -> None:
    left = Stream.from_items({"k": "string"}, [event(100, 110, k="a"), event(100, 110, k="b")])
    right = Stream.from_items(
        {"k": "string"}, [event(101, 103, k="a"), event(106, 108, k="a"), event(106, 109, k="a")]
    )
    text = "SELECT k FROM l WHERE {} (SELECT 1 FROM r WHERE r.k = l.k)"
    found = {}
    for test in ("EXISTS", "NOT EXISTS"):
        stream = sql(text.format(test), {"l": left, "r": right})
        assert isinstance(stream, Stream)
        found[test] = [(r["k"], r["_vs"], r["_ve"]) for r in rows(stream.to_parquet())]
    assert found["EXISTS"] == [("a", 101, 103), ("a", 106, 109)]
    assert found["NOT EXISTS"] == [
        ("a", 100, 101),
        ("b", 100, 110),
        ("a", 103, 106),
        ("a", 109, 110),
    ]


@pytest.mark.parametrize("condition", ["{} OR x > 3", "x > 3 AND ({} OR x < 9)", "({}) OR (ok)"])
def test_an_in_subquery_beside_other_conditions_is_read_as_often_as_exists(condition: str) -> None:
    """An IN between ANDs becomes an EXISTS, because null counts as false there."""
    joins = []
    for test in ("k IN (SELECT k FROM t)", "EXISTS (SELECT 1 FROM t WHERE t.k = s.k)"):
        stream = sql(f"SELECT x FROM s WHERE {condition.format(test)}", STREAMS)
        assert isinstance(stream, Stream)
        joins.append(sum(isinstance(node, Join) for node in topological(stream.plan)))
    assert joins[0] == joins[1]


def test_exists_with_conditions_on_both_sides() -> None:
    """EXISTS with conditions on both sides is right at every instant, for any nulls."""
    values = [None, -1, 0, 2, 2]
    left = Stream.from_items(
        {"k": "int64", "x": "int64", "w": "string", "f": "bool", "t": "timestamp"},
        [
            event(i, i + 3 + i % 7, k=None if i == 4 else i % 2, x=values[i % 5],
                  w=[None, "", "a"][i % 3], f=[None, True, False][i // 4 % 3], t=i % 4 * 1000)
            for i in [*range(12), 3, 3, 8]
        ],
    )  # fmt: skip
    right = Stream.from_items(
        {"k": "int64", "x": "int64", "u": "string"},
        [event(i, i + 1 + i % 4, k=i % 2, x=values[i % 5], u="ab"[i % 2]) for i in range(0, 20, 3)],
    )
    conditions: dict[str, Callable[[Any, Any], bool | None]] = {
        "r.x > l.x": lambda a, b: None not in (a["x"], b["x"]) and b["x"] > a["x"],
        "(l.x IS NULL OR w = 'a')": lambda a, b: a["x"] is None or a["w"] == "a",
        "u >= w AND f IS NOT NULL": lambda a, b: (
            a["w"] is not None and b["u"] >= a["w"] and a["f"] is not None
        ),
        "l.k + l.x = x": lambda a, b: None not in (a["x"], b["x"]) and a["k"] + a["x"] == b["x"],
        "l.t > TIMESTAMP '1970-01-01 00:00:00'": lambda a, b: a["t"].microsecond > 0,
    }  # fmt: skip
    lefts, rights = rows(left.to_parquet()), rows(right.to_parquet())
    for text, holds in conditions.items():
        query = f"SELECT * FROM l WHERE EXISTS (SELECT * FROM r WHERE r.k = l.k AND {text})"
        stream = sql(query, {"l": left, "r": right})
        assert isinstance(stream, Stream)
        found = rows(stream.to_parquet())
        for time in range(-1, 30):
            alive = [r for r in rights if r["_vs"] <= time < r["_ve"]]
            expected = [
                payload(a) for a in lefts
                if a["_vs"] <= time < a["_ve"]
                and any(a["k"] == b["k"] and holds(a, b) for b in alive)
            ]  # fmt: skip
            got = [payload(r) for r in found if r["_vs"] <= time < r["_ve"]]
            assert sorted(got) == sorted(expected), (text, time)


def payload(row: dict[str, Any]) -> str:
    return repr({name: value for name, value in row.items() if name not in ("_vs", "_ve")})


def test_the_right_key_is_null_if_a_left_join_found_no_match() -> None:
    stream = compiled("SELECT s.k FROM s LEFT JOIN t ON s.k = t.k WHERE t.k IS NULL")
    assert [row["k"] for row in rows(stream.to_parquet())] == [None]


def test_insert_into_a_target() -> None:
    text = "CREATE STREAM out WITH (path = '/tmp/o', cti_every = '2 s'); INSERT INTO out {}"
    assert compiled(text.format("SELECT k FROM s")) == S.select("k").to_parquet(
        "/tmp/o", cti_every="2s"
    )
    rstream = text.replace("'2 s'", "'2 s', format = 'rstream'")
    assert compiled(rstream.format("SELECT * FROM s")) == S.to_rstream("/tmp/o", cti_every="2s")
    within = "WITH q AS (SELECT x FROM s) SELECT * FROM q"
    assert isinstance(compiled(text.format(within)), Query)


@pytest.fixture
def bids(tmp_path: Path) -> Path:
    table = {"time": ["2026-01-01T00:00:01", "2026-01-01T00:00:02"], "price": [1, 2], "s": [3, 4]}
    pacsv.write_csv(pa.table(table), tmp_path / "bids.csv")
    return tmp_path


def test_declared_sources_compile_to_streams_with_their_options(bids: Path) -> None:
    path = str(bids / "bids.csv")
    text = (
        "CREATE STREAM b (price DOUBLE) WITH (path = '${data}/bids.csv', vs = time, "
        "ve = time + s * INTERVAL '1 second', delay = '5 seconds', late = adjust, partitions = 1, "
        "delimiter = ','); SELECT * FROM b"
    )
    with_text = text.replace("(price DOUBLE)", "(price DOUBLE, time TIMESTAMP)")
    expected = Stream.from_csv(
        path,
        vs="time",
        ve=col("time") + col("s") * timedelta(seconds=1),
        delay="5s",
        late="adjust",
        partitions=1,
        schema={"price": "float64", "time": "timestamp"},
    )
    assert sql(with_text, variables={"data": str(bids)}) == expected


@pytest.mark.parametrize(
    ("options", "more"),
    [
        ("vs = 'time', ve = '+1h'", {"ve": "1h"}),
        ("vs = time, ve = INTERVAL '1' HOUR", {"ve": "1h"}),
        ("vs = time, format = 'csv', null_values = '-'", {"null_values": ("-",)}),
        (
            "vs = time, delay = INTERVAL '2' SECOND, late = 'error'",
            {"delay": "2s", "late": "error"},
        ),
    ],
)
def test_options_of_a_source_are_passed_to_its_stream(
    bids: Path, options: str, more: dict[str, Any]
) -> None:
    path = str(bids / "bids.csv")
    if "ve" in more:
        more = {"ve": timedelta(hours=1)}
    found = sql(f"CREATE STREAM b WITH (path = '{path}', {options}); SELECT * FROM b")
    assert found == Stream.from_csv(path, vs="time", **more)


def test_a_text_file_is_read_by_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one two\nthree\n")
    text = f"CREATE STREAM l WITH (path = '{tmp_path}/a.txt'); SELECT upper(line) AS v FROM l"
    assert [row["v"] for row in rows(sql(text).to_parquet())] == ["ONE TWO", "THREE"]  # type: ignore[union-attr]


def test_a_source_is_read_once_by_all_its_readers(bids: Path) -> None:
    text = (
        f"CREATE STREAM b WITH (path = '{bids}/bids.csv', vs = time);"
        "SELECT price FROM b UNION ALL SELECT s FROM b"
    )
    plan = lower(sql(text).to_parquet(), root="memory://job")  # type: ignore[union-attr]
    assert sum(vertex.source is not None for vertex in plan.vertices) == 1


def test_unused_streams_are_not_read() -> None:
    text = "CREATE STREAM b WITH (path = '/nowhere.csv', vs = time); SELECT k FROM s"
    assert compiled(text) == S.select("k")


def rows(query: Query) -> list[dict[str, object]]:
    return sorted_rows(answer(lower(query, root="memory://job")))


def test_as_of_joins_equal_those_of_python() -> None:
    near = "s ASOF LEFT JOIN u ON s.k = u.k AND s.at >= u.at AND u.at >= s.at - INTERVAL '3' SECOND"
    streams = {"s": S.with_columns(at=vs()), "u": U.with_columns(at=vs())}
    found = sql(f"SELECT s.k, u.z, u.at AS then FROM {near}", streams)
    left, right = streams["s"], streams["u"].rename({"k": "k_right", "at": "at_right"})
    joined = left.join_asof(right, left_by="k", right_by="k_right", tolerance="3s")
    assert found == joined.select("k", "z", then=col("at_right"))
    ahead = "s ASOF JOIN u ON u.at >= s.at AND s.at + INTERVAL '1' SECOND >= u.at"
    found = sql(f"SELECT s.x, u.z FROM {ahead}", streams)
    right = streams["u"].rename({"k": "k_right", "at": "at_right"})
    expected = left.join_asof(right, strategy="forward", tolerance="1s", how="inner")
    assert found == expected.select("x", "z")
    form, on = "write ASOF JOIN b ON a.k = b.k AND a.ts >= b.ts", "s ASOF JOIN u ON s.k = u.k"
    for text, message in (
        (f"{on} AND s.at <= u.at", "needs AND b.ts <= a.ts + INTERVAL '5' SECOND"),
        (f"{on} AND s.at > u.at", "a row at the same time matches"),
        (f"{on} AND s.x >= u.z", form),
        (f"{on} AND s.at >= u.at AND u.z > 3", form),
        (f"{on} AND s.at >= u.at AND s.x = 3", form),
        (f"{on} AND s.at >= u.at AND u.at >= s.at + INTERVAL '1' SECOND", form),
        (f"{on} AND s.at >= u.at AND s.at >= u.at", form),
        (on, form),
        ("s ASOF JOIN u USING (k)", form),
        ("s ASOF RIGHT JOIN u ON s.at >= u.at", "use ASOF JOIN or ASOF LEFT JOIN"),
    ):
        with pytest.raises(SqlError, match=re.escape(message)):
            sql(f"SELECT s.x FROM {text}", streams)


def test_equalities_in_where_are_join_keys() -> None:
    """Equalities of both sides in WHERE are keys of a join; other conditions filter the pairs."""
    joined = compiled("SELECT s.x, y FROM s JOIN t ON s.k = t.k")
    for condition in ("s.k = t.k", "t.k = s.k"):
        assert compiled(f"SELECT s.x, y FROM s, t WHERE {condition}") == joined
    more = "s.x > t.x AND s.x = 3 AND y = 4 AND ok"
    after = compiled(f"SELECT s.x, y FROM s JOIN t ON s.k = t.k WHERE {more}")
    assert compiled(f"SELECT s.x, y FROM s, t WHERE s.k = t.k AND {more}") == after


@pytest.mark.parametrize(("digits", "us"), [("", 1_000), (", 3", 1_000), (", 0", 1_000_000)])
def test_numbers_become_times_by_their_unit(digits: str, us: int) -> None:
    made = sql(f"SELECT TO_TIMESTAMP_LTZ(x{digits}) AS v FROM s", STREAMS)
    assert made == STREAMS["s"].select(v=(col("x") * us).cast("timestamp"))

"""Results on which other engines agree: newest rows, seconds since 1970, NaN, FETCH, signs.

Not covered: mistakes that all engines share.
"""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from planner import SqlError, Stream, col, event, lit, sql, tumbling, vs
from planner.logical.nodes import Project
from planner.physical.lower import lower
from rstream.items.batch import VE, VS
from rstream.types import INF_TIME
from tests.support.ducks import duck
from tests.support.plan_runner import Schedule, answer

KINDS = {"k": "string", "n": "int64"}
NEWEST = (
    "SELECT k, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {} DESC) AS r FROM t) "
    "WHERE r = 1"
)


def _rows(seed: int) -> list[Any]:
    """Points, many of which have the same start."""
    rng = Random(seed)
    times = sorted(rng.choices(range(0, 60, 10), k=24))
    return [event(at, k=rng.choice("abc"), n=n) for n, at in enumerate(times)]


def _ran(stream: object, parallelism: int = 2) -> list[dict[str, Any]]:
    assert isinstance(stream, Stream)
    plan = lower(stream.to_parquet(), root="memory://others", parallelism=parallelism)
    found: list[dict[str, Any]] = answer(plan).to_pylist()
    return sorted(found, key=repr)


@pytest.mark.parametrize("seed", range(3))
def test_the_newest_row_of_a_key_equals_upserts(seed: int) -> None:
    points = Stream.from_items(KINDS, _rows(seed))
    wanted = _ran(points.upserts("k"))
    assert len(wanted) > len("abc")
    timed = points.with_columns(ts=vs())
    for text in (NEWEST.format("vs()"), NEWEST.format("ts"), NEWEST.format("ts DESC, vs()")):
        assert _ran(sql(text, {"t": timed})) == wanted, text


def test_several_newest_rows_are_latest_first() -> None:
    points = Stream.from_items(KINDS, _rows(7))
    text = (
        "SELECT k, n, r FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY vs() DESC) AS r "
        "FROM t) WHERE r <= 2"
    )
    alive = [row for row in _ran(sql(text, {"t": points})) if row[VE] == INF_TIME]
    found = {(row["k"], row["r"]): row["n"] for row in alive}
    for key in "abc":
        numbers = [e.payload["n"] for e in _rows(7) if e.payload["k"] == key]
        assert [found[key, 1], found[key, 2]] == numbers[:-3:-1]


def test_the_newest_row_of_each_window_is_the_last_at_that_time() -> None:
    points = Stream.from_items(KINDS, _rows(9)).with_columns(ts=vs())
    text = (
        "SELECT k, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k, window_start, window_end "
        "ORDER BY ts DESC) AS r FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '20us'))) "
        "WHERE r = 1"
    )
    found = {(row[VS], row["k"]): row["n"] for row in _ran(sql(text, {"t": points}))}
    last = {(e.vs_us // 20 * 20, e.payload["k"]): e.payload["n"] for e in _rows(9)}
    assert found == last


def test_ties_do_not_depend_on_batch_boundaries() -> None:
    """State is merged from parts and restored: on ties, the last row of the stream is latest."""
    rows = [event(k // 9, k="ab"[k % 2], n=k) for k in range(54)]
    points = Stream.from_items(KINDS, rows)
    for top in (
        points.group_by("k").top(3, "k", place="r", ties="last"),
        points.group_by("k").window(tumbling(2)).top(3, "k", place="r", ties="last"),
    ):
        plan = lower(top.to_parquet(), root="memory://ties", parallelism=1)
        whole = answer(plan, schedule=Schedule((0,)))
        for numbers in ((3, 0, 1, 5, 2), (1,), (0, 2)):
            cut = answer(plan, schedule=Schedule(numbers, rows_max=4, restores=True))
            assert cut.equals(whole), numbers
        last = [row for row in whole.to_pylist() if row["k"] == "a"][-3:]
        assert {(row["n"], row["r"]) for row in last} == {(52, 1), (50, 2), (48, 3)}


def test_versions_as_of_a_time_are_the_newest_with_that_start() -> None:
    prices = Stream.from_items(KINDS, [event(0, k="a", n=1), event(0, k="a", n=2)])
    orders = Stream.from_items(KINDS, [event(5, k="a", n=9)])
    text = "SELECT o.n, p.n AS price FROM o JOIN p FOR SYSTEM_TIME AS OF vs() ON o.k = p.k"
    found = _ran(sql(text, {"o": orders, "p": prices}))
    assert [(row["n"], row["price"]) for row in found] == [(9, 2)]


def _value(expression: str, x: Any = 1, kind: pa.DataType | None = None) -> Any:
    kind = pa.int64() if kind is None else kind
    stream = Stream.from_items({"x": kind}, [event(0, x=x)])
    made = sql(f"SELECT {expression} AS v FROM s", {"s": stream})
    assert isinstance(made, Stream)
    assert isinstance(made.plan, Project)
    ((_, node),) = made.plan.columns
    batch = pa.record_batch({"_vs": [0], "_ve": [1], "x": pa.array([x], kind)})
    return node.evaluate(batch)[0].as_py()


def test_a_number_as_a_time_is_in_seconds() -> None:
    moment = datetime(2021, 1, 3, 4, 5, 6, tzinfo=UTC)
    for name in ("TO_TIMESTAMP", "TRY_TO_TIMESTAMP"):
        assert _value(f"{name}(1609646706)") == moment
        assert _value(f"{name}(x)", 1609646706) == moment
        assert _value(f"{name}(x)", -1, pa.int32()) == datetime(
            1969, 12, 31, 23, 59, 59, tzinfo=UTC
        )
    half = moment.replace(microsecond=500_000)
    assert _value("TO_TIMESTAMP(1609646706.5)") == half
    assert _value("TO_TIMESTAMP(x)", Decimal("1609646706.50"), pa.decimal128(12, 2)) == half
    assert _value("TO_TIMESTAMP('2021-01-03 04:05:06')") == moment
    assert _value("TO_TIMESTAMP(x)", None) is None


VALUES = (None, 0.0, -0.0, 1.5, float("nan"), float("inf"))


def test_nan_is_not_distinct_from_nan() -> None:
    ducks = duck()
    for a, b in itertools.product(VALUES, VALUES):
        for operator in ("IS DISTINCT FROM", "IS NOT DISTINCT FROM"):
            asked = f"SELECT ?::DOUBLE {operator} ?::DOUBLE"
            ((wanted,),) = ducks.execute(asked, [a, b]).fetchall()
            typed = "NULL" if b is None else f"CAST('{b}' AS DOUBLE)"
            assert _value(f"x {operator} {typed}", a, pa.float64()) is wanted, (a, b)
    assert _value("x <=> CAST('nan' AS DOUBLE)", float("nan"), pa.float64()) is True
    numbers = pa.record_batch({"_vs": [0], "_ve": [1], "x": pa.array([float("nan")])})
    batch = Stream.from_items({"x": "float64"}, [event(0, x=1.0)])
    made = batch.select(v=col("x").is_distinct_from(lit(float("nan"))))
    assert isinstance(made.plan, Project)
    ((_, node),) = made.plan.columns
    assert node.evaluate(numbers).to_pylist() == [False]


@pytest.mark.parametrize(
    "kind", ["TINYINT", "INT", "BIGINT", "UTINYINT", "DOUBLE", "DECIMAL(5, 2)"]
)
def test_a_plus_sign_before_a_number_is_accepted(kind: str) -> None:
    ducks = duck()
    more = () if kind == "DOUBLE" else ("+-5",)  # which DuckDB reads as -5.0
    for text in ("+5", "5", "+", "++5", "-+5", "5+", "+ 5", "+x", "", *more):
        ((wanted,),) = ducks.execute(f"SELECT TRY_CAST(? AS {kind})", [text]).fetchall()
        assert _value(f"TRY_CAST(x AS {kind})", text, pa.string()) == wanted, text


def test_fetch_first_equals_limit() -> None:
    points = {"t": Stream.from_items(KINDS, _rows(1))}
    for clause, limit in (
        ("FETCH FIRST 2 ROWS ONLY", "LIMIT 2"),
        ("FETCH NEXT ROW ONLY", "LIMIT 1"),
        ("OFFSET 1 ROWS FETCH NEXT 3 ROWS ONLY", "LIMIT 3 OFFSET 1"),
    ):
        asked = "SELECT k, n FROM t ORDER BY n DESC "
        assert sql(asked + clause, points) == sql(asked + limit, points)


def test_a_length_beyond_the_text_returns_the_rest() -> None:
    most = 2**63 - 1
    assert _value(f"SUBSTRING(x FROM 2 FOR {most})", "abc", pa.string()) == "bc"
    assert _value(f"SUBSTRING(x FROM {most} FOR {most})", "abc", pa.string()) == ""
    assert _value(f"LEFT(x, {most}) || RIGHT(x, {most})", "abc", pa.string()) == "abcabc"


def test_an_untyped_null_is_not_counted() -> None:
    text = "SELECT k, COUNT(NULL) AS v, COUNT(n) AS n FROM t GROUP BY k, TUMBLE('1 hour')"
    found = _ran(sql(text, {"t": Stream.from_items(KINDS, _rows(1))}))
    assert [row["v"] for row in found] == [0, 0, 0]


def test_a_subquery_in_having_has_its_own_columns_and_aggregates() -> None:
    streams = {
        "t": Stream.from_items(KINDS, _rows(1)),
        "u": Stream.from_items({"y": "int64"}, [event(0, INF_TIME, y=y) for y in (3, 9)]),
    }
    text = "SELECT k, COUNT(*) AS y FROM t GROUP BY k HAVING COUNT(*) > (SELECT {} FROM u)"
    wanted = _ran(sql("SELECT k, COUNT(*) AS y FROM t GROUP BY k HAVING COUNT(*) > 6", streams))
    assert _ran(sql(text.format("AVG(y)"), streams)) == wanted
    assert _ran(sql(text.format("AVG(u.y)"), streams)) == wanted


@pytest.mark.parametrize(
    ("text", "dialect", "wanted"),
    [
        ("QUANTILE(x, 0.5)", None, 2.5),
        ("QUANTILE(x, 0.5)", "duckdb", 2),
        ("ARRAY_AGG(x)", "flink", [1, None, 4, 2, 3]),
        ("ARRAY_AGG(x)", "spark", [1, 4, 2, 3]),
        ("ARRAY_AGG(x) RESPECT NULLS", "spark", [1, None, 4, 2, 3]),
        ("LISTAGG(CAST(x AS VARCHAR))", "flink", "1,4,2,3"),
        ("LISTAGG(CAST(x AS VARCHAR))", "spark", "1423"),
        ("LAST(CASE WHEN x < 3 THEN x END, TRUE)", "spark", 2),
        ("ARRAY_AGG(x ORDER BY x)", "postgres", [1, 2, 3, 4, None]),
        ("ARRAY_AGG(x ORDER BY x)", "spark", [1, 2, 3, 4]),
        ("ARRAY_AGG(x ORDER BY x)", "flink", [None, 1, 2, 3, 4]),
    ],
)
def test_aggregates_with_equal_names_in_engines(
    text: str, dialect: str | None, wanted: Any
) -> None:
    items = [event(at, x=x) for at, x in enumerate([1, None, 4, 2, 3])]
    made = sql(
        f"SELECT {text} AS v FROM s GROUP BY TUMBLE('1m')",
        {"s": Stream.from_items({"x": "int64"}, items)},
        dialect=dialect,
    )
    assert [row["v"] for row in _ran(made)] == [wanted]


LONG = "abcdef"
MOMENT = datetime(2020, 1, 1, 23, 59, 59, 999_500, UTC)
OLD = datetime(1980, 1, 1, 0, 0, 0, 1_500, UTC)


@pytest.mark.parametrize(
    ("kind", "dialect", "x", "wanted"),
    [
        ("VARCHAR(3)", "flink", LONG, "abc"),
        ("VARCHAR(3)", "duckdb", LONG, LONG),
        ("CHAR(3)", "flink", LONG, "abc"),
        ("CHAR(8)", "flink", LONG, "abcdef  "),
        ("CHAR(3)", "duckdb", LONG, LONG),
        ("TIMESTAMP(3)", "flink", MOMENT, MOMENT.replace(microsecond=999_000)),
        ("TIMESTAMP(3)", "postgres", MOMENT, datetime(2020, 1, 2, tzinfo=UTC)),
        ("TIMESTAMP(3)", "postgres", OLD, OLD.replace(microsecond=1_000)),
        ("TIMESTAMP(3)", "duckdb", OLD, OLD.replace(microsecond=2_000)),
        ("TIMESTAMP(0)", "flink", OLD, OLD.replace(microsecond=0)),
        ("TIMESTAMP(6)", None, OLD, OLD),
    ],
)
def test_casts_to_types_with_a_length(kind: str, dialect: str | None, x: Any, wanted: Any) -> None:
    of = pa.string() if isinstance(x, str) else pa.timestamp("us", "UTC")
    rows = {"s": Stream.from_items({"x": of}, [event(0, x=x)])}
    for cast in ("CAST", "TRY_CAST"):
        made = sql(f"SELECT {cast}(x AS {kind}) AS v FROM s", rows, dialect=dialect)
        assert [row["v"] for row in _ran(made)] == [wanted], cast


@pytest.mark.parametrize(
    ("kind", "dialect"),
    [("CHAR(3)", "postgres"), ("CHAR(3)", None), ("TIMESTAMP(3)", None), ("TIMESTAMP(3)", "spark")],
)
def test_types_with_a_length_that_are_rejected(kind: str, dialect: str | None) -> None:
    rows = {"s": Stream.from_items({"x": "string"}, [event(0, x="a")])}
    with pytest.raises(SqlError, match=r"has no length here|has microseconds here"):
        sql(f"SELECT TRY_CAST(x AS {kind}) AS v FROM s", rows, dialect=dialect)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * REPLACE (x + 1 AS x) FROM t",
        "SELECT * RENAME (x AS y) FROM t",
        "SELECT * EXCLUDE (k) REPLACE (x * 2 AS x) RENAME (n AS m) FROM t",
        "SELECT t.* RENAME (k AS key, n AS m) FROM t WHERE k <> 'b'",
        "SELECT * REPLACE (SUM(x) OVER (PARTITION BY k ORDER BY n) AS x) FROM t",
    ],
)
def test_stars_with_other_columns_equal_duckdb(text: str) -> None:
    events = [event(n, k="ab"[n % 2], x=n * n % 5, n=n) for n in range(9)]
    stream = Stream.from_items({"k": "string", "x": "int64", "n": "int64"}, events)
    found = _ran(sql(text.replace("ORDER BY n", "ORDER BY vs()"), {"t": stream}))
    ducks = duck()
    ducks.register("t", pa.Table.from_pylist([dict(e.payload) for e in events]))
    wanted = ducks.execute(text).fetchall()
    names = [c[0] for c in ducks.description]
    assert [name for name in found[0] if not name.startswith("_")] == names
    assert sorted(tuple(row[name] for name in names) for row in found) == sorted(wanted)


def test_stars_with_an_unknown_column() -> None:
    rows = {"t": Stream.from_items({"x": "int64"}, [event(0, x=1)])}
    for text in ("* REPLACE (x AS y)", "* RENAME (y AS x)", "* EXCLUDE (x) REPLACE (1 AS x)"):
        with pytest.raises(SqlError, match=r"no column '[xy]'"):
            sql(f"SELECT {text} FROM t", rows)


@pytest.mark.parametrize(
    ("text", "dialect", "wanted"),
    [
        ("REGEXP_REPLACE(x, 'a', 'b')", None, "bbbc"),
        ("REGEXP_REPLACE(x, 'a', 'b')", "flink", "bbbc"),
        ("REGEXP_REPLACE(x, 'a', 'b')", "spark", "bbbc"),
        ("REGEXP_REPLACE(x, 'a', 'b')", "postgres", "baac"),
        ("REGEXP_REPLACE(x, '(a)(a)', '\\2-')", "duckdb", "a-ac"),
        ("REGEXP_REPLACE(x, 'a', 'b', 'g')", "postgres", "bbbc"),
        ("REGEXP_REPLACE(x, 'a', 'b', 'g')", "duckdb", "bbbc"),
        ("REGEXP_REPLACE(x, SUBSTRING(x, 1, 1), 'b')", "postgres", "baac"),
    ],
)
def test_which_matches_are_replaced(text: str, dialect: str | None, wanted: str) -> None:
    rows = {"s": Stream.from_items({"x": "string"}, [event(0, x="aaac")])}
    made = sql(f"SELECT {text} AS v FROM s", rows, dialect=dialect)
    assert [row["v"] for row in _ran(made)] == [wanted]
    if dialect == "duckdb":
        query = f"SELECT {text} AS v FROM (SELECT 'aaac' AS x)"
        assert duck().execute(query).fetchall() == [(wanted,)]


def test_other_flags_of_patterns_are_rejected() -> None:
    rows = {"s": Stream.from_items({"x": "string"}, [event(0, x="a")])}
    with pytest.raises(SqlError, match="this form of REGEXP_REPLACE"):
        sql("SELECT REGEXP_REPLACE(x, 'a', 'b', 'i') AS v FROM s", rows, dialect="postgres")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT n FROM t ORDER BY x DESC, n LIMIT 3",
        "SELECT n AS x FROM t ORDER BY t.x * 2 DESC, n LIMIT 3 OFFSET 1",
        "SELECT k FROM t WHERE n > 2 ORDER BY n DESC LIMIT 2",
        "SELECT n * 2 AS m FROM t ORDER BY ABS(x - 3), n LIMIT 4",
    ],
)
def test_order_by_columns_that_are_not_selected(text: str) -> None:
    events = [event(n, INF_TIME, k="ab"[n % 2], x=n * n % 5, n=n) for n in range(9)]
    stream = Stream.from_items({"k": "string", "x": "int64", "n": "int64"}, events)
    rows = _ran(sql(text, {"t": stream}))
    alive = sorted(list(r.values())[2:] for r in rows if r[VE] == INF_TIME)
    ducks = duck()
    ducks.register("t", pa.Table.from_pylist([dict(e.payload) for e in events]))
    assert alive == sorted(map(list, ducks.execute(text).fetchall()))
    assert [name for name in rows[0] if name[0] != "_"] == [c[0] for c in ducks.description]


def test_order_by_a_time_that_is_not_selected() -> None:
    stream = Stream.from_items(KINDS, _rows(3)).with_columns(ts=vs())
    found = _ran(sql("SELECT n FROM t ORDER BY ts, k DESC", {"t": stream}))
    assert found == _ran(stream.select("n"))
    for text in ("SELECT DISTINCT n FROM t ORDER BY ts", "SELECT k AS n FROM t ORDER BY nope"):
        with pytest.raises(SqlError, match=r"takes columns of the SELECT list|no column 'nope'"):
            sql(text, {"t": stream})


@pytest.mark.parametrize(
    ("dialect", "text", "wanted"),
    [
        ("spark", "timestampdiff(MONTH, DATE '2024-01-31', DATE '2024-02-29')", 0),
        ("spark", "timestampdiff(MONTH, DATE '2024-02-29', DATE '2024-01-31')", 0),
        ("spark", "timestampdiff(QUARTER, DATE '2024-01-01', DATE '2023-09-30')", -1),
        ("spark", "mask('AbC-12 é')", "XxX-nn x"),
        ("postgres", "'[[1]]' @> '1'", False),
        ("postgres", "'[[1]]' @> '[1]'", False),
        ("postgres", "'[[1, 2]]' @> '[[1]]'", True),
        ("postgres", "'[1]' @> '1'", True),
        ("postgres", "'bad' @> 'null'", None),
        ("postgres", r"regexp_match('foobar', '\p{L}+')", ["foobar"]),
        ("postgres", "regexp_match('foobar', '(?<x>o)')", ["o"]),
        ("postgres", r"substring('foobar' from 'r\z')", "r"),
        ("flink", r"""JSON_ELEMENTS('["\ud800"]')""", None),
        ("flink", r"""JSON_VALUE('{"a": "\ud800"}', '$.a')""", None),
    ],
)
def test_edge_cases_of_functions(dialect: str, text: str, wanted: Any) -> None:
    (row,) = _ran(sql(f"SELECT {text} AS v FROM t", {"t": _rows_of_one()}, dialect=dialect))
    assert row["v"] == wanted


def _rows_of_one() -> Stream:
    return Stream.from_items({"k": "string", "v": "int64"}, [event(0, k="a", v=-7)])


def test_an_alias_is_not_a_column_of_a_subquery() -> None:
    text = "SELECT 100 AS v, (SELECT max(v) FROM u WHERE u.k = t.k) AS m FROM t"
    ours = _rows_of_one()
    (row,) = _ran(sql(text, {"t": ours.select("k"), "u": ours}, dialect="duckdb"))
    assert row["m"] == -7


@pytest.mark.parametrize(
    ("dialect", "text", "said"),
    [
        ("duckdb", "'abc' GLOB 'a[b]c'", r"GLOB takes \* and \? here"),
        ("postgres", "regexp_match('foobar', '(')", "is not a regular expression"),
    ],
)
def test_a_pattern_of_an_engine_that_we_cannot_run_is_rejected(
    dialect: str, text: str, said: str
) -> None:
    with pytest.raises(SqlError, match=said):
        sql(f"SELECT {text} AS r FROM t", {"t": _rows_of_one()}, dialect=dialect)

"""Syntax of other engines: sessions, the current time, windows over groups, cursors.

Not covered: syntax over joins, which the pasted cases cover.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from math import inf, isnan
from typing import TYPE_CHECKING, Any

import pytest

from planner import SqlError, Stream, event, sql
from planner.physical.lower import lower
from rstream.items.batch import VE, VS
from tests.support.plan_runner import answer

if TYPE_CHECKING:
    from pathlib import Path

SECOND = 1_000_000
POINTS = Stream.from_items(
    {"k": "string", "x": "int64"},
    [event(t * SECOND, k=k, x=x) for t, k, x in ((0, "a", 1), (5, "a", 2), (11, "a", 4))],
)
LASTING = POINTS.set_duration("1s")
KEPT = POINTS.for_ever()
#: A number, its type, the digits of TRUNC, and its value.
CUT = [
    *((126, "BIGINT", -1, 120), (-119, "BIGINT", -1, -110), (126, "TINYINT", -2, 100)),
    *((126, "TINYINT", -3, 0), (126, "INT", -30, 0), (126, "BIGINT", 1, 126)),
]
STREAMS = {"p": POINTS, "d": LASTING, "s": KEPT}


def rows(text: str, dialect: str | None = None) -> list[dict[str, Any]]:
    made = sql(text, STREAMS, dialect=dialect)
    assert isinstance(made, Stream)
    plan = lower(made.to_parquet(), root="memory://forms", parallelism=1)
    return [dict(row) for row in answer(plan).to_pylist()]


def seconds(row: dict[str, Any]) -> tuple[float, float]:
    return row[VS] / SECOND, row[VE] / SECOND


@pytest.mark.parametrize(
    ("dialect", "wanted"),
    [
        ("flink", [(0, 10, 3), (11, 16, 4)]),
        ("spark", [(0, 10, 3), (11, 16, 4)]),
        ("ksqldb", [(0, 10, 3), (11, 16, 4)]),
        (None, [(0, 5, 1), (5, 10, 2), (11, 16, 4)]),
        ("duckdb", [(0, 5, 1), (5, 10, 2), (11, 16, 4)]),
    ],
)
def test_rows_exactly_a_gap_apart_share_a_session_in_flink_spark_and_ksqldb(
    dialect: str | None, wanted: list[tuple[int, ...]]
) -> None:
    found = rows("SELECT SUM(x) AS n FROM p GROUP BY k, SESSION('5 seconds')", dialect)
    assert [(*seconds(row), row["n"]) for row in found] == wanted


def test_a_ksqldb_session_ends_with_its_last_row() -> None:
    text = (
        "SELECT k, WINDOWSTART AS a, WINDOWEND AS b, COUNT(*) AS n FROM p "
        "WINDOW SESSION (5 SECONDS) GROUP BY k EMIT FINAL"
    )
    assert [(row["a"], row["b"], row["n"]) for row in rows(text, "ksqldb")] == [
        (0, 5000, 2),
        (11000, 11000, 1),
    ]


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("mz_now() < vs + INTERVAL '2 seconds'", (5, 7)),
        ("mz_now() <= vs + INTERVAL '2 seconds'", (5, 7.000001)),
        ("vs > now() - INTERVAL '2 seconds'", (5, 7)),
        ("now() BETWEEN vs AND vs + INTERVAL '2 seconds'", (5, 7.000001)),
        ("mz_now() >= vs + INTERVAL '1 second' AND mz_now() < vs + INTERVAL '3 s'", (6, 8)),
        ("mz_now() < vs + INTERVAL '9 s' AND mz_now() < vs + INTERVAL '1 s'", (5, 6)),
        ("mz_now() >= vs - INTERVAL '1 s' AND mz_now() < vs + INTERVAL '1 s'", (5, 6)),
    ],
)
def test_a_condition_on_the_current_time_becomes_a_lifetime(
    condition: str, wanted: tuple[float, float]
) -> None:
    found = rows(
        f"SELECT x FROM t WHERE x = 2 AND {condition}".replace("FROM t", _TIMED), "postgres"
    )
    assert [seconds(row) for row in found] == [wanted]


_TIMED = 'FROM (SELECT x, vs() AS "vs" FROM p) AS t'


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("SELECT x FROM p WHERE mz_now() < x", "compares it with the time of a stream"),
        ("SELECT x FROM p WHERE mz_now() = vs()", "compares it with the time of a stream"),
        (f"SELECT x {_TIMED} WHERE mz_now() < t.vs - INTERVAL '1 s'", "never hold"),
        (
            f"SELECT x {_TIMED.replace('FROM p', 'FROM d')} WHERE mz_now() < t.vs",
            "a stream of points",
        ),
        (f"SELECT x {_TIMED} WHERE x = 1 OR mz_now() < t.vs", "compares it with the time"),
        (f"SELECT x {_TIMED} WHERE now() < CAST(t.vs AS DATE)", "compares it with the time"),
        ("SELECT mz_now() AS m FROM p", "MZ_NOW is not supported"),
    ],
)
def test_other_conditions_on_the_current_time_are_rejected(text: str, hint: str) -> None:
    with pytest.raises(SqlError, match=hint):
        sql(text, STREAMS, dialect="postgres")


@pytest.mark.parametrize("dialect", ["flink", "spark", "duckdb", None])
def test_the_current_time_is_rejected_elsewhere(dialect: str | None) -> None:
    with pytest.raises(SqlError, match="follows from its input alone"):
        sql("SELECT x FROM p WHERE vs() > NOW() - INTERVAL '1' HOUR", STREAMS, dialect=dialect)


def test_window_functions_are_computed_from_groups() -> None:
    text = (
        "SELECT k, COUNT(*) AS n, RANK() OVER (ORDER BY SUM(x) DESC) AS r, "
        "SUM(SUM(x)) OVER () AS total FROM "
        "(VALUES ('a', 1), ('a', 2), ('b', 9), ('c', 1)) AS t (k, x) "
        "GROUP BY 1 HAVING SUM(x) > 1 ORDER BY r"
    )
    for dialect in ("spark", "duckdb", "postgres"):
        found = [(r["k"], r["n"], r["r"], r["total"]) for r in rows(text, dialect)]
        assert sorted(found) == [("a", 2, 2, 12), ("b", 1, 1, 12)]


def test_a_comparison_with_all_values_under_or_handles_nulls_like_sql() -> None:
    kept = "SELECT x FROM s WHERE x = 100 OR x {} (SELECT y FROM (VALUES {}) AS v (y) WHERE y < {})"

    def found(operator: str, values: str, bound: int = 50) -> list[int]:
        text = kept.format(operator, values, bound)
        return sorted({row["x"] for row in rows(text, "duckdb")})

    assert found(">= ALL", "(1), (2)") == [2, 4]
    assert found(">= ANY", "(2), (9)") == [2, 4]
    assert found("< ALL", "(2), (9)") == [1]
    assert found("< ANY", "(2), (9)") == [1, 2, 4]
    assert found("> ALL", "(7), (9)", bound=0) == [1, 2, 4]
    assert found("> ANY", "(7), (9)", bound=0) == []


def test_cursors_and_variables() -> None:
    text = "BEGIN; DECLARE c CURSOR FOR SUBSCRIBE (SELECT x FROM p) WITH (SNAPSHOT); FETCH ALL c;"
    assert [row["x"] for row in rows(text, "postgres")] == [1, 2, 4]
    text = "DEFINE low = '1';\nSELECT x FROM p WHERE x > ${low};"
    assert [row["x"] for row in rows(text, "ksqldb")] == [2, 4]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("-- ; DEFINE v = 'b';\nSELECT '${v}' AS y FROM p WHERE x = 1;", "${v}"),
        ("/* ;\nDEFINE v = 'b'; */ SELECT '${v}' AS y FROM p WHERE x = 1;", "${v}"),
        ("SELECT '\n; DEFINE v = 1; ${v}' AS y FROM p WHERE x = 1;", "\n; DEFINE v = 1; ${v}"),
        ("-- a\nDEFINE v = 'b' -- c\n; SELECT '${v}' AS y FROM p WHERE x = 1;", "b"),
    ],
)
def test_variables_in_comments_and_texts_are_not_definitions(text: str, wanted: str) -> None:
    assert [row["y"] for row in rows(text, "ksqldb")] == [wanted]


def test_lateness_can_be_a_name_or_a_text(tmp_path: Path) -> None:
    late = Stream.from_items({"k": "string", "lateness": "int64"}, [event(0, k="a", lateness=3)])
    for value in ("SUM(lateness)", "SUM(CASE WHEN k IN ('a', 'lateness') THEN lateness END)"):
        made = sql(f"SELECT {value} AS y FROM t", {"t": late.for_ever()}, dialect="flink")
        assert isinstance(made, Stream)
        plan = lower(made.to_parquet(), root="memory://forms", parallelism=1)
        assert answer(plan).column("y").to_pylist() == [3]
    (tmp_path / "z.csv").write_text("k,lateness\na,3\n")
    table = f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/z.csv', 'format' = 'csv')"
    for columns in ("k STRING, lateness INT", "k STRING, `lateness` INT"):
        text = f"CREATE TABLE z ({columns}) {table}; SELECT * FROM z"
        made = sql(text, dialect="flink")
        assert isinstance(made, Stream)
        assert [name.lower() for name in made.schema.names][-2:] == ["k", "lateness"]


def test_rowtime_of_one_side_of_a_join_is_rejected() -> None:
    text = "SELECT a.ROWTIME AS t FROM p a JOIN p b WITHIN 1 SECOND ON a.k = b.k EMIT CHANGES"
    with pytest.raises(SqlError, match="name its time column"):
        sql(text, STREAMS, dialect="ksqldb")


def test_hop_takes_slide_before_size_in_postgres() -> None:
    text = "SELECT COUNT(*) AS n FROM p GROUP BY hop(interval '5 seconds', interval '10 seconds')"
    assert [row["n"] for row in rows(text, "postgres")] == [1, 2, 2, 1]


RANKED = "COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*)) AS r"


@pytest.mark.parametrize("dialect", ["flink", "spark", "postgres", "duckdb", None])
def test_an_alias_in_group_by_beside_over_is_not_a_column_of_from(dialect: str | None) -> None:
    text = f"SELECT x % 2 AS {{0}}, {RANKED} FROM s GROUP BY {{0}}"
    with pytest.raises(SqlError, match="GROUP BY x means a column of FROM"):
        sql(text.format("x"), STREAMS, dialect=dialect)
    assert {(row["y"], row["n"]) for row in rows(text.format("y"), dialect)} == {
        (1, 1), (0, 1), (0, 2)
    }  # fmt: skip
    own = rows(f"SELECT s.x AS x, {RANKED} FROM s GROUP BY x", dialect)
    assert {row["x"] for row in own} == {1, 2, 4}


def test_emit_applies_to_the_groups_from_which_windows_are_computed() -> None:
    text = f"SELECT k, {RANKED} FROM p GROUP BY k, TUMBLE('10s')"
    assert [row["n"] for row in rows(text)] == [2, 1]
    assert sorted({row["n"] for row in rows(f"{text} EMIT CHANGES") if row[VS] < 10 * SECOND}) == [
        1, 2
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("dialect", "clause", "reason"),
    [
        (None, "EMIT FINAL", "EMIT FINAL needs a window"),
        ("postgres", "FOR UPDATE", "FOR UPDATE is not supported"),
        ("spark", "SORT BY k", "SORT BY"),
        ("spark", "CLUSTER BY k", "CLUSTER BY"),
        ("spark", "DISTRIBUTE BY k", "DISTRIBUTE BY"),
        ("duckdb", "USING SAMPLE 1", "TABLESAMPLE is not supported"),
    ],
)
def test_clauses_beside_windows_over_groups_are_rejected(
    dialect: str | None, clause: str, reason: str
) -> None:
    with pytest.raises(SqlError, match=reason):
        sql(f"SELECT k, {RANKED} FROM s GROUP BY k {clause}", STREAMS, dialect=dialect)


def test_lateral_aliases_keep_their_meaning_in_subqueries() -> None:
    text = (
        "SELECT s.x FROM s, LATERAL (SELECT {} + 1 AS y) l "
        "WHERE EXISTS (SELECT 1 FROM (VALUES (2), (7)) AS {} (x) WHERE {}.x = l.y)"
    )
    assert [row["x"] for row in rows(text.format("s.x", "b", "b"), "postgres")] == [1]
    for value, relation in (("x", "b"), ("s.x", "s")):
        with pytest.raises(SqlError, match="may mean columns of this subquery"):
            sql(text.format(value, relation, relation), STREAMS, dialect="postgres")


def test_order_by_an_alias_does_not_use_a_lateral_alias() -> None:
    text = "SELECT s.x AS y FROM s, LATERAL (SELECT -x AS y) l ORDER BY {} LIMIT 1"
    assert [row["y"] for row in rows(text.format("y"), "postgres")] == [1]
    assert [row["y"] for row in rows(text.format("l.y"), "postgres")] == [1, 2, 4]


@pytest.mark.parametrize(
    "laterals",
    ["LATERAL (SELECT x + 1 AS x) l", "LATERAL (SELECT 1 AS x) l, LATERAL (SELECT 2 AS x) m"],
)
def test_a_name_of_lateral_and_another_relation_is_ambiguous(laterals: str) -> None:
    with pytest.raises(SqlError, match="and in another relation; write which"):
        sql(f"SELECT x FROM s, {laterals}", STREAMS, dialect="postgres")
    assert "x" in rows(f"SELECT l.x FROM s, {laterals}", "postgres")[0]


@pytest.mark.parametrize("dialect", ["postgres", "duckdb"])
def test_scalar_subqueries_keep_their_names(dialect: str) -> None:
    lateral = "SELECT l.n FROM s, LATERAL (SELECT COUNT(*) AS n FROM p WHERE p.x = s.x) l"
    assert "n" in rows(lateral, dialect)[0]
    grouped = f"SELECT k, (SELECT MAX(x) FROM s) AS m, {RANKED} FROM s GROUP BY k"
    assert list(rows(grouped, dialect)[0])[2:] == ["k", "m", "n", "r"]


@pytest.mark.parametrize(
    ("dialect", "relation"),
    [
        ("postgres", "GENERATE_SERIES(1, 3) WITH ORDINALITY"),
        ("postgres", "s, GENERATE_SERIES(1, x) WITH ORDINALITY AS g (a, b)"),
        ("spark", "EXPLODE(ARRAY(1, 2)) WITH ORDINALITY"),
        ("spark", "EXPLODE(ARRAY(1, 2)) TABLESAMPLE (1 ROWS)"),
        ("spark", "RANGE(3) TABLESAMPLE (1 ROWS)"),
    ],
)
def test_clauses_after_functions_in_from_are_rejected(dialect: str, relation: str) -> None:
    with pytest.raises(SqlError, match="of a function in FROM is not supported"):
        sql(f"SELECT * FROM {relation}", STREAMS, dialect=dialect)


@pytest.mark.parametrize(
    ("dialect", "relation", "wanted"),
    [
        ("duckdb", "UNNEST(ARRAY[1, 2]) AS u (a)", ["a"]),
        ("postgres", "UNNEST(ARRAY[5, 6]) WITH ORDINALITY AS u (a, b)", ["a", "b"]),
        ("postgres", "(SELECT a AS c FROM (SELECT * FROM UNNEST(ARRAY[1]) AS u (a)) q) r", ["c"]),
        ("spark", "RANGE(3)", ["id"]),
        ("spark", "EXPLODE(ARRAY(1, 2))", ["col"]),
        ("spark", "s LATERAL VIEW EXPLODE(MAP('x', 1)) e AS a, b", ["k", "x", "a", "b"]),
        ("spark", "s LATERAL VIEW POSEXPLODE(ARRAY(7)) e AS a, x", ["k", "x", "x_", "a"]),
        (None, "s CROSS JOIN UNNEST(ARRAY[1, 2]) AS u (a)", ["k", "x", "a"]),
    ],
)
def test_a_star_includes_the_unnested_columns(
    dialect: str | None, relation: str, wanted: list[str]
) -> None:
    assert list(rows(f"SELECT * FROM {relation}", dialect)[0])[2:] == wanted


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("STACK(1, 2, 3) AS (x, y, z)", "after AS is 3, of columns 2"),
        ("STACK(2, 1, 'a', 2, 'b') AS x", "after AS is 1, of columns 2"),
        ("JSON_TUPLE('{}', 'a', 'k') AS (x)", "after AS is 1, of columns 2"),
        ("""JSON_TUPLE('{"a": 1}', k)""", "names as literals"),
        ("JSON_TUPLE()", "names as literals"),
    ],
)
def test_generators_with_the_wrong_number_of_names_are_rejected(call: str, reason: str) -> None:
    with pytest.raises(SqlError, match=reason):
        sql(f"SELECT {call} FROM s", STREAMS, dialect="spark")


def test_a_name_in_json_tuple_is_a_single_key() -> None:
    call = """JSON_TUPLE('{"a.b": 1, "a": {"b": 5}, "c]": 2, "*": 3}', 'a.b', 'c]', '*')"""
    found = rows(f"SELECT {call} AS (x, y, z) FROM s", "spark")[0]
    assert (found["x"], found["y"], found["z"]) == ("1", "2", "3")
    viewed = """SELECT y FROM s LATERAL VIEW JSON_TUPLE('{"a.b": 1}', 'a.b') q AS y"""
    assert rows(viewed, "spark")[0]["y"] == "1"
    assert rows("""SELECT JSON_TUPLE('{"a": 1}', 'a') AS x FROM s""", "spark")[0]["x"] == "1"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("WITH (SNAPSHOT = false)", "not SNAPSHOT = FALSE"),
        ("WITH (SNAPSHOT, NOSUCH)", "not NOSUCH"),
        ("UP TO 5", "leave UP TO out"),
        ("WITH (PROGRESS) AS OF 5;", "leave AS OF out"),
    ],
)
def test_subscribe_options_that_change_rows_are_rejected(options: str, said: str) -> None:
    with pytest.raises(SqlError, match=said):
        sql(f"SUBSCRIBE p {options}", STREAMS, dialect="postgres")


def test_settings_that_change_rows_are_rejected() -> None:
    for dialect, setting in (
        ("flink", "table.exec.source.cdc-events-duplicate"),
        ("ksqldb", "ksql.streams.default.timestamp.extractor"),
    ):
        with pytest.raises(SqlError, match="is not supported: set options"):
            sql(f"SET '{setting}' = 'true'; SELECT x FROM p", STREAMS, dialect=dialect)
    text = "SET 'ksql.streams.num.stream.threads' = '2'; SELECT x FROM p"
    assert len(rows(text, "ksqldb")) == len(rows("SELECT x FROM p"))


def test_a_table_may_be_named_stream() -> None:
    streams = {"stream": POINTS, "p": POINTS}
    for given in ("stream", "stream AS p", "STREAM p", "STREAM(p)", "STREAM p AS q"):
        made = sql(f"SELECT x FROM {given} WHERE x > 1", streams, dialect="spark")
        assert isinstance(made, Stream)
        assert made.schema.names == ["x"]


def test_a_query_of_in_does_not_hide_tables_that_its_value_reads() -> None:
    text = (
        "SELECT a.x FROM s a JOIN s c ON a.k = c.k "
        "WHERE a.x IN (SELECT {0}.x FROM s {0} WHERE {0}.k = c.k)"
    )
    with pytest.raises(SqlError, match="hides the outer a: give it another alias"):
        sql(text.format("a"), STREAMS)
    assert isinstance(sql(text.format("b"), STREAMS), Stream)


@pytest.mark.parametrize(
    ("dialect", "call", "wanted"),
    [
        ("flink", "EXTRACT(DOW FROM t)", 1),
        ("spark", "EXTRACT(DOW FROM t)", 1),
        ("spark", "EXTRACT(DAYOFWEEK_ISO FROM t)", 7),
        ("postgres", "EXTRACT(DOW FROM t)", 0),
        ("duckdb", "EXTRACT(DAYOFWEEK FROM t)", 0),
        ("spark", "DAYNAME(t)", "Sun"),
        ("duckdb", "DAYNAME(t)", "Sunday"),
        ("postgres", "DATE_PART('epoch', t)", 1767484800.0),
        ("flink", """JSON_QUERY('{"a":[1]}', 'lax $.a' WITH CONDITIONAL WRAPPER)""", "[1]"),
        ("flink", "JSON_QUERY('{}', '$' WITH CONDITIONAL ARRAY WRAPPER)", "[{}]"),
        ("flink", "JSON_QUERY('[1, 2]', '$' WITH CONDITIONAL ARRAY WRAPPER)", "[1,2]"),
        ("postgres", "JSON_QUERY('{}', '$' WITH CONDITIONAL ARRAY WRAPPER)", "{}"),
        ("flink", """JSON_QUERY('{"a":2}', 'lax $.a' WITH WRAPPER)""", "[2]"),
        ("flink", """JSON_QUERY('{"a":2}', 'lax $.b' EMPTY OBJECT ON EMPTY)""", "{}"),
        ("flink", """JSON_QUERY('{"a":2}', '$.b' EMPTY OBJECT ON EMPTY)""", None),
        ("flink", """JSON_QUERY('{"a":2}', '$.a' EMPTY ARRAY ON ERROR)""", "[]"),
        ("spark", """FROM_JSON('{"a":{"b":[1]}}', 'a STRUCT<b: ARRAY<INT>>').a.b""", [1]),
        ("spark", "REVERSE(ARRAY(1, 2))", [2, 1]),
    ],
)
def test_values_that_engines_define_differently(dialect: str, call: str, wanted: object) -> None:
    query = f"SELECT {call} AS x FROM (SELECT TIMESTAMP '2026-01-04 00:00:00' AS t) AS s"
    assert [row["x"] for row in rows(query, dialect)] == [wanted]


def test_from_json_parses_values_like_spark() -> None:
    cases: list[tuple[str, str, object]] = [
        ('{"a":["Infinity","-Infinity","+INF",2]}', "a ARRAY<DOUBLE>", [inf, -inf, inf, 2.0]),
        ('{"a":"INF"}', "a DOUBLE", None),
        ('{"a":"1.5"}', "a DOUBLE", None),
        ('{"a":"1.5"}', "a DECIMAL(5,2)", Decimal("1.50")),
        ('{"a":[1,"2",3]}', "a ARRAY<INT>", None),
        ('{"a":[1,null,3]}', "a ARRAY<INT>", [1, None, 3]),
        ('{"a":{"b":1}}', "a ARRAY<INT>", None),
        ('{"a":[{"x":"q"},{"x":1}]}', "a ARRAY<STRUCT<x: INT>>", [{"x": None}, {"x": 1}]),
        ('{"a":[{"x":1},5]}', "a ARRAY<STRUCT<x: INT>>", None),
        ('{"a":[1,"x",{"q":1}]}', "a ARRAY<STRING>", ["1", "x", '{"q":1}']),
        ('{"a":-5}', "a TIMESTAMP", datetime(1969, 12, 31, 23, 59, 55, tzinfo=UTC)),
        ('{"a":"-5"}', "a TIMESTAMP", None),
    ]
    calls = [f"FROM_JSON('{text}', '{kind}').a AS c{i}" for i, (text, kind, _) in enumerate(cases)]
    calls.append("FROM_JSON('{\"a\":\"NaN\"}', 'a DOUBLE').a AS nan")
    (row,) = rows(f"SELECT {', '.join(calls)} FROM VALUES (1) AS v (i)", "spark")
    assert [row[f"c{i}"] for i in range(len(cases))] == [value for _, _, value in cases]
    assert isnan(row["nan"])
    with pytest.raises(SqlError, match="FROM_JSON"):
        rows("SELECT FROM_JSON('{}', 'a BINARY').a AS x FROM VALUES (1) AS v (i)", "spark")


@pytest.mark.parametrize(
    ("head", "body", "wanted"),
    [
        ("f(x INT) RETURNS INT LANGUAGE SQL", "COALESCE(x, 5)", [5, 1]),
        ("f(x INT) RETURNS INT LANGUAGE SQL STRICT", "COALESCE(x, 5)", [None, 1]),
        ("f(INT) RETURNS INT RETURNS NULL ON NULL INPUT", "COALESCE($1, 5)", [None, 1]),
        ("f(x INT) RETURNS VARCHAR", "COALESCE(CAST($1 AS VARCHAR), 'strict')", ["strict", "1"]),
    ],
)
def test_a_strict_user_function_returns_null_for_null(
    head: str, body: str, wanted: list[Any]
) -> None:
    text = f"CREATE FUNCTION {head} AS $$ SELECT {body} $$; SELECT f(NULL) AS a, f(1) AS b FROM s"
    assert [list(row.values())[2:] for row in rows(text, "postgres")][:1] == [wanted]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("safe_divide(a INT, b INT) RETURN a / b", "SAFE_DIVIDE exists: choose another name"),
        ("median(a INT) RETURN a", "MEDIAN exists: choose another name"),
        ("f(a INT) RETURN a + x", "only its parameters, not x"),
        ("f(a INT) RETURN SUM(a)", "takes no SUM"),
        ("f(a ARRAY<INT>, y INT) RETURN TRANSFORM(a, e -> e + y)", ""),
    ],
)
def test_a_user_function_reads_only_its_parameters_and_has_a_unique_name(
    function: str, message: str
) -> None:
    text = f"CREATE FUNCTION {function}; SELECT k FROM s"
    if not message:
        assert isinstance(sql(text, STREAMS, dialect="spark"), Stream)
        return
    with pytest.raises(SqlError, match=message):
        sql(text, STREAMS, dialect="spark")


def test_trunc_of_whole_numbers_drops_digits_before_the_point() -> None:
    calls = [f"TRUNC(CAST({x} AS {kind}), {n}) AS c{i}" for i, (x, kind, n, _) in enumerate(CUT)]
    assert list(rows(f"SELECT {', '.join(calls)} FROM s")[0].values())[2:] == [c[3] for c in CUT]


def test_spark_explodes_null_lists_and_positions() -> None:
    held = "FROM (SELECT i, IF(i = 1, ARRAY('a', 'b'), NULL) AS l FROM VALUES (1), (2) AS v (i)) s"
    found = rows(f"SELECT i, POSEXPLODE(l) AS (p, x) {held}", "spark")
    assert [(row["i"], row["p"], row["x"]) for row in found] == [(1, 0, "a"), (1, 1, "b")]
    found = rows(f"SELECT i, EXPLODE_OUTER(l) AS x {held}", "spark")
    assert [(row["i"], row["x"]) for row in found] == [(1, "a"), (1, "b"), (2, None)]


def test_positions_of_with_offset_count_from_zero() -> None:
    query = "SELECT x, p FROM (SELECT ARRAY['a', 'b'] AS l) AS s, UNNEST(l) AS x WITH OFFSET AS p"
    assert [(row["x"], row["p"]) for row in rows(query, "duckdb")] == [("a", 0), ("b", 1)]

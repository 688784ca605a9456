"""INSERT INTO a table that the text reads: rows of VALUES, and queries that become a UNION ALL.

Not covered: rows without the row that their REFERENCES names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from planner import SqlError, Stream, sql
from planner.physical.lower import lower
from rstream.items.batch import VE, VS
from tests.support.plan_runner import answer

if TYPE_CHECKING:
    from pathlib import Path

STREAM = "CREATE STREAM s (k VARCHAR KEY, v INT{0}) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON'{1});"
WINDOW = "SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY k EMIT FINAL"


def rows(text: str, dialect: str) -> list[tuple[Any, ...]]:
    made = sql(text, dialect=dialect)
    assert isinstance(made, Stream)
    found = answer(lower(made.to_parquet(), root="memory://inserted", parallelism=2)).to_pylist()
    return sorted(tuple(v for n, v in row.items() if n not in (VS, VE)) for row in found)


def test_columns_have_defaults_identities_and_declared_types() -> None:
    text = """
    CREATE TABLE t (id SERIAL PRIMARY KEY, name VARCHAR(9) DEFAULT 'x', n NUMERIC(6, 2), a INT[],
        u TEXT UNIQUE CHECK (u <> ''), FOREIGN KEY (u) REFERENCES other (u));
    INSERT INTO t (n, A) VALUES (3.456, ARRAY[1]), (1, '{2,3}');
    INSERT INTO t VALUES (DEFAULT, 'y', -2, NULL, 'z');
    SELECT id, name, CAST(n AS TEXT) AS n, a, u FROM t"""
    wanted = [
        (1, "x", "3.46", [1], None),
        (2, "x", "1.00", [2, 3], None),
        (3, "y", "-2.00", None, "z"),
    ]
    assert rows(text, "postgres") == wanted


def test_the_last_row_of_a_key_is_kept() -> None:
    text = """
    CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR);
    INSERT INTO t VALUES (1, 'a'), (2, 'b'); INSERT INTO t VALUES (1, 'c'); SELECT * FROM t"""
    assert rows(text, "flink") == [(1, "c"), (2, "b")]
    with pytest.raises(SqlError, match=r"row 3 of VALUES repeats 1 in the unique columns \(id\)"):
        rows(text, "postgres")


@pytest.mark.parametrize(
    ("columns", "values"),
    [
        ("a INT CHECK (a > 0), b INT", "(1, 1), (0, 1)"),
        ("a INT CHECK (a > 0), b INT", "(NULL, 1)"),
        ("a INT, b INT, CHECK (a < b OR b IS NULL)", "(3, NULL), (3, 2)"),
        ("a INT, b VARCHAR CHECK (LENGTH(b) > 1)", "(1, 'ab'), (2, 'c')"),
        ("a INT PRIMARY KEY, b INT", "(1, 1), (2, 1), (1, 2)"),
        ("a INT, b INT, PRIMARY KEY (a, b)", "(1, 1), (2, 1), (1, 2)"),
        ("a INT, b INT, PRIMARY KEY (a, b)", "(1, 1), (2, 1), (1, 1)"),
        ("a DOUBLE UNIQUE, b INT", "(1.5, 1), (1.5, 2)"),
        ("a DOUBLE UNIQUE, b INT", "(0.0, 1), (CAST('-0.0' AS DOUBLE), 2)"),
        ("a DOUBLE UNIQUE, b INT", "(CAST('NaN' AS DOUBLE), 1), (CAST('NaN' AS DOUBLE), 2)"),
        ("b INT, a INT UNIQUE", "(1, NULL), (2, NULL)"),
        ("a INT, b INT, UNIQUE (A, b)", "(1, NULL), (1, NULL), (1, 1), (1, 1)"),
    ],
)
def test_rows_that_duckdb_rejects_are_rejected(columns: str, values: str) -> None:
    text = f"CREATE TABLE t ({columns}); INSERT INTO t VALUES {values}; SELECT * FROM t"
    try:
        with duckdb.connect() as duck:
            wanted = duck.sql(text).fetchall()
    except duckdb.ConstraintException:
        with pytest.raises(SqlError, match=r"of VALUES (repeats|does not)"):
            rows(text, "duckdb")
        return
    assert rows(text, "duckdb") == sorted(wanted)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("JSONB", """('{"a":1,"b":2}'), ('{"b": 2, "a": 1}')"""),
        ("DOUBLE PRECISION", "(0.0), (-0.0)"),
        ("DOUBLE PRECISION[]", "(ARRAY[0.0]), (ARRAY[-0.0])"),
    ],
)
def test_values_of_a_unique_column_are_compared_by_value(kind: str, values: str) -> None:
    text = f"CREATE TABLE t (a {kind} #); INSERT INTO t VALUES {values}; SELECT * FROM t"
    for word in ("UNIQUE", "PRIMARY KEY"):
        with pytest.raises(SqlError, match="row 2 of VALUES repeats"):
            rows(text.replace("#", word), "postgres")
    assert len(rows(text.replace("#", "NOT NULL"), "postgres")) == 2


def test_checks_are_not_applied_to_rows_of_a_query() -> None:
    text = "CREATE TABLE t (a INT CHECK (a > 0)); INSERT INTO t SELECT -1; SELECT * FROM t"
    with pytest.raises(SqlError, match="CHECK and UNIQUE of rows of a SELECT"):
        sql(text, dialect="duckdb")


def test_rows_of_values_and_of_a_query_fill_one_table() -> None:
    text = """
    CREATE TABLE t (a INT DEFAULT 5, b INT, c TEXT);
    INSERT INTO t VALUES (9, 9, 'before');
    CREATE VIEW seen AS SELECT a, COALESCE(b, -1) AS b, c FROM t;
    INSERT INTO t (B, c) SELECT 2.7, 'q';
    INSERT INTO t (c) WITH w AS (SELECT 'w' AS x) SELECT x FROM w;
    INSERT INTO t (a, c) VALUES (1, UPPER('v'));
    SELECT * FROM seen"""
    wanted = [(1, -1, "V"), (5, -1, "w"), (5, 3, "q"), (9, 9, "before")]
    assert rows(text, "postgres") == wanted


def test_overwrite_drops_the_earlier_rows() -> None:
    text = """
    CREATE TABLE t (a INT); INSERT INTO t VALUES (1); INSERT OVERWRITE t {0} 2;
    INSERT INTO t VALUES (3); SELECT * FROM t"""
    assert (
        rows(text.format("VALUES"), "spark") == rows(text.format("SELECT"), "spark") == [(2,), (3,)]
    )


@pytest.mark.parametrize(
    ("insert", "message"),
    [
        ("VALUES (1, 2) ON CONFLICT DO NOTHING", "leave ON CONFLICT out"),
        ("SELECT 1, 2", "ROW_NUMBER"),
    ],
)
def test_inserts_that_affect_other_rows_are_rejected(insert: str, message: str) -> None:
    text = f"CREATE TABLE t (a INT PRIMARY KEY, b INT); INSERT INTO t {insert}; SELECT * FROM t"
    with pytest.raises(SqlError, match=message):
        sql(text, dialect="postgres")


def test_identity_columns_for_rows_of_a_query_are_rejected() -> None:
    text = "CREATE TABLE t (a SERIAL, b INT); INSERT INTO t (b) SELECT 2; SELECT * FROM t"
    with pytest.raises(SqlError, match="write the values of this column"):
        sql(text, dialect="postgres")


@pytest.mark.parametrize("mark", ["", ", WATERMARK FOR ts AS ts - INTERVAL '1' SECOND"])
def test_windows_use_the_column_they_name(mark: str) -> None:
    text = f"""
    CREATE TABLE t (v INT, ts TIMESTAMP(3){mark});
    INSERT INTO t VALUES (2, TIMESTAMP '2025-01-01 00:00:40'), (1, '2025-01-01 00:00:01');
    SELECT SUM(v) AS s FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '30' SECOND))
    GROUP BY window_start, window_end"""
    assert rows(text, "flink") == [(1,), (2,)]


def test_rowtime_is_the_time_of_a_row_in_milliseconds() -> None:
    insert = "INSERT INTO s (ROWTIME, k, v) VALUES ({0}, 'a', 1);"
    text = STREAM.format("", "") + "".join(map(insert.format, (0, 59_999, 60_000))) + WINDOW
    assert rows(text, "ksqldb") == [("a", 1), ("a", 2)]


def test_a_window_over_rows_without_a_time_is_rejected() -> None:
    text = STREAM.format("", "") + "INSERT INTO s VALUES ('a', 1);" + WINDOW
    with pytest.raises(SqlError, match="list ROWTIME"):
        sql(text, dialect="ksqldb")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("('a', 'b')", "cannot evaluate"),
        ("('a')", "no time"),
        ("('a', 1, 2)", "write a time"),
        ("('a', 1, '2025-01-01', 3)", "4 values"),
    ],
)
def test_values_that_do_not_fit(values: str, message: str) -> None:
    text = STREAM.format(", at TIMESTAMP", ", TIMESTAMP='at'") + f"INSERT INTO s VALUES {values};"
    with pytest.raises(SqlError, match=message):
        sql(text + "SELECT * FROM s", dialect="ksqldb")


def test_a_query_adds_rows() -> None:
    text = (
        STREAM.format("", "")
        + """
    INSERT INTO s VALUES ('a', 1); INSERT INTO s VALUES ('b', 5);
    CREATE STREAM big AS SELECT * FROM s WHERE v > 3;
    CREATE STREAM bigger AS SELECT k FROM big;
    CREATE STREAM small AS SELECT * FROM s WHERE v < 3;
    INSERT INTO big SELECT * FROM small;
    SELECT * FROM bigger"""
    )
    assert rows(text, "ksqldb") == [("a",), ("b",)]


def test_values_and_queries_for_one_table_are_rejected() -> None:
    text = STREAM.format("", "") + "INSERT INTO s VALUES ('a', 1);"
    text += "CREATE STREAM r AS SELECT * FROM s; INSERT INTO s SELECT * FROM r; SELECT * FROM s;"
    with pytest.raises(SqlError, match="UNION ALL"):
        sql(text, dialect="ksqldb")


def test_a_null_in_a_not_null_column_is_rejected() -> None:
    text = "CREATE TABLE t (v INT NOT NULL, w INT); INSERT INTO t (w) VALUES (1); SELECT * FROM t"
    with pytest.raises(SqlError, match="v is NOT NULL"):
        sql(text, dialect="postgres")


@pytest.mark.parametrize("last", ["b", "a"])
def test_a_ksqldb_table_over_a_file_without_times_needs_unique_keys(
    tmp_path: Path, last: str
) -> None:
    (tmp_path / "t.csv").write_text(f"k,v\na,1\n{last},2\n")
    declared = "CREATE TABLE t (k VARCHAR PRIMARY KEY, v INT) WITH (PATH='{0}/t.csv'); {1}"
    text = declared.format(tmp_path, "SELECT * FROM t EMIT CHANGES;")
    if last == "b":
        assert rows(text, "ksqldb") == [("a", 1), ("b", 2)]
        return
    with pytest.raises(SqlError, match="the key 'a' is in more than one row"):
        sql(text, dialect="ksqldb")


@pytest.mark.parametrize("dialect", ["spark", "postgres"])
@pytest.mark.parametrize(
    ("insert", "message"), [("VALUES ('abc')", "'abc' is too long"), ("SELECT 'abc'", "SUBSTRING")]
)
def test_a_text_that_is_too_long_is_rejected(dialect: str, insert: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        sql(
            f"CREATE TABLE t (a VARCHAR(2)); INSERT INTO t {insert}; SELECT a FROM t",
            dialect=dialect,
        )


COPIED = """CREATE TABLE t (a INT); INSERT INTO t VALUES (1); {0}
    INSERT INTO t VALUES (2); SELECT * FROM u"""


@pytest.mark.parametrize("dialect", ["spark", "postgres", "duckdb"])
@pytest.mark.parametrize(
    "made",
    [
        "CREATE TABLE u AS SELECT * FROM t;",
        "CREATE VIEW v AS SELECT * FROM t; CREATE TABLE u AS SELECT * FROM v;",
        "CREATE TABLE u (a INT); INSERT INTO u SELECT a FROM t;",
        "CREATE TABLE v (a INT); INSERT INTO v SELECT a FROM t; CREATE VIEW u AS SELECT * FROM v;",
    ],
)
def test_a_copied_table_gets_no_later_rows(dialect: str, made: str) -> None:
    with pytest.raises(SqlError, match=r"[uv] is a copy"):
        sql(COPIED.format(made), dialect=dialect)


def test_flink_views_and_tables_are_not_copies() -> None:
    assert rows(COPIED.format("CREATE VIEW u AS SELECT * FROM t;"), "duckdb") == [(1,), (2,)]
    assert rows(COPIED.format("CREATE TABLE u AS SELECT * FROM t;"), "flink") == [(1,), (2,)]


def test_a_with_name_does_not_refer_to_a_copied_table() -> None:
    text = """CREATE TABLE s (a INT); CREATE TABLE t (a INT); INSERT INTO t VALUES (1);
    CREATE TABLE u AS WITH s AS (SELECT a FROM t) SELECT * FROM s; INSERT INTO s VALUES (2);
    SELECT u.a FROM u UNION ALL SELECT s.a FROM s"""
    assert rows(text, "duckdb") == [(1,), (2,)]


@pytest.mark.parametrize("item", ["'abc'", "CAST(s AS VARCHAR(3))"])
def test_a_text_of_a_select_that_fits_is_inserted(item: str) -> None:
    text = f"""CREATE TABLE t (a VARCHAR(3), b INT); CREATE TABLE r (s VARCHAR);
    INSERT INTO r VALUES ('abc'); INSERT INTO t SELECT {item}, 1 FROM r; SELECT a FROM t"""
    assert rows(text, "postgres") == [("abc",)]


def test_trailing_spaces_are_cut() -> None:
    text = "CREATE TABLE t (a VARCHAR(3)); INSERT INTO t VALUES ('ab    '); SELECT a FROM t"
    assert rows(text, "postgres") == [("ab ",)]


def test_equal_json_values_form_one_group() -> None:
    text = """CREATE TABLE t (j JSONB);
    INSERT INTO t VALUES ('{"a": 1, "b": 2}'), ('{"b":2,"a":1.0}');
    SELECT j AS k, COUNT(*) AS n FROM t GROUP BY j"""
    assert rows(text, "postgres") == [('{"a":1,"b":2}', 2)]

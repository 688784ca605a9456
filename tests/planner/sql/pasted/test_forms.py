"""Forms of other engines: sessions, the current time, windows over groups, cursors.

Cannot catch: forms over joins of several streams, which the pasted cases have.
"""

from __future__ import annotations

from typing import Any

import pytest

from planner import SqlError, Stream, event, sql
from planner.physical.lower import lower
from rstream.items.batch import VE, VS
from tests.support.plan_runner import answer

SECOND = 1_000_000
POINTS = Stream.from_items(
    {"k": "string", "x": "int64"},
    [event(t * SECOND, k=k, x=x) for t, k, x in ((0, "a", 1), (5, "a", 2), (11, "a", 4))],
)
LASTING = POINTS.set_duration("1s")
KEPT = POINTS.for_ever()
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
def test_rows_exactly_a_gap_apart_are_in_one_session_of_flink_spark_and_ksqldb(
    dialect: str | None, wanted: list[tuple[int, ...]]
) -> None:
    found = rows("SELECT SUM(x) AS n FROM p GROUP BY k, SESSION('5 seconds')", dialect)
    assert [(*seconds(row), row["n"]) for row in found] == wanted


def test_a_session_of_ksqldb_ends_with_its_last_row() -> None:
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
def test_a_condition_on_the_current_time_is_a_lifetime(
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
        ("SELECT mz_now() AS m FROM p", "MZ_NOW is not supported"),
    ],
)
def test_other_conditions_on_the_current_time_are_refused(text: str, hint: str) -> None:
    with pytest.raises(SqlError, match=hint):
        sql(text, STREAMS, dialect="postgres")


@pytest.mark.parametrize("dialect", ["flink", "spark", "duckdb", None])
def test_the_current_time_is_refused_elsewhere(dialect: str | None) -> None:
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


def test_a_comparison_with_all_values_beside_or_has_the_nulls_of_sql() -> None:
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


def test_rowtime_of_a_side_of_a_join_is_refused() -> None:
    text = "SELECT a.ROWTIME AS t FROM p a JOIN p b WITHIN 1 SECOND ON a.k = b.k EMIT CHANGES"
    with pytest.raises(SqlError, match="name its time column"):
        sql(text, STREAMS, dialect="ksqldb")


def test_hop_of_a_slide_and_a_size_is_not_a_hop_with_gaps() -> None:
    text = "SELECT COUNT(*) AS n FROM p GROUP BY hop(interval '5 seconds', interval '10 seconds')"
    assert [row["n"] for row in rows(text, "postgres")] == [1, 2, 2, 1]

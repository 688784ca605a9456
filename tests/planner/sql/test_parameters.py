"""Values for ``:name`` and ``?`` become literals, with any characters.

Not covered: a SQL value that ``params`` does not accept.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from planner import InvalidPlanError, SqlError, Stream, event, sql
from planner.physical.lower import lower
from tests.support.plan_runner import answer

if TYPE_CHECKING:
    from planner.sql.reading.parameters import Parameters

ROWS = Stream.from_items(
    {"k": "string", "x": "int64"}, [event(n, k="abc"[n % 3], x=n) for n in range(6)]
)
NAIVE = datetime.fromisoformat("2026-01-02 03:04:05.000006")


def rows(text: str, params: Parameters) -> list[dict[str, Any]]:
    made = sql(text, {"t": ROWS}, params=params)
    assert isinstance(made, Stream)
    found = answer(lower(made.to_parquet(), root="memory://o")).to_pylist()
    return [{name: v for name, v in row.items() if name[0] != "_"} for row in found]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (7, 7),
        (-7, -7),
        (True, True),
        ("it's; DROP TABLE t --", "it's; DROP TABLE t --"),
        (2.5, 2.5),
        (-0.1, -0.1),
        (float("inf"), float("inf")),
        (Decimal("12.50"), Decimal("12.50")),
        (Decimal("-0.001"), Decimal("-0.001")),
        (Decimal("3E+2"), Decimal(300)),
        (date(2026, 1, 2), date(2026, 1, 2)),
        (NAIVE, NAIVE.replace(tzinfo=UTC)),
        (
            datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=2))),
            datetime(2026, 1, 2, 1, tzinfo=UTC),
        ),
        (timedelta(days=1, microseconds=3), timedelta(days=1, microseconds=3)),
    ],
)
def test_a_parameter_equals_its_literal(value: Any, wanted: Any) -> None:
    for text, params in (
        ("SELECT :v AS v FROM t", {"v": value}),
        ("SELECT ? AS v FROM t", [value]),
    ):
        found = rows(text + " WHERE x = 0", params)
        assert [(row["v"], type(row["v"])) for row in found] == [(wanted, type(wanted))]


def test_parameters_are_allowed_wherever_a_literal_is() -> None:
    text = """WITH some AS (SELECT k, x FROM t WHERE k IN (:keys) AND x > :low)
        SELECT k, count(*) AS n FROM some GROUP BY k, TUMBLE(:size) HAVING count(*) >= :low"""
    given = {"keys": ["a", "c"], "low": 1, "size": timedelta(seconds=1)}
    found = sorted(rows(text, given), key=lambda row: row["k"])
    assert found == [{"k": "a", "n": 1}, {"k": "c", "n": 2}]
    assert rows("SELECT x FROM t WHERE x IN (?, ?) AND k = ?", [0, 1, "b"]) == [{"x": 1}]
    assert rows("SELECT x FROM t WHERE x = :v", {"v": None}) == []


def test_parameters_in_the_order_of_the_text() -> None:
    text = "SELECT ? AS a, (? + ?) * 10 AS b FROM t WHERE x = ? ORDER BY vs()"
    assert rows(text, [1, 2, 3, 4]) == [{"a": 1, "b": 50}]


def test_wrong_parameters_are_named() -> None:
    for params, words in (
        ({}, "the parameter :v has no value; params has: none"),
        ({"w": 1}, "the parameter :v has no value; params has: w"),
        ({"v": [1]}, "not list"),
        ({"v": b"x"}, "not bytes"),
    ):
        with pytest.raises(SqlError, match=words):
            sql("SELECT :v AS v FROM t", {"t": ROWS}, params=params)
    with pytest.raises(SqlError, match=r"line 1, column 16: there are more \? than the 1"):
        sql("SELECT ? AS v, ? AS w FROM t", {"t": ROWS}, params=[1])
    with pytest.raises(InvalidPlanError, match="no parameter for w"):
        sql("SELECT :v AS v FROM t", {"t": ROWS}, params={"v": 1, "w": 2})
    with pytest.raises(InvalidPlanError, match="a dict for :name, or a list"):
        sql("SELECT :v AS v FROM t", {"t": ROWS}, params="v")

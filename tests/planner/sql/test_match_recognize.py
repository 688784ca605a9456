"""MATCH_RECOGNIZE in SQL: the examples of Flink's documentation, and errors.

Not covered: rules of matching itself (see ``tests/rvertex/operators/test_match_patterns.py``).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import streamscope as ss
from planner.explain.text import explain
from planner.physical.lower import lower
from planner.sql.reading.errors import SqlError

START = datetime(2011, 4, 1, 10, tzinfo=UTC)


def ticker(rows: list[tuple[int, int, int]], symbol: str = "ACME", step_s: int = 1) -> ss.Stream:
    """Rows of seconds, price and tax."""
    events = [
        ss.event(START + timedelta(seconds=t * step_s), symbol=symbol, price=price, tax=tax)
        for t, price, tax in rows
    ]
    schema = {"symbol": "string", "price": "int64", "tax": "int64"}
    return ss.Stream.from_items(schema, events)


def answer(text: str, stream: ss.Stream) -> list[dict[str, Any]]:
    found = ss.collect(ss.sql(text, {"Ticker": stream}), executor="local").to_pylist()
    return [{k: v for k, v in row.items() if k not in ("_vs", "_ve")} for row in found]


PRICES = [12, 17, 19, 21, 25, 18, 15, 14, 24, 25, 19]
DROP = ticker([(i, price, 1) for i, price in enumerate(PRICES)])


def test_a_price_drop() -> None:
    text = """
        SELECT * FROM Ticker MATCH_RECOGNIZE (
            PARTITION BY symbol
            ORDER BY vs()
            MEASURES
                START_ROW.price AS start_price,
                LAST(PRICE_DOWN.price) AS bottom_price,
                LAST(PRICE_UP.price) AS end_price
            ONE ROW PER MATCH
            AFTER MATCH SKIP TO LAST PRICE_UP
            PATTERN (START_ROW PRICE_DOWN+ PRICE_UP)
            DEFINE
                PRICE_DOWN AS
                    (LAST(PRICE_DOWN.price, 1) IS NULL AND PRICE_DOWN.price < START_ROW.price) OR
                        PRICE_DOWN.price < LAST(PRICE_DOWN.price, 1),
                PRICE_UP AS PRICE_UP.price > LAST(PRICE_DOWN.price, 1)
        ) MR"""
    row = {"symbol": "ACME", "start_price": 25, "bottom_price": 14, "end_price": 24}
    assert answer(text, DROP) == [row]


def test_explain_shows_the_state_that_stays_in_memory() -> None:
    text = """
        SELECT * FROM Ticker MATCH_RECOGNIZE (
            PARTITION BY symbol ORDER BY vs() MEASURES A.price AS price
            PATTERN (A B) DEFINE B AS B.price < A.price
        ) MR"""
    matches = ss.sql(text, {"Ticker": DROP})
    assert isinstance(matches, ss.Stream)
    stages = explain(lower(matches.to_parquet(), root="r"), "text")
    assert "  state of match: about 1 kB per key with an open match stays in memory" in stages
    others = explain(lower(DROP.to_parquet(), root="r"), "text")
    assert "state of match" not in others


def test_an_average_below_a_threshold() -> None:
    prices = [12, 17, 13, 16, 25, 2, 4, 10, 15, 25, 25, 30]
    text = """
        SELECT * FROM Ticker MATCH_RECOGNIZE (
            PARTITION BY symbol
            ORDER BY vs()
            MEASURES FIRST(A.price) AS first_price, COUNT(A.*) AS n, AVG(A.price) AS avgPrice
            ONE ROW PER MATCH
            AFTER MATCH SKIP PAST LAST ROW
            PATTERN (A+ B)
            DEFINE A AS AVG(A.price) < 15
        ) MR"""
    assert answer(text, ticker([(i, p, 1) for i, p in enumerate(prices)])) == [
        {"symbol": "ACME", "first_price": 12, "n": 4, "avgPrice": 14.5},
        {"symbol": "ACME", "first_price": 2, "n": 6, "avgPrice": 13.5},
    ]


@pytest.mark.parametrize(("quantifier", "prices"), [("B*", [16]), ("B*?", [13, 16])])
def test_greedy_and_reluctant(quantifier: str, prices: list[int]) -> None:
    text = f"""
        SELECT * FROM Ticker MATCH_RECOGNIZE (
            PARTITION BY symbol
            ORDER BY vs()
            MEASURES C.price AS lastPrice
            ONE ROW PER MATCH
            AFTER MATCH SKIP PAST LAST ROW
            PATTERN (A {quantifier} C)
            DEFINE A AS A.price > 10, B AS B.price < 15, C AS C.price > 12
        )"""
    rows = ticker([(i, p, 1) for i, p in enumerate([10, 11, 12, 13, 14, 16])], "XYZ")
    assert answer(text, rows) == [{"symbol": "XYZ", "lastPrice": price} for price in prices]


def test_a_drop_within_an_hour() -> None:
    """The hour is included: 15 at 12:00 falls to 1 at 13:00."""
    prices = [20, 17, 18, 11, 14, 9, 15, 14, 24, 1, 19]
    text = """
        SELECT * FROM Ticker MATCH_RECOGNIZE (
            PARTITION BY symbol
            ORDER BY vs()
            MEASURES A.price AS first_price, A.price - C.price AS dropDiff
            ONE ROW PER MATCH
            AFTER MATCH SKIP PAST LAST ROW
            PATTERN (A B* C) WITHIN INTERVAL '1' HOUR
            DEFINE B AS B.price > A.price - 10, C AS C.price < A.price - 10
        )"""
    rows = ticker([(i, p, 1) for i, p in enumerate(prices)], step_s=1200)
    assert answer(text, rows) == [{"symbol": "ACME", "first_price": 15, "dropDiff": 14}]


def test_rising_prices_and_a_fall() -> None:
    text = """
        SELECT * FROM Ticker MATCH_RECOGNIZE (
            PARTITION BY symbol
            ORDER BY vs()
            MEASURES FIRST(A.price) AS startPrice, LAST(A.price) AS topPrice, B.price AS lastPrice
            ONE ROW PER MATCH
            PATTERN (A+ B)
            DEFINE
                A AS LAST(A.price, 1) IS NULL OR A.price > LAST(A.price, 1),
                B AS B.price < LAST(A.price)
        )"""
    rows = ticker([(i, p, 1) for i, p in enumerate([10, 12, 13, 11])], "XYZ")
    row = {"symbol": "XYZ", "startPrice": 10, "topPrice": 13, "lastPrice": 11}
    assert answer(text, rows) == [row]


def test_all_rows_per_match_with_running_and_final_values_and_exclusion() -> None:
    text = """
        SELECT cl, price, low, whole, n, total FROM Ticker MATCH_RECOGNIZE (
            PARTITION BY symbol
            MEASURES
                CLASSIFIER() AS cl, LAST(D.price) AS low, FINAL LAST(D.price) AS whole,
                MATCH_NUMBER() AS n, RUNNING SUM(E.price) - FINAL SUM(E.price) AS total
            ALL ROWS PER MATCH
            PATTERN (S {- D -} D* U)
            SUBSET E = (S, D)
            DEFINE D AS price < PREV(price), U AS price > PREV(price) AND NEXT(price) IS NOT NULL
        ) AS m WHERE m.price > 0"""
    assert [tuple(row.values()) for row in answer(text, DROP)] == [
        ("S", 25, None, 14, 1, -47),
        ("D", 15, 15, 14, 1, -14),
        ("D", 14, 14, 14, 1, 0),
        ("U", 24, 14, 14, 1, 0),
    ]


def test_an_expensive_argument_is_computed_beside_rows_of_the_match() -> None:
    """A large argument is computed once by a lambda, which has no rows of a match."""
    stream = ticker([(0, 3, 1), (1, 4, 1)])

    def found(value: str) -> list[dict[str, Any]]:
        text = """SELECT * FROM Ticker MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY vs()
            MEASURES HYPOT(@, PREV(B.price)) AS p, HYPOT(@, A.price) AS a,
            HYPOT(LAST(B.price), @) AS l PATTERN (A B) DEFINE B AS HYPOT(@, A.price) > 4) AS m"""
        return answer(text.replace("@", value), stream)

    assert found(f"COALESCE({', '.join(['B.price'] * 160)})") == found("B.price")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("PATTERN (^ A B)", r"\^ is not supported"),
        ("PATTERN (A B $)", r"\$ is not supported"),
        ("PATTERN (A B) DEFINE X AS price > 1", "no variable 'X' in the pattern"),
        ("MEASURES Z.price AS z PATTERN (A B)", "no variable 'Z' in the pattern"),
        ("MEASURES A.pric AS z PATTERN (A B)", "no column 'pric'; did you mean 'price'"),
        ("MEASURES SUM(A.price + B.price) AS z PATTERN (A B)", "to one variable"),
        ("MEASURES A.price + 1, B.price AS b PATTERN (A B)", "a measure needs a name"),
        ("ORDER BY price MEASURES A.price AS p PATTERN (A B)", "in order of time"),
        ("MEASURES A.price AS p DEFINE A AS price > 1", r"needs PATTERN \(\.\.\.\)"),
        ("MEASURES A.price AS p PATTERN (A B) DEFINE B AS FINAL LAST(price) > 1", "FINAL is for"),
        ("MEASURES A.price AS p PATTERN (A B) DEFINE B AS price", "is int64, not bool"),
        ("MEASURES A.price AS p AFTER MATCH SKIP TO FIRST Q PATTERN (A B)", "no variable 'Q'"),
        ("MEASURES PREV(SUM(price)) AS p PATTERN (A B)", "."),
        ("ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A {- B -})", "leaves rows out"),
        ("MEASURES A.price AS p PATTERN (A{3,2})", "the second number must be at least the first"),
        ("MEASURES A.price AS p PATTERN (A (B)", "."),
    ],
)
def test_unsupported_patterns_are_rejected(text: str, reason: str) -> None:
    with pytest.raises(SqlError, match=reason):
        ss.sql(f"SELECT * FROM Ticker MATCH_RECOGNIZE ({text})", {"Ticker": DROP})


def test_keywords_of_match_recognize_are_names_elsewhere() -> None:
    columns = {"final": "int64", "running": "int64", "measures": "int64", "define": "int64"}
    rows = ss.Stream.from_items(columns, [ss.event(1, final=1, running=2, measures=3, define=4)])
    text = "SELECT final + running AS a, measures, define FROM match_recognize"
    found = ss.collect(ss.sql(text, {"match_recognize": rows}), executor="local")
    assert found["a"].to_pylist() == [3]


def test_first_with_a_number_of_rows_is_only_for_matches() -> None:
    with pytest.raises(SqlError, match="a number of rows is for MATCH_RECOGNIZE"):
        ss.sql("SELECT FIRST(price, 2) AS x FROM Ticker GROUP BY TUMBLE('1s')", {"Ticker": DROP})


def test_matches_are_points_for_later_steps() -> None:
    text = """
        SELECT COUNT(*) AS n FROM (
            SELECT * FROM Ticker MATCH_RECOGNIZE (
                MEASURES LAST(price) AS p PATTERN (A B) DEFINE B AS price < PREV(price)
            ) WHERE p > 0
        ) GROUP BY TUMBLE('5s')"""
    assert [row["n"] for row in answer(text, DROP)] == [2, 1]

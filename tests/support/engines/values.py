"""Values of SQL expressions as in other engines' documents, especially of nulls.

``x`` is 1, ``n`` a null number, ``b`` a null boolean, ``s`` 'abc', ``e`` '', ``lines`` two lines,
and ``t`` the last evening of January 2026. The comparisons of docs/SQL.md are not repeated.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

from planner import Stream, event

T = datetime(2026, 1, 31, 23, 30, 5, tzinfo=UTC)
ONE = Stream.from_items(
    {
        "x": "int64", "n": "int64", "b": "bool", "s": "string", "e": "string", "lines": "string",
        "t": "timestamp", "old": "timestamp", "leap": "date",
    },
    [
        event(
            0, x=1, n=None, b=None, s="abc", e="", lines="a\nb", t=T,
            old=datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), leap=date(2024, 2, 29),
        )
    ],
)  # fmt: skip


def _at(*parts: int) -> datetime:
    year, month, day, *rest = parts
    hour, minute, second = [*rest, 0, 0, 0][:3]
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC)


#: The engine, the rule in our words, and expressions with their values.
VALUES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "comparing null": (
        "Flink",
        "A comparison with null is unknown, which is null.",
        {"n = 1": None, "n <> 1": None, "n = n": None, "x < n": None, "NOT n > 1": None},
    ),
    "asking for null": (
        "Flink",
        "IS NULL and IS NOT NULL are never unknown.",
        {"n IS NULL": True, "n IS NOT NULL": False, "x IS NULL": False, "(n = 1) IS NULL": True},
    ),
    "and": (
        "Flink",
        "False and unknown is false; true and unknown is unknown.",
        {"b AND x > 1": False, "x > 1 AND b": False, "b AND x = 1": None, "b AND b": None},
    ),
    "or": (
        "Flink",
        "True or unknown is true; false or unknown is unknown.",
        {"b OR x = 1": True, "x = 1 OR b": True, "b OR x > 1": None},
    ),
    "is true": (
        "Flink",
        "IS TRUE takes unknown for not true.",
        {"b IS TRUE": False, "(x = 1) IS TRUE": True},
    ),
    "arithmetic of null": (
        "RisingWave",
        "Null in arithmetic gives null.",
        {"x + n": None, "n * 0": None, "-n": None, "abs(n)": None, "round(n)": None},
    ),
    "in": (
        "Flink",
        "IN is true where one is equal, else unknown where one is null, else false.",
        {"x IN (1, NULL)": True, "x IN (2, NULL)": None, "x IN (2, 3)": False, "n IN (1)": None},
    ),
    "not in": (
        "Spark",
        "NOT IN a list with a null is never true.",
        {"x NOT IN (2, NULL)": None, "x NOT IN (1, NULL)": False, "x NOT IN (2, 3)": True},
    ),
    "between": (
        "Flink",
        "BETWEEN has both bounds, and nothing where they are swapped.",
        {"x BETWEEN 1 AND 1": True, "x BETWEEN 0 AND 1": True, "x BETWEEN 2 AND 0": False},
    ),
    "between symmetric": (
        "Flink",
        "SYMMETRIC puts the bounds in order.",
        {"x BETWEEN SYMMETRIC 2 AND 0": True, "x BETWEEN SYMMETRIC 3 AND 2": False},
    ),
    "between nulls": (
        "RisingWave",
        "BETWEEN is two comparisons: one false side is enough for false.",
        {"x BETWEEN n AND 0": False, "x BETWEEN n AND 5": None, "x NOT BETWEEN n AND 0": True},
    ),
    "case": (
        "Flink",
        "The first true condition wins, an unknown one does not, and without ELSE there is null.",
        {
            "CASE WHEN n > 0 THEN 'p' ELSE 'q' END": "q",
            "CASE WHEN x = 1 THEN 'p' WHEN x > 0 THEN 'q' END": "p",
            "CASE WHEN x > 1 THEN 'p' END": None,
        },
    ),
    "case of a value": (
        "RisingWave",
        "CASE x WHEN compares by equality.",
        {
            "CASE x WHEN 2 THEN 'two' WHEN 1 THEN 'one' END": "one",
            "CASE n WHEN 1 THEN 'one' ELSE 'none' END": "none",
        },
    ),
    "case guards": (
        "Spark",
        "A branch that is not taken does not fail.",
        {"CASE WHEN s LIKE '1%' THEN CAST(s AS INT) ELSE 0 END": 0},
    ),
    "coalesce": (
        "Flink",
        "The first that is not null.",
        {"COALESCE(n, x)": 1, "COALESCE(n, n, 7)": 7, "COALESCE(x, 7)": 1, "COALESCE(n, n)": None},
    ),
    "nullif": (
        "Flink",
        "Null where both are equal, else the first, also beside a null.",
        {"NULLIF(x, 1)": None, "NULLIF(x, 2)": 1, "NULLIF(x, n)": 1, "NULLIF(n, 1)": None},
    ),
    "if": (
        "Flink",
        "IF takes the last for false and for unknown.",
        {"IF(x = 1, 'p', 'q')": "p", "IF(n = 1, 'p', 'q')": "q"},
    ),
    "like": (
        "Flink",
        "_ is one character and % any number; letters have their case; the whole text matches.",
        {
            "s LIKE 'a_c'": True, "s LIKE 'a%'": True, "s LIKE 'A%'": False, "s LIKE 'ab'": False,
            "s LIKE '%b%'": True, "s LIKE '____'": False, "e LIKE '%'": True, "e LIKE '_'": False,
        },
    ),
    "like across lines": (
        "RisingWave",
        "% and _ match the end of a line as well.",
        {"lines LIKE 'a%b'": True, "lines LIKE 'a_b'": True, "lines LIKE 'a%'": True},
    ),
    "like escaped": (
        "Flink",
        "ESCAPE makes the next character one of the text.",
        {"'5%' LIKE '5!%' ESCAPE '!'": True, "s LIKE 'a!_c' ESCAPE '!'": False},
    ),
    "like and regular expressions": (
        "Spark",
        "What a regular expression would read is plain text to LIKE.",
        {"s LIKE 'a.c'": False, "s LIKE '[a]bc'": False, "REGEXP_LIKE(s, 'a.c')": True},
    ),
    "like null": (
        "Flink",
        "Null is like nothing, and not unlike anything.",
        {"NULLIF(s, 'abc') LIKE '%'": None, "NULLIF(s, 'abc') NOT LIKE 'z'": None},
    ),
    "casts of numbers": (
        "Flink",
        "A cast to an integer cuts the fraction off, towards zero.",
        {"CAST(x + 0.9 AS INT)": 1, "CAST(x - 2.9 AS INT)": -1, "CAST(x AS DOUBLE)": 1.0},
    ),
    "casts of text": (
        "Spark",
        "Text that is a number can be cast, and back.",
        {"CAST('12' AS INT)": 12, "CAST(x + 11 AS VARCHAR)": "12", "CAST('-3' AS BIGINT)": -3},
    ),
    "casts of booleans": (
        "Flink",
        "True is 1 as an integer.",
        {"CAST(x = 1 AS INT)": 1, "CAST(x > 1 AS INT)": 0, "CAST('true' AS BOOLEAN)": True},
    ),
    "casts of null": (
        "Flink",
        "Null is null in every type.",
        {"CAST(n AS VARCHAR)": None, "CAST(NULL AS INT)": None},
    ),
    "casts that fail": (
        "Flink",
        "TRY_CAST gives null where CAST would fail.",
        {"TRY_CAST(s AS INT)": None, "TRY_CAST(e AS INT)": None, "TRY_CAST('4' AS INT)": 4},
    ),
    "rounding": (
        "Spark",
        "ROUND goes away from zero at halves, also left of the point.",
        {
            "ROUND(x + 1.5)": 3.0, "ROUND(x - 3.5)": -3.0, "ROUND(x + 1249, -2)": 1300,
        },
    ),
    "ceil and floor": (
        "Flink",
        "CEIL and FLOOR keep the type of the number.",
        {"CEIL(x - 2.2)": -1.0, "FLOOR(x - 2.2)": -2.0, "CEIL(x)": 1},
    ),
    "texts": (
        "RisingWave",
        "Places in a text count from 1, and lengths are of characters.",
        {
            "SUBSTRING('stream', 2, 3)": "tre", "LENGTH('på')": 2, "UPPER(s)": "ABC",
            "SPLIT_PART('a,b,c', ',', 2)": "b", "s || 'd'": "abcd", "REPLACE(s, 'b', '')": "ac",
        },
    ),
    "empty text": (
        "RisingWave",
        "An empty text is not null.",
        {"e IS NULL": False, "LENGTH(e)": 0, "COALESCE(e, 'z')": "", "e || s": "abc"},
    ),
    "texts and null": (
        "Flink",
        "Null appended to a text gives null.",
        {"s || NULL": None, "UPPER(NULLIF(s, 'abc'))": None, "LENGTH(NULLIF(s, 'abc'))": None},
    ),
    "parts of times": (
        "Flink",
        "EXTRACT takes one field of a time.",
        {
            "EXTRACT(HOUR FROM t)": 23, "EXTRACT(DAY FROM t)": 31, "MONTH(t)": 1,
            "EXTRACT(YEAR FROM t)": 2026, "SECOND(t)": 5,
        },
    ),
    "truncated times": (
        "RisingWave",
        "DATE_TRUNC sets the smaller fields to their least.",
        {
            "DATE_TRUNC('hour', t)": _at(2026, 1, 31, 23), "DATE_TRUNC('day', t)": _at(2026, 1, 31),
            "DATE_TRUNC('minute', t)": _at(2026, 1, 31, 23, 30),
        },
    ),
    "times and intervals": (
        "Flink",
        "An interval is added across days and months.",
        {
            "t + INTERVAL '45' MINUTE": _at(2026, 2, 1, 0, 15, 5),
            "t - INTERVAL '1 day'": _at(2026, 1, 30, 23, 30, 5),
            "t + INTERVAL '1 hour' * 2": _at(2026, 2, 1, 1, 30, 5),
        },
    ),
    "differences of times": (
        "RisingWave",
        "The difference of two times is an interval.",
        {
            "t - TIMESTAMP '2026-01-31 23:00:00'": timedelta(minutes=30, seconds=5),
            "t > TIMESTAMP '2026-01-31 23:00:00'": True,
        },
    ),
    "times before 1970": (
        "Spark",
        "Fields of a time before 1970 are those of the calendar.",
        {
            "EXTRACT(SECOND FROM old)": 59, "YEAR(old)": 1969, "EPOCH_US(old)": -1_000_000,
            "DATE_TRUNC('day', old)": _at(1969, 12, 31), "DATE_TRUNC('hour', old)":
            _at(1969, 12, 31, 23), "old + INTERVAL '1' SECOND": _at(1970, 1, 1),
        },
    ),
    "dates": (
        "Flink",
        "A date is compared by the calendar.",
        {
            "leap < DATE '2024-03-01'": True, "YEAR(leap)": 2024, "DAY(leap)": 29,
            "CAST('2024-02-29' AS DATE) = leap": True,
            "leap BETWEEN DATE '2024-02-01' AND DATE '2024-02-29'": True,
        },
    ),
    "dates as times": (
        "Flink",
        "A date as a timestamp is its midnight, and a timestamp as a date its day.",
        {"CAST(leap AS TIMESTAMP)": _at(2024, 2, 29), "CAST(t AS DATE)": date(2026, 1, 31)},
    ),
}  # fmt: skip

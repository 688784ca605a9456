"""Calls of other engines with constants: the result there, and which are errors.

Not covered: differences with columns instead of constants.
"""

from __future__ import annotations

from typing import Any

import pytest

from planner import SqlError, Stream, event, sql
from planner.physical.lower import lower
from tests.support.ducks import duck
from tests.support.plan_runner import answer

ROWS = {"t": Stream.from_items({"k": "string", "i": "int64"}, [event(0, k="a", i=1)])}


def _row(listed: str, dialect: str) -> dict[str, Any]:
    made = sql(f"SELECT {listed} FROM t", ROWS, dialect=dialect)
    assert isinstance(made, Stream)
    plan = lower(made.to_parquet(), root="memory://constants", parallelism=1)
    (row,) = answer(plan).to_pylist()
    return dict(row)


@pytest.mark.parametrize(
    ("dialect", "answers"),
    [
        ("flink", {"STR_TO_MAP('k=a=b,x,k=2')": [("k", "2"), ("x", None)]}),
        (
            "spark",
            {
                "STR_TO_MAP('a:1:2,b')": [("a", "1:2"), ("b", None)],
                "SEQUENCE(3, 1)": [3, 2, 1],
                "ARRAY_INSERT(ARRAY(1, 2), -1, 9)": [1, 2, 9],
                "ARRAY_INSERT(ARRAY(1, 2), 4, 9)": [1, 2, None, 9],
                "ARRAY_INSERT(ARRAY(1, 2), -4, 9)": [9, None, 1, 2],
            },
        ),
        (
            "ksqldb",
            {
                "SPLIT_TO_MAP('a=1;a=2=3;x', ';', '=')": [("a", "2")],
                "GENERATE_SERIES(3, 1)": [3, 2, 1],
            },
        ),
        (
            "postgres",
            {
                "'[\"a\"]' ? 'a'": True,
                "'{\"a.b\": 1}' ? 'a.b'": True,
                '\'{"a": {"b": "c"}}\' ? \'a.b\'': False,
                "'{\"a b\": \"c\"}' ? 'c'": False,
                "JSON_EXTRACT_PATH_TEXT('{\"a\": [5, 6]}', 'a', '1')": "6",
                "JSONB_EXTRACT_PATH('{\"a\": {\"1\": {}}}', 'a', '1')": "{}",
                "ARRAY[1, 2] @> ARRAY[NULL, 1]": False,
            },
        ),
    ],
)
def test_constants_have_the_results_of_the_other_engine(
    dialect: str, answers: dict[str, Any]
) -> None:
    listed = ", ".join(f"{text} AS v{n}" for n, text in enumerate(answers))
    row = _row(listed, dialect)
    found = {text: row[f"v{n}"] for n, text in enumerate(answers)}
    assert found == answers


@pytest.mark.parametrize(
    ("dialect", "text", "hint"),
    [
        ("spark", "ARRAY_INSERT(ARRAY(1), 0, 9)", "places count from 1"),
        ("spark", "STR_TO_MAP('a:1,a:2')", "is null or repeated"),
        ("postgres", "JSON_EXTRACT_PATH_TEXT('[1]', k)", "write its steps as texts"),
        ("postgres", "JSONB_EXTRACT_PATH('[1]', '-1')", "write its steps as texts"),
    ],
)
def test_a_wrong_constant_is_rejected_with_a_hint(dialect: str, text: str, hint: str) -> None:
    with pytest.raises(SqlError, match=hint):
        sql(f"SELECT {text} AS v FROM t", ROWS, dialect=dialect)


def test_weeks_and_lists_with_nulls_equal_duckdb() -> None:
    starts = ("'1969-12-31'", "'2024-02-29 12:00'", "'2024-03-04 06:00'")
    texts = [
        *(f"DATE_DIFF('week', TIMESTAMP {a}, TIMESTAMP {b})" for a in starts for b in starts),
        *("LIST_HAS_ALL(CAST(NULL AS INT[]), [1])", "LIST_HAS_ALL([1, 2], [NULL, 1])"),
        *("[1, 2] @> [NULL, 1]", "CAST(NULL AS INT[]) @> [1]", "LIST_HAS_ALL([1], [2])"),
    ]
    listed = ", ".join(f"{text} AS v{n}" for n, text in enumerate(texts))
    row = _row(listed, "duckdb")
    wanted = duck().execute(f"SELECT {listed}").fetchone()
    assert tuple(row[f"v{n}"] for n in range(len(texts))) == wanted


@pytest.mark.parametrize(
    "number", ["9007199254740993.0", "-9007199254740992.5", "11111111111111111.89"]
)
def test_an_inexact_number_is_rejected_or_cast_with_all_its_digits(
    number: str,
) -> None:
    for text in (number, f"i = {number}", f"i IN ({number})", f"CAST({number} AS BIGINT)"):
        with pytest.raises(SqlError, match=r"the DOUBLE of -?\d+\.\d+ is -?\d+; .*CAST\('"):
            _row(f"{text} AS v", "duckdb")
    casts = [f"CAST({number} AS DECIMAL({digits}))" for digits in ("20,2", "20,0", "38,20")]
    casts.append(f"TRY_CAST({number} AS DECIMAL(4, 2))")
    listed = ", ".join(f"{text} AS v{n}" for n, text in enumerate(casts))
    row, wanted = _row(listed, "duckdb"), duck().execute(f"SELECT {listed}").fetchone()
    assert tuple(row[f"v{n}"] for n in range(len(casts))) == wanted

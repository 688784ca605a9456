"""``apply_sql``: rows computed by DuckDB, each alone; other queries are refused.

Cannot catch: functions of DuckDB that differ between two runs although DuckDB lists them as fixed.
"""

from __future__ import annotations

import pytest

from planner import Stream, event
from planner.physical.lower import lower
from rstream.errors import UsageError
from tests.support.plan_runner import answer

ROWS = Stream.from_items(
    {"s": "string", "x": "int64", "l": "list<int64>", "t": "timestamp"},
    [
        event(n, s="ab"[: n % 3], x=None if n % 4 == 3 else n, l=[n, 1][: n % 3], t=n * 1_000_000)
        for n in range(12)
    ],
)


def computed(query: str, rows_max: int) -> list[tuple[object, ...]]:
    plan = lower(ROWS.apply_sql(query, check_cuts=True).to_parquet(), root="r", parallelism=1)
    return [tuple(row.values())[2:] for row in answer(plan, rows_max=rows_max).to_pylist()]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        (
            "SELECT upper(s) AS u, x + 1 AS y FROM rows",
            [("AB"[: n % 3], None if n % 4 == 3 else n + 1) for n in range(12)],
        ),
        (
            "SELECT _row, e FROM rows, unnest(l) AS u(e) WHERE x IS NOT NULL",
            [(e,) for n in range(12) if n % 4 != 3 for e in [n, 1][: n % 3]],
        ),
        (
            "WITH a AS (SELECT *, _vs * 2 AS w FROM rows) SELECT w, epoch(t)::BIGINT AS z FROM a",
            [(2 * n, n) for n in range(12)],
        ),
    ],
)
def test_rows_are_computed_alone(query: str, wanted: list[tuple[object, ...]]) -> None:
    assert computed(query, 1) == computed(query, 5) == computed(query, 1000) == wanted


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT sum(x) FROM rows", "no aggregates"),
        ("SELECT (SELECT max(x)) FROM rows", "no aggregates"),
        ("SELECT x FROM rows GROUP BY ALL", "no aggregates"),
        ("SELECT x FROM rows GROUP BY x", "no aggregates"),
        ("SELECT lag(x) OVER () FROM rows", "window functions"),
        ("SELECT DISTINCT x FROM rows", "no DISTINCT"),
        ("SELECT x FROM rows ORDER BY x", "ORDER BY"),
        ("SELECT x FROM rows LIMIT 1", "LIMIT"),
        ("SELECT x FROM rows USING SAMPLE 2", "SAMPLE"),
        ("SELECT x FROM rows UNION ALL SELECT x FROM rows", "no UNION"),
        ("SELECT a.x FROM rows a JOIN rows b ON a.x = b.x", "once, not 'rows'"),
        ("WITH a AS (FROM rows) SELECT a.x FROM a, a AS b", "once, not 'a'"),
        ("SELECT x FROM 'other.parquet'", "once, not 'other.parquet'"),
        ("SELECT * FROM read_csv('other.csv')", r"not read_csv\(\)"),
        ("SELECT random() AS r FROM rows", "random may differ"),
        ("SELECT current_date AS d FROM rows", "current_date may differ"),
        ("SELECT now() AS d FROM rows", "now may differ"),
        ("SELECT none FROM rows", "Binder Error"),
        ("SELEC x", "syntax error"),
        ("DELETE FROM rows", "SELECT"),
        ("SELECT 1; SELECT 2", "takes one SELECT"),
    ],
)
def test_what_depends_on_more_than_the_row_is_refused(query: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        ROWS.apply_sql(query)


def test_another_query_is_another_plan() -> None:
    plans = [ROWS.apply_sql(f"SELECT x + {n} AS y FROM rows").plan for n in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]

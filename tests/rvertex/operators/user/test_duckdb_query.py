"""``apply_sql``: rows computed by DuckDB, each alone; other queries are refused.

Not covered: functions of DuckDB that differ between two runs although DuckDB lists them as fixed.
"""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from planner import Stream, event
from planner.physical.lower import lower
from rstream.errors import UsageError
from rstream.items.batch import event_schema
from rvertex.operators.user.duckdb_query import DuckdbQuery, result_schema
from rvertex.user_code.errors import UserResultError
from tests.support.plan_runner import answer

COUNT = 12
VALUES = [
    {"s": "ab"[: n % 3], "x": None if n % 4 == 3 else n, "l": [n, 1][: n % 3], "t": n * 1_000_000}
    for n in range(COUNT)
]
ROWS = Stream.from_items(
    {"s": "string", "x": "int64", "l": "list<int64>", "t": "timestamp"},
    [event(n, **row) for n, row in enumerate(VALUES)],
)
PAYLOAD = ROWS.plan.schema
FORM = "takes one 'SELECT ... FROM rows WHERE ...'"
OF_MANY_ROWS = (
    *(
        "sum(x)",
        "SUM(x)",
        '"Sum"(x)',
        "count(*)",
        "(SELECT max(x))",
        "lag(x) OVER ()",
        "geomean(x)",
    ),
    *("wavg(x, x)", "DISTINCT x", "EXISTS (FROM rows)", "ARRAY(SELECT x FROM rows)", "#1", "?"),
    *("x = ANY([1])", "row_number() OVER ()", "unknown(x)", "pg_get_viewdef(x)"),
)
SOURCES = (
    *(
        "rows GROUP BY ALL",
        "rows GROUP BY x",
        "rows ORDER BY x",
        "rows LIMIT 1",
        "rows QUALIFY true",
    ),
    *(
        "rows USING SAMPLE 2",
        "rows TABLESAMPLE 2",
        "rows UNION ALL SELECT x FROM rows",
        "rows r(a)",
    ),
    *("rows WHERE x IN (SELECT 1)", "rows JOIN (VALUES (3)) t(v) ON x = v", "rows, range(3)"),
    *(
        "rows, unnest(l) u(e)",
        "rows POSITIONAL JOIN range(5) r",
        "range(5) r LEFT JOIN rows ON true",
    ),
    *("rows SEMI JOIN range(3) r ON x = r.range", "range(5) r ASOF JOIN rows ON r.range >= x"),
    *("'other.parquet'", "read_csv('other.csv')", "(SELECT x FROM rows)", "main.rows", "rows(3)"),
)
QUERIES = (
    *(
        "SELECT 1 AS a",
        "FROM rows",
        "FROM rows SELECT x",
        "SELECT x FROM rows; SELECT 2",
        "VALUES (1)",
    ),
    *("WITH a AS (FROM rows) SELECT x FROM a", "SELECT 1 AS g WHERE EXISTS (FROM rows)"),
)
CLOCKS = (
    *(
        "random()",
        "now()",
        '"Now"()',
        "current_date",
        "CURRENT_TIMESTAMP",
        "Current_Time",
        "today()",
    ),
    *(
        "current_localtimestamp()",
        "age(t)",
        "ago(INTERVAL 1 DAY)",
        "uuid()",
        "nextval('a')",
        "USER",
    ),
    *("getvariable('a')", "pg_conf_load_time()", "list_transform(l, lambda e: e + random())"),
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
            "select UNNEST(l) AS e FROM Rows r WHERE r.x IS NOT NULL;",
            [(e,) for n in range(12) if n % 4 != 3 for e in [n, 1][: n % 3]],
        ),
        ("SELECT _vs * 2 AS w, epoch(t)::BIGINT AS z FROM rows", [(2 * n, n) for n in range(12)]),
        (
            "SELECT list_sum(l) AS a, nullif(x, 1) AS b FROM rows",
            [
                (n + n % 3 - 1 if n % 3 else None, (n, None)[n % 4 == 3 or n == 1])
                for n in range(12)
            ],
        ),
    ],
)
def test_rows_are_computed_independently(query: str, wanted: list[tuple[object, ...]]) -> None:
    assert computed(query, 1) == computed(query, 5) == computed(query, 1000) == wanted


def in_cuts(query: str, cuts: list[int]) -> list[tuple[Any, ...]]:
    """Compute ``ROWS`` in batches that begin at ``cuts``; the first column: the input row."""
    items = [{"_vs": n, "_ve": n + 1, **row} for n, row in enumerate(VALUES)]
    batch = pa.RecordBatch.from_pylist(items, event_schema(PAYLOAD))
    rows = []
    for low, high in itertools.pairwise([0, *cuts, COUNT]):
        made = DuckdbQuery(query)(batch.slice(low, high - low)).to_pylist()
        rows += [(low + row.pop("_row"), *row.values()) for row in made]
    return rows


EXPRESSIONS = (
    *("s", "x % 3", "upper(s) || 'c'", "unnest(l)", "unnest(range(x % 4))", "l[1]", "rows.t"),
    *("list_transform(l, lambda e: e + x)", "CASE WHEN x > 1 THEN s END", "split_part(s, 'a', 1)"),
    *(
        "list_sum(l)",
        "x IN (1, 2, 6)",
        "date_trunc('day', t)",
        "{'a': x, 'b': s}",
        "COALESCE(x, 9)",
    ),
)
CONDITIONS = ("true", "x > 2", "s = 'a' OR x IS NULL", "len(l) <> 1 AND x <> 4", "false")


@given(
    st.lists(st.sampled_from(EXPRESSIONS), min_size=1, max_size=4),
    st.sampled_from(CONDITIONS),
    st.sets(st.integers(1, COUNT - 1)),
)
def test_results_do_not_depend_on_batch_boundaries(
    expressions: list[str], condition: str, cuts: set[int]
) -> None:
    named = ", ".join(f"{made} AS c{n}" for n, made in enumerate(expressions))
    query = f"SELECT {named} FROM rows WHERE {condition}"
    result_schema(query, PAYLOAD)
    whole = in_cuts(query, [])
    assert [row[0] for row in whole] == sorted(row[0] for row in whole)
    assert in_cuts(query, sorted(cuts)) == in_cuts(query, list(range(1, COUNT))) == whole


def test_results_in_another_order_than_the_rows_are_an_error() -> None:
    query = DuckdbQuery("SELECT x FROM rows ORDER BY x DESC")
    stream = ROWS.apply(query, {"x": "int64"})
    plan = lower(stream.to_parquet(), root="r", parallelism=1)
    with pytest.raises(UserResultError, match="numbers from 0 to 11"):
        answer(plan)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        *((f"SELECT {made} FROM rows", FORM) for made in OF_MANY_ROWS),
        *((f"SELECT x FROM {source}", FORM) for source in SOURCES),
        *((query, FORM) for query in QUERIES),
        *((f"SELECT {clock} AS g FROM rows", "may differ between two runs") for clock in CLOCKS),
        ("SELECT _row, x FROM rows", "leave out _row"),
        ("SELECT x + _ROW AS y FROM rows", "leave out _row"),
        ("SELECT x FROM rows WHERE rows.RowId > 1", "leave out rowid"),
        ("SELECT x AS _row FROM rows", "'_row' is reserved"),
        ("SELECT unnest({'_row': x}) FROM rows", "'_row' is reserved"),
        ("SELECT * FROM rows", "'_vs' is reserved"),
        ("SELECT x AS a, s AS a FROM rows", "two columns named 'a'"),
        ("SELECT none FROM rows", "Binder Error"),
        ("SELECT GROUPING(x) FROM rows", "Binder Error"),
        ("SELEC x", "syntax error"),
        ("DELETE FROM rows", "SELECT"),
    ],
)
def test_queries_over_more_than_one_row_are_rejected(query: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        ROWS.apply_sql(query)


@pytest.mark.parametrize("name", ["_row", "RowID"])
def test_a_column_cannot_have_the_name_of_the_row_numbers(name: str) -> None:
    with pytest.raises(UsageError, match="rename the column"):
        result_schema("SELECT 1 AS a FROM rows", pa.schema([(name, pa.int64())]))


def test_another_query_is_another_plan() -> None:
    plans = [ROWS.apply_sql(f"SELECT x + {n} AS y FROM rows").plan for n in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]

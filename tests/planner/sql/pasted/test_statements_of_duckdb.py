"""Statements and clauses of DuckDB, compared with DuckDB itself on the same text.

Not covered: names of columns, which differ in DuckDB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

from planner import SqlError, Stream, sql
from planner.physical.lower import lower
from rstream.items.batch import VE, VS
from tests.planner.sql.pasted.test_pasted import _plain
from tests.support.budget import one_in
from tests.support.plan_runner import answer

if TYPE_CHECKING:
    from pathlib import Path

ROWS = """
CREATE TABLE pay (dept VARCHAR, empno INTEGER, salary INTEGER, since DATE);
INSERT INTO pay VALUES ('dev', 1, 5200, '2018-08-01'), ('dev', 2, 4200, '2020-01-01'),
    ('dev', 3, 4200, '2020-01-01'), ('hr', 4, 3500, '2017-12-10'), ('hr', 5, 3900, '2016-12-23'),
    (NULL, 6, 3900, '2016-12-23');
CREATE TABLE totals (shop VARCHAR, jan INTEGER, feb INTEGER);
INSERT INTO totals VALUES ('north', 10, 20), ('south', 5, NULL);
"""
OVER = "SELECT empno, {0} OVER ({1} EXCLUDE {2}) FROM pay"
FRAMES = [
    OVER.format(*parts, excluded)
    for parts in (
        ("SUM(salary)", "PARTITION BY dept ORDER BY salary, empno ROWS 1 PRECEDING"),
        ("COUNT(*)", "ORDER BY salary ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING"),
        ("SUM(salary)", "ORDER BY salary RANGE BETWEEN 500 PRECEDING AND CURRENT ROW"),
        ("MAX(empno)", "ORDER BY salary GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING"),
    )
    for excluded in ("CURRENT ROW", "TIES", "GROUP", "NO OTHERS")
]
QUERIES = [
    "PIVOT pay ON dept IN ('dev', 'hr') USING SUM(salary) GROUP BY since",
    "PIVOT pay ON dept IN ('dev', 'hr') USING COUNT(*) AS n, MAX(salary) GROUP BY since",
    "PIVOT (SELECT dept, salary FROM pay WHERE dept = 'hr') ON dept IN ('hr') USING SUM(salary)",
    "UNPIVOT totals ON jan, feb INTO NAME month VALUE sold",
    "UNPIVOT totals ON jan, feb",
    "SELECT MIN(COLUMNS(* EXCLUDE (dept))), MAX(COLUMNS(['salary', 'empno'])) FROM pay",
    "SELECT shop, COLUMNS('^(jan|feb)$') + 1 FROM totals",
    "CREATE MACRO taxed(a, rate := 0.5) AS a * (1 + rate); "
    "SELECT taxed(salary), taxed(salary, rate := 0.25) FROM pay",
    "SELECT empno FROM pay WHERE (dept, salary) IN (SELECT dept, MAX(salary) FROM pay GROUP BY 1)",
    "SELECT * FROM generate_series(TIMESTAMP '2025-01-31', TIMESTAMP '2025-05-01', "
    "INTERVAL '1 month') AS t (x)",
    "SELECT * FROM range(TIMESTAMP '2025-01-31', TIMESTAMP '2025-02-01', INTERVAL 6 HOUR) t (x)",
    "SELECT extract(century FROM since), extract(decade FROM since), empno << empno FROM pay",
    "SELECT empno, dept FROM pay UNION ALL BY NAME SELECT shop AS dept, jan FROM totals",
    "SELECT empno, dept FROM pay UNION BY NAME SELECT dept, empno FROM pay",
    "SELECT e: empno, s: salary * 2 FROM pay",
    "SELECT dept, skewness(salary), kurtosis(salary), kurtosis_pop(salary), mad(salary), "
    "entropy(salary), count_star(), mode(salary ORDER BY salary) FROM pay GROUP BY dept",
    "SELECT a.dept, b.dept FROM pay a JOIN pay b ON a.empno = b.empno",
    *FRAMES,
]


@pytest.mark.parametrize("text", one_in(5, QUERIES))
def test_results_equal_those_of_duckdb(text: str) -> None:
    connection = duckdb.connect()
    connection.execute(ROWS)
    wanted = [_plain(row) for row in connection.execute(text).fetchall()]
    assert sorted(rows(ROWS + text), key=repr) == sorted(wanted, key=repr)


@pytest.mark.parametrize("source", ["'{0}'", "read_csv('{0}', header = true)"])
def test_files_in_from(tmp_path: Path, source: str) -> None:
    (tmp_path / "t.csv").write_text("k,v\na,1\nb,2\n")
    text = f"SELECT k FROM {source.format(tmp_path / 't.csv')} WHERE v > 1"
    assert rows(text) == [("b",)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PIVOT pay ON dept USING SUM(salary)", r"write PIVOT t ON k IN"),
        ("SELECT * FROM read_csv('x.csv', skip = 1)", r"write read_csv\('path'\)"),
        ("SELECT COLUMNS('z') FROM pay", "no column matches 'z'"),
    ],
)
def test_invalid_statements_name_an_alternative(text: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        sql(ROWS + text, dialect="duckdb")


def rows(text: str) -> list[object]:
    made = sql(text, dialect="duckdb")
    assert isinstance(made, Stream)
    found = answer(lower(made.to_parquet(), root="memory://duckdb", parallelism=1)).to_pylist()
    return [_plain(v for name, v in row.items() if name not in (VS, VE)) for row in found]

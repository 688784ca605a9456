"""The table "Where this differs" of SQL.md: its columns for DuckDB and this engine are computed.

Not covered: its columns for Spark, Flink and PostgreSQL, which are from their documents.
"""

from __future__ import annotations

import ast
import re
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from planner import Stream, cti, event, sql
from planner.errors import InvalidPlanError
from planner.logical.nodes import Project
from rstream.types import INF_TIME
from tests.rooms import ROOT
from tests.support.ducks import duck

TEXT = (ROOT / "docs" / "SQL.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in TEXT.partition("## Where this differs")[2].splitlines()
    if line.startswith("| `")
]
ONE = Stream.from_items({"x": "int64"}, [event(0, x=1), cti(INF_TIME)])


def _written(cell: str) -> str:
    found = re.match("`([^`]+)`", cell)
    return found[1].replace("\\t", "\t") if found else cell


def ours(expression: str) -> Any:
    stream = sql(f"SELECT {expression} AS v FROM s", {"s": ONE})
    assert isinstance(stream, Stream)
    assert isinstance(stream.plan, Project)
    ((_, node),) = stream.plan.columns
    return node.evaluate(pa.record_batch({"_vs": [0], "_ve": [1], "x": [1]}))[0].as_py()


def theirs(expression: str) -> Any:
    said = expression.replace(" DIV ", " // ").replace("WEEKDAY(", "dayofweek(")
    row = duck().execute(f"SELECT {said}").fetchone()
    assert row is not None
    return row[0]


def _value(cell: str) -> Any:
    return float("inf") if cell.startswith("`inf`") else ast.literal_eval(_written(cell))


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_every_row_of_the_table_of_differences_is_true(row: list[str]) -> None:
    expression, here, _, _, duck, _ = row
    for cell, evaluate, error in (
        (here, ours, InvalidPlanError),
        (duck, theirs, duckdb.Error),
    ):
        if cell == "error":
            with pytest.raises(error):
                evaluate(_written(expression))
        else:
            assert repr(evaluate(_written(expression))) == repr(_value(cell))


def test_the_table_of_differences_is_parsed() -> None:
    assert len(ROWS) > 20

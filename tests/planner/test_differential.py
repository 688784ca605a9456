"""Random expressions, windows and joins against DuckDB, in the fluent interface and in SQL.

``DIFFERENTIAL_SEED`` selects other cases, ``DEPTH`` more of them. Intended differences are in
"Where this differs" of SQL.md, and handled in tests/support. Not covered: queries that the
generator cannot write, and mistakes of both engines.
"""

from __future__ import annotations

import math
import os
from datetime import date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from planner import EvaluationError, InvalidPlanError, Stream, sql
from planner.logical.nodes import Project
from tests.support.budget import scaled
from tests.support.ducks import duck
from tests.support.random_expressions import KINDS, SCHEMA, Said, expression, rows_of

SEED = int(os.environ.get("DIFFERENTIAL_SEED", "11"))
CASES = scaled(150)
ROWS, DEPTH = 12, 3
FAILED = "failed"
EMPTY = Stream.from_items(SCHEMA, [])


def plain(value: Any) -> Any:
    """Normalise a value: numbers by value, -0.0 as 0.0, times without zone."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, Decimal):
        return value.normalize() + 0
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)  # noqa: DTZ001 - UTC
    return value


def of_stream(said: Said, batch: pa.RecordBatch) -> list[Any] | str:
    """The values from the fluent interface, which must equal those from SQL."""
    try:
        stream = sql(f"SELECT {said.sql} AS v FROM s", {"s": EMPTY})
        said.expr.output_type(SCHEMA)
    except InvalidPlanError as error:
        return FAILED if "cannot evaluate" in str(error) else f"refused: {error}"
    assert isinstance(stream, Stream)
    found: list[list[Any] | str] = []
    nodes = [said.expr.node]
    nodes += [dict(stream.plan.columns)["v"]] if isinstance(stream.plan, Project) else []
    for node in nodes:
        try:
            found.append([plain(v) for v in node.evaluate(batch).to_pylist()])
        except EvaluationError:
            found.append(FAILED)
    assert all(values == found[0] for values in found), (said.sql, str(said.expr))
    return found[0]


def of_duckdb(said: Said, batch: pa.RecordBatch, connection: Any) -> list[Any] | str:
    rows = pa.Table.from_batches([batch])
    connection.register("rows_", rows)
    try:
        found = connection.execute(f"SELECT {said.duck} AS v FROM rows_").fetchall()
    except duckdb.Error:
        return FAILED
    return [plain(v) for (v,) in found]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or math.isclose(a, b, rel_tol=1e-12)
    return bool(a == b)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_random_expressions_equal_duckdb(kind: str) -> None:
    connection = duck()
    connection.execute("PRAGMA disable_optimizer")  # it reorders operations that may overflow
    compared = 0
    for case in range(CASES):
        rng = Random(f"{SEED}-{kind}-{case}")
        batch, said = rows_of(rng, ROWS), expression(rng, kind, DEPTH)
        ours, theirs = of_stream(said, batch), of_duckdb(said, batch, connection)
        if FAILED in (ours, theirs):  # one failing row fails all rows: compare row by row
            parts = [batch.slice(at, 1) for at in range(ROWS)]
            ours = [of_stream(said, part) for part in parts]
            theirs = [of_duckdb(said, part, connection) for part in parts]
        for at, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            values = [v[0] if isinstance(v, list) else v for v in (mine, other)]
            if values[1] == FAILED or values == [FAILED, None]:
                continue  # engines may skip failing parts of a row, and NULL hides an error
            assert same(*values), (
                f"case {case}: {said.sql}\nDuckDB: {said.duck}\n{batch.slice(at, 1).to_pylist()}"
                f"\nhere {mine}, there {other}"
            )
            compared += values[0] not in (None, FAILED)
    assert compared > CASES * ROWS / 3

"""Each function computes in the dialect spark as in Spark SQL, over random rows with edges.

Spark computes all calls in one job without ANSI mode. So a call that is an error here is null
there. Not covered: errors of one engine only; fractions that differ after the 12th digit.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest

from jobmanager.config import SPARK_DAEMON
from planner.batch.compile import open_session
from planner.sql.expressions.engines.catalogue import NAMES
from rvertex.host.spark import spark_context
from tests.spark.batches import MASTER
from tests.support.budget import seeds
from tests.support.catalogue.drawn import ERROR, alike, drawn, ours, values_of
from tests.support.catalogue.spark_calls import CALLS

pytestmark = [pytest.mark.slow, pytest.mark.spark]

#: By call: how the answer differs (docs/SQL.md, "Where this differs").
_NAN = "NaN equals nothing; in Spark it equals itself and is the greatest number"
DIFFERENT = {
    **dict.fromkeys(("f = g", "f < g", "f <> g", "f >= g", "b AND f > 1"), _NAN),
    "atan2(f, g)": "of -0.0 has its sign; Spark takes it for 0.0",
    "lower(upper(s))": "is ss for ß; Spark leaves out UPPER",
}


def sparks(rows: pa.RecordBatch) -> list[list[Any]]:
    """Spark's values of all calls."""
    session = open_session(spark_context(MASTER, SPARK_DAEMON))
    session.conf.set("spark.sql.legacy.sizeOfNull", "false")
    session.createDataFrame(pa.Table.from_batches([rows])).createOrReplaceTempView("t")
    listed = ", ".join(f"{call} AS v{at}" for at, call in enumerate(CALLS))
    table = session.sql(f"SELECT {listed} FROM t ORDER BY n").toArrow()
    return [values_of(column) for column in table.columns]


@pytest.mark.parametrize("seed", seeds(0, 1))
def test_calls_equal_spark(seed: int) -> None:
    rows = drawn(seed)
    wrong = []
    for call, theirs in zip(CALLS, sparks(rows), strict=True):
        pairs = zip(ours(call, rows, "spark"), theirs, strict=True)
        differing = [
            (call, rows.slice(at, 1).to_pylist()[0], a, b)
            for at, (a, b) in enumerate(pairs)
            if a is not ERROR and not alike(a, b)
        ]
        wrong += differing[:1] if call not in DIFFERENT else []
    assert not wrong, wrong


def test_each_function_of_spark_is_compared() -> None:
    session = open_session(spark_context(MASTER, SPARK_DAEMON))
    has = {row.function for row in session.sql("SHOW FUNCTIONS").collect()}
    called = {name for call in CALLS for name in re.findall(r"(\w+)\(", call.lower())}
    left = {name.lower() for name in NAMES} & has - called
    assert not left, sorted(left)


def test_each_listed_difference_belongs_to_a_call() -> None:
    assert set(CALLS) >= DIFFERENT.keys()

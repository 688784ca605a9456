"""Functions of the catalogue of SQL as a stream computes them and as Spark SQL does.

Cannot catch: what both get wrong in the same way; the catalogue itself is compared with DuckDB.
"""

from __future__ import annotations

import pytest

from planner import Stream, sql
from tests.spark.batches import assert_twins
from tests.support.catalogue import aggregates, scalars
from tests.support.catalogue.entry import streams

pytestmark = pytest.mark.spark
#: Spark's ``chr`` knows 256 characters only.
NOT_IN_SPARK = {"CHR"}
SHOWN = [e for e in scalars.ENTRIES if e.hint is None and e.name not in NOT_IN_SPARK]


@pytest.mark.parametrize("part", range(4))
def test_functions(part: int) -> None:
    entries = SHOWN[part::4]
    listed = ", ".join(f"{entry.ours} AS v{at}" for at, entry in enumerate(entries))
    stream = sql(f"SELECT n, {listed} FROM t", streams())
    assert isinstance(stream, Stream)
    assert_twins(stream)


def test_aggregates() -> None:
    shown = [e for e in aggregates.ENTRIES if e.hint is None]
    values = [e.ours.partition(" AS a, ")[2].partition(" AS v FROM ")[0] for e in shown]
    listed = ", ".join(f"{value} AS v{at}" for at, value in enumerate(values))
    stream = sql(f"SELECT k, {listed} FROM t GROUP BY k, TUMBLE('1 minute')", streams())
    assert isinstance(stream, Stream)
    assert_twins(stream)

"""A column declared WITH TIME ZONE has one, even if its file has times without a zone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from planner import Stream, sql
from planner.physical.lower import lower
from tests.support.plan_runner import answer

if TYPE_CHECKING:
    from pathlib import Path

ROWS = {
    "csv": "at,n\n2026-01-01T10:00:00,1\n",
    "json": '{"at": "2026-01-01T10:00:00", "n": 1}\n',
}


@pytest.mark.parametrize("kind", ["TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ", "TIMESTAMP_LTZ(3)"])
@pytest.mark.parametrize("form", ROWS)
def test_a_declared_zone_is_that_of_the_column(kind: str, form: str, tmp_path: Path) -> None:
    file = tmp_path / f"rows.{form}"
    file.write_text(ROWS[form])
    query = sql(
        f"CREATE SOURCE t (at {kind}, n BIGINT, WATERMARK FOR at AS at) WITH (path = '{file}'); "
        "SELECT at, at AT TIME ZONE 'Asia/Tokyo' AS there FROM t"
    )
    assert isinstance(query, Stream)
    rows = answer(lower(query.to_parquet(), root="memory://zones", parallelism=1))
    assert rows.schema.field("at").type == pa.timestamp("us", "UTC")
    (row,) = rows.to_pylist()
    assert row["at"] == datetime(2026, 1, 1, 10, tzinfo=UTC)
    assert str(row["there"]) == "2026-01-01 19:00:00"

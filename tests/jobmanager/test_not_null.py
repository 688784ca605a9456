"""NOT NULL columns and bounded texts: only the violating rows are reported.

Not covered: messages of a broker (tests of the Kafka source have the decoder).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import jobmanager
from planner import InvalidPlanError, Stream, col, event, sql
from planner.logical.nodes import Source

if TYPE_CHECKING:
    from pathlib import Path

ROWS, GROUP = 100, 10
X = pa.schema([pa.field("x", pa.int64(), nullable=False)])


@pytest.mark.parametrize("query", ["SELECT x FROM s WHERE x > 94 AND y < 98", "SELECT y FROM s"])
@pytest.mark.parametrize("options", ["", ", delay = '1s'", ", late = 'adjust'"])
def test_unread_parquet_columns_may_have_nulls(tmp_path: Path, query: str, options: str) -> None:
    """Payload of row groups that no filter passes, and columns that only late rows would need."""
    numbers = list(range(ROWS))
    table = pa.table({"t": [1 + n for n in numbers], "x": numbers, "y": numbers})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=GROUP)
    source = (
        "CREATE SOURCE s (t BIGINT, x BIGINT NOT NULL, y BIGINT NOT NULL) "
        f"WITH (path = '{tmp_path / 'a.parquet'}', vs = t{options});"
    )
    found = sql(source + query)
    assert isinstance(found, Stream)
    rows = jobmanager.collect(found, executor="local").column(2).to_pylist()
    assert rows == (numbers if query == "SELECT y FROM s" else [95, 96, 97])


@pytest.mark.parametrize("format_", ["csv", "parquet", "json"])
def test_texts_longer_than_their_column_are_bad(tmp_path: Path, format_: str) -> None:
    """``VARCHAR(n)`` counts characters in PostgreSQL, and has no effect in DuckDB."""
    path = tmp_path / f"a.{format_}"
    rows = [
        {"t": 1, "x": "äöü"},
        {"t": 2, "x": "abcd"},
        {"t": 3, "x": None},
        {"t": 4, "x": "efghi"},
    ]
    path.write_text(
        "".join(json.dumps(row) + "\n" for row in rows)
        if format_ == "json"
        else "t,x\n" + "".join(f"{row['t']},{row['x'] or ''}\n" for row in rows)
    )
    if format_ == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=1)
    text = "CREATE TABLE s (t BIGINT, x VARCHAR(3)) WITH (path = '{}', vs = t{}); {}"

    def made(options: str = "", query: str = "SELECT x FROM s", dialect: str = "postgres") -> Any:
        found = sql(text.format(path, options, query), dialect=dialect)
        assert isinstance(found, Stream)
        return jobmanager.collect(found, executor="local").column(2).to_pylist()

    with pytest.raises(jobmanager.JobFailedError, match="longer than 3 characters"):
        made()
    with pytest.raises(jobmanager.JobFailedError, match="longer than 3 characters"):
        made(query="SELECT t, x FROM s WHERE t < 3")
    with pytest.warns(jobmanager.BadRowsWarning):
        found = made(
            ", on_bad_row = 'skip', null_values = ''"
            if format_ == "csv"
            else ", on_bad_row = 'skip'"
        )
    assert found == ["äöü", None]
    assert len(made(dialect="duckdb")) == len(rows)


def test_an_arrow_field_declares_not_null_in_python(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in ({"t": 1, "x": 1}, {"t": 2})))
    given: dict[str, Any] = {"vs": "t", "schema": X}
    with pytest.raises(jobmanager.JobFailedError, match="the column is NOT NULL"):
        jobmanager.collect(Stream.from_json(str(path), **given), executor="local")
    skipping = Stream.from_json(str(path), **given, on_bad_row="skip")
    assert skipping.schema.field("x").nullable
    with pytest.warns(jobmanager.BadRowsWarning):
        rows = jobmanager.collect(skipping.select("x", y=col("x")), executor="local")
    assert rows["x"].to_pylist() == [1]


def test_not_null_applies_to_messages() -> None:
    stream = Stream.from_kafka("t", servers="h:1", vs="timestamp", delay="1s", schema=X)
    assert isinstance(stream.plan, Source)
    assert stream.plan.spec.checks.not_null == ("x",)
    assert stream.schema.field("x").nullable


def test_items_without_a_required_value_are_rejected() -> None:
    assert Stream.from_items(X, [event(1, x=1)]).schema.field("x").nullable
    with pytest.raises(InvalidPlanError, match="null in column 'x', which is not nullable"):
        Stream.from_items(X, [event(1, x=1), event(2, x=None)])

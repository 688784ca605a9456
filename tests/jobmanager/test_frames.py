"""Tables of the caller as inputs, and results as Arrow, pandas, Polars and Spark tables.

Not covered: a cluster whose workers cannot read the folder that from_spark wrote.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import jobmanager
from planner import Query, Stream, agg, col, tumbling
from planner.errors import InvalidPlanError, UnknownColumnError
from tests.rooms import ROOT
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

START = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
#: Out of order, which delay="auto" allows.
TABLE = pa.table(
    {
        "time": [START + dt.timedelta(seconds=s) for s in (3, 1, 12, 8, 25)],
        "room": ["attic", "cellar", "attic", "attic", "cellar"],
        "celsius": [20.0, 11.0, 19.0, 19.5, 12.0],
    }
)


def counts(events: Stream) -> Query:
    window = events.group_by("room").window(tumbling("10s"))
    return window.agg(n=agg.count(), most=agg.max("celsius")).to_parquet()


def run(query: Query, root: Path) -> jobmanager.Job:
    return jobmanager.run(query, root=str(root), executor="local")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> jobmanager.Job:
    root = tmp_path_factory.mktemp("frames") / "job"
    return run(counts(Stream.from_arrow(TABLE, vs="time")), root)


def in_order(table: pa.Table) -> list[dict[str, object]]:
    return sorted(table.to_pylist(), key=repr)


def test_results_have_the_rows_and_columns_of_the_files(job: jobmanager.Job) -> None:
    found = job.to_arrow()
    job.wait(WAIT_S)
    written = pq.read_table(job.output)
    assert found.schema.equals(written.schema)
    assert found.num_rows == 4
    assert in_order(found) == in_order(written)
    assert pa.Table.from_batches(job.to_batches()).equals(found.combine_chunks())
    frame = job.to_pandas()
    assert list(frame.columns) == ["window_start", "window_end", "room", "n", "most"]
    assert str(frame["window_start"].dt.tz) == "UTC"
    assert job.to_polars().to_dicts() == found.to_pylist()
    assert in_order(jobmanager.resume(job.root).to_arrow()) == in_order(found), "later, too"


def test_technical_columns_and_empty_results_are_clean_tables(tmp_path: Path) -> None:
    stream = Stream.from_arrow(TABLE, vs="time", ve="+1s")
    raw = run(stream.to_parquet(technical_columns=True), tmp_path / "raw").to_arrow()
    assert raw.schema.names == ["start", "end", "time", "room", "celsius"]
    assert raw.num_rows == TABLE.num_rows
    none = run(stream.filter(col("celsius") > 50).to_parquet(), tmp_path / "none")
    assert none.to_arrow().num_rows == 0
    assert none.to_arrow(wait=False).schema.names == none.to_pandas().columns.to_list()


def test_tables_of_other_libraries_have_the_same_rows(job: jobmanager.Job, tmp_path: Path) -> None:
    frame = TABLE.to_pandas()
    naive = frame.assign(time=frame["time"].dt.tz_localize(None))
    polars_frame = pl.from_arrow(TABLE)
    assert isinstance(polars_frame, pl.DataFrame)
    streams = {
        "pandas": Stream.from_pandas(frame, vs="time"),
        "index": Stream.from_pandas(naive.set_index("time"), vs="time"),
        "polars": Stream.from_polars(polars_frame, vs="time"),
        "lazy": Stream.from_polars(polars_frame.lazy(), vs="time", folder=str(tmp_path / "here")),
    }
    expected = job.to_arrow()
    for name, stream in streams.items():
        assert run(counts(stream), tmp_path / name).to_arrow().equals(expected), name
    assert len(os.listdir(tmp_path / "here")) == 1
    assert not (tmp_path / "lazy" / "inputs").exists(), "it reads what lies there"


@pytest.mark.slow
def test_a_job_keeps_its_table_after_the_process_ends_and_the_root_moves(
    job: jobmanager.Job, tmp_path: Path
) -> None:
    file = tmp_path / "table.parquet"
    pq.write_table(TABLE, file)
    code = (
        "import pyarrow.parquet as pq, jobmanager, tests.jobmanager.test_frames as t\n"
        f"stream = t.Stream.from_arrow(pq.read_table({str(file)!r}), vs='time')\n"
        f"job = t.run(t.counts(stream), {str(tmp_path / 'first')!r})\n"
        "job.cancel(); job.wait()\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=WAIT_S)
    shutil.move(tmp_path / "first", tmp_path / "second")
    (kept,) = (tmp_path / "second" / "inputs").iterdir()
    assert pq.read_table(kept).equals(TABLE)
    moved = jobmanager.resume(str(tmp_path / "second"))
    assert moved.to_arrow().equals(job.to_arrow())


def test_the_same_table_is_written_once() -> None:
    first, again = (Stream.from_arrow(TABLE, vs="time").plan for _ in range(2))
    assert first == again


def test_objects_that_are_not_tables_are_rejected() -> None:
    with pytest.raises(InvalidPlanError, match="takes a table, not a list"):
        Stream.from_arrow([1], vs="time")
    with pytest.raises(InvalidPlanError, match="takes a DataFrame, not a Table"):
        Stream.from_pandas(TABLE, vs="time")
    with pytest.raises(InvalidPlanError, match="takes a DataFrame, not a dict"):
        Stream.from_polars({}, vs="time")
    with pytest.raises(InvalidPlanError, match="takes a DataFrame, not a Table"):
        Stream.from_spark(TABLE, vs="time")
    with pytest.raises(InvalidPlanError, match="the table has no rows"):
        Stream.from_arrow(TABLE.slice(0, 0), vs="time")
    with pytest.raises(UnknownColumnError, match="when"):
        Stream.from_pandas(pd.DataFrame({"time": [1]}), vs="when")
    named = pd.DataFrame({"time": [1]}, index=pd.Index([3], name="time"))
    with pytest.raises(InvalidPlanError, match="cannot insert time, already exists"):
        Stream.from_pandas(named, vs="time")


@pytest.mark.spark
def test_spark_data_frames_as_input_and_output(
    job: jobmanager.Job, spark: SparkSession, tmp_path: Path
) -> None:
    frame = spark.createDataFrame(TABLE.to_pandas())
    stream = Stream.from_spark(frame, vs="time")
    found = run(counts(stream), tmp_path / "job")
    assert found.to_arrow().equals(job.to_arrow())
    rows = found.to_spark()
    assert rows.columns == job.to_arrow().schema.names
    assert rows.orderBy("window_start", "room").toArrow().num_rows == 4
    assert {(r.room, r.n, r.most) for r in rows.collect()} == {
        (r["room"], r["n"], r["most"]) for r in job.to_arrow().to_pylist()
    }
    with pytest.raises(InvalidPlanError, match="takes a batch DataFrame"):
        Stream.from_spark(spark.readStream.format("rate").load(), vs="timestamp")

"""A job over dirty files: its result, counts and dead letters, and the result of the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import jobmanager
from jobmanager.errors import BadRowsWarning
from planner import Stream, agg, sql, tumbling
from planner.batch.rows import source_events
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from pathlib import Path

ROWS = (
    *("1000000,a,1", "noon,a,1", "2000000,b,x", "3000000,a,2", "4000000,a", "2500000,b,5"),
    *("9000000,b,7", ",b,1", "1,a,9"),
)


def dirty(folder: Path, **changes: Any) -> Stream:
    for name, rows in (("a", ROWS[:5]), ("b", ROWS[5:])):
        (folder / f"{name}.csv").write_text("\n".join(["time,k,x", *rows]) + "\n")
    types = {"time": "int64", "x": "int64"}
    return Stream.from_csv(str(folder), vs="time", schema=types, **changes)


@pytest.mark.parametrize("delay", ["auto", "5s"])
def test_bad_rows_are_excluded_counted_and_kept(delay: str, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    stream = dirty(tmp_path / "data", on_bad_row="dead_letter", delay=delay, partitions=1)
    counts = stream.group_by("k").window(tumbling("10s")).agg(n=agg.count())
    root = str(tmp_path / "job")
    status = jobmanager.run(counts.to_parquet(), root=root, executor="local").wait()
    assert (status["bad_rows"], status["poisoned_events"]) == (4, 0)
    late = 0 if delay == "auto" else 1  # the last row is 9 s behind
    assert status["late_events"] == late
    found = pq.read_table(f"{root}/output").select(["k", "n"]).to_pylist()
    assert sorted(found, key=str) == [{"k": "a", "n": 3 - late}, {"k": "b", "n": 2}]
    letters = jobmanager.read_dead_letters(root).to_pylist()
    said = [(row["source"][-5:], row["line"], row["column"], row["value"]) for row in letters]
    assert sorted(said, key=str) == [
        ("a.csv", 3, "time", "noon"),
        ("a.csv", 4, "x", "x"),
        ("a.csv", 6, None, None),
        ("b.csv", 4, "time", None),
    ]
    (source,) = status["bad"]
    assert (source["bad"], source["rows"], source["policy"]) == (4, 9, "dead_letter")
    events, _ = source_events(stream.plan, 1, 1_000_000)  # type: ignore[arg-type]
    assert sorted(events["x"].to_pylist()) == sorted([1, 2, 5, 7, 9][: 5 - late])


def test_a_bad_first_row_does_not_delay_a_paced_job(tmp_path: Path) -> None:
    """The pace does not count from the bad row: the next row would be due decades later."""
    (tmp_path / "a.csv").write_text("time,x\nnoon,1\n1767225600000000,2\n1767225601000000,3\n")
    types = {"time": "int64", "x": "int64"}
    rows = Stream.from_csv(
        str(tmp_path / "a.csv"), vs="time", schema=types, on_bad_row="skip", delay="1s"
    )
    root = str(tmp_path / "job")
    job = jobmanager.run(rows.to_parquet(), root=root, executor="local", paced=100)
    assert job.wait(WAIT_S)["events_out"] == 2


def test_collect_warns_of_bad_rows(tmp_path: Path) -> None:
    with pytest.warns(jobmanager.BadRowsWarning, match="4 of 9 rows .* on_bad_row="):
        found = jobmanager.collect(dirty(tmp_path, on_bad_row="skip").select("k"))
    assert found.num_rows == 5


def test_a_time_column_without_a_zone_that_one_value_turned_into_text(tmp_path: Path) -> None:
    """The option that declares a column's type must not make all rows bad."""
    (tmp_path / "a.csv").write_text("at,k\n2026-01-01 10:00:00,a\nnoon,b\n2026-01-01,c\n")
    text = (
        "CREATE TABLE t (at TIMESTAMP(3), k STRING, WATERMARK FOR at AS at - INTERVAL '1' DAY) "
        f"WITH ('path' = '{tmp_path}/a.csv', 'csv.ignore-parse-errors' = 'true'); SELECT k FROM t"
    )
    with pytest.warns(BadRowsWarning, match="1 of 3 rows"):
        assert jobmanager.collect(sql(text))["k"].to_pylist() == ["c", "a"]

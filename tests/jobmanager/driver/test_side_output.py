"""Side outputs of whole jobs: their place, their readers, and who must not read them.

Not covered: rare orders of failures (tests/sim).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import jobmanager
from jobmanager import JobConfig
from jobmanager.driver.running.side_output import _alike, _numbers
from planner import Query, Stream, agg, col, tumbling
from rstream.errors import UsageError
from rstream.store.part_files import split_part
from tests.support.jobs import ROWS, WAIT_S, with_limits, write_events
from tests.support.trouble import run_and_cancel

if TYPE_CHECKING:
    from tests.support.trouble import Gate

#: Start times of the rows in seconds, in order of reading.
STARTS_S = [10, 20, 9, 21, 22, 15, 3, 40, 39]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "clicks.parquet"
    times = [s * 1_000_000 for s in STARTS_S]
    pq.write_table(pa.table({"t": times, "k": list(range(len(times)))}), path)
    return path


def counts(rows: Path, output: Path | None = None) -> Query:
    clicks = Stream.from_parquet(str(rows), vs="t", delay="5s")
    counted = clicks.group_by("k").window(tumbling("10s")).agg(n=agg.count())
    return counted.to_parquet(None if output is None else str(output))


def test_late_rows_are_stored_beside_the_answer(rows: Path, tmp_path: Path) -> None:
    root, output = tmp_path / "job", tmp_path / "answer"
    status = jobmanager.run(counts(rows, output), root=str(root), executor="local").wait(WAIT_S)
    assert status["late_events"] == 3
    late = jobmanager.read_late(str(root))
    assert late.column("k").to_pylist() == [2, 5, 6]
    assert [t // 1_000_000 for t in late.column("_frontier").to_pylist()] == [15, 17, 17]
    assert jobmanager.read_late(str(root), "clicks").equals(late)
    assert not list(output.rglob("*late*"))
    table = ds.dataset(str(root / "late" / "s01-clicks")).to_table()
    assert table.schema.names == ["start", "end", "t", "k", "_frontier"]
    assert [t.timestamp() for t in table["start"].to_pylist()] == [9, 15, 3]
    assert table["k"].equals(late["k"])


@pytest.mark.parametrize("format", ["csv", "json", "parquet", "untold", "follow"])
def test_late_rows_have_columns_that_the_query_does_not_use(
    format: str, rows: Path, tmp_path: Path
) -> None:
    """Late rows have all columns of the source, even if the query drops or never uses them.

    ``untold``: Parquet whose row groups have no statistics of the time column.
    """
    table = pq.read_table(rows)
    n = table.num_rows
    table = table.append_column("note", pa.array([f"n{k}" for k in range(n)]))
    table = table.append_column("more", pa.array([0.5 * k for k in range(n)]))
    ending = {"follow": "csv", "untold": "parquet"}.get(format, format)
    folder = tmp_path / "in"
    folder.mkdir()
    if ending == "csv":
        pacsv.write_csv(table, folder / "a.csv")
    elif ending == "json":
        lines = [json.dumps(row) for row in table.to_pylist()]
        (folder / "a.json").write_text("\n".join(lines) + "\n")
    else:
        told = format != "untold"
        pq.write_table(table, folder / "a.parquet", row_group_size=2, write_statistics=told)
    read = getattr(Stream, f"from_{ending}")
    follow = format == "follow"
    given = {"delay": "5s", "partitions": 1, "follow": follow, "poll_every": "20ms"}
    clicks = read(str(folder), vs="t", **given)
    query = clicks.filter(col("k") != 5).select("k").to_parquet()
    root = str(tmp_path / "job")
    if follow:
        assert jobmanager.run(query, root=root, executor="local", continue_=True).wait(WAIT_S)
    else:
        jobmanager.run(query, root=root, executor="local").wait(WAIT_S)
    late = jobmanager.read_late(root)
    assert late.schema.names == ["_vs", "_ve", "t", "k", "note", "more", "_frontier"]
    assert late["note"].to_pylist() == ["n2", "n5", "n6"]
    assert late["more"].to_pylist() == [1.0, 2.5, 3.0]
    if not follow:  # its last rows wait for later ones
        kept = ds.dataset(f"{root}/output").to_table()
        assert kept.schema.names == ["start", "end", "k"]
        assert sorted(kept["k"].to_pylist()) == [k for k in range(n) if k not in (2, 5, 6)]


def test_all_files_below_the_answer_belong_to_it(rows: Path, tmp_path: Path) -> None:
    output = tmp_path / "answer"
    job = jobmanager.run(counts(rows, output), root=str(tmp_path / "job"), executor="local")
    assert job.wait(WAIT_S)["events_out"] == len(STARTS_S) - 3
    tables = [pq.read_table(file) for file in output.rglob("*.parquet")]
    assert sum(table.num_rows for table in tables) == len(STARTS_S) - 3
    assert {tuple(t.schema.names) for t in tables} == {("window_start", "window_end", "k", "n")}


def test_a_source_without_late_rows_leaves_no_folder(tmp_path: Path) -> None:
    path = tmp_path / "clicks.parquet"
    pq.write_table(pa.table({"t": [1, 2, 3], "k": [1, 2, 3]}), path)
    job = jobmanager.run(counts(path), root=str(tmp_path / "job"), executor="local")
    job.wait(WAIT_S)
    assert jobmanager.read_late(job.root).num_rows == 0
    assert not (Path(job.root) / "late").exists()


def test_an_unknown_or_missing_side_output_is_rejected(rows: Path, tmp_path: Path) -> None:
    root = str(tmp_path / "job")
    jobmanager.run(counts(rows), root=root, executor="local").wait(WAIT_S)
    with pytest.raises(
        UsageError,
        match=r"name one source, .* such as ss.read_late\(root, 's01-clicks.*it has s01-clicks",
    ):
        jobmanager.read_late(root, "orders")
    with pytest.raises(UsageError, match="this job writes none"):
        jobmanager.read_dead_letters(root)


@pytest.mark.slow
def test_late_rows_are_the_same_after_failures(gate: Gate, tmp_path: Path) -> None:
    """A job that is cancelled while it runs, and resumed, has each late row once."""
    path = write_events(tmp_path / "events.parquet", 6_000)
    events = Stream.from_parquet(str(path), vs="t", delay="p80", partitions=2)
    query = events.group_by("key").window(tumbling("4s")).agg(n=agg.count()).to_parquet()
    whole = jobmanager.run(query, root=str(tmp_path / "whole"), executor="local")
    assert whole.wait(WAIT_S)["late_events"] > 100
    limits = {"checkpoint_interval_s": 0.02, "step_rows_max": 100}
    config = with_limits(JobConfig(tick_s=0.02), **limits)
    root = str(tmp_path / "disturbed")
    options: dict[str, Any] = {"root": root, "paced": 40.0, "config": config}
    run_and_cancel(query, gate, ROWS // 2, lambda status: status["late_events"] > 50, **options)
    status = jobmanager.resume(root).wait(WAIT_S)
    assert status["output_digest"] == whole.status()["output_digest"]
    assert jobmanager.read_late(root).equals(jobmanager.read_late(whole.root))


def test_after_a_change_rows_keep_their_order_and_changed_types_become_text() -> None:
    names = ["part-10", "part-2", "g10-part-0", "g2-part-1"]
    order = sorted((f"/late/s/{name}-*" for name in names), key=_numbers)
    assert [split_part(uri)[1] for uri in order] == ["part-2", "part-10", "g2-part-1", "g10-part-0"]
    old, new = pa.table({"k": [1], "y": [3]}), pa.table({"k": [2], "y": ["a"]})
    assert pa.concat_tables(_alike([old, new])).to_pydict() == {"k": [1, 2], "y": ["3", "a"]}
    with pytest.raises(UsageError, match="column 'y'"):
        _alike([pa.table({"y": [{"a": 1}]}), new])

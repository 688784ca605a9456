"""Jobs that read the output of other jobs: the same result as one job that does both.

Not covered: rare orders of failures (tests/sim).
"""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest

import jobmanager
import planner
from jobmanager import JobConfig
from jobmanager.driver.running.batch.validate import validate
from jobmanager.storage.output_check import SUCCESS
from planner import Query, Stream, agg, col, cti, event, hopping, tumbling
from planner.batch.rows import source_events
from planner.explain.text import explain
from planner.logical.nodes import Source
from planner.physical.lower import lower
from rstream import MIN_TIME, Items, RStream, open_store
from rstream.format.table import TableForm
from rstream.items.batch import CTI, VE, VS, cti_batch
from rstream.log.durable import DurableLog
from rstream.store.part_files import part_uri
from rstream.types import INF_TIME
from rvertex.errors import (
    CorruptSourceError,
    SourceNotFoundError,
    SourceVanishedError,
    UnfinishedStreamError,
)
from tests.support.content import PAYLOAD, items, small_limits
from tests.support.jobs import ROWS, WAIT_S, output_items, with_limits, write_events

if TYPE_CHECKING:
    import pyarrow as pa

    from tests.support.trouble import Gate


def first(path: Path) -> Stream:
    """Sums of windows by key, in two vertices."""
    events = Stream.from_parquet(str(path), vs="t", delay="10s", partitions=2)
    windows = events.group_by("key").window(hopping("4s", "2s"))
    return windows.agg(n=agg.count(), total=agg.sum("x"))


def second(sums: Stream) -> Stream:
    """Count the keys per sum, over time."""
    windows = sums.filter(col("n") > 1).group_by("n").window(tumbling("6s"))
    return windows.agg(keys=agg.count(), most=agg.max("total"))


def finished(query: Query | Stream, root: Path, **options: Any) -> jobmanager.Job:
    job = jobmanager.run(query, root=str(root), executor="local", **options)
    assert job.wait(WAIT_S)["state"] == "finished"
    return job


def ordered(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=repr)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_events(tmp_path_factory.mktemp("chained") / "events.parquet")


@pytest.fixture(scope="module")
def table(events: Path, tmp_path_factory: pytest.TempPathFactory) -> jobmanager.Job:
    """The finished first job, whose output is a table."""
    return finished(first(events), tmp_path_factory.mktemp("table") / "job")


@pytest.fixture(scope="module")
def whole(events: Path) -> list[dict[str, Any]]:
    """Return the output of one job that does the work of both."""
    answer = ordered(jobmanager.collect(second(first(events))))
    assert len(answer) > 20
    return answer


def test_two_chained_jobs_equal_one_job(table: jobmanager.Job, whole: list[dict[str, Any]]) -> None:
    assert ordered(jobmanager.collect(second(Stream.from_rstream(table.output)))) == whole


def test_jobs_over_rstreams_equal_jobs_over_files(
    events: Path, whole: list[dict[str, Any]], tmp_path: Path
) -> None:
    uri = str(tmp_path / "sums")
    finished(first(events).to_rstream(uri), tmp_path / "job")
    assert ordered(jobmanager.collect(second(Stream.from_rstream(uri)))) == whole


def test_a_copy_has_the_same_sequence(table: jobmanager.Job, tmp_path: Path) -> None:
    """Item by item: rows, lifetimes, CTIs, and so the digest."""
    copy = finished(Stream.from_rstream(table.output), tmp_path / "job")
    assert output_items(copy.output) == output_items(table.output)
    assert copy.status()["output_digest"] == table.status()["output_digest"]
    one = finished(Stream.from_rstream(part_uri(table.output, "part-1")), tmp_path / "one")
    assert output_items(one.output) == output_items(table.output)[1:]


def test_the_table_is_read_in_one_line(table: jobmanager.Job, whole: list[dict[str, Any]]) -> None:
    sums = Stream.from_parquet(table.output, vs="window_start", ve="window_end")
    assert ordered(jobmanager.collect(second(sums))) == whole


def test_sql_reads_streams(table: jobmanager.Job, whole: list[dict[str, Any]]) -> None:
    stream = planner.sql(
        f"""
        CREATE STREAM sums WITH (path = '{table.output}', format = 'rstream');
        SELECT n, count(*) AS keys, max(total) AS most FROM sums WHERE n > 1
        GROUP BY n, TUMBLE('6 seconds')
        """
    )
    assert isinstance(stream, Stream)
    assert ordered(jobmanager.collect(stream)) == whole


def test_the_batch_has_the_same_rows(table: jobmanager.Job) -> None:
    stream = Stream.from_rstream(table.output)
    assert isinstance(stream.plan, Source)
    rows, last_cti = source_events(stream.plan, 1, 1_000_000)
    assert ordered(rows) == ordered(jobmanager.collect(stream))
    ctis = [t for part in output_items(table.output) for _, kind, t, *_ in part if kind == CTI]
    assert last_cti == max(t for t in ctis if t < INF_TIME)


@pytest.mark.spark
def test_validate_finds_no_difference(table: jobmanager.Job) -> None:
    found = validate(second(Stream.from_rstream(table.output)), master="local[2]")
    assert found.is_equal, str(found)


def test_only_used_columns_are_read(table: jobmanager.Job) -> None:
    plan = lower(Stream.from_rstream(table.output).select("n").to_parquet(), root="r")
    assert plan.stages[0].reads == ("n",)
    assert f"rstream {table.output}" in explain(plan)
    assert len(plan.vertices) == 2, "a vertex for each stream"
    counts = jobmanager.collect(Stream.from_rstream(table.output).select("n"))
    everything = jobmanager.collect(Stream.from_rstream(table.output))
    assert counts["n"].equals(everything["n"])


def test_lifetimes_at_the_ends_of_the_time_axis_are_exact(tmp_path: Path) -> None:
    given = [event(MIN_TIME, 5, k=1), cti(2), event(3, INF_TIME, k=2), event(4, 9, k=3)]
    stream = Stream.from_items({"k": "int64"}, given)
    job = finished(stream, tmp_path / "job")
    again = jobmanager.collect(Stream.from_rstream(job.output))
    assert again.equals(jobmanager.collect(stream))
    assert again[VS].to_pylist() == [MIN_TIME, 3, 4]
    assert again[VE].to_pylist() == [5, INF_TIME, 9]


def test_a_promise_about_lifetimes_is_checked(table: jobmanager.Job) -> None:
    sums = Stream.from_rstream(table.output)
    assert jobmanager.collect(sums.hint(max_duration="4s")).num_rows > 0
    with pytest.raises(jobmanager.JobFailedError, match="the declared max_duration"):
        jobmanager.collect(sums.hint(max_duration="3s"))


def test_a_promise_about_endless_lifetimes_is_checked(tmp_path: Path) -> None:
    """An event before 1970 whose end would overflow int64."""
    items = Stream.from_items({"k": "int64"}, [event(-5, INF_TIME, k=1)])
    written = Stream.from_rstream(finished(items, tmp_path / "job").output)
    with pytest.raises(jobmanager.JobFailedError, match="the declared max_duration"):
        jobmanager.collect(written.hint(max_duration="3s"))


def test_a_resumed_job_reads_the_streams_it_was_planned_with(
    table: jobmanager.Job, gate: Gate, tmp_path: Path
) -> None:
    """Cancelled while it runs and resumed: it reads the files of the plan."""
    query = second(Stream.from_rstream(table.output)).to_parquet()
    calm = finished(query, tmp_path / "calm")
    config = with_limits(JobConfig(tick_s=0.02), checkpoint_interval_s=0.02, step_rows_max=20)
    root, due = str(tmp_path / "job"), threading.Event()

    def on_status(status: dict[str, Any]) -> None:
        if status["events_in"] > 20:
            due.set()

    with gate.closed_at(50):  # items, CTIs included
        job = jobmanager.run(query, root=root, executor="local", config=config, on_status=on_status)
        assert due.wait(WAIT_S)
        job.cancel()
        assert job.wait(WAIT_S)["state"] == "cancelled"
    status = jobmanager.resume(root).wait(WAIT_S)
    assert status["output_digest"] == calm.status()["output_digest"]


# ---- what is refused


@pytest.fixture
def copy(table: jobmanager.Job, tmp_path: Path) -> Path:
    """A copy of the first job's output, to be damaged."""
    return Path(shutil.copytree(table.output, tmp_path / "copy"))


def test_an_unfinished_job_is_rejected(copy: Path, table: jobmanager.Job) -> None:
    (copy / SUCCESS).unlink()
    with pytest.raises(UnfinishedStreamError, match=r"has not finished: wait .*jobmanager resume"):
        Stream.from_rstream(str(copy))


def test_missing_streams_are_rejected(table: jobmanager.Job, tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError, match="no stream of a job"):
        Stream.from_rstream(str(tmp_path))
    with pytest.raises(SourceNotFoundError, match=r"its answer is .*/job/output"):
        Stream.from_rstream(table.root)
    with pytest.raises(SourceNotFoundError, match="it is a file; name the output folder"):
        Stream.from_rstream(f"{table.root}/job.json")


def test_a_missing_or_damaged_file_is_named(copy: Path) -> None:
    files = json.loads((copy / SUCCESS).read_text())["files"]
    data = bytearray((copy / files[0]).read_bytes())
    data[4:400] = bytes(byte ^ 1 for byte in data[4:400])
    (copy / files[0]).write_bytes(data)
    with pytest.raises(CorruptSourceError, match=files[0]):
        jobmanager.collect(Stream.from_rstream(str(copy)))
    (copy / files[0]).unlink()
    with pytest.raises(SourceVanishedError, match=rf"{files[0]}.*resume.* computes it again"):
        Stream.from_rstream(str(copy))


def test_files_that_are_not_part_of_the_answer_are_ignored(
    copy: Path, whole: list[dict[str, Any]]
) -> None:
    """Segments that an abandoned instance wrote after the output's end are not read."""
    name = json.loads((copy / SUCCESS).read_text())["files"][0]
    lo = int(name.split("-")[2])
    shutil.copy(copy / name, copy / f"part-0-{lo:020}-{lo + 1:020}.parquet")
    assert ordered(jobmanager.collect(second(Stream.from_rstream(str(copy))))) == whole


def test_an_unreadable_success_mark_is_named(copy: Path) -> None:
    (copy / SUCCESS).write_text('{"files": [')
    with pytest.raises(CorruptSourceError, match="_SUCCESS"):
        Stream.from_rstream(str(copy))


@pytest.mark.parametrize("form", [None, TableForm("start", "end")])
def test_a_stream_is_read_only_if_it_is_complete(form: TableForm | None, tmp_path: Path) -> None:
    """Segments may overlap; collected or unfinished streams are an error."""
    uri = str(tmp_path / "stream")
    stream = RStream.open(uri, PAYLOAD, limits=small_limits(), form=form, durability="sync")
    stream.append(items(0, 20))
    with pytest.raises(UnfinishedStreamError, match="has not finished"):
        Stream.from_rstream(uri)
    stream.append(items(20, 30))
    stream.append(cti_batch(INF_TIME, stream.schema))
    DurableLog(open_store(uri), "s", form=form).write(Items(10, items(10, 25)))
    found = jobmanager.collect(Stream.from_rstream(uri))
    assert found["number"].to_pylist() == [3 * seq for seq in range(30) if seq % 7 != 6]
    assert pc.subtract(found[VE], found[VS]).unique().to_pylist() == [5]
    stream.garbage_collect(20)
    stream.close()
    with pytest.raises(UnfinishedStreamError, match=r"\[0, 10\) are missing.*retain='all'"):
        Stream.from_rstream(uri)


def test_an_inner_stream_is_read(events: Path, tmp_path: Path) -> None:
    """The folder of a retained durable channel."""
    job = finished(second(first(events)), tmp_path / "job", retain="all", recovery="checkpoint")
    folders = sorted(path for path in (tmp_path / "job" / "streams").glob("*") if path.is_dir())
    assert folders, "no channel is durable"
    rows = sum(jobmanager.collect(Stream.from_rstream(str(f))).num_rows for f in folders)
    assert rows > 0
    assert job.status()["events_in"] == ROWS

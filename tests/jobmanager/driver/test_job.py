"""Whole jobs on threads of this process: the output is always the same sequence of items.

Not covered: effects between processes (tests/spark), and rare orders of messages (tests/sim).
"""

from __future__ import annotations

import socket
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest

import jobmanager
from jobmanager import (
    JobConfig,
    JobExistsError,
    JobFailedError,
    JobFormatError,
    JobRunningError,
    NoJobError,
    OutputTakenError,
)
from jobmanager.driver.input_positions import InputPositions
from jobmanager.driver.job_run import JobRun
from jobmanager.driver.notes import Notes
from jobmanager.storage.root import CANCEL, JobRoot
from planner import Query, Stream, agg, col, tumbling
from planner.physical.lower import lower
from rstream import MemoryBlobs, StreamLimits
from rstream.errors import StoreError, UsageError
from tests.support.budget import one_in
from tests.support.jobs import (
    ROWS,
    WAIT_S,
    answer,
    items_by_partition,
    outcome,
    output_items,
    two_exchanges,
    uneven_speeds,
    with_limits,
    write_events,
)
from tests.support.queries import QUERIES, bids
from tests.support.trouble import Disturber, Gate, cut_off, run_and_cancel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: A tail that holds some fifty events, and spills soon.
SMALL_TAIL = StreamLimits(tail_bytes_max=4_000, spill_after_s=0.02)
#: At this pace a job lasts a second, so a test can disturb it.
PACE = 40.0


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_events(tmp_path_factory.mktemp("events") / "events.parquet")


@pytest.fixture(scope="module")
def expected(events: Path, tmp_path_factory: pytest.TempPathFactory) -> jobmanager.Job:
    """A run on one host without failures."""
    job = jobmanager.run(
        two_exchanges(events),
        root=str(tmp_path_factory.mktemp("expected") / "job"),
        executor="local",
    )
    status = job.wait(WAIT_S)
    assert outcome(status)[:2] == ("finished", ROWS)
    assert status["events_out"] > 50
    return job


def run_local(query: Query, root: Path, **options: Any) -> dict[str, Any]:
    job = jobmanager.run(query, root=str(root), executor="local", **options)
    return job.wait(WAIT_S)


@pytest.mark.slow
@pytest.mark.parametrize("hosts", [2, 1, 3])
@pytest.mark.parametrize(
    ("step_rows_max", "checkpoint_interval_s"), [(50, 0.0), (1_000, 0.0), (65_536, 5.0)]
)
def test_the_output_depends_only_on_the_plan(
    hosts: int,
    step_rows_max: int,
    checkpoint_interval_s: float,
    events: Path,
    expected: jobmanager.Job,
    tmp_path: Path,
) -> None:
    config = with_limits(step_rows_max=step_rows_max, checkpoint_interval_s=checkpoint_interval_s)
    status = run_local(two_exchanges(events), tmp_path / "job", hosts=hosts, config=config)
    assert outcome(status) == outcome(expected.status())
    assert status["restarts"] == 0
    assert output_items(status["output"]) == output_items(expected.output)


@pytest.mark.parametrize("step_rows_max", one_in(2, [7, 1]))
def test_steps_of_a_few_rows(step_rows_max: int, tmp_path: Path) -> None:
    """The fast sibling of the last test."""
    path = write_events(tmp_path / "events.parquet", rows=200)
    whole = run_local(two_exchanges(path), tmp_path / "whole")
    config = with_limits(step_rows_max=step_rows_max, checkpoint_interval_s=0.0)
    cut = run_local(two_exchanges(path), tmp_path / "cut", hosts=2, config=config)
    assert outcome(cut) == outcome(whole)


@pytest.mark.parametrize("name", one_in(6, sorted(QUERIES)))
def test_every_shape_of_query(name: str, tmp_path: Path) -> None:
    whole = run_local(QUERIES[name](), tmp_path / "whole")
    config = with_limits(step_rows_max=3, pending_rows_max=2, checkpoint_interval_s=0.0)
    cut = run_local(QUERIES[name](), tmp_path / "cut", hosts=3, config=config)
    assert outcome(cut) == outcome(whole)
    assert whole["state"] == "finished"


@pytest.mark.parametrize("query", one_in(2, [uneven_speeds, two_exchanges]))
@pytest.mark.parametrize("hosts", one_in(2, [3, 1]))
def test_full_tails_spill_and_do_not_block_forever(
    query: Callable[[Path], Query], hosts: int, events: Path, tmp_path: Path
) -> None:
    whole = run_local(query(events), tmp_path / "whole")
    config = with_limits(stream=SMALL_TAIL, step_rows_max=100, pending_rows_max=50)
    small = run_local(query(events), tmp_path / "small", hosts=hosts, config=config)
    assert outcome(small) == outcome(whole)
    spilled = list((tmp_path / "small" / "streams").rglob("*.parquet"))
    assert spilled, "no tail was ever full, so this test shows nothing"


def test_another_parallelism_gives_the_same_table(
    events: Path, expected: jobmanager.Job, tmp_path: Path
) -> None:
    for parallelism in (1, 3):
        status = run_local(
            two_exchanges(events), tmp_path / str(parallelism), parallelism=parallelism
        )
        assert len(output_items(status["output"])) == parallelism
        got, want = answer(status["output"]), answer(expected.output)
        assert [without(row, "total", "last") for row in got] == [
            without(row, "total", "last") for row in want
        ]


def without(row: dict[str, Any], *names: str) -> dict[str, Any]:
    """Drop columns that depend on the order within a group, and so on the plan: float sums."""
    return {k: v for k, v in row.items() if k not in names}


def test_collect_returns_rows_in_sequence_order() -> None:
    stream = bids().filter(col("price") > 5).select("auction", "price")
    table = jobmanager.collect(stream)
    assert table.column_names == ["_vs", "_ve", "auction", "price"]
    assert table["_vs"].to_pylist() == sorted(table["_vs"].to_pylist())
    assert table.equals(jobmanager.collect(stream, config=with_limits(step_rows_max=1)))
    nothing = jobmanager.collect(stream.filter(col("price") > 1_000))
    assert (nothing.num_rows, nothing.schema) == (0, table.schema)


def test_success_mark_and_plain_parquet(expected: jobmanager.Job) -> None:
    folder = Path(expected.output)
    assert (folder / "_SUCCESS").is_file()
    table = ds.dataset(str(folder)).to_table()
    assert table.schema.names[:2] == ["window_start", "window_end"]
    assert not [name for name in table.schema.names if name.startswith("_")]
    events = [item for items in output_items(expected.output) for item in items if item[1] == 0]
    assert table.num_rows == len(events) == expected.status()["events_out"]


# ---- roots and outputs


def test_a_root_holds_one_job(events: Path, expected: jobmanager.Job) -> None:
    with pytest.raises(
        JobExistsError, match=r"already holds a job \(finished\); its output is kept"
    ):
        run_local(two_exchanges(events), Path(expected.root))


def filtered(events: Path, output: Path) -> Query:
    source = Stream.from_parquet(str(events), vs="t", delay="1s")
    return source.filter(col("key") == 1).to_parquet(str(output))


def test_an_output_belongs_to_one_job(events: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    run_local(filtered(events, output), tmp_path / "first")
    items = output_items(str(output))
    with pytest.raises(OutputTakenError, match=r"holds the output of job .*/first"):
        run_local(filtered(events, output), tmp_path / "second")
    (tmp_path / "first").rename(tmp_path / "elsewhere")
    with pytest.raises(OutputTakenError):  # another job with the root of the first
        run_local(filtered(events, output), tmp_path / "first")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("x")
    with pytest.raises(OutputTakenError, match="not empty"):
        run_local(filtered(events, tmp_path / "full"), tmp_path / "third")
    assert output_items(str(output)) == items


def test_a_job_that_never_started_can_be_run_again(events: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("x")
    with pytest.raises(OutputTakenError):
        run_local(filtered(events, tmp_path / "full"), tmp_path / "job")
    again = run_local(filtered(events, tmp_path / "output"), tmp_path / "job")
    assert again["state"] == "finished"


def test_resume_of_a_job_that_never_started(events: Path, tmp_path: Path) -> None:
    """Leave a root like that of a job manager killed right after it recorded the job."""
    root = JobRoot(str(tmp_path / "job"))
    settings = {"id": "1", "parallelism": 2, "executor": "local", "master": "", "paced": None}
    root.create(filtered(events, tmp_path / "output"), settings, now_us=0)
    assert jobmanager.resume(str(tmp_path / "job")).wait(WAIT_S)["state"] == "finished"


def test_resume_of_a_job_of_another_version(events: Path, tmp_path: Path) -> None:
    root = JobRoot(str(tmp_path / "job"))
    settings = {"id": "1", "parallelism": 2, "executor": "local", "master": "", "paced": None}
    root.create(filtered(events, tmp_path / "output"), {**settings, "format": 0}, now_us=0)
    with pytest.raises(JobFormatError, match="its format is 0, this version reads"):
        jobmanager.resume(str(tmp_path / "job"))


def test_resume_of_a_finished_job_changes_nothing(expected: jobmanager.Job) -> None:
    before = Path(expected.root, "status.json").read_bytes()
    job = jobmanager.resume(expected.root)
    assert outcome(job.wait(0.0)) == outcome(expected.status())
    job.cancel()
    assert Path(expected.root, "status.json").read_bytes() == before


def test_resume_needs_a_job(tmp_path: Path) -> None:
    with pytest.raises(NoJobError, match=f"{tmp_path} is not the folder of a job"):
        jobmanager.resume(str(tmp_path))


def test_one_job_manager_at_a_time(events: Path, tmp_path: Path) -> None:
    root = str(tmp_path / "job")
    job = jobmanager.run(two_exchanges(events), root=root, executor="local", paced=1.0)
    with pytest.raises(JobRunningError, match=f"already running on {root}"):
        jobmanager.resume(root)
    job.cancel()
    assert job.wait(WAIT_S)["state"] == "cancelled"


def test_a_root_in_memory_serves_one_process(events: Path) -> None:
    job = jobmanager.run(two_exchanges(events), root="memory://jobs/one", executor="local")
    assert job.wait(WAIT_S)["state"] == "finished"
    with pytest.raises(UsageError, match="not shared between processes"):
        jobmanager.run(two_exchanges(events), root="memory://jobs/two", executor="spark")


@pytest.fixture
def refusing_port() -> Iterator[int]:
    """A port that is bound but does not listen: connecting to it is refused."""
    with closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_s3")
def test_an_unreachable_endpoint_is_reported(
    events: Path, refusing_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{refusing_port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    with pytest.raises(StoreError, match=r"s3://bucket/job/plan\.pkl.*Could not connect"):
        jobmanager.run(two_exchanges(events), root="s3://bucket/job", executor="local")


@pytest.mark.parametrize(
    ("root", "message"),
    [
        ("{folder}/file/job", "Not a directory"),
        ("/proc/job", "No such file or directory"),
        ("nothing://host/job", "Protocol not known"),
    ],
)
def test_an_unusable_root_is_reported(
    root: str, message: str, events: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rstream.store.blobs.RETRY_DELAY_S", 0.001)
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match=message) as caught:
        jobmanager.run(two_exchanges(events), root=root.format(folder=tmp_path), executor="local")
    assert "\n" not in str(caught.value)


def test_a_job_whose_log_cannot_be_created_fails(events: Path, tmp_path: Path) -> None:
    """The job must not stay "starting" for as long as this process lives."""
    root = tmp_path / "job"
    root.mkdir()
    (root / "notices").write_text("a file where the log has to be")
    with pytest.raises(StoreError, match="notices"):
        run_local(two_exchanges(events), root)
    assert JobRoot(str(root)).read_status()["state"] == "failed"
    (root / "notices").unlink()
    assert jobmanager.resume(str(root)).wait(WAIT_S)["state"] == "finished"


def test_a_job_that_fails_to_end_properly_still_ends(
    events: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Callers do not wait forever, and the root can be resumed."""

    def stop(self: InputPositions, state: str) -> None:
        raise RuntimeError("a bug of what runs beside the driver")

    root = str(tmp_path / "job")
    with monkeypatch.context() as broken:
        broken.setattr(InputPositions, "stop", stop)
        job = jobmanager.run(uneven_speeds(events), root=root, executor="local")
        with pytest.raises(RuntimeError, match="a bug of what runs beside"):
            job.wait(WAIT_S)
    assert jobmanager.resume(root).wait(WAIT_S)["state"] == "finished"


def test_contradictory_options_are_rejected(events: Path, tmp_path: Path) -> None:
    options: list[dict[str, Any]] = [{"hosts": 0}, {"parallelism": 0}, {"paced": 0.0}]
    for option in options:
        with pytest.raises(UsageError, match=next(iter(option))):
            run_local(two_exchanges(events), tmp_path / "job", **option)
    with pytest.raises(UsageError, match="choose spark or local"):
        jobmanager.run(two_exchanges(events), root=str(tmp_path / "job"), executor="x")  # type: ignore[arg-type]
    refused: list[dict[str, Any]] = [
        {"replicas": 9},
        {"replicas": 2, "hosts": 1},
        {"recovery": "replication", "replicas": 1},
    ]
    for option in refused:
        with pytest.raises(UsageError, match="replicas"):
            run_local(two_exchanges(events), tmp_path / "job", **option)
    assert not (tmp_path / "job").exists()


def test_the_effective_pace_is_recorded(events: Path, tmp_path: Path) -> None:
    """The plan depends on the pace, so it is recorded regardless of who set it."""
    fast = JobConfig()
    config = replace(fast, host=replace(fast.host, pace=1e6))
    paces = []
    for i, (given, paced) in enumerate(((config, None), (config, 2e6), (fast, None))):
        root = tmp_path / f"job{i}"
        run_local(filtered(events, tmp_path / f"output{i}"), root, config=given, paced=paced)
        paces.append(JobRoot(str(root)).settings()["paced"])
    assert paces == [1e6, 2e6, None]


def test_objects_that_are_not_queries_are_rejected(events: Path, tmp_path: Path) -> None:
    root = tmp_path / "job"
    with pytest.raises(UsageError, match=r"run\(\) takes a Query or a Stream, not 'SELECT 1'"):
        jobmanager.run("SELECT 1", root=str(root), executor="local")  # type: ignore[arg-type]
    assert not root.exists()
    with pytest.raises(UsageError, match=r"collect\(\) takes a Stream \(without .to_parquet"):
        jobmanager.collect(two_exchanges(events))  # type: ignore[arg-type]


# ---- trouble on the way


@pytest.mark.usefixtures("brittle_lines")
@pytest.mark.parametrize(
    "which",
    [[0, 1], pytest.param([0], marks=pytest.mark.slow), pytest.param([1], marks=pytest.mark.slow)],
)
def test_a_disconnected_host_is_replaced(
    which: list[int],
    events: Path,
    expected: jobmanager.Job,
    gate: Gate,
    tmp_path: Path,
) -> None:
    disturber = Disturber([1, ROWS // 2, ROWS * 3 // 4], partial(cut_off, which), gate)
    config = with_limits(JobConfig(tick_s=0.02), checkpoint_interval_s=0.05, step_rows_max=200)
    status = run_local(
        two_exchanges(events),
        tmp_path / "job",
        hosts=2,
        paced=PACE,
        config=config,
        on_status=disturber,
    )
    assert disturber.calls == 3
    assert status["restarts"] >= disturber.calls
    assert outcome(status) == outcome(expected.status())
    assert output_items(status["output"]) == output_items(expected.output)


def test_a_cancelled_job_has_a_prefix_and_is_complete_after_resume(
    events: Path, expected: jobmanager.Job, gate: Gate, tmp_path: Path
) -> None:
    root = str(tmp_path / "job")
    config = with_limits(JobConfig(tick_s=0.02), checkpoint_interval_s=0.05, step_rows_max=200)
    options: dict[str, Any] = {"root": root, "paced": PACE, "config": config}
    job = run_and_cancel(two_exchanges(events), gate, ROWS // 4, **options)
    whole = items_by_partition(expected.output)
    for name, part in items_by_partition(job.output).items():
        assert part == whole[name][: len(part)]
    status = jobmanager.resume(root).wait(WAIT_S)
    assert outcome(status) == outcome(expected.status())
    assert output_items(status["output"]) == output_items(expected.output)


def test_a_job_is_cancelled_by_a_file_in_its_root(events: Path, tmp_path: Path) -> None:
    root = JobRoot(str(tmp_path / "job"))
    disturber = Disturber([1], lambda _: root.request(CANCEL))
    config = with_limits(JobConfig(tick_s=0.02))
    status = run_local(
        two_exchanges(events), tmp_path / "job", paced=1.0, config=config, on_status=disturber
    )
    assert status["state"] == "cancelled"
    assert status["output_digest"] == ""


def test_a_failure_is_raised_by_wait(events: Path, tmp_path: Path) -> None:
    source = Stream.from_parquet(str(events), vs="t", delay=0, late="error")
    query = source.group_by("key").window(tumbling("1s")).agg(n=agg.count()).to_parquet()
    with pytest.raises(JobFailedError, match="late"):
        run_local(query, tmp_path / "job")
    status = JobRoot(str(tmp_path / "job")).read_status()
    assert status["state"] == "failed"
    assert "late" in status["error"]


def test_a_job_manager_that_is_replaced_while_it_delivers_reports_nothing(
    events: Path, tmp_path: Path
) -> None:
    root = JobRoot(MemoryBlobs())
    plan = lower(two_exchanges(events), root=str(tmp_path), parallelism=1)
    run = JobRun(root, plan, "j", Notes())
    root.claim(1_000_000)
    JobRoot(root.store, pid=1, machine="elsewhere").claim(1_000_000)
    with pytest.raises(JobRunningError, match="pid 1 on elsewhere"):
        run.report_again()
    assert root.read_status()["machine"] == "elsewhere"

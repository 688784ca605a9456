"""Jobs over logs while rows are pushed: the result equals that over all rows at once.

Not covered: the intake server (tests/jobmanager/intake).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import jobmanager
from planner import Query, Stream, agg, tumbling
from planner.errors import InvalidPlanError
from rstream import Appender, AppendLimits, open_log
from rvertex.errors import SourceNotFoundError
from tests.support.jobs import WAIT_S, with_limits
from tests.support.live import Watch, answer_rows, finish, has_read

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema([("t", pa.int64()), ("key", pa.int64())])
QUICK = with_limits(checkpoint_interval_s=0.05, lease_s=0.5)
ROWS = 500


def counts(uri: str, *, follow: bool) -> Query:
    events = Stream.from_rstream(uri, vs="t", delay="1s", follow=follow, idle_after="100ms")
    window = events.group_by("key").window(tumbling("500ms"))
    return window.agg(n=agg.count(), last=agg.max("t")).to_parquet()


def rows(number: int) -> pa.RecordBatch:
    times = [number * 1_000_000 + k * 1_999 for k in range(ROWS)]
    return pa.RecordBatch.from_pydict({"t": times, "key": [t % 5 for t in times]}, schema=SCHEMA)


@pytest.mark.slow
def test_pushed_rows_are_read_as_they_arrive_also_by_a_successor(tmp_path: Path) -> None:
    uri, root, watch = str(tmp_path / "log"), tmp_path / "job", Watch()
    with Appender(uri, SCHEMA) as log:
        log.append(rows(0))
        query = counts(uri, follow=True)
        job = jobmanager.run(query, root=str(root), executor="local", config=QUICK, on_status=watch)
        for number in (1, 2):
            watch.until(has_read(number * ROWS))
            log.append(rows(number))
        watch.until(has_read(3 * ROWS))
        job.cancel()
        job.wait(WAIT_S)
        log.append(rows(3))
        job = jobmanager.resume(str(root), on_status=watch, config=QUICK)
        watch.until(has_read(4 * ROWS))
        (partition,) = watch.status["vertices"][0]["logs"]
        assert partition["holds_back"] or partition["state"] == "idle"
        assert finish(job)["state"] == "finished"
    whole = jobmanager.run(
        counts(uri, follow=False), root=str(tmp_path / "whole"), executor="local"
    )
    whole.wait(WAIT_S)
    assert answer_rows(job) == answer_rows(whole)


@pytest.mark.slow
def test_a_log_keeps_rows_for_a_stopped_job_but_not_for_a_finished_one(tmp_path: Path) -> None:
    """Its retention is 0, so only the rows that the job needs are kept."""
    uri, root, watch = str(tmp_path / "log"), tmp_path / "job", Watch()
    folder, limits = tmp_path / "log", AppendLimits(segment_commits_max=1, retention_s=0.0)
    with Appender(uri, SCHEMA, limits=limits) as log:
        log.append(rows(0))
    query = counts(uri, follow=True)
    job = jobmanager.run(query, root=str(root), executor="local", config=QUICK, on_status=watch)
    watch.until(has_read(ROWS))
    watch.until(lambda _: bool(list(folder.glob("_readers/*"))))
    job.stop()
    job.wait(WAIT_S)
    with Appender(uri, limits=limits) as log:
        for number in (1, 2, 3):
            log.append(rows(number))
    Appender(uri, limits=limits).close()  # it checks when it is opened
    assert open_log(uri).next_seq <= ROWS
    job = jobmanager.resume(str(root), on_status=watch, config=QUICK)
    watch.until(has_read(4 * ROWS))
    assert finish(job)["state"] == "finished"
    assert not list(folder.glob("_readers/*"))
    Appender(uri, limits=limits).close()
    assert open_log(uri).next_seq == 3 * ROWS  # the newest segment stays
    with Appender(f"{uri}-all", SCHEMA) as log:
        for number in range(4):
            log.append(rows(number))
    whole = jobmanager.run(
        counts(f"{uri}-all", follow=False), root=str(tmp_path / "whole"), executor="local"
    )
    whole.wait(WAIT_S)
    assert answer_rows(job) == answer_rows(whole)


@pytest.mark.slow
def test_a_job_follows_the_output_of_another_one_through_its_failure(tmp_path: Path) -> None:
    uri, first, second = str(tmp_path / "log"), tmp_path / "first", tmp_path / "second"
    watch, behind = Watch(), Watch()
    with Appender(uri, SCHEMA) as log:
        log.append(rows(0))
        query = counts(uri, follow=True)
        job = jobmanager.run(
            query, root=str(first), executor="local", config=QUICK, on_status=watch
        )
        follower = jobmanager.run(
            behind_it(job.output, follow=True),
            root=str(second),
            executor="local",
            config=QUICK,
            on_status=behind,
        )
        watch.until(has_read(ROWS))
        log.append(rows(1))
        watch.until(has_read(2 * ROWS))
        behind.until(has_read(1))
        job.cancel()
        job.wait(WAIT_S)
        log.append(rows(2))
        job = jobmanager.resume(str(first), on_status=watch, config=QUICK)
        watch.until(has_read(3 * ROWS))
        assert follower.status()["state"] == "running"
        assert finish(job)["state"] == "finished"
    follower.wait(WAIT_S)
    assert follower.status()["state"] == "finished"
    whole = jobmanager.run(
        behind_it(job.output, follow=False), root=str(tmp_path / "whole"), executor="local"
    )
    whole.wait(WAIT_S)
    assert answer_rows(follower) == answer_rows(whole)
    assert follower.status()["output_digest"] == whole.status()["output_digest"]


def behind_it(output: str, *, follow: bool) -> Query:
    windows = Stream.from_rstream(output, follow=follow).group_by("n").window(tumbling("1s"))
    return windows.agg(keys=agg.count(), last=agg.max("last")).to_parquet()


def test_a_stream_without_a_writer_is_not_followed(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError, match="start that job first"):
        Stream.from_rstream(str(tmp_path), follow=True)
    with pytest.raises(InvalidPlanError, match="already has times and CTIs"):
        Stream.from_rstream(str(tmp_path), follow=True, delay="1s")

"""Jobs over folders that grow while they run: the result equals that of a batch.

Not covered: an object store that lists a file before it is complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import jobmanager
from planner import Query, Stream, agg, tumbling
from planner.errors import InvalidPlanError
from rvertex.errors import SourceChangedError
from tests.support.jobs import WAIT_S, with_limits
from tests.support.live import FILE_ROWS, Watch, answer_rows, finish, has_read, write_file

if TYPE_CHECKING:
    from pathlib import Path

QUICK = with_limits(checkpoint_interval_s=0.05, lease_s=0.5)


def counts(folder: Path, *, follow: bool, partitions: int = 1) -> Query:
    """Count rows by key and half second."""
    live = {"follow": True, "poll_every": "20ms", "idle_after": "100ms"} if follow else {}
    events = Stream.from_json(str(folder), vs="t", delay="1s", partitions=partitions, **live)  # type: ignore[arg-type]
    return events.group_by("key").window(tumbling("500ms")).agg(n=agg.count()).to_parquet()


def batch_rows(folder: Path, root: Path) -> list[dict[str, object]]:
    job = jobmanager.run(counts(folder, follow=False), root=str(root), executor="local")
    job.wait(WAIT_S)
    return answer_rows(job)


@pytest.mark.slow
def test_new_files_are_read_once_also_by_a_successor(tmp_path: Path) -> None:
    folder, root, watch = tmp_path / "in", tmp_path / "job", Watch()
    folder.mkdir()
    write_file(folder, 0)
    query = counts(folder, follow=True)
    options = {"executor": "local", "config": QUICK, "on_status": watch}
    job = jobmanager.run(query, root=str(root), **options)  # type: ignore[arg-type]
    for number in (1, 2, 3):
        watch.until(has_read(number * FILE_ROWS))
        write_file(folder, number)
    watch.until(has_read(4 * FILE_ROWS))
    job.cancel()
    assert job.wait(WAIT_S)["state"] == "cancelled"
    write_file(folder, 4)
    job = jobmanager.resume(str(root), on_status=watch, config=QUICK)
    watch.until(has_read(5 * FILE_ROWS))
    write_file(folder, 5)
    watch.until(has_read(6 * FILE_ROWS))
    status = finish(job)
    assert status["state"] == "finished"
    assert status["events_in"] == 6 * FILE_ROWS
    assert answer_rows(job) == batch_rows(folder, tmp_path / "batch")


@pytest.mark.slow
def test_a_silent_partition_delays_nothing(tmp_path: Path) -> None:
    """All files but the first go to one of two partitions; windows close anyway."""
    folder, watch = tmp_path / "in", Watch()
    folder.mkdir()
    write_file(folder, 0)
    query = counts(folder, follow=True, partitions=2)
    job = jobmanager.run(
        query, root=str(tmp_path / "job"), executor="local", config=QUICK, on_status=watch
    )
    for number in range(1, 6):
        watch.until(has_read(number * FILE_ROWS))
        write_file(folder, number)
    watch.until(has_read(6 * FILE_ROWS))
    watch.until(lambda status: status["events_out"] >= 5)
    assert finish(job)["state"] == "finished"
    assert answer_rows(job) == batch_rows(folder, tmp_path / "batch")


def test_a_window_with_an_offset_is_emitted_at_its_end(tmp_path: Path) -> None:
    """Windows of days that start at 7:00 waited for the next midnight, the only CTI of a day."""
    folder, watch = tmp_path / "in", Watch()
    folder.mkdir()
    times = ("2026-03-01T08:00:00", "2026-03-02T07:00:00")
    (folder / "0000.json").write_text("".join(f'{{"t": "{time}Z"}}\n' for time in times))
    events = Stream.from_json(str(folder), vs="t", delay="0s", follow=True, poll_every="20ms")
    days = events.window(tumbling("1d", offset="7h")).agg(n=agg.count()).to_parquet()
    job = jobmanager.run(
        days, root=str(tmp_path / "job"), executor="local", config=QUICK, on_status=watch
    )
    watch.until(lambda status: status["events_out"] == 1)
    assert finish(job)["events_out"] == 2


def test_a_file_that_changes_after_it_was_read_is_rejected_by_name(tmp_path: Path) -> None:
    folder, root, watch = tmp_path / "in", tmp_path / "job", Watch()
    folder.mkdir()
    write_file(folder, 0)
    never = with_limits(checkpoint_interval_s=None, lease_s=0.5)
    query = counts(folder, follow=True)
    job = jobmanager.run(query, root=str(root), executor="local", config=never, on_status=watch)
    watch.until(has_read(FILE_ROWS))
    job.cancel()
    job.wait(WAIT_S)
    (folder / "0000.json").write_text('{"t": 1, "key": 2}\n')
    job = jobmanager.resume(str(root), config=never)
    with pytest.raises(jobmanager.JobFailedError, match=r"0000\.json: changed since"):
        job.wait(WAIT_S)
    assert issubclass(SourceChangedError, Exception)


def test_operations_that_need_an_end_reject_a_growing_folder(tmp_path: Path) -> None:
    write_file(tmp_path, 0)
    stream = Stream.from_json(str(tmp_path), vs="t", delay="1s", follow=True)
    with pytest.raises(InvalidPlanError, match="grows while it is read"):
        jobmanager.collect(stream)
    with pytest.raises(InvalidPlanError, match="grows while it is read"):
        jobmanager.collect_batch(stream)
    with pytest.raises(InvalidPlanError, match="set how far rows may be out of order"):
        Stream.from_json(str(tmp_path), vs="t", follow=True)

"""A column that appears later in a growing folder is reported, though no stage reads it.

Not covered: columns after the first few MB of a JSON file.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

import jobmanager
from jobmanager.driver.running.new_columns import LOOK_EVERY_S, NewColumns
from planner import Stream
from planner.physical.lower import lower
from rstream.clock import ManualClock
from rstream.log.background import InlineBackground
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from pathlib import Path

TOLD = "not read: y that the first file does not have, in 1 of {} files ({})"


def growing(folder: Path) -> Stream:
    return Stream.from_csv(folder, vs="t", delay="0s", follow=True, poll_every="20ms").select("t")


def test_a_new_column_in_a_later_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("t,x\n1,2\n")
    plan = lower(growing(tmp_path).to_parquet("out"), root="r")
    assert plan.notes == ()
    clock = ManualClock(1_000_000)
    columns = NewColumns(plan, clock, background=InlineBackground())
    manager: Any = None  # never used

    def look() -> list[str]:
        for _ in range(4):
            clock.advance(int(LOOK_EVERY_S * 1e6))
            columns.note(manager)
        return columns.notes

    assert look() == []
    (tmp_path / "a.csv").write_text("t,x,y\n2,3,4\n")
    assert [TOLD.format(2, tmp_path / "a.csv") in note for note in look()] == [True]
    (tmp_path / "c.csv").write_text("t,x\n3,3\n")
    columns.stop("finished")
    columns.stop("finished")
    assert [TOLD.format(3, tmp_path / "a.csv") in note for note in columns.notes] == [True]


def test_a_column_that_existed_at_the_start_is_reported_by_the_plan(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t,x\n1,2\n")
    (tmp_path / "b.csv").write_text("t,x,y\n2,3,4\n")
    plan = lower(growing(tmp_path).to_parquet("out"), root="r")
    assert TOLD.format(2, tmp_path / "b.csv") in plan.notes[0]
    columns = NewColumns(plan, ManualClock(0), background=InlineBackground())
    columns.stop("finished")
    assert columns.notes == []


@pytest.mark.slow
def test_the_status_of_a_job_lists_new_columns(tmp_path: Path) -> None:
    folder, told = tmp_path / "folder", threading.Event()
    folder.mkdir()
    (folder / "a.csv").write_text("t,x\n1,2\n")

    def see(status: dict[str, Any]) -> None:
        if any(TOLD.format(2, folder / "b.csv") in note for note in status["notes"]):
            told.set()

    query, root = growing(folder).to_parquet(), str(tmp_path / "job")
    job = jobmanager.run(query, root=root, executor="local", on_status=see)
    (folder / "b.csv").write_text("t,x,y\n2,3,4\n")
    assert told.wait(WAIT_S)
    job.cancel()
    assert job.wait(WAIT_S)["state"] == "cancelled"

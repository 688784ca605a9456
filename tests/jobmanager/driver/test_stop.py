"""A stopped and resumed job gives the result of an undisturbed one, and continues where it stopped.

Not covered: a kill while it stops (tests/sim, fault ``stop``).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

import jobmanager
from jobmanager import JobConfig
from jobmanager.errors import CannotFinishError
from jobmanager.storage.root import STOP, JobRoot
from jobmanager.storage.shown import shown_status
from planner import Stream
from rstream.clock import SystemClock
from tests.support.jobs import ROWS, WAIT_S, outcome, two_exchanges, with_limits, write_events

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.trouble import Gate

#: Only a stop takes checkpoints.
CONFIG = with_limits(
    JobConfig(tick_s=0.02, stop_lag_s=0.1), checkpoint_interval_s=1e6, step_rows_max=200
)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_events(tmp_path_factory.mktemp("events") / "events.parquet")


@pytest.fixture(scope="module")
def expected(events: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = str(tmp_path_factory.mktemp("expected") / "job")
    return jobmanager.run(two_exchanges(events), root=root, executor="local").wait(WAIT_S)


def stopped(
    events: Path, gate: Gate, root: str, stop: Callable[[jobmanager.Job], None]
) -> jobmanager.Job:
    """A job that was stopped in the middle of its input."""
    due = threading.Event()

    def on_status(status: dict[str, Any]) -> None:
        if status["events_in"] >= ROWS // 2:
            due.set()

    with gate.closed_at(ROWS // 2):
        options: dict[str, Any] = {"config": CONFIG, "hosts": 2, "on_status": on_status}
        job = jobmanager.run(two_exchanges(events), root=root, executor="local", **options)
        assert due.wait(WAIT_S), job.status()
        stop(job)
        assert job.wait(WAIT_S)["state"] == "stopped"
    return job


def once(job: jobmanager.Job) -> None:
    job.stop()


def twice(job: jobmanager.Job) -> None:
    job.stop()
    job.stop()


def by_a_file(job: jobmanager.Job) -> None:
    JobRoot(job.root).request(STOP)


@pytest.mark.parametrize(
    "stop", [twice, *(pytest.param(how, marks=pytest.mark.slow) for how in (once, by_a_file))]
)
def test_a_job_is_stopped_and_resumed(
    events: Path,
    expected: dict[str, Any],
    gate: Gate,
    tmp_path: Path,
    stop: Callable[[jobmanager.Job], None],
) -> None:
    root = str(tmp_path / "job")
    job = stopped(events, gate, root, stop)
    assert shown_status(JobRoot(root), SystemClock().now_us())["state"] == "stopped"
    resumed = jobmanager.resume(root, config=CONFIG)
    status = resumed.wait(WAIT_S)
    assert outcome(status) == outcome(expected)
    begun = {row["vertex"]: row["checkpoint"] for row in status["vertices"]}
    begun = {vertex: name for vertex, name in begun.items() if "events" not in vertex}
    assert all(begun.values()), "all but sources, which may have been ahead, went on from theirs"
    job.stop()  # it has ended: nothing happens
    assert JobRoot(root).read_status()["state"] == "finished"


def test_a_lost_status_is_rebuilt_from_the_log(events: Path, gate: Gate, tmp_path: Path) -> None:
    root = str(tmp_path / "job")
    stopped(events, gate, root, once)
    (tmp_path / "job" / "status.json").unlink()
    assert shown_status(JobRoot(root), SystemClock().now_us())["state"] == "stopped"


def test_a_job_over_files_cannot_be_told_to_finish(
    events: Path, gate: Gate, tmp_path: Path
) -> None:
    def refused(job: jobmanager.Job) -> None:
        with pytest.raises(CannotFinishError, match="that end by themselves; stop it without"):
            job.stop(finish=True)
        job.stop()

    stopped(events, gate, str(tmp_path / "job"), refused)


def test_a_job_that_finishes_at_once_has_read_all_files_of_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for n in range(3):
        (folder / f"{n}.json").write_text(f'{{"t": "2026-01-01T00:00:0{n}", "x": {n}}}\n')
    stream = Stream.from_json(str(folder), vs="t", delay="0s", follow=True, poll_every="20ms")
    job = jobmanager.run(stream.to_parquet(), root=str(tmp_path / "job"), executor="local")
    job.stop(finish=True)
    assert job.wait(WAIT_S)["events_in"] == 3

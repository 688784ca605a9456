"""Processes of hosts survive a rescale: no others are started, unless one died meanwhile.

Not covered: a process that dies between two messages of its connection (tests/sim).
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from jobmanager.driver.running import legs
from jobmanager.driver.running.changes.stopped import change_now
from jobmanager.driver.running.deploying import deploy, rescale
from rvertex.host.spark import SparkExecutor
from tests.jobmanager.driver.changes.test_killed_in_change import TRIES, ask, die_in_change
from tests.support.budget import DEPTH
from tests.support.changed_jobs import COUNTS, ChangedJob, whole_answer
from tests.support.jobs import WAIT_S, wait_gone

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rvertex.host.host import HostSpec

pytestmark = pytest.mark.spark
TOTALS = COUNTS.replace("ss.agg.count()", 'ss.agg.count(), total=ss.agg.sum("x")')
HOSTS = 2
FEW_TRIES = [("rescale", "built"), ("deploy", "before the next leg")]


class Job:
    """A job on Spark that is changed; ``submitted``: the hosts for which a process was started."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, taken_wait_s: float = WAIT_S
    ) -> None:
        self.changed, self.submitted = ChangedJob(folder), list[str]()
        self._planted = monkeypatch
        submit = SparkExecutor._submit

        def noted(executor: SparkExecutor, spec: HostSpec, on_exit: Any) -> None:
            self.submitted.append(spec.host)
            submit(executor, spec, on_exit)

        monkeypatch.setattr(SparkExecutor, "_submit", noted)
        monkeypatch.setattr("rvertex.host.spark.executor.TAKEN_WAIT_S", taken_wait_s)
        self.changed.append(2)
        path = self.changed.query("counts", COUNTS)
        self.changed.run(path, executor="spark", master=f"local[{HOSTS}]", hosts=HOSTS)
        self.changed.has_read_all()

    def pids(self, without: int | None = None) -> list[int]:
        """The processes of the hosts, once all are ready and ``without`` is not among them."""

        def found(status: dict[str, Any]) -> list[int]:
            ready = [host["pid"] for host in status["hosts"] if host["state"] == "ready"]
            return ready if len(ready) == HOSTS and without not in ready else []

        return found(self.changed.watch.until(lambda status: bool(found(status))))

    def strike(self, act: Callable[[], None]) -> None:
        """Call ``act`` in the next change, when all processes wait for other hosts."""
        inner = change_now

        def struck(*given: Any, **named: Any) -> Any:
            self._planted.setattr(legs, "change_now", inner)
            act()
            return inner(*given, **named)

        self._planted.setattr(legs, "change_now", struck)

    def rescale(self, width: int) -> None:
        """Change the job's number of vertices, and let it read more."""
        assert rescale(self.changed.root, parallelism=width, wait_s=WAIT_S)["state"] == "done"
        self.changed.append()
        self.changed.has_read_all()

    def is_right(self) -> bool:
        """End the job. Return whether its output is that of a job that was never changed."""
        rows, expected = self.changed.finish(), whole_answer(self.changed, COUNTS)
        return sorted(map(_row, rows)) == sorted(map(_row, expected))


def _row(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["window_start"], row["key"], row["n"], row["m"]


def test_processes_are_kept_for_a_rescale_and_end_at_a_deployment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(tmp_path, monkeypatch)
    before = job.pids()
    assert len(job.submitted) == HOSTS
    for width in (3, 1, 4):
        job.rescale(width)
        assert sorted(job.pids()) == sorted(before)
    assert len(job.submitted) == HOSTS
    path = job.changed.query("totals", TOTALS)
    deploy(path, job.changed.root, yes=True, wait_s=WAIT_S)
    job.changed.append()
    job.changed.has_read_all()
    assert len(job.submitted) == 2 * HOSTS
    job.rescale(2)
    assert len(job.submitted) == 2 * HOSTS
    assert job.is_right()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_process_that_dies_or_hangs_while_parked_is_replaced(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(tmp_path, monkeypatch, 10.0)  # the other process answers, also on a busy machine
    before = job.pids()
    job.strike(lambda: os.kill(before[0], number))
    job.rescale(3)
    assert before[1] in job.pids(without=before[0])
    assert len(job.submitted) == HOSTS + 1
    wait_gone(before[:1])
    job.rescale(2)
    assert len(job.submitted) == HOSTS + 1
    assert job.is_right()


def test_parked_processes_exit_after_a_crash_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, executors = Job(tmp_path, monkeypatch), list[SparkExecutor]()
    release = SparkExecutor.release

    def noted(executor: SparkExecutor) -> None:
        assert not executor._processes.running, "all wait"
        executors.append(executor)
        release(executor)

    monkeypatch.setattr(SparkExecutor, "release", noted)

    def crash() -> None:
        raise RuntimeError("planted")

    job.strike(crash)
    asking = ask(lambda: rescale(job.changed.root, parallelism=3, wait_s=WAIT_S), [])
    assert job.changed.job is not None
    with pytest.raises(RuntimeError, match="planted"):
        job.changed.job.wait(WAIT_S)
    (executor,) = executors
    assert not executor._processes._hosts, "they occupy task slots"
    job.changed.resume()
    asking.join(WAIT_S)
    assert job.is_right()


@pytest.mark.parametrize(("verb", "phase"), TRIES if DEPTH > 1 else FEW_TRIES)
def test_a_driver_dies_while_processes_are_parked(verb: str, phase: str, tmp_path: Path) -> None:
    """The driver dies while processes wait: they exit, and ``resume`` completes the change."""
    die_in_change(verb, phase, tmp_path, executor="spark")


def test_a_worker_killed_after_the_change_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker killed after the change is replaced by one with the new plan."""
    job = Job(tmp_path, monkeypatch)
    job.rescale(3)
    for pid in job.pids():
        os.kill(pid, signal.SIGKILL)
    job.changed.append()
    job.changed.has_read_all()
    assert len(job.submitted) == 2 * HOSTS
    assert job.is_right()

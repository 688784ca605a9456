"""SIGKILL of the job manager, with all hosts in its process: ``resume`` gives the same items.

Not covered: hosts that outlive their job manager (tests/spark).
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import jobmanager
from jobmanager import JobRunningError
from jobmanager.storage.root import JobRoot
from tests.rooms import ROOT
from tests.support.jobs import (
    ROWS,
    WAIT_S,
    items_by_partition,
    outcome,
    output_items,
    two_exchanges,
)
from tests.support.killed_driver import CONFIG
from tests.support.trouble import Disturber

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.trouble import Gate

REPOSITORY = ROOT
PACE = 40.0


Status = dict[str, object]


def kill_when(
    events_in: int,
    events: Path,
    root: Path,
    *,
    meanwhile: Callable[[], None] = lambda: None,
) -> Status:
    """Run the job in a process, SIGKILL it after this number of rows. Return its status then."""
    command = [sys.executable, "-m", "tests.support.killed_driver"]
    process = subprocess.Popen(
        [*command, str(events), str(root), str(PACE), str(events_in)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            status: Status = json.loads(line)
            if int(str(status["events_in"])) >= events_in:
                meanwhile()
                return status
        raise AssertionError(f"the job ended with {process.wait()} before it was to be killed")
    finally:
        process.kill()
        process.wait(WAIT_S)
        process.stdout.close()


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_a_driver_is_killed_once(
    share: float, events: Path, expected: jobmanager.Job, tmp_path: Path
) -> None:
    root = tmp_path / "job"
    kill_when(int(ROWS * share), events, root)
    whole = items_by_partition(expected.output)
    for name, part in items_by_partition(str(root / "output")).items():
        assert part == whole[name][: len(part)], "what was durable was not a prefix of the answer"
    status = jobmanager.resume(str(root)).wait(WAIT_S)
    assert outcome(status) == outcome(expected.status())
    assert output_items(status["output"]) == output_items(expected.output)


@pytest.mark.slow
def test_a_driver_is_killed_repeatedly(
    events: Path, expected: jobmanager.Job, tmp_path: Path
) -> None:
    root = tmp_path / "job"
    seen = 0
    for _ in range(6):
        status = kill_when(seen + 1, events, root)
        seen = max(seen, int(str(status["events_in"])) + ROWS // 10)
        if seen >= ROWS or status["state"] != "running":
            break
    final = jobmanager.resume(str(root)).wait(WAIT_S)
    assert outcome(final) == outcome(expected.status())
    assert output_items(final["output"]) == output_items(expected.output)


@pytest.mark.parametrize("where", ["path", pytest.param("s3", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_a_driver_considered_dead_ends_and_its_successor_completes_the_job(
    where: str,
    events: Path,
    expected: jobmanager.Job,
    gate: Gate,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """Act as a suspended driver, while another machine has continued and then stopped the job."""
    folder = str(tmp_path) if where == "path" else request.getfixturevalue("s3_bucket")
    root = JobRoot(f"{folder}/job")
    others = JobRoot(f"{folder}/job", pid=1, machine="elsewhere")
    gate.close_at(ROWS // 2)
    disturber = Disturber([ROWS // 2], lambda _: others.claim(0))
    job = jobmanager.run(
        two_exchanges(events),
        root=f"{folder}/job",
        executor="local",
        hosts=2,
        paced=PACE,
        config=CONFIG,
        on_status=disturber,
    )
    with pytest.raises(JobRunningError, match="pid 1 on elsewhere"):
        job.wait(WAIT_S)
    assert disturber.calls == 1
    gate.open()
    status = jobmanager.resume(f"{folder}/job").wait(WAIT_S)
    assert root.read_status()["manager_epoch"] == 3
    assert outcome(status) == outcome(expected.status())
    if where == "path":  # in other stores the digest in the outcome must suffice
        assert output_items(status["output"]) == output_items(expected.output)


@pytest.mark.slow
def test_a_live_job_manager_is_not_joined_by_another(events: Path, tmp_path: Path) -> None:
    root = tmp_path / "job"

    def try_to_resume() -> None:
        with pytest.raises(JobRunningError, match=r"pid \d+ on "):
            jobmanager.resume(str(root))

    kill_when(0, events, root, meanwhile=try_to_resume)

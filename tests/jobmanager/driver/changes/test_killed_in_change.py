"""SIGKILL of the driver in each phase of a change: `resume` completes the change or undoes it.

Not covered: a death within one store call (test_crash_in_change.py).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from jobmanager.driver.running.changes import pending
from jobmanager.driver.running.deploying import deploy, rescale, roll_back, take_savepoint
from jobmanager.storage.root import GENERATION, JobRoot
from jobmanager.storage.savepoints import list_savepoints
from tests.rooms import ROOT
from tests.support.budget import scaled
from tests.support.changed_jobs import COUNTS, ChangedJob, whole_answer
from tests.support.jobs import WAIT_S, wait_gone
from tests.support.killed_change import FIRST_COMMITTED, PHASES, WITHOUT

if TYPE_CHECKING:
    from collections.abc import Callable

TOTALS = COUNTS.replace("ss.agg.count()", 'ss.agg.count(), total=ss.agg.sum("x")')
VERBS = ("rescale", "deploy", "rollback", "savepoint")
TRIES = [(verb, phase) for phase in PHASES for verb in VERBS if phase not in WITHOUT[verb]]
#: A request waits for its driver to die, and for the next one.
ASK_S = 3 * WAIT_S
#: Without DEPTH, a run tries every seventh one.
EVERY = 7
NAMES = ("window_start", "key", "n", "m")


def rows_by_name(rows: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    return sorted(tuple(str(row[name]) for name in NAMES) for row in rows)


def ask(change: Callable[[], object], into: list[object]) -> threading.Thread:
    """Request a change from another thread; ``into`` gets its outcome or error."""

    def body() -> None:
        try:
            into.append(change())
        except Exception as error:
            into.append(error)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    return thread


def rescale_and_stop(changed: ChangedJob, path: str, **options: Any) -> None:
    """Leave a job with a change that can be rolled back, and rows since then."""
    job = changed.run(path, **options)
    changed.has_read_all()
    rescale(changed.root, parallelism=3, wait_s=WAIT_S)
    changed.append()
    changed.has_read_all()
    job.stop()
    job.wait(WAIT_S)


def die_in_change(verb: str, phase: str, tmp_path: Path, **options: Any) -> None:
    """Kill a driver in a phase of a change, resume its job, and compare its output.

    The processes of its hosts end by themselves. ``options``: of the job.
    """
    changed, folder = ChangedJob(tmp_path), str(tmp_path / "delivered")
    to = f'.deliver(ss.sinks.parquet({folder!r}, roll="0s"))'
    if verb == "rollback":
        to = ""  # rows that were delivered since the change would refuse it
    changed.append(2)
    path = changed.query("counts", f"{COUNTS}{to}")
    if verb == "rollback":
        rescale_and_stop(changed, path, **options)
    former = int(verb == "rollback")
    new = changed.query("totals", f"{TOTALS}{to}")
    executor = options.get("executor", "local")
    given = [changed.root, path, phase, executor]
    command = [sys.executable, "-m", "tests.support.killed_change", *given]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    root = JobRoot(changed.root)
    with subprocess.Popen(command, cwd=ROOT, env=environment) as process:
        while not is_running(status := root.read_status()):
            assert process.poll() is None
            threading.Event().wait(0.05)

        def change() -> object:
            if verb == "rescale":
                return rescale(changed.root, parallelism=3, wait_s=ASK_S)
            if verb == "rollback":
                return roll_back(changed.root, wait_s=ASK_S)
            if verb == "savepoint":
                return take_savepoint(changed.root, "saved", wait_s=ASK_S)
            return deploy(new, changed.root, yes=True, wait_s=ASK_S)

        found: list[object] = []
        asking = ask(change, found)
        assert process.wait(WAIT_S) == -signal.SIGKILL
    wait_gone([host["pid"] for host in status["hosts"]])
    changed.append()
    changed.resume()
    asking.join(ASK_S)
    assert found, "the request got no outcome"
    assert pending.pending(root.store) is None
    assert pending.committed(root.store) is None
    number = int(root.settings().get(GENERATION, 0))
    is_done = not isinstance(found[0], Exception)
    assert number == former + (is_done and verb != "savepoint"), found
    order = list(PHASES)
    if order.index(phase) >= order.index(FIRST_COMMITTED):
        assert is_done, found
    assert changed.job is not None
    changed.append()
    changed.has_read_all()
    rows = changed.finish()
    width = sum(v.stage == "s02-agg" for v in changed.job.plan.vertices)
    has_three = is_done if verb == "rescale" else verb == "rollback" and not is_done
    assert width == 2 + has_three
    assert rows_by_name(rows) == rows_by_name(whole_answer(changed, COUNTS))
    for saved in list_savepoints(root.store):
        assert all(root.store.exists(name) for name in saved.files), saved.name
    if to:
        files = Path(folder).rglob("*.parquet")
        delivered = [row for file in files for row in pq.read_table(file).to_pylist()]
        assert rows_by_name(delivered) == rows_by_name(rows)


def is_running(status: dict[str, Any]) -> bool:
    """Whether the job and all its hosts run."""
    ready = [host["state"] == "ready" for host in status.get("hosts", ())]
    return status.get("state") == "running" and bool(ready) and all(ready)


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "phase"), TRIES[:: max(1, EVERY // scaled(1))])
def test_a_change_is_completed_or_undone(verb: str, phase: str, tmp_path: Path) -> None:
    die_in_change(verb, phase, tmp_path)

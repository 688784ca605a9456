"""A suspended job manager that was replaced ends with one message, after its hosts.

Not covered: a Flight server that ignores a shutdown.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

import jobmanager
from jobmanager.cli.exits import EXIT_USAGE
from jobmanager.errors import JobRunningError
from jobmanager.storage.root import JobRoot
from rstream.clock import SystemClock
from tests.support.jobs import ROWS, WAIT_S, two_exchanges, until, write_events

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.trouble import Gate

HOSTS = 3
QUERY = """
from pathlib import Path
from tests.support.jobs import two_exchanges
query = two_exchanges(Path({events!r}))
"""


def replace_manager(root: Path) -> None:
    """Act as a job manager on another machine."""
    JobRoot(str(root), pid=7, machine="elsewhere").claim(SystemClock().now_us())


def test_hosts_exit_before_a_replaced_job_manager_has_ended(tmp_path: Path, gate: Gate) -> None:
    """A replaced job manager first ends its hosts, whose threads used to outlive it."""
    root, working, before = tmp_path / "job", threading.Event(), set(threading.enumerate())
    query = two_exchanges(write_events(tmp_path / "events.parquet"))

    def on_status(status: dict[str, object]) -> None:
        if status["events_in"]:
            working.set()

    with gate.closed_at(ROWS // 2):
        options = {"root": str(root), "hosts": HOSTS, "on_status": on_status}
        job = jobmanager.run(query, executor="local", **options)  # type: ignore[arg-type]
        assert working.wait(WAIT_S)
        replace_manager(root)
        with pytest.raises(JobRunningError, match="pid 7 on elsewhere"):
            job.wait(WAIT_S)
        names = {f"h{k}.0" for k in range(HOSTS)}
        assert not [t for t in {*threading.enumerate()} - before if t.name in names]


@pytest.mark.slow
def test_a_suspended_and_fenced_job_manager_ends_with_one_message(tmp_path: Path) -> None:
    file, root = tmp_path / "query.py", tmp_path / "job"
    file.write_text(QUERY.format(events=str(write_events(tmp_path / "events.parquet"))))
    command = [sys.executable, "-m", "jobmanager", "run", str(file), "--root", str(root), "--json"]
    command += ["--executor", "local", "--hosts", str(HOSTS), "--paced", "0.5"]
    sleeper = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until(lambda: bool(JobRoot(str(root)).read_status().get("events_in")), "it does not begin")
    os.kill(sleeper.pid, signal.SIGSTOP)
    replace_manager(root)
    os.kill(sleeper.pid, signal.SIGCONT)
    out, err = sleeper.communicate(timeout=WAIT_S)
    assert sleeper.returncode == EXIT_USAGE, err
    assert "Fatal" not in err
    assert "Traceback" not in err
    assert sum(line.startswith("jobmanager: error") for line in err.splitlines()) == 1
    assert "pid 7 on elsewhere" in json.loads(out.splitlines()[-1])["error"]

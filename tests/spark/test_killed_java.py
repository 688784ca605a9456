"""The Java process of a job on Spark is killed: one message, a status, and a resume.

Not covered: a Java process that hangs instead.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import jobmanager
from tests.jobmanager.storage.test_places import totals
from tests.support.jobs import WAIT_S, write_events

if TYPE_CHECKING:
    from pathlib import Path

QUERY = """
from pathlib import Path
from tests.jobmanager.storage.test_places import totals
query = totals(Path({events!r}))
"""
#: Kills Java once rows were read, then resumes the job in the same process.
SCRIPT = """
import json, os, signal, sys, threading, time
from pathlib import Path
from pyspark import SparkContext
from jobmanager.cli.main import app
file, root = sys.argv[1:]
def kill():
    while True:  # ends with the job, or with this process
        try:
            if json.loads(Path(root, "status.json").read_text())["events_in"] > 100:
                return os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
        except (OSError, ValueError, KeyError):
            pass
        time.sleep(0.02)
def call(*arguments):
    try:
        app([*arguments, "--json"])
    except SystemExit as end:
        print("exit", end.code, flush=True)
threading.Thread(target=kill, daemon=True).start()
call("run", file, "--root", root, "--master", "local[2]", "--paced", "10")
call("resume", root)
"""


@pytest.mark.spark(own_java=True)
def test_a_killed_java_process_is_one_message_and_the_job_can_be_resumed(tmp_path: Path) -> None:
    events = write_events(tmp_path / "events.parquet")
    calm = jobmanager.run(totals(events), root=str(tmp_path / "calm"), executor="local")
    digest = calm.wait(WAIT_S)["output_digest"]
    file, root = tmp_path / "query.py", tmp_path / "job"
    file.write_text(QUERY.format(events=str(events)))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(file), str(root)],
        capture_output=True,
        text=True,
        timeout=5 * WAIT_S,
    )
    first, one, second, two = done.stdout.splitlines()
    told = json.loads(first)
    assert (told["state"], one) == ("failed", "exit 1"), done
    assert told["error"].startswith("Spark at local[2] is gone: its Java was killed")
    # A progress line may name the last error of a host that died with Java.
    lines = [line for line in done.stderr.splitlines() if not line.startswith("job running:")]
    errors = [line for line in lines if "error" in line]
    assert len(errors) == 1, done.stderr
    assert f"(resume with: jobmanager resume {root};" in errors[0]
    assert "Traceback" not in done.stderr
    told = json.loads(second)
    assert (told["state"], two) == ("finished", "exit 0"), done
    assert told["output_digest"] == digest

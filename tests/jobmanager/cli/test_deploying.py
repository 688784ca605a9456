"""The unit files, manifests and the start script of docs/howto/deploying work unchanged.

Not covered: errors that only a Kubernetes cluster reports, such as a missing storage class.
"""

from __future__ import annotations

import configparser
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.dataset as pads
import pytest
import yaml

from jobmanager.storage.query_file import load_query
from tests.rooms import ROOT
from tests.support.jobs import WAIT_S
from tests.support.live import FILE_ROWS, write_file

FOLDER = ROOT / "docs" / "howto" / "deploying"
FILES = 5
QUERY = """
import os
import streamscope as ss
rows = ss.Stream.from_json(os.environ["INPUT"], vs="t", delay="1s", follow=True, poll_every="50ms")
query = rows.group_by("key").window(ss.tumbling("1s")).agg(c=ss.agg.count()).to_parquet()
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder like /opt/streamscope/bin, with the start script and the command."""
    folder = tmp_path / "bin"
    folder.mkdir()
    shutil.copy(FOLDER / "start-job", folder)
    command = folder / "jobmanager"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m jobmanager "$@"\n')
    command.chmod(0o755)
    return folder


@pytest.mark.parametrize("name", ["streamscope@.service", "streamscope-page.service"])
def test_the_units_are_valid(name: str, programs: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    unit = programs.parent / name
    unit.write_text((FOLDER / name).read_text().replace("/opt/streamscope/bin", str(programs)))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def documents() -> list[Any]:
    return list(yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text()))


def test_the_manifests_are_valid() -> None:
    import kubernetes_validate

    kinds = []
    for document in documents():
        kinds.append(document["kind"])
        kubernetes_validate.validate(document, "1.30", strict=True)
    assert kinds == ["ConfigMap", "Service", "StatefulSet"]


def test_the_manifests_contain_a_valid_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA", "localhost:9092")
    data = documents()[0]["data"]
    file = tmp_path / "orders.py"
    file.write_text(data["orders.py"])
    assert load_query(str(file))


class Unit:
    """Runs the commands of a job's unit as systemd does, in folders of the test."""

    def __init__(self, programs: Path) -> None:
        self._folder = programs.parent
        lines = configparser.ConfigParser(strict=False, interpolation=None)
        lines.optionxform = str  # type: ignore[assignment, method-assign]
        lines.read_string(self.placed((FOLDER / "streamscope@.service").read_text(), programs))
        self.service = lines["Service"]
        self.root = self._folder / "var" / "orders"
        for folder in (self.service["WorkingDirectory"], str(self.root.parent)):
            os.mkdir(folder)

    def placed(self, text: str, programs: Path) -> str:
        text = text.replace("/opt/streamscope/bin", str(programs)).replace("%i", "orders")
        text = text.replace("/etc/streamscope", str(self._folder / "etc"))
        return text.replace("/var/lib/streamscope", str(self._folder / "var"))

    def start(self) -> subprocess.Popen[bytes]:
        """Run ExecStart in its own process group, which represents the control group."""
        return subprocess.Popen(
            self.service["ExecStart"].split(),
            cwd=self.service["WorkingDirectory"],
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def stop(self, running: subprocess.Popen[bytes]) -> None:
        """Run ExecStop, then send SIGTERM to all processes, as systemd does."""
        limit_s = {"2min": 120}[self.service["TimeoutStopSec"]]
        command = self.service["ExecStop"].removeprefix("-").split()
        subprocess.run(command, env=self._environment(), timeout=limit_s, check=True)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGTERM)
        assert running.wait(limit_s) in (0, -signal.SIGTERM)

    def _environment(self) -> dict[str, str]:
        path = Path(self.service["EnvironmentFile"].removeprefix("-"))
        lines = [self.service["Environment"], *path.read_text().splitlines()]
        return {"PYTHONPATH": str(ROOT), **dict(line.split("=", 1) for line in lines)}


def reads(process: subprocess.Popen[bytes], rows: int) -> None:
    """Wait until a job has read this number of rows."""
    assert process.stdout is not None
    for line in process.stdout:
        if f" {rows:,} events in".encode() in line:
            return
    raise AssertionError("it has ended")


@pytest.mark.slow
def test_the_unit_restarts_a_job_after_a_kill_and_stops_it(programs: Path) -> None:
    unit, inputs = Unit(programs), programs.parent / "in"
    etc = Path(unit.service["WorkingDirectory"])
    (etc / "orders.py").write_text(QUERY)
    (etc / "orders.env").write_text(f"INPUT={inputs}\n")
    (etc / "streamscope.toml").write_text("executor = 'local'\n")
    inputs.mkdir()

    def started(files: range) -> subprocess.Popen[bytes]:
        for number in files:
            write_file(inputs, number)
        running = unit.start()
        reads(running, FILE_ROWS * len(list(inputs.glob("*.json"))))
        return running

    def status() -> tuple[str, int]:
        found = json.loads((unit.root / "status.json").read_text())
        return found["state"], found["events_in"]

    first = started(range(FILES))
    assert unit.service["Restart"] == "on-failure"
    os.killpg(first.pid, signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL

    second = started(range(FILES, 2 * FILES))
    unit.stop(second)
    assert status() == ("stopped", 2 * FILES * FILE_ROWS)

    # a stop request that was left over would take effect now
    third = started(range(2 * FILES, 3 * FILES))
    command = [str(programs / "jobmanager"), "stop", "--finish", "--wait", "100", str(unit.root)]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    assert third.wait(WAIT_S) == 0
    assert status() == ("finished", 3 * FILES * FILE_ROWS)
    found = pads.dataset(unit.root / "output").to_table().to_pydict()
    assert sum(found["c"]) == 3 * FILES * FILE_ROWS
    assert len(set(zip(found["window_start"], found["key"], strict=True))) == len(found["c"])

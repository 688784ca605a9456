"""The unit files, manifests and the start script of docs/howto/deploying work as they are.

Cannot catch: what only a cluster of Kubernetes refuses, such as a storage class.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from jobmanager.storage.query_file import load_query
from tests.rooms import ROOT

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = ROOT / "docs" / "howto" / "deploying"
QUERY = """
import streamscope as ss
rows = [ss.event(k * 1000, n=k) for k in range(20_000)]
query = ss.Stream.from_items({"n": "int64"}, rows).group_by(n=ss.col("n") % 7).window(
    ss.tumbling("1s")).agg(c=ss.agg.count()).to_parquet()
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder as /opt/streamscope/bin: the start script and the command."""
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


def test_the_query_of_the_manifests_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA", "localhost:9092")
    data = documents()[0]["data"]
    file = tmp_path / "orders.py"
    file.write_text(data["orders.py"])
    assert load_query(str(file))


@pytest.mark.slow
def test_the_start_script_begins_a_job_and_continues_it(programs: Path) -> None:
    folder = programs.parent
    (folder / "q.py").write_text(QUERY)
    (folder / "streamscope.toml").write_text("executor = 'local'\n[run]\npaced = 10\njson = true")
    start = [str(programs / "start-job"), "q.py", "root"]
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }

    first = subprocess.Popen(
        start, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert first.stdout is not None
    for line in first.stdout:  # until it has read something
        if b"events in" in line and b" 0 events in" not in line:
            break
    first.send_signal(signal.SIGKILL)
    first.wait()

    (folder / "streamscope.toml").write_text("executor = 'local'\n[resume]\njson = true")
    second = subprocess.run(
        start, cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    told = json.loads(second.stdout.splitlines()[-1])
    assert (told["state"], told["events_in"]) == ("finished", 20_000)
    third = subprocess.run(
        start, cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(third.stdout.splitlines()[-1])["output_digest"] == told["output_digest"]

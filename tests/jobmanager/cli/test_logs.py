"""What ``logs`` tells of a job. Cannot catch: a notice of which nothing is said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

import jobmanager
from jobmanager.cli.main import app
from planner import Stream, event
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("logs") / "job"
    stream = Stream.from_items({"x": "int64"}, [event(k, x=k) for k in range(5)])
    jobmanager.run(stream.to_parquet(), root=str(root), executor="local").wait(WAIT_S)
    return root


def lines(*arguments: str) -> list[str]:
    done = CliRunner().invoke(app, ["logs", *arguments])
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def test_a_job_from_its_begin_to_its_end(root: Path) -> None:
    found = lines(str(root), "--follow")
    assert "the job begins with" in found[0]
    assert any("runs on h0.0 as instance 1, reading from 0" in line for line in found)
    assert found[-1] == "the job is finished"


def test_one_vertex(root: Path) -> None:
    found = lines(str(root), "--vertex", "s01-items", "--json")
    assert {json.loads(line)["vertex"].split(".")[0] for line in found} == {"s01-items"}
    wrong = CliRunner().invoke(app, ["logs", str(root), "--vertex", "nix"])
    assert wrong.exit_code == 2
    assert "has no vertex nix; it has s01-items.0" in wrong.stderr

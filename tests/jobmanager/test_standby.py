"""A standby goes on with a job whose driver was killed; of several, one does.

Cannot catch: a driver on another machine, which is gone once its status is old (tests of
:mod:`jobmanager.storage.liveness`).
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from jobmanager.cli.main import app
from tests.rooms import ROOT
from tests.support.jobs import ROWS, WAIT_S, output_items

if TYPE_CHECKING:
    from pathlib import Path

    import jobmanager

PACE = 40.0


def test_of_a_job_that_has_ended_nothing_is_done(expected: jobmanager.Job) -> None:
    found = CliRunner().invoke(app, ["standby", expected.root])
    assert (found.exit_code, found.stdout) == (0, "")
    assert "finished; the standby was not needed" in found.stderr
    found = CliRunner().invoke(app, ["standby", expected.root, "--json"])
    assert json.loads(found.stdout)["output_digest"] == expected.status()["output_digest"]


def test_where_there_is_no_job_it_says_so(tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["standby", str(tmp_path)])
    assert (found.exit_code, found.stdout) == (2, "")
    assert "holds no job" in found.stderr


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_of_two_standbys_one_goes_on_and_the_other_waits(
    events: Path, expected: jobmanager.Job, tmp_path: Path
) -> None:
    root = str(tmp_path / "job")
    driver = [*(sys.executable, "-m", "tests.support.killed_driver"), str(events), root]
    standby = [*(sys.executable, "-m", "jobmanager", "standby"), root, "--json"]
    with ExitStack() as ended:

        def started(command: list[str]) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            ended.enter_context(process)
            ended.callback(process.kill)
            return process

        job = started([*driver, str(PACE), str(ROWS // 2)])
        assert job.stdout is not None
        assert job.stdout.readline()  # its root is there; it waits where half is read
        standbys = [started(standby), started(standby)]
        for process in standbys:
            assert process.stderr is not None
            assert process.stderr.readline().startswith("standby: ready; process ")
        job.kill()
        said = [process.communicate(timeout=WAIT_S) for process in standbys]
        assert [process.returncode for process in standbys] == [0, 0]
    assert sorted("going on" in told for _, told in said) == [False, True]
    ends = [json.loads(out.splitlines()[-1]) for out, _ in said]
    for end in ends:
        assert end["state"] == "finished"
        assert end["output_digest"] == expected.status()["output_digest"]
    assert output_items(ends[0]["output"]) == output_items(expected.output)

"""A root that other users may have written is not unpickled.

Owners and modes are those of real files.

Not covered: file systems without meaningful owners and modes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

import jobmanager
from jobmanager.cli.exits import EXIT_USAGE
from jobmanager.cli.main import app
from jobmanager.errors import UntrustedRootError
from jobmanager.storage.root import JOB, PLAN, QUERY, JobRoot
from tests.support.jobs import WAIT_S
from tests.support.queries import stateless

if TYPE_CHECKING:
    from click.testing import Result

NOBODY = 65_534


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("trust") / "job"
    jobmanager.run(stateless(), root=str(root), executor="local").wait(WAIT_S)
    return root


@pytest.fixture
def root(done: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(done, tmp_path / "job"))


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def check_refused(root: Path, message: str) -> None:
    for verb in (("resume", root), ("gc", root), ("gc", root, "--dry-run")):
        refused = call(*verb)
        assert refused.exit_code == EXIT_USAGE, refused.output
        assert message in refused.stderr
        assert "pass --trust" in refused.stderr
        assert call(*verb, "--trust").exit_code == 0
    with pytest.raises(UntrustedRootError):
        jobmanager.resume(str(root))
    with pytest.raises(UntrustedRootError):
        jobmanager.read_late(str(root))
    assert json.loads(call("status", root, "--json").stdout)["state"] == "finished"
    rows = json.loads(call("list", root.parent, "--json").stdout)["jobs"]
    assert [row["state"] for row in rows] == ["finished"], "nothing is unpickled to show it"


def test_a_root_of_the_same_user_is_trusted(root: Path) -> None:
    for verb in (("resume", root), ("gc", root)):
        assert call(*verb).exit_code == 0
    root.chmod(0o770)
    assert call("gc", root).exit_code == 0, "a group of the user's own is common"


@pytest.mark.parametrize("name", ["", JOB, PLAN, QUERY])
def test_a_root_that_all_users_may_write_is_rejected(root: Path, name: str) -> None:
    path = root / name
    path.chmod(path.stat().st_mode | 0o002)
    mode = "702" if path.is_dir() else "602"
    check_refused(root, f"{path} may be written by all users (mode {mode})")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("name", ["", PLAN])
def test_a_root_of_another_user_is_rejected(root: Path, name: str) -> None:
    os.chown(root / name, NOBODY, -1)
    check_refused(root, f"belongs to user {NOBODY}, not to you (0)")


PLANTED = """
import os, sys
from pathlib import Path
from jobmanager.storage.documents import pickle_document
class Planted:
    def __reduce__(self):
        return os.mkdir, (sys.argv[2],)
os.umask(0)
Path(sys.argv[1]).write_bytes(pickle_document(Planted()))
"""


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A plan with a hidden program, and the folder that the program would create."""
    folder = tmp_path_factory.mktemp("planted")
    plan, mark = folder / "plan", folder / "it ran"
    subprocess.run([sys.executable, "-c", PLANTED, str(plan), str(mark)], check=True)
    return plan, mark


@pytest.mark.parametrize("verb", ["resume", "gc"])
@pytest.mark.slow
def test_a_planted_program_does_not_run(root: Path, planted: tuple[Path, Path], verb: str) -> None:
    """The reason for the check: with --trust the program would run."""
    plan, mark = planted
    shutil.copy(plan, root / PLAN)
    assert call(verb, root).exit_code == EXIT_USAGE
    assert not mark.exists()
    call(verb, root, "--trust")
    assert mark.exists()
    mark.rmdir()


def test_memory_and_object_stores_have_no_owners() -> None:
    JobRoot("memory://jobs/a").check_trusted()

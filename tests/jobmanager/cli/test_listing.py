"""``list`` distinguishes jobs from unreadable folders.

Not covered: unreadable folders of other users, if the tests run as root.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from jobmanager.cli.exits import EXIT_USAGE
from jobmanager.cli.main import app

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def loop(tmp_path: Path) -> Path:
    """Make a folder that no user can read, not even root."""
    path = tmp_path / "jobs" / "loop"
    path.parent.mkdir()
    path.symlink_to(path)
    return path


def test_an_unreadable_folder_is_reported_and_the_others_are_listed(loop: Path) -> None:
    (loop.parent / "old").mkdir()
    (loop.parent / "old" / "job.json").write_text(json.dumps({"format": 1}))
    (loop.parent / "a file").write_text("")
    (loop.parent / "gone").symlink_to("nowhere")
    found = CliRunner().invoke(app, ["list", str(loop.parent), "--json"])
    told = json.loads(found.stdout)
    assert (found.exit_code, [row["job"] for row in told["jobs"]]) == (0, ["old"])
    assert told["unread"] == {str(loop): "Too many levels of symbolic links"}
    assert f"{loop} cannot be read: Too many levels" in found.stderr


@pytest.mark.parametrize("folder", ["s3://bucket/jobs", "nope://x", "LOOP", "FILE"])
def test_a_path_that_is_not_a_local_folder_is_rejected(loop: Path, folder: str) -> None:
    file = loop.parent / "file"
    file.write_text("")
    path = {"LOOP": str(loop), "FILE": str(file)}.get(folder, folder)
    found = CliRunner().invoke(app, ["list", path, "--json"])
    assert found.exit_code == EXIT_USAGE
    assert f"cannot read the jobs folder {path}: " in json.loads(found.stdout)["error"]

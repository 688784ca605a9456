"""Every command of docs/howto/debug-by-replay.md prints what the page shows, in one folder.

Not covered: the configuration for an IDE, which no test runs.
"""

from __future__ import annotations

import io
import os
import pdb
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from jobmanager.cli.main import app
from tests.rooms import ROOT

PAGE = ROOT / "docs" / "howto" / "debug-by-replay.md"
FILE = re.compile(r"^<!-- file: (\S+) -->\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SESSION = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands() -> list[tuple[str, str]]:
    """Each command of the page with the output that it shows."""
    sessions = SESSION.findall(PAGE.read_text())
    steps = [step.partition("\n") for s in sessions for step in re.split(r"^\$ ", s, flags=re.M)]
    return [(command, text) for command, _, text in steps if command]


def steps_of_ci() -> list[dict[str, str]]:
    (text,) = re.findall(r"^<!-- steps -->\n```yaml\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    steps: list[dict[str, str]] = yaml.safe_load(text)
    return steps


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, body in FILE.findall(PAGE.read_text()):
        (tmp_path / name).write_text(body)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def output_of(command: str, monkeypatch: pytest.MonkeyPatch) -> str:
    program, *arguments = shlex.split(command)
    assert program == "jobmanager", command
    shown = io.StringIO()
    if "<" in arguments:
        lines = io.StringIO(Path(arguments[-1]).read_text())
        debugger: Any = pdb.Pdb(stdin=lines, stdout=shown, nosigint=True, readrc=False)
        monkeypatch.setattr(sys, "breakpointhook", lambda: debugger.set_trace(sys._getframe(1)))
        arguments = arguments[: arguments.index("<")]
    run = CliRunner().invoke(app, arguments)
    sys.settrace(None)
    assert not isinstance(run.exception, Exception), run.exception
    return shown.getvalue() or run.stdout


@pytest.mark.slow
def test_commands_print_what_the_page_shows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = commands()
    assert len(found) > 8
    for command, text in found:
        printed = output_of(command, monkeypatch)
        if text:
            pattern = re.escape(text.strip()).replace(r"\.\.\.", ".*?")
            assert re.fullmatch(pattern, printed.strip()), f"{command}\n{printed}"
    assert (folder / "report.md").read_text().startswith("# Changed rows")


def test_the_test_at_the_end_of_the_page_passes(folder: Path) -> None:
    names = runpy.run_path(str(folder / "test_placed.py"))
    names["test_yen_are_converted_wherever_the_order_comes_from"]()


@pytest.mark.slow
@pytest.mark.parametrize("changes", [False, True])
def test_the_steps_for_ci_run_unchanged(
    folder: Path, monkeypatch: pytest.MonkeyPatch, changes: bool
) -> None:
    """Run the steps as a CI runner does: ``failure()`` after a failure, ``always()`` always."""
    (folder / "capsules").mkdir()
    output_of("jobmanager run placed.py --root jobs/placed --executor local", monkeypatch)
    right = 'jobmanager capsule jobs/placed --row "total = 30" -o capsules/right.zip'
    output_of(right, monkeypatch)
    if changes:
        (folder / "placed.py").write_text((folder / "placed_fixed.py").read_text())
    places = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    known = {**os.environ, "PATH": places, "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    failed: list[str] = []
    for step in steps_of_ci():
        condition = step.get("if", "success()")
        if condition == ("success()" if failed else "failure()"):
            continue
        command = ["bash", "-e", "-c", step["run"]]
        done = subprocess.run(command, env=known, capture_output=True, text=True, check=False)
        failed += [step["run"]] if done.returncode else []
    assert [run.split()[1] for run in failed] == (["diff"] if changes else [])
    assert (folder / "summary.md").exists() == changes
    if changes:
        assert "1 of 4 rows differ" in (folder / "summary.md").read_text()

"""Every command of docs/howto/debug-by-replay.md prints what the page shows, in one folder.

Cannot catch: the configurations for an IDE and for CI, which no test runs.
"""

from __future__ import annotations

import io
import pdb
import re
import runpy
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
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


def test_the_test_at_the_end_passes(folder: Path) -> None:
    names = runpy.run_path(str(folder / "test_placed.py"))
    names["test_yen_are_converted_wherever_the_order_comes_from"]()

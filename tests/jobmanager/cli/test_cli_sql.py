"""``jobmanager sql`` and related verbs: a SQL file runs like a Python file.

Not covered: errors on Spark only; the verb is ``run`` under another name.
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

    from typer.testing import Result

EVENTS = '{"t": "2026-01-01T00:00:01", "k": "a"}\n{"t": "2026-01-01T00:00:02", "k": "a"}\n'
SOURCE = "CREATE STREAM events WITH (path = '${data}/events.jsonl', vs = t);\n"
COUNTS = SOURCE + "SELECT k, count(*) AS n FROM events GROUP BY k, TUMBLE('1 minute');\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "events.jsonl").write_text(EVENTS)
    (tmp_path / "counts.sql").write_text(COUNTS)
    (tmp_path / "wrong.sql").write_text(SOURCE + "SELECT kk FROM events")
    (tmp_path / "counts.py").write_text("query = 1")
    return tmp_path


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_a_file_in_sql_runs(folder: Path) -> None:
    setting = f"data={folder}"
    for verb in ("sql", "run"):
        root = folder / verb
        options = ("--set", setting, "--root", root, "--executor", "local", "--json")
        result = call(verb, folder / "counts.sql", *options)
        assert result.exit_code == 0, result.output
        summary = json.loads(result.stdout.splitlines()[-1])
        assert (summary["state"], summary["events_in"], summary["events_out"]) == ("finished", 2, 1)


def test_its_plan_is_explained(folder: Path) -> None:
    result = call("explain", folder / "counts.sql", "--set", f"data={folder}")
    assert "final aggregate tumbling 1m by k: n=count()" in result.stdout


def test_mistakes_are_reported_with_their_position(folder: Path) -> None:
    result = call("explain", folder / "wrong.sql", "--set", f"data={folder}")
    assert result.exit_code == EXIT_USAGE
    assert result.stderr == (
        "jobmanager: error: line 2, column 8: "
        "no column 'kk'; did you mean 'k'? The columns are: t, k\n"
        "  SELECT kk FROM events\n"
        "         ^^\n"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("counts.sql",), "no value for ${data}; give one with --set data=..."),
        (("counts.sql", "--set", "data"), "--set takes NAME=VALUE"),
        (("counts.py", "--set", "data=x"), "--set is only for files in SQL"),
        (("none.sql",), "no such file"),
    ],
)
def test_wrong_arguments_for_sql_are_usage_errors(
    folder: Path, arguments: tuple[str, ...], words: str
) -> None:
    file, *options = arguments
    result = call("sql", folder / file, *options)
    assert result.exit_code == EXIT_USAGE
    assert words in result.stderr

"""Options from a file and from the environment, and which of them takes precedence.

Not covered: an option that the verb changes after reading it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import typer.main
from typer.testing import CliRunner

from jobmanager.cli.main import app
from jobmanager.cli.settings_file import defaults
from rstream.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "streamscope.toml"


def test_without_a_file_no_option_is_set(file: Path) -> None:
    assert not file.exists()
    assert not any(defaults(COMMANDS).values())


def test_options_of_one_verb_and_of_all_verbs(file: Path) -> None:
    file.write_text("""
        fsync = false
        parallelism = 2
        [run]
        checkpoint-interval = "5s"
        checkpoint_bytes = "1MB"
        parallelism = 3
        json = true
    """)
    found = defaults(COMMANDS)
    assert found["run"] == {
        "fsync": False,
        "parallelism": 3,
        "checkpoint_interval": "5s",
        "checkpoint_bytes": "1MB",
        "as_json": True,
    }
    assert found["explain"] == {"parallelism": 2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "no verb has an option x"),
        ("[rum]", "there is no verb rum; the verbs are run, "),
        ("[run]\nparalelism = 1", "run has no option paralelism; it has autoscale, batch, "),
        ("[run]\ntarget = 'q.py'", "run has no option target"),
        ("[run", "cannot be read"),
    ],
)
def test_unknown_verbs_and_options_are_named(file: Path, text: str, message: str) -> None:
    file.write_text(text)
    with pytest.raises(UsageError, match=r"streamscope\.toml") as failed:
        defaults(COMMANDS)
    assert message in str(failed.value)
    done = CliRunner().invoke(app, ["list", str(file.parent)])
    assert done.exit_code == 2
    assert message in done.stderr


def test_the_command_line_overrides_the_environment(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file.parent / "q.py").write_text(
        "import streamscope as ss\n"
        "rows = ss.Stream.from_items({'n': 'int64'}, [ss.event(0, n=1)])\n"
        "query = rows.group_by('n').agg(c=ss.agg.count()).to_parquet()\n"
    )
    other = file.with_name("other.toml")
    other.write_text("[explain]\nparallelism = 3")
    monkeypatch.setenv("STREAMSCOPE_CONFIG", str(other))

    def planned(*more: str) -> int:
        done = CliRunner().invoke(app, ["explain", "q.py", *more])
        assert done.exit_code == 0, done.stderr
        return int(re.findall(r"parallelism (\d+)", done.stdout)[0])

    assert planned() == 3
    monkeypatch.setenv("STREAMSCOPE_EXPLAIN_PARALLELISM", "4")
    assert planned() == 4
    assert planned("--parallelism", "5") == 5

"""A bundle has no secret and no row of the job; values of rows in messages are masked.

Not covered: row values in messages of libraries whose format is unknown.
"""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

import streamscope as ss
from jobmanager import JobFailedError
from jobmanager.cli.main import app
from jobmanager.cli.page.board import Board
from jobmanager.cli.page.bundle import BundledJobs, _masked, write_bundle
from jobmanager.driver.notes import NoteWarning
from rstream.clock import SystemClock
from rstream.types import INF_TIME

if TYPE_CHECKING:
    from pathlib import Path

PASSWORD, VALUE = "hunter2-of-the-tests", "a-row-of-the-tests"


def rows() -> ss.Stream:
    return ss.Stream.from_items(
        {"name": "string"}, [ss.event(1, name=VALUE), ss.event(2, name=VALUE), ss.cti(INF_TIME)]
    )


def refuse(batch: Any) -> Any:
    raise ValueError(f"{batch.column('name')[0]} is not known")


def content(path: Path) -> str:
    with zipfile.ZipFile(path) as file:
        return "\n".join(file.read(name).decode() for name in file.namelist())


def test_a_bundle_contains_no_secrets_and_no_rows(tmp_path: Path) -> None:
    root, file = str(tmp_path / "job"), tmp_path / "job.zip"
    query = rows().apply(refuse, schema={"name": "string"}, deterministic=True)
    dsn = f"postgresql://me:{PASSWORD}@127.0.0.1:1/db"
    with pytest.warns(NoteWarning), pytest.raises(JobFailedError) as failed:
        ss.run(query.to_postgres(dsn, "public.t"), root=root, executor="local").wait()
    assert VALUE in str(failed.value)
    write_bundle(root, file)
    text = content(file)
    assert PASSWORD not in text
    assert VALUE not in text
    assert "refuse raised ValueError" in text
    assert {"job.zip", "job"} <= {path.name for path in tmp_path.iterdir()}


def test_a_bundle_answers_like_the_root(tmp_path: Path) -> None:
    root, file = str(tmp_path / "job"), tmp_path / "b.zip"
    ss.run(rows().to_parquet(), root=root, executor="local").wait()
    made = write_bundle(root, file, rows=1)
    assert (made["job"], made["rows"]) == ("job", 1)
    board, bundle = Board(root, SystemClock()), BundledJobs(str(file))
    board.look()
    for answer in ("plan", "timeline", "logs", "savepoints", "findings"):
        there = json.loads(json.dumps(getattr(board, answer)("job")))
        assert getattr(bundle, answer)("job") == there, answer
    assert bundle.table("job", "output", 9)["rows"][0]["name"] == VALUE
    assert bundle.rows()[0]["state"] == "finished"


@pytest.mark.parametrize(
    "text",
    [
        f"https://me:{PASSWORD}@host/path",
        f"sasl.password='{PASSWORD}'",
        f"f raised KeyError: {VALUE} at line 7",
        f"f raised KeyError: 'x' at f.py:1\non event 4 of its input, lifetime [1, 2): n={VALUE}\nx",
        f"ValueError: {VALUE}",
        f"s02-clip.0 waits for the end of price='{VALUE}' since 2026-01-01 (clip)",
        f"DETAIL:  Failing row contains ({VALUE}, 4).",
        f"Key (name)=({VALUE}) already exists.",
        f"KafkaError: {PASSWORD} again",
        f"90% of the rows that s00 sends on have name='{VALUE}'",
    ],
)
def test_quoted_values_in_messages_are_masked(text: str) -> None:
    shown = _masked({"rows": [text]}, [PASSWORD])["rows"][0]
    assert PASSWORD not in shown
    assert VALUE not in shown
    assert _masked({"hot_key": VALUE}, []) == {"hot_key": "..."}
    assert "..." in shown or "***" in shown


@pytest.mark.parametrize(
    "arguments",
    [
        ("bundle", "ROOT", "-o", "no/such/folder.zip"),
        ("bundle", "ROOT", "-o", "."),
        ("capsule", "ROOT", "--row", "n = 1", "-o", "no/such/folder.zip"),
        ("diff", "ROOT", "new.py", "--markdown", "no/such/report.md"),
    ],
)
def test_an_unwritable_output_file_is_rejected_before_anything_runs(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    found = CliRunner().invoke(app, list(arguments))
    assert found.exit_code == 2
    assert found.exception is None or isinstance(found.exception, SystemExit)
    assert "folder" in found.stderr + capsys.readouterr().err

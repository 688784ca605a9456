"""Logs: one JSON object a line on standard error or in a file, with errors only by default."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest

from jobmanager import logs
from rstream import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    logs.configure(verbose=False)


def test_without_verbose_only_warnings_are_logged_as_json_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.configure(verbose=False)
    logger = logging.getLogger("rstream.log.flush")
    logger.info("nothing of note")
    logger.warning("something")
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    record = json.loads(line)
    assert (record["level"], record["logger"], record["message"]) == (
        "warning",
        "rstream.log.flush",
        "something",
    )


def test_verbose_logging_with_fields(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(verbose=True)
    logging.getLogger("jobmanager.driver.driver").info("notice %d", 1, extra={"notice": ("a", 2)})
    logging.getLogger("elsewhere").info("not ours")
    (line,) = capsys.readouterr().err.splitlines()
    record = json.loads(line)
    assert record["message"] == "notice 1"
    assert record["notice"] == "('a', 2)"
    assert record["time"].endswith("Z")


def test_an_exception_is_logged_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(verbose=False)
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logging.getLogger("planner").exception("failed")
    (line,) = capsys.readouterr().err.splitlines()
    assert "ValueError: two\nlines" in json.loads(line)["error"]


def test_configuring_twice_logs_once(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(verbose=False)
    logs.configure(verbose=False)
    logging.getLogger("rvertex").warning("once")
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_log_file_rotates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LOG_BYTES_MAX", 2_000)
    with monkeypatch.context() as here:
        here.setenv(logs.LOG_FILE, str(tmp_path / "driver.log"))
        logs.configure(verbose=True)
        for k in range(200):
            logging.getLogger("jobmanager").info("notice %d", k)
    logs.configure(verbose=False)
    files = sorted(tmp_path.iterdir())
    assert [f.name for f in files] == ["driver.log", *(f"driver.log.{k}" for k in range(1, 5))]
    assert all(f.stat().st_size <= 2_000 for f in files)
    last = json.loads(files[0].read_text().splitlines()[-1])
    assert last["message"] == "notice 199"


def test_an_unwritable_log_file_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as here:
        here.setenv(logs.LOG_FILE, str(tmp_path / "no" / "driver.log"))
        with pytest.raises(UsageError, match=r"STREAMSCOPE_LOG_FILE=.*: No such file or directory"):
            logs.configure(verbose=False)


def test_messages_of_a_client_are_rate_limited(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The client reports an unreachable broker twenty times a second."""
    logs.configure(verbose=False)
    logger = logging.getLogger(logs.CLIENT)
    for client in range(5):
        for server in ("a:1", "b:1"):
            text = f"FAIL [rdkafka#producer-{client}] [thrd:{server}]: refused (after {client}ms)"
            logger.error("FAIL %s", text)
    lines = capsys.readouterr().err.splitlines()
    assert ["a:1" in line for line in lines] == [True, False]
    logs.configure(verbose=False)
    assert len(logger.filters) == 1

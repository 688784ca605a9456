"""The sources of the intake's tokens, and which requests are accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobmanager.intake.errors import IntakeConfigError, NoTokenError
from jobmanager.intake.tokens import TOKEN, check_token, read_tokens
from rstream.errors import MissingSecretError

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND = "first-token-0123456789", "second-token-0123456789"


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN, raising=False)


def test_tokens_from_the_environment_and_from_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_tokens(None) == []
    (tmp_path / "tokens").write_text(f"{FIRST}\n\nenv:SECOND_TOKEN\n")
    monkeypatch.setenv("SECOND_TOKEN", SECOND)
    both = [FIRST.encode(), SECOND.encode()]
    assert read_tokens(str(tmp_path / "tokens")) == both
    assert read_tokens(f"file:{tmp_path}/tokens") == both
    assert read_tokens("env:SECOND_TOKEN") == both[1:]
    monkeypatch.setenv(TOKEN, f"file:{tmp_path}/tokens")
    assert read_tokens(None) == both


def test_an_empty_secret_accepts_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any token, everyone could post."""
    (tmp_path / "empty").write_text("\n")
    monkeypatch.setenv("EMPTY", "")
    for file in (str(tmp_path / "empty"), f"file:{tmp_path}/empty", "env:EMPTY"):
        with pytest.raises(IntakeConfigError, match="it has no token"):
            read_tokens(file)
    monkeypatch.setenv(TOKEN, "env:EMPTY")
    with pytest.raises(IntakeConfigError, match="it has no token"):
        read_tokens(None)
    monkeypatch.setenv(TOKEN, "env:NO_SUCH_TOKEN")
    with pytest.raises(MissingSecretError, match="NO_SUCH_TOKEN"):
        read_tokens(None)


def test_a_token_that_is_too_short_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHORT", "hush-hush")
    with pytest.raises(IntakeConfigError, match="at least 16 characters") as failed:
        read_tokens("env:SHORT")
    assert "hush" not in str(failed.value)


def test_a_request_needs_one_of_the_tokens() -> None:
    check_token("", [])
    check_token(f"Bearer {SECOND}", [FIRST.encode(), SECOND.encode()])
    for given in ("", f"Basic {FIRST}", "Bearer other-token-0123456789"):
        with pytest.raises(NoTokenError):
            check_token(given, [FIRST.encode()])

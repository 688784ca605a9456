"""Secrets are read where they are used; messages contain their names only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rstream import open_store
from rstream.errors import MissingSecretError, SecretInPathError
from rstream.secret_values import (
    SECRET_BYTES_MAX,
    has_literal_password,
    is_secret_option,
    resolved_path,
    secret_value,
    user_of,
    with_stars,
    without_secrets,
    without_user,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_secrets_from_the_environment_and_from_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_PASSWORD", "hush \n")
    assert secret_value("p", "env:SOME_PASSWORD") == "hush \n"
    (tmp_path / "key").write_bytes(b"first\nlast \r\n")
    assert secret_value("p", f"file:{tmp_path}/key") == "first\nlast "
    assert secret_value("p", "plain") == "plain"


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("env:NO_SUCH_PASSWORD", "p is env:NO_SUCH_PASSWORD, but this process has no environment"),
        ("env:", "but this process has no environment variable"),
        ("file:key", "the path of a secret must be absolute"),
        ("file:/no/such/key", "it cannot be read \\(No such file or directory\\)"),
    ],
)
def test_an_unreadable_secret_is_named(reference: str, reason: str) -> None:
    with pytest.raises(MissingSecretError, match=reason):
        secret_value("p", reference)


def test_a_file_that_is_not_a_secret(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * (SECRET_BYTES_MAX + 1))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(MissingSecretError, match="larger than"):
        secret_value("p", f"file:{tmp_path}/large")
    with pytest.raises(MissingSecretError, match="not UTF-8") as failed:
        secret_value("p", f"file:{tmp_path}/binary")
    assert failed.value.__cause__ is None, "a cause would show the bytes"


def test_which_options_are_secrets() -> None:
    secret = ["sasl.password", "ssl.key.password", "sasl.oauthbearer.client.secret", "ssl.key.pem"]
    secret += ["schema.registry.basic.auth.user.info", "sasl.oauthbearer.config", "SASL.PASSWORD"]
    open_ones = ["sasl.username", "group.id", "ssl.ca.location", "linger.ms"]
    open_ones += ["sasl.oauthbearer.token.endpoint.url", "ssl.ca.pem"]
    assert [name for name in secret + open_ones if is_secret_option(name)] == secret


def test_a_password_in_a_url_is_detected_and_taken_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PW", "hu/sh@")
    (tmp_path / "key").write_text("quiet\n")
    assert has_literal_password("https://me:hush@host/x")
    for url in (
        "https://me:env:PW@host",
        "https://me@host:80/x",
        "http://h:80/a:b@c",
        "k:v",
        "a:9",
    ):
        assert not has_literal_password(url), url
    assert resolved_path("ftp://me:env:PW@h/x") == ("ftp://me@h/x", {"password": "hu/sh@"})
    url = f"ftp://me:file:{tmp_path}/key@h/x"
    assert resolved_path(url) == ("ftp://me@h/x", {"password": "quiet"})
    assert resolved_path("s3://bucket/a:b@c") == ("s3://bucket/a:b@c", {})
    assert user_of("https://me:env:PW@host") == "me:hu/sh@"
    assert without_user("https://me:hush@host/x") == "https://host/x"
    assert without_secrets("hush, hush-hush", ["hush", "", "hush-hush"]) == "..., ..."


def test_a_store_accepts_only_a_reference_to_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SecretInPathError) as refused:
        open_store("ftp://me:hush@127.0.0.1:1/x")
    assert "hush" not in str(refused.value)
    with pytest.raises(MissingSecretError, match="NO_SUCH_SECRET"):
        open_store("ftp://me:env:NO_SUCH_SECRET@127.0.0.1:1/x")
    monkeypatch.setenv("S3_SECRET", "hush")
    store = open_store("s3://bucket/x", secret="env:S3_SECRET")
    assert store._fs.secret == "hush"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "query",
    [
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=hush",
        "X-Goog-Signature=hush",
        "sv=2024&sig=hush",
        "AWSAccessKeyId=me&Signature=hush&Expires=1",
        "access_token=hush",
        "apikey=hush",
    ],
)
def test_a_store_rejects_a_signed_url(query: str) -> None:
    with pytest.raises(SecretInPathError) as refused:
        open_store(f"https://127.0.0.1:1/x.parquet?{query}")
    assert "hush" not in str(refused.value)
    assert "https://127.0.0.1:1/x.parquet holds a signature or a token" in str(refused.value)
    assert resolved_path("https://host/x.csv?design=sig&page=2")[1] == {}


def test_a_masked_line_keeps_its_length_and_shows_no_secret() -> None:
    line = "'x.password' = 'hu''sh', 'a' = 'b' --'dsn' = 'postgres://me:hush@h' password=hush c"
    shown = with_stars(line)
    assert len(shown) == len(line)
    assert (
        shown
        == "'x.password' = '**''**', 'a' = 'b' --'dsn' = 'postgres://me:****@h' password=**** c"
    )
    named = "'password' = 'env:NAME', 'dsn' = 'postgres://me:env:NAME@h'"
    assert with_stars(named) == named

"""Passwords in connection strings: found, read, inserted, and never shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from planner import Query
from planner.sql.entry import sql
from rstream.connection_strings import holds_password, resolved_string
from rvertex.sinks.postgres_errors import shown_reason
from rvertex.sinks.spec import PostgresSink

if TYPE_CHECKING:
    from pathlib import Path

HARD = "a b'@/\\x"


@pytest.mark.parametrize(
    ("dsn", "resolved"),
    [
        ("postgresql://u:env:PW@h/db", "postgresql://u:a%20b%27%40%2F%5Cx@h/db"),
        (
            "postgres://h/d?user=u&password=env:PW",
            "postgres://h/d?user=u&password=a%20b%27%40%2F%5Cx",
        ),
        ("host=h password=env:PW dbname=d", "host=h password='a b\\'@/\\\\x' dbname=d"),
        ("host=h password = 'env:PW' dbname=d", "host=h password = 'a b\\'@/\\\\x' dbname=d"),
        ("env:DSN", "host=h password='a b\\'@/\\\\x'"),
        ("host=h password='it\\'s' dbname=d", "host=h password='it\\'s' dbname=d"),
        ("postgres://u:p%40@h/d", "postgres://u:p%40@h/d"),
        ("host=h passfile=/p", "host=h passfile=/p"),
    ],
)
def test_references_are_replaced_by_secrets(
    dsn: str, resolved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PW", HARD)
    monkeypatch.setenv("DSN", "host=h password=env:PW")
    assert resolved_string(dsn) == resolved


@pytest.mark.parametrize(
    ("dsn", "is_literal"),
    [
        ("postgresql://u:hush@h/db", True),
        ("postgres://h/d?password=hush", True),
        ("host=h password=hush", True),
        ("host=h PASSWORD='hush hush'", True),
        ("host=h sslpassword=hush", True),
        ("postgresql://u:env:PW@h/db", False),
        ("postgresql://u:file:/run/pw@h/db", False),
        ("postgresql://u:@h/db", False),
        ("postgresql://u@h:5432/db", False),
        ("host=h password=env:PW", False),
        ("env:DSN", False),
        ("file:/run/dsn", False),
    ],
)
def test_a_password_in_the_query_is_detected(dsn: str, is_literal: bool) -> None:
    assert holds_password(dsn) is is_literal


def test_error_messages_show_no_secret() -> None:
    dsn = "postgresql://u:hu%40sh@h/d"
    for reason in (f"cannot connect to {dsn}", "bad hu@sh", "bad hu%40sh", 'invalid URI "hu%4"'):
        assert "hu" not in shown_reason(reason, dsn)


@pytest.mark.parametrize("password", ["env:PW", "file:{folder}/pw"])
def test_a_password_option_in_sql_names_a_secret(
    password: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PW", HARD)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pw").write_text(HARD + "\n")
    (tmp_path / "a.csv").write_text("x\n1\n")
    query = sql(
        "CREATE TABLE a (x BIGINT) WITH (path = 'a.csv', vs = 'x');"
        "CREATE TABLE b WITH (connector = 'postgres', dsn = 'postgresql://h/d', \"table\" = 't', "
        f"username = 'u', password = '{password.format(folder=tmp_path)}');"
        "INSERT INTO b SELECT x FROM a"
    )
    assert isinstance(query, Query)
    (sink,) = query.deliveries
    assert isinstance(sink, PostgresSink)
    assert HARD not in sink.dsn
    assert resolved_string(sink.dsn) == "postgresql://u:a%20b%27%40%2F%5Cx@h/d"

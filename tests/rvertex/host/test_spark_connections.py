"""Where Java listens, and that the secret goes over no plain line of Spark. No Java is started."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

import pytest

from rstream.transport.tls import TLS_FOLDER
from rvertex.host.spark import LOG_KEPT_US, remove_old_logs
from rvertex.host.spark_connections import (
    ENCRYPTING,
    PlainSparkError,
    check_encrypted,
    loopback_settings,
)

if TYPE_CHECKING:
    from pathlib import Path

NEAR = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]", "local-cluster[2,1,1024]"])
def test_a_local_java_listens_on_loopback(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    assert loopback_settings(master, lambda key: False) == NEAR


def test_what_the_user_said_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    assert loopback_settings("spark://m:7077", lambda key: False) == {}
    for said in NEAR:
        assert loopback_settings("local[*]", said.__eq__) == {}
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.1")
    assert loopback_settings("local[*]", lambda key: False) == {}


def test_with_tls_spark_must_encrypt_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TLS_FOLDER, raising=False)
    check_encrypted("spark://m:7077", lambda key: None)
    monkeypatch.setenv(TLS_FOLDER, "/keys")
    check_encrypted("local[*]", lambda key: None)
    for value in (None, "false"):
        with pytest.raises(PlainSparkError, match="spark://m:7077 does not encrypt its own"):
            check_encrypted("spark://m:7077", lambda key, value=value: value)
    for key in ENCRYPTING:
        check_encrypted("spark://m:7077", {key: "true"}.get)


def test_logs_of_processes_that_are_gone_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
    ended.wait()
    old, mine, other = (
        tmp_path / f"streamscope-spark-{n}.log" for n in (ended.pid, os.getpid(), "x")
    )
    for path in (old, mine, other):
        path.touch()
    written_us = old.stat().st_mtime_ns // 1_000
    remove_old_logs(written_us + LOG_KEPT_US)
    assert old.exists(), "somebody may want to read it"
    remove_old_logs(written_us + LOG_KEPT_US + 60_000_000)
    assert [path.exists() for path in (old, mine, other)] == [False, True, True]

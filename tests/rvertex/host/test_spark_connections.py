"""The addresses of Java; Spark sends the secret only over encrypted connections. Starts no Java."""

from __future__ import annotations

import logging
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from typing import TYPE_CHECKING

import pytest
from py4j.java_gateway import GatewayClient, GatewayParameters

from rstream.transport.tls import TLS_FOLDER
from rvertex.host.spark import LOG_KEPT_US, remove_old_logs
from rvertex.host.spark.connections import (
    ENCRYPTING,
    LOOPBACK,
    PlainSparkError,
    check_encrypted,
    loopback_settings,
    silence_dead_java,
)

if TYPE_CHECKING:
    from pathlib import Path

NEAR = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]", "local-cluster[2,1,1024]"])
def test_a_local_java_listens_on_loopback(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    assert loopback_settings(master, lambda key: False) == NEAR


def test_settings_of_the_user_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_logs_of_ended_processes_are_deleted(
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


def test_a_java_process_that_dies_during_a_call_prints_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A server replaces Java, and resets the connection after it has read a call."""
    with socket.create_server((LOOPBACK, 0)) as server:

        def die() -> None:
            line, _ = server.accept()
            line.recv(1 << 16)
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            line.close()

        java = threading.Thread(target=die)
        java.start()
        silence_dead_java()
        where = GatewayParameters(address=LOOPBACK, port=server.getsockname()[1])
        assert GatewayClient(gateway_parameters=where).send_command("c\n") == "x"
        java.join()
    assert caplog.records == []
    logging.getLogger().error("Exception while sending command.")
    assert len(caplog.records) == 1, "of anybody else"

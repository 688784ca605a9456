"""The folder of keys: each error is one message, and no connection falls back to plain.

Not covered: certificates that another host does not accept.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from rstream import MemoryBlobs
from rstream.errors import PlainLineError, TlsError
from rstream.transport.flight import ControlClient, ControlServer, RemoteReader, StreamServer
from rstream.transport.tls import TLS_FOLDER, check_tls
from tests.rstream.transport.test_flight import SECRET, write_certificate
from tests.support.content import open_inline

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_certificate(tmp_path)
    monkeypatch.setenv(TLS_FOLDER, str(tmp_path))
    return tmp_path


def other_key(folder: Path) -> None:
    kept = (folder / "cert.pem").read_bytes()
    write_certificate(folder)
    (folder / "cert.pem").write_bytes(kept)


BROKEN: dict[str, Callable[[Path], object]] = {
    "ca.pem: No such file": lambda folder: (folder / "ca.pem").unlink(),
    "key.pem: No such file": lambda folder: (folder / "key.pem").unlink(),
    "cert.pem and key.pem are not a certificate": lambda folder: (folder / "cert.pem").write_text(
        "?"
    ),
    "are not a certificate and its key in PEM format": lambda folder: (
        folder / "key.pem"
    ).write_bytes(b""),
    "and its key in PEM": other_key,
    "ca.pem is not a certificate in PEM format": lambda folder: (folder / "ca.pem").write_text(
        "-----BEGIN"
    ),
    "cert.pem: Is a directory": lambda folder: (
        (folder / "cert.pem").unlink(),
        (folder / "cert.pem").mkdir(),
    ),
}


@pytest.mark.parametrize("message", BROKEN)
def test_an_invalid_tls_folder_is_one_message(folder: Path, message: str) -> None:
    check_tls()
    BROKEN[message](folder)
    for use in (check_tls, lambda: StreamServer(secret=SECRET)):
        with pytest.raises(TlsError, match=message) as caught:
            use()
        assert "\n" not in str(caught.value)
        assert str(caught.value).startswith(f"STREAMSCOPE_TLS={folder}: ")


@pytest.mark.parametrize("value", ["cert.pem:key.pem", "no/such/folder"])
def test_the_tls_path_must_be_a_folder(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(TLS_FOLDER, value)
    with pytest.raises(
        TlsError, match=r"it is not a folder; on every host, set it to a folder with cert.pem"
    ):
        check_tls()


@pytest.mark.parametrize("beside", [False, True])
def test_with_tls_an_unencrypted_peer_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: bool
) -> None:
    """The plain server would answer, also over its Unix socket, but the secret is not sent."""
    stream = open_inline(MemoryBlobs(), durability="volatile")
    plain = StreamServer(secret=SECRET, beside=beside)
    plain.publish("s", 1, stream)
    control = ControlServer(SECRET, lambda peer, message: None)
    write_certificate(tmp_path)
    monkeypatch.setenv(TLS_FOLDER, str(tmp_path))
    changed = threading.Event()
    reader = RemoteReader(plain.address, SECRET, "s", 1, 0, on_change=changed.set)
    assert changed.wait(60)
    assert isinstance(reader.failure, PlainLineError), reader.failure
    assert "does not encrypt, but STREAMSCOPE_TLS is set here" in str(reader.failure)
    with pytest.raises(PlainLineError):
        ControlClient(control.address, SECRET, "h0.0#0", lambda message: None)
    reader.close()
    plain.close()
    control.close()


def test_without_tls_an_encrypting_peer_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = ControlServer(SECRET, lambda peer, message: None)
    monkeypatch.delenv(TLS_FOLDER)
    with pytest.raises(PlainLineError, match=r"encrypts, but STREAMSCOPE_TLS is not set here"):
        ControlClient(control.address, SECRET, "h0.0#0", lambda message: None)
    control.close()


def test_unix_sockets_need_no_encryption(folder: Path) -> None:
    """Only this user may enter their folder."""
    stream = open_inline(MemoryBlobs(), durability="volatile")
    server = StreamServer(f"unix:{folder}/s", SECRET)
    server.publish("s", 1, stream)
    reader = RemoteReader(server.address, SECRET, "s", 1, 0)
    reader.wait(0.2)
    assert not reader.is_broken, reader.failure
    reader.close()
    server.close()

"""Encryption of TCP connections: all are encrypted if :data:`TLS_FOLDER` is set, otherwise none.

The folder is checked before a server opens or a client connects, so a mistake in it leads to a
single message. If it is set, an address without TLS is an error, never a fallback: the job's secret
is sent over encrypted connections and Unix sockets only.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path

from rstream.errors import PlainLineError, TlsError

#: The variable that names a folder with ``cert.pem`` and ``key.pem`` (valid for this host) and
#: ``ca.pem``.
TLS_FOLDER = "STREAMSCOPE_TLS"
CERTIFICATE, KEY, AUTHORITY = "cert.pem", "key.pem", "ca.pem"
_ENCRYPTED, _SOCKET = "grpc+tls://", "grpc+unix://"


def is_on() -> bool:
    """Return whether this process encrypts its connections."""
    return bool(os.environ.get(TLS_FOLDER))


def check_tls() -> None:
    """Check the certificates and keys, if encryption is on.

    Raises:
        TlsError: a file is missing, unreadable or not PEM, or the key does not fit the certificate.
    """
    if not is_on():
        return
    folder = Path(os.environ[TLS_FOLDER])
    if not folder.is_dir():
        raise TlsError(str(folder), "it is not a folder")
    for name in (CERTIFICATE, KEY, AUTHORITY):
        _read(folder / name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(folder / CERTIFICATE, folder / KEY, password=lambda: "")
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        reason = f"{CERTIFICATE} and {KEY} are not a certificate and its key in PEM format: {error}"
        raise TlsError(str(folder), reason) from error
    try:
        context.load_verify_locations(folder / AUTHORITY)
    except (OSError, ValueError) as error:
        raise TlsError(
            str(folder), f"{AUTHORITY} is not a certificate in PEM format: {error}"
        ) from error


def server_keys() -> tuple[bytes, bytes]:
    """Read the certificate and the key of this host. Raises TlsError."""
    check_tls()
    folder = Path(os.environ[TLS_FOLDER])
    return _read(folder / CERTIFICATE), _read(folder / KEY)


def roots_for(address: str) -> bytes | None:
    """Return the authority for checking the server at ``address``; None without encryption.

    Raises:
        PlainLineError: one side encrypts, the other does not.
        TlsError: the folder cannot be used.
    """
    is_encrypted = address.startswith(_ENCRYPTED)
    if address.startswith(_SOCKET):
        return None
    if is_encrypted != is_on():
        raise PlainLineError(address, is_encrypted)
    if not is_encrypted:
        return None
    check_tls()
    return _read(Path(os.environ[TLS_FOLDER]) / AUTHORITY)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TlsError(str(path.parent), f"{path.name}: {error.strerror}") from error

"""Unix sockets beside TCP: for readers on the machine of the writer, at half the processor time.

A server's address may name a socket file after its TCP address (``grpc://host:port#/path``). A
reader that finds the file, and somebody who answers there, is on the same machine and uses it; any
other uses TCP. So nobody has to know who is where, containers and shared folders included.

Invariants: (1) the folder belongs to this user and nobody else may enter it; (2) sockets that
nobody answers, left by killed processes, are removed by the next server.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import stat
import tempfile
from pathlib import Path

#: A path that is longer cannot be bound.
PATH_BYTES_MAX = 100
#: Left-over sockets that one server looks at.
SWEEP_MAX = 1_000
CONNECT_WAIT_S = 1.0
_SEPARATOR = "#"


def new_socket_path() -> str | None:
    """Where a server may bind; None where there are no Unix sockets or no private folder."""
    if not hasattr(socket, "AF_UNIX"):
        return None
    folder = Path(tempfile.gettempdir()) / f"streamscope-sockets-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            return None
        _sweep(folder)
    except OSError:
        return None
    path = str(folder / secrets.token_hex(8))
    return path if len(path.encode()) <= PATH_BYTES_MAX else None


def with_socket(address: str, path: str) -> str:
    """An address that names both."""
    return f"{address}{_SEPARATOR}{path}"


def nearest(address: str) -> str:
    """The part of an address to connect to: the socket if somebody answers there, else TCP."""
    tcp, _, path = address.partition(_SEPARATOR)
    return f"grpc+unix://{path}" if path and is_answered(path) else tcp


def is_answered(path: str) -> bool:
    """Whether a process of this machine listens at ``path``."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(CONNECT_WAIT_S)
        probe.connect(path)
        return True
    return False


def remove(path: str | None) -> None:
    """Remove a socket file, if there was one and it is still there."""
    if path is not None:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _sweep(folder: Path) -> None:
    for path in sorted(folder.iterdir())[:SWEEP_MAX]:
        if not is_answered(str(path)):
            remove(str(path))

"""Unix sockets beside TCP, for readers on the machine of the writer.

A server's address may name a socket file after its TCP address (``grpc://host:port#/path``). A
reader that gets a response from the socket is on the same machine and uses it; other readers use
TCP. So users do not configure which processes share a machine, even with containers or shared
folders.

Invariants: (1) the folder belongs to this user, and no other user has access; (2) the next server
removes the sockets of killed processes, but not of busy or starting ones; (3) if no socket can be
opened, readers use TCP, and each process logs one warning with the reason.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import secrets
import socket
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rstream.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)
Server = TypeVar("Server")
#: Longer paths, in bytes, cannot be bound.
PATH_BYTES_MAX = 100
#: Most leftover sockets that one server checks.
SWEEP_MAX = 1_000
#: A younger socket, s, is not checked, because its server may not listen yet.
SWEEP_AFTER_S = 10.0
CONNECT_WAIT_S = 1.0
_SEPARATOR = "#"


def new_socket_path() -> str | None:
    """Return a path to bind; None without Unix sockets or without a private folder."""
    if not hasattr(socket, "AF_UNIX"):
        return None
    folder = Path(tempfile.gettempdir()) / f"streamscope-sockets-{os.getuid()}"
    path = str(folder / secrets.token_hex(8))
    if len(path.encode()) > PATH_BYTES_MAX:
        return _none(f"{folder} has too long a name, set TMPDIR to a shorter one")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        info = folder.lstat()
        if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & 0o077:
            return _none(f"{folder} is not a folder that only this user may enter")
        _sweep(folder)
        with socket.socket(socket.AF_UNIX) as probe:
            probe.bind(path)
        remove(path)
    except OSError as error:
        return _none(f"{folder}: {error}")
    return path


def serve_beside(serve: Callable[[str], Server]) -> tuple[list[Server], str | None]:
    """Let ``serve`` bind a socket. Return its server and path, or None twice if that fails."""
    path = new_socket_path()
    if path is None:
        return [], None
    try:
        return [serve(path)], path
    except Exception as error:  # TCP is used after any error
        remove(path)
        _none(f"{Path(path).parent}: {error}")
        return [], None


@functools.cache
def _none(reason: str) -> None:
    """Log, once per process, why there is no socket."""
    _log.warning(
        "readers on this machine use TCP, because no Unix socket can be created: %s", reason
    )


def with_socket(address: str, path: str | None) -> str:
    """Return the address, with the socket if there is one."""
    return address if path is None else f"{address}{_SEPARATOR}{path}"


def socket_path(address: str) -> str | None:
    """Return the socket in an address, of this machine or another; None: use TCP."""
    path = address.partition(_SEPARATOR)[2]
    return path if path and hasattr(socket, "AF_UNIX") else None


def tcp_part(address: str) -> str:
    """Return an address without its socket."""
    return address.partition(_SEPARATOR)[0]


def is_left_over(path: str) -> bool:
    """Return whether no process listens at ``path`` any more; False if that is unknown."""
    try:
        age_s = SystemClock().now_us() / 1e6 - os.stat(path).st_mtime
        if age_s < SWEEP_AFTER_S:
            return False
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(CONNECT_WAIT_S)
            probe.connect(path)
    except ConnectionRefusedError:
        return True
    except OSError:  # a server with many waiting, or no files left in this process
        return False
    return False


def remove(path: str | None) -> None:
    """Remove a socket file, if it exists."""
    if path is not None:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _sweep(folder: Path) -> None:
    for path in sorted(folder.iterdir())[:SWEEP_MAX]:
        if is_left_over(str(path)):
            remove(str(path))

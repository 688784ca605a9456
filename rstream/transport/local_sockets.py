"""Unix sockets beside TCP, for readers on the machine of the writer.

A server's address may name a socket file after its TCP address (``grpc://host:port#/path``). A
reader that gets an answer at the socket is on the same machine and uses it; any other uses TCP. So
no configuration says which processes share a machine, containers and shared folders included.

Invariants: (1) the folder belongs to this user, and nobody else may enter it; (2) the next server
removes sockets that killed processes left, but not those of busy or starting ones; (3) if no socket
can be opened, readers use TCP, and each process logs one warning with the reason.
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
#: A path that is longer cannot be bound.
PATH_BYTES_MAX = 100
#: Left-over sockets that one server looks at.
SWEEP_MAX = 1_000
#: A younger socket may not be listened at yet.
SWEEP_AFTER_S = 10.0
CONNECT_WAIT_S = 1.0
_SEPARATOR = "#"


def new_socket_path() -> str | None:
    """Where a server may bind; None where there are no Unix sockets or no private folder."""
    if not hasattr(socket, "AF_UNIX"):
        return None
    folder = Path(tempfile.gettempdir()) / f"streamscope-sockets-{os.getuid()}"
    path = str(folder / secrets.token_hex(8))
    if len(path.encode()) > PATH_BYTES_MAX:
        return _none(f"{folder} has too long a name, set TMPDIR to a shorter one")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            return _none(f"{folder} is not a folder that only this user may enter")
        _sweep(folder)
        with socket.socket(socket.AF_UNIX) as probe:
            probe.bind(path)
        remove(path)
    except OSError as error:
        return _none(f"{folder}: {error}")
    return path


def serve_beside(serve: Callable[[str], Server]) -> tuple[list[Server], str | None]:
    """Have ``serve`` bind a socket; none, and None, if there is none to be had."""
    path = new_socket_path()
    if path is None:
        return [], None
    try:
        return [serve(path)], path
    except Exception as error:  # whatever it raises, TCP is there
        remove(path)
        _none(f"{Path(path).parent}: {error}")
        return [], None


@functools.cache
def _none(reason: str) -> None:
    """Say once why there is no socket."""
    _log.warning(
        "readers on this machine use TCP, because no Unix socket can be created: %s", reason
    )


def with_socket(address: str, path: str | None) -> str:
    """An address that names both, if there is a socket."""
    return address if path is None else f"{address}{_SEPARATOR}{path}"


def socket_path(address: str) -> str | None:
    """The socket that an address names, of this machine or another; None: use TCP."""
    path = address.partition(_SEPARATOR)[2]
    return path if path and hasattr(socket, "AF_UNIX") else None


def tcp_part(address: str) -> str:
    """What an address names besides a socket."""
    return address.partition(_SEPARATOR)[0]


def is_left_over(path: str) -> bool:
    """Whether nobody listens at ``path`` any more; False if that cannot be told now."""
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
    """Remove a socket file, if there was one and it is still there."""
    if path is not None:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _sweep(folder: Path) -> None:
    for path in sorted(folder.iterdir())[:SWEEP_MAX]:
        if is_left_over(str(path)):
            remove(str(path))

"""A listening socket and an HTTP server behind it. The only module that imports uvicorn."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

from jobmanager.intake.errors import IntakeConfigError
from rstream.transport.tls import CERTIFICATE, KEY, TLS_FOLDER, is_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_BACKLOG = 1024
STOPS = (signal.SIGINT, signal.SIGTERM)


class Server(uvicorn.Server):
    """A server that ends on request and leaves signals alone; uvicorn would end the process.

    Args:
        options: the configuration of uvicorn.
        announce: called once when the server answers. Not before: a SIGTERM that follows the
            announcement ends the server in order.
    """

    def __init__(self, options: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(options)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announce()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self.handle_exit) for number in STOPS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def server_options(app: object, *, connections_max: int, shutdown_wait_s: int) -> uvicorn.Config:
    """Return the uvicorn configuration of an application, with TLS if there are keys."""
    options = uvicorn.Config(
        app,  # type: ignore[arg-type]
        log_level="warning",
        access_log=False,
        limit_concurrency=connections_max,
        timeout_graceful_shutdown=shutdown_wait_s,
        server_header=False,
        lifespan="on",
    )
    if is_on():
        folder = Path(os.environ[TLS_FOLDER])
        options.ssl_certfile, options.ssl_keyfile = str(folder / CERTIFICATE), str(folder / KEY)
    return options


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to the address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int, option: str) -> socket.socket:
    """Open a listening socket for TCP.

    It names the protocol explicitly, because otherwise asyncio does not switch Nagle's algorithm
    off, which delays small answers by 40 ms.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        raise IntakeConfigError(f"--host {host} {option} {port}", str(error)) from error
    return listener


def url_of(host: str, port: int) -> str:
    """Return the URL for clients."""
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if is_on() else 'http'}://{shown}:{port}"

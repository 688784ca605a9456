"""Runs the intake's servers until they are told to stop. The only file that knows uvicorn."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

from jobmanager.intake.app import make_app
from jobmanager.intake.errors import IntakeConfigError
from jobmanager.intake.flight import FlightDoor
from jobmanager.intake.service import IntakeService
from jobmanager.intake.tokens import TOKEN, read_tokens
from rstream.transport.tls import CERTIFICATE, KEY, TLS_FOLDER, check_tls, is_on

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobmanager.intake.config import IntakeConfig

_BACKLOG = 1024
_STOPS = (signal.SIGINT, signal.SIGTERM)


class _Server(uvicorn.Server):
    """Ends when it is told to, and lets the process end as it will; uvicorn would kill it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self.handle_exit) for number in _STOPS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def serve(
    config: IntakeConfig,
    *,
    host: str,
    port: int,
    flight_port: int | None,
    token_file: str | None,
    is_plain: bool,
    as_json: bool,
) -> None:
    """Serve until SIGTERM or SIGINT; then answer what is under way and close the logs.

    ``flight_port`` None: over HTTP alone.

    Raises:
        IntakeConfigError: nobody could be told from a stranger, or the address cannot be had.
        TlsError: the folder with the keys cannot be used.
    """
    check_tls()
    tokens = read_tokens(token_file)
    _check_address(host, bool(tokens), is_plain=is_plain)
    listener = _listen(host, port, "--port")
    try:
        with contextlib.ExitStack() as opened:
            service = IntakeService(config)
            opened.callback(service.close)
            door = None
            if flight_port is not None:
                _check_free(host, flight_port)
                door = FlightDoor(service, tokens, host, flight_port)
                opened.callback(door.close)
            opened.callback(service.close)  # first: what the door has taken is answered then
            server = _Server(_options(config, make_app(service, tokens)))
            url = _url(host, listener.getsockname()[1])
            _announce(config, url, None if door is None else door.url, as_json=as_json)
            server.run(sockets=[listener])
    finally:
        listener.close()
    if not as_json:
        print("intake: stopped, everything that was taken is durable", file=sys.stderr)


def _announce(config: IntakeConfig, url: str, flight: str | None, *, as_json: bool) -> None:
    told = {"listening": url, "streams": sorted(config.streams)}
    if as_json:
        line = json.dumps(told if flight is None else told | {"flight": flight})
    else:
        places = url if flight is None else f"{url} and {flight}"
        line = f"intake: {places} takes {', '.join(sorted(config.streams))}"
    print(line, flush=True)


def _options(config: IntakeConfig, app: object) -> uvicorn.Config:
    limits = config.limits
    options = uvicorn.Config(
        app,  # type: ignore[arg-type]
        log_level="warning",
        access_log=False,
        limit_concurrency=limits.connections_max,
        timeout_graceful_shutdown=limits.shutdown_wait_s,
        server_header=False,
        lifespan="on",
    )
    if is_on():
        folder = Path(os.environ[TLS_FOLDER])
        options.ssl_certfile, options.ssl_keyfile = str(folder / CERTIFICATE), str(folder / KEY)
    return options


def _check_address(host: str, has_token: bool, *, is_plain: bool) -> None:
    """Refuse to serve strangers."""
    if _is_loopback(host):
        return
    if not has_token:
        reason = f"who posts from elsewhere needs a token: give --token-file, or set {TOKEN}"
        raise IntakeConfigError(f"--host {host}", reason)
    if not is_on() and not is_plain:
        reason = (
            f"tokens and rows would pass the network unencrypted: set {TLS_FOLDER}, or give "
            "--plain if a proxy in front of this server encrypts"
        )
        raise IntakeConfigError(f"--host {host}", reason)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_free(host: str, port: int) -> None:
    """Say why Flight cannot listen there; its own library does not."""
    if port:
        _listen(host, port, "--flight-port").close()


def _listen(host: str, port: int, option: str) -> socket.socket:
    """A listening socket. It names its protocol: else asyncio leaves Nagle's delay on, 40 ms."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        raise IntakeConfigError(f"--host {host} {option} {port}", str(error)) from error
    return listener


def _url(host: str, port: int) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if is_on() else 'http'}://{shown}:{port}"

"""Runs the intake's servers until a signal stops them."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import TYPE_CHECKING

from jobmanager.intake.app import make_app
from jobmanager.intake.errors import IntakeConfigError
from jobmanager.intake.flight import FlightDoor
from jobmanager.intake.listening import Server, is_loopback, listen, server_options, url_of
from jobmanager.intake.service import IntakeService
from jobmanager.intake.tokens import TOKEN, read_tokens
from rstream.transport.tls import TLS_FOLDER, check_tls, is_on

if TYPE_CHECKING:
    from jobmanager.intake.config import IntakeConfig


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
    """Serve until SIGTERM or SIGINT. Then answer accepted posts and close the logs.

    ``flight_port`` None: without Flight.

    Raises:
        IntakeConfigError: a public address needs a token, or the server cannot listen on it.
        TlsError: the folder with the keys cannot be used.
    """
    check_tls()
    tokens = read_tokens(token_file)
    _check_address(host, bool(tokens), is_plain=is_plain)
    listener = listen(host, port, "--port")
    try:
        with contextlib.ExitStack() as opened:
            service = IntakeService(config)
            opened.callback(service.close)
            door = None
            if flight_port is not None:
                _check_free(host, flight_port)
                door = FlightDoor(service, tokens, host, flight_port)
                opened.callback(door.close)
            # Closed before the servers, so that accepted batches get answers.
            opened.callback(service.close)
            options = server_options(
                make_app(service, tokens),
                connections_max=config.limits.connections_max,
                shutdown_wait_s=config.limits.shutdown_wait_s,
            )
            url = url_of(host, listener.getsockname()[1])
            flight = None if door is None else door.url
            shown = _announcement(config, url, flight, as_json=as_json)
            Server(options, lambda: print(shown, flush=True)).run(sockets=[listener])
    finally:
        listener.close()
    if not as_json:
        print("intake: stopped, all accepted rows are durable", file=sys.stderr)


def _announcement(config: IntakeConfig, url: str, flight: str | None, *, as_json: bool) -> str:
    streams = sorted(config.streams)
    if as_json:
        extra = {} if flight is None else {"flight": flight}
        return json.dumps({"listening": url, "streams": streams} | extra)
    places = url if flight is None else f"{url} and {flight}"
    return f"intake: {places} takes {', '.join(streams)}"


def _check_address(host: str, has_token: bool, *, is_plain: bool) -> None:
    """Check that a server without a token or TLS is not reachable from other machines."""
    if is_loopback(host):
        return
    if not has_token:
        reason = f"other machines need a token to post rows: set --token-file, or set {TOKEN}"
        raise IntakeConfigError(f"--host {host}", reason)
    if not is_on() and not is_plain:
        reason = (
            f"tokens and rows would pass the network unencrypted: set {TLS_FOLDER}, or give "
            "--plain if a proxy in front of this server encrypts"
        )
        raise IntakeConfigError(f"--host {host}", reason)


def _check_free(host: str, port: int) -> None:
    """Check that Flight can listen on the address: an error of its library gives no reason."""
    if port:
        listen(host, port, "--flight-port").close()

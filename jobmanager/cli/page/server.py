"""Serves the page until a signal stops it."""

from __future__ import annotations

import json

from jobmanager.cli.page.app import VIEWERS_MAX, Export, make_app
from jobmanager.cli.page.board import Board
from jobmanager.cli.page.bundle import BundledJobs
from jobmanager.cli.page.export.lineage import LineageExport
from jobmanager.cli.page.export.tables import TableServer
from jobmanager.intake.errors import IntakeConfigError
from jobmanager.intake.listening import Server, is_loopback, listen, server_options, url_of
from jobmanager.intake.tokens import read_tokens
from rstream.clock import SystemClock
from rstream.errors import UsageError
from rstream.transport.tls import check_tls

#: Most requests that are open at the same time, viewers included.
_CONNECTIONS_MAX = VIEWERS_MAX + 100
_SHUTDOWN_WAIT_S = 2


def exports_of(board: Board | BundledJobs, otlp: str | None, lineage: str | None) -> list[Export]:
    """Return the exports of the board's data to other systems.

    Raises:
        UsageError: the packages of OpenTelemetry are missing, or the board is a bundle.
    """
    exports: list[Export] = []
    if not (otlp or lineage):
        return exports
    if isinstance(board, BundledJobs):
        raise UsageError("a bundle is not exported")
    if otlp:
        try:
            from jobmanager.cli.page.export.otlp import OtlpExport
        except ModuleNotFoundError as error:
            raise UsageError(
                f"{error.name} is not installed: pip install opentelemetry-sdk "
                "opentelemetry-exporter-otlp-proto-http"
            ) from error
        exports.append(OtlpExport(otlp, board))
    if lineage:
        exports.append(LineageExport(lineage, board))
    return exports


def serve_page(
    folder: str,
    *,
    host: str,
    port: int,
    flight_port: int | None,
    token_file: str | None,
    as_json: bool,
    otlp: str | None = None,
    lineage: str | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT. ``flight_port`` None: only HTTP.

    Raises:
        CannotListError: the folder cannot be read.
        IntakeConfigError: other machines could read the jobs without a token, or the server cannot
            listen at the address.
        UsageError: Flight is requested for a bundle, which has no tables.
        TlsError: the folder with the certificates cannot be used.
    """
    check_tls()
    tokens = read_tokens(token_file)
    is_local = is_loopback(host)
    if not is_local and not tokens:
        reason = "other machines reach this address: give --token-file"
        raise IntakeConfigError(f"--host {host}", reason)
    is_bundle = folder.endswith(".zip")
    board = BundledJobs(folder) if is_bundle else Board(folder, SystemClock())
    board.look()
    exports = exports_of(board, otlp, lineage)
    listener, tables = listen(host, port, "--port"), None
    try:
        urls = {"listening": url_of(host, listener.getsockname()[1])}
        if flight_port is not None:
            if isinstance(board, BundledJobs):
                raise UsageError("a bundle has no tables: leave out --flight-port")
            if flight_port:  # reports why an address is unusable, which Flight does not
                listen(host, flight_port, "--flight-port").close()
            tables = TableServer(board, [] if is_local else tokens, host, flight_port)
            urls["flight"] = tables.url
        shown = (f"{'page' if k == 'listening' else 'tables'}: {url}" for k, url in urls.items())
        text = json.dumps(urls) if as_json else "\n".join(shown)
        app = make_app(board, tokens, exports, is_local=is_local)
        options = server_options(
            app, connections_max=_CONNECTIONS_MAX, shutdown_wait_s=_SHUTDOWN_WAIT_S
        )
        Server(options, lambda: print(text, flush=True)).run(sockets=[listener])
    finally:
        listener.close()
        if tables is not None:
            tables.shutdown()

"""Serves the current tables of jobs over Arrow Flight, for dashboards and programs.

A flight is an output of a job. Its descriptor is a path: the name of the job and, if the job has
several outputs, the name of the output. A ticket is JSON: ``{"job", "output", "at"}``. Only ``job``
is required; ``at`` requests an earlier time. A call returns the live rows, like ``table.arrow``
over HTTP. For each stream, the server continues at the end of the previous call.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.flight as flight

from jobmanager.intake.errors import IntakeConfigError
from jobmanager.intake.flight import TokenMiddleware, with_flight_errors
from rstream.errors import StreamEngineError, UsageError
from rstream.transport.tls import is_on, server_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NAMES = frozenset({"job", "output", "at"})
_ONLY_READS = "this server only shows tables: push rows to jobmanager intake"


class Tables(Protocol):
    """The part of a board that the server needs."""

    @property
    def jobs(self) -> Mapping[str, object]: ...
    def outputs(self, name: str) -> list[str]: ...
    def schema(self, name: str, output: str) -> pa.Schema: ...
    def current(self, name: str, at: str | None = None, output: str = "") -> pa.Table: ...


class TableServer(flight.FlightServerBase):  # type: ignore[misc]
    """A server that is ready when it is constructed and runs until ``shutdown``."""

    def __init__(self, tables: Tables, tokens: list[bytes], host: str, port: int) -> None:
        """Start the server. Port 0 means any free port.

        ``tokens``: a request needs one of these; empty: every caller can read.

        Raises:
            IntakeConfigError: the server cannot listen at the address.
        """
        scheme = "grpc+tls" if is_on() else "grpc"
        shown = f"[{host}]" if ":" in host else host
        keys = [server_keys()] if is_on() else None
        middleware = {"token": TokenMiddleware(tokens)} if tokens else None
        try:
            super().__init__(
                f"{scheme}://{shown}:{port}", tls_certificates=keys, middleware=middleware
            )
        except (pa.ArrowException, OSError) as error:
            raise IntakeConfigError(f"--host {host} --flight-port {port}", str(error)) from error
        self._tables = tables
        self.url = f"{scheme}://{shown}:{self.port}"

    @with_flight_errors
    def list_flights(self, context: Any, criteria: bytes) -> Iterator[flight.FlightInfo]:
        return iter(list(self._infos()))

    @with_flight_errors
    def get_flight_info(self, context: Any, descriptor: Any) -> flight.FlightInfo:
        return self._info(*_parts(descriptor))

    @with_flight_errors
    def get_schema(self, context: Any, descriptor: Any) -> flight.SchemaResult:
        return flight.SchemaResult(self._tables.schema(*_parts(descriptor)))

    @with_flight_errors
    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.FlightDataStream:
        request = _request(ticket.ticket)
        table = self._tables.current(request["job"], request.get("at"), request.get("output", ""))
        return flight.RecordBatchStream(table)

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        raise flight.FlightServerError(_ONLY_READS)

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        raise flight.FlightServerError(_ONLY_READS)

    def _infos(self) -> Iterator[flight.FlightInfo]:
        for name in list(self._tables.jobs):
            try:
                infos = [self._info(name, output) for output in self._tables.outputs(name)]
            except StreamEngineError:
                continue  # a job of another version has no readable table
            yield from infos

    def _info(self, name: str, output: str) -> flight.FlightInfo:
        schema = self._tables.schema(name, output)
        ticket = json.dumps({"job": name, **({"output": output} if output else {})})
        path = flight.FlightDescriptor.for_path(*filter(None, (name, output)))
        return flight.FlightInfo(schema, path, [flight.FlightEndpoint(ticket, [])], -1, -1)


def _parts(descriptor: flight.FlightDescriptor) -> tuple[str, str]:
    """Return the job and the output that a descriptor names."""
    is_path = descriptor.descriptor_type == flight.DescriptorType.PATH
    if not is_path or len(descriptor.path) not in (1, 2):
        raise UsageError("the descriptor must be a path: the name of the job, and of its output")
    parts = [part.decode(errors="replace") for part in descriptor.path]
    return parts[0], parts[1] if len(parts) > 1 else ""


def _request(ticket: bytes) -> dict[str, str]:
    try:
        request = json.loads(ticket)
    except (ValueError, RecursionError):
        request = None
    is_fit = isinstance(request, dict) and "job" in request and _NAMES.issuperset(request)
    if not is_fit or not all(isinstance(value, str) for value in request.values()):
        raise UsageError('a ticket must be JSON: {"job": "NAME", "output": "NAME", "at": "TIME"}')
    return dict(request)

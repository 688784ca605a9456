"""The Arrow Flight interface of the intake service: batches of a put are appended like HTTP posts.

The only module of the intake that imports Flight. The path of a put's descriptor is the stream's
name. Each batch is a post; its ``app_metadata`` has producer and number. The answer, the same
document as over HTTP, arrives through the metadata reader. After an error, the call ends with the
corresponding Flight error, whose ``extra_info`` is the document again.

Every call needs ``Authorization: Bearer TOKEN``, which is checked before any other input is read.
"""

from __future__ import annotations

import functools
import json
import logging
import threading
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import pyarrow as pa
import pyarrow.flight as flight

from jobmanager.intake.errors import (
    AGAIN,
    IntakeConfigError,
    NoTokenError,
    PostError,
    as_document,
    status_of,
)
from jobmanager.intake.flight_calls import OpenCalls
from jobmanager.intake.flight_put import Put
from jobmanager.intake.ndjson import not_arrow
from jobmanager.intake.tokens import check_token
from rstream.errors import StreamEngineError
from rstream.transport.tls import is_on, server_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jobmanager.intake.service import IntakeService

_Given = ParamSpec("_Given")
_Told = TypeVar("_Told")
_log = logging.getLogger(__name__)
_NO_TOKEN, _FAULT = 401, 500
OPEN_PRODUCER, POSITION = "open-producer", "position"
_ACTIONS = (
    (OPEN_PRODUCER, "A producer starts: its new epoch and next_number. Body: stream, producer."),
    (POSITION, "The last acknowledged number of a producer. Body: stream, producer."),
)
_ONLY_TAKES = "the intake only accepts rows: read a log with Stream.from_rstream or open_log"
_FAILED = "the server failed; its log has the reason"


class FlightDoor:
    """A running Flight server. It takes any free port if ``port`` is 0.

    Raises:
        IntakeConfigError: the server cannot listen on the address.
    """

    def __init__(self, service: IntakeService, tokens: list[bytes], host: str, port: int) -> None:
        limits = service.limits
        self._shutdown_wait_s = limits.shutdown_wait_s
        self._calls = OpenCalls(limits.flight_calls_max, limits.flight_silence_s)
        scheme = "grpc+tls" if is_on() else "grpc"
        shown = f"[{host}]" if ":" in host else host
        try:
            location = f"{scheme}://{shown}:{port}"
            self._server = _Server(location, service, tokens, self._calls)
        except (pa.ArrowException, OSError) as error:
            raise IntakeConfigError(f"--host {host} --flight-port {port}", str(error)) from error
        self.url = f"{scheme}://{shown}:{self._server.port}"
        self._calls.watch(self._server.port)

    def close(self) -> None:
        """Reject new calls, answer received batches, and end the calls. Close the service before.

        The answers take at most ``shutdown_wait_s`` seconds, and the end of the calls as long
        again.
        """
        thread = threading.Thread(target=self._server.shutdown, name="flight-stop", daemon=True)
        thread.start()
        self._calls.close(self._shutdown_wait_s)
        thread.join(self._shutdown_wait_s)


def _refuse(error: StreamEngineError) -> flight.FlightError:
    """Return the Flight error that reports an error of this project."""
    status, document = status_of(error), json.dumps(as_document(error)).encode()
    if status in AGAIN:
        return flight.FlightUnavailableError(str(error), document)
    if status == _NO_TOKEN:
        return flight.FlightUnauthenticatedError(str(error), document)
    if status == _FAULT:
        return flight.FlightInternalError(str(error), document)
    return flight.FlightServerError(str(error), document)


def with_flight_errors(handler: Callable[_Given, _Told]) -> Callable[_Given, _Told]:
    """Return a handler whose errors are converted to Flight errors, without a stack trace."""

    @functools.wraps(handler)
    def call(*given: _Given.args, **named: _Given.kwargs) -> _Told:
        try:
            return handler(*given, **named)
        except StreamEngineError as error:
            raise _refuse(error) from error
        except flight.FlightError:
            raise
        except Exception as error:
            _log.exception(_FAILED)
            raise flight.FlightInternalError(_FAILED) from error

    return call


class TokenMiddleware(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Rejects every call without a valid token."""

    def __init__(self, tokens: list[bytes]) -> None:
        super().__init__()
        self._tokens = tokens

    @with_flight_errors
    def start_call(self, info: Any, headers: dict[str, list[Any]]) -> None:
        given = headers.get("authorization") or [""]
        # gRPC passes bytes if a header is not ASCII, and such a token is wrong.
        if not isinstance(given[0], str):
            raise NoTokenError
        check_token(given[0], self._tokens)


class _Server(flight.FlightServerBase):  # type: ignore[misc]
    """The handlers of the calls."""

    def __init__(
        self, location: str, service: IntakeService, tokens: list[bytes], calls: OpenCalls
    ) -> None:
        keys = [server_keys()] if is_on() else None
        middleware = {"token": TokenMiddleware(tokens)}
        super().__init__(location, tls_certificates=keys, middleware=middleware)
        self._service, self._calls = service, calls

    @with_flight_errors
    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        put = Put(self._service, _stream(descriptor), lambda ack: writer.write(pa.py_buffer(ack)))
        with self._calls.open(put, context.peer()), put:
            while (chunk := _next(reader, context)) is not None:
                put.take(*chunk)

    @with_flight_errors
    def list_flights(self, context: Any, criteria: bytes) -> Iterator[flight.FlightInfo]:
        return iter([_info(*stream) for stream in self._service.schemas.items()])

    @with_flight_errors
    def get_flight_info(self, context: Any, descriptor: Any) -> flight.FlightInfo:
        name = _stream(descriptor)
        return _info(name, self._service.find(name).schema)

    @with_flight_errors
    def get_schema(self, context: Any, descriptor: Any) -> flight.SchemaResult:
        return flight.SchemaResult(self._service.find(_stream(descriptor)).schema)

    @with_flight_errors
    def do_action(self, context: Any, action: flight.Action) -> Iterator[flight.Result]:
        name, producer = _request_of(action)
        if action.type == OPEN_PRODUCER:
            answer = self._service.open_producer(name, producer)
        else:
            answer = self._service.position(name, producer)
        return iter([flight.Result(pa.py_buffer(json.dumps(asdict(answer)).encode()))])

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        return list(_ACTIONS)

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.FlightDataStream:
        raise flight.FlightServerError(_ONLY_TAKES)

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        raise flight.FlightServerError(_ONLY_TAKES)


def _next(reader: Any, context: Any) -> tuple[pa.RecordBatch | None, bytes] | None:
    """Return the next batch of a put with its metadata; None: the put or the producer has ended."""
    try:
        chunk = reader.read_chunk()
    except StopIteration:
        return None
    except (pa.ArrowException, OSError, ValueError) as error:
        if context.is_cancelled():
            return None
        raise not_arrow(error) from error
    metadata = b"" if chunk.app_metadata is None else chunk.app_metadata.to_pybytes()
    return chunk.data, metadata


def _stream(descriptor: flight.FlightDescriptor) -> str:
    """Return the name of the stream in a descriptor."""
    is_path = descriptor.descriptor_type == flight.DescriptorType.PATH
    if not is_path or len(descriptor.path) != 1:
        raise PostError("the descriptor must be a path of one part: the name of the stream")
    return str(descriptor.path[0].decode(errors="replace"))


def _info(name: str, schema: pa.Schema) -> flight.FlightInfo:
    """Return the flight info of a stream. It has no endpoints, because streams are only written."""
    return flight.FlightInfo(schema, flight.FlightDescriptor.for_path(name), [], -1, -1)


def _request_of(action: flight.Action) -> tuple[str, str]:
    """Return the stream and the producer in an action's body."""
    if action.type not in (OPEN_PRODUCER, POSITION):
        raise PostError(f"there is no action {action.type[:100]}; list_actions lists them")
    try:
        given = json.loads(action.body.to_pybytes())
        name, producer = given["stream"], given["producer"]
    except (ValueError, RecursionError, TypeError, KeyError):
        name = producer = None
    if not (isinstance(name, str) and isinstance(producer, str)):
        raise PostError(f'action {action.type} needs {{"stream": "NAME", "producer": "ID"}}')
    return name, producer

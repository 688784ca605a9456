"""Streams and control messages between hosts. The only file that knows Arrow Flight.

*Data*: :class:`StreamServer` pushes the items of published streams as they are written;
:class:`RemoteReader` receives them into a queue bounded in bytes. *Control*: :class:`ControlServer`
and :class:`ControlClient` share one long-lived exchange per peer that carries bytes both ways. If
it breaks, each side learns at once that the other is gone.

Invariants: (1) every call carries the job's secret, or is rejected before anything else is read;
(2) received bytes are never unpickled; (3) a broken connection is a state: a reader still serves
the items received before; (4) silence longer than :data:`SILENCE_S` is a broken connection.

If ``STREAMSCOPE_TLS`` is set on every host, TCP is encrypted (:mod:`rstream.transport.tls`).
"""

from __future__ import annotations

import contextlib
import hmac
import socket
import threading
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgpack
import pyarrow as pa
import pyarrow.flight as flight

from rstream.clock import SystemClock
from rstream.errors import OperatingError, StreamEngineError, UnauthorizedError, UsageError
from rstream.transport.control import HEARTBEAT_S, SILENCE_S, DisconnectedError, Hub, Link
from rstream.transport.local_sockets import remove, serve_beside, socket_path, tcp_part, with_socket
from rstream.transport.receive import PushedReader, error_to_text, loss_from_text
from rstream.transport.tls import is_on, roots_for, server_keys
from rstream.transport.unix_socket import (
    HELLO_WAIT_S,
    IDLE_WAIT_S,
    PUSH_ROWS_MAX,
    UnixSocketCall,
    UnixSocketServer,
)
from rstream.transport.wire import WireDecoder, WireEncoder, in_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rstream.log.stream import RStream
    from rstream.store.protocol import BlobStore

SECRET_HEADER = "x-streamscope-secret"
ALL_INTERFACES = "0.0.0.0"
#: Most bytes that a remote reader reads ahead.
QUEUE_BYTES_MAX = 16 << 20
CLOSE_WAIT_S = 5.0
_NOTHING = pa.schema([])


class StreamServer:
    """Serves the streams of one host to readers on other hosts.

    ``host`` is an interface address (with a free port) or ``unix:/path/of/a/socket``. With
    ``beside``, a second server on a Unix socket serves readers on this machine
    (rstream.transport.local_sockets).
    """

    def __init__(self, host: str = "127.0.0.1", secret: str = "", *, beside: bool = False) -> None:
        self._streams: dict[tuple[str, int], RStream] = {}
        self._lock, self._is_closed = threading.Lock(), False
        server, self.address = _serve(host, secret, self)
        self._servers, self._path = [server], None
        if beside:
            near, self._path = serve_beside(
                lambda path: UnixSocketServer(path, secret, self.find, error_to_text)
            )
            self._servers += near
            self.address = with_socket(self.address, self._path)

    def publish(self, stream_id: str, epoch: int, stream: RStream) -> None:
        """Make this stream available to readers."""
        with self._lock:
            self._streams[stream_id, epoch] = stream

    def withdraw(self, stream_id: str, epoch: int) -> None:
        """End the pushes of this stream, and reject new ones."""
        with self._lock:
            self._streams.pop((stream_id, epoch), None)

    def find(self, stream_id: str, epoch: int) -> RStream | None:
        """Return the stream; None if it is not published, or the server is closed."""
        return None if self._is_closed else self._streams.get((stream_id, epoch))

    def close(self) -> None:
        """End all pushes and stop. Takes at most CLOSE_WAIT_S per server."""
        self._is_closed = True
        for server in self._servers:
            _stop(server)
        remove(self._path)

    def push(
        self, ticket: dict[str, Any], is_cancelled: Callable[[], bool]
    ) -> flight.FlightDataStream:
        """Answer one DoGet. If the reader is ahead of a restarted writer, wait for the writer."""
        stream_id, epoch, seq = str(ticket["stream"]), int(ticket["epoch"]), int(ticket["seq"])
        stream = self.find(stream_id, epoch)
        if stream is None:
            raise flight.FlightUnavailableError(f"stream {stream_id} epoch {epoch} is not here")
        reader = stream.register(seq, ahead=True)
        wire = WireEncoder(stream.schema)

        def batches() -> Iterator[tuple[pa.RecordBatch, bytes]]:
            idle_s = 0.0
            try:
                while not is_cancelled() and self.find(stream_id, epoch) is stream:
                    items = reader.read_next(PUSH_ROWS_MAX)
                    if items is not None:
                        idle_s = 0.0
                        for part in in_messages(items):
                            yield wire.encode(part)
                    elif not reader.wait(IDLE_WAIT_S):
                        idle_s += IDLE_WAIT_S
                        if idle_s >= HEARTBEAT_S:
                            idle_s = 0.0
                            yield wire.nothing, b""
            except StreamEngineError as error:
                raise flight.FlightServerError(error_to_text(error)) from error
            finally:
                reader.close()

        return flight.GeneratorStream(wire.schema, batches())


class RemoteReader(PushedReader):
    """A reader of a stream on another host: over a Unix socket on this machine, else by Flight.

    ``on_change`` is called from another thread when new items have arrived, or when the connection
    broke.
    """

    def __init__(
        self,
        address: str,
        secret: str,
        stream_id: str,
        epoch: int,
        from_seq: int,
        *,
        store: BlobStore | str | None = None,
        queue_bytes_max: int = QUEUE_BYTES_MAX,
        on_change: Callable[[], None] | None = None,
        durable_first: bool = True,
    ) -> None:
        self._address, self._secret, self._clock = address, secret, SystemClock()
        self._stream_id, self._epoch = stream_id, epoch
        self._thread: threading.Thread | None = None
        self._call: flight.FlightStreamReader | UnixSocketCall | None = None
        self._reading_since_s: float | None = None
        super().__init__(
            stream_id,
            from_seq,
            store=store,
            queue_bytes_max=queue_bytes_max,
            on_change=on_change,
            durable_first=durable_first,
        )

    @property
    def is_broken(self) -> bool:
        """Implement PushedReader. A long silence counts as a break."""
        since_s = self._reading_since_s
        if since_s is not None and self._clock.monotonic_s() - since_s > SILENCE_S:
            self._break(OperatingError(f"{self._address}: silent for {SILENCE_S:g} s"))
        return super().is_broken

    def close(self) -> None:
        """Stop receiving. Returns at once; see :meth:`join`."""
        super().close()
        if (call := self._call) is not None:
            call.cancel()

    def join(self, timeout_s: float = CLOSE_WAIT_S) -> None:
        """Wait until the connection of a closed reader has ended."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def _connect(self) -> None:
        self._thread = threading.Thread(target=self._receive, name="remote-reader", daemon=True)
        self._thread.start()

    def _receive(self) -> None:
        """Receive until the connection ends: the body of the receiving thread."""
        client = None
        try:
            self._reading_since_s = self._clock.monotonic_s()
            ticket = {"stream": self._stream_id, "epoch": self._epoch, "seq": self._seq}
            self._call = client = self._unix_socket_call(ticket)
            if self._call is None:
                client = _connect(self._address)
                packed = flight.Ticket(msgpack.packb(ticket))
                self._call = client.do_get(packed, _options(self._secret))
            wire = WireDecoder(self._call.schema)
            while not self._queue.is_closed and self._receive_one(self._call, wire):
                pass
            self._break(OperatingError(f"{self._address}: the stream was withdrawn"))
        except Exception as error:  # any error ends the connection
            self._break(_translate(error))
        finally:
            self._reading_since_s = self._call = None
            if client is not None:
                client.close()

    def _unix_socket_call(self, ticket: dict[str, Any]) -> UnixSocketCall | None:
        """Connect to the host's socket; None if it is on another machine or does not answer."""
        roots_for(self._address)  # a host that does not encrypt is rejected on every connection
        if (path := socket_path(self._address)) is not None:
            with contextlib.suppress(OSError):
                return UnixSocketCall(path, {**ticket, "secret": self._secret})
        return None

    def _receive_one(self, call: Any, wire: WireDecoder) -> bool:
        self._reading_since_s = self._clock.monotonic_s()
        try:
            chunk = call.read_chunk()
        except StopIteration:
            return False
        self._reading_since_s = None
        if chunk.data.num_rows:
            return self._take(wire.decode(chunk.data, chunk.app_metadata.to_pybytes()))
        return True


class ControlServer:
    """The job manager's side of the control connections, with one :class:`Hub`."""

    def __init__(
        self,
        secret: str,
        on_message: Callable[[str, bytes], None],
        on_connect: Callable[[str], None] = lambda peer: None,
        on_disconnect: Callable[[str], None] = lambda peer: None,
        *,
        host: str = "127.0.0.1",
    ) -> None:
        self._hub = Hub(on_message, on_connect, on_disconnect)
        self._server, self.address = _serve(host, secret, self._hub)

    def send(self, peer: str, message: bytes) -> None:
        """Queue a message. Raises DisconnectedError if the peer is gone."""
        self._hub.send(peer, message)

    def close(self) -> None:
        """End every connection (not reported any more) and stop. Takes at most CLOSE_WAIT_S."""
        self._hub.close()
        _stop(self._server)


class ControlClient:
    """A host's side of its control connection.

    Raises:
        UnauthorizedError: the server rejected the secret.
        OperatingError: no server answers at the address.
    """

    def __init__(
        self,
        address: str,
        secret: str,
        peer: str,
        on_message: Callable[[bytes], None],
        on_disconnect: Callable[[], None] = lambda: None,
    ) -> None:
        self._peer, self._on_message, self._on_disconnect = peer, on_message, on_disconnect
        self._is_closed, self.is_connected, self._ending = False, True, threading.Lock()
        try:
            self._client = _connect(address)
            descriptor = flight.FlightDescriptor.for_command(peer.encode())
            self._writer, self._reader = self._client.do_exchange(descriptor, _options(secret))
            self._say_hello()
        except (pa.ArrowException, OSError, StopIteration) as error:
            raise _translate(error) from error
        self._link = Link(self._writer.write_metadata, peer, self._reader.cancel)
        self._thread = threading.Thread(target=self._receive, name="control", daemon=True)
        self._thread.start()

    def send(self, message: bytes) -> None:
        """Queue a message. Raises DisconnectedError if the connection is gone."""
        if not self.is_connected or not self._link.put(message):
            raise DisconnectedError(self._peer)

    def close(self) -> None:
        """Send the queued messages, then end the connection."""
        self._is_closed = True
        self._link.close()
        self._end_call()
        if self._thread is not threading.current_thread():
            self._thread.join(CLOSE_WAIT_S)
        self._client.close()

    def _receive(self) -> None:
        frames = chain([self._hello], iter(lambda: _frame(self._reader), None))
        try:
            self._link.receive(frames.__next__, self._on_message)
        finally:
            self.is_connected = False
            self._link.close()
            self._end_call()
            if not self._is_closed:
                self._on_disconnect()

    def _say_hello(self) -> None:
        limit = threading.Timer(HELLO_WAIT_S, self._reader.cancel)
        limit.start()
        try:
            self._writer.begin(_NOTHING)
            self._hello = _frame(self._reader)
        finally:
            limit.cancel()

    def _end_call(self) -> None:
        if self._ending.acquire(blocking=False):  # gRPC aborts if two threads end a call
            with contextlib.suppress(pa.ArrowException, OSError):
                self._writer.done_writing()


class _SecretMiddleware(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Rejects every call without the secret."""

    def __init__(self, secret: str) -> None:
        super().__init__()
        self._secret = secret

    def start_call(self, info: Any, headers: dict[str, list[str]]) -> None:
        given = headers.get(SECRET_HEADER, [""])[0]
        if not hmac.compare_digest(given.encode(), self._secret.encode()):
            raise flight.FlightUnauthenticatedError(str(UnauthorizedError()))


class _Server(flight.FlightServerBase):  # type: ignore[misc]
    """The Flight server of a :class:`StreamServer` (DoGet) or a :class:`Hub` (DoExchange)."""

    def __init__(self, location: str, secret: str, owner: Any) -> None:
        if not secret:
            raise UsageError("a server needs a secret")
        keys = [server_keys()] if location.startswith("grpc+tls") else None
        middleware = {"secret": _SecretMiddleware(secret)}
        super().__init__(location, tls_certificates=keys, middleware=middleware)
        self._owner = owner

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.FlightDataStream:
        try:
            return self._owner.push(msgpack.unpackb(ticket.ticket), context.is_cancelled)
        except StreamEngineError as error:
            raise flight.FlightServerError(error_to_text(error)) from error

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        writer.begin(_NOTHING)
        peer = descriptor.command.decode()
        self._owner.serve(peer, writer.write_metadata, lambda: _frame(reader))


def _serve(host: str, secret: str, owner: Any) -> tuple[Any, str]:
    if host.startswith("unix:"):
        location = f"grpc+unix://{host.removeprefix('unix:')}"
        return _Server(location, secret, owner), location
    scheme = "grpc+tls" if is_on() else "grpc"
    try:
        running = _Server(f"{scheme}://{host}:0", secret, owner)
    except (pa.ArrowException, OSError) as error:
        raise OperatingError(f"no port at {host} could be opened: {error}") from error
    reachable = socket.gethostname() if host == ALL_INTERFACES else host
    return running, f"{scheme}://{reachable}:{running.port}"


def _connect(address: str) -> flight.FlightClient:
    return flight.connect(tcp_part(address), tls_root_certs=roots_for(address))


def _stop(server: Any) -> None:
    """Shut a server down, with a time limit for calls that do not end."""
    thread = threading.Thread(target=server.shutdown, name="flight-shutdown", daemon=True)
    thread.start()
    thread.join(CLOSE_WAIT_S)


def _options(secret: str) -> flight.FlightCallOptions:
    return flight.FlightCallOptions(headers=[(SECRET_HEADER.encode(), secret.encode())])


def _frame(reader: Any) -> bytes:
    return bytes(reader.read_chunk().app_metadata)


def _translate(error: BaseException) -> StreamEngineError:
    if isinstance(error, UsageError):
        return error
    loss = loss_from_text(str(error))
    if loss is not None:
        return loss
    if isinstance(error, flight.FlightUnauthenticatedError | flight.FlightUnauthorizedError):
        return UnauthorizedError()
    return OperatingError(str(error).split(". gRPC client debug context")[0])

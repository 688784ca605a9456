"""Streams and control messages between hosts. The only file that knows Arrow Flight.

*Data*: :class:`StreamServer` pushes the items of published streams as they are written;
:class:`RemoteReader` receives them into a queue bounded in bytes. *Control*: :class:`ControlServer`
and :class:`ControlClient` share one long-lived exchange per peer that carries bytes both ways; its
break tells each side at once that the other is gone.

Invariants: (1) every call carries the job's secret, or is refused before anything is looked at;
(2) nothing that arrives is unpickled; (3) a broken connection is a state, what was received before
it is still served; (4) silence longer than :data:`SILENCE_S` is a broken connection.
"""

from __future__ import annotations

import contextlib
import hmac
import socket
import struct
import threading
from collections import deque
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING, Any

import msgpack
import pyarrow as pa
import pyarrow.flight as flight

from rstream.batch import Items
from rstream.clock import SystemClock
from rstream.errors import (
    OperatingError,
    SequenceDiscardedError,
    SequenceLostError,
    StreamEngineError,
    UnauthorizedError,
)
from rstream.reader import READ_ITEMS_MAX, SegmentReader, open_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rstream.blobs import BlobStore
    from rstream.stream import RStream

SECRET_HEADER = "x-streamscope-secret"
ALL_INTERFACES = "0.0.0.0"
#: Rows of one pushed batch; also what one read-ahead of a reader is made of.
PUSH_ROWS_MAX = 1 << 16
#: An idle server looks this often whether its client is gone.
IDLE_WAIT_S = 0.25
#: An idle side says something this often.
HEARTBEAT_S = 5.0
#: A side that has not said anything for this long is gone.
SILENCE_S = 20.0
CALL_WAIT_S = 10.0
QUEUE_BYTES_MAX = 16 << 20
CONTROL_MESSAGES_MAX = 10_000
_SEQ = struct.Struct("<q")
_NOTHING = pa.schema([])
#: First byte of a control frame; a frame must not be empty.
_HEARTBEAT = b"\0"
_MESSAGE = b"\1"
#: Frames the name and seq of a lost item in an error message.
_LOST = "<lost>"


class DisconnectedError(OperatingError):
    """The peer of a control connection is gone."""

    def __init__(self, peer: str) -> None:
        super().__init__(peer)
        self.peer = peer

    def __str__(self) -> str:
        return f"peer {self.peer} is not connected"


class StreamServer:
    """Serves the streams of one host to readers on other hosts.

    ``host`` is an interface address (a free port is taken) or ``unix:/path/of/a/socket``, which is
    about twice as fast for readers on the same machine.
    """

    def __init__(self, host: str = "127.0.0.1", secret: str = "") -> None:
        self._streams: dict[tuple[str, int], RStream] = {}
        self._lock = threading.Lock()
        self._is_closed = False
        self._server, self.address = _serve(_DataServer, host, secret, self)

    def publish(self, stream_id: str, epoch: int, stream: RStream) -> None:
        """Let readers have this stream."""
        with self._lock:
            self._streams[stream_id, epoch] = stream

    def withdraw(self, stream_id: str, epoch: int) -> None:
        """End the pushes of this stream and refuse new ones."""
        with self._lock:
            self._streams.pop((stream_id, epoch), None)

    def find(self, stream_id: str, epoch: int) -> RStream | None:
        """The published stream, None if it is not (or the server is closed)."""
        return None if self._is_closed else self._streams.get((stream_id, epoch))

    def close(self) -> None:
        """End all pushes and stop; takes at most about IDLE_WAIT_S."""
        self._is_closed = True
        self._server.shutdown()

    def push(
        self, ticket: dict[str, Any], is_cancelled: Callable[[], bool]
    ) -> flight.FlightDataStream:
        """Answer one DoGet."""
        stream_id, epoch, seq = str(ticket["stream"]), int(ticket["epoch"]), int(ticket["seq"])
        stream = self.find(stream_id, epoch)
        if stream is None:
            raise flight.FlightUnavailableError(f"stream {stream_id} epoch {epoch} is not here")
        reader = stream.register(seq)
        nothing = pa.RecordBatch.from_pylist([], schema=stream.schema)

        def batches() -> Iterator[tuple[pa.RecordBatch, bytes]]:
            idle_s = 0.0
            try:
                while not is_cancelled() and self.find(stream_id, epoch) is stream:
                    items = reader.read_next(PUSH_ROWS_MAX)
                    if items is not None:
                        idle_s = 0.0
                        yield items.batch, _SEQ.pack(items.first_seq)
                    elif not reader.wait(IDLE_WAIT_S):
                        idle_s += IDLE_WAIT_S
                        if idle_s >= HEARTBEAT_S:
                            idle_s = 0.0
                            yield nothing, _SEQ.pack(reader.next_seq)
            except (SequenceLostError, SequenceDiscardedError) as error:
                raise _lost(error) from error
            finally:
                reader.close()

        return flight.GeneratorStream(stream.schema, batches())


class RemoteReader:
    """A reader of a stream that lives on another host; a StreamReader.

    What is already durable is read from ``store`` (if given), the rest is pushed by the host. After
    ``is_broken`` what was received, and what is durable, is still served; the caller then registers
    elsewhere at ``next_seq``. ``on_change`` is called from another thread when there is something
    new to read, or the connection broke.
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
    ) -> None:
        self._address, self._secret = address, secret
        self._ticket = {"stream": stream_id, "epoch": epoch}
        self._seq = from_seq
        self._durable: SegmentReader | None = None
        if store is not None:
            self._durable = open_reader(store, from_seq)
        self._state = threading.Condition()
        self._queue: deque[Items] = deque()
        self._queue_bytes = 0
        self._queue_bytes_max = queue_bytes_max
        self._on_change = on_change
        self._thread: threading.Thread | None = None
        self._call: flight.FlightStreamReader | None = None
        self._reading_since_s: float | None = None
        self._clock = SystemClock()
        self._is_closed = False
        self._broken: BaseException | None = None
        if self._durable is None or self._durable.durable_seq <= from_seq:
            self._connect()

    @property
    def next_seq(self) -> int:
        return self._seq

    @property
    def is_broken(self) -> bool:
        """Whether the connection is lost, withdrawn or refused: nothing more will be received."""
        since_s = self._reading_since_s
        if since_s is not None and self._clock.monotonic_s() - since_s > SILENCE_S:
            self._break(OperatingError(f"{self._address}: silent for {SILENCE_S:g} s"))
        return self._broken is not None

    @property
    def failure(self) -> BaseException | None:
        """Why it is broken."""
        return self._broken

    def read_next(self, max_items: int = READ_ITEMS_MAX) -> Items | None:
        """See StreamReader. None once :attr:`is_broken` and everything received was returned."""
        if self._thread is None or self._broken is not None:
            items = self._read_queue(max_items) or self._read_durable(max_items)
            if items is None and self._thread is None and self._broken is None:
                self._connect()
            return items
        return self._read_queue(max_items)

    def wait(self, timeout_s: float) -> bool:
        with self._state:
            if self._thread is None:
                return True
            self._state.wait_for(
                lambda: bool(self._queue) or self._broken is not None or self._is_closed, timeout_s
            )
            return bool(self._queue)

    def close(self) -> None:
        """Stop receiving."""
        with self._state:
            self._is_closed = True
            call, self._call = self._call, None
            self._state.notify_all()
        if call is not None:
            call.cancel()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(CALL_WAIT_S)
        if self._durable is not None:
            self._durable.close()

    def _read_queue(self, max_items: int) -> Items | None:
        with self._state:
            if not self._queue:
                return None
            items = self._queue.popleft()
            taken = items.head(max_items)
            if taken.next_seq < items.next_seq:
                self._queue.appendleft(items.from_seq(taken.next_seq))
            self._queue_bytes = sum(i.batch.nbytes for i in self._queue)
            self._state.notify_all()
        assert taken.first_seq == self._seq, (taken.first_seq, self._seq)
        self._seq = taken.next_seq
        return taken

    def _read_durable(self, max_items: int) -> Items | None:
        if self._durable is None:
            return None
        if self._durable.next_seq != self._seq:
            store = self._durable.store
            self._durable.close()
            self._durable = open_reader(store, self._seq)
        items = self._durable.read_next(max_items)
        if items is not None:
            self._seq = items.next_seq
        return items

    def _connect(self) -> None:
        self._thread = threading.Thread(target=self._receive, name="remote-reader", daemon=True)
        self._thread.start()

    def _receive(self) -> None:
        """Body of the thread; ends with the connection."""
        client = None
        try:
            client = _connect(self._address)
            ticket = flight.Ticket(msgpack.packb({**self._ticket, "seq": self._seq}))
            self._reading_since_s = self._clock.monotonic_s()
            call = client.do_get(ticket, _options(self._secret))
            with self._state:
                self._call = call
                if self._is_closed:
                    call.cancel()
            while self._receive_one(call):
                pass
            self._break(OperatingError(f"{self._address}: the stream was withdrawn"))
        except (pa.ArrowException, OSError, StreamEngineError, AssertionError) as error:
            self._break(_translate(error))
        finally:
            self._reading_since_s = None
            with self._state:
                self._call = None
            if client is not None:
                client.close()

    def _receive_one(self, call: flight.FlightStreamReader) -> bool:
        self._reading_since_s = self._clock.monotonic_s()
        try:
            chunk = call.read_chunk()
        except StopIteration:
            return False
        self._reading_since_s = None
        if chunk.data.num_rows == 0:
            return not self._is_closed
        (first_seq,) = _SEQ.unpack(chunk.app_metadata.to_pybytes())
        items = Items(first_seq, chunk.data)
        with self._state:
            self._state.wait_for(
                lambda: self._queue_bytes < self._queue_bytes_max or self._is_closed
            )
            self._queue.append(items)
            self._queue_bytes += items.batch.nbytes
            self._state.notify_all()
        self._changed()
        return not self._is_closed

    def _break(self, error: BaseException) -> None:
        with self._state:
            if self._broken is None:
                self._broken = error
            self._state.notify_all()
        self._changed()

    def _changed(self) -> None:
        if self._on_change is not None and not self._is_closed:
            self._on_change()


class ControlServer:
    """The job manager's side of the control connections.

    ``on_connect(peer)``, ``on_message(peer, bytes)`` and ``on_disconnect(peer)`` are called from
    the thread of that peer's connection, in this order; a peer that connects again replaces its old
    connection (whose disconnect is not reported).
    """

    def __init__(
        self,
        secret: str,
        on_message: Callable[[str, bytes], None],
        on_connect: Callable[[str], None] = lambda peer: None,
        on_disconnect: Callable[[str], None] = lambda peer: None,
        *,
        host: str = "127.0.0.1",
    ) -> None:
        self._on_message = on_message
        self._on_connect, self._on_disconnect = on_connect, on_disconnect
        self._peers: dict[str, _Outbox] = {}
        self._lock = threading.Lock()
        self._server, self.address = _serve(_ControlFlightServer, host, secret, self)

    @property
    def peers(self) -> list[str]:
        """Who is connected."""
        with self._lock:
            return sorted(self._peers)

    def send(self, peer: str, message: bytes) -> None:
        """Queue a message. Raises DisconnectedError if the peer is gone."""
        with self._lock:
            outbox = self._peers.get(peer)
        if outbox is None or not outbox.put(message):
            raise DisconnectedError(peer)

    def disconnect(self, peer: str) -> None:
        """End the connection of a peer (after what is queued for it)."""
        with self._lock:
            outbox = self._peers.get(peer)
        if outbox is not None:
            outbox.close()

    def close(self) -> None:
        """End every connection and stop."""
        with self._lock:
            outboxes = list(self._peers.values())
        for outbox in outboxes:
            outbox.close()
        self._server.shutdown()

    def serve_peer(self, peer: str, reader: Any, writer: Any) -> None:
        """One connection, from its start to its end."""
        writer.begin(_NOTHING)
        outbox = _Outbox(writer.write_metadata, peer)
        with self._lock:
            old, self._peers[peer] = self._peers.get(peer), outbox
        if old is not None:
            old.close()
        self._on_connect(peer)
        try:
            _receive_messages(reader, lambda message: self._on_message(peer, message))
        finally:
            outbox.close()
            with self._lock:
                is_current = self._peers.get(peer) is outbox
                if is_current:
                    del self._peers[peer]
            if is_current:
                self._on_disconnect(peer)


class ControlClient:
    """A host's side of its control connection.

    Raises:
        UnauthorizedError: the secret was refused.
        OperatingError: nobody answers at the address.
    """

    def __init__(
        self,
        address: str,
        secret: str,
        peer: str,
        on_message: Callable[[bytes], None],
        on_disconnect: Callable[[], None] = lambda: None,
    ) -> None:
        self._peer = peer
        self._on_message, self._on_disconnect = on_message, on_disconnect
        self._is_closed = False
        self.is_connected = True
        try:
            self._client = _connect(address)
            descriptor = flight.FlightDescriptor.for_command(peer.encode())
            options = _options(secret)
            self._writer, self._reader = self._client.do_exchange(descriptor, options)
            self._writer.begin(_NOTHING)
            self._reader.read_chunk()
        except (pa.ArrowException, OSError, StopIteration) as error:
            raise _translate(error) from error
        self._outbox = _Outbox(self._writer.write_metadata, peer)
        self._thread = threading.Thread(target=self._receive, name="control", daemon=True)
        self._thread.start()

    def send(self, message: bytes) -> None:
        """Queue a message. Raises DisconnectedError if the connection is gone."""
        if not self.is_connected or not self._outbox.put(message):
            raise DisconnectedError(self._peer)

    def close(self) -> None:
        """Send what is queued, then end the connection."""
        self._is_closed = True
        self._outbox.close()
        with contextlib.suppress(pa.ArrowException, OSError):
            self._writer.done_writing()
        self._thread.join(CALL_WAIT_S)
        self._client.close()

    def _receive(self) -> None:
        _receive_messages(self._reader, self._on_message)
        self.is_connected = False
        self._outbox.close()
        if not self._is_closed:
            self._on_disconnect()


class _Outbox:
    """A bounded queue and the thread that writes it; says something when it has been idle."""

    def __init__(self, write: Callable[[bytes], None], name: str) -> None:
        self._write = write
        self._queue: Queue[bytes | None] = Queue(CONTROL_MESSAGES_MAX)
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name=f"outbox-{name}", daemon=True)
        self._queue.put(_HEARTBEAT)
        self._thread.start()

    def put(self, message: bytes) -> bool:
        """Queue a message; False if the connection is gone or the queue is full."""
        if self._is_closed:
            return False
        try:
            self._queue.put_nowait(_MESSAGE + message)
        except Full:
            return False
        return True

    def close(self) -> None:
        """Write what is queued and stop."""
        if not self._is_closed:
            self._is_closed = True
            with contextlib.suppress(Full):
                self._queue.put_nowait(None)
        if self._thread is not threading.current_thread():
            self._thread.join(CALL_WAIT_S)

    def _work(self) -> None:
        while True:  # ends with close() or the connection
            try:
                message = self._queue.get(timeout=HEARTBEAT_S)
            except Empty:
                message = _HEARTBEAT
            if message is None:
                return
            try:
                self._write(message)
            except (pa.ArrowException, OSError):
                self._is_closed = True
                return


class _SecretMiddleware(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Refuses every call that does not carry the secret."""

    def __init__(self, secret: str) -> None:
        super().__init__()
        self._secret = secret

    def start_call(self, info: Any, headers: dict[str, list[str]]) -> None:
        given = headers.get(SECRET_HEADER, [""])[0]
        if not hmac.compare_digest(given.encode(), self._secret.encode()):
            raise flight.FlightUnauthenticatedError(str(UnauthorizedError()))


class _DataServer(flight.FlightServerBase):  # type: ignore[misc]
    def __init__(self, location: str, secret: str, owner: StreamServer) -> None:
        super().__init__(location, middleware={"secret": _SecretMiddleware(secret)})
        self._owner = owner

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.FlightDataStream:
        request = msgpack.unpackb(ticket.ticket)
        try:
            return self._owner.push(request, context.is_cancelled)
        except (SequenceLostError, SequenceDiscardedError) as error:
            raise _lost(error) from error
        except StreamEngineError as error:
            raise flight.FlightServerError(str(error)) from error


class _ControlFlightServer(flight.FlightServerBase):  # type: ignore[misc]
    def __init__(self, location: str, secret: str, owner: ControlServer) -> None:
        super().__init__(location, middleware={"secret": _SecretMiddleware(secret)})
        self._owner = owner

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        self._owner.serve_peer(descriptor.command.decode(), reader, writer)


def _serve(server: Any, host: str, secret: str, owner: Any) -> tuple[Any, str]:
    if host.startswith("unix:"):
        location = f"grpc+unix://{host.removeprefix('unix:')}"
        return server(location, secret, owner), location
    running = server(f"grpc://{host}:0", secret, owner)
    reachable = socket.gethostname() if host == ALL_INTERFACES else host
    return running, f"grpc://{reachable}:{running.port}"


def _connect(address: str) -> flight.FlightClient:
    return flight.connect(address)


def _options(secret: str) -> flight.FlightCallOptions:
    return flight.FlightCallOptions(headers=[(SECRET_HEADER.encode(), secret.encode())])


def _receive_messages(reader: Any, on_message: Callable[[bytes], None]) -> None:
    """Hand over messages until the connection ends, however it ends."""
    with contextlib.suppress(StopIteration, pa.ArrowException, OSError):
        while True:  # ends with the connection
            chunk = reader.read_chunk()
            frame = chunk.app_metadata.to_pybytes()
            if frame[:1] == _MESSAGE:
                on_message(frame[1:])


def _lost(error: SequenceLostError | SequenceDiscardedError) -> flight.FlightServerError:
    """The error as Flight carries it, so that the reader can tell loss from a broken line."""
    return flight.FlightServerError(f"{_LOST} {error.stream} {error.seq} {_LOST}")


def _translate(error: BaseException) -> StreamEngineError:
    if isinstance(error, StreamEngineError):
        return error
    if str(error).count(_LOST) >= 2:
        stream, seq = str(error).split(_LOST)[1].split()
        return SequenceLostError(stream, int(seq))
    if isinstance(error, flight.FlightUnauthenticatedError | flight.FlightUnauthorizedError):
        return UnauthorizedError()
    return OperatingError(str(error).split(". gRPC client debug context")[0])

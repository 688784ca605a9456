"""Streams for readers on the same machine, over a Unix socket: frames of Arrow messages.

A *connection* serves one reader of one stream. The writer's thread sends a new batch itself, right
after the write, if the reader is caught up, the batch is small and the socket is writable: then no
other thread has to wake up. The connection's own thread sends everything else: the items by which
the reader lags behind, large batches, bytes that did not fit into the socket, and heartbeats. A
writer never waits for a reader.

The reader sends the first frame (:mod:`rstream.transport.frames`), its hello. The server answers
with the schema, then items, and a reason if the stream is withdrawn or fails.

Invariants: (1) the server decodes only the hello of a caller, at most :data:`TEXT_BYTES_MAX`, and
ignores everything else in it unless the job's secret is right; (2) neither side unpickles anything;
(3) frames are sent completely and in order, by one thread at a time; (4) if the connection is busy,
a writer sets its wake-up event, and the connection's thread checks for new items; (5) a failure
ends its connection, never the server or a write.
"""

from __future__ import annotations

import contextlib
import hmac
import socket
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import msgpack
import pyarrow as pa

from rstream.clock import SystemClock
from rstream.errors import OperatingError, StreamEngineError, UnauthorizedError
from rstream.items.dictionaries import batch_bytes
from rstream.transport.control import HEARTBEAT_S
from rstream.transport.frames import (
    FAILED,
    FRAME,
    HELLO,
    ITEMS,
    REFUSED,
    SCHEMA,
    TEXT_BYTES_MAX,
    FrameError,
    end,
    receive,
    send,
)
from rstream.transport.wire import WireEncoder, in_messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from rstream.items.batch import Items
    from rstream.log.stream import RStream

PUSH_ROWS_MAX = 1 << 16
#: A writer's thread sends a batch itself if it has at most this many bytes, including new
#: dictionaries, and the reader is behind by at most the second number of rows.
DIRECT_BYTES_MAX = 64 << 10
DIRECT_ROWS_MAX = 4096
#: Seconds between two checks, on an idle connection, of whether its reader has left.
IDLE_WAIT_S = 0.25
#: How long either side waits for the first frame of the other side, s.
HELLO_WAIT_S = 10.0
#: Most readers that may wait to be accepted. If the queue is full, more are refused.
WAITING_MAX = 4096
#: Pause after a failed accept, s.
ACCEPT_AGAIN_S = 0.005
SEND_BUFFER_BYTES = 1 << 20
CLOSE_WAIT_S = 2.0


class Chunk(NamedTuple):
    """The content of one message."""

    data: pa.RecordBatch
    app_metadata: pa.Buffer


class UnixSocketServer:
    """Serves the streams that ``find`` returns, at the socket ``path``."""

    def __init__(
        self,
        path: str,
        secret: str,
        find: Callable[[str, int], RStream | None],
        explain: Callable[[StreamEngineError], str],
    ) -> None:
        """Serve at ``path``. ``explain`` turns an error into text for the reader.

        From this text, the reader recognises lost items.
        """
        self._secret, self._find, self._explain = secret, find, explain
        self._lock, self._closed = threading.Lock(), threading.Event()
        #: By thread: the thread's connection, and the event that wakes the thread up.
        self._threads: dict[threading.Thread, tuple[socket.socket, threading.Event]] = {}
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(WAITING_MAX)
        self._accepting = threading.Thread(
            target=self._accept, name="unix-socket-accept", daemon=True
        )
        self._accepting.start()

    def shutdown(self) -> None:
        """End all connections. Takes at most CLOSE_WAIT_S."""
        with self._lock:
            self._closed.set()
            connections = dict(self._threads)
        end(self._listener)
        for connection, again in connections.values():
            end(connection)
            again.set()
        clock = SystemClock()
        deadline_s = clock.monotonic_s() + CLOSE_WAIT_S
        for thread in [self._accepting, *connections]:
            thread.join(max(0.0, deadline_s - clock.monotonic_s()))
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed.is_set():  # ends with shutdown
            try:
                connection = self._listener.accept()[0]
            except OSError:  # no file descriptor is free, or the caller has left
                self._closed.wait(ACCEPT_AGAIN_S)
            else:
                self._begin(connection)

    def _begin(self, connection: socket.socket) -> None:
        """Start a thread for the connection.

        If none can start, close it, and the reader uses TCP.
        """
        again = threading.Event()
        thread = threading.Thread(
            target=self._serve, args=(connection, again), name="unix-socket-connection", daemon=True
        )
        with self._lock, contextlib.suppress(RuntimeError):  # no thread can start
            if not self._closed.is_set():
                thread.start()
                self._threads[thread] = connection, again
                return
        connection.close()

    def _serve(self, connection: socket.socket, again: threading.Event) -> None:
        try:
            with connection, contextlib.suppress(OSError):  # the reader has left
                self._answer(connection, again)
        finally:
            with self._lock:
                self._threads.pop(threading.current_thread(), None)

    def _answer(self, connection: socket.socket, again: threading.Event) -> None:
        try:
            request = self._requested(connection)
        except UnauthorizedError:
            send(connection, REFUSED, b"", b"")
            return
        except (FrameError, KeyError, TypeError, ValueError, OverflowError):
            return  # not a reader of this protocol
        except StreamEngineError as error:
            self._fail(connection, error)
            return
        try:
            _Connection(connection, again, *request).run()
        except OSError:
            return
        except StreamEngineError as error:
            self._fail(connection, error)
        except Exception as error:  # any failure is reported to the reader
            what = f"stream {request[0].stream_id}: {type(error).__name__}: {error}"
            self._fail(connection, OperatingError(what))

    def _fail(self, connection: socket.socket, error: StreamEngineError) -> None:
        send(connection, FAILED, self._explain(error).encode()[:TEXT_BYTES_MAX], b"")

    def _requested(self, connection: socket.socket) -> tuple[RStream, int, Callable[[], bool]]:
        """Return the requested stream, the first seq, and a test of whether it is still served."""
        connection.settimeout(HELLO_WAIT_S)
        hello = msgpack.unpackb(receive(connection, HELLO)[1])
        if not isinstance(hello, dict):
            raise UnauthorizedError
        given = str(hello.get("secret", ""))
        if not hmac.compare_digest(given.encode(), self._secret.encode()):
            raise UnauthorizedError
        stream_id, epoch = str(hello["stream"]), int(hello["epoch"])
        stream = self._find(stream_id, epoch)
        if stream is None:
            raise OperatingError(f"stream {stream_id} epoch {epoch} is not here")
        connection.settimeout(None)
        return stream, int(hello["seq"]), lambda: self._find(stream_id, epoch) is stream


class _Connection:
    """One reader; see the module."""

    def __init__(
        self,
        connection: socket.socket,
        again: threading.Event,
        stream: RStream,
        seq: int,
        is_served: Callable[[], bool],
    ) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        self._socket, self._stream, self._is_served = connection, stream, is_served
        self._reader = stream.register(seq, ahead=True)
        self._wire = WireEncoder(stream.schema)
        self._sending = threading.Lock()
        #: Wakes the connection's thread up, because it must send or check something.
        self._again = again
        #: Items that were read and not sent yet, and the rest of a frame that was sent in part.
        self._waiting: deque[Items] = deque()
        self._rest = b""
        #: A failure in the writer's thread, which then stops sending. The connection's thread
        #: raises it.
        self._failure: Exception | None = None

    def run(self) -> None:
        """Run the connection's thread, until it ends or the stream is withdrawn."""
        send(self._socket, SCHEMA, b"", self._wire.schema.serialize())
        self._stream.listeners.add(self._written)
        idle_s = 0.0
        try:
            self._again.set()
            while self._is_served() and not self._is_left():
                if self._again.wait(IDLE_WAIT_S):
                    idle_s = 0.0
                    self._again.clear()
                    with self._sending:
                        self._send_all()
                elif (idle_s := idle_s + IDLE_WAIT_S) >= HEARTBEAT_S:
                    idle_s = 0.0
                    with self._sending:
                        self._send_rest()
                        send(self._socket, ITEMS, b"", b"")
        finally:
            self._stream.listeners.remove(self._written)
            with self._sending:
                self._failure = self._failure or ConnectionError("the connection has ended")
                self._reader.close()

    def _written(self) -> None:
        """Send new items without waiting. Called in the writer's thread after each write."""
        if not self._sending.acquire(blocking=False):
            self._again.set()
            return
        try:
            is_sent = self._send_direct()
        except Exception as error:  # the failure concerns this reader, not the writer
            self._failure, is_sent = error, False
        finally:
            self._sending.release()
        if not is_sent:
            self._again.set()

    def _send_direct(self) -> bool:
        """Send new items without waiting. Return whether the reader then has all items."""
        seq, stream = self._reader.next_seq, self._stream
        if self._failure or self._rest or self._waiting or seq < stream.tail_first_seq:
            return False
        if stream.next_seq - seq > DIRECT_ROWS_MAX:
            return False
        items = self._reader.read_next(PUSH_ROWS_MAX)
        if items is None:
            return True
        if batch_bytes(items.batch) + self._wire.new_bytes(items.batch) > DIRECT_BYTES_MAX:
            self._waiting.append(items)
            return False
        frame = b"".join(self._frame(items))
        try:
            sent = self._socket.send(frame, socket.MSG_DONTWAIT)
        except BlockingIOError:
            sent = 0
        self._rest = frame[sent:]
        return not self._rest and self._reader.next_seq == stream.next_seq

    def _send_all(self) -> None:
        """Send all items, and wait for the reader. The caller holds ``_sending``."""
        self._send_rest()
        while self._is_served():
            items = self._waiting.popleft() if self._waiting else None
            if items is None and (items := self._reader.read_next(PUSH_ROWS_MAX)) is None:
                return
            for part in in_messages(items):
                for piece in self._frame(part):
                    self._socket.sendall(piece)

    def _send_rest(self) -> None:
        if self._failure is not None:
            raise self._failure
        rest, self._rest = self._rest, b""
        if rest:
            self._socket.sendall(rest)

    def _frame(self, items: Items) -> tuple[bytes, Any]:
        batch, note = self._wire.encode(items)
        body = batch.serialize()
        return FRAME.pack(ITEMS, len(note), body.size) + note, body

    def _is_left(self) -> bool:
        """Return whether the reader has left. It sends no more frames after its hello."""
        try:
            return not self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False


class UnixSocketCall:
    """A reader's end of a connection: the schema, then chunks.

    Raises:
        UnauthorizedError: the server rejected the secret. OperatingError: it lacks the stream.
        OSError: no answer within the limit.
    """

    def __init__(self, path: str, hello: dict[str, Any]) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.settimeout(HELLO_WAIT_S)
            self._socket.connect(path)
            send(self._socket, HELLO, msgpack.packb(hello), b"")
            self.schema = pa.ipc.read_schema(self._next(SCHEMA)[1])
            self._socket.settimeout(None)
        except BaseException:
            self.close()
            raise

    def read_chunk(self) -> Chunk:
        """Wait for the next message. A message without rows is a heartbeat.

        Raises:
            StopIteration: the connection has ended. OperatingError: the server reported a failure.
            FrameError: an invalid frame arrived.
        """
        try:
            note, body = self._next(ITEMS)
        except OSError:
            raise StopIteration from None
        if body.size == 0:
            return Chunk(pa.RecordBatch.from_pylist([], schema=self.schema), pa.py_buffer(b""))
        return Chunk(pa.ipc.read_record_batch(body, self.schema), pa.py_buffer(note))

    def cancel(self) -> None:
        """End the connection. Safe from any thread."""
        end(self._socket)

    def close(self) -> None:
        """Release the socket."""
        self._socket.close()

    def _next(self, wanted: int) -> tuple[bytes, pa.Buffer]:
        kind, note, body = receive(self._socket, wanted, FAILED, REFUSED)
        if kind == REFUSED:
            raise UnauthorizedError
        if kind == FAILED:
            raise OperatingError(note.decode(errors="replace"))
        return note, body

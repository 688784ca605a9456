"""Streams for readers on the same machine, over a Unix socket: frames of Arrow's own messages.

A *line* serves one reader of one stream. Who writes the stream sends what is new himself, right
after the write, if the reader is level with it, the items are few and the socket takes them at
once: nobody else has to wake up for that. Everything else is sent by the line's own thread: what
the reader lags behind, large batches, what the socket did not take, a sign of life from time to
time. A writer never waits for a reader.

Of the frames (:mod:`rstream.transport.frames`) the reader sends the first, its hello; then come the
schema, items, and the reason if it ends otherwise than by the end.

Invariants: (1) of a caller only the hello is decoded, at most :data:`TEXT_BYTES_MAX`, and without
the job's secret in it nothing else is looked at; (2) nothing that arrives is unpickled; (3) frames
are sent whole and in order, by one thread at a time; (4) who finds the line taken leaves word, and
its thread looks again; (5) what goes wrong with a line ends that line, never the server or a write.
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
#: A writer sends at most so much himself, with dictionaries that the reader lacks, of what the
#: reader is behind by at most so many rows.
DIRECT_BYTES_MAX = 64 << 10
DIRECT_ROWS_MAX = 4096
#: An idle line looks this often whether its reader is gone.
IDLE_WAIT_S = 0.25
#: How long the other side may take to say its first word.
HELLO_WAIT_S = 10.0
#: Readers that wait to be let in; a socket whose queue is full refuses more.
WAITING_MAX = 4096
#: A reader that could not be let in waits so long for another try.
ACCEPT_AGAIN_S = 0.005
SEND_BUFFER_BYTES = 1 << 20
CLOSE_WAIT_S = 2.0


class Chunk(NamedTuple):
    """What one message brings."""

    data: pa.RecordBatch
    app_metadata: pa.Buffer


class NearServer:
    """Serves the streams that ``find`` knows, at the socket ``path``."""

    def __init__(
        self,
        path: str,
        secret: str,
        find: Callable[[str, int], RStream | None],
        explain: Callable[[StreamEngineError], str],
    ) -> None:
        """``explain``: an error as a text from which the reader can tell a loss."""
        self._secret, self._find, self._explain = secret, find, explain
        self._lock, self._closed = threading.Lock(), threading.Event()
        self._threads: dict[threading.Thread, socket.socket] = {}
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(WAITING_MAX)
        self._accepting = threading.Thread(target=self._accept, name="near-accept", daemon=True)
        self._accepting.start()

    def shutdown(self) -> None:
        """End all lines; takes at most CLOSE_WAIT_S."""
        with self._lock:
            self._closed.set()
            lines = dict(self._threads)
        for line in [self._listener, *lines.values()]:
            end(line)
        clock = SystemClock()
        deadline_s = clock.monotonic_s() + CLOSE_WAIT_S
        for thread in [self._accepting, *lines]:
            thread.join(max(0.0, deadline_s - clock.monotonic_s()))
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed.is_set():  # ends with shutdown
            try:
                line = self._listener.accept()[0]
            except OSError:  # no file is to be had, or who called has left
                self._closed.wait(ACCEPT_AGAIN_S)
            else:
                self._begin(line)

    def _begin(self, line: socket.socket) -> None:
        """Have a thread serve the line; without one it is closed, and the reader uses TCP."""
        thread = threading.Thread(target=self._serve, args=(line,), name="near-line", daemon=True)
        with self._lock, contextlib.suppress(RuntimeError):  # no thread is to be had
            if not self._closed.is_set():
                thread.start()
                self._threads[thread] = line
                return
        line.close()

    def _serve(self, line: socket.socket) -> None:
        try:
            with line, contextlib.suppress(OSError):  # the reader has left
                self._answer(line)
        finally:
            with self._lock:
                self._threads.pop(threading.current_thread(), None)

    def _answer(self, line: socket.socket) -> None:
        try:
            found = self._found(line)
        except UnauthorizedError:
            send(line, REFUSED, b"", b"")
            return
        except (FrameError, KeyError, TypeError, ValueError, OverflowError):
            return  # whoever it is, it does not know how to ask
        except StreamEngineError as error:
            self._fail(line, error)
            return
        try:
            _Line(line, *found).run()
        except OSError:
            return
        except StreamEngineError as error:
            self._fail(line, error)
        except Exception as error:  # whatever it is, the reader tells it
            what = f"stream {found[0].stream_id}: {type(error).__name__}: {error}"
            self._fail(line, OperatingError(what))

    def _fail(self, line: socket.socket, error: StreamEngineError) -> None:
        send(line, FAILED, self._explain(error).encode()[:TEXT_BYTES_MAX], b"")

    def _found(self, line: socket.socket) -> tuple[RStream, int, Callable[[], bool]]:
        """The stream that was asked for, from which seq on, and whether it is served still."""
        line.settimeout(HELLO_WAIT_S)
        hello = msgpack.unpackb(receive(line, HELLO)[1])
        if not isinstance(hello, dict):
            raise UnauthorizedError
        given = str(hello.get("secret", ""))
        if not hmac.compare_digest(given.encode(), self._secret.encode()):
            raise UnauthorizedError
        stream_id, epoch = str(hello["stream"]), int(hello["epoch"])
        stream = self._find(stream_id, epoch)
        if stream is None:
            raise OperatingError(f"stream {stream_id} epoch {epoch} is not here")
        line.settimeout(None)
        return stream, int(hello["seq"]), lambda: self._find(stream_id, epoch) is stream


class _Line:
    """One reader; see the module."""

    def __init__(
        self, line: socket.socket, stream: RStream, seq: int, is_served: Callable[[], bool]
    ) -> None:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        self._socket, self._stream, self._is_served = line, stream, is_served
        self._reader = stream.register(seq, ahead=True)
        self._wire = WireEncoder(stream.schema)
        self._sending = threading.Lock()
        #: There is something for the thread to send, or to look at.
        self._again = threading.Event()
        #: Read and not sent yet, and what is left of a frame that was begun.
        self._waiting: deque[Items] = deque()
        self._rest = b""
        #: Why nothing more is sent by the writer: what went wrong there is said by the thread.
        self._failure: Exception | None = None

    def run(self) -> None:
        """Body of the thread; ends with the line, or when the stream is withdrawn."""
        send(self._socket, SCHEMA, b"", self._wire.schema.serialize())
        _follow(self._stream, self._written)
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
            _follow(self._stream, self._written, ends=True)
            with self._sending:
                self._failure = self._failure or ConnectionError("the line has ended")
                self._reader.close()

    def _written(self) -> None:
        """Something was written: send it, if that is possible at once. In the writer's thread."""
        if not self._sending.acquire(blocking=False):
            self._again.set()
            return
        try:
            is_sent = self._send_direct()
        except Exception as error:  # whatever it is, it concerns this reader and no writer
            self._failure, is_sent = error, False
        finally:
            self._sending.release()
        if not is_sent:
            self._again.set()

    def _send_direct(self) -> bool:
        """Send what is new without waiting; whether that is all there is."""
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
        """Send all there is, however long the reader takes. Holds ``_sending``."""
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
        """Whether the reader has gone: it says nothing after its hello."""
        try:
            return not self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False


class _Followers:
    """Whom to call when a stream has changed: who was called before, and lines."""

    def __init__(self, first: Callable[[], None] | None) -> None:
        self._first = first
        self.lines: tuple[Callable[[], None], ...] = ()

    def __call__(self) -> None:
        for written in self.lines:
            written()
        if self._first is not None:
            self._first()


_following = threading.Lock()


def _follow(stream: RStream, written: Callable[[], None], *, ends: bool = False) -> None:
    """Have ``written`` called after each write, in the writer's thread, or no longer."""
    with _following:
        if not isinstance(stream.on_change, _Followers):
            stream.on_change = _Followers(stream.on_change)
        lines = tuple(line for line in stream.on_change.lines if line != written)
        stream.on_change.lines = lines if ends else (*lines, written)


class NearCall:
    """A reader's end of a line: the schema, then chunks.

    Raises:
        UnauthorizedError: the secret was refused. OperatingError: the stream is not there.
        OSError: nobody answers, or not as long as it may take.
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
        """Wait for the next message; one without rows is a sign of life.

        Raises:
            StopIteration: the line has ended. OperatingError: it failed, and says why.
            FrameError: what came is none of its frames.
        """
        try:
            note, body = self._next(ITEMS)
        except OSError:
            raise StopIteration from None
        if body.size == 0:
            return Chunk(pa.RecordBatch.from_pylist([], schema=self.schema), pa.py_buffer(b""))
        return Chunk(pa.ipc.read_record_batch(body, self.schema), pa.py_buffer(note))

    def cancel(self) -> None:
        """End the line; from any thread."""
        end(self._socket)

    def close(self) -> None:
        """Release it."""
        self._socket.close()

    def _next(self, wanted: int) -> tuple[bytes, pa.Buffer]:
        kind, note, body = receive(self._socket, wanted, FAILED, REFUSED)
        if kind == REFUSED:
            raise UnauthorizedError
        if kind == FAILED:
            raise OperatingError(note.decode(errors="replace"))
        return note, body

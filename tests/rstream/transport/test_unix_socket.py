"""Connections on one machine: senders, slow or leaving readers, bad hellos, failures.

Not covered: a system that is out of memory.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgpack
import pyarrow as pa
import pytest

from rstream import RStream
from rstream.errors import OperatingError, SequenceDiscardedError, UnauthorizedError
from rstream.transport.frames import (
    BYTES_MAX,
    FAILED,
    FRAME,
    ITEMS,
    SCHEMA,
    FrameError,
    end,
    receive,
)
from rstream.transport.receive import error_to_text, loss_from_text
from rstream.transport.unix_socket import (
    DIRECT_BYTES_MAX,
    UnixSocketCall,
    UnixSocketServer,
    _Connection,
)
from rstream.transport.wire import WireDecoder, WireEncoder
from tests.support.builders import ev, make_items

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "a secret"
PAYLOAD = pa.schema([("n", pa.int64()), ("text", pa.string())])
WAIT_S = 60.0


def rows(first: int, count: int, text: str = "x") -> pa.RecordBatch:
    return make_items([ev(k, n=k, text=text) for k in range(first, first + count)], PAYLOAD)


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[RStream]:
    stream = RStream.open(str(tmp_path), PAYLOAD, stream_id="s", durability="volatile")
    yield stream
    stream.close(flush=False)


@pytest.fixture
def path(stream: RStream) -> Iterator[str]:
    """The socket path of a server that has the stream."""
    with tempfile.TemporaryDirectory(prefix="s") as folder:  # a socket's path must be short
        path = str(Path(folder) / "s")
        found = {("s", 1): stream}
        server = UnixSocketServer(path, SECRET, lambda *key: found.get(key), error_to_text)
        yield path
        server.shutdown()


def hello(**changed: object) -> dict[str, Any]:
    return {"secret": SECRET, "stream": "s", "epoch": 1, "seq": 0, **changed}


def read(call: UnixSocketCall, until: int) -> list[int]:
    """The values of ``n`` up to seq ``until``."""
    wire, seen, seq = WireDecoder(call.schema), [], 0
    while seq < until:
        chunk = call.read_chunk()
        if chunk.data.num_rows:
            items = wire.decode(chunk.data, chunk.app_metadata.to_pybytes())
            assert items.first_seq == seq
            seq = items.next_seq
            seen += items.batch.column("n").to_pylist()
    return seen


def test_the_writing_thread_sends_small_batches(stream: RStream) -> None:
    mine, other = socket.socketpair()
    with mine, other:
        # its thread does not run
        connection = _Connection(mine, threading.Event(), stream, 0, lambda: True)
        stream.listeners.add(connection._written)
        stream.append(rows(0, 3))
        stream.append(rows(3, 2))
        for seq, count in [(0, 3), (3, 2)]:
            _, note, body = receive(other, ITEMS)
            batch = pa.ipc.read_record_batch(body, stream.schema)
            assert batch.equals(rows(seq, count))
            assert note == seq.to_bytes(8, "little")
        assert not connection._again.is_set()
        stream.append(rows(5, 1, "x" * DIRECT_BYTES_MAX))
        stream.append(rows(6, 1))
        assert connection._again.is_set()
        with pytest.raises(BlockingIOError):
            other.recv(1, socket.MSG_DONTWAIT)
        stream.listeners.remove(connection._written)


def test_the_thread_of_the_connection_sends_a_large_dictionary_once(
    tmp_path: Path,
) -> None:
    payload = pa.schema([("text", pa.dictionary(pa.int32(), pa.string()))])
    stream = RStream.open(str(tmp_path), payload, stream_id="s", durability="volatile")
    values = pa.array([f"{k:030}" for k in range(DIRECT_BYTES_MAX // 30)])

    def row(seq: int) -> pa.RecordBatch:
        texts = pa.DictionaryArray.from_arrays(pa.array([seq], pa.int32()), values)
        times = make_items([ev(seq)], pa.schema([])).columns
        return pa.RecordBatch.from_arrays([*times, texts], schema=stream.schema)

    mine, other = socket.socketpair()
    with mine, other:
        connection = _Connection(mine, threading.Event(), stream, 0, lambda: True)
        stream.listeners.add(connection._written)
        stream.append(row(0))
        assert connection._again.is_set()
        with pytest.raises(BlockingIOError):
            other.recv(1, socket.MSG_DONTWAIT)
        thread = threading.Thread(target=connection._send_all)
        thread.start()
        wire = WireDecoder(connection._wire.schema)
        for seq in range(2):
            _, note, body = receive(other, ITEMS)
            found = wire.decode(pa.ipc.read_record_batch(body, connection._wire.schema), note)
            assert found.batch.to_pylist() == row(seq).to_pylist()
            thread.join(WAIT_S)
            connection._again.clear()
            if seq == 0:
                stream.append(row(1))
                assert not connection._again.is_set()
        stream.listeners.remove(connection._written)
    stream.close()


def test_a_writer_does_not_wait_for_a_slow_reader(stream: RStream, path: str) -> None:
    call = UnixSocketCall(path, hello())
    for k in range(400):
        stream.append(rows(10 * k, 10, "y" * 1_000))
    stream.append(rows(4_000, 2, "z" * 2 * DIRECT_BYTES_MAX))
    assert read(call, 4_002) == list(range(4_002))
    stream.append(rows(4_002, 1))
    call.close()


def test_many_readers_of_one_stream(stream: RStream, path: str) -> None:
    stream.append(rows(0, 5_000))
    calls = [UnixSocketCall(path, hello()) for _ in range(3)]
    found: list[list[int]] = [[] for _ in calls]

    def body(k: int) -> None:
        found[k] = read(calls[k], 6_000)

    threads = [threading.Thread(target=body, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for k in range(5_000, 6_000, 10):
        stream.append(rows(k, 10))
    for thread in threads:
        thread.join(WAIT_S)
    assert found == [list(range(6_000))] * 3
    for call in calls:
        call.close()


def test_a_closed_reader_gets_no_more_items(stream: RStream, path: str) -> None:
    call = UnixSocketCall(path, hello())
    stream.append(rows(0, 1))
    assert read(call, 1) == [0]
    assert len(stream.listeners) > 0
    call.cancel()
    with pytest.raises(StopIteration):
        call.read_chunk()
    call.close()
    ended = threading.Event()
    for k in range(1, 1 + int(WAIT_S * 100)):
        if not stream.listeners:
            break
        stream.append(rows(k, 1))
        ended.wait(0.01)
    assert not stream.listeners


@pytest.mark.parametrize("wrong", [{"secret": "guess"}, {"secret": None}, {"secret": b"\xff"}])
def test_a_wrong_secret_is_refused(path: str, wrong: dict[str, object]) -> None:
    with pytest.raises(UnauthorizedError):
        UnixSocketCall(path, hello(**wrong))


def test_a_missing_stream_and_a_stream_without_the_seq(stream: RStream, path: str) -> None:
    with pytest.raises(OperatingError, match="stream t epoch 1 is not here"):
        UnixSocketCall(path, hello(stream="t"))
    stream.append(rows(0, 9))
    stream.garbage_collect(5)
    with pytest.raises(OperatingError) as caught:
        UnixSocketCall(path, hello(seq=3))
    loss = loss_from_text(str(caught.value))
    assert loss is not None
    assert (loss.stream, loss.seq) == ("s", 3)
    assert loss_from_text(error_to_text(SequenceDiscardedError("s", 3, 5))) is not None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        FRAME.pack(0, 3, 0) + b"\xc1\xc1\xc1",
        FRAME.pack(0, 1, 0) + b"\x01",
        FRAME.pack(0, 1 << 30, 1 << 60),
        FRAME.pack(99, 1, 0),
        FRAME.pack(0, 100, 0) + msgpack.packb({"secret": SECRET}).ljust(100, b"\xc0"),
    ],
)
def test_an_invalid_hello_ends_only_its_connection(stream: RStream, path: str, data: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(WAIT_S)
        connection.connect(path)
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):
            assert len(connection.recv(100)) in (0, FRAME.size)  # nothing, or a rejection
    stream.append(rows(0, 1))
    call = UnixSocketCall(path, hello())
    assert read(call, 1) == [0]
    call.close()


def test_after_a_failed_start_of_a_connection_later_readers_are_accepted(
    stream: RStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    troubles = [OSError(errno.EMFILE, "no file"), ConnectionAbortedError()]
    threads = [RuntimeError("no thread")]
    accept, start = socket.socket.accept, threading.Thread.start

    def accepts(listener: socket.socket) -> Any:
        if troubles:
            raise troubles.pop()
        return accept(listener)

    def starts(thread: threading.Thread) -> None:
        if thread.name == "unix-socket-connection" and threads:
            raise threads.pop()
        start(thread)

    monkeypatch.setattr(socket.socket, "accept", accepts)
    monkeypatch.setattr(threading.Thread, "start", starts)
    with tempfile.TemporaryDirectory(prefix="s") as folder:
        path = str(Path(folder) / "s")
        server = UnixSocketServer(path, SECRET, lambda *key: stream, error_to_text)
        with pytest.raises(ConnectionError):
            UnixSocketCall(path, hello())
        assert not server._threads
        stream.append(rows(0, 1))
        call = UnixSocketCall(path, hello())
        assert read(call, 1) == [0]
        call.close()
        server.shutdown()


@pytest.mark.parametrize("first_seq", [0, 5_000])
def test_a_failure_is_reported_only_to_the_reader_of_its_connection(
    stream: RStream, path: str, first_seq: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer's thread sends small amounts, the connection's thread large ones."""
    woken = threading.Event()
    stream.listeners.add(woken.set)
    call = UnixSocketCall(path, hello())
    call._socket.settimeout(WAIT_S)
    wires: list[WireEncoder] = []
    encode = WireEncoder.encode

    def encodes(wire: WireEncoder, items: Any) -> Any:
        wires.append(wire)
        if wire is wires[0]:
            raise pa.ArrowMemoryError("malloc failed")
        return encode(wire, items)

    monkeypatch.setattr(WireEncoder, "encode", encodes)
    stream.append(rows(0, first_seq + 1))
    assert woken.is_set()
    with pytest.raises(OperatingError, match="stream s: ArrowMemoryError: malloc failed"):
        read(call, 1)
    call.close()
    other = UnixSocketCall(path, hello())
    assert read(other, first_seq + 1) == list(range(first_seq + 1))
    other.close()


def test_a_connection_that_failed_in_the_writing_thread_sends_no_more(
    stream: RStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = socket.socketpair()
    with mine, other:
        connections = [
            _Connection(mine, threading.Event(), stream, 0, lambda: True),
            _Connection(other, threading.Event(), stream, 0, lambda: True),
        ]
        for connection in connections:
            stream.listeners.add(connection._written)
        with monkeypatch.context() as patch:
            patch.setattr(connections[0]._wire, "encode", None)
            assert stream.append(rows(0, 1)) == 1
        assert stream.append(rows(1, 1)) == 1
        assert connections[0]._again.is_set()
        assert not connections[1]._again.is_set()
        assert receive(mine, ITEMS)[1] == bytes(8)
        with pytest.raises(BlockingIOError):
            other.recv(1, socket.MSG_DONTWAIT)
        with pytest.raises(TypeError):
            connections[0].run()


@pytest.mark.parametrize("kind", [SCHEMA, FAILED, ITEMS, 77])
def test_a_reader_rejects_unexpected_and_too_large_frames(kind: int) -> None:
    mine, other = socket.socketpair()
    with mine, other:
        other.settimeout(WAIT_S)
        mine.sendall(FRAME.pack(kind, 2, BYTES_MAX.get(kind, 1) - 1))
        with pytest.raises(FrameError, match=f"of kind {kind}"):
            receive(other, SCHEMA, FAILED, ITEMS)
        mine.sendall(FRAME.pack(ITEMS, 0, 0))
        with pytest.raises(FrameError, match="unexpected frame"):
            receive(other, SCHEMA, FAILED)
        end(mine)
        with pytest.raises(ConnectionError):
            receive(other, ITEMS)


def test_an_idle_connection_ends_at_once_with_its_server(
    stream: RStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that leaves waits for it, and so does a job that is changed."""
    monkeypatch.setattr("rstream.transport.unix_socket.IDLE_WAIT_S", WAIT_S)
    with tempfile.TemporaryDirectory(prefix="s") as folder:
        path = str(Path(folder) / "s")
        server = UnixSocketServer(path, SECRET, lambda *key: stream, error_to_text)
        call = UnixSocketCall(path, hello())
        stream.append(rows(0, 1))
        assert read(call, 1) == [0], "its thread runs"
        with server._lock:  # held from the start of a thread until it is in the dictionary
            (thread,) = server._threads
        server.shutdown()
        assert not thread.is_alive()
        call.close()


def test_the_server_waits_for_all_open_connections_together(
    stream: RStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rstream.transport.unix_socket.CLOSE_WAIT_S", 0.02)
    is_over = threading.Event()
    waited: list[float] = []

    class Stuck(threading.Thread):
        def join(self, timeout: float | None = None) -> None:
            waited.append(timeout or 0.0)
            super().join(timeout)

    with tempfile.TemporaryDirectory(prefix="s") as folder:
        server = UnixSocketServer(
            str(Path(folder) / "s"), SECRET, lambda *key: stream, error_to_text
        )
        stuck = [Stuck(target=is_over.wait, args=(WAIT_S,)) for _ in range(9)]
        for thread in stuck:
            thread.start()
            server._threads[thread] = socket.socket(socket.AF_UNIX), threading.Event()
        server.shutdown()
    assert sum(waited) < 9 * 0.02
    assert waited[-1] == 0.0
    is_over.set()
    for connection, _ in server._threads.values():
        connection.close()
    for thread in stuck:
        threading.Thread.join(thread, WAIT_S)

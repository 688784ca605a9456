"""Flight: pushing, resuming, secrets, back-pressure, broken connections, killed peers.

Not covered: packet loss between machines (everything is on loopback).
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.flight as flight
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import rstream.transport.flight
from rstream import (
    Items,
    MemoryBlobs,
    OperatingError,
    RStream,
    SequenceLostError,
    StreamReader,
    UnauthorizedError,
    UsageError,
)
from rstream.transport.control import SILENCE_S, DisconnectedError
from rstream.transport.flight import (
    CLOSE_WAIT_S,
    ControlClient,
    ControlServer,
    RemoteReader,
    StreamServer,
)
from rstream.transport.tls import TLS_FOLDER
from tests.support.content import items, open_inline, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET = "a secret"
#: The time limit for noticing a killed peer, whose sockets the kernel closes at once; its silence
#: would be noticed later.
NOTICE_S = SILENCE_S / 2


@pytest.fixture
def stream() -> RStream:
    return open_inline(MemoryBlobs(), durability="volatile")


@pytest.fixture(params=["tcp", "unix", "beside"])
def server(
    request: pytest.FixtureRequest, tmp_path: Path, stream: RStream
) -> Iterator[StreamServer]:
    host = f"unix:{tmp_path}/s" if request.param == "unix" else "127.0.0.1"
    server = StreamServer(host, SECRET, beside=request.param == "beside")
    server.publish("s", 1, stream)
    yield server
    server.close()


def receive(reader: StreamReader, until: int) -> list[Items]:
    """Read up to ``until``, waiting."""
    got: list[Items] = []
    while reader.next_seq < until:
        part = reader.read_next(50)
        if part is None:
            assert reader.wait(60), "nothing came in 10 s"
        else:
            got.append(part)
    return got


def broken(reader: RemoteReader) -> OperatingError:
    """Wait until the reader is broken. Return the reason."""
    while not reader.is_broken:
        assert reader.read_next() is None
        reader.wait(60)
    assert reader.failure is not None
    return reader.failure  # type: ignore[return-value]


def test_items_are_pushed_when_written_and_from_any_seq(
    server: StreamServer, stream: RStream
) -> None:
    changed = threading.Event()
    reader = RemoteReader(server.address, SECRET, "s", 1, 0, on_change=changed.set)
    assert reader.read_next() is None
    stream.append(items(0, 20))
    assert rows_of(receive(reader, 20)) == items(0, 20).to_pylist()
    assert changed.is_set()
    stream.append(items(20, 300))
    assert rows_of(receive(reader, 300)) == items(20, 300).to_pylist()
    other = RemoteReader(server.address, SECRET, "s", 1, 123)
    assert rows_of(receive(other, 300)) == items(123, 300).to_pylist()
    assert not reader.is_broken
    reader.close()
    other.close()


def test_durable_items_and_items_not_written_yet_are_served(server: StreamServer) -> None:
    durable = open_inline(MemoryBlobs(), limits=None)
    durable.append(items(0, 50))
    durable.flush()
    again = open_inline(durable._log.store)
    server.publish("d", 2, again)
    again.append(items(50, 60))
    reader = RemoteReader(server.address, SECRET, "d", 2, 10)
    ahead = RemoteReader(server.address, SECRET, "d", 2, 70)
    assert rows_of(receive(reader, 60)) == items(10, 60).to_pylist()
    again.append(items(60, 80))
    assert rows_of(receive(ahead, 80)) == items(70, 80).to_pylist()
    reader.close()
    ahead.close()


def test_every_call_needs_the_secret(server: StreamServer) -> None:
    for secret in ("", "wrong"):
        reader = RemoteReader(server.address, secret, "s", 1, 0)
        assert isinstance(broken(reader), UnauthorizedError)
        reader.close()


def test_unknown_streams_and_lost_items_are_distinct_errors(server: StreamServer) -> None:
    unknown = RemoteReader(server.address, SECRET, "s", 7, 0)
    assert "epoch 7 is not here" in str(broken(unknown))
    late = open_inline(MemoryBlobs(), durability="volatile", start_seq=50)
    server.publish("late", 1, late)
    lost = RemoteReader(server.address, SECRET, "late", 1, 10)
    failure = broken(lost)
    assert isinstance(failure, SequenceLostError)
    assert failure.seq == 10
    for reader in (unknown, lost):
        reader.close()


def test_withdrawing_breaks_the_reader_after_the_received_items(
    server: StreamServer, stream: RStream
) -> None:
    reader = RemoteReader(server.address, SECRET, "s", 1, 0)
    stream.append(items(0, 20))
    assert reader.wait(60)
    server.withdraw("s", 1)
    assert rows_of(receive(reader, 20)) == items(0, 20).to_pylist()
    assert "withdrawn" in str(broken(reader))
    reader.close()


def test_a_slow_reader_slows_the_sender(server: StreamServer, stream: RStream) -> None:
    reader = RemoteReader(server.address, SECRET, "s", 1, 0, queue_bytes_max=1)
    for lo in range(0, 5000, 1000):
        stream.append(items(lo, lo + 1000))
    assert reader.wait(60)
    reader._queue.check()
    assert len(reader._queue._queue) == 1
    assert rows_of(receive(reader, 5000)) == items(0, 5000).to_pylist()
    reader.close()


def test_any_end_of_the_receiving_thread_is_a_break(
    server: StreamServer, stream: RStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(reader: RemoteReader, call: object, wire: object) -> bool:
        raise KeyError("no such thing")

    monkeypatch.setattr(RemoteReader, "_receive_one", fails)
    reader = RemoteReader(server.address, SECRET, "s", 1, 0)
    assert "no such thing" in str(broken(reader))
    reader.close()


def test_text_is_sent_as_dictionaries(server: StreamServer) -> None:
    payload = pa.schema([("text", pa.dictionary(pa.int32(), pa.string()))])
    stream = RStream.open(MemoryBlobs(), payload, durability="volatile")
    server.publish("texts", 1, stream)
    rows = [{"_kind": 0, "_vs": i, "_ve": i + 1, "text": f"text {i % 3}"} for i in range(9)]
    batches = [pa.RecordBatch.from_pylist(rows[i : i + 3], schema=stream.schema) for i in (0, 3, 6)]
    reader = RemoteReader(server.address, SECRET, "texts", 1, 0)
    got = []
    for k, batch in enumerate(batches):
        stream.append(batch)
        got += receive(reader, 3 * (k + 1))
    assert [row for found in got for row in found.batch.to_pylist()] == rows
    assert all(found.batch.schema.equals(stream.schema) for found in got)
    reader.close()


def test_close_is_prompt(server: StreamServer, stream: RStream) -> None:
    readers = [RemoteReader(server.address, SECRET, "s", 1, 0) for _ in range(3)]
    stream.append(items(0, 5))
    for reader in readers:
        receive(reader, 5)
    started = time.monotonic()
    readers[0].close()
    server.close()
    broken(readers[1])
    for reader in readers:
        reader.close()
    assert time.monotonic() - started < CLOSE_WAIT_S, "a thread that did not end was waited for"


def test_a_durable_prefix_is_read_from_its_folder_and_again_after_a_loss() -> None:
    store = MemoryBlobs()
    stream = open_inline(store)
    stream.append(items(0, 30))
    stream.flush()
    server = StreamServer(secret=SECRET)
    server.publish("s", 1, stream)
    reader = RemoteReader(server.address, SECRET, "s", 1, 4, store=store)
    assert reader._thread is None
    assert rows_of(receive(reader, 30)) == items(4, 30).to_pylist()
    stream.append(items(30, 40))
    assert rows_of(receive(reader, 40)) == items(30, 40).to_pylist()
    server.close()
    stream.append(items(40, 60))
    stream.flush()
    assert rows_of(receive_broken(reader, 60)) == items(40, 60).to_pylist()
    assert reader.read_next() is None
    assert reader.is_broken
    reader.close()


def receive_broken(reader: RemoteReader, until: int) -> list[Items]:
    while not reader.is_broken:
        reader.wait(60)
    return receive(reader, until)


HOST = """
import sys, time
from rstream import MemoryBlobs, RStream
from rstream.transport.flight import ControlClient, StreamServer
from tests.support.content import PAYLOAD, items
stream = RStream.open(MemoryBlobs(), PAYLOAD, stream_id="s", durability="volatile")
stream.append(items(0, 40))
server = StreamServer(secret="a secret")
server.publish("s", 1, stream)
client = ControlClient(sys.argv[1], "a secret", "host-1", lambda m: client.send(b"re:" + m))
client.send(server.address.encode())
time.sleep(60)
"""


def test_a_killed_peer_is_noticed_on_both_connections() -> None:
    address: list[str] = []
    ready, answered, gone = threading.Event(), threading.Event(), threading.Event()
    seen: list[str] = []

    def on_message(peer: str, message: bytes) -> None:
        if message.startswith(b"re:"):
            answered.set()
        else:
            address.append(message.decode())
            ready.set()

    def on_disconnect(peer: str) -> None:
        seen.append(f"-{peer}")
        gone.set()

    control = ControlServer(SECRET, on_message, seen.append, on_disconnect)
    host = subprocess.Popen([sys.executable, "-c", HOST, control.address])
    try:
        assert ready.wait(60)
        control.send("host-1", b"hello")
        assert answered.wait(60)
        reader = RemoteReader(address[0], SECRET, "s", 1, 0)
        assert reader.wait(60)
        host.kill()
        started = time.monotonic()
        assert gone.wait(60)
        noticed_s = time.monotonic() - started
        assert rows_of(receive(reader, 40)) == items(0, 40).to_pylist()
        broken(reader)
        assert noticed_s < NOTICE_S
        assert time.monotonic() - started < 2 * NOTICE_S
        assert seen == ["host-1", "-host-1"]
        with pytest.raises(DisconnectedError):
            control.send("host-1", b"anybody?")
        reader.close()
    finally:
        host.kill()
        host.wait()
        control.close()


def test_control_messages_in_both_directions_and_goodbye() -> None:
    got: list[bytes] = []
    all_there, gone = threading.Event(), threading.Event()

    def on_answer(message: bytes) -> None:
        got.append(message)
        if len(got) == 200:
            all_there.set()

    server: ControlServer
    server = ControlServer(SECRET, lambda peer, message: server.send(peer, message[::-1]))
    client = ControlClient(server.address, SECRET, "p", on_answer, gone.set)
    for i in range(200):
        client.send(b"%03d" % i)
    assert all_there.wait(60)
    assert got == [(b"%03d" % i)[::-1] for i in range(200)]
    server.close()
    assert gone.wait(60)
    with pytest.raises(DisconnectedError):
        client.send(b"x")
    client.close()


def test_control_needs_the_secret_and_a_server() -> None:
    server = ControlServer(SECRET, lambda peer, message: None)
    with pytest.raises(UnauthorizedError):
        ControlClient(server.address, "wrong", "p", lambda message: None)
    server.close()
    with pytest.raises(OperatingError):
        ControlClient("grpc://127.0.0.1:1", SECRET, "p", lambda message: None)


class Mute(flight.FlightServerBase):  # type: ignore[misc]
    """Accepts calls and never answers."""

    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.is_over = threading.Event()

    def do_exchange(
        self, context: object, descriptor: object, reader: object, writer: object
    ) -> None:
        self.is_over.wait(60)


def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rstream.transport.flight, "HELLO_WAIT_S", 0.05)
    mute = Mute()
    with pytest.raises(OperatingError):
        ControlClient(f"grpc://127.0.0.1:{mute.port}", SECRET, "p", lambda message: None)
    mute.is_over.set()
    mute.shutdown()


def test_a_server_without_a_secret_does_not_start() -> None:
    with pytest.raises(UsageError, match="needs a secret"):
        StreamServer()


def write_certificate(folder: Path) -> None:
    """A self-signed certificate for 127.0.0.1, its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name)
    builder = builder.public_key(key.public_key()).serial_number(1)
    builder = builder.not_valid_before(now - dt.timedelta(days=1))
    builder = builder.not_valid_after(now + dt.timedelta(days=1))
    builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    (folder / "cert.pem").write_bytes(certificate)
    (folder / "ca.pem").write_bytes(certificate)
    plain = serialization.NoEncryption()
    encoded = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    (folder / "key.pem").write_bytes(key.private_bytes(*encoded))


def test_a_server_with_tls_rejects_a_plain_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: RStream
) -> None:
    write_certificate(tmp_path)
    monkeypatch.setenv(TLS_FOLDER, str(tmp_path))
    server = StreamServer(secret=SECRET)
    assert server.address.startswith("grpc+tls://")
    server.publish("s", 1, stream)
    stream.append(items(0, 20))
    reader = RemoteReader(server.address, SECRET, "s", 1, 0)
    assert rows_of(receive(reader, 20)) == items(0, 20).to_pylist()
    reader.close()
    plain = RemoteReader(server.address.replace("+tls", ""), SECRET, "s", 1, 0)
    assert broken(plain)
    plain.close()
    server.close()

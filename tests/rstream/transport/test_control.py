"""The control protocol without a network: frames through queues."""

from __future__ import annotations

import threading
import time
from queue import Queue

import pytest

import rstream.transport.control
from rstream.transport.control import DisconnectedError, Hub, Link
from rstream.transport.frame_order import InOrder, Numbered

WAIT_S = 120.0


class Wire:
    """One direction of a connection; ``None`` is its end."""

    def __init__(self) -> None:
        self.frames: Queue[bytes | None] = Queue()

    def write(self, frame: bytes) -> None:
        self.frames.put(frame)

    def read(self) -> bytes:
        frame = self.frames.get(timeout=WAIT_S)
        if frame is None:
            raise ConnectionError("end")
        return frame


def test_messages_arrive_in_order_then_goodbye() -> None:
    wire = Wire()
    got: list[bytes] = []
    sender = Link(wire.write, "a", lambda: None)
    for i in range(100):
        assert sender.put(b"%d" % i)
    assert sender.put(b"")
    sender.close()
    assert not sender.put(b"late")
    receiver = Link(lambda frame: None, "b", lambda: None)
    receiver.receive(wire.read, got.append)
    receiver.close()
    assert got == [*(b"%d" % i for i in range(100)), b""]


def test_a_copy_is_ignored_and_a_gap_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    numbered, wire = Numbered(), Wire()
    frames = [numbered.frame(b"\1" + b"%d" % i) for i in range(4)]
    for i in (0, 1, 0, 1, 3, 2):
        wire.write(frames[i])
    got: list[bytes] = []
    receiver = Link(lambda frame: None, "b", lambda: None)
    receiver.receive(wire.read, got.append)
    receiver.close()
    assert got == [b"0", b"1"]
    assert wire.frames.qsize() == 1
    assert "message of b is missing" in caplog.text


def test_a_loss_is_noticed_at_the_next_heartbeat() -> None:
    wire, lost = Wire(), threading.Event()

    def loses_messages(frame: bytes) -> None:
        if b"lost" in frame:
            lost.set()
        else:
            wire.write(frame)

    got: list[bytes] = []
    sender = Link(loses_messages, "a", lambda: None, heartbeat_s=0.01)
    assert sender.put(b"kept")
    assert sender.put(b"lost")
    assert lost.wait(WAIT_S)
    receiver = Link(lambda frame: None, "b", lambda: None)
    receiver.receive(wire.read, got.append)
    assert got == [b"kept"]
    sender.close()
    receiver.close()


def test_a_hanging_peer_is_reported_once() -> None:
    silent = threading.Event()
    calls: list[int] = []

    def on_silent() -> None:
        calls.append(1)
        silent.set()

    link = Link(lambda frame: None, "a", on_silent, heartbeat_s=0.01, silence_s=0.03)
    assert silent.wait(WAIT_S)
    assert link.is_closed
    link.close()
    assert calls == [1]


def test_a_hanging_peer_is_noticed_while_a_write_to_it_blocks() -> None:
    released, calls = threading.Event(), Queue[int]()

    def blocks(frame: bytes) -> None:
        released.wait(WAIT_S)

    link = Link(blocks, "a", lambda: calls.put(1), heartbeat_s=0.01, silence_s=0.05)
    threading.Event().wait(0.1)  # longer than the silence limit
    assert not link.put(b"x")
    assert not link.put(b"x")
    released.set()
    link.close()
    assert calls.qsize() == 1


def test_nothing_is_written_after_a_connection_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The transport then frees the call, so a later write would access freed memory."""
    monkeypatch.setattr(rstream.transport.control, "JOIN_WAIT_S", 0.05)
    writing, go_on, served, disconnected = (threading.Event() for _ in range(4))
    written: list[bool] = []

    def write(frame: bytes) -> None:
        writing.set()
        go_on.wait(WAIT_S)
        written.append(served.is_set())

    def serve() -> None:
        hub.serve("a", write, read)
        served.set()

    def read() -> bytes:
        assert writing.wait(WAIT_S)
        raise ConnectionError("end")

    hub = Hub(lambda *_: None, lambda _: None, lambda _: disconnected.set())
    server = threading.Thread(target=serve)
    server.start()
    assert writing.wait(WAIT_S)
    assert disconnected.wait(WAIT_S), "the loss is reported though a write is blocked"
    assert not served.is_set()
    go_on.set()
    server.join(WAIT_S)
    assert served.is_set()
    assert set(written) == {False}, "each frame was written before the call was served"


def test_a_broken_transport_closes_the_link() -> None:
    def broken(frame: bytes) -> None:
        raise OSError("broken")

    link = Link(broken, "a", lambda: None)
    link._thread.join(WAIT_S)
    assert not link.put(b"x")
    link.close()


def test_hub_reports_only_the_newest_link_of_a_peer() -> None:
    seen: list[tuple[str, object]] = []
    hub = Hub(
        lambda peer, message: seen.append((peer, message)),
        lambda peer: seen.append((peer, "on")),
        lambda peer: seen.append((peer, "off")),
    )
    wires, threads = [], []
    outs = [Wire(), Wire()]
    for k, out in enumerate(outs):
        wire = Wire()
        wire.write(Numbered().frame(b"\1" + b"hello%d" % k))
        thread = threading.Thread(target=hub.serve, args=("p", out.write, wire.read))
        thread.start()
        deadline_s = time.monotonic() + WAIT_S
        while ("p", b"hello%d" % k) not in seen:
            assert time.monotonic() < deadline_s, seen
            threading.Event().wait(0.001)
        wires.append(wire)
        threads.append(thread)
    said, last = InOrder(), b""
    while last != b"\2":  # the replaced one is notified, though it stays
        last = said.open(outs[0].read())[1]
    wires[0].frames.put(None)
    threads[0].join(WAIT_S)
    assert hub.peers == ["p"]
    hub.send("p", b"x")
    wires[1].frames.put(None)
    threads[1].join(WAIT_S)
    assert hub.peers == []
    with pytest.raises(DisconnectedError, match="p"):
        hub.send("p", b"x")
    expected = [("p", "on"), ("p", b"hello0"), ("p", "on"), ("p", b"hello1"), ("p", "off")]
    assert seen == expected


def test_a_peer_that_connects_to_a_closed_hub_gets_a_goodbye_and_is_not_reported() -> None:
    """Otherwise a host that starts while its job manager closes would wait for ever."""
    events: list[str] = []
    hub = Hub(lambda *_: events.append("message"), events.append, events.append)
    hub.close()
    out = Wire()

    def read() -> bytes:
        raise AssertionError("nothing is read from a peer that came too late")

    hub.serve("late", out.write, read)
    received = InOrder()
    frames = [received.open(out.read())[1] for _ in range(2)]
    assert frames == [b"\0", b"\2"]
    assert not hub.peers
    assert not events


def test_slow_peer_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rstream.transport.control, "OUTBOX_MESSAGES_MAX", 2)
    stuck, gate = threading.Event(), threading.Event()

    def write(frame: bytes) -> None:
        stuck.set()
        gate.wait(WAIT_S)

    link = Link(write, "a", lambda: None)
    assert stuck.wait(WAIT_S)
    assert [link.put(b"x") for _ in range(4)] == [True, True, False, False]
    assert link.is_closed
    gate.set()
    link.close()

"""Flight calls: their number, which are silent, and that their connections can be ended.

Not covered: a peer address in another gRPC format (a proxy's, a Unix socket's).
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import resource
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from jobmanager.intake import flight_calls
from jobmanager.intake.errors import OverloadedError
from jobmanager.intake.flight_calls import OpenCalls, address_of, disconnect
from rstream import ManualClock
from rstream.errors import AppenderClosedError

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(eq=False)
class StandIn:
    """A call whose time of last activity the test sets."""

    active_s: float = 0.0
    is_drained: bool = False

    def drain(self, wait_s: float) -> None:
        self.is_drained = True


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:127.0.0.1:5", ("127.0.0.1", 5)),
        ("ipv6:%5B::1%5D:5", ("::1", 5)),
        ("ipv6:[::ffff:10.0.0.1]:5", ("10.0.0.1", 5)),
        ("ipv6:%5Bfe80::1%25eth0%5D:5", ("fe80::1", 5)),
        ("unix:", None),
        ("unix:/tmp/s", None),
        ("", None),
    ],
)
def test_peer_addresses_are_parsed_as_grpc_writes_them(
    peer: str, address: tuple[str, int] | None
) -> None:
    assert address_of(peer) == address


def test_a_caller_is_silent_if_all_of_its_calls_are() -> None:
    clock = ManualClock()
    calls = OpenCalls(3, 10, clock=clock)
    a, b, c = StandIn(), StandIn(), StandIn()
    with (
        calls.open(a, "ipv4:127.0.0.1:1"),
        calls.open(b, "ipv4:127.0.0.1:1"),
        calls.open(c, "ipv4:127.0.0.1:2"),
    ):
        with pytest.raises(OverloadedError, match="calls of Flight: at most 3"):
            calls.open(StandIn(), "").__enter__()
        assert not calls.silent()
        clock.advance(10_000_000)
        b.active_s = 1
        assert calls.silent() == {("127.0.0.1", 2)}
        b.active_s = 0
        assert calls.silent() == {("127.0.0.1", 1), ("127.0.0.1", 2)}
    assert not calls.silent()


def test_a_stopping_server_completes_calls_and_accepts_no_more() -> None:
    calls = OpenCalls(3, 10)
    call = StandIn()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        calls.watch(port)
        with calls.open(call, "ipv4:127.0.0.1:1"):
            calls.close(5)
            assert call.is_drained
            with pytest.raises(AppenderClosedError, match=f"port {port}"):
                calls.open(StandIn(), "").__enter__()


def test_only_the_intended_connections_are_ended() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as first,
        server.accept()[0] as to_first,
        socket.create_connection(server.getsockname()) as second,
        server.accept()[0] as to_second,
    ):
        port = server.getsockname()[1]
        disconnect(port + 1, None)
        disconnect(port, {first.getsockname()})
        assert first.recv(1) == b""
        to_second.sendall(b"x")
        assert second.recv(1) == b"x"
        disconnect(port, None)
        assert second.recv(1) == b""
        assert to_first.fileno() >= 0


def test_sockets_of_other_kinds_are_ignored() -> None:
    """Sockets of other kinds are skipped, such as one that queries the process's addresses.

    Its peer is a pair of numbers.
    """
    a, b = socket.socketpair()
    with a, b, socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        disconnect(port, {("127.0.0.1", 1)})
        if hasattr(socket, "AF_NETLINK"):
            with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW) as asking:
                asking.bind((0, 0))
                disconnect(port, {("127.0.0.1", 1)})
        a.sendall(b"x")
        assert b.recv(1) == b"x"


@contextlib.contextmanager
def no_files_left() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(map(int, os.listdir("/dev/fd"))) + 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    files: list[int] = []
    try:
        with contextlib.suppress(OSError):
            while True:  # ends: no more files can be opened
                files.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


class Told(logging.Handler):
    """Signals that something was logged."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.set()


@pytest.mark.slow
def test_a_process_out_of_file_descriptors_ends_silent_calls_later() -> None:
    """A process without free file descriptors ends silent calls as soon as it gets some."""
    process = multiprocessing.get_context("spawn").Process(target=_without_files_left)
    process.start()
    process.join(240)
    process.kill()
    assert process.exitcode == 0


def _without_files_left() -> None:
    calls, told = OpenCalls(3, 0.01), Told()
    log = logging.getLogger(flight_calls.__name__)
    log.addHandler(told)
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname(), 10) as silent,
            server.accept()[0],
            calls.open(StandIn(-1e9), f"ipv4:127.0.0.1:{silent.getsockname()[1]}"),
        ):
            with no_files_left():
                calls.watch(server.getsockname()[1])
                assert told.seen.wait(120)
            assert silent.recv(1) == b""
        calls.close(0)
    finally:
        log.removeHandler(told)

"""Open Flight calls: limits their number, and ends silent ones.

A thread that reads the next batch of a call waits in gRPC as long as the producer is silent, and
pyarrow's server can neither limit nor interrupt that wait. Closing the connection ends it. So this
module finds the sockets of a producer among the open files of this process, and shuts them down.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import socket
import threading
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote

from jobmanager.intake.errors import OverloadedError
from rstream.clock import Clock, SystemClock
from rstream.errors import AppenderClosedError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The folder with the open files of the process that reads it, on Linux and macOS.
_OWN_FILES = "/dev/fd"
#: The number of checks for silent calls per ``flight_silence_s``.
_LOOKS = 10
_INTERNET = (socket.AF_INET, socket.AF_INET6)
_log = logging.getLogger(__name__)

Address = tuple[str, int]


class Call(Protocol):
    """A call that may become silent."""

    @property
    def active_s(self) -> float:
        """Return the time of the last message in either direction, s of the monotonic clock."""

    def drain(self, wait_s: float) -> None:
        """Wait until all accepted batches are answered, at most ``wait_s`` seconds."""


class OpenCalls:
    """The open calls of one server, by the address of the caller."""

    def __init__(self, most: int, silence_s: float, *, clock: Clock | None = None) -> None:
        self._most, self._silence_s = most, silence_s
        self._clock = clock or SystemClock()
        self._lock, self._closed = threading.Lock(), threading.Event()
        self._calls: dict[Call, Address | None] = {}

    def watch(self, port: int) -> None:
        """Start a thread that ends silent calls to this port until :meth:`close`."""
        self._port = port
        threading.Thread(target=self._watch, name="flight-silence", daemon=True).start()

    @contextlib.contextmanager
    def open(self, call: Call, peer: str) -> Iterator[None]:
        """Count a call until the block ends; ``peer`` as gRPC writes it.

        Raises:
            OverloadedError: too many calls are open.
            AppenderClosedError: the server is about to stop.
        """
        with self._lock:
            if self._closed.is_set():
                raise AppenderClosedError(f"port {self._port}")
            if len(self._calls) >= self._most:
                raise OverloadedError("calls of Flight", self._most)
            self._calls[call] = address_of(peer)
        try:
            yield
        finally:
            with self._lock:
                del self._calls[call]

    def silent(self) -> set[Address]:
        """Return the addresses of callers that are silent in all their calls."""
        since_s = self._clock.monotonic_s() - self._silence_s
        with self._lock:
            calls = list(self._calls.items())
        active = {peer for call, peer in calls if call.active_s > since_s}
        return {peer for _, peer in calls if peer is not None and peer not in active}

    def close(self, wait_s: float) -> None:
        """Wait for the answers of accepted batches, at most ``wait_s`` seconds.

        Then end all calls.
        """
        end_s = self._clock.monotonic_s() + wait_s
        with self._lock:
            self._closed.set()
            calls = list(self._calls)
        for call in calls:
            call.drain(max(0.0, end_s - self._clock.monotonic_s()))
        self._disconnect(None)

    def _watch(self) -> None:
        """End silent calls until :meth:`close`. This is the body of the thread."""
        while not self._closed.wait(self._silence_s / _LOOKS):
            if silent := self.silent():
                self._disconnect(silent)

    def _disconnect(self, peers: set[Address] | None) -> None:
        """Close the connections of these peers. After a failure, the next round tries again."""
        try:
            disconnect(self._port, peers)
        except OSError as error:
            _log.warning("connections stay open", extra={"reason": str(error)})


def address_of(peer: str) -> Address | None:
    """Parse the address that gRPC writes as ``ipv4:1.2.3.4:5`` or ``ipv6:%5B::1%5D:5``."""
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    try:
        return _plain(host.strip("[]")), int(port)
    except ValueError:
        return None


def disconnect(port: int, peers: set[Address] | None) -> None:
    """Shut down this process's connections from ``peers`` to its ``port``; None: from all peers.

    Raises:
        OSError: the files of this process cannot be listed.
    """
    for name in os.listdir(_OWN_FILES):
        # The file was closed meanwhile, or is not a socket.
        with contextlib.suppress(OSError, ValueError):
            copy = os.dup(int(name))
            try:
                line = socket.socket(fileno=copy)
            except OSError:
                os.close(copy)
                continue
            with line:
                if line.family not in _INTERNET:
                    continue
                host, peer_port = line.getpeername()[:2]
                is_meant = peers is None or (_plain(host), peer_port) in peers
                if is_meant and line.getsockname()[1] == port:
                    line.shutdown(socket.SHUT_RDWR)


def _plain(host: str) -> str:
    """Return an IPv4 address in IPv4 notation even if a dual-stack socket gives it as IPv6."""
    address = ipaddress.ip_address(host.partition("%")[0])
    inner = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(inner or address)

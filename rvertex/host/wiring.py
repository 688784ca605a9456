"""Wiring: connects a host to its clock, threads, job manager, other hosts and stores.

:class:`FlightWiring` is the production implementation. The simulation uses another one, in which a
seeded scheduler controls time, messages and storage. The code of the host is the same with both.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rstream import ThreadBackground, open_store
from rstream.clock import SystemClock
from rstream.transport.flight import CLOSE_WAIT_S, ControlClient, RemoteReader, StreamServer
from rvertex.sources.logs.opening import open_log

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rstream import RStream, StreamReader
    from rstream.clock import Clock
    from rstream.items.batch import Items
    from rstream.log.background import Background
    from rstream.store.protocol import BlobStore
    from rstream.transport.receive import RemoteStream
    from rvertex.sources.logs.protocol import LogReader
    from rvertex.sources.spec import SourcePartition

BACKGROUND_THREADS = 2


class ControlLink(Protocol):
    """A host's connection to the job manager."""

    def send(self, message: bytes) -> None:
        """Queue a message. Raises OperatingError if the connection is broken."""

    def close(self) -> None:
        """End the connection once all queued messages are sent."""


class StreamService(Protocol):
    """Serves this host's streams to readers on other hosts."""

    @property
    def address(self) -> str:
        """Return the address at which readers reach the service."""

    def publish(self, stream_id: str, epoch: int, stream: RStream) -> None:
        """Let readers on other hosts open this stream."""

    def withdraw(self, stream_id: str, epoch: int) -> None:
        """End all reads of this stream and refuse new ones."""

    def close(self) -> None:
        """Stop serving all streams."""


@runtime_checkable
class DistantReader(Protocol):
    """A StreamReader over a connection, which may break."""

    @property
    def is_broken(self) -> bool:
        """Return whether the connection broke, so that no more items will be received."""

    @property
    def failure(self) -> BaseException | None:
        """Return why the connection broke."""

    def read_received(self, max_items: int) -> Items | None:
        """Return items that were received earlier; None if all were read."""


class Wiring(Protocol):
    """Everything that a host needs from its environment."""

    clock: Clock
    background: Background

    def open_store(self, uri: str) -> BlobStore:
        """Return the store at ``uri``."""

    def serve(self, bind: str, secret: str) -> StreamService:
        """Start serving streams."""

    def connect(
        self,
        address: str,
        secret: str,
        peer: str,
        on_message: Callable[[bytes], None],
        on_disconnect: Callable[[], None],
    ) -> ControlLink:
        """Open the connection to the job manager."""

    def read_remote(
        self,
        stream: RemoteStream,
        seq: int,
        store: BlobStore,
        on_change: Callable[[], None],
        *,
        durable_first: bool,
    ) -> StreamReader:
        """Open a reader of a stream on another host; it is also a DistantReader.

        With ``durable_first``, durable items are read from ``store``.
        """

    def open_log(
        self, source: SourcePartition, positions: Sequence[int], wake: Callable[[], None]
    ) -> LogReader:
        """Return a reader of a source's live log that starts at ``positions``."""

    def close(self) -> None:
        """Close everything that this wiring has opened."""


class FlightWiring:
    """The production wiring: threads, the system clock, fsspec stores, Unix sockets and Flight."""

    def __init__(self, name: str) -> None:
        self.clock: Clock = SystemClock()
        self.background: Background = ThreadBackground(f"{name}-io", BACKGROUND_THREADS)
        self._readers: weakref.WeakSet[RemoteReader] = weakref.WeakSet()

    def open_store(self, uri: str) -> BlobStore:
        """Implement Wiring."""
        return open_store(uri)

    def serve(self, bind: str, secret: str) -> StreamService:
        """Implement Wiring."""
        return StreamServer(bind, secret, beside=True)

    def connect(
        self,
        address: str,
        secret: str,
        peer: str,
        on_message: Callable[[bytes], None],
        on_disconnect: Callable[[], None],
    ) -> ControlLink:
        """Implement Wiring."""
        return ControlClient(address, secret, peer, on_message, on_disconnect)

    def read_remote(
        self,
        stream: RemoteStream,
        seq: int,
        store: BlobStore,
        on_change: Callable[[], None],
        *,
        durable_first: bool,
    ) -> StreamReader:
        """Implement Wiring."""
        reader = RemoteReader(
            *stream, seq, store=store, on_change=on_change, durable_first=durable_first
        )
        self._readers.add(reader)
        return reader

    def open_log(
        self, source: SourcePartition, positions: Sequence[int], wake: Callable[[], None]
    ) -> LogReader:
        """Implement Wiring."""
        return open_log(source, positions, self.clock, wake, self.background)

    def close(self) -> None:
        """Implement Wiring. Closes the readers; their threads must end before the process may."""
        deadline_s = self.clock.monotonic_s() + CLOSE_WAIT_S
        for reader in list(self._readers):
            reader.join(max(0.0, deadline_s - self.clock.monotonic_s()))
        self.background.close()

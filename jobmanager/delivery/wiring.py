"""Wiring: connects deliveries to their clock, threads, stores, writers and destinations.

:class:`ThreadWiring` is the real one. The simulation gives deliveries another wiring, in which time
and whatever can fail belong to a seeded scheduler; a delivery cannot tell.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from rstream import open_store
from rstream.clock import SystemClock
from rstream.transport.flight import RemoteReader
from rvertex.sinks.spec import destination

if TYPE_CHECKING:
    from collections.abc import Callable

    from rstream.clock import Clock
    from rstream.store.protocol import BlobStore
    from rstream.transport.receive import PushedReader
    from rvertex.sinks.protocol import Destination
    from rvertex.sinks.spec import DeliveryPlace, SinkSpec


class Signal(Protocol):
    """What a thread waits for; a ``threading.Event`` is one."""

    def set(self) -> None:
        """Wake who waits, or will; from any thread."""

    def clear(self) -> None:
        """Forget what was set before."""

    def wait(self, timeout: float) -> object:
        """Wait until it is set, at most ``timeout`` seconds."""


class Task(Protocol):
    """A body that runs on a thread of its own; a ``threading.Thread`` is one."""

    def join(self, timeout: float) -> None:
        """Wait until the body has ended, at most ``timeout`` seconds."""

    def is_alive(self) -> bool:
        """Whether the body has not ended."""


class DeliveryWiring(Protocol):
    """Everything deliveries ask of their surroundings."""

    clock: Clock

    def signal(self) -> Signal:
        """A signal that is not set."""

    def start(self, name: str, body: Callable[[], None]) -> Task:
        """Run ``body`` on a thread of its own."""

    def open_store(self, uri: str) -> BlobStore:
        """The store at ``uri``."""

    def read_remote(
        self,
        address: str,
        secret: str,
        stream_id: str,
        epoch: int,
        seq: int,
        store: BlobStore,
        on_change: Callable[[], None],
    ) -> PushedReader:
        """A reader of a stream in the memory of a host, and of what is durable in ``store``."""

    def destination(self, spec: SinkSpec, place: DeliveryPlace) -> Destination:
        """The destination of one partition, not yet opened."""


class ThreadWiring:
    """Threads, the system clock, fsspec, streams of hosts, the destinations there are."""

    def __init__(self) -> None:
        self.clock: Clock = SystemClock()

    def signal(self) -> Signal:
        """See DeliveryWiring."""
        return threading.Event()

    def start(self, name: str, body: Callable[[], None]) -> Task:
        """See DeliveryWiring."""
        thread = threading.Thread(target=body, name=name, daemon=True)
        thread.start()
        return thread

    def open_store(self, uri: str) -> BlobStore:
        """See DeliveryWiring."""
        return open_store(uri)

    def read_remote(
        self,
        address: str,
        secret: str,
        stream_id: str,
        epoch: int,
        seq: int,
        store: BlobStore,
        on_change: Callable[[], None],
    ) -> PushedReader:
        """See DeliveryWiring."""
        return RemoteReader(
            address, secret, stream_id, epoch, seq, store=store, on_change=on_change
        )

    def destination(self, spec: SinkSpec, place: DeliveryPlace) -> Destination:
        """See DeliveryWiring."""
        return destination(spec, place)

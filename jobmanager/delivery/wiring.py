"""Wiring: connects deliveries to their clock, threads, stores, writers and destinations.

:class:`ThreadWiring` is the production implementation. The simulation uses another one, in which a
seeded scheduler controls time and failures. The code of deliveries is the same with both.
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
    from rstream.transport.receive import PushedReader, RemoteStream
    from rvertex.sinks.protocol import Destination
    from rvertex.sinks.spec import DeliveryPlace, SinkSpec


class Signal(Protocol):
    """A flag that a thread can wait for, such as a ``threading.Event``."""

    def set(self) -> None:
        """Set the flag, so that present and later waits return. Safe from any thread."""

    def clear(self) -> None:
        """Reset the flag."""

    def wait(self, timeout: float) -> object:
        """Wait until the flag is set, at most ``timeout`` seconds."""


class Task(Protocol):
    """A function that runs on its own thread, such as a ``threading.Thread``."""

    def join(self, timeout: float) -> None:
        """Wait until the body has ended, at most ``timeout`` seconds."""

    def is_alive(self) -> bool:
        """Return whether the thread still runs."""


class DeliveryWiring(Protocol):
    """Everything that deliveries need from their environment."""

    clock: Clock

    def signal(self) -> Signal:
        """Return a new signal that is not set."""

    def start(self, name: str, body: Callable[[], None]) -> Task:
        """Run ``body`` on a new thread."""

    def open_store(self, uri: str) -> BlobStore:
        """Return the store at ``uri``."""

    def read_remote(
        self, stream: RemoteStream, seq: int, store: BlobStore, on_change: Callable[[], None]
    ) -> PushedReader:
        """Return a reader of a stream: from a host's memory, or of durable items from ``store``."""

    def destination(self, spec: SinkSpec, place: DeliveryPlace) -> Destination:
        """Return the destination of one partition, not yet opened."""


class ThreadWiring:
    """The production wiring: threads, the system clock, fsspec stores, hosts, destinations."""

    signal = staticmethod(threading.Event)
    open_store = staticmethod(open_store)
    destination = staticmethod(destination)

    def __init__(self) -> None:
        self.clock: Clock = SystemClock()

    def start(self, name: str, body: Callable[[], None]) -> Task:
        """Implement DeliveryWiring."""
        thread = threading.Thread(target=body, name=name, daemon=True)
        thread.start()
        return thread

    def read_remote(
        self, stream: RemoteStream, seq: int, store: BlobStore, on_change: Callable[[], None]
    ) -> PushedReader:
        """Implement DeliveryWiring."""
        return RemoteReader(*stream, seq, store=store, on_change=on_change)

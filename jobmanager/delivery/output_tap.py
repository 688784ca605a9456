"""Taps: readers of one output stream, at the host that writes it now or from its files.

A tap reads the stream from the memory of the writing host, over the same connections as a vertex.
It reads Parquet if that memory no longer has the items, or if the stream has no writer. The driver
reports the addresses of hosts through :class:`Endpoints`.

Invariants: (1) items arrive in order of seq, without gaps or repeats, even if the writing process
is replaced: a new reader starts at the next seq, and recomputed items are equal; (2) a slow reader
does not block the job: its buffers are bounded, and items beyond them are read from Parquet.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rstream import open_reader
from rstream.errors import OutputCollectedError, SequenceDiscardedError, SequenceLostError
from rstream.items.batch import CTI, VS, kinds
from rstream.log.durable import DurableLog
from rstream.transport.receive import PushedReader, RemoteStream
from rstream.types import INF_TIME

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobmanager.delivery.wiring import DeliveryWiring
    from rstream import Items, StreamReader
    from rstream.store.protocol import BlobStore
    from rvertex.messages import Locate

READ_ITEMS_MAX = 1 << 16
#: Seconds between two checks of a reader for the end of the job, if no signal wakes it earlier.
LOOK_INTERVAL_S = 0.25
#: Least seconds between two attempts to connect to the same instance.
RECONNECT_S = 0.1


@dataclass(frozen=True, slots=True)
class Writers:
    """The instances that write the streams of a vertex now. None: all items are durable."""

    #: Increases with each change of the endpoints.
    version: int
    #: Epoch and address of each instance.
    endpoints: tuple[tuple[int, str], ...]


class Endpoints:
    """Addresses of the writers of all vertices, for readers in this process.

    The driver's thread updates them.
    """

    def __init__(self) -> None:
        self._writers: dict[str, Writers] = {}
        self._listeners: dict[int, Callable[[], None]] = {}
        self._lock = threading.Lock()

    def note(self, location: Locate) -> None:
        """Update the writers of a vertex from an instruction to the hosts.

        Ignore older versions.
        """
        endpoints = tuple((endpoint.epoch, endpoint.address) for endpoint in location.endpoints)
        writers = Writers(location.version, endpoints)
        with self._lock:
            known = self._writers.get(location.vertex)
            if known is not None and (known.version > writers.version or known == writers):
                return
            self._writers[location.vertex] = writers
            listeners = list(self._listeners.values())
        for changed in listeners:
            changed()

    def forget(self) -> None:
        """Forget all versions, because a new job manager counts them from 0."""
        with self._lock:
            self._writers.clear()

    def find(self, vertex: str) -> Writers | None:
        """Return the current writers of the streams of ``vertex``; None before it has started."""
        return self._writers.get(vertex)

    def listen(self, key: int, changed: Callable[[], None] | None) -> None:
        """Call ``changed`` on each update. None removes the callback of ``key``."""
        with self._lock:
            if changed is None:
                self._listeners.pop(key, None)
            else:
                self._listeners[key] = changed


class OutputTap:
    """Reads one sink stream from its current writer, or from Parquet."""

    def __init__(
        self,
        vertex: str,
        stream: str,
        uri: str,
        seq: int,
        endpoints: Endpoints,
        secret: str,
        wake: Callable[[], None],
        wiring: DeliveryWiring,
        on_attach: Callable[[int], int] = int,
    ) -> None:
        """Read from ``seq`` on. ``on_attach``: called with the next seq when a reader is opened.

        It returns the seq at which to start.
        """
        self._vertex, self.stream = vertex, stream
        self._store = wiring.open_store(uri)
        self._endpoints, self._secret, self._wake = endpoints, secret, wake
        self._on_attach = on_attach
        self._wiring, self._clock = wiring, wiring.clock
        self._reader: StreamReader | None = None
        #: The instance from which the reader reads; None: it reads Parquet.
        self._endpoint: tuple[int, str] | None = None
        self._attached_s = 0.0
        self.next_seq = seq
        self.is_over = False

    def seek(self, seq: int) -> None:
        """Continue at ``seq``, which may be before or after the current position."""
        self.close()
        self.next_seq, self.is_over, self._attached_s = seq, False, float("-inf")

    def read(self, has_ended: bool, max_items: int = READ_ITEMS_MAX) -> Items | None:
        """Return the next items; None if there are none now.

        ``has_ended``: the stream has no writer any more.

        Raises:
            OutputCollectedError: retention has deleted the next items.
        """
        if self.is_over:
            return None
        # Ends with items, with an error, or when no reader can be opened
        while (reader := self._current(has_ended)) is not None:
            try:
                items = reader.read_next(max_items)
                break
            except SequenceDiscardedError:  # collected meanwhile: attach again, at a new start
                self.close()
        else:
            return None
        if items is None:
            return None
        self.next_seq = items.next_seq
        if _is_end(items):
            self.is_over = True
            self.close()
        return items

    def close(self) -> None:
        """Release the reader."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _current(self, has_ended: bool) -> StreamReader | None:
        """Return the reader. Open a new reader if its writer has ended or moved."""
        writers = self._endpoints.find(self._vertex)
        if has_ended or (writers is not None and not writers.endpoints):
            if self._reader is None or self._endpoint is not None:
                self._attach(None)
        elif writers is not None and not self._is_good(writers):
            now_s = self._clock.monotonic_s()
            endpoint = self._next_endpoint(writers)
            if endpoint != self._endpoint or now_s - self._attached_s >= RECONNECT_S:
                self._attach(endpoint)
        return self._reader

    def _is_good(self, writers: Writers) -> bool:
        """Return whether to keep the reader.

        A broken reader stays until its received items were read.
        """
        if isinstance(self._reader, PushedReader) and self._reader.is_broken:
            return self._reader.wait(0)
        return self._reader is not None and self._endpoint in writers.endpoints

    def _next_endpoint(self, writers: Writers) -> tuple[int, str]:
        """Return the endpoint after the endpoint that was tried last, or the first endpoint."""
        endpoints = writers.endpoints
        if self._endpoint not in endpoints:
            return endpoints[0]
        return endpoints[(endpoints.index(self._endpoint) + 1) % len(endpoints)]

    def _attach(self, endpoint: tuple[int, str] | None) -> None:
        is_unsure = self._reader is None or isinstance(
            getattr(self._reader, "failure", None), SequenceLostError
        )
        self.close()
        self._endpoint, self._attached_s = endpoint, self._clock.monotonic_s()
        self.next_seq = self._begin(self.next_seq, is_unsure=is_unsure)
        if endpoint is None:
            self._reader = open_reader(self._store, self.next_seq)
            return
        epoch, address = endpoint
        stream = RemoteStream(address, self._secret, self.stream, epoch)
        self._reader = self._wiring.read_remote(stream, self.next_seq, self._store, self._wake)

    def _begin(self, seq: int, *, is_unsure: bool) -> int:
        """Return the seq at which to start. Call ``on_attach`` again if that seq was deleted."""
        begin = self._on_attach(seq)
        while is_unsure and begin < (first_seq := first_kept(self._store)):
            before, begin = begin, self._on_attach(seq)
            if begin == before:
                raise OutputCollectedError(self.stream, seq, first_seq)
        return begin


def first_kept(store: BlobStore) -> int:
    """Return the first remaining seq of a stream for users; 0 if no item was deleted."""
    return DurableLog(store, store.uri).mark


def _is_end(items: Items) -> bool:
    """Return whether these are the last items of a stream: they end with ``CTI(INF_TIME)``."""
    last = items.batch.slice(items.batch.num_rows - 1)
    return int(kinds(last)[0]) == CTI and last.column(VS)[0].as_py() == INF_TIME

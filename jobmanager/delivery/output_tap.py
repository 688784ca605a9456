"""Taps: one stream of an output, read where it is written now.

A tap reads from the memory of the host that writes the stream, over the same connections as a
vertex would, and from Parquet if the memory no longer has the items or nobody writes any more. The
driver tells it the hosts through :class:`Endpoints`.

Invariants: (1) items come in dense sequence, without gap or repeat, whatever happens to the
processes that write them: a new reader is registered at the next seq, and recomputed items are
equal; (2) a slow reader blocks nobody: its buffers are bounded, and beyond them it reads Parquet.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rstream import open_reader
from rstream.errors import OutputCollectedError, SequenceDiscardedError, SequenceLostError
from rstream.items.batch import CTI, VS, kinds
from rstream.log.durable import DurableLog
from rstream.transport.receive import PushedReader
from rstream.types import INF_TIME

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobmanager.delivery.wiring import DeliveryWiring
    from rstream import Items, StreamReader
    from rstream.store.protocol import BlobStore
    from rvertex.messages import Locate

READ_ITEMS_MAX = 1 << 16
#: Without a signal a reader of an output looks this often whether the job has ended.
LOOK_INTERVAL_S = 0.25
#: Least time between two attempts to reach the same instance.
RECONNECT_S = 0.1


@dataclass(frozen=True, slots=True)
class Writers:
    """The instances that write the streams of a vertex, as (epoch, address); none: all durable."""

    version: int
    endpoints: tuple[tuple[int, str], ...]


class Endpoints:
    """Where vertices write, for readers in this process; the driver's thread notes it."""

    def __init__(self) -> None:
        self._writers: dict[str, Writers] = {}
        self._listeners: dict[int, Callable[[], None]] = {}
        self._lock = threading.Lock()

    def note(self, location: Locate) -> None:
        """Take what the hosts are told; older news is ignored."""
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
        """Another job manager begins: its news count from zero."""
        with self._lock:
            self._writers.clear()

    def find(self, vertex: str) -> Writers | None:
        """Who writes the streams of ``vertex`` now; None while it has not started."""
        return self._writers.get(vertex)

    def listen(self, key: int, changed: Callable[[], None] | None) -> None:
        """Have ``changed`` called on news; None takes it back."""
        with self._lock:
            if changed is None:
                self._listeners.pop(key, None)
            else:
                self._listeners[key] = changed


class OutputTap:
    """The reader of one sink stream, attached to where it is written now."""

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
        """``on_attach``: given the next seq whenever it attaches, it says where to begin."""
        self._vertex, self._stream = vertex, stream
        self._store = wiring.open_store(uri)
        self._endpoints, self._secret, self._wake = endpoints, secret, wake
        self._on_attach = on_attach
        self._wiring, self._clock = wiring, wiring.clock
        self._reader: StreamReader | None = None
        #: The instance that the reader is attached to, None for Parquet.
        self._endpoint: tuple[int, str] | None = None
        self._attached_s = 0.0
        self.next_seq = seq
        self.is_over = False

    def seek(self, seq: int) -> None:
        """Go on at ``seq``, which may lie before or after what was read."""
        self.close()
        self.next_seq, self.is_over, self._attached_s = seq, False, float("-inf")

    def read(self, has_ended: bool, max_items: int = READ_ITEMS_MAX) -> Items | None:
        """The next items; None if there are none now. ``has_ended``: nobody writes any more.

        Raises:
            OutputCollectedError: retention has deleted them.
        """
        if self.is_over:
            return None
        while (reader := self._current(has_ended)) is not None:  # ends: above it, or refused
            try:
                items = reader.read_next(max_items)
                break
            except SequenceDiscardedError:  # collected meanwhile: ask anew where to begin
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
        """The reader, attached anew if its writer is gone or has moved."""
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
        """Whether the reader may go on; one that broke first gives what it has received."""
        if isinstance(self._reader, PushedReader) and self._reader.is_broken:
            return self._reader.wait(0)
        return self._reader is not None and self._endpoint in writers.endpoints

    def _next_endpoint(self, writers: Writers) -> tuple[int, str]:
        """The endpoint after the one that was tried, or the first."""
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
        self._reader = self._wiring.read_remote(
            address, self._secret, self._stream, epoch, self.next_seq, self._store, self._wake
        )

    def _begin(self, seq: int, *, is_unsure: bool) -> int:
        """Where to begin to read; asked again if that was collected meanwhile."""
        begin = self._on_attach(seq)
        while is_unsure and begin < (first_seq := first_kept(self._store)):
            before, begin = begin, self._on_attach(seq)
            if begin == before:
                raise OutputCollectedError(self._stream, seq, first_seq)
        return begin


def first_kept(store: BlobStore) -> int:
    """Where a stream begins that users read; 0 if nothing was collected of it."""
    return DurableLog(store, store.uri).mark


def _is_end(items: Items) -> bool:
    """Whether these are the last items of a stream: they end with ``CTI(INF_TIME)``."""
    last = items.batch.slice(items.batch.num_rows - 1)
    return int(kinds(last)[0]) == CTI and last.column(VS)[0].as_py() == INF_TIME

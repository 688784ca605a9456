"""Subscriptions: the output of a job as it becomes visible, before it is durable.

A :class:`Subscription` reads every sink stream from the memory of the host that writes it, over the
same connections as a vertex would, and from Parquet if the memory no longer has the items. The
driver tells it the hosts through :class:`Endpoints`.

Invariants: (1) each partition is delivered in dense sequence, without gap or repeat, whatever
happens to the processes that write it: a new reader is registered at the next seq, and recomputed
items are equal; (2) a slow subscriber blocks nobody: its buffers are bounded, and beyond them it
reads Parquet; (3) it ends with the job. Source: StreamScope NSDI'16, "register".
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa

from rstream import open_reader
from rstream.clock import SystemClock
from rstream.items.batch import CTI, EVENT, KIND, SEQ, VS, kinds
from rstream.transport.flight import RemoteReader
from rstream.types import INF_TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from planner.physical.plan import PhysicalPlan
    from rstream import Items, StreamReader
    from rvertex.messages import Locate

PARTITION = "partition"
READ_ITEMS_MAX = 1 << 16
#: Without a signal a subscription looks this often whether the job has ended.
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


class Subscription:
    """An iterator of the output's batches; close it, or use it in a ``with`` block.

    A batch has the columns ``partition`` int32, ``_seq``, ``_vs``, ``_ve`` and those of the query,
    and is of one partition. With ``progress`` the CTIs come too, told apart by ``_kind``.
    """

    def __init__(
        self,
        plan: PhysicalPlan,
        *,
        endpoints: Endpoints,
        secret: str,
        has_ended: Callable[[], bool],
        raise_failure: Callable[[], object],
        start: Mapping[int, int],
        progress: bool,
    ) -> None:
        self._wake = threading.Event()
        writers = plan.writers()
        self._taps = [
            _Tap(writers[stream], stream, uri, start.get(k, 0), endpoints, secret, self._wake.set)
            for k, (stream, uri) in enumerate(plan.sink_streams())
        ]
        self._endpoints = endpoints
        self._has_ended = has_ended
        self._raise_failure = raise_failure
        self._progress = progress
        self._turn = 0
        endpoints.listen(id(self), self._wake.set)

    @property
    def positions(self) -> dict[int, int]:
        """By partition the next seq; ``start=`` of another subscription that goes on here."""
        return {k: tap.next_seq for k, tap in enumerate(self._taps)}

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        """Wait for the next batch.

        Raises:
            StopIteration: the output is complete, or the job was cancelled.
            JobFailedError: the job failed; what is durable was delivered.
        """
        while not self._is_over():  # ends with the job
            self._wake.clear()
            has_ended = self._has_ended()
            batch = self._next_ready(has_ended)
            if batch is not None:
                return batch
            if has_ended:
                break
            self._wake.wait(LOOK_INTERVAL_S)
        self.close()
        if not self._is_over():
            self._raise_failure()
        raise StopIteration

    def close(self) -> None:
        """Stop reading."""
        self._endpoints.listen(id(self), None)
        for tap in self._taps:
            tap.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _is_over(self) -> bool:
        return all(tap.is_over for tap in self._taps)

    def _next_ready(self, has_ended: bool) -> pa.RecordBatch | None:
        """A batch of the partitions in turn, so that none waits for another."""
        n = len(self._taps)
        for k in ((self._turn + i) % n for i in range(n)):
            while (items := self._taps[k].read(has_ended)) is not None:
                batch = _delivered(k, items, progress=self._progress)
                if batch.num_rows:
                    self._turn = k + 1
                    return batch
        return None


class _Tap:
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
    ) -> None:
        self._vertex, self._stream, self._uri = vertex, stream, uri
        self._endpoints, self._secret, self._wake = endpoints, secret, wake
        self._clock = SystemClock()
        self._reader: StreamReader | None = None
        #: The instance that the reader is attached to, None for Parquet.
        self._endpoint: tuple[int, str] | None = None
        self._attached_s = 0.0
        self.next_seq = seq
        self.is_over = False

    def read(self, has_ended: bool) -> Items | None:
        """The next items; None if there are none now. ``has_ended``: nobody writes any more."""
        if self.is_over:
            return None
        reader = self._current(has_ended)
        if reader is None:
            return None
        items = reader.read_next(READ_ITEMS_MAX)
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
        if isinstance(self._reader, RemoteReader) and self._reader.is_broken:
            return self._reader.wait(0)
        return self._reader is not None and self._endpoint in writers.endpoints

    def _next_endpoint(self, writers: Writers) -> tuple[int, str]:
        """The endpoint after the one that was tried, or the first."""
        endpoints = writers.endpoints
        if self._endpoint not in endpoints:
            return endpoints[0]
        return endpoints[(endpoints.index(self._endpoint) + 1) % len(endpoints)]

    def _attach(self, endpoint: tuple[int, str] | None) -> None:
        self.close()
        self._endpoint, self._attached_s = endpoint, self._clock.monotonic_s()
        if endpoint is None:
            self._reader = open_reader(self._uri, self.next_seq)
            return
        epoch, address = endpoint
        self._reader = RemoteReader(
            address,
            self._secret,
            self._stream,
            epoch,
            self.next_seq,
            store=self._uri,
            on_change=self._wake,
        )


def _is_end(items: Items) -> bool:
    """Whether these are the last items of a stream: they end with ``CTI(INF_TIME)``."""
    last = items.batch.slice(items.batch.num_rows - 1)
    return int(kinds(last)[0]) == CTI and last.column(VS)[0].as_py() == INF_TIME


def _delivered(partition: int, items: Items, *, progress: bool) -> pa.RecordBatch:
    """The items as a subscriber gets them."""
    batch, n = items.batch, items.batch.num_rows
    seq = pa.array(np.arange(items.first_seq, items.next_seq))
    numbered = batch.add_column(0, SEQ, seq)
    numbered = numbered.add_column(0, PARTITION, pa.array(np.full(n, partition, np.int32)))
    if progress:
        return numbered
    is_event = kinds(batch) == EVENT
    events = numbered if is_event.all() else numbered.filter(pa.array(is_event))
    return events.drop_columns([KIND])

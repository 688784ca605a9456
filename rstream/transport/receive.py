"""The receiving side of a remote reader: a queue of batches, durable items, and losses.

Invariants: (1) the queued batches are contiguous; (2) ``put`` blocks while ``bytes >= bytes_max``,
so one batch may exceed the limit; (3) a failure keeps the batches received before it, and nothing
is queued after it.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from rstream.errors import OperatingError, SequenceDiscardedError, SequenceLostError
from rstream.items.batch import Items
from rstream.items.dictionaries import batch_bytes, join_batches
from rstream.log.durable import DurableLog
from rstream.log.reader import READ_ITEMS_MAX, SegmentCursor
from rstream.log.tail import BATCH_OVERHEAD_BYTES, JOIN_ROWS_MAX
from rstream.store.blobs import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from rstream.errors import StreamEngineError
    from rstream.store.protocol import BlobStore

_LOST = "<lost>"


class RemoteStream(NamedTuple):
    """A stream on another host: the address of the host, and the instance that writes it."""

    address: str
    secret: str
    stream_id: str
    epoch: int

    def __repr__(self) -> str:
        """Return the fields without the secret."""
        return f"RemoteStream({self.address!r}, {self.stream_id!r}, {self.epoch})"


class ReceiveQueue:
    """A queue between two threads: one thread puts batches, the other takes them."""

    def __init__(self, bytes_max: int) -> None:
        assert bytes_max > 0, bytes_max
        self._changed = threading.Condition()
        self._queue: deque[Items] = deque()
        self._bytes = 0
        self._bytes_max = bytes_max
        self._failure: StreamEngineError | None = None
        self._is_closed = False

    @property
    def failure(self) -> StreamEngineError | None:
        """The reason why no more batches will arrive."""
        return self._failure

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def put(self, items: Items) -> bool:
        """Queue a batch when there is room. Return False if the queue was closed or has failed."""
        with self._changed:
            self._changed.wait_for(lambda: self._bytes < self._bytes_max or self._is_closed)
            if self._is_closed or self._failure is not None:
                return False
            self._queue.append(items)
            self._bytes += _cost(items)
            self._changed.notify_all()
            return True

    def take(self, items_max: int) -> Items | None:
        """Remove at most ``items_max`` items, joining small batches; None if the queue is empty."""
        if not self._queue:
            return None
        parts: list[Items] = []
        rows = 0
        with self._changed:
            while self._queue and rows < min(items_max, JOIN_ROWS_MAX):
                items = self._queue.popleft()
                self._bytes -= _cost(items)
                taken = items.head(items_max - rows)
                parts.append(taken)
                rows += taken.batch.num_rows
                if taken.next_seq < items.next_seq:
                    rest = items.from_seq(taken.next_seq)
                    self._queue.appendleft(rest)
                    self._bytes += _cost(rest)
            self._changed.notify_all()
        if len(parts) <= 1:
            return parts[0] if parts else None
        return Items(parts[0].first_seq, join_batches([p.batch for p in parts]))

    def wait(self, timeout_s: float) -> bool:
        """Wait for a batch, or until no more will arrive; return whether there is one."""
        with self._changed:
            self._changed.wait_for(
                lambda: bool(self._queue) or self._failure is not None or self._is_closed, timeout_s
            )
            return bool(self._queue)

    def fail(self, error: StreamEngineError) -> None:
        """Accept no more batches. The first reason is kept."""
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    def close(self) -> None:
        """Stop, because the reader takes no more batches."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def check(self) -> None:
        """Assert the invariants."""
        with self._changed:
            assert self._bytes == sum(_cost(i) for i in self._queue)
            for a, b in zip(list(self._queue)[:-1], list(self._queue)[1:], strict=True):
                assert a.next_seq == b.first_seq, (a.next_seq, b.first_seq)


class DurablePart:
    """The durable items of a stream from a seq on, read to their end, and again after a failure."""

    def __init__(self, store: BlobStore | str | None, stream: str, seq: int | None) -> None:
        """Read from ``seq`` on; None: read no items before :meth:`reopen`."""
        self._store, self._stream = store, stream
        self._cursor: SegmentCursor | None = None
        #: Whether a read may return items.
        self.is_open = False
        if seq is not None and store is not None:
            log = self._log(store)
            self._cursor = SegmentCursor(log)
            self.is_open = log.lookup(seq) is not None

    def reopen(self) -> None:
        """Read the folder again after the host has ended, since it may have flushed more items."""
        if self._cursor is None and self._store is not None:
            self._cursor = SegmentCursor(self._log(self._store))
        self.is_open = self._cursor is not None

    def _log(self, store: BlobStore | str) -> DurableLog:
        return DurableLog(open_store(store) if isinstance(store, str) else store, self._stream)

    def read(self, seq: int, items_max: int) -> Items | None:
        """Return items from ``seq`` on; None at the end of the durable items."""
        if self._cursor is None or not self.is_open:
            return None
        items = self._cursor.read(seq, items_max)
        self.is_open = items is not None
        return items

    def close(self) -> None:
        """Close the open file."""
        self.is_open = False
        if self._cursor is not None:
            self._cursor.close()


class PushedReader:
    """A reader of a stream on another host; a StreamReader. Each transport has a subclass.

    The reader first reads the durable items in ``store``; the host pushes the other items. With
    ``durable_first=False`` it reads the store only after the connection breaks. Once
    :attr:`is_broken`, it still serves the received items, then the durable items. After that, the
    caller registers at another host at :attr:`next_seq`.
    """

    def __init__(
        self,
        stream_id: str,
        from_seq: int,
        *,
        store: BlobStore | str | None,
        queue_bytes_max: int,
        on_change: Callable[[], None] | None,
        durable_first: bool = True,
    ) -> None:
        self._stream_id = stream_id
        self._seq = self._pushed_seq = from_seq
        self._queue = ReceiveQueue(queue_bytes_max)
        self._on_change = on_change
        self._durable = DurablePart(store, stream_id, from_seq if durable_first else None)
        self._is_connected = False
        self._is_salvaged = False
        if not self._durable.is_open:
            self._start()

    @property
    def next_seq(self) -> int:
        """The seq of the next item to be returned."""
        return self._seq

    @property
    def is_broken(self) -> bool:
        """Whether the connection is lost, withdrawn or rejected, so that no more items arrive."""
        return self._queue.failure is not None

    @property
    def failure(self) -> StreamEngineError | None:
        """Why the connection broke; SequenceLostError if the host lacks :attr:`next_seq`."""
        return self._queue.failure

    def read_next(self, max_items: int = READ_ITEMS_MAX) -> Items | None:
        """See StreamReader. None once :attr:`is_broken` and all received items were returned."""
        was_broken = self.is_broken
        items = self._queue.take(max_items)
        if items is None and was_broken and not self._is_salvaged:
            self._is_salvaged = True
            self._durable.reopen()
        if items is None:
            items = self._durable.read(self._seq, max_items)
        if items is None and not self._is_connected:
            self._start()
        return self._advanced(items)

    def read_received(self, max_items: int = READ_ITEMS_MAX) -> Items | None:
        """Return received items that were not returned yet; None if there are none."""
        return self._advanced(self._queue.take(max_items))

    def wait(self, timeout_s: float) -> bool:
        """Implement StreamReader."""
        return self._durable.is_open or self._queue.wait(timeout_s)

    def close(self) -> None:
        """Stop receiving."""
        self._queue.close()
        self._durable.close()

    def _connect(self) -> None:
        """Request items from ``next_seq`` on: each goes to ``_take``, the end to ``_break``."""
        raise NotImplementedError

    def _advanced(self, items: Items | None) -> Items | None:
        if items is not None:
            assert items.first_seq == self._seq, (items.first_seq, self._seq)
            self._seq = items.next_seq
        return items

    def _start(self) -> None:
        self._is_connected = True
        self._pushed_seq = self._seq
        self._connect()

    def _take(self, items: Items) -> bool:
        """Queue pushed items; return whether more may arrive.

        Copies are ignored. A gap breaks the connection, and the reader uses another host.
        """
        if items.next_seq <= self._pushed_seq:
            return True
        if items.first_seq != self._pushed_seq:
            where = (
                f"{self._stream_id}: received seq {items.first_seq}, expected seq "
                f"{self._pushed_seq}"
            )
            self._break(OperatingError(where))
            return False
        self._pushed_seq = items.next_seq
        if not self._queue.put(items):
            return False
        self._changed()
        return True

    def _break(self, error: StreamEngineError) -> None:
        if self._queue.failure is None:
            self._queue.fail(error)
            self._changed()

    def _changed(self) -> None:
        if self._on_change is not None and not self._queue.is_closed:
            self._on_change()


def error_to_text(error: StreamEngineError) -> str:
    """Return a text for an error, from which the reader recognises lost items."""
    if isinstance(error, SequenceLostError | SequenceDiscardedError):
        return f"{_LOST} {error.stream} {error.seq} {_LOST}"
    return str(error)


def loss_from_text(text: str) -> SequenceLostError | None:
    """Parse the loss from an error's text; None if the text reports no loss."""
    parts = text.split(_LOST)
    if len(parts) < 3:
        return None
    stream, _, seq = parts[1].strip().rpartition(" ")
    return SequenceLostError(stream, int(seq))


def _cost(items: Items) -> int:
    return batch_bytes(items.batch) + BATCH_OVERHEAD_BYTES

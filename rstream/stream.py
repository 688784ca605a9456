"""RStream: a numbered, replayable log of items; the facade over tail, flusher and segments.

Regions left to right: collected | durable (Parquet) | volatile (memory). Laws: the first write of a
seq wins, later ones are dropped and counted (in verify mode compared); what is read at seq is what
was written there, always the same; a gap, a read below the low-water mark and a read past the end
are three named errors; a full tail blocks the writer and never drops.

Threads: writers are serialised by ``_write_lock``; all state is guarded by ``_state``, under which
there is no I/O. ``on_change`` is called from any thread. Source: StreamScope NSDI'16.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Literal

from rstream.background import Background, ThreadBackground
from rstream.batch import Items, item_schema, validate_items
from rstream.blobs import BlobStore, open_store, remove_temporaries
from rstream.clock import Clock, SystemClock
from rstream.digest import content_hashes
from rstream.durable import DurableLog, SegmentCursor
from rstream.errors import (
    BackPressureError,
    SequenceConflictError,
    SequenceDiscardedError,
    SequenceGapError,
    SequenceNotReadyError,
    StoreError,
    StreamEngineError,
)
from rstream.flush import Flusher
from rstream.limits import StreamLimits
from rstream.reader import LocalReader
from rstream.tail import VolatileTail

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from rstream.reader import StreamReader

Durability = Literal["async", "sync", "volatile"]


class RStream:
    """One stream, opened by (one of) its writers. Make it with :meth:`open`."""

    def __init__(
        self,
        log: DurableLog,
        payload: pa.Schema,
        *,
        stream_id: str,
        next_seq: int,
        first_seq: int,
        durability: Durability,
        limits: StreamLimits,
        background: Background | None,
        clock: Clock,
        verify: bool,
        on_change: Callable[[], None] | None,
    ) -> None:
        self.stream_id = stream_id
        self.payload = payload
        self.schema = item_schema(payload)
        self.durability = durability
        self.limits = limits
        self.duplicates = 0
        self._log = log
        self._tail = VolatileTail(next_seq)
        self._first_seq = first_seq
        self._clock = clock
        self._verify = verify
        self._on_change = on_change
        self._owns_background = background is None
        self._background = background or ThreadBackground("rstream-flush")
        self._state = threading.Condition(threading.RLock())
        self._write_lock = threading.Lock()
        self._flusher = Flusher(
            self._background, self._state, take=self._take, write=log.write, done=self._flushed
        )
        self._force_seq = 0
        self._failure: StreamEngineError | None = None
        self._is_timer_set = False
        self._is_spill_wanted = False
        self._full_since_s: float | None = None
        self._is_closed = False

    @classmethod
    def open(
        cls,
        uri_or_store: str | BlobStore,
        payload: pa.Schema,
        *,
        stream_id: str = "",
        start_seq: int | None = None,
        durability: Durability = "async",
        limits: StreamLimits | None = None,
        background: Background | None = None,
        clock: Clock | None = None,
        verify: bool = False,
        on_change: Callable[[], None] | None = None,
    ) -> RStream:
        """Open the stream in a folder for writing; what a crash left half written is removed.

        ``start_seq`` is where the writer will go on: None continues at the durable end; below the
        durable end, what is written again is dropped as a duplicate.

        Raises:
            SequenceGapError: ``start_seq`` is past the durable end and the stream is not volatile.
            CorruptSegmentError: the last segment is damaged.
            InvalidBatchError: the folder holds items of another payload.
        """
        store = open_store(uri_or_store) if isinstance(uri_or_store, str) else uri_or_store
        stream_id = stream_id or store.uri
        remove_temporaries(store)
        log = DurableLog(store, stream_id)
        log.check_schema(item_schema(payload))
        next_seq = log.end()
        if start_seq is not None and (start_seq > next_seq or durability == "volatile"):
            if durability != "volatile":
                raise SequenceGapError(stream_id, start_seq, next_seq)
            next_seq = log.contiguous_end(start_seq)
        first_seq = log.mark if durability == "volatile" else max(log.mark, log.first_seq or 0)
        return cls(
            log,
            payload,
            stream_id=stream_id,
            next_seq=next_seq,
            first_seq=first_seq,
            durability=durability,
            limits=limits or StreamLimits(),
            background=background,
            clock=clock or SystemClock(),
            verify=verify,
            on_change=on_change,
        )

    @property
    def first_seq(self) -> int:
        """The low-water mark: nothing below it can be read."""
        return self._first_seq

    @property
    def durable_seq(self) -> int:
        """The end of what survives this process (of a volatile stream: or is not needed)."""
        return self._tail.durable_seq

    @property
    def next_seq(self) -> int:
        """The next seq to write."""
        return self._tail.next_seq

    @property
    def tail_bytes(self) -> int:
        return self._tail.bytes

    @property
    def tail_first_seq(self) -> int:
        """The first seq that is in memory."""
        return self._tail.first_seq

    def append(self, batch: pa.RecordBatch) -> int:
        """Write at the end."""
        return self.write(self.next_seq, batch)

    def write(self, seq: int, batch: pa.RecordBatch) -> int:
        """Write items from ``seq`` on; returns how many were new.

        Items that are there already are dropped and counted. Blocks while the tail is full.

        Raises:
            SequenceGapError: ``seq > next_seq``.
            InvalidBatchError: the batch is not one of this stream's items.
            BackPressureError: no room within ``limits.write_wait_s``.
            SequenceConflictError: (verify mode) a dropped item differs from what is there.
            StoreError: an earlier flush failed (it is tried again), or this sync write did.
        """
        validate_items(self.stream_id, batch, self.schema)
        with self._write_lock:
            self._raise_failure()
            next_seq = self._tail.next_seq
            if seq > next_seq:
                raise SequenceGapError(self.stream_id, seq, next_seq)
            repeated = min(next_seq - seq, batch.num_rows)
            if repeated:
                self._drop_repeated(seq, batch.slice(0, repeated))
                batch = batch.slice(repeated)
            if batch.num_rows == 0:
                return 0
            if self.durability == "sync":
                self._log.write(Items(next_seq, batch))
            else:
                self._wait_for_room()
            self._append(batch)
        self._changed()
        return batch.num_rows

    def has_room(self) -> bool:
        """Whether a write would not block now."""
        if self._tail.bytes < self.limits.tail_bytes_max:
            return True
        with self._state:
            self._relieve()
            return self._tail.bytes < self.limits.tail_bytes_max

    def register(self, seq: int) -> StreamReader:
        """A reader whose first item is ``seq``.

        Raises:
            SequenceDiscardedError: ``seq`` is below the low-water mark.
            SequenceNotReadyError: ``seq`` is past the end (``next_seq`` itself is fine).
        """
        with self._state:
            if seq < self._first_seq:
                raise SequenceDiscardedError(self.stream_id, seq, self._first_seq)
            if seq > self._tail.next_seq:
                raise SequenceNotReadyError(self.stream_id, seq, self._tail.next_seq)
        return LocalReader(self, seq, self._log)

    def garbage_collect(self, seq: int) -> None:
        """Nobody needs what is below ``seq``: move the low-water mark there (never back).

        Frees memory (of a durable stream only what is durable) and whole segments.
        """
        with self._state:
            mark = min(seq, self._tail.next_seq)
            if mark <= self._first_seq:
                return
            self._first_seq = mark
            if self.durability == "volatile":
                self._tail.mark_durable(max(mark, self._tail.durable_seq))
            before = self._tail.bytes
            self._tail.drop_below(mark)
            if self._tail.bytes < before:
                self._full_since_s = None
            self._state.notify_all()
            collectable = min(mark, self._tail.durable_seq)
        if self._log.has_below(collectable):
            self._background.submit(lambda: self._log.collect(collectable))
        self._changed()

    def flush(self, timeout_s: float = 60.0) -> int:
        """Make everything written so far durable; returns ``durable_seq``.

        Raises:
            StoreError: it failed, or took longer than ``timeout_s``.
        """
        with self._state:
            self._raise_failure()
            target = self._tail.next_seq
            self._force_seq = max(self._force_seq, target)
        self._flusher.kick()
        with self._state:
            self._state.wait_for(
                lambda: self._failure is not None or self._tail.durable_seq >= target, timeout_s
            )
            self._raise_failure()
            if self._tail.durable_seq < target:
                raise StoreError(self._log.uri, f"flush took longer than {timeout_s:g} s")
            return self._tail.durable_seq

    def request_flush(self) -> None:
        """Have everything written so far flushed soon; returns at once."""
        with self._state:
            self._raise_failure()
            self._force_seq = max(self._force_seq, self._tail.next_seq)
        self._flusher.kick()

    def close(self, *, flush: bool = True) -> None:
        """Write no more. An async stream is flushed first, unless told not to.

        Raises:
            StoreError: the last flush failed; the stream is closed all the same.
        """
        if self._is_closed:
            return
        try:
            if flush and self.durability == "async":
                self.flush(self.limits.close_wait_s)
        finally:
            with self._state:
                self._is_closed = True
                self._state.notify_all()
            if self._owns_background:
                self._background.close()

    def read_tail(self, seq: int, items_max: int) -> tuple[bool, Items | None]:
        """For readers: whether ``seq`` is not below memory, and the items from there."""
        with self._state:
            if seq < self._tail.first_seq:
                return False, None
            return True, self._tail.read(seq, items_max)

    def wait_for(self, seq: int, timeout_s: float) -> bool:
        """For readers: wait until ``seq`` is written or the stream is closed."""
        with self._state:
            self._state.wait_for(lambda: self._tail.next_seq > seq or self._is_closed, timeout_s)
            return self._tail.next_seq > seq

    def check(self) -> None:
        """Assert the invariants."""
        with self._state:
            self._tail.check()
            assert self._first_seq <= self._tail.next_seq, (self._first_seq, self._tail.next_seq)
            assert self.tail_bytes >= 0, self.tail_bytes

    def _append(self, batch: pa.RecordBatch) -> None:
        limits = self.limits
        with self._state:
            self._tail.append(batch)
            if self.durability == "sync":
                self._tail.mark_durable(self._tail.next_seq)
                self._tail.drop_until(limits.tail_bytes_max // 2)
            self._state.notify_all()
            is_full = self._tail.bytes >= limits.tail_bytes_max
            if self.durability == "volatile":
                if is_full and self._full_since_s is None:
                    self._full_since_s = self._clock.monotonic_s()
                    self._background.submit_later(limits.spill_after_s, self._on_spill_timer)
                return
            if self.durability == "async" and not self._is_timer_set:
                self._is_timer_set = True
                self._background.submit_later(limits.flush_interval_ms / 1e3, self._on_flush_timer)
            is_due = self._is_flush_due()
        if is_due:
            self._flusher.kick()

    def _drop_repeated(self, seq: int, batch: pa.RecordBatch) -> None:
        """Count items that are there already; in verify mode compare what can still be read."""
        self.duplicates += batch.num_rows
        if not self._verify:
            return
        given = Items(seq, batch).from_seq(min(max(seq, self._first_seq), seq + batch.num_rows))
        cursor = SegmentCursor(self._log)
        while given.batch.num_rows:
            in_memory, kept = self.read_tail(given.first_seq, given.batch.num_rows)
            if not in_memory:
                kept = cursor.read(given.first_seq, given.batch.num_rows)
            if kept is None:
                break
            mine = content_hashes(given.head(kept.batch.num_rows).batch)
            differs = mine != content_hashes(kept.batch)
            if differs.any():
                raise SequenceConflictError(self.stream_id, given.first_seq + int(differs.argmax()))
            given = given.from_seq(kept.next_seq)
        cursor.close()

    def _wait_for_room(self) -> None:
        limits = self.limits
        with self._state:
            started_s = self._clock.monotonic_s()
            while not self.has_room():
                self._raise_failure()
                left_s = limits.write_wait_s - (self._clock.monotonic_s() - started_s)
                if left_s <= 0 or not self._state.wait(left_s):
                    raise BackPressureError(self.stream_id, limits.write_wait_s)

    def _relieve(self) -> None:
        """The tail is full: free what may go, and see to it that more may. Holds ``_state``."""
        self._tail.drop_until(self.limits.tail_bytes_max // 2)
        if self._tail.bytes < self.limits.tail_bytes_max:
            return
        if self.durability == "async":
            self._force_seq = max(self._force_seq, self._tail.next_seq)
            self._flusher.kick()
        elif self.durability == "volatile":
            now_s = self._clock.monotonic_s()
            self._full_since_s = now_s if self._full_since_s is None else self._full_since_s
            if now_s - self._full_since_s >= self.limits.spill_after_s:
                self._spill()

    def _spill(self) -> None:
        """Nobody consumes: move the oldest part of a volatile tail to Parquet. Holds ``_state``."""
        self._full_since_s = None
        self._is_spill_wanted = True
        self._flusher.kick()

    def _on_spill_timer(self) -> None:
        with self._state:
            if self._full_since_s is not None and self._tail.bytes >= self.limits.tail_bytes_max:
                self._spill()

    def _on_flush_timer(self) -> None:
        with self._state:
            self._is_timer_set = False
            self._force_seq = max(self._force_seq, self._tail.next_seq)
        self._flusher.kick()

    def _is_flush_due(self) -> bool:
        tail, limits = self._tail, self.limits
        if self.durability == "volatile" or self._force_seq > tail.flushing_seq:
            return self._force_seq > tail.flushing_seq
        return (
            tail.unflushed_bytes >= limits.segment_bytes_max
            or tail.next_seq - tail.flushing_seq >= limits.segment_rows_max
        )

    def _take(self) -> Items | None:
        """The next cut to flush. Holds ``_state``."""
        if self._failure is not None:
            return None
        limits = self.limits
        bytes_max = limits.segment_bytes_max
        if self._is_spill_wanted:
            self._is_spill_wanted = False
            bytes_max = min(bytes_max, limits.tail_bytes_max // 2)
        elif not self._is_flush_due():
            return None
        return self._tail.cut(limits.segment_rows_max, bytes_max)

    def _flushed(self, items: Items, error: StreamEngineError | None) -> None:
        with self._state:
            if error is None:
                self._tail.mark_durable(max(items.next_seq, self._tail.durable_seq))
                self._tail.drop_below(self._first_seq)
                self._tail.drop_until(self.limits.tail_bytes_max // 2)
            else:
                self._failure = error
                self._tail.abandon_flush()
            self._state.notify_all()
        self._changed()

    def _raise_failure(self) -> None:
        with self._state:
            if self._is_closed:
                raise StoreError(self._log.uri, "the stream is closed")
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure

    def _changed(self) -> None:
        if self._on_change is not None:
            self._on_change()

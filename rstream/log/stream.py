"""RStream: a numbered, replayable log of items; combines tail, flusher and segments.

Regions: deleted | durable (Parquet) | volatile (memory). The first write of a seq wins; later
writes are counted and dropped, and compared in verify mode. A reader gets exactly the items that
were written at a seq. A gap, a read below the low-water mark and a read past the end are three
distinct errors. A full tail blocks the writer and never drops items. ``_write_lock`` serialises
writers. ``_state`` guards all state and is never held during I/O. Source: StreamScope NSDI'16.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from rstream.clock import Clock, SystemClock
from rstream.errors import (
    BackPressureError,
    SequenceDiscardedError,
    SequenceGapError,
    SequenceNotReadyError,
    StoreError,
    StreamEngineError,
)
from rstream.items.batch import Items, item_schema, validate_items
from rstream.limits import Durability, StreamLimits
from rstream.log.background import Background, ThreadBackground
from rstream.log.compaction import Compactor
from rstream.log.conflicts import check_same
from rstream.log.durable import DurableLog
from rstream.log.flush import Flusher, FlushPolicy
from rstream.log.listeners import Listeners
from rstream.log.reader import LocalReader, StreamReader
from rstream.log.retention import collect, mark_below
from rstream.log.shared import SharedWriter
from rstream.log.tail import Cut, VolatileTail
from rstream.store.blobs import open_store, remove_temporaries

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from rstream.format.table import TableForm
    from rstream.store.protocol import BlobStore


class RStream:
    """One stream, opened by a writer (it may have several). Use :meth:`open` to create it."""

    def __init__(
        self,
        log: DurableLog,
        payload: pa.Schema,
        *,
        start_seq: int | None,
        durability: Durability,
        limits: StreamLimits,
        background: Background | None,
        clock: Clock,
        verify: bool,
        shared: bool,
        on_change: Callable[[], None] | None,
    ) -> None:
        self.stream_id = log.stream
        self.payload, self.schema = payload, item_schema(payload)
        self.durability, self.limits = durability, limits
        self.duplicates, self._log = 0, log
        is_volatile = durability == "volatile"
        self._first_seq, next_seq = log.resume_at(start_seq, is_volatile=is_volatile)
        self._tail = VolatileTail(next_seq)
        self._clock, self._verify, self.listeners = clock, verify, Listeners(on_change)
        self._background = background or ThreadBackground("rstream-flush")
        self._owns_background = not background
        self._state, self._write_lock = threading.Condition(), threading.Lock()
        write = SharedWriter(log, verify=verify).write if shared else log.write
        take, done = self._take, self._flushed
        self._flusher = Flusher(self._background, self._state, take=take, write=write, done=done)
        self._policy = FlushPolicy(limits, is_volatile=is_volatile)
        self._failure: StreamEngineError | None = None
        self._is_timer_set = self._is_read = self._is_closed = False
        self._compactor = Compactor(log, limits, self._background, lambda: self._is_closed)

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
        shared: bool = False,
        form: TableForm | None = None,
        generation: int = 0,
        keeps_digest: bool = False,
        on_change: Callable[[], None] | None = None,
    ) -> RStream:
        """Open the stream in a folder for writing. An incomplete segment of a crash is removed.

        ``start_seq``: next seq of the writer (None: the durable end); writes below the durable end
        are dropped. ``shared``: replicas also write it. ``generation``: number of job changes.

        Raises:
            SequenceGapError: ``start_seq`` is past the durable end and the stream is not volatile.
            CorruptSegmentError: the last segment is damaged and there is no ``start_seq``.
            InvalidBatchError: the folder has items of another payload.
        """
        store = open_store(uri_or_store) if isinstance(uri_or_store, str) else uri_or_store
        remove_temporaries(store)
        schema, stream = item_schema(payload), stream_id or store.uri
        log = DurableLog(store, stream, schema=schema, form=form, generation=generation)
        log.keeps_digest = keeps_digest
        log.check_schema(schema, set_aside_torn=start_seq is not None)
        return cls(
            log,
            payload,
            start_seq=start_seq,
            durability=durability,
            limits=limits or StreamLimits(),
            background=background,
            clock=clock or SystemClock(),
            verify=verify,
            shared=shared,
            on_change=on_change,
        )

    @property
    def first_seq(self) -> int:
        """The low-water mark. Items below it cannot be read."""
        return self._first_seq

    @property
    def durable_seq(self) -> int:
        """The end of the items that survive this process, or that are not needed if volatile."""
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
        return self._tail.first_seq

    def append(self, batch: pa.RecordBatch) -> int:
        """Write at the end; return the number of new items."""
        return self.write(self.next_seq, batch)

    def write(
        self, seq: int, batch: pa.RecordBatch, *, is_valid: bool = False, digest: bytes = b""
    ) -> int:
        """Write items from ``seq`` on; return how many were new.

        Items that exist already are counted and dropped. Blocks while the tail is full.
        ``is_valid=True`` skips the check of the batch. ``digest``: digest of the batch, if known.

        Raises:
            SequenceGapError: ``seq > next_seq``.
            InvalidBatchError: the batch does not match this stream's schema.
            BackPressureError: no room within ``limits.write_wait_s``.
            SequenceConflictError: (verify mode) a dropped item differs from the existing item.
            StoreError: an earlier flush failed (it is retried), or this sync write did.
        """
        if not is_valid:
            validate_items(self.stream_id, batch, self.schema)
        with self._write_lock:
            self._raise_failure()
            next_seq = self._tail.next_seq
            if seq > next_seq:
                raise SequenceGapError(self.stream_id, seq, next_seq)
            repeated = min(next_seq - seq, batch.num_rows)
            if repeated:
                self._drop_repeated(seq, batch.slice(0, repeated))
                batch, digest = batch.slice(repeated), b""
            if batch.num_rows == 0:
                return 0
            if self.durability == "sync":
                self._log.write(Items(next_seq, batch, digest))
            else:
                self._wait_for_room()
            self._append(batch, digest)
        self.listeners.call()
        return int(batch.num_rows)

    def has_room(self) -> bool:
        """Return whether a write would not block. Raises StoreError: full, and a flush failed."""
        if self._tail.bytes < self.limits.tail_bytes_max:
            return True
        with self._state:
            self._raise_failure()
            return self._relieve()

    def register(self, seq: int, *, ahead: bool = False) -> StreamReader:
        """Open a reader whose first item is ``seq``.

        ``ahead``: ``seq`` may be past the end; the reader waits until it is written.

        Raises:
            SequenceDiscardedError: ``seq`` is below the low-water mark.
            SequenceNotReadyError: ``seq`` is past the end (``next_seq`` itself is allowed).
        """
        with self._state:
            if seq < self._first_seq:
                raise SequenceDiscardedError(self.stream_id, seq, self._first_seq)
            if seq > self._tail.next_seq and not ahead:
                raise SequenceNotReadyError(self.stream_id, seq, self._tail.next_seq)
            self._is_read = True
        return LocalReader(self, seq, self._log)

    def garbage_collect(self, seq: int) -> None:
        """Set the low-water mark to ``seq``, and free memory and segments below it."""
        with self._state:
            mark = mark_below(self._log, min(seq, self._tail.next_seq), self._tail.durable_seq)
            if mark <= self._first_seq:
                return
            self._first_seq = mark
            if self.durability == "volatile":
                self._tail.mark_durable(max(mark, self._tail.durable_seq))
            was_full = self._tail.bytes >= self.limits.tail_bytes_max
            self._tail.drop_below(mark)
            self._policy.note_progress()
            self._state.notify_all()
            collectable = min(mark, self._tail.durable_seq)
        if self._log.has_below(collectable):
            final = self.durability != "volatile"
            self._background.submit(lambda: collect(self._log, collectable, is_final=final))
        if was_full:
            self.listeners.call()

    def flush(self, timeout_s: float = 60.0) -> int:
        """Make everything written so far durable; returns ``durable_seq``.

        Raises:
            StoreError: the flush failed, or took longer than ``timeout_s``.
        """
        target = self._tail.next_seq
        self.request_flush()
        with self._state:
            self._background.wait_for(
                self._state, lambda: bool(self._failure) or self.durable_seq >= target, timeout_s
            )
            self._raise_failure()
            if self._tail.durable_seq < target:
                raise StoreError(self._log.uri, f"flush took longer than {timeout_s:g} s")
            return self._tail.durable_seq

    def request_flush(self) -> None:
        """Flush everything written so far soon; return at once."""
        with self._state:
            self._raise_failure()
            self._policy.request(self._tail.next_seq)
        self._flusher.kick()

    def close(self, *, flush: bool = True) -> None:
        """Stop writing. ``flush``: flush an async stream first.

        Raises:
            StoreError: the flush failed; the stream is closed anyway.
        """
        if self._is_closed:
            return
        try:
            if flush and self.durability == "async":
                self._failure = None  # closing retries the flush
                self.flush(self.limits.close_wait_s)
        finally:
            with self._state:
                self._is_closed = True
                self._state.notify_all()
            if self._owns_background:
                self._background.close()

    def read_tail(self, seq: int, items_max: int) -> tuple[bool, Items | None]:
        """Return, for readers, whether ``seq`` is in memory or later, and the items from it on."""
        with self._state:
            if seq < self._tail.first_seq:
                return False, None
            return True, None if seq > self._tail.next_seq else self._tail.read(seq, items_max)

    def wait_for(self, seq: int, timeout_s: float) -> bool:
        """Wait, for readers, until ``seq`` is written or the stream is closed."""
        with self._state:
            self._state.wait_for(lambda: self._tail.next_seq > seq or self._is_closed, timeout_s)
            return self._tail.next_seq > seq

    def check(self) -> None:
        """Assert the invariants; for tests."""
        self._log.check()
        with self._state:
            self._tail.check()
            assert self._first_seq <= self._tail.next_seq, (self._first_seq, self._tail.next_seq)

    def _append(self, batch: pa.RecordBatch, digest: bytes) -> None:
        with self._state:
            self._tail.append(batch, digest)
            if self.durability == "sync":
                self._tail.mark_durable(self._tail.next_seq)
                self._trim()
            self._state.notify_all()
            is_full = self._tail.bytes >= self.limits.tail_bytes_max
            if self.durability == "volatile":
                if is_full and self._policy.note_full(self._clock.monotonic_s()):
                    self._background.submit_later(self.limits.spill_after_s, self._spill_if_stuck)
                return
            if self.durability == "async" and not self._is_timer_set:
                self._is_timer_set = True
                delay_s = self.limits.flush_interval_ms / 1e3
                self._background.submit_later(delay_s, self._on_flush_timer)
            if self._policy.is_due(self._tail):
                self._flusher.kick()

    def _drop_repeated(self, seq: int, batch: pa.RecordBatch) -> None:
        """Count items that exist already. In verify mode, compare them if they can be read."""
        self.duplicates += batch.num_rows
        if not self._verify:
            return
        given = Items(seq, batch).from_seq(min(max(seq, self._first_seq), seq + batch.num_rows))
        reader = LocalReader(self, given.first_seq, self._log)
        check_same(self.stream_id, lambda _, rows: reader.read_next(rows), given)
        reader.close()

    def _wait_for_room(self) -> None:
        limits = self.limits
        deadline_s = self._clock.monotonic_s() + limits.write_wait_s
        waited_s = 0.0
        with self._state:
            while not self.has_room():
                self._raise_failure()
                left_s = min(deadline_s - self._clock.monotonic_s(), limits.write_wait_s - waited_s)
                if left_s <= 0:
                    raise BackPressureError(self.stream_id, limits.write_wait_s)
                step_s = min(left_s, limits.spill_after_s)
                if not self._state.wait(step_s):
                    waited_s += step_s

    def _trim(self) -> None:
        """Keep at most half a tail of durable items in memory for readers; none without readers."""
        self._tail.drop_until(self.limits.tail_bytes_max // 2 if self._is_read else 0)

    def _relieve(self) -> bool:
        """Drop durable items from a full tail, and request a flush. The caller has ``_state``."""
        self._trim()
        if self._tail.bytes < self.limits.tail_bytes_max:
            return True
        if self.durability == "async":
            self._policy.request(self._tail.next_seq)
            self._flusher.kick()
        elif self.durability == "volatile":
            self._policy.note_full(self._clock.monotonic_s())
            self._spill_if_stuck()
        return self._tail.bytes < self.limits.tail_bytes_max

    def _spill_if_stuck(self) -> None:
        with self._state:
            is_full = self._tail.bytes >= self.limits.tail_bytes_max
            if is_full and self._policy.spill_if_stuck(self._clock.monotonic_s()):
                self._flusher.kick()

    def _on_flush_timer(self) -> None:
        with self._state:
            self._is_timer_set = False
            self._policy.request(self._tail.next_seq)
        self._flusher.kick()

    def _take(self) -> Cut | None:
        """Return the next items to flush; None once closed. The caller holds ``_state``."""
        is_over = self._is_closed or self._failure is not None
        return None if is_over else self._policy.take(self._tail)

    def _flushed(self, cut: Cut, error: StreamEngineError | None) -> None:
        with self._state:
            if error is None:
                end = max(self._log.contiguous_end(cut.next_seq), self._tail.durable_seq)
                # Other writers may have stored more
                self._tail.mark_durable(min(end, self._tail.next_seq))
                self._tail.drop_below(self._first_seq)
                self._trim()
            else:
                self._failure = error
                self._tail.abandon_flush()
            self._state.notify_all()
        self._compactor.kick()
        self.listeners.call()

    def _raise_failure(self) -> None:
        with self._state:
            if self._is_closed:
                raise StoreError(self._log.uri, "the stream is closed")
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure

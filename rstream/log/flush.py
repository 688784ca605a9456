"""Flushing: writes parts of a stream's tail as segments, in the background.

:class:`FlushPolicy` decides when to flush and how much (pure); :class:`Flusher` does it. A *cut* is
the part of the tail that becomes one segment. It waits at most ``StreamLimits.flush_interval_ms``;
the timer is in :mod:`rstream.log.stream`.

A stream writes at most one cut at a time, so segments appear in order and a crash leaves no hole.
After each segment the flusher moves to the end of the background's queue, so that many streams
share its threads fairly.

Invariants: (1) ``_is_running`` if and only if a task is queued or running; (2) it is reset only
under the stream's lock, when there is nothing to flush, so no kick is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rstream.errors import StoreError, StreamEngineError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from rstream.limits import StreamLimits
    from rstream.log.background import Background
    from rstream.log.tail import Cut, VolatileTail


class FlushPolicy:
    """Decides when to end a segment, and where. Guarded by the stream's lock.

    An async stream flushes when enough is unflushed, or on request (by its timer, by ``flush``, by
    a full tail). A volatile stream flushes only on request, or to spill. It spills when its tail
    has been full for ``spill_after_s`` while no item was consumed, and then whenever the tail is
    full, until an item is consumed. So a MERGE that waits for another channel cannot block the
    writer forever.
    """

    def __init__(self, limits: StreamLimits, *, is_volatile: bool) -> None:
        self._limits = limits
        self._is_volatile = is_volatile
        self._requested_seq = 0
        self._is_spilling = False
        self._full_since_s: float | None = None

    def request(self, seq: int) -> None:
        """Request that everything below ``seq`` is flushed."""
        self._requested_seq = max(self._requested_seq, seq)

    def note_full(self, now_s: float) -> bool:
        """Record that the tail is full; return whether it was not full before."""
        if self._full_since_s is not None:
            return False
        self._full_since_s = now_s
        return True

    def note_progress(self) -> None:
        """Record that a reader has consumed items."""
        self._full_since_s = None
        self._is_spilling = False

    def spill_if_stuck(self, now_s: float) -> bool:
        """Return whether to spill, because the tail has been full for too long."""
        since_s = self._full_since_s
        if since_s is not None and now_s - since_s >= self._limits.spill_after_s:
            self._is_spilling = True
        return self._is_spilling

    def is_due(self, tail: VolatileTail) -> bool:
        """Return whether a flush is due now."""
        limits = self._limits
        if self._requested_seq > tail.flushing_seq:
            return True
        if self._is_spilling and tail.bytes >= limits.tail_bytes_max:
            return True
        return not self._is_volatile and (
            tail.unflushed_bytes >= limits.segment_bytes_max
            or tail.next_seq - tail.flushing_seq >= limits.segment_rows_max
        )

    def take(self, tail: VolatileTail) -> Cut | None:
        """Return the next items to flush; None if no flush is due."""
        if not self.is_due(tail):
            return None
        limits = self._limits
        bytes_max = limits.segment_bytes_max
        if self._is_spilling and self._requested_seq <= tail.flushing_seq:
            half = limits.tail_bytes_max // 2
            bytes_max = min(bytes_max, max(half, tail.bytes - half))
        return tail.cut(limits.segment_rows_max, bytes_max)


class Flusher:
    """Repeats ``take -> write -> done`` until ``take`` returns None.

    Args:
        lock: the stream's lock; held while ``take`` is called.
        take: returns the next cut, or None.
        write: makes the cut durable; called without the lock.
        done: called with the cut and its error or None, without the lock.
    """

    def __init__(
        self,
        background: Background,
        lock: threading.Condition,
        *,
        take: Callable[[], Cut | None],
        write: Callable[[Cut], None],
        done: Callable[[Cut, StreamEngineError | None], None],
    ) -> None:
        self._background = background
        self._lock = lock
        self._take, self._write, self._done = take, write, done
        self._is_running = False

    @property
    def is_running(self) -> bool:
        return self._is_running

    def kick(self) -> None:
        """Check soon whether a cut is due."""
        with self._lock:
            if self._is_running:
                return
            self._is_running = True
        self._background.submit(self._run)

    def _run(self) -> None:
        with self._lock:
            cut = self._take()
            if cut is None:
                self._is_running = False
                self._lock.notify_all()
                return
        error: StreamEngineError | None = None
        try:
            self._write(cut)
        except StreamEngineError as failure:
            error = failure
        except Exception as failure:  # the next write or flush raises the error
            error = StoreError(f"[{cut.first_seq}, {cut.next_seq})", repr(failure))
        self._done(cut, error)
        self._background.submit(self._run)

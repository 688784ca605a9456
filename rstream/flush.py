"""The flusher: moves cuts of a stream's tail into segments, away from the critical path.

At most one cut of a stream is on its way, so segments appear in order and a crash leaves no hole.
After each segment the flusher goes to the end of the background's queue: many streams share its
threads fairly.

Invariants: (1) ``_is_running`` iff a task is queued or runs; (2) it is only cleared together with
the answer "nothing to take", under the stream's lock, so no kick is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rstream.errors import StoreError, StreamEngineError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from rstream.background import Background
    from rstream.batch import Items


class Flusher:
    """Runs ``take -> write -> done`` while ``take`` gives something.

    Args:
        lock: the stream's lock; held while ``take`` is called.
        take: the next cut, or None.
        write: makes the cut durable; called without the lock.
        done: told the cut and what went wrong, or None; called without the lock.
    """

    def __init__(
        self,
        background: Background,
        lock: threading.Condition,
        *,
        take: Callable[[], Items | None],
        write: Callable[[Items], None],
        done: Callable[[Items, StreamEngineError | None], None],
    ) -> None:
        self._background = background
        self._lock = lock
        self._take, self._write, self._done = take, write, done
        self._is_running = False

    @property
    def is_running(self) -> bool:
        return self._is_running

    def kick(self) -> None:
        """Look whether there is something to flush, soon."""
        with self._lock:
            if self._is_running:
                return
            self._is_running = True
        self._background.submit(self._run)

    def _run(self) -> None:
        with self._lock:
            items = self._take()
            if items is None:
                self._is_running = False
                self._lock.notify_all()
                return
        error: StreamEngineError | None = None
        try:
            self._write(items)
        except StreamEngineError as failure:
            error = failure
        except Exception as failure:  # never lost: it is raised by the next write or flush
            error = StoreError(f"[{items.first_seq}, {items.next_seq})", repr(failure))
        self._done(items, error)
        self._background.submit(self._run)
